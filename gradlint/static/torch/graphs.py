"""Graphs behind values: those of known operations, and those that unknown callables may have made.

A backward pass frees the segments of known graphs.  What an unknown callable returns may carry a graph as well; it is
followed by *presumed* segments, which no rule takes for a proof that walking them twice raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import LOSS_NAME
from gradlint.static.knowledge.torch_functions import SPECIAL_ATTRIBUTES
from gradlint.static.state.contents import united
from gradlint.static.state.context import Ledger, Ledgers
from gradlint.static.state.origins import (
    AttributeOf,
    ElementOf,
    ItemOf,
    OneOf,
    Operation,
    Result,
    UnaryOperation,
    fresh,
    is_origin,
    operands,
)
from gradlint.static.state.provenance import key_of, ways_into
from gradlint.static.state.values import (
    Choice,
    Const,
    Function,
    Group,
    Instance,
    Mapping,
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
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.tensors import Tensors


@dataclass(frozen=True, slots=True)
class _Trace:
    """What an unknown value was computed from."""

    segments: frozenset[int] = frozenset()  #: presumed segments
    calls: frozenset[int] = frozenset()  #: of modules, as :mod:`gradlint.static.torch.evaluation` numbers them
    numbers: frozenset[int] = frozenset()  #: the calls from whose outputs only numbers or arrays came here


_NOTHING = _Trace()

_LONG = 300  #: unknown calls behind one value that are told apart
_DEPTH = 5  #: of lists, tuples and dicts in one another whose tensors are looked for

#: attributes of tensors that are no tensors
_FACTS = frozenset([*SPECIAL_ATTRIBUTES - {"data", "grad"}, "names", "ndim"])


class Graphs:
    """Follows graphs through values that are not known, and learns which of them are sure to be there."""

    _ledgers: Ledgers
    _tensors: Tensors
    _breaks: GraphBreaks

    def __init__(self) -> None:
        self._traces: Ledger[Hashable, _Trace] = self._ledgers.open()  #: by the key of an unknown value
        self._own: Ledger[Hashable, int] = self._ledgers.open()
        """By the key of the result of an unknown call, or of an item of it: its own presumed segment."""
        self._held: Ledger[Hashable, frozenset[int]] = self._ledgers.open()
        """By the key of something unknown, the calls from whose outputs it was given something."""
        self._answered: Ledger[int, None] = self._ledgers.open()
        """The calls from whose outputs something unknown was given anything."""
        self._lent: Ledger[int, None] = self._ledgers.open()
        """Those of which it was given tensors that may carry the graph."""
        self._whole: Ledger[int, int] = self._ledgers.open()
        """By the segment of an item: that of the result it is an item of."""
        self._presumed: Ledger[int, None] = self._ledgers.open()  #: all of those
        self._callees: Ledger[int, Hashable] = self._ledgers.open()  #: by the segment of a result: what was called
        self._losses: Ledger[int, None] = self._ledgers.open()  #: segments of results of losses, by their names
        self._by_weights: Ledger[int, None] = self._ledgers.open()
        """By the segment of a result: if it is there, it is because of the weights of what was called."""
        self._trained: Ledger[Hashable, None] = self._ledgers.open()
        """What was called and turned out to have weights that are trained."""
        self._proven: Ledger[int, None] = self._ledgers.open()
        """Presumed segments of what was walked, or came from a module by its name."""
        self._ones: Ledger[int, None] = self._ledgers.open()
        """Segments that stand for those of several values, each of which has one."""

    # --- following

    def called(self, result: Unknown, callee: Value, method: str, args: Iterable[Value], w: World) -> bool:
        """An unknown callable returned ``result``: it may carry a graph of its own, over those of its arguments.

        Returns:
            Whether it does: a backward pass has shown that what was called has weights that are trained.
        """
        args = list(args)
        given = self._tensors.tensors_in([*args, callee], w)
        calls = united(self.outputs_behind(v, w) for v in given)
        numbers = self._told(callee, [*args, *given], w)
        if w.grad is not False:
            before = united(self.reached(v, w) for v in given)
            if len(before) > _LONG:  # one more adds nothing that could be told
                self._traces[result.key] = _Trace(before, calls, numbers)
                return False
            own = self._own[result.key] = fresh()
            self._presumed[own] = None
            self._callees[own] = key_of(callee), method
            self._traces[result.key] = _Trace(before | {own}, calls, numbers)
            if isinstance(result.key, Result) and result.key.of_module and w.grad:
                self._proven[own] = None
            if LOSS_NAME.search(method or getattr(callee, "hint", "")):
                self._losses[own] = None
            elif w.grad and not before and not any(self._breaks.carries(v, w, presume_data=True) for v in args):
                self._by_weights[own] = None
                return self._callees[own] in self._trained
        elif calls or numbers:
            self._traces[result.key] = _Trace(frozenset(), calls, numbers)
        return False

    def gave(self, call: int, value: Unknown, w: World) -> None:
        """A call of a module gave a value of which little is known, but that parameters are behind it."""
        trace = self._of_key(value.key, w)
        self._traces[value.key] = replace(trace, calls=trace.calls | {call})

    def _told(self, callee: Value, given: Iterable[Value], w: World) -> frozenset[int]:
        """The calls from whose outputs an unknown object was given something, in this call or before.

        An environment gives observations that depend on all actions before, a buffer what was put into it.  Modules and
        functions make what they return of what they are given, also where it costs too much to follow them.
        """
        module = w.get(callee, Instance)
        if isinstance(callee, Function) or (module is not None and module.role is roles.MODULE):
            return self.computed_from(given, w)
        keeper = key_of(callee)
        while isinstance(keeper, (AttributeOf, ItemOf)):
            keeper = keeper.owner
        new = self.computed_from(given, w)
        for value in given:
            if self._tensors.requires_grad(value, w) is not False:
                self._lent |= dict.fromkeys(self.outputs_behind(value, w))
        held = self._held.get(keeper, frozenset()) | new
        self._answered |= dict.fromkeys(held)
        if new:
            self._held[keeper] = held
        return held

    def trained(self, tensor: Tensor) -> None:
        """A tensor turned out to require grad: if one unknown call may be why, what was called has trained weights.

        Losses, by their names, have none.
        """
        made = tensor.reaches - self._losses.keys()
        if len(made) == 1 and not tensor.segments and not tensor.groups:
            (own,) = made
            if own in self._by_weights:
                self._trained[self._callees[own]] = None

    def walked(self, root: Value, w: World) -> None:
        """A backward pass starts from a value: the operation, or the one unknown call, behind it made a graph."""
        self.proven(w.get(root, Tensor))
        if not isinstance(root, Unknown):
            return
        made = {self._made_by(key) for key in self._bases(root.key)} - {frozenset()}
        if len({frozenset(self._whole.get(key, key) for key in own) for own in made}) == 1:
            self._proven |= dict.fromkeys(frozenset[int]().union(*made))

    def proven(self, tensor: Tensor | None) -> None:
        """A tensor is sure to require grad: so the operation behind it made a graph."""
        if tensor is not None and tensor.segments:
            self._proven[max(tensor.segments)] = None

    def _made_by(self, key: Hashable) -> frozenset[int]:
        """The presumed segment of the result of an unknown call, or of each of those that a value is one of."""
        if key in self._own or self._is_item(key):
            return frozenset([self._own_of(key)])
        ways = [self._made_by(way) for way in ways_into(key)]
        return frozenset[int]().union(*ways) if all(ways) else frozenset()

    def _bases(self, key: Hashable) -> Iterator[Hashable]:
        if not is_origin(key) or key in self._own or self._is_item(key):
            yield key
        elif isinstance(key, (Operation, UnaryOperation)):
            for part in operands(key):
                yield from self._bases(part)
        elif isinstance(key, (AttributeOf, ItemOf)):
            yield from self._bases(key.owner)

    def reached(self, value: Value, w: World) -> frozenset[int]:
        """The segments, presumed ones included, that a backward pass from ``value`` walks."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            return united((tensor.segments, tensor.reaches))
        return self._of_key(value.key, w).segments if isinstance(value, Unknown) else frozenset()

    def undoubted(self, value: Value, w: World) -> frozenset[int]:
        """The segments that a backward pass from ``value`` walks, without those in doubt that nothing has proven."""
        tensor = w.get(w.resolve(value), Tensor)
        doubtful = tensor.doubtful - self._proven.keys() if tensor is not None else frozenset()
        return self.reached(value, w) - doubtful

    def carries(self, value: Value, w: World) -> bool:
        """Whether a value is sure to hold the graphs behind it: what an unknown call returned may be a number."""
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is not None and tensor.segments and max(tensor.segments) in self._proven:
            return True
        newest_of_all = max(self.reached(value, w), default=0)
        return self.is_there(newest_of_all)

    def is_proven(self, segment: int) -> bool:
        """Whether a presumed segment is sure to be there: that of an item is, where that of the whole is."""
        whole = self._whole.get(segment)
        return segment in self._proven or (whole is not None and self.is_proven(whole))

    def is_there(self, segment: int) -> bool:
        """Whether a segment is that of a known operation, or is proven."""
        return segment not in self._presumed or self.is_proven(segment)

    def made(self, segment: int) -> int:
        """When a segment was made: that of an item is numbered when it is asked for, and made with the whole."""
        return self.made(self._whole[segment]) if segment in self._whole else segment

    def is_computed(self, value: Value, w: World) -> bool:
        """Whether a value requires grad and is no leaf: what is one may require it for nothing."""
        tensor = w.get(w.resolve(value), Tensor)
        return bool(self._tensors.requires_grad(value, w)) and (tensor is None or tensor.is_leaf is not True)

    def of_known(self, value: Value, w: World) -> frozenset[int]:
        """The segments of the tensors in ``value``, without presumed ones."""
        tensors = (w.get(part, Tensor) for part in self._tensors.tensors_in([value], w))
        return frozenset[int]().union(*(tensor.segments for tensor in tensors if tensor is not None))

    def calls(self, key: Hashable, w: World) -> frozenset[int]:
        """The calls of modules whose outputs an unknown value was computed from."""
        return self._of_key(key, w).calls

    def outputs_behind(self, value: Value, w: World) -> frozenset[int]:
        """The calls whose outputs a value was computed from."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            return tensor.calls
        return self.calls(value.key, w) if isinstance(value, Unknown) else frozenset()

    def computed_from(self, values: Iterable[Value], w: World) -> frozenset[int]:
        """The calls whose outputs values were computed from, be it by numbers or arrays that were made of those."""
        found: list[frozenset[int]] = []
        values = [w.resolve(given) for given in values]
        found += (self._traces[v.key].numbers for v in values if type(v) is Choice and v.key in self._traces)
        for value in (w.resolve(one) for given in values for one in each_of(given)):
            tensor = w.get(value, Tensor)
            if tensor is not None:
                found.append(tensor.calls)
            elif isinstance(value, Unknown):
                trace = self._of_key(value.key, w)
                found += (trace.calls, trace.numbers)
            elif isinstance(value, Ref) and value in self._traces:
                found.append(self._traces[value].numbers)
        return united(found)

    def answered(self, values: Iterable[Value], w: World) -> frozenset[int]:
        """The calls whose outputs code that cannot be followed was given, and answered to by what led to values."""
        return self.computed_from(values, w) & self._answered.keys() if self._answered else frozenset()

    def told_by_numbers(self, calls: frozenset[int]) -> frozenset[int]:
        """Those of some calls of whose outputs code that cannot be followed was given numbers alone."""
        return (calls & self._answered.keys()) - self._lent.keys()

    def reduced(self, result: Value, values: Iterable[Value], w: World) -> Value:
        """``result``, a number or an array made from the mere values of ``values``, or something chosen by these."""
        numbers = self.computed_from(values, w)
        if numbers and isinstance(result, (Ref, Unknown, Choice)):
            self._traces[result if isinstance(result, Ref) else result.key] = _Trace(numbers=numbers)
        return result

    def follows(self, value: Value, w: World) -> bool:
        """Whether an unknown value may hold a graph that is known to be there: what it was computed from had one."""
        return any(segment not in self._presumed for segment in self.reached(value, w))

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
            return _Trace(self.reached(key, w), self.outputs_behind(key, w))
        match key:
            case AttributeOf(_, name) if name in _FACTS:
                return _NOTHING
            case AttributeOf(owner, "data"):  # of a tensor: without its graph
                return replace(self._part(owner, w), segments=frozenset())
            case ItemOf(owner) if owner in self._own and not isinstance(w.bound.get(owner), Ref):
                whole = self._part(owner, w)
                return replace(whole, segments=whole.segments | {self._own_of(key)})
            case AttributeOf(owner) | ItemOf(owner) | ElementOf(_, owner):
                return self._part(owner, w)
        parts = [self._part(part, w) for part in operands(key)]
        if isinstance(key, OneOf) and not ways_into(key):  # one is a tensor, whose graph may not be there
            parts = [replace(part, segments=frozenset()) for part in parts]
        if not parts:
            return _NOTHING
        segments, calls = united(part.segments for part in parts), united(part.calls for part in parts)
        return _Trace(segments, calls, united(part.numbers for part in parts))

    def _is_item(self, key: Hashable) -> bool:
        """Whether a key is that of an item of what an unknown callable returned."""
        return isinstance(key, ItemOf) and key.owner in self._own

    def _own_of(self, key: Hashable) -> int:
        """The presumed segment of such a result or item: one item may carry a graph, and another be a number."""
        if key not in self._own:
            assert isinstance(key, ItemOf)
            own = self._own[key] = fresh()
            self._presumed[own] = None
            self._whole[own] = self._own[key.owner]
        return self._own[key]

    def _part(self, key: Hashable, w: World) -> _Trace:
        if type(key) is Const:
            return _NOTHING
        bound = w.bound.get(key)
        return self._of_key(bound if isinstance(bound, Ref) else key, w)

    def passes_weights(self, inputs: list[Tensor], outputs: list[Value], w: World) -> bool:
        """Whether the gradients of these inputs are sure to depend on parameters.

        One does where it comes through a layer with some, or through a power of what was computed from the input.
        """
        derived = [tensor for value in outputs if (tensor := w.get(w.resolve(value), Tensor)) is not None]
        keys = [key for tensor in derived for key in sorted(tensor.segments - tensor.doubtful)]
        segments = [segment for key in keys if isinstance(segment := w.find(key), Segment)]
        return bool(inputs) and all(
            bool(given.groups) and any(self._depends(given.groups, segment, w) for segment in segments)
            for given in inputs
        )

    def _depends(self, given: frozenset[int], segment: Segment, w: World) -> bool:
        """Whether what a gradient is multiplied by on its way through an operation depends on parameters."""
        if not segment.weights:
            return self._all_from(given, segment.saved, w)
        groups = [w.find(group) for group in segment.weights]
        made = w.find(segment.result) if segment.result is not None else None
        trained = any(isinstance(group, Group) and group.requires_grad for group in groups)
        return trained and given.isdisjoint(segment.weights) and isinstance(made, Tensor) and given <= made.deps

    def _all_from(self, groups: frozenset[int], saved: frozenset[int], w: World) -> bool:
        """Whether all that an operation saved, and multiplies the gradient by, was computed from these parameters."""
        tensors = [w.find(key) for key in saved]
        return bool(tensors) and all(
            isinstance(tensor, Tensor) and tensor.requires_grad and tensor.is_leaf is False and groups <= tensor.deps
            for tensor in tensors
        )

    def replanted(self, result: Ref, own: frozenset[int], parameters: Iterable[Value], w: World) -> None:
        """A module computed ``result`` with these parameters in the place of its ``own``."""
        new: Tensor = w.write(result.id)
        new.deps -= own
        for value in parameters:
            other = w.get(w.resolve(value), Tensor)
            new.deps |= self._tensors.deps(value, w)
            new.open = new.open or other is None or other.open
            if other is not None:
                new.segments |= other.segments
                new.doubtful |= other.doubtful
                new.reaches |= other.reaches
        answers = {self._tensors.requires_grad(value, w) for value in parameters}
        new.requires_grad = new.requires_grad if answers == {True} else None

    # --- one of many

    def made_since(self, value: Value, since: int, w: World, depth: int = _DEPTH) -> frozenset[int]:
        """The segments made after the number ``since`` that a value, or what holds values, has, or may have."""
        obj = w.get(w.resolve(value), Object)
        if isinstance(obj, Tensor):
            return frozenset(key for key in obj.segments if key > since)
        if isinstance(obj, (Sequence, Mapping)) and depth:
            return frozenset[int]().union(*(self.made_since(part, since, w, depth - 1) for part in obj.parts()))
        return frozenset()

    def one_of(self, value: Value, own: frozenset[int], w: World, depth: int = _DEPTH) -> Value:
        """One of the values that ``value`` stands for, of which each has segments of its own among ``own``."""
        obj = w.get(value, Object) if own and depth else None
        if isinstance(obj, Tensor) and not own.isdisjoint(obj.segments):
            new: Tensor = obj.copy()
            new.doubtful |= own & obj.segments
            self._ones |= dict.fromkeys(own & obj.segments)
            return w.new(new)
        if isinstance(obj, (Sequence, Mapping)) and not own.isdisjoint(self.made_since(value, 0, w, depth)):
            held: Sequence | Mapping = obj.copy()
            held.replace_parts(lambda part: self.one_of(w.resolve(part), own, w, depth - 1))
            if isinstance(held, Sequence):
                held.held -= own
            return w.new(held)
        return value

    def of_others(self, segments: frozenset[int]) -> frozenset[int]:
        """Those of some segments that may be of another value than the one at hand: each of several has its own."""
        return segments & self._ones.keys() if self._ones else frozenset()


__all__ = ["Graphs"]
