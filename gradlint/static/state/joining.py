"""Joining worlds: one that stands for several, and which of many are the most alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from collections.abc import Sequence as AbstractSequence
from typing import TYPE_CHECKING, Any

from gradlint.static.knowledge import roles
from gradlint.static.state.comparisons import Assumed
from gradlint.static.state.declaring import first, joining
from gradlint.static.state.origins import MemberOf, OneOf, SomeMethodOf, fresh
from gradlint.static.state.values import (
    HOOKED,
    LEFT,
    WALKED,
    Assumptions,
    Bound,
    Choice,
    Class,
    External,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Object,
    Ref,
    Sequence,
    Stars,
    Tensor,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import History, World

if TYPE_CHECKING:
    from gradlint.finding import Site

MAX_ALTERNATIVES = 4
MAX_DEFINITIONS = 16  #: the same where all are classes and functions, as in a registry or a table of commands
_MAX_CONDITIONS = 6  #: that are remembered of one alternative
_DEFINED = frozenset([Class, Function, Lambda, External])


def acts(value: Value | None, w: World) -> bool:
    """Whether a value is there to be called: a function or an object of the project with methods, or one of some."""
    value = w.resolve(value) if value is not None else None
    if isinstance(value, Choice):
        return all(acts(w.resolve(each), w) for each in value.alternatives)
    if isinstance(value, (Function, Lambda, Bound)):
        return True
    obj = w.get(value, Instance) if value is not None else None
    if obj is None or obj.cls is None or obj.role is not roles.PLAIN:
        return False
    return bool(obj.cls.unit.methods.keys() - {"__init__"}) or any(isinstance(base, Class) for base in obj.cls.bases)


def _is_choice(key: Hashable) -> bool:
    return isinstance(key, (int, MemberOf, SomeMethodOf))


def _with_conditions(value: Value) -> Iterator[tuple[Value, Assumptions]]:
    """What a value may be, and what holds where it is that."""
    if isinstance(value, Choice) and value.conditions:
        return zip(value.alternatives, value.conditions, strict=True)
    return ((alternative, ()) for alternative in each_of(value))


def alternatives_of(a: Value, b: Value, *worlds: World) -> tuple[Value, ...] | None:
    """What a value is one of that is either of two; None if that is too much to follow.

    Of many objects that are made at one place, as by a loop, two of each class stand for all, or one where there are
    many; where there are too many classes, some of them stand for all.
    """
    alternatives = tuple(dict.fromkeys((*each_of(a), *each_of(b))))
    most = _most({type(value) for value in alternatives})
    for standing, by_class in ((2, True), (1, True), (2, False), (1, False)):
        if len(alternatives) > most:
            alternatives = tuple(_some_of_each_place(alternatives, standing, worlds, by_class=by_class))
    return alternatives if len(alternatives) <= most else None


def _some_of_each_place(
    values: Iterable[Value], most: int, worlds: Iterable[World], *, by_class: bool
) -> Iterator[Value]:
    """The values, but of the modules and objects of the project that one place makes (of each class) only some."""
    made: Counter[Hashable] = Counter()
    for value in values:
        obj = next((obj for w in worlds if (obj := w.get(value, Instance)) is not None), None)
        if obj is not None and obj.role.comes_in_numbers and obj.made_at is not None:
            place = obj.made_at, (obj.cls or obj.name) if by_class else None
            made[place] += 1
            if made[place] > most:
                continue
        yield value


def _most(kinds: set[type]) -> int:
    """How many values of these kinds are followed where it is not known which it is."""
    return MAX_DEFINITIONS if kinds <= _DEFINED else MAX_ALTERNATIVES


def _owned(values: Iterable[Value], w: World) -> set[int]:
    """Modules and optimizers, what holds them, and the parameters they have."""
    found: set[int] = set()
    queue = [value.id for value in values if isinstance(value, Ref)]
    while queue:
        key = queue.pop()
        obj = w.find(key)
        if isinstance(obj, Tensor) and obj.is_parameter:
            found |= obj.groups
        if key in found or not isinstance(obj, Instance):
            continue
        found.add(key)
        found |= obj.groups
        held = (w.resolve(one) for value in obj.attrs.values() for one in each_of(w.resolve(value)))
        queue += [value.id for value in held if isinstance(value, Ref)]
    return found


def parameters_of_many(value: Value, w: World) -> set[int]:
    """The parameters of a value that is any one of the objects made at one place, as by a loop, which each have some.

    A tuple may hold several such values.
    """
    value = value if isinstance(value, Choice) else w.resolve(value)  # whichever of them was the one before
    row = w.get(value, Sequence)
    if row is not None and not row.mutable:
        return set[int]().union(*(parameters_of_many(item, w) for item in row.items))
    if not isinstance(value, Choice):
        return set()
    objects = [w.get(one, Instance) for one in value.alternatives]
    places = {obj.made_at if obj is not None else None for obj in objects}
    if len(places) > 1 or None in places:
        return set()
    return parameters_apart(value, w)


def parameters_apart(choice: Choice, w: World) -> set[int]:
    """The parameters that one of the objects a choice is between has and another has not."""
    owned = [_owned([one], w) for one in choice.alternatives]
    return {key for key in set[int]().union(*owned) - owned[0].intersection(*owned) if isinstance(w.find(key), Group)}


class _Join:
    """Joins two worlds into a new one."""

    def __init__(self, a: World, b: World) -> None:
        self.a, self.b = a, b
        self.out = World(a.shared)
        self.out.modules = {**b.modules, **a.modules}
        self.out.heap = {**b.heap, **a.heap}
        before, changed = a.parted(b)
        self.out.history = History(before)
        self.out.history.keys |= changed
        self.pairs: dict[tuple[Value, Value], Value] = {}

    def run(self) -> World:
        a, b, out = self.a, self.b, self.out
        out.grad = a.grad if a.grad is b.grad else None
        out.module_checked = a.module_checked and b.module_checked
        out.device_checked = a.device_checked or b.device_checked
        out.periodic, out.unfollowed = a.periodic and b.periodic, a.unfollowed or b.unfollowed
        out.assumed = Assumed((k, v) for k, v in a.assumed.items() if b.assumed.get(k) is v)
        out.varying, out.either_walks = a.varying and b.varying, a.either_walks and b.either_walks
        out.turns = a.turns if a.turns == b.turns else {k: v for k, v in a.turns.items() if b.turns.get(k) is v}
        out.bound = {k: v for k, v in a.bound.items() if b.bound.get(k) == v}
        for k in set(a.bound) ^ set(b.bound):  # sets of dicts keep the hashes of their keys, views do not
            # Only one of the two knows what this is: keep it, it was unknown and harmless in the other.
            known = a.bound.get(k, b.bound.get(k))
            if _is_choice(k):
                continue  # the other world has not decided, or has been joined from some that decided differently
            if isinstance(known, Ref) or (known is not None and _happened(k)):
                out.bound[k] = known
                self.doubt(known)
        mine, theirs = self.decided()
        for key, left, right in a.disagreements(b):
            if (key in mine) is not (key in theirs) and isinstance(left, (Group, Instance)):
                out.heap[key] = left if key in mine else right
                continue
            joined = out.heap[key] = self.objects(left, right)
            if joined is not left and joined is not right:
                joined.owner, joined.stamp = out.token, fresh()
        return out

    def doubt(self, value: Value) -> None:
        """Only one world knows that a value is a tensor: what was done with it there was not done in the other."""
        tensor = self.out.get(value, Tensor)
        if tensor is not None and tensor.pending and isinstance(value, Ref):
            self.out.write(value.id).pending = ()

    def decided(self) -> tuple[set[int], set[int]]:
        """What belongs to what each world has chosen and the other has not: that is as it is where it was chosen."""
        mine, theirs = set[int](), set[int]()
        for key in [key for key in self.a.bound if _is_choice(key) and key in self.b.bound]:
            x, y = self.a.resolve(self.a.bound[key]), self.b.resolve(self.b.bound[key])
            if x != y:
                left, right = set(each_of(x)), set(each_of(y))
                mine |= _owned(left - right, self.a)
                theirs |= _owned(right - left, self.b)
                both = alternatives_of(x, y, self.a, self.b)
                if both is not None:
                    self.out.bound[key] = Choice(fresh(), both, self.conditions(both, x, y))
        return mine, theirs

    def value(self, x: Value, y: Value) -> Value:
        x, y = self.a.resolve(x), self.b.resolve(y)
        if x == y:
            return x
        known = self.pairs.get((x, y))
        if known is None:
            # Entered before it is computed, so that cyclic objects end.
            self.pairs[x, y] = Unknown(OneOf(fresh()))
            known = self.pairs[x, y] = self._value(x, y)
        return known

    def _value(self, x: Value, y: Value) -> Value:
        left, right = self.a.get(x, Object), self.b.get(y, Object)
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            tensor = join_tensors(left, right)
            tensor.age = min(self.a.age(x), self.b.age(y))
            return self.out.new(tensor)
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            row: Sequence = joining(Sequence)(left, right, self)
            row.age = max(self.a.age(x), self.b.age(y))
            return self.out.new(row)
        if isinstance(left, Instance) and isinstance(right, Instance) and left.role is right.role is roles.DISTRIBUTION:
            return self.out.new(self.objects(left, right))
        if isinstance(left, Instance) and isinstance(right, Instance) and _are_same_parameters(left, right):
            return self.out.new(self.objects(left, right))
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            return self.out.new(self.objects(left, right))
        if isinstance(x, Stars) and isinstance(y, Stars):
            return Stars(tuple(dict.fromkeys((*x.sources, *y.sources))))
        if isinstance(x, Unknown) or isinstance(y, Unknown):
            deps = getattr(x, "deps", frozenset()) | getattr(y, "deps", frozenset())
            for obj in (left, right):
                if isinstance(obj, Tensor):
                    deps |= obj.deps
            hints = {getattr(value, "hint", "") for value in (x, y)}
            ways = _ways([x, y], [left, right])
            return Unknown(OneOf(fresh(), ways), "mode" if hints == {"mode"} else "", deps)
        alternatives = alternatives_of(x, y, self.a, self.b)
        if alternatives is None:
            return Unknown(OneOf(fresh()))
        return Choice(fresh(), alternatives, self.conditions(alternatives, x, y))

    def conditions(self, alternatives: Iterable[Value], x: Value, y: Value) -> tuple[Assumptions, ...]:
        """What was assumed in the one world only where a value is that of this world, for each of its alternatives.

        Of what may be the value in both worlds, that is what both of them say.
        """
        sides = [
            {value: (*own, *assumed) for value, own in _with_conditions(side)}
            for side, assumed in ((x, self._alone(self.a)), (y, self._alone(self.b)))
        ]
        first, second = sides
        found = [_common(first.get(each), second.get(each)) for each in alternatives]
        return tuple(found) if any(found) else ()

    def _alone(self, world: World) -> Assumptions:
        """What was assumed in one of the worlds only."""
        kept = self.out.assumed
        alone = [(key, holds) for key, holds in world.assumed.items() if key not in kept]
        return tuple(alone) if len(alone) <= _MAX_CONDITIONS else ()

    def optional(self, x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return x if y is None else y
        return self.value(x, y)

    def dicts(self, x: dict[Any, Value], y: dict[Any, Value]) -> dict[Any, Value]:
        out = x.copy()
        for key, theirs in y.items():
            mine = x.get(key)
            if mine is None:  # set on one way only: reading it means that way was taken
                out[key] = theirs
            elif mine is not theirs and mine != theirs:
                out[key] = self.value(mine, theirs)
        return out

    def objects(self, x: Object, y: Object) -> Object:
        """Two objects that stand under one number, or are one of two; those of two classes are not joined."""
        return joining(type(x))(x, y, self) if type(x) is type(y) else x

    def row(self, x: tuple[Value, ...], y: tuple[Value, ...]) -> tuple[Value, ...]:
        """Values in order; none where there are more on the one side."""
        return tuple(map(self.value, x, y)) if len(x) == len(y) else ()

    def items(self, x: Sequence, y: Sequence) -> list[Value]:
        """The items of two lists that both have; :meth:`tail` tells what becomes of the others."""
        return [a if a == b else self.value(a, b) for a, b in zip(x.items, y.items, strict=False)]

    def sites(self, x: Sequence, y: Sequence) -> list[Site | None]:
        """Where the items were put in that both have."""
        pairs = zip(x.sites, y.sites, strict=False)
        both = [a if a is b or b is None else b if a is None else first(a, b) for a, b in pairs]
        return both[: min(len(x.items), len(y.items))]

    def tail(self, x: Sequence, y: Sequence) -> Value | None:
        """What there may be any number of, behind the items that both lists have."""
        shared, tail = min(len(x.items), len(y.items)), self.optional(x.tail, y.tail)
        longer, w = (x, self.a) if len(x.items) > shared else (y, self.b)
        more = longer.items[shared:]
        for extra in more:
            tail = self.optional(extra, tail) if longer is x else self.optional(tail, extra)
        if len(more) > 1 and any(acts(extra, w) for extra in more):  # they are there together, each in its turn
            return Unknown(OneOf(fresh()))
        return tail

    def tail_site(self, x: Sequence, y: Sequence) -> Site | None:
        """Where the first of the tail was put in, if that is known."""
        longer = x if len(x.items) > len(y.items) else y
        more = longer.sites[min(len(x.items), len(y.items)) : len(longer.items)]
        return _first_of((x.tail_site, y.tail_site)) or next((site for site in more if site is not None), None)


def _first_of(sites: tuple[Site | None, Site | None]) -> Site | None:
    x, y = sites
    return first(x, y) if x is not None and y is not None else x or y


def _common(one: Assumptions | None, other: Assumptions | None) -> Assumptions:
    """What two worlds both say of a value, or the one that has it."""
    if one is None or other is None:
        return one or other or ()
    return tuple(each for each in one if each in other)


def _ways(values: AbstractSequence[Value], objects: AbstractSequence[Object | None]) -> tuple[Hashable, ...]:
    """What was joined into an unknown value, if all of that is unknown as well, or a tensor, and these are few."""
    ways: dict[Hashable, None] = {}
    for value, obj in zip(values, objects, strict=True):
        if not isinstance(value, Unknown) and not isinstance(obj, Tensor):
            return ()
        key = value.key if isinstance(value, Unknown) else value
        ways |= dict.fromkeys(key.ways if isinstance(key, OneOf) and key.ways else (key,))
    return tuple(ways) if len(ways) <= MAX_ALTERNATIVES else ()


def _are_same_parameters(x: Instance, y: Instance) -> bool:
    """Whether ``model.parameters()`` was asked of two models that hold the same ones, as a model and its wrapper do."""
    return x.role is y.role is roles.PARAMETERS and x.groups == y.groups and x.attrs.keys() == y.attrs.keys()


def join_groups(x: Group, y: Group) -> Group:
    """What holds of parameters that are the ones or the others."""
    joined: Group = joining(Group)(x, y, None)
    return joined


def join_tensors(x: Tensor, y: Tensor) -> Tensor:
    """What holds of a tensor that is one of two."""
    joined: Tensor = joining(Tensor)(x, y, None)
    return joined


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


def joined(results: AbstractSequence[tuple[World, Value]], w: World) -> Value:
    """Go on in ``w`` with the join of all the ways a call may have ended."""
    if not results:
        return new_unknown("never")
    world, value = join_results(results)
    w.become(world)
    return w.resolve(value)


def _happened(key: Hashable) -> bool:
    """Whether what a world is bound to tells of something that happened: in either of two is in both."""
    return key == HOOKED or (isinstance(key, tuple) and key[0] in (WALKED, LEFT))
