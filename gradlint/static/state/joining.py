"""Joining worlds: one that stands for several, and which of many are the most alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from collections.abc import Sequence as AbstractSequence
from typing import Any

from gradlint.static.state.provenance import ways_into
from gradlint.static.state.values import (
    HOOKED,
    SOME_METHOD,
    WALKED,
    Assumptions,
    Bound,
    Choice,
    Class,
    External,
    Frame,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Object,
    Ref,
    Segment,
    Sequence,
    Stars,
    Tensor,
    Unknown,
    Value,
    each_of,
)
from gradlint.static.state.world import History, World, fresh

MAX_ALTERNATIVES = 4
MAX_DEFINITIONS = 16  #: the same where all are classes and functions, as in a registry or a table of commands
_MAX_CONDITIONS = 6  #: that are remembered of one alternative
_DEFINED = frozenset([Class, Function, Lambda, External])
_MANY = frozenset(["", "module", "lightning", "optimizer"])  #: kinds of objects that loops make many of


def acts(value: Value | None, w: World) -> bool:
    """Whether a value is there to be called: a function or an object of the project with methods, or one of some."""
    value = w.resolve(value) if value is not None else None
    if isinstance(value, Choice):
        return all(acts(w.resolve(each), w) for each in value.alternatives)
    if isinstance(value, (Function, Lambda, Bound)):
        return True
    obj = w.get(value, Instance) if value is not None else None
    if obj is None or obj.cls is None or obj.kind:
        return False
    return bool(obj.cls.unit.methods.keys() - {"__init__"}) or any(isinstance(base, Class) for base in obj.cls.bases)


def _is_choice(key: Hashable) -> bool:
    return isinstance(key, int) or (isinstance(key, tuple) and key[:1] in (("member",), (SOME_METHOD,)))


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
        if obj is not None and obj.kind in _MANY and obj.made_at is not None:
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
        out.assumed = {k: v for k, v in a.assumed.items() if b.assumed.get(k) is v}
        out.bound = {k: v for k, v in a.bound.items() if b.bound.get(k) == v}
        for k in a.bound.keys() ^ b.bound.keys():
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
        for key in self.a.bound.keys() & self.b.bound.keys():
            x, y = self.a.resolve(self.a.bound[key]), self.b.resolve(self.b.bound[key])
            if x != y and _is_choice(key):
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
            self.pairs[x, y] = Unknown(("join", fresh()))
            known = self.pairs[x, y] = self._value(x, y)
        return known

    def _value(self, x: Value, y: Value) -> Value:
        left, right = self.a.get(x, Object), self.b.get(y, Object)
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            tensor = join_tensors(left, right)
            tensor.age = min(self.a.age(x), self.b.age(y))
            return self.out.new(tensor)
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            row = self.sequences(left, right)
            row.age = max(self.a.age(x), self.b.age(y))
            return self.out.new(row)
        if isinstance(left, Instance) and isinstance(right, Instance) and left.kind == right.kind == "distribution":
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
            return Unknown(("join", fresh(), *_ways(x, y)), "mode" if hints == {"mode"} else "", deps)
        alternatives = alternatives_of(x, y, self.a, self.b)
        if alternatives is None:
            return Unknown(("join", fresh()))
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
        if type(x) is not type(y):
            return x
        if isinstance(x, Frame) and isinstance(y, Frame):
            return Frame(self.dicts(x.vars, y.vars), x.parent)
        if isinstance(x, Group) and isinstance(y, Group):
            return join_groups(x, y)
        if isinstance(x, Segment) and isinstance(y, Segment):
            freed = x.freed if x.freed is y.freed else None
            spoilt_at = x.spoilt_at if y.spoilt_at is not None else None
            stale_at = x.stale_at if y.stale_at is not None else None
            return Segment(
                freed,
                x.freed_at or y.freed_at,
                x.walked_at if y.walked_at is not None else None,
                x.result,
                x.saved,
                x.perhaps_saved | y.perhaps_saved,
                spoilt_at,
                x.spoilt_by,
                x.presumed,
                x.weights,
                stale_at,
                x.idle or y.idle,
                x.retained_at | y.retained_at,
            )
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            return join_tensors(x, y)
        if isinstance(x, Instance) and isinstance(y, Instance):
            new: Instance = x.copy()
            new.attrs = self.dicts(x.attrs, y.attrs)
            new.groups = x.groups | y.groups
            new.training = x.training if x.training is y.training else None
            new.device = x.device if x.device == y.device else None
            new.stepped = x.stepped if x.stepped is y.stepped else None
            new.set_at = {**y.set_at, **x.set_at}
            new.optional = x.optional | y.optional | (x.attrs.keys() ^ y.attrs.keys())
            new.buffers = x.buffers | y.buffers
            new.in_forward = x.in_forward and y.in_forward
            new.tokens = join_tokens(x.tokens, y.tokens)
            new.hooks = tuple(hook for hook in x.hooks if hook in y.hooks)
            return new
        if isinstance(x, Sequence) and isinstance(y, Sequence):
            return self.sequences(x, y)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            factory = x.factory if x.factory == y.factory else None
            return Mapping(self.dicts(x.items, y.items), self.optional(x.tail, y.tail), factory)
        return x

    def sequences(self, x: Sequence, y: Sequence) -> Sequence:
        shared = min(len(x.items), len(y.items))
        items = [a if a == b else self.value(a, b) for a, b in zip(x.items[:shared], y.items[:shared], strict=False)]
        tail, site = self.optional(x.tail, y.tail), x.tail_site or y.tail_site
        longer, w = (x, self.a) if len(x.items) > shared else (y, self.b)
        more = longer.items[shared:]
        for extra, where in zip(more, longer.sites[shared:], strict=False):
            tail, site = self.optional(tail, extra), site or where
        if len(more) > 1 and any(acts(extra, w) for extra in more):  # they are there together, each in its turn
            tail = Unknown(("join", fresh()))
        closed_by = x.closed_by if x.closed_by == y.closed_by else None
        fields = x.fields if x.fields == y.fields else ()  # named tuples of two kinds
        own, held, loses, clears = x.own | y.own, x.held & y.held, x.loses or y.loses, x.clears | y.clears
        return Sequence(items, x.sites[:shared], tail, site, x.mutable, fields, closed_by, own, held, loses, clears)


def _common(one: Assumptions | None, other: Assumptions | None) -> Assumptions:
    """What two worlds both say of a value, or the one that has it."""
    if one is None or other is None:
        return one or other or ()
    return tuple(each for each in one if each in other)


def _ways(x: Value, y: Value) -> tuple[Hashable, ...]:
    """What was joined into an unknown value, as far as that is unknown as well, if these are few."""
    if not isinstance(x, Unknown) or not isinstance(y, Unknown):
        return ()
    ways = tuple(dict.fromkeys((*(ways_into(x.key) or (x.key,)), *(ways_into(y.key) or (y.key,)))))
    return ways if len(ways) <= MAX_ALTERNATIVES else ()


def _are_same_parameters(x: Instance, y: Instance) -> bool:
    """Whether ``model.parameters()`` was asked of two models that hold the same ones, as a model and its wrapper do."""
    return x.kind == y.kind == "parameters" and x.groups == y.groups and x.attrs.keys() == y.attrs.keys()


def _same(x: Any, y: Any) -> Any:
    return x if x == y else None


def join_groups(x: Group, y: Group) -> Group:
    """What holds of parameters that are the ones or the others."""
    grad = x.requires_grad if x.requires_grad is y.requires_grad else None
    stepped, prepared = max(x.stepped, y.stepped), _same(x.prepared, y.prepared)
    tokens, discarded = join_tokens(x.tokens, y.tokens), _same(x.discarded, y.discarded)
    late = (x.beside, x.placed, x.placed_at, x.copied) if x.beside == y.beside else ()
    wasted = _same(x.wasted, y.wasted)
    joined = Group(grad, x.opaque, tokens, x.made_at, stepped, prepared, discarded, wasted, *late)
    joined.told, joined.touched = x.told or y.told, x.touched or y.touched
    joined.fed, joined.cleared = max(x.fed, y.fed), max(x.cleared, y.cleared)
    return joined


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
        places=x.places and y.places,
        activation=_same(x.activation, y.activation),
        activation_at=x.activation_at or y.activation_at,
        nudged=x.nudged if x.nudged == y.nudged else "",
        random=x.random and y.random,
        constant=x.constant and y.constant,
        loaded=x.loaded and y.loaded,
        placed=x.placed or y.placed,
        kept_as=x.kept_as if x.kept_at == y.kept_at else ("", ""),
        kept_at=x.kept_at if x.kept_at == y.kept_at else None,
        made_at=x.made_at or y.made_at,
        moved_at=x.moved_at or y.moved_at,
        moved_of=_same(x.moved_of, y.moved_of),
        # What may be no leaf has no gradient of its own.
        groups=x.groups | y.groups if x.groups and y.groups else frozenset(),
        deps=x.deps | y.deps,
        open=x.open or y.open,
        segments=x.segments | y.segments,
        reaches=x.reaches | y.reaches,
        scaled=x.scaled and y.scaled,
        calls=x.calls | y.calls,
        doubtful=x.doubtful | y.doubtful | x.segments ^ y.segments,
        sources=tuple(dict.fromkeys((*x.sources, *y.sources))),
        results=tuple(dict.fromkeys((*x.results, *y.results))),
        data_of=_same(x.data_of, y.data_of),
        part_of=_same(x.part_of, y.part_of),
        data_at=x.data_at or y.data_at,
        gradient_of=x.gradient_of & y.gradient_of,
        is_gradient=x.is_gradient and y.is_gradient,
        structured=x.structured or y.structured,
        supposed=x.supposed or y.supposed,
        on_device_as_one=x.on_device_as_one or y.on_device_as_one,
        device_if_tensor=_same(x.device_if_tensor or x.device, y.device_if_tensor or y.device)
        if x.device_if_tensor or y.device_if_tensor
        else None,
        cut=x.cut if y.cut is not None else None,
        vague=x.vague or y.vague,
        recorded=x.recorded and y.recorded,
        presumed=x.presumed and y.presumed,
        outright=x.outright and y.outright,
        base=_same(x.base, y.base),
        picked=x.picked or y.picked,
        retains=_same(x.retains, y.retains),
        begun=min(x.begun, y.begun),
        stale_at=x.stale_at or y.stale_at,
        asked_at=_same(x.asked_at, y.asked_at),
        pending=tuple(event for event in x.pending if event in y.pending),
        tokens=join_tokens(x.tokens, y.tokens),
    )


def join_tokens(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """Each protocol's tokens of either side; a side without any is still at the start, and says nothing."""
    out = x.copy()
    for key, tokens in y.items():
        known = out.get(key)
        if known is not tokens:  # most often they are one object
            out[key] = tokens if known is None else known | tokens
    return out


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
        return Unknown(("never", fresh()))
    world, value = join_results(results)
    w.become(world)
    return w.resolve(value)


def _happened(key: Hashable) -> bool:
    """Whether what a world is bound to tells of something that happened: in either of two is in both."""
    return key == HOOKED or (isinstance(key, tuple) and key[0] == WALKED)
