"""Keeping the number of worlds down: how much they differ in what matters, and which of many are joined."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as AbstractSequence
from functools import partial
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gradlint.static.knowledge import roles
from gradlint.static.state.joining import acts, alternatives_of, join, join_results
from gradlint.static.state.values import (
    Bound,
    Choice,
    Const,
    Frame,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Object,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import LAST, World

if TYPE_CHECKING:
    from gradlint.static.state.liveness import Live

T = TypeVar("T")

_LOST_MODEL = 40  #: what it weighs that a model of the project would be forgotten

_Difference = tuple[int, "tuple[Value, Value] | None"]
"""How much a difference matters, and the two values if they are such that a choice between them tells all of it."""


def _differ(x: Value | None, y: Value | None, a: World, b: World, depth: int = 0) -> Iterator[_Difference]:
    """How a value of one world differs from one of another, as far as that matters.

    Args:
        x: the value of the first world.
        y: the value of the second.
        a: the first world.
        b: the second.
        depth: how many objects hold it: of what is kept, as of a running total, the graph matters too.
    """
    if x is y or x is None or y is None:
        return
    if type(x) in _UNSETTLED or type(y) in _UNSETTLED:
        x, y = a.resolve(x), b.resolve(y)
    if x == y:
        return
    if isinstance(x, Const) and isinstance(y, Const):
        if isinstance(x.value, (bool, str, type(None))) or isinstance(y.value, (bool, type(None))):
            yield 2, (x, y)
        return
    if isinstance(x, Choice) and isinstance(y, Choice) and x.alternatives == y.alternatives:
        return
    left, right = a.get(x, Object), b.get(y, Object)
    if _is_mere(x, a) and _is_mere(y, b):
        few = alternatives_of(x, y, a, b) is not None
        yield 10 if left is not None or right is not None else 2, (x, y) if few else None
    elif isinstance(left, Tensor) and isinstance(right, Tensor):
        if _TENSOR_FACTS(left) != _TENSOR_FACTS(right):
            yield 20, None
        elif (depth or left.total_since or right.total_since) and _GRAPH(left) != _GRAPH(right):
            yield 10, None
    elif _is_nothing(x, a) and _is_nothing(y, b):
        return
    elif (
        isinstance(left, Sequence) and isinstance(right, Sequence) and depth < 2 and len(left.items) == len(right.items)
    ):
        for mine, theirs in zip((*left.items, left.tail), (*right.items, right.tail), strict=True):
            if isinstance(mine, Const) and isinstance(theirs, Const) and mine != theirs:
                yield 10, None  # a list of constants may say how a model is built
            else:
                yield from _differ(mine, theirs, a, b, depth + 1)
    elif isinstance(x, Unknown) or isinstance(y, Unknown):
        if left is not None or right is not None:
            yield _LOST_MODEL if _is_model(left or right) else 5, None
    else:
        yield 10, None


def _is_model(obj: Object | None) -> bool:
    """Whether an object is a model of the project: its join with anything would be anything."""
    return isinstance(obj, Instance) and obj.role is roles.MODULE and obj.cls is not None


def _is_nothing(value: Value | None, w: World, depth: int = 2) -> bool:
    """Whether a value is unknown, a list or dict of such, or a tuple of such and of numbers, as a shape is."""
    if value is None:
        return True
    if isinstance(value, Unknown):
        return not value.deps
    obj = w.get(value, Object) if depth else None
    if isinstance(obj, Sequence):
        items = (item for item in (*obj.items, obj.tail) if obj.mutable or not _is_number(item))
        return all(_is_nothing(item, w, depth - 1) for item in items)
    return isinstance(obj, Mapping) and all(_is_nothing(item, w, depth - 1) for item in (*obj.items.values(), obj.tail))


def _is_number(value: Value | None) -> bool:
    return isinstance(value, Const) and type(value.value) in (int, float)


def _is_mere(value: Value, w: World) -> bool:
    """Whether a value is a constant or an array, or one of some."""
    if isinstance(value, Choice):
        return all(_is_mere(each, w) for each in value.alternatives)
    obj = w.get(value, Instance)
    return isinstance(value, Const) or (obj is not None and obj.role is roles.ARRAY)


def _dicts_differ(x: dict[Any, Value], y: dict[Any, Value], a: World, b: World) -> Iterator[_Difference]:
    for key, value in x.items():
        theirs = y.get(key)
        if theirs is not value:
            yield from _differ(value, theirs, a, b, 1)


_TENSOR_FACTS = attrgetter("requires_grad", "device", "activation", "integral", "data_of", "is_parameter", "size")
_GRAPH = attrgetter("segments", "reaches", "deps", "groups", "gradient_of")

_UNSETTLED = (Unknown, Choice)
"""Values that may have turned out to be different ones in two worlds."""


def _frames_differ(x: Frame, y: Frame, a: World, b: World, live: Live | None = None) -> Iterator[_Difference]:
    other = y.vars.get
    here, there = a.bound, b.bound
    for name, value in x.vars.items():
        theirs = other(name)
        if theirs is None:
            continue
        if theirs is value and (type(value) not in _UNSETTLED or (value.key not in here and value.key not in there)):  # type: ignore[union-attr]
            continue
        if live is None or live.matters(name):
            yield from _differ(value, theirs, a, b)


def _groups_differ(x: Group, y: Group, a: World, b: World) -> Iterator[_Difference]:
    if x.tokens != y.tokens or x.requires_grad is not y.requires_grad:
        yield 100, None


def _segments_differ(x: Segment, y: Segment, a: World, b: World) -> Iterator[_Difference]:
    """Whether a backward pass can still be made through a part of a graph."""
    mine = (x.freed, x.spoilt_at is None, x.stale_at is None)
    if mine != (y.freed, y.spoilt_at is None, y.stale_at is None):
        yield 30, None


def _tensors_differ(x: Tensor, y: Tensor, a: World, b: World) -> Iterator[_Difference]:
    if _TENSOR_FACTS(x) != _TENSOR_FACTS(y):
        yield 20, None


def _instances_differ(x: Instance, y: Instance, a: World, b: World) -> Iterator[_Difference]:
    yield from _dicts_differ(x.attrs, y.attrs, a, b)
    if (x.training, x.device, x.groups) != (y.training, y.device, y.groups):
        yield 30, None
    if x.tokens != y.tokens:
        yield 30, None


def _lists_differ(x: Sequence, y: Sequence, a: World, b: World) -> Iterator[_Difference]:
    """What is there to be called is in the one list and not in the other: together they may do what neither does."""
    for mine, theirs in zip_longest(x.items, y.items):
        if mine is theirs or _called(mine, a) == _called(theirs, b):
            continue
        if acts(mine, a) or acts(theirs, b):
            yield 10, None
            return


def _called(value: Value | None, w: World) -> Hashable:
    """What tells a value that is there to be called from others: a function is the same wherever it was made."""
    value = w.resolve(value) if value is not None else None
    if isinstance(value, Choice):
        return value.alternatives
    if isinstance(value, (Function, Lambda)):
        return value.unit, getattr(value, "site", None)
    return (value.receiver, value.name) if isinstance(value, Bound) else value


_DIFFERENCES: dict[type[Object], Callable[[Any, Any, World, World], Iterator[_Difference]]] = {
    Frame: _frames_differ,
    Group: _groups_differ,
    Tensor: _tensors_differ,
    Instance: _instances_differ,
    Segment: _segments_differ,
    Sequence: _lists_differ,
    Mapping: lambda x, y, a, b: _dicts_differ(x.items, y.items, a, b),
}
"""How an object that is the one thing in the first world and another in the second differs, as far as it matters."""


def _differences(a: World, b: World, live: Live | None = None) -> Iterator[_Difference]:
    """What two worlds disagree about, as far as it matters."""
    if a.grad is not b.grad:
        yield 50, None
    for key, x, y in a.disagreements(b):
        differ = _DIFFERENCES.get(type(x))
        if differ is None or type(x) is not type(y):
            continue
        if live is not None and key == live.frame and isinstance(x, Frame) and isinstance(y, Frame):
            yield from _frames_differ(x, y, a, b, live)
        else:
            yield from differ(x, y, a, b)


def agree(a: World, b: World, live: Live | None = None) -> bool:
    """Whether two worlds may be joined without loss.

    They may if they are the same but for a constant or an array: that can be either, as is asked for where it is used.
    """
    known: tuple[Value, Value] | None = None
    for _, values in _differences(a, b, live):
        if values is None or (known is not None and values != known):
            return False
        known = values
    return True


def distance(a: World, b: World, live: Live | None = None) -> int:
    """How much two worlds disagree about what matters; 0 when they agree."""
    return sum(weight for weight, _ in _differences(a, b, live))


def reduce(worlds: list[World], limit: int, live: Live | None = None) -> list[World]:
    """At most ``limit`` worlds: those that agree are joined, then the most similar ones.

    Those in which a loop is in its last iteration are reduced apart from the others, which come to another one.
    """
    if len(worlds) < 2:
        return worlds
    last = [world for world in worlds if LAST in world.turns]
    if last and len(last) < len(worlds):
        others = [world for world in worlds if LAST not in world.turns]
        return [*reduce(others, limit, live), *reduce(last, limit, live)]
    kept: list[World] = []
    for world in worlds:
        for index, other in enumerate(kept):
            if other is world:
                break
            if agree(other, world, live):
                kept[index] = join(other, world)
                break
        else:
            kept.append(world)
    closest = _Closest(partial(distance, live=live))
    while len(kept) > limit:
        i, j = closest.pair(kept)
        kept[i] = join(kept[i], kept[j])
        del kept[j]
    return kept


def reduce_results(results: list[tuple[World, Value]], limit: int) -> list[tuple[World, Value]]:
    """As :func:`reduce`, for the worlds and values in which a call may end."""
    kept: list[tuple[World, Value]] = []
    closest = _Closest(_result_distance)

    def join_closest() -> None:
        i, j = closest.pair(kept)
        kept[i] = join_results([kept[i], kept[j]])
        del kept[j]

    for end in results:
        for index, other in enumerate(kept):
            if _value_distance(other, end) == 0 and agree(other[0], end[0]):
                kept[index] = join_results([other, end])
                break
        else:
            kept.append(end)
            if len(kept) > 2 * limit:
                join_closest()
    while len(kept) > limit:
        join_closest()
    return kept


def _result_distance(left: tuple[World, Value], right: tuple[World, Value]) -> int:
    return _value_distance(left, right) + distance(left[0], right[0])


def _value_distance(left: tuple[World, Value], right: tuple[World, Value]) -> int:
    (a, x), (b, y) = left, right
    x, y = a.resolve(x), b.resolve(y)
    return sum(weight for weight, _ in _differ(x, y, a, b))


class _Closest(Generic[T]):
    """Finds which of several are the least apart; what was measured once is not measured again."""

    def __init__(self, distance: Callable[[T, T], int]) -> None:
        self._distance = distance
        self._known: dict[tuple[int, int], int] = {}
        self._alive: list[T] = []  #: so that no other takes over the identity of one that was measured

    def pair(self, items: AbstractSequence[T]) -> tuple[int, int]:
        """The places of the two, the first ones where several are as close."""
        self._alive += items
        _, i, j = min((self._between(items[i], items[j]), i, j) for j in range(len(items)) for i in range(j))
        return i, j

    def _between(self, x: T, y: T) -> int:
        key = id(x), id(y)
        if key not in self._known:
            self._known[key] = self._distance(x, y)
        return self._known[key]
