"""Worlds: abstract program states, how they fork, meet again, and when two of them are the same.

A world is one way the program may have gone so far.  A branch whose condition is unknown forks it; the forks
remember what they assumed, so that the same condition tested again takes the same branch.  Worlds that differ
in nothing that matters are merged at once; when there are too many, the most similar ones are joined, which
forgets what they disagree about.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from collections.abc import Sequence as AbstractSequence
from typing import Any, TypeVar

from gradlint.static.values import (
    Bound,
    Choice,
    Class,
    Const,
    Frame,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Object,
    Partial,
    Ref,
    Segment,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
)

ObjectT = TypeVar("ObjectT", bound=Object)

MAX_ALTERNATIVES = 4
_counter = itertools.count(1)


def fresh() -> int:
    """A number not used before: an object id, or the key of an unknown value."""
    return next(_counter)


class World:
    """A heap, a grad mode, and what was assumed on the way."""

    __slots__ = ("assumed", "bound", "grad", "heap", "module_checked", "modules", "shared", "token")

    def __init__(self, shared: dict[int, Object] | None = None) -> None:
        self.heap: dict[int, Object] = {}
        self.shared = {} if shared is None else shared  #: what imported modules made; never written to
        self.grad: bool | None = True
        self.assumed: dict[Hashable, bool] = {}  #: truth of unknown conditions
        self.bound: dict[Hashable, Value] = {}  #: what an unknown or a choice turned out to be
        self.modules: dict[Any, int] = {}  #: the frames of the project's modules
        self.module_checked = False  #: inside a branch on the ``training`` of a module
        self.token: object = object()

    def copy(self) -> World:
        """A fork of this world.  Both share objects until either writes."""
        new = World.__new__(World)
        new.heap = self.heap.copy()
        new.shared = self.shared
        new.grad = self.grad
        new.assumed = self.assumed.copy()
        new.bound = self.bound.copy()
        new.modules = self.modules.copy()
        new.module_checked = self.module_checked
        self.token, new.token = object(), object()
        return new

    def become(self, other: World) -> None:
        """Go on as ``other``, which must not be used any more."""
        if other is not self:
            for slot in World.__slots__:
                setattr(self, slot, getattr(other, slot))

    def new(self, obj: Object) -> Ref:
        """Put an object into the heap."""
        obj.owner = self.token
        key = obj.stamp = fresh()
        self.heap[key] = obj
        return Ref(key)

    def adopt(self, objects: dict[int, Object]) -> None:
        """Take over the objects of another world that this one does not have."""
        for key, obj in objects.items():
            if key not in self.heap:
                self.heap[key] = obj

    def write(self, key: int) -> Any:
        """The object ``key``, free to be changed in this world."""
        obj = self.heap.get(key)
        if obj is None:
            obj = self.shared[key]
        if obj.owner is not self.token:
            obj = obj.copy()
            obj.owner = self.token
            self.heap[key] = obj
        obj.stamp = fresh()
        return obj

    def find(self, key: int) -> Object | None:
        """The object with this id."""
        obj = self.heap.get(key)
        return self.shared.get(key) if obj is None else obj

    def get(self, value: Value, kind: type[ObjectT]) -> ObjectT | None:
        """The heap object behind ``value`` if it is of this kind."""
        if type(value) is Ref:
            obj = self.find(value.id)
            if isinstance(obj, kind):
                return obj
        return None

    def resolve(self, value: Value) -> Value:
        """``value``, or what it has turned out to be in this world."""
        while True:
            kind = type(value)
            if kind is Unknown or kind is Choice:
                known = self.bound.get(value.key)  # type: ignore[union-attr]
                if known is None:
                    return value
                value = known
            else:
                return value


def disagreements(a: World, b: World) -> list[tuple[int, Object, Object]]:
    """The objects that both worlds have, each as it is in the one and in the other, where that is not the same."""
    there, shared = b.heap.get, a.shared
    found = [
        (key, x, y) for key, x in a.heap.items() if (y := there(key)) is not x and (y := y or shared.get(key)) is not None
    ]
    if shared:
        found += [(key, x, y) for key, y in b.heap.items() if key not in a.heap and (x := shared.get(key)) is not None]
    return found


# --- joining ---------------------------------------------------------------------------------------------------


def _flat(value: Value) -> tuple[Value, ...]:
    return value.alternatives if isinstance(value, Choice) else (value,)


class _Join:
    """Joins two worlds into a new one."""

    def __init__(self, a: World, b: World) -> None:
        self.a, self.b = a, b
        self.out = World(a.shared)
        self.out.modules = {**b.modules, **a.modules}
        self.out.heap = {**b.heap, **a.heap}
        self.pairs: dict[tuple[Value, Value], Value] = {}

    def run(self) -> World:
        a, b, out = self.a, self.b, self.out
        out.grad = a.grad if a.grad is b.grad else None
        out.module_checked = a.module_checked and b.module_checked
        out.assumed = {k: v for k, v in a.assumed.items() if b.assumed.get(k) is v}
        out.bound = {k: v for k, v in a.bound.items() if b.bound.get(k) == v}
        for k in a.bound.keys() ^ b.bound.keys():
            # Only one of the two knows what this is: keep it, it was unknown and harmless in the other.
            known = a.bound.get(k, b.bound.get(k))
            if isinstance(known, Ref):
                out.bound[k] = known
        for key, left, right in disagreements(a, b):
            joined = out.heap[key] = self.objects(left, right)
            if joined is not left and joined is not right:
                joined.owner, joined.stamp = out.token, fresh()
        return out

    def value(self, x: Value, y: Value) -> Value:
        x, y = self.a.resolve(x), self.b.resolve(y)
        if x == y:
            return x
        known = self.pairs.get((x, y))
        if known is None:
            # Entered before it is computed, so that cyclic objects end.
            self.pairs[x, y] = Unknown(("join", fresh()))
            known = self.pairs[x, y] = self._value(x, y)
        return known

    def _value(self, x: Value, y: Value) -> Value:
        left, right = self.a.get(x, Object), self.b.get(y, Object)
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            return self.out.new(join_tensors(left, right))
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            return self.out.new(self.objects(left, right))
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            return self.out.new(self.objects(left, right))
        if isinstance(x, Unknown) or isinstance(y, Unknown):
            deps = getattr(x, "deps", frozenset()) | getattr(y, "deps", frozenset())
            for obj in (left, right):
                if isinstance(obj, Tensor):
                    deps |= obj.deps
            return Unknown(("join", fresh()), deps=deps)
        alternatives = tuple(dict.fromkeys((*_flat(x), *_flat(y))))
        if len(alternatives) <= MAX_ALTERNATIVES:
            return Choice(fresh(), alternatives)
        return Unknown(("join", fresh()))

    def optional(self, x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return x if y is None else y
        return self.value(x, y)

    def dicts(self, x: dict[Any, Value], y: dict[Any, Value]) -> dict[Any, Value]:
        out = {}
        for key in [*x, *(k for k in y if k not in x)]:
            if key not in x or key not in y:
                # Set on one way only: reading it means that way was taken.
                out[key] = x.get(key, y.get(key))
            else:
                out[key] = x[key] if x[key] == y[key] else self.value(x[key], y[key])
        return out  # type: ignore[return-value]

    def objects(self, x: Object, y: Object) -> Object:
        if type(x) is not type(y):
            return x
        if isinstance(x, Frame) and isinstance(y, Frame):
            return Frame(self.dicts(x.vars, y.vars), x.parent)
        if isinstance(x, Group) and isinstance(y, Group):
            grad = x.requires_grad if x.requires_grad is y.requires_grad else None
            return Group(grad, x.opaque, join_tokens(x.tokens, y.tokens), x.made_at)
        if isinstance(x, Segment) and isinstance(y, Segment):
            freed = x.freed if x.freed is y.freed else None
            spoilt_at = x.spoilt_at if y.spoilt_at is not None else None
            return Segment(freed, x.freed_at or y.freed_at, x.result, x.saved, spoilt_at, x.spoilt_by)
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            return join_tensors(x, y)
        if isinstance(x, Instance) and isinstance(y, Instance):
            new: Instance = x.copy()
            new.attrs = self.dicts(x.attrs, y.attrs)
            new.groups = x.groups | y.groups
            new.training = x.training if x.training is y.training else None
            new.device = x.device if x.device == y.device else None
            new.set_at = {**y.set_at, **x.set_at}
            new.in_forward = x.in_forward and y.in_forward
            new.tokens = join_tokens(x.tokens, y.tokens)
            return new
        if isinstance(x, Sequence) and isinstance(y, Sequence):
            return self.sequences(x, y)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            return Mapping(self.dicts(x.items, y.items), self.optional(x.tail, y.tail))
        return x

    def sequences(self, x: Sequence, y: Sequence) -> Sequence:
        shared = min(len(x.items), len(y.items))
        items = [a if a == b else self.value(a, b) for a, b in zip(x.items[:shared], y.items[:shared], strict=False)]
        tail, site = self.optional(x.tail, y.tail), x.tail_site or y.tail_site
        longer = x if len(x.items) > shared else y
        for extra, where in zip(longer.items[shared:], longer.sites[shared:], strict=False):
            tail, site = self.optional(tail, extra), site or where
        return Sequence(items, x.sites[:shared], tail, site, x.mutable, x.fields)


def _same(x: Any, y: Any) -> Any:
    return x if x == y else None


def join_tensors(x: Tensor, y: Tensor) -> Tensor:
    """What holds of a tensor that is one of two."""
    return Tensor(
        requires_grad=_same(x.requires_grad, y.requires_grad),
        is_leaf=_same(x.is_leaf, y.is_leaf),
        is_parameter=_same(x.is_parameter, y.is_parameter),
        device=_same(x.device, y.device),
        size=_same(x.size, y.size),
        shape=_same(x.shape, y.shape),
        integral=_same(x.integral, y.integral),
        activation=_same(x.activation, y.activation),
        activation_at=x.activation_at or y.activation_at,
        nudged=x.nudged if x.nudged == y.nudged else "",
        made_at=x.made_at or y.made_at,
        moved_at=x.moved_at or y.moved_at,
        groups=x.groups | y.groups,
        deps=x.deps | y.deps,
        open=x.open or y.open,
        segments=x.segments | y.segments,
        doubtful=x.doubtful | y.doubtful | x.segments ^ y.segments,
        sources=tuple(dict.fromkeys((*x.sources, *y.sources))),
        data_of=_same(x.data_of, y.data_of),
        data_at=x.data_at or y.data_at,
        gradient_of=x.gradient_of & y.gradient_of,
        is_gradient=x.is_gradient and y.is_gradient,
        structured=x.structured or y.structured,
        cut=x.cut if y.cut is not None else None,
        vague=x.vague or y.vague,
        presumed=x.presumed and y.presumed,
        base=_same(x.base, y.base),
        retains=_same(x.retains, y.retains),
        stale_at=x.stale_at or y.stale_at,
        asked_at=_same(x.asked_at, y.asked_at),
        tokens=join_tokens(x.tokens, y.tokens),
    )


def join_tokens(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """Each protocol's tokens of either side; a side without any is still at the start, and says nothing."""
    return {key: x.get(key, frozenset()) | y.get(key, frozenset()) for key in [*x, *(k for k in y if k not in x)]}


