"""Graphs that are kept: what holds one, since when, and what walked it.

A backward pass frees the segments of known graphs.  What an unknown callable returns may carry a graph as well; it is
followed by *presumed* segments, which no rule takes for a proof that walking them twice raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from gradlint import events
from gradlint.facts import known
from gradlint.static.escapes import reachable
from gradlint.static.provenance import key_of
from gradlint.static.sameness import newest
from gradlint.static.values import (
    Const,
    Frame,
    Group,
    Instance,
    Object,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.world import World, fresh

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.context import Context
    from gradlint.static.interpreter import Interpreter
    from gradlint.static.ledger import Ledger


@dataclass(frozen=True, slots=True)
class _Trace:
    """What an unknown value was computed from."""

    segments: frozenset[int] = frozenset()  #: presumed segments
    calls: frozenset[int] = frozenset()  #: of modules, as :mod:`gradlint.static.evaluation` numbers them


_NOTHING = _Trace()
_GIVEN = 0  #: stands for the segments of a value of which none are known

#: attributes of tensors that are no tensors
_FACTS = frozenset(
    ["device", "dtype", "grad_fn", "is_cuda", "is_leaf", "layout", "names", "ndim", "requires_grad", "shape"]
)


class Graphs:
    """Follows graphs through values that are not known, and tells when a spent one is kept."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self._traces: Ledger[Hashable, _Trace] = machine.ledgers.open()  #: by the key of an unknown value
        self._own: Ledger[Hashable, int] = machine.ledgers.open()
        """By the key of the result of an unknown call, or of an item of it: its own presumed segment."""
        self._whole: Ledger[int, int] = machine.ledgers.open()
        """By the segment of an item: that of the result it is an item of."""
        self._presumed: Ledger[int, None] = machine.ledgers.open()  #: all of those
        self._callees: Ledger[int, Hashable] = machine.ledgers.open()  #: by the segment of a result: what was called
        self._retained: Ledger[int, set[Site]] = machine.ledgers.open()  #: where backward passes retained a segment
        self._kept_in: Ledger[int, tuple[Site, int]] = machine.ledgers.open()
        """By a segment, where its graph was kept, and when."""
        self._kept_whole: Ledger[int, set[Site]] = machine.ledgers.open()
        """By a segment that was walked and retained, where it was kept as if nothing would walk it again."""
        self._idle: Ledger[int, set[Site]] = machine.ledgers.open()
        """By a segment that nothing has walked, where it was kept."""
        self._proven: Ledger[int, None] = machine.ledgers.open()
        """Presumed segments of what was walked, or came from a module by its name."""
        self._ones: Ledger[int, None] = machine.ledgers.open()
        """Segments that stand for those of several values, each of which has one."""
        self._behind: Ledger[int, frozenset[int]] = machine.ledgers.open()
        """By a segment of a gradient: those of what was derived."""

    # --- following

    def called(self, result: Unknown, callee: Value, method: str, args: Iterable[Value], w: World) -> None:
        """An unknown callable returned ``result``: it may carry a graph of its own, over those of its arguments."""
        given = self.m.tensors.tensors_in([*args, callee], w)
        calls = frozenset[int]().union(*(self.m.evaluation.calls(v, w) for v in given))
        if w.grad is not False:
            before = frozenset[int]().union(*(self.reached(v, w) for v in given))
            own = self._own[result.key] = fresh()
            self._presumed[own] = None
            self._callees[own] = key_of(callee), method
            self._traces[result.key] = _Trace(before | {own}, calls)
            if isinstance(result.key, tuple) and result.key[2:] == ("forward",) and w.grad:
                self._proven[own] = None
        elif calls:
            self._traces[result.key] = _Trace(frozenset(), calls)

    def walked(self, root: Value, w: World) -> None:
        """A backward pass starts from a value: the operation, or the one unknown call, behind it made a graph."""
        self.proven(w.get(root, Tensor))
        if not isinstance(root, Unknown):
            return
        own = {self._own_of(key) for key in self._bases(root.key) if key in self._own or self._is_item(key)}
        if len({self._whole.get(key, key) for key in own}) == 1:
            self._proven |= dict.fromkeys(own)

    def proven(self, tensor: Tensor | None) -> None:
        """A tensor is sure to require grad: so the operation behind it made a graph."""
        if tensor is not None and tensor.segments:
            self._proven[max(tensor.segments)] = None

    def _bases(self, key: Hashable) -> Iterator[Hashable]:
        if not isinstance(key, tuple) or key in self._own or len(key) < 2 or self._is_item(key):
            yield key
        elif key[0] in ("binary", "unary"):
            for part in key[2:]:
                yield from self._bases(part)
        elif key[0] in ("attribute", "item"):
            yield from self._bases(key[1])

    def reached(self, value: Value, w: World) -> frozenset[int]:
        """The segments, presumed ones included, that a backward pass from ``value`` walks."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            return tensor.segments | tensor.reaches
        return self._of_key(value.key, w).segments if isinstance(value, Unknown) else frozenset()

    def of_known(self, value: Value, w: World) -> frozenset[int]:
        """The segments of the tensors in ``value``, without presumed ones."""
        tensors = (w.get(part, Tensor) for part in self.m.tensors.tensors_in([value], w))
        return frozenset[int]().union(*(tensor.segments for tensor in tensors if tensor is not None))

    def calls(self, key: Hashable, w: World) -> frozenset[int]:
        """The calls of modules whose outputs an unknown value was computed from."""
        return self._of_key(key, w).calls

    def callees(self, value: Value, w: World) -> frozenset[Hashable]:
        """What unknown callables made the values that one was computed from."""
        return frozenset(self._callees.get(self._whole.get(key, key)) for key in self.presumed(value, w))

    def presumed(self, value: Value, w: World) -> frozenset[int]:
        """The presumed segments behind ``value``, each made an object of this world."""
        tensor = w.get(value, Tensor)
        segments = tensor.reaches if tensor is not None else self.reached(value, w)
        for key in segments:
            if w.find(key) is None:
                w.new(Segment(presumed=True), key=key)
        return segments

    def _of_key(self, key: Hashable, w: World) -> _Trace:
        found = self._traces.get(key)
        if found is not None:
            return found
        if isinstance(key, Ref):
            return _Trace(self.reached(key, w), self.m.evaluation.calls(key, w))
        if not isinstance(key, tuple) or len(key) < 2:
            return _NOTHING
        if key[0] == "attribute" and key[-1] in _FACTS:
            return _NOTHING
        if key[0] == "attribute" and key[-1] == "data":  # of a tensor: without its graph
            return _Trace(frozenset(), self._part(key[1], w).calls)
        if self._is_item(key) and not isinstance(w.bound.get(key[1]), Ref):
            whole = self._part(key[1], w)
            return _Trace(whole.segments | {self._own_of(key)}, whole.calls)
        if key[0] in ("attribute", "item"):
            return self._part(key[1], w)
        if key[0] == "element":
            return self._part(key[2], w) if len(key) > 2 else _NOTHING
        if key[0] in ("binary", "unary"):
            parts = [self._part(part, w) for part in key[2:]]
            segments = frozenset[int]().union(*(part.segments for part in parts))
            return _Trace(segments, frozenset[int]().union(*(part.calls for part in parts)))
        return _NOTHING

    def _is_item(self, key: Hashable) -> bool:
        """Whether a key is that of an item of what an unknown callable returned."""
        return isinstance(key, tuple) and len(key) == 3 and key[0] == "item" and key[1] in self._own

    def _own_of(self, key: Hashable) -> int:
        """The presumed segment of such a result or item: one item may carry a graph, and another be a number."""
        if key not in self._own:
            assert isinstance(key, tuple)
            own = self._own[key] = fresh()
            self._presumed[own] = None
            self._whole[own] = self._own[key[1]]
        return self._own[key]

    def _part(self, key: Hashable, w: World) -> _Trace:
        bound = w.bound.get(key)
        return self._of_key(bound if isinstance(bound, Ref) else key, w)

    def derived(self, result: Ref, value: Value, w: World) -> None:
        """``result`` is the gradient of a value, with a graph of its own: it holds that of the value as well."""
        own = max(w.write(result.id).segments)
        self._behind[own] = self._behind.get(own, frozenset()) | (self.reached(value, w) or {_GIVEN})

    def _held(self, segments: Iterable[int]) -> frozenset[int]:
        """Segments, and those of what was derived for them."""
        found, queue = set[int](), list(segments)
        while queue:
            key = queue.pop()
            if key not in found:
                found.add(key)
                queue += self._behind.get(key, ())
        return frozenset(found)

    def passes_weights(self, inputs: list[Value], outputs: list[Value], w: World) -> bool:
        """Whether the gradient of the one input is sure to depend on parameters: it comes through a layer with some."""
        given = w.get(inputs[0], Tensor) if len(inputs) == 1 else None
        if given is None or not given.groups:
            return False
        for value in outputs:
            derived = w.get(w.resolve(value), Tensor)
            for key in derived.segments - derived.doubtful if derived is not None else ():
                segment = w.find(key)
                if isinstance(segment, Segment) and segment.result is not None:
                    groups = [w.find(group) for group in segment.weights]
                    made = w.find(segment.result)
                    trained = any(isinstance(group, Group) and group.requires_grad for group in groups)
                    others = given.groups.isdisjoint(segment.weights)
                    if trained and others and isinstance(made, Tensor) and given.groups <= made.deps:
                        return True
        return False

    def replanted(self, result: Ref, own: frozenset[int], parameters: Iterable[Value], w: World) -> None:
        """A module computed ``result`` with these parameters in the place of its ``own``."""
        new: Tensor = w.write(result.id)
        new.deps -= own
        for value in parameters:
            other = w.get(w.resolve(value), Tensor)
            new.deps |= self.m.tensors.deps(value, w)
            new.open = new.open or other is None or other.open
            if other is not None:
                new.segments |= other.segments
                new.doubtful |= other.doubtful
                new.reaches |= other.reaches
        answers = {self.m.tensors.requires_grad(value, w) for value in parameters}
        new.requires_grad = new.requires_grad if answers == {True} else None

    # --- one of many

    def made_since(self, value: Value, since: int, w: World) -> frozenset[int]:
        """The segments made after the number ``since`` that a value, or a tuple of values, has, or may have."""
        obj = w.get(w.resolve(value), Object)
        if isinstance(obj, Tensor):
            return frozenset(key for key in obj.segments if key > since)
        if isinstance(obj, Sequence) and not obj.mutable:
            return frozenset[int]().union(*(self.made_since(item, since, w) for item in obj.items))
        return frozenset()

    def one_of(self, value: Value, own: frozenset[int], w: World) -> Value:
        """One of the values that ``value`` stands for, of which each has segments of its own among ``own``."""
        obj = w.get(value, Object) if own else None
        if isinstance(obj, Tensor) and not own.isdisjoint(obj.segments):
            new: Tensor = obj.copy()
            new.doubtful |= own & obj.segments
            self._ones |= dict.fromkeys(own & obj.segments)
            return w.new(new)
        if isinstance(obj, Sequence) and not obj.mutable:
            items = [self.one_of(w.resolve(item), own, w) for item in obj.items]
            return w.new(Sequence(items, list(obj.sites), obj.tail, obj.tail_site, False, obj.fields))
        return value

    def of_others(self, segments: frozenset[int]) -> frozenset[int]:
        """Those of some segments that may be of another value than the one at hand: each of several has its own."""
        return segments & self._ones.keys() if self._ones else frozenset()

    # --- retaining

    def retained(self, root: Value, w: World, ctx: Context, site: Site) -> None:
        """A backward pass with ``retain_graph=True``, and not with ``create_graph``, walked from ``root``."""
        reached = self.reached(root, w)
        segments = self._held(reached)
        for key in segments:
            segment = w.find(key)
            if isinstance(segment, Segment):
                new: Segment = w.write(key)
                new.retained_at |= {site}
                new.walked_at = site if key in reached and not new.freed else new.walked_at
        if not segments or _GIVEN in segments:
            # The graph of a value that was given may be walked again by the giver.
            self.m.witness.withdraw(events.GraphRetained, site)
            return
        for key in segments:
            self._retained.setdefault(key, set()).add(site)
        self.m.witness.send(events.GraphRetained(site=site), w, ctx)

    def walks(self, root: Value, w: World, *, certain: bool = True) -> None:
        """A backward pass walks from ``root``, or may: what was retained of its graph was needed."""
        kept: dict[Site, int] = {}
        for key in self.reached(root, w):
            segment = w.find(key)
            retained = self._retained.get(key, set())
            for site in retained & segment.retained_at if isinstance(segment, Segment) else retained:
                self.m.witness.withdraw(events.GraphRetained, site)
            while self._kept_whole.get(key):
                self.m.witness.withdraw(events.ValueKept, self._kept_whole[key].pop())
            self._used(key)
            if key in self._kept_in:
                site, iteration = self._kept_in[key]
                # Of several iterations, it is all that was kept; a graph of that iteration which was freed is none, or
                # this raises.
                several = kept.setdefault(site, iteration) != iteration
                freed = isinstance(segment, Segment) and segment.presumed and segment.freed and key >= iteration
                if several or (certain and freed):
                    self.m.witness.withdraw(events.ValueKept, site)

    def escaped(self, values: Iterable[Value], w: World) -> None:
        """Values left the code that is followed: their graphs may be walked there."""
        values = list(values)
        if self._retained:
            for value in self.m.tensors.tensors_in(values, w):
                self.walks(value, w, certain=False)
        if self._idle:
            held = [obj for key in reachable(values, w) if isinstance(obj := w.find(key), Tensor)]
            for key in frozenset[int]().union(*(tensor.segments | tensor.reaches for tensor in held)):
                self._used(key)

    def _used(self, segment: int) -> None:
        """A graph that is kept is walked after all, or may be."""
        while sites := self._idle.get(segment):
            self.m.witness.withdraw(events.GraphKept, sites.pop())

    # --- keeping

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
        if age < ctx.iteration and not self.m.witness.muted:
            if whole:
                self.m.evaluation.measured([value], False, w, ctx, likely=True)
            frame = w.find(ctx.frame)
            own = isinstance(frame, Frame) and type(target) is cst.Name and target.value in frame.vars
            self._kept([held], value, "sum", own and whole, w, ctx, site)

    def totalled(self, held: Value, total: Value, w: World, ctx: Context) -> None:
        """``total`` is what a running total became that was ``held``: it goes back to where that was a number."""
        if isinstance(total, Ref) and w.get(total, Tensor) is not None and total != held:
            before = w.get(held, Tensor)
            now = ctx.iteration if isinstance(held, Const) else 0
            w.write(total.id).begun = now if before is None else before.begun

    def collected(self, ref: Ref, value: Value, w: World, ctx: Context, site: Site) -> None:
        """A value is about to be put into a list that may hold those of earlier iterations, put in at the same site."""
        sequence = w.get(ref, Sequence)
        if w.age(ref) >= ctx.iteration or sequence is None or self.m.witness.muted:
            return
        held = [item for item, where in zip(sequence.items, sequence.sites, strict=False) if where == site]
        if sequence.tail is not None and sequence.tail_site == site:
            held.append(sequence.tail)
        own = self._is_own(ref, w, ctx)
        if self.m.tensors.has_parts(w.get(w.resolve(value), Object)):
            self._kept(self.m.tensors.tensors_in(held, w), value, "parts", own, w, ctx, site)
        else:
            self._kept(held, value, "list", own, w, ctx, site)

    def _is_own(self, ref: Ref, w: World, ctx: Context) -> bool:
        """Whether a variable of the function at hand holds a list, and no object."""
        frame = w.find(ctx.frame)
        named = isinstance(frame, Frame) and any(w.resolve(value) == ref for value in frame.vars.values())
        objects = (obj for obj in w.heap.values() if isinstance(obj, Instance))
        return named and not any(ref in obj.attrs.values() for obj in objects)

    def _carries(self, value: Value, w: World) -> bool:
        """Whether a value is sure to hold the graphs behind it: what an unknown call returned may be a number."""
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is not None and tensor.segments and max(tensor.segments) in self._proven:
            return True
        newest_of_all = max(self.reached(value, w), default=0)
        return self._is_proven(newest_of_all) or newest_of_all not in self._presumed

    def _is_proven(self, segment: int) -> bool:
        """Whether a presumed segment is sure to be there: that of an item is, where that of the whole is."""
        whole = self._whole.get(segment)
        return segment in self._proven or (whole is not None and self._is_proven(whole))

    def _kept(self, held: list[Value], value: Value, where: str, own: bool, w: World, ctx: Context, site: Site) -> None:
        if not self.m.witness.listened(events.ValueKept):
            return
        walked_at = None
        for old in held:
            if not self._carries(old, w):
                continue
            tensor = w.get(w.resolve(old), Tensor)
            doubtful = tensor.doubtful - self._proven.keys() if tensor is not None else frozenset()
            begun = tensor.begun if tensor is not None else 0
            for key in sorted(self.reached(old, w) - doubtful):
                segment = w.find(key)
                if key >= ctx.iteration or not isinstance(segment, Segment):
                    continue
                if not segment.freed and segment.walked_at is None:
                    continue
                if segment.stamp < begun and not any(max(begun, key) < start for start in ctx.around):
                    continue  # what is added came with it, and the total is one of an iteration around
                if not segment.presumed or self._is_proven(key):
                    if not segment.freed:
                        self._kept_whole.setdefault(key, set()).add(site)
                    walked_at = segment.freed_at if segment.freed else segment.walked_at
                    break
        event = events.ValueKept(
            site=site,
            value=self.m.tensors.view_of(value, w),
            where=where,
            spent=known(walked_at is not None),
            walked_at=walked_at,
        )
        for part in self.m.tensors.tensors_in([value], w):
            self._kept_in |= dict.fromkeys(self.reached(part, w), (site, ctx.iteration))
        if held:
            self.m.witness.send(event, w, ctx)
        kept = [*held, value]
        idle = own and walked_at is None and not ctx.in_forward and self._is_loss(value, w, ctx)
        if held and idle and all(self._is_idle(each, w) for each in kept):
            for key in frozenset[int]().union(*(self.reached(each, w) for each in kept)):
                self._idle.setdefault(key, set()).add(site)
            self.m.witness.send(events.GraphKept(site=site, where=where), w, ctx)

    def _is_loss(self, value: Value, w: World, ctx: Context) -> bool:
        """Whether a value is a single number, with a graph of its own: all of that was made in this iteration."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and tensor.size == "one" and min(self.reached(value, w), default=0) >= ctx.iteration

    def _is_idle(self, value: Value, w: World) -> bool:
        """Whether a value is sure to hold a graph that nothing has walked."""
        if w.grad is not True or not (self.m.tensors.requires_grad(value, w) or self.m.tensors.is_output(value, w)):
            return False
        segments = [segment for key in self.reached(value, w) if isinstance(segment := w.find(key), Segment)]
        return bool(segments) and not any(segment.freed or segment.walked_at for segment in segments)


__all__ = ["Graphs"]
