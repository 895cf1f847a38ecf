"""What can be reached in a world: when two worlds cannot be told apart, and what nothing can reach any more."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from gradlint.static.state.liveness import Live
from gradlint.static.state.values import (
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
from gradlint.static.state.world import World


def signature(
    world: World, since: int, different: Iterable[int], live: Live | None = None, stack: Iterable[int] = ()
) -> Hashable:
    """A value that is equal for two worlds that cannot be told apart by anything that happened since ``since``.

    Objects and unknown values made since then are numbered in the order they are met, so that fresh ones compare equal.

    Args:
        world: the world.
        since: a number of :func:`~gradlint.static.state.world.fresh`.
        different: older objects that were not the same in all worlds that are compared.
        live: the variables of a frame that may still be read, if not all may.
        stack: frames on the call stack that were made since.
    """
    return _Signature(world, since, live).of(different, stack)


class _Signature:
    def __init__(self, world: World, since: int, live: Live | None) -> None:
        self.world = world
        self.since = since
        self.live = live
        self.numbers: dict[Hashable, int] = {}
        self.queue: list[int] = []

    def of(self, different: Iterable[int], stack: Iterable[int]) -> Hashable:
        heap, since = self.world.heap, self.since
        changed = {key for key, obj in heap.items() if obj.stamp > since and key <= since}
        self.queue += sorted(changed.union(key for key in different if key in heap))
        out: list[Hashable] = [self.world.grad, tuple(self.queue)]
        for key in stack:
            self.pointer(key)
        settled = [(name, value) for name, value in self.world.bound.items() if newest(name) <= since]
        out.append(frozenset((name, self.value(value)) for name, value in settled))
        position = 0
        while position < len(self.queue):
            out.append(self.object(self.queue[position]))
            position += 1
        return tuple(out)

    def number(self, key: Hashable) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def value(self, value: Value | None) -> Hashable:
        if value is None:
            return None
        value = self.world.resolve(value)
        kind = type(value)
        if kind is Const:
            return value
        if kind is Ref:
            return self.pointer(value.id)  # type: ignore[union-attr]
        if kind is Unknown:
            return ("?", self.number(value.key))  # type: ignore[union-attr]
        if kind is Choice:
            return tuple(map(self.value, value.alternatives))  # type: ignore[union-attr]
        if kind is Function:
            return (value.unit, value.grad)  # type: ignore[union-attr]
        if kind is Bound:
            return (self.value(value.receiver), value.name)  # type: ignore[union-attr]
        if kind is Super:
            return self.value(value.receiver)  # type: ignore[union-attr]
        if kind is Partial:
            return (self.value(value.function), *map(self.value, value.args))  # type: ignore[union-attr]
        return getattr(value, "name", None) or getattr(value, "unit", None)

    def pointer(self, key: int) -> Hashable:
        if key <= self.since:
            return ("old", key)
        if ("ref", key) not in self.numbers:
            self.queue.append(key)
        return self.number(("ref", key))

    def object(self, key: int) -> Hashable:
        value, obj = self.value, self.world.find(key)
        if isinstance(obj, Frame):
            if obj.parent is not None:
                self.pointer(obj.parent)
            live = self.live if self.live is not None and self.live.frame == key else None
            names = obj.vars if live is None else filter(live.matters, obj.vars)
            return tuple((name, value(obj.vars[name])) for name in sorted(names))
        if isinstance(obj, Tensor):
            return self.tensor(obj)
        if isinstance(obj, Group):
            return (obj.requires_grad, _states(obj.tokens))
        if isinstance(obj, Instance):
            for group in sorted(obj.groups):
                self.pointer(group)
            attrs = tuple((name, value(obj.attrs[name])) for name in sorted(obj.attrs))
            return (obj.name, obj.kind, obj.training, obj.device, _states(obj.tokens), len(obj.hooks), attrs)
        if isinstance(obj, Sequence):
            return (tuple(map(value, obj.items)), value(obj.tail))
        if isinstance(obj, Mapping):
            return (tuple((value(k), value(v)) for k, v in obj.items.items()), value(obj.tail))
        return None

    def tensor(self, obj: Tensor) -> Hashable:
        find = self.world.find
        for group in sorted(obj.groups | obj.deps):
            self.pointer(group)
        graph = frozenset(map(_graph, map(find, obj.segments | obj.reaches)))
        return (
            obj.requires_grad,
            obj.is_leaf,
            obj.is_parameter,
            obj.device,
            obj.device_if_tensor,
            obj.size,
            obj.integral,
            obj.activation,
            obj.loaded,
            obj.open,
            obj.is_gradient,
            graph,
            frozenset(map(self.pointer, obj.groups)),
            frozenset(map(self.pointer, obj.deps)),
            obj.data_of is None,
            obj.cut is None,
            obj.asked_at is None,
            obj.recorded,
            obj.presumed,
            obj.outright,
            obj.retains,
            obj.stale_at,
            _states(obj.tokens),
        )


def _graph(obj: Object | None) -> Hashable:
    """What has happened to a piece of a graph."""
    if not isinstance(obj, Segment):
        return None
    return obj.freed, obj.walked_at is None, obj.spoilt_at is None, obj.stale_at is None, bool(obj.retained_at)


def _states(tokens: dict[str, Any]) -> Hashable:
    return tuple((key, frozenset((t.state, t.lineage) for t in tokens[key])) for key in sorted(tokens) if tokens[key])


def _pointers(values: Iterable[Value | None], w: World) -> Iterator[int]:
    """The objects that values point to directly."""
    for value in values:
        kind = type(value)
        if kind is Const or value is None:
            continue
        if kind is Ref:
            yield value.id  # type: ignore[union-attr]
            continue
        value = w.resolve(value)
        if isinstance(value, Ref):
            yield value.id
        elif isinstance(value, Unknown):
            yield from value.deps
        elif isinstance(value, (Function, Lambda)):
            yield value.frame
            if isinstance(value, Function):
                yield from _pointers([value.owner], w)
        elif isinstance(value, Class):
            yield value.scope
            yield value.frame
            yield from _pointers(value.bases, w)
        elif isinstance(value, Bound):
            yield from _pointers([value.receiver, value.function], w)
        elif isinstance(value, Super):
            yield from _pointers([value.receiver], w)
        elif isinstance(value, Partial):
            yield from _pointers([value.function, *value.args, *(v for _, v in value.kwargs)], w)
        elif isinstance(value, Choice):
            yield from _pointers(value.alternatives, w)


def _contents(obj: Object, w: World) -> Iterator[int]:
    """The objects an object points to directly."""
    if isinstance(obj, Frame):
        if obj.parent is not None:
            yield obj.parent
        yield from _pointers(obj.vars.values(), w)
    elif isinstance(obj, Tensor):
        yield from obj.groups | obj.deps | obj.segments | obj.reaches | obj.gradient_of
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
        yield from _pointers([*obj.attrs.values(), *obj.args, *(hook.function for hook in obj.hooks)], w)
    elif isinstance(obj, Sequence):
        yield from _pointers([*obj.items, obj.tail], w)
    elif isinstance(obj, Mapping):
        yield from _pointers([*obj.items, *obj.items.values(), obj.tail], w)


def forget(world: World, roots: Iterable[int], since: int) -> list[tuple[int, Object]]:
    """The objects made after the number ``since`` that cannot be reached from ``roots`` or older objects.

    What is known of unknown values that came from them is forgotten; the objects are the caller's to delete.
    """
    young = sorted(key for key in world.heap if key > since)
    seen: set[int] = set()
    # What has not been written to since cannot point to anything younger.
    queue = [*roots, *(key for key, obj in world.heap.items() if key <= since and obj.stamp > since)]
    queue += _pointers([value for name, value in world.bound.items() if newest(name) <= since], world)
    while queue:
        key = queue.pop()
        if key not in seen:
            seen.add(key)
            obj = world.heap.get(key)
            if obj is not None and obj.stamp > since:
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


def newest(key: Hashable) -> int:
    """The largest number in the key of an unknown value: when the youngest thing it is made of came to be."""
    if isinstance(key, tuple):
        return max(map(newest, key), default=0)
    if isinstance(key, Ref):
        return key.id
    return key if type(key) is int else 0
