"""Graphs that pile up although backward passes have walked and freed them, and the variable that keeps them.

How many there are is counted by what the ages of graphs know anyway.  Only when they have become more from step to
step are the program's frames looked through for what keeps them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import Tensor, ValueKept
from gradlint.facts import TRUE, known

from ..frames import is_foreign
from ..growth import Attribute, Growing, Item, Place, where_it_grows
from ..roster import Resting

if TYPE_CHECKING:
    from ..calls import StepCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..records.ages import Ages, Stamp

SUMMED = 2  #: graphs of as many steps in the graph of one value are a sum that grows
LISTED = 2  #: of as many steps before the last one, in one container, are no leftovers
NODES = 3000  #: of the graph of one value that are looked at
VALUES = 2000  #: of one frame
PARTS = 8  #: of an item of a list
DEPTH = 3  #: of attributes and containers below a variable


@dataclass(slots=True, eq=False)
class _Keeper:
    """A variable, or what hangs on it, that keeps graphs."""

    growing: Growing
    steps: set[int]  #: by which the graphs it keeps were freed: all at once, they were walked as a whole
    stamp: Stamp
    frame: FrameType

    @property
    def grows(self) -> bool:
        """Whether what it keeps can only have been added by and by."""
        return len(self.steps) >= SUMMED


class KeptGraphs(Resting):
    """Reports where values are added to those that are kept with their graphs."""

    RESTS_FROM = ("step_ended",)  # while there are few graphs

    def __init__(self, judge: Judge, ages: Ages) -> None:
        self._judge = judge
        self._ages = ages
        self._next = ages.many = SUMMED  # how many there must be for the next look
        ages.when_many = self.wake
        self.rest()

    def step_ended(self, call: StepCall) -> None:
        """To be told after the ages."""
        if call.within is not None:
            return
        if len(self._ages.stamps) < self._next:
            self.rest()
            return
        if self._ages.spent < self._next or len(self._ages.spent_in()) < SUMMED:
            return
        self._next += max(1, self._next // 4)
        self._ages.many = self._next
        self._look()

    def finish(self, _: FrameSite) -> None:
        """The guard ends: a short training may have kept what it has kept since the last look."""
        if len(self._ages.spent_in()) >= SUMMED:
            self._look()

    def _look(self) -> None:
        for frame in _users_frames():
            search = _Search(self._ages, frame)
            for keeper in search.keepers():
                growing = keeper.growing
                place = where_it_grows(growing, frame.f_code, search.names) if keeper.grows else None
                if place is None:
                    continue
                self._judge.send(
                    ValueKept(
                        site=place,
                        value=Tensor(requires_grad=known(True)),
                        where="list" if growing.container else "sum",
                        spent=TRUE,
                        walked_at=keeper.stamp.freed_at,
                        keeper=str(growing.place),
                    )
                )


class _Search:
    """Looks through what the names of a frame stand for."""

    def __init__(self, ages: Ages, frame: FrameType) -> None:
        self._ages = ages
        self._frame = frame
        self._budget = VALUES
        self._seen: set[int] = set()
        used = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
        self.names: dict[str, Any] = {**used, **frame.f_locals}  #: variables, and the globals that are used

    def keepers(self) -> Iterator[_Keeper]:
        """What keeps graphs that a backward pass has freed."""
        for name, value in list(self.names.items()):
            if not name.startswith("__"):
                yield from self._under(Place(name), value, DEPTH, ())

    def _under(self, place: Place, value: Any, depth: int, objects: tuple[tuple[Any, int], ...]) -> Iterator[_Keeper]:
        self._budget -= 1
        if self._budget < 0 or id(value) in self._seen:
            return
        if isinstance(value, torch.Tensor):
            if stamps := self._stamps(value):
                yield self._keeper(place, stamps, False, objects)
            return
        self._seen.add(id(value))
        if isinstance(value, (list, deque)) and getattr(value, "maxlen", None) is None:
            yield from self._listed(place, value, objects)
        elif isinstance(value, dict) and depth:
            yield from self._listed(place, list(value.values()), objects)
            for key, part in list(value.items()):
                yield from self._under(place.below(Item(repr(key))), part, depth - 1, objects)
        elif type(value) is tuple and depth:
            for index, part in enumerate(value[:PARTS]):
                yield from self._under(place.below(Item(repr(index))), part, depth - 1, objects)
        elif depth and hasattr(value, "__dict__") and not isinstance(value, type) and _is_users(value):
            within = (*objects, (value, len(place.path)))
            for key, part in list(vars(value).items()):
                yield from self._under(place.below(Attribute(key)), part, depth - 1, within)

    def _listed(self, place: Place, values: Sequence[Any], objects: tuple[tuple[Any, int], ...]) -> Iterator[_Keeper]:
        stamps = [stamp for one in values for tensor in _tensors_in(one) for stamp in self._stamps(tensor)[:1]]
        if len({stamp.freed_in for stamp in stamps} - {self._ages.last}) >= LISTED:
            yield self._keeper(place, stamps, True, objects)

    def _keeper(
        self, place: Place, stamps: list[Stamp], container: bool, objects: tuple[tuple[Any, int], ...]
    ) -> _Keeper:
        steps = {stamp.freed_in for stamp in stamps}
        return _Keeper(Growing(place, container, objects), steps, stamps[0], self._frame)

    def _stamps(self, tensor: torch.Tensor) -> list[Stamp]:
        """What is spent in the graph of a tensor: as many stamps as prove that it grows, or for a list one."""
        nodes = [] if tensor.grad_fn is None else [tensor.grad_fn]
        met = set(nodes)
        found: list[Stamp] = []
        while nodes and len(met) < NODES:
            node = nodes.pop()
            if (stamp := self._ages.spent_stamp(node)) is not None:
                found.append(stamp)
            for child, _ in node.next_functions:
                if child is not None and child not in met:
                    met.add(child)
                    nodes.append(child)
        return found


def _tensors_in(item: Any) -> Iterator[torch.Tensor]:
    """The tensors of an item of a container: itself, or those of a tuple, list, dict or record."""
    if isinstance(item, torch.Tensor):
        yield item
        return
    if type(item) is dict or type(item) is list or isinstance(item, tuple):
        parts = list(item.values()) if isinstance(item, dict) else list(item)
    elif hasattr(item, "__dict__") and not isinstance(item, (type, torch.nn.Module)) and _is_users(item):
        parts = list(vars(item).values())
    else:  # of others even a look may do something
        return
    yield from (part for part in parts[:PARTS] if isinstance(part, torch.Tensor))


def _is_users(value: Any) -> bool:
    module = sys.modules.get(type(value).__module__)
    return not is_foreign(getattr(module, "__file__", None) or "<frozen builtins>")


def _users_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_foreign(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back
