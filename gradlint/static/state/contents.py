"""What containers and optimizers hold, what can be reached from values, and when two worlds cannot be told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.state.declaring import cloning, holding, signing
from gradlint.static.state.liveness import Live
from gradlint.static.state.origins import fresh
from gradlint.static.state.tokens import standing
from gradlint.static.state.values import (
    REPEATED,
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
    each_of,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import names_in

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.protocol import Token


def held(container: Sequence | Mapping, w: World, depth: int = 2) -> Iterator[tuple[Value, Site | None]]:
    """What a container holds, also in containers inside, each with the place where it was put in."""
    pairs: Iterable[tuple[Value, Site | None]]
    if isinstance(container, Mapping):
        pairs = [(value, None) for value in container.items.values()]
        pairs += [(container.tail, None)] if container.tail is not None else []
    else:
        pairs = list(zip(container.items, container.sites, strict=False))
        pairs += [(container.tail, container.tail_site)] if container.tail is not None else []
    for value, site in pairs:
        value = w.resolve(value)
        inner = w.get(value, Object)
        if isinstance(inner, (Sequence, Mapping)) and depth:
            yield from held(inner, w, depth - 1)
            continue
        if site is None:
            site = next((s for part in each_of(value) if (s := getattr(w.get(part, Object), "made_at", None))), None)
        yield value, site


def closed_over(value: Function | Lambda, w: World) -> Iterator[Value]:
    """The variables around a function that it mentions."""
    if isinstance(value, Function):
        names = value.unit.words - (value.unit.parameters if value.unit.is_readable else frozenset())
    else:
        names = frozenset(names_in(value.node))
    key: int | None = value.frame
    while names and isinstance(frame := w.find(key) if key is not None else None, Frame):
        yield from (w.resolve(frame.vars[name]) for name in sorted(names & frame.vars.keys()))
        names, key = names - frame.vars.keys(), frame.parent


def united(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    """What is in any of some sets: one of them as it is, where it has all, since those of long graphs are large."""
    whole = frozenset[int]()
    for each in sets:
        if len(each) > len(whole):
            whole, each = each, whole
        if not each <= whole:
            whole |= each
    return whole


def reachable(values: Iterable[Value], w: World) -> set[int]:
    """The ids of all objects that can be reached from values."""
    seen: set[int] = set()
    closures: set[Value] = set()
    queue = list(values)
    while queue:
        value = w.resolve(queue.pop())
        if isinstance(value, (Function, Lambda)) and value not in closures and is_nested(value, w):
            closures.add(value)
            queue += closed_over(value, w)
        if not isinstance(value, Ref) or value.id in seen:
            continue
        seen.add(value.id)
        obj: Object | None = w.find(value.id)
        if isinstance(obj, Tensor):
            seen |= obj.groups
        elif isinstance(obj, Instance):
            seen |= obj.groups
            queue += obj.attrs.values()
        elif isinstance(obj, Sequence):
            queue += [*obj.items, *([obj.tail] if obj.tail is not None else [])]
        elif isinstance(obj, Mapping):
            queue += [*obj.items.values(), *([obj.tail] if obj.tail is not None else [])]
    return seen


def divided(w: World) -> set[int]:
    """The groups that several optimizers hold, one of which at least was given some of the parameters by themselves.

    It is not known which: each steps its own.
    """
    optimizers = [obj for _, obj in w.having(roles.OPTIMIZER)]
    some = [obj.groups for obj in optimizers if any(w.get(w.resolve(given), Instance) is None for given in obj.args)]
    held = Counter(key for obj in optimizers for key in obj.groups) if some else Counter[int]()
    return {key for key in frozenset[int]().union(*some) if held[key] > 1}


def left_by(members: AbstractSet[int], w: World) -> list[int]:
    """The groups that the backward passes have reached which have fed these members, and that are none of them."""
    fed = {key: group for key, group in w.all(Group) if group.fed_at is not None}
    full = {key: group for key, group in fed.items() if group.fed > group.cleared}
    passes = {group.fed for key, group in full.items() if key in members}
    return [key for key in sorted(full.keys()) if key not in members and full[key].fed in passes]


def is_nested(value: Function | Lambda, w: World) -> bool:
    """Whether a function was defined while another one ran."""
    frame = w.find(value.frame)
    return isinstance(frame, Frame) and frame.parent is not None


def clone(value: Value, w: World) -> Value:
    """``copy.deepcopy(value)``: new objects, new parameter groups."""
    return _Cloning(w).copy(value)


class _Cloning:
    """Copies values and what they hold, each once."""

    def __init__(self, w: World) -> None:
        self._world = w
        self._copies: dict[int, int] = {}

    def copy(self, value: Value) -> Value:
        """A copy of a value."""
        w = self._world
        value = w.resolve(value)
        if isinstance(value, Bound):  # a method of an object is one of its copy then
            return replace(value, receiver=self.copy(value.receiver))
        if isinstance(value, Partial):
            kwargs = tuple((name, self.copy(v)) for name, v in value.kwargs)
            args = tuple(map(self.copy, value.args))
            return replace(value, function=self.copy(value.function), args=args, kwargs=kwargs)
        if isinstance(value, Choice):
            copies = tuple(map(self.copy, value.alternatives))
            return value if copies == value.alternatives else replace(value, key=fresh(), alternatives=copies)
        if not isinstance(value, Ref):
            return value
        if value.id in self._copies:
            return Ref(self._copies[value.id])
        obj = w.find(value.id)
        if obj is None or isinstance(obj, (Frame, Segment)):
            return value
        new = obj.copy()
        if isinstance(new, Instance) and new.role is roles.PARAMETERS:
            new.args = ()  # no module has them
        ref = w.new(new)
        self._copies[value.id] = ref.id
        cloning(type(new))(new, self.copy, self.group)
        if isinstance(new, Instance):
            new.attrs.pop(REPEATED, None)
        return ref

    def group(self, key: int) -> int:
        """The number of a copy of an object."""
        ref = self.copy(Ref(key))
        assert isinstance(ref, Ref)
        return ref.id


def signature(
    world: World, since: int, different: Iterable[int], live: Live | None = None, stack: Iterable[int] = ()
) -> Hashable:
    """A value that is equal for two worlds that cannot be told apart by anything that happened since ``since``.

    Objects and unknown values made since then are numbered in the order they are met, so that fresh ones compare equal.

    Args:
        world: the world.
        since: a number of :func:`~gradlint.static.state.origins.fresh`.
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
        self.moments: list[int] = []
        self.frame = 0  #: the object that is told of

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
        out.append(self.order())
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
            return frozenset(map(self.value, value.alternatives))  # type: ignore[union-attr]
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
        obj = self.world.find(key)
        self.frame = key
        return None if obj is None else signing(type(obj))(obj, self)

    def pointers(self, keys: Iterable[int]) -> Hashable:
        return frozenset([self.pointer(key) for key in sorted(keys)])

    def graph(self, segments: Iterable[int]) -> Hashable:
        """What has happened to pieces of a graph: each iteration of a loop may make some of its own."""
        found = [self.world.find(key) for key in sorted(segments)]
        sign = signing(Segment)
        return frozenset([sign(each, self) for each in found if type(each) is Segment])

    def moment(self, number: int) -> int:
        """A number at which something happened; of what did since then only the order is told, at the end."""
        if number <= self.since:
            return number
        self.moments.append(number)
        return -1

    def order(self) -> Hashable:
        """The order of what has happened since."""
        places = {number: place for place, number in enumerate(sorted(set(self.moments)))}
        return tuple([places[number] for number in self.moments])

    def variables(self, variables: dict[str, Value]) -> Hashable:
        """The variables of the frame that is told of, as far as they may still be read."""
        live = self.live if self.live is not None and self.live.frame == self.frame else None
        names = variables if live is None else filter(live.matters, variables)
        return tuple([(name, self.value(variables[name])) for name in sorted(names)])

    def states(self, tokens: dict[str, frozenset[Token]]) -> Hashable:
        """Where subjects stand in each protocol."""
        return tuple([(key, standing(tokens[key])) for key in sorted(tokens) if tokens[key]])


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
            yield from _with_bases(value, w)
        elif isinstance(value, Bound):
            yield from _pointers([value.receiver, value.function], w)
        elif isinstance(value, Super):
            yield from _pointers([value.receiver], w)
        elif isinstance(value, Partial):
            yield from _pointers([value.function, *value.args, *(v for _, v in value.kwargs)], w)
        elif isinstance(value, Choice):
            yield from _pointers(value.alternatives, w)


def _with_bases(cls: Class, w: World) -> Iterator[int]:
    """What a class and those it derives from point to, each once however many derive from it."""
    seen: set[Value] = set()
    queue: list[Value] = [cls]
    while queue:
        here = queue.pop()
        if here not in seen:
            seen.add(here)
            if isinstance(here, Class):
                yield here.scope
                yield here.frame
                queue += here.bases
            else:
                yield from _pointers([here], w)


def contents(obj: Object, w: World) -> list[int]:
    """The objects an object points to directly."""
    ids: list[int] = []
    values: list[Value] = []
    holding(type(obj))(obj, ids, values)
    ids += _pointers(values, w)
    return ids


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
                queue += set(contents(obj, world)).difference(seen)  # what tensors of a long graph share is seen once
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
