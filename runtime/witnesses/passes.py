"""Backward passes as events: what their roots were, and where their graphs had been freed.

While all passes are made at one place, that place has freed whatever turns out to be freed.  From the first pass at
another place on, and at the very first passes, whose graphs may have been there before the guard was, every node a
freeing pass could reach is stamped, up to nodes that are stamped already.  The stamp is a number: what outlives the
guard in a graph the user keeps refers to nothing.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from gradlint.events import Backward, BackwardAsked, SavedTensorChanged, Tensor
from gradlint.facts import FALSE, TRUE, known
from gradlint.finding import Finding

from ..calls import BackwardCall
from ..frames import FrameSite
from ..judging import Judge
from ..records.ages import Ages, Update
from ..records.graph_breaks import GraphBreaks
from ..records.walks import nodes_below
from ..records.writes import Writes

Kind = tuple["FrameSite", bool, bool, bool, tuple[bool, bool, torch.device, bool] | None]

NODES = 5000  #: of a graph that are asked for what they have saved
LOOKS = 8  #: for each place where parameters are written through ``.data``
STAMPED = 4  #: passes whose graphs are stamped in any case

FREED = "backward through the graph a second time"
NO_GRAPH = "does not require grad and does not have a grad_fn"
CHANGED = re.compile(
    r"modified by an inplace operation: \[\S+ \[(?P<shape>[\d, ]*)\]\](?:, which is output \d+ of (?P<operation>\w+))?"
)

_guards = itertools.count(1)
_EDGE = Tensor(freed=FALSE)
_AccumulateGrad: type = type(torch.autograd.graph.get_gradient_edge(torch.zeros((), requires_grad=True)).node)


class BackwardPasses:
    """Sends a :class:`~gradlint.events.Backward` for each run of the engine; remembers what each one freed."""

    def __init__(self, judge: Judge, writes: Writes, breaks: GraphBreaks, ages: Ages) -> None:
        self._judge = judge
        self._ages = ages
        self._stale: list[Update] = []
        self._breaks = breaks
        self._writes = writes
        self._key = f"gradlint.{next(_guards)}"
        self._looks: Counter[FrameSite] = Counter()
        self._serials: dict[FrameSite, int] = {}
        self._sites: list[FrameSite] = []
        self._freeing = 0  # passes that freed their graphs
        self._only: FrameSite | None = None  # of all of them, once no more graphs are stamped
        self._born: int = torch._C._autograd._get_sequence_nr()  # nodes of later graphs have higher numbers
        self._views: dict[tuple[bool, bool, str, bool], Tensor] = {}
        self._kind: Kind | None = None  # of the pass under way
        self._alike: Backward | None = None  # what an earlier pass of this kind was told as
        self._accepted: dict[Kind, Backward] = {}  # no check objects to them

    def backward_begins(self, call: BackwardCall) -> None:
        if self._writes.behind:
            self._find_written(call)
        self._stale = self._ages.stale(map(_node, call.roots)) if self._ages.updates else []
        silent = [update for update in self._stale if update.silent] if self._stale else []
        root = call.roots[0] if call.roots else None
        described = None
        if isinstance(root, torch.Tensor):
            described = root.requires_grad, root.is_leaf, root.device, root.numel() == 1
        kind: Kind | None = None
        if root is not None and not silent:
            kind = call.site, call.retain, call.create, call.accumulates, described
        if kind != self._kind or self._alike is None:  # no hashes are asked for in an ordinary training
            self._kind = kind
            self._alike = None if kind is None else self._accepted.get(kind)
        call.event = self._alike or self._event(call, stale_at=silent[-1].site if silent else None)
        if described is not None and described[0] and described[1]:
            view = self._breaks.described(root, call.event.root)
            self._judge.send(BackwardAsked(site=call.site, root=view))

    def _find_written(self, call: BackwardCall) -> None:
        """Parameters that were written through ``.data`` since the graph was built that needs them."""
        written = [one for one in self._writes.behind if self._looks[one.site] < LOOKS]
        for site in {one.site for one in written}:
            self._looks[site] += 1
        for node in itertools.islice(nodes_below(map(_node, call.roots)), NODES) if written else ():
            for one in written:
                if one.is_needed_by(node):
                    written = [other for other in written if other.site != one.site]
                    self._judge.send(
                        SavedTensorChanged(
                            site=call.site,
                            tensor=Tensor(is_parameter=TRUE),
                            operation=node.name(),
                            noticed=FALSE,
                            changed_at=one.site,
                        )
                    )
                    break

    def backward_ended(self, call: BackwardCall) -> None:
        if self._is_ordinary(call) and self._ages.walked_again(call.roots, call.site):
            return
        overtaken = self._ages.overtaken() if self._ages.overtakes else ()
        if call.error is None:
            if overtaken:
                call.event = self._event(call, stale_at=overtaken[-1].site)
            self._judge_pass(call)
            if not call.retain:
                self._remember_freed(call)
        else:
            call.explained = [*call.explained, *self._explain(call, str(call.error))]

    def _is_ordinary(self, call: BackwardCall) -> bool:
        """Whether there is nothing to say about a pass, nor to remember but that it has walked its graph."""
        return (
            call.site is self._only
            and call.event is self._alike
            and call.error is None
            and not call.retain
            and not self._ages.overtakes
        )

    def _judge_pass(self, call: BackwardCall) -> None:
        event = call.event
        if event is None or event is self._alike:
            return
        if self._judge.accepts(event) and self._kind is not None:
            self._accepted[self._kind] = event

    def _explain(self, call: BackwardCall, error: str) -> list[Finding]:
        """What an error of the engine is about."""
        if FREED in error:
            call.event = self._event(call, freed=True, freed_at=self._freed_at(call.roots))
            return self._judge.send(call.event)
        assert call.event is not None
        if NO_GRAPH in error:
            view = self._breaks.described(call.roots[0], call.event.root)
            return self._judge.send(BackwardAsked(site=call.site, root=view, noticed=TRUE))
        if changed := CHANGED.search(error):
            shape = tuple(int(size) for size in changed["shape"].split(", ") if size)
            if steps := [update for update in self._stale if update.may_have_changed(shape)]:
                return self._judge.send(self._event(call, stale_at=steps[-1].site))
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

    def _event(
        self,
        call: BackwardCall,
        freed: bool = False,
        freed_at: FrameSite | None = None,
        stale_at: FrameSite | None = None,
    ) -> Backward:
        root = self._view(call.roots[0]) if call.roots else Tensor()
        if freed or stale_at is not None or not call.roots:
            root = replace(root, freed=known(freed), freed_at=freed_at, stale_at=stale_at)
        return Backward(
            site=call.site,
            root=root,
            retain_graph=known(call.retain),
            create_graph=known(call.create),
            accumulates=call.accumulates,
        )

    def _view(self, root: Any) -> Tensor:
        """What there is to say about a root whose graph is there; made once for all that are alike."""
        if not isinstance(root, torch.Tensor):
            return _EDGE
        key = root.requires_grad, root.is_leaf, root.device.type, root.numel() == 1
        view = self._views.get(key)
        if view is None:
            requires_grad, is_leaf, device, scalar = key
            view = self._views[key] = Tensor(
                requires_grad=known(requires_grad),
                is_leaf=known(is_leaf),
                device=known(device),
                scalar=known(scalar),
                freed=FALSE,
            )
        return view

    def _remember_freed(self, call: BackwardCall) -> None:
        self._freeing += 1
        nodes = [node for node in map(_node, call.roots) if node is not None]
        if self._freeing > STAMPED and len(self._sites) == 1 and self._sites[0] is call.site:
            self._only = call.site
            self._ages.walked(nodes, call.site)
            return
        self._only = None
        serial = self._serials.get(call.site)
        if serial is None:
            serial = self._serials[call.site] = len(self._sites)
            self._sites.append(call.site)
        if len(self._sites) > 1 or self._freeing <= STAMPED:
            self._stamp(nodes, serial)
        else:
            self._ages.walked(nodes, call.site)

    def _stamp(self, nodes: list[Any], serial: int) -> None:
        key = self._key
        while nodes:
            node = nodes.pop()
            if type(node) is _AccumulateGrad:
                continue  # saves nothing, and can outlive its graph
            metadata = node.metadata
            if key in metadata:
                continue
            metadata[key] = serial
            self._ages.freed(node, self._sites[serial])
            nodes += [child for child, _ in node.next_functions if child is not None]

    def _freed_at(self, roots: Iterable[Any]) -> FrameSite | None:
        """Where the nearest part of the graph was freed."""
        seen = {node for node in map(_node, roots) if node is not None}
        nodes = deque(seen)
        oldest = sys.maxsize
        while nodes:
            node = nodes.popleft()
            if type(node) is not _AccumulateGrad:
                if self._key in node.metadata:
                    serial: int = node.metadata[self._key]
                    return self._sites[serial]
                oldest = min(oldest, node._sequence_nr())
            for child, _ in node.next_functions:
                if child is not None and child not in seen:
                    seen.add(child)
                    nodes.append(child)
        # Freed before there were stamps; unless a part of it was made, and perhaps freed, before there was a guard.
        return self._sites[0] if self._freeing > STAMPED and oldest >= self._born else None


def _node(root: Any) -> Any:
    """The node of a tensor, or of a ``GradientEdge``."""
    return root.grad_fn if isinstance(root, torch.Tensor) else root.node