def join(a: World, b: World) -> World:
    """A world that stands for both.  What they disagree about becomes a choice, or unknown."""
    return _Join(a, b).run()


def join_results(results: AbstractSequence[tuple[World, Value]]) -> tuple[World, Value]:
    """One world and one value for several ways a call may have gone."""
    world, value = results[0]
    for other, result in results[1:]:
        joiner = _Join(world, other)
        merged = joiner.run()
        value = joiner.value(value, result)
        world = merged
    return world, value


# --- keeping their number down ---------------------------------------------------------------------------------

_WEIGHTS = {Group: 100, Tensor: 20, Instance: 20, Segment: 5, Frame: 0, Sequence: 0, Mapping: 0}


def _value_weight(x: Value | None, y: Value | None) -> int:
    if x == y or x is None or y is None:
        return 0
    if isinstance(x, Ref) and isinstance(y, Ref):
        return 10
    if isinstance(x, Const) and isinstance(y, Const):
        return 2 if isinstance(x.value, (bool, str, type(None))) or isinstance(y.value, (bool, type(None))) else 0
    if isinstance(x, Unknown) or isinstance(y, Unknown):
        return 5 if isinstance(x, Ref) or isinstance(y, Ref) else 0
    return 10


def _dict_weight(x: dict[Any, Value], y: dict[Any, Value]) -> int:
    return sum(_value_weight(value, y.get(key)) for key, value in x.items())


