"""Backward passes as events: what their roots were, and where their graphs had been freed.

After a pass that frees its graph every node it could reach is stamped, up to nodes that are stamped already.  The
stamp is a number: what outlives the guard in a graph the user keeps refers to nothing.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from gradlint.events import Backward, BackwardAsked, SavedTensorChanged, Tensor
from gradlint.facts import TRUE, known
from gradlint.finding import Finding

from .ages import Ages, Update
from .cuts import Cuts
from .datawrites import Writes
from .frames import FrameSite
from .interception import BackwardCall
from .judging import Judge

FREED = "backward through the graph a second time"
NO_GRAPH = "does not require grad and does not have a grad_fn"
CHANGED = re.compile(
    r"modified by an inplace operation: \[\S+ \[(?P<shape>[\d, ]*)\]\](?:, which is output \d+ of (?P<operation>\w+))?"
)

_guards = itertools.count(1)
_AccumulateGrad: type = type(torch.autograd.graph.get_gradient_edge(torch.zeros((), requires_grad=True)).node)


class BackwardPasses:
    """Sends a :class:`~gradlint.events.Backward` for each run of the engine; remembers what each one freed."""

    def __init__(self, judge: Judge, writes: Writes, cuts: Cuts, ages: Ages) -> None:
        self._judge = judge
        self._ages = ages
        self._stale: list[Update] = []
        self._cuts = cuts
        self._writes = writes
        self._key = f"gradlint.{next(_guards)}"
        self._serials: dict[FrameSite, int] = {}
        self._sites: list[FrameSite] = []

    def backward_begins(self, call: BackwardCall) -> None:
        self._stale = self._ages.stale(map(_node, call.roots))
        silent = [update for update in self._stale if update.silent]
        call.event = _event(call, stale_at=silent[-1].site if silent else None)
        root = call.roots[0] if call.roots else None
        if isinstance(root, torch.Tensor) and root.requires_grad and root.grad_fn is None:
            view = self._cuts.described(root, call.event.root)
            self._judge.send(BackwardAsked(site=call.site, root=view))

    def backward_ended(self, call: BackwardCall) -> None:
        if call.error is None:
            assert call.event is not None
            self._judge.send(call.event)
            if not call.retain:
                self._stamp(call.roots, call.site)
        else:
            call.explained += self._explain(call, str(call.error))

    def _explain(self, call: BackwardCall, error: str) -> list[Finding]:
        """What an error of the engine is about."""
        if FREED in error:
            call.event = _event(call, freed=True, freed_at=self._freed_at(call.roots))
            return self._judge.send(call.event)
        assert call.event is not None
        if NO_GRAPH in error:
            view = self._cuts.described(call.roots[0], call.event.root)
            return self._judge.send(BackwardAsked(site=call.site, root=view, noticed=TRUE))
        if changed := CHANGED.search(error):
            shape = tuple(int(size) for size in changed["shape"].split(", ") if size)
            if steps := [update for update in self._stale if update.may_have_changed(shape)]:
                return self._judge.send(_event(call, stale_at=steps[-1].site))
            return self._judge.send(
                SavedTensorChanged(
                    site=call.site,
                    tensor=Tensor(),
                    operation=changed["operation"] or "",
                    noticed=TRUE,
                    changed_at=self._writes.of_shape(shape),
                )
            )
        return []

    def _stamp(self, roots: Iterable[Any], site: FrameSite) -> None:
        serial = self._serials.get(site)
        if serial is None:
            serial = self._serials[site] = len(self._sites)
            self._sites.append(site)
        key = self._key
        nodes = [node for node in map(_node, roots) if node is not None]
        while nodes:
            node = nodes.pop()
            if type(node) is _AccumulateGrad:
                continue  # saves nothing, and can outlive its graph
            metadata = node.metadata
            if key in metadata:
                continue
            metadata[key] = serial
            self._ages.freed(node, site)
            nodes += [child for child, _ in node.next_functions if child is not None]

    def _freed_at(self, roots: Iterable[Any]) -> FrameSite | None:
        """Where the nearest part of the graph was freed."""
        seen = {node for node in map(_node, roots) if node is not None}
        nodes = deque(seen)
        while nodes:
            node = nodes.popleft()
            if type(node) is not _AccumulateGrad and self._key in node.metadata:
                serial: int = node.metadata[self._key]
                return self._sites[serial]
            for child, _ in node.next_functions:
                if child is not None and child not in seen:
                    seen.add(child)
                    nodes.append(child)
        return None


def _node(root: Any) -> Any:
    """The node of a tensor, or of a ``GradientEdge``."""
    return root.node if hasattr(root, "node") else root.grad_fn


def _event(
    call: BackwardCall, freed: bool = False, freed_at: FrameSite | None = None, stale_at: FrameSite | None = None
) -> Backward:
    root = call.roots[0] if call.roots else None
    view = Tensor(freed=known(freed), freed_at=freed_at, stale_at=stale_at)
    if isinstance(root, torch.Tensor):
        view = Tensor(
            requires_grad=known(root.requires_grad),
            is_leaf=known(root.is_leaf),
            device=known(root.device.type),
            scalar=known(root.numel() == 1),
            freed=known(freed),
            freed_at=freed_at,
            stale_at=stale_at,
        )
    return Backward(
        site=call.site,
        root=view,
        retain_graph=known(call.retain),
        create_graph=known(call.create),
        accumulates=call.accumulates,
    )
