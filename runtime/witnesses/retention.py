"""Backward passes that retain their graph, and whether a later one has walked any part of it."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

from gradlint.events import GraphRetained

from ..records.walks import Mark, Walks, below
from ..roster import Resting

if TYPE_CHECKING:
    from ..calls import BackwardCall, StepCall
    from ..frames import FrameSite
    from ..judging import Judge

MANY = 20  #: passes at one place: when none of the graphs they retained was walked again, none will be


class _Retained(Mark):
    """A graph that was retained."""

    __slots__ = ("root", "steps")

    def __init__(self, root: weakref.ref[Mark], steps: int) -> None:
        super().__init__()
        self.root = root
        self.steps = steps  # made before it

    def was_in_vain(self, steps: int) -> bool:
        """Whether nothing walks it any more: its root is gone, or its parameters have changed."""
        return not self.walked and (self.root() is None or steps > self.steps)


class Retention(Resting):
    """Reports places whose backward passes retain graphs for nothing, each time."""

    RESTS_FROM = ("step_ended",)  # until a graph was retained

    def __init__(self, judge: Judge, walks: Walks) -> None:
        self._judge = judge
        self._walks = walks
        self._steps = 0
        self._retained: dict[FrameSite, list[_Retained]] = {}
        self._settled: set[FrameSite] = set()  # needed at times, or reported
        self.rest()

    def graph_retained(self, call: BackwardCall) -> None:
        """To be told after the walks."""
        if call.error is not None or call.create or not call.accumulates:
            return
        if call.site in self._settled:
            return
        earlier = self._retained.setdefault(call.site, [])
        if any(one.walked for one in earlier):
            self._settle(call.site)
        elif len(earlier) == MANY:
            self._judge.send(GraphRetained(site=call.site))
            self._settle(call.site)
        else:
            root = Mark()
            retained = _Retained(weakref.ref(root), self._steps)
            earlier.append(retained)
            self.wake()
            self._walks.put(retained, below(call.roots))
            self._walks.put(root, [node for node in map(_node, call.roots) if node is not None])

    def step_ended(self, _: StepCall) -> None:
        self._steps += 1

    def finish(self, _: FrameSite) -> None:
        """The guard ends.  After an error, a walk that would have come may be missing."""
        for site, retained in self._retained.items():
            known = retained if sys.exc_info()[1] is None else retained[:-1]
            if any(one.was_in_vain(self._steps) for one in known) and not any(one.walked for one in known):
                self._judge.send(GraphRetained(site=site))
        self._retained = {}

    def _settle(self, site: FrameSite) -> None:
        self._settled.add(site)
        del self._retained[site]


def _node(root: object) -> object:
    return root.node if hasattr(root, "node") else getattr(root, "grad_fn", None)