_TENSOR_FACTS = ("requires_grad", "device", "activation", "integral", "data_of", "is_parameter", "size")


def _tensor_weight(x: Tensor, y: Tensor) -> int:
    return 20 if any(getattr(x, fact) != getattr(y, fact) for fact in _TENSOR_FACTS) else 0


def distance(a: World, b: World) -> int:
    """How much two worlds disagree about what matters; 0 when they may be joined without loss."""
    total = 0 if a.grad is b.grad else 50
    for _, x, y in disagreements(a, b):
        if isinstance(x, Frame) and isinstance(y, Frame):
            for name, value in x.vars.items():
                mine, theirs = a.resolve(value), y.vars.get(name)
                if theirs is None or mine == (theirs := b.resolve(theirs)):
                    continue
                left, right = a.get(mine, Tensor), b.get(theirs, Tensor)
                if left is not None and right is not None:
                    total += _tensor_weight(left, right)
                else:
                    total += _value_weight(mine, theirs)
        elif isinstance(x, Group) and isinstance(y, Group):
            total += 0 if x.tokens == y.tokens and x.requires_grad is y.requires_grad else 100
        elif isinstance(x, Tensor) and isinstance(y, Tensor):
            total += _tensor_weight(x, y)
        elif isinstance(x, Instance) and isinstance(y, Instance):
            total += _dict_weight(x.attrs, y.attrs)
            total += 0 if (x.training, x.device, x.groups) == (y.training, y.device, y.groups) else 30
            total += 0 if x.tokens == y.tokens else 30
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            total += _dict_weight(x.items, y.items)
    return total


