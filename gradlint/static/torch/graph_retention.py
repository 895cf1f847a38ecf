"""Graphs that are kept: what retains or holds one, since when, and what walked it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from gradlint import events
from gradlint.facts import known
from gradlint.intents import Append
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import newest, reachable
from gradlint.static.state.context import Context, Ledger, Ledgers
from gradlint.static.state.provenance import is_constant_or_number
from gradlint.static.state.values import (
    Const,
    Frame,
    Instance,
    Object,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.units import NodeSite
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

_GIVEN = 0  #: stands for the segments of a value of which none are known


class GraphRetention:
    """Tells where a graph is kept that is spent, or that nothing walks."""

    _ledgers: Ledgers
    _witness: Witness
    _tensors: Tensors
    _graphs: Graphs
    _evaluation: Evaluation

    def __init__(self) -> None:
        self._retained: Ledger[int, set[Site]] = self._ledgers.open()  #: where backward passes retained a segment
        self._kept_in: Ledger[int, tuple[Site, int]] = self._ledgers.open()
        """By a segment, where its graph was kept, and when."""
        self._kept_whole: Ledger[int, set[Site]] = self._ledgers.open()
        """By a segment that was walked and retained, where it was kept as if nothing would walk it again."""
        self._idle: Ledger[int, set[Site]] = self._ledgers.open()
        """By a segment that nothing has walked, where it was kept."""
        self._behind: Ledger[int, frozenset[int]] = self._ledgers.open()
        """By a segment of a gradient: those of what was derived."""

    # --- retaining

    def derived(self, result: Ref, value: Value, w: World) -> None:
        """``result`` is the gradient of a value, with a graph of its own: it holds that of the value as well."""
        own = max(w.write(result.id).segments)
        self._behind[own] = self._behind.get(own, frozenset()) | (self._graphs.reached(value, w) or {_GIVEN})

    def _held(self, segments: Iterable[int]) -> frozenset[int]:
        """Segments, and those of what was derived for them."""
        found, queue = set[int](), list(segments)
        while queue:
            key = queue.pop()
            if key not in found:
                found.add(key)
                queue += self._behind.get(key, ())
        return frozenset(found)

    def retained(self, root: Value, w: World, ctx: Context, site: Site) -> None:
        """A backward pass with ``retain_graph=True``, and not with ``create_graph``, walked from ``root``."""
        reached = self._graphs.reached(root, w)
        segments = self._held(reached)
        for key in segments:
            segment = w.find(key)
            if isinstance(segment, Segment):
                new: Segment = w.write(key)
                new.retained_at |= {site}
                new.walked_at = site if key in reached and not new.freed else new.walked_at
        if not segments or _GIVEN in segments or not _is_told(site):
            # The graph of a value that was given may be walked again by the giver.  A helper that hands on what it is
            # told retains the graph for one caller, and for another it need not.
            self._witness.withdraw(events.GraphRetained, site)
            return
        for key in segments:
            self._retained.setdefault(key, set()).add(site)
        self._witness.send(events.GraphRetained(site=site), w, ctx)

    # --- walking

    def walks(self, root: Value, w: World, *, certain: bool = True) -> None:
        """A backward pass walks from ``root``, or may: what was retained of its graph was needed."""
        kept: dict[Site, int] = {}
        for key in self._graphs.reached(root, w):
            segment = w.find(key)
            retained = self._retained.get(key, set())
            for site in retained & segment.retained_at if isinstance(segment, Segment) else retained:
                self._witness.withdraw(events.GraphRetained, site)
            while self._kept_whole.get(key):
                self._witness.withdraw(events.ValueKept, self._kept_whole[key].pop())
            self._used(key)
            if key in self._kept_in:
                site, iteration = self._kept_in[key]
                # Of several iterations, it is all that was kept; a graph of that iteration which was freed is none, or
                # this raises.
                several = kept.setdefault(site, iteration) != iteration
                freed = isinstance(segment, Segment) and segment.presumed and segment.freed
                if several or (certain and freed and self._graphs.made(key) >= iteration):
                    self._witness.withdraw(events.ValueKept, site)

    def escaped(self, values: Iterable[Value], w: World) -> None:
        """Values left the code that is followed: their graphs may be walked there, where some are left to walk."""
        values = list(values)
        if self._retained:
            for value in self._tensors.tensors_in(values, w):
                if not self._retained.keys().isdisjoint(self._graphs.reached(value, w)):
                    self.walks(value, w, certain=False)
        if self._idle:
            held = [obj for key in reachable(values, w) if isinstance(obj := w.find(key), Tensor)]
            for key in frozenset[int]().union(*(tensor.segments | tensor.reaches for tensor in held)):
                self._used(key)

    def missed(self, cut_at: Site, values: Iterable[Value], w: World) -> None:
        """A backward pass was to walk the graphs of values, and they were cut: nothing may cut them further."""
        self._witness.dispute(Append, cut_at)
        for value in self._tensors.tensors_in(values, w):
            for key in self._graphs.reached(value, w):
                for site in self._idle.get(key, ()):
                    self._witness.dispute(Append, site)

    def _used(self, segment: int) -> None:
        """A graph that is kept is walked after all, or may be."""
        while sites := self._idle.get(segment):
            self._witness.withdraw(events.GraphKept, sites.pop())

    # --- totals and lists

    def summed(
        self,
        target: cst.CSTNode,
        held: Value,
        value: Value,
        w: World,
        ctx: Context,
        site: Site,
        whole: bool = True,
    ) -> None:
        """A value was added to a running total: ``total += loss``, ``total = total + loss``.

        What is added to the ``whole`` of it is a measure; an average (``x = 0.9 * x + 0.1 * y``) may be of anything.
        """
        held = w.resolve(held)
        age = w.age(held) if isinstance(held, Ref) else newest(held.key) if isinstance(held, Unknown) else ctx.iteration
        if age < ctx.iteration and not self._witness.muted:
            if whole:
                self._evaluation.measured([value], False, w, ctx, likely=True)
            frame = w.find(ctx.frame)
            own = isinstance(frame, Frame) and type(target) is cst.Name and target.value in frame.vars
            tensor = w.get(held, Tensor)
            begun = 0 if tensor is None else tensor.total_since or age
            self._kept([held], value, "sum", own and whole, begun, w, ctx, site)

    def totalled(self, held: Value, total: Value, w: World, ctx: Context) -> None:
        """``total`` is what a running total became that was ``held``: it goes back to where that was a number."""
        if isinstance(total, Ref) and w.get(total, Tensor) is not None and total != held:
            before = w.get(held, Tensor)
            now = ctx.iteration if isinstance(held, Const) else 0
            w.write(total.id).total_since = now if before is None else before.total_since or w.age(held)

    def collected(self, ref: Ref, value: Value, w: World, ctx: Context, site: Site) -> None:
        """A value is about to be put into a list that may hold those of earlier iterations, put in at the same site."""
        sequence = w.get(ref, Sequence)
        if w.age(ref) >= ctx.iteration or sequence is None or self._witness.muted:
            return
        held = [item for item, where in zip(sequence.items, sequence.sites, strict=False) if where == site]
        if sequence.tail is not None and sequence.tail_site == site:
            held.append(sequence.tail)
        held = [item for item in held if not self._are_apart(item, value, w.age(ref), w)]
        own = self._is_own(ref, w, ctx)
        if self._tensors.has_parts(w.get(w.resolve(value), Object)):
            self._kept(self._tensors.tensors_in(held, w), value, "parts", own, w.age(ref), w, ctx, site)
        else:
            self._kept(held, value, "list", own, w.age(ref), w, ctx, site)

    def _are_apart(self, one: Value, other: Value, begun: int, w: World) -> bool:
        """Whether two losses are those of two models, which were there before the list that was ``begun``, then.

        Such a list holds one graph for each of the models, and none of another iteration of a training.
        """
        deps = [tensor.deps for value in (one, other) if (tensor := w.get(w.resolve(value), Tensor)) is not None]
        return len(deps) == 2 and all(own and max(own) < begun for own in deps) and deps[0].isdisjoint(deps[1])

    def _is_own(self, ref: Ref, w: World, ctx: Context) -> bool:
        """Whether a variable of the function at hand holds a list, and no object."""
        frame = w.find(ctx.frame)
        named = isinstance(frame, Frame) and any(w.resolve(value) == ref for value in frame.vars.values())
        return named and not any(ref in obj.attrs.values() for _, obj in w.all(Instance))

    def _kept(
        self,
        held: list[Value],
        value: Value,
        where: str,
        own: bool,
        since: int,
        w: World,
        ctx: Context,
        site: Site,
    ) -> None:
        """A value is kept beside others, in a total or list that is there ``since`` then."""
        if not self._witness.listened(events.ValueKept):
            return
        numbers = [is_constant_or_number(w.resolve(one)) for one in each_of(w.resolve(value))]
        if any(numbers):  # which have no graph, and no methods of tensors
            self._witness.dispute(Append, site)
        if all(numbers):
            return
        walked_at = None
        for old in held if not self._may_be_no_tensor(value, w) else ():
            if self._graphs.carries(old, w):
                walked_at = self._walked_before(old, since, w, ctx, site) or walked_at
        event = events.ValueKept(
            site=site,
            value=self._tensors.view_of(value, w),
            where=where,
            spent=known(walked_at is not None),
            walked_at=walked_at,
        )
        for part in self._tensors.tensors_in([value], w):
            self._kept_in |= dict.fromkeys(self._graphs.reached(part, w), (site, ctx.iteration))
        if held:
            self._witness.send(event, w, ctx)
        kept = [*held, value]
        idle = own and walked_at is None and not ctx.in_forward and self._is_loss(value, w, ctx)
        if held and idle and all(self._is_idle(each, w) for each in kept):
            for key in frozenset[int]().union(*(self._graphs.reached(each, w) for each in kept)):
                self._idle.setdefault(key, set()).add(site)
            self._witness.send(events.GraphKept(site=site, where=where), w, ctx)

    def _may_be_no_tensor(self, value: Value, w: World) -> bool:
        """Whether a value is a part of one of several that a model returned: it may be a figure."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and tensor.structured and tensor.supposed and tensor.part_of is not None

    def _walked_before(self, old: Value, since: int, w: World, ctx: Context, site: Site) -> Site | None:
        """Where the graph was walked of a value that an earlier iteration kept at ``site``.

        A value that is one of several has one of their graphs: it was walked if all of them were.
        """
        reached = [key for key in sorted(self._graphs.reached(old, w)) if self._graphs.is_there(key)]
        walked = {key: place for key in reached if (place := self._walked_at(key, since, w, ctx)) is not None}
        undoubted = self._graphs.undoubted(old, w)
        sure = [key for key in walked if key in undoubted]
        if not sure and len(walked) == len(reached) and self._tensors.requires_grad(old, w):
            sure = reached
        if not sure:
            return None
        first = w.find(sure[0])
        if isinstance(first, Segment) and not first.freed:
            self._kept_whole.setdefault(sure[0], set()).add(site)
        return walked[sure[0]]

    def _walked_at(self, key: int, since: int, w: World, ctx: Context) -> Site | None:
        """Where a segment that was made before this iteration was walked, for what is there ``since`` then."""
        segment = w.find(key)
        if self._graphs.made(key) >= ctx.iteration or not isinstance(segment, Segment):
            return None
        if segment.stamp < since and not any(max(since, key) < start for start in ctx.around):
            return None  # it came with what is kept, in a total or list that an iteration around begins anew
        return segment.freed_at if segment.freed else segment.walked_at

    def _is_loss(self, value: Value, w: World, ctx: Context) -> bool:
        """Whether a value is a single number, with a graph of its own: all of that was made in this iteration."""
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is None or tensor.size != "one":
            return False
        return min(self._graphs.reached(value, w), default=0) >= ctx.iteration

    def _is_idle(self, value: Value, w: World) -> bool:
        """Whether a value is sure to hold a graph that nothing has walked."""
        if w.grad is not True or not (self._tensors.requires_grad(value, w) or self._tensors.is_output(value, w)):
            return False
        segments = [segment for key in self._graphs.reached(value, w) if isinstance(segment := w.find(key), Segment)]
        return bool(segments) and not any(segment.freed or segment.walked_at for segment in segments)


def _is_told(site: Site) -> bool:
    """Whether a call says itself that the graph is retained, instead of handing on what its caller or object says."""
    if not isinstance(site, NodeSite) or not isinstance(call := site.node, cst.Call):
        return True
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    said = named.get("retain_graph")
    if said is None:
        return all(argument.star != "**" for argument in call.args)
    parameters = site.unit.parameters if isinstance(site.unit, FunctionUnit) else ()
    handed_on = isinstance(said, cst.Name) and said.value in parameters
    return not handed_on and not isinstance(said, cst.Attribute)


__all__ = ["GraphRetention"]