def reduce(worlds: list[World], limit: int) -> list[World]:
    """At most ``limit`` worlds: those that agree are joined, then the most similar ones."""
    if len(worlds) < 2:
        return worlds
    apart: dict[tuple[World, World], int] = {}

    def between(i: int, j: int) -> int:
        pair = (kept[i], kept[j])
        if pair not in apart:
            apart[pair] = distance(*pair)
        return apart[pair]

    kept: list[World] = []
    for world in worlds:
        for index, other in enumerate(kept):
            if other is world:
                break
            apart[other, world] = distance(other, world)
            if apart[other, world] == 0:
                kept[index] = join(other, world)
                break
        else:
            kept.append(world)
    while len(kept) > limit:
        _, i, j = min((between(i, j), i, j) for i in range(len(kept)) for j in range(i + 1, len(kept)))
        kept[i] = join(kept[i], kept[j])
        del kept[j]
    return kept


def reduce_results(results: list[tuple[World, Value]], limit: int) -> list[tuple[World, Value]]:
    """As :func:`reduce`, for the worlds and values in which a call may end."""
    kept: list[tuple[World, Value]] = []
    for world, value in results:
        for index, (other, result) in enumerate(kept):
            if _result_distance(other, result, world, value) == 0:
                kept[index] = join_results([(other, result), (world, value)])
                break
        else:
            kept.append((world, value))
    while len(kept) > limit:
        pairs = [
            (_result_distance(*kept[i], *kept[j]), i, j) for i in range(len(kept)) for j in range(i + 1, len(kept))
        ]
        _, i, j = min(pairs)
        kept[i] = join_results([kept[i], kept[j]])
        del kept[j]
    return kept


def _result_distance(a: World, x: Value, b: World, y: Value) -> int:
    x, y = a.resolve(x), b.resolve(y)
    left, right = a.get(x, Tensor), b.get(y, Tensor)
    weight = _tensor_weight(left, right) if left and right else _value_weight(x, y)
    return weight + distance(a, b)


# --- sameness --------------------------------------------------------------------------------------------------


def signature(world: World, roots: Iterable[int]) -> Hashable:
    """A value that is equal for two worlds that cannot be told apart from ``roots`` (frames, by id).

    Objects and unknown values are numbered in the order they are met, so that fresh ones compare equal.
    """
    numbers: dict[Hashable, int] = {}
    queue: list[int] = []

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    def encode(value: Value | None) -> Hashable:
        if value is None:
            return None
        value = world.resolve(value)
        kind = type(value)
        if kind is Const:
            return value
        if kind is Ref:
            if ("ref", value.id) not in numbers:  # type: ignore[union-attr]
                queue.append(value.id)  # type: ignore[union-attr]
            return number(("ref", value.id))  # type: ignore[union-attr]
        if kind is Unknown:
            return ("?", number(value.key))  # type: ignore[union-attr]
        if kind is Choice:
            return tuple(encode(v) for v in value.alternatives)  # type: ignore[union-attr]
        if kind is Function:
            return (value.unit, value.grad)  # type: ignore[union-attr]
        if kind is Bound:
            return (encode(value.receiver), value.name)  # type: ignore[union-attr]
        if kind is Super:
            return encode(value.receiver)  # type: ignore[union-attr]
        if kind is Partial:
            return (encode(value.function), *map(encode, value.args))  # type: ignore[union-attr]
        return getattr(value, "name", None) or getattr(value, "unit", None)

    def tokens(value: dict[str, Any]) -> Hashable:
        return tuple((key, frozenset((t.state, t.lineage) for t in value[key])) for key in sorted(value) if value[key])

    out: list[Hashable] = [world.grad]
    for root in roots:
        encode(Ref(root))
    position = 0
    while position < len(queue):
        key = queue[position]
        position += 1
        obj = world.find(key)
        if isinstance(obj, Frame):
            out.append(tuple((name, encode(obj.vars[name])) for name in sorted(obj.vars)))
            if obj.parent is not None:
                encode(Ref(obj.parent))
        elif isinstance(obj, Tensor):
            for group in sorted(obj.groups | obj.deps):
                encode(Ref(group))
            freed = [getattr(world.find(s), "freed", None) for s in sorted(obj.segments)]
            out.append(
                (
                    obj.requires_grad,
                    obj.is_leaf,
                    obj.is_parameter,
                    obj.device,
                    obj.size,
                    obj.integral,
                    obj.activation,
                    obj.open,
                    obj.is_gradient,
                    True in freed,
                    None in freed,
                    False in freed,
                    frozenset(number(("ref", g)) for g in obj.groups),
                    frozenset(number(("ref", g)) for g in obj.deps),
                    obj.data_of is None,
                    obj.cut is None,
                    obj.asked_at is None,
                    obj.presumed,
                    obj.retains,
                    obj.stale_at,
                    any(getattr(world.find(s), "spoilt_at", None) is not None for s in obj.segments),
                    tokens(obj.tokens),
                )
            )
        elif isinstance(obj, Group):
            out.append((obj.requires_grad, tokens(obj.tokens)))
        elif isinstance(obj, Instance):
            for group in sorted(obj.groups):
                encode(Ref(group))
            attrs = tuple((name, encode(obj.attrs[name])) for name in sorted(obj.attrs))
            out.append((obj.name, obj.kind, obj.training, obj.device, attrs))
        elif isinstance(obj, Sequence):
            out.append((tuple(map(encode, obj.items)), encode(obj.tail)))
        elif isinstance(obj, Mapping):
            out.append((tuple((encode(k), encode(v)) for k, v in obj.items.items()), encode(obj.tail)))
    return tuple(out)


# --- forgetting


def _pointers(value: Value, w: World) -> Iterator[int]:
    """The objects a value points to directly."""
    value = w.resolve(value)
    if isinstance(value, Ref):
        yield value.id
    elif isinstance(value, (Function, Lambda)):
        yield value.frame
        if isinstance(value, Function) and value.owner is not None:
            yield from _pointers(value.owner, w)
    elif isinstance(value, Class):
        yield value.scope
        yield value.frame
        for base in value.bases:
            yield from _pointers(base, w)
    elif isinstance(value, Bound):
        yield from _pointers(value.receiver, w)
        if value.function is not None:
            yield from _pointers(value.function, w)
    elif isinstance(value, Super):
        yield from _pointers(value.receiver, w)
    elif isinstance(value, Partial):
        for part in (value.function, *value.args, *(v for _, v in value.kwargs)):
            yield from _pointers(part, w)
    elif isinstance(value, Choice):
        for alternative in value.alternatives:
            yield from _pointers(alternative, w)
    elif isinstance(value, Unknown):
        yield from value.deps


def _contents(obj: Object, w: World) -> Iterator[int]:
    """The objects an object points to directly."""
    values: list[Value] = []
    if isinstance(obj, Frame):
        values += obj.vars.values()
        if obj.parent is not None:
            yield obj.parent
    elif isinstance(obj, Tensor):
        yield from obj.groups | obj.deps | obj.segments | obj.gradient_of
        yield from obj.sources
        if obj.data_of is not None:
            yield obj.data_of
        if obj.base is not None:
            yield obj.base
    elif isinstance(obj, Segment):
        if obj.result is not None:
            yield obj.result
    elif isinstance(obj, Instance):
        yield from obj.groups
        values += [*obj.attrs.values(), *obj.args]
    elif isinstance(obj, Sequence):
        values += obj.items
        values += [obj.tail] if obj.tail is not None else []
    elif isinstance(obj, Mapping):
        values += [*obj.items, *obj.items.values()]
        values += [obj.tail] if obj.tail is not None else []
    for value in values:
        yield from _pointers(value, w)


def forget(world: World, roots: Iterable[int], since: int) -> list[tuple[int, Object]]:
    """The objects made after the number ``since`` that cannot be reached from ``roots`` or older objects.

    What is known of unknown values that came from them is forgotten; the objects are the caller's to delete.
    """
    young = sorted(key for key in world.heap if key > since)
    seen: set[int] = set()
    # What has not been written to since cannot point to anything younger.
    queue = [*roots, *(key for key, obj in world.heap.items() if key <= since and obj.stamp > since)]
    for name, value in world.bound.items():
        if _newest(name) <= since:
            queue += _pointers(value, world)
    while queue:
        key = queue.pop()
        if key not in seen:
            seen.add(key)
            obj = world.heap.get(key)
            if obj is not None:
                queue += _contents(obj, world)
    dropped = [(key, world.heap[key]) for key in young if key not in seen]
    gone = [
        name
        for name, value in world.bound.items()
        if isinstance(value, Ref) and value.id > since and value.id not in seen
    ]
    for name in gone:
        del world.bound[name]
    return dropped


def _newest(key: Hashable) -> int:
    """The largest number in the key of an unknown value: when the youngest thing it is made of came to be."""
    if isinstance(key, tuple):
        return max(map(_newest, key), default=0)
    if isinstance(key, Ref):
        return key.id
    return key if type(key) is int else 0
