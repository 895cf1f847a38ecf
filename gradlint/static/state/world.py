"""Worlds: abstract program states, how they fork, meet again, and when two of them are the same.

A world is one way the program may have gone so far.  A branch whose condition is unknown forks it; the forks
remember what they assumed, so that the same condition tested again takes the same branch.  Worlds that differ
in nothing that matters are merged at once; when there are too many, the most similar ones are joined, which
forgets what they disagree about.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, TypeVar

from gradlint.static.knowledge.roles import Role
from gradlint.static.state.comparisons import Assumed
from gradlint.static.state.origins import Comparison, Stored, fresh
from gradlint.static.state.values import (
    Assumptions,
    Choice,
    Const,
    Instance,
    Object,
    Ref,
    Unknown,
    Value,
)

ObjectT = TypeVar("ObjectT", bound=Object)

LAST = "last"
"""Of the turns that a branch takes: the loop in the last iteration of which it is taken."""

_KEY = itemgetter(0)

_places: dict[tuple[Hashable, int], int] = {}


class History:
    """Which objects were changed since a fork, and what was before it.

    What was made since then counts only where another world may have made it, too.
    """

    __slots__ = ("depth", "keys", "parent")

    def __init__(self, parent: History | None = None) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.keys: set[int] = set()

    @property
    def known(self) -> History:
        """What there is to go on from: what was before the fork, where nothing was changed since.

        The worlds that the cases of a long ``match`` leave over, each a fork of the one before, are not one behind the
        other then.
        """
        return self if self.keys or self.parent is None else self.parent


class Imported(dict[int, Object]):
    """What imported modules have made, by number and by kind; put in by :meth:`add` alone."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[type[Object], dict[int, Object]] = {}

    def add(self, key: int, obj: Object) -> None:
        """A module has made or changed an object."""
        before = self.get(key)
        if before is not None and type(before) is not type(obj):
            del self._kinds[type(before)][key]
        self[key] = self._kinds.setdefault(type(obj), {})[key] = obj

    def of(self, kind: type[ObjectT]) -> Mapping[int, ObjectT]:
        """The objects of a kind."""
        return self._kinds.get(kind, {})  # type: ignore[return-value]  # by their types


class World:
    """A heap, a grad mode, and what was assumed on the way."""

    __slots__ = (
        "assumed",
        "bound",
        "device_checked",
        "either_walks",
        "grad",
        "heap",
        "history",
        "module_checked",
        "modules",
        "periodic",
        "raised",
        "shared",
        "token",
        "turns",
        "unfollowed",
        "varying",
    )

    def __init__(self, shared: Imported | None = None) -> None:
        self.heap: dict[int, Object] = {}
        self.shared = Imported() if shared is None else shared  #: what imported modules made; never written to
        self.grad: bool | None = True
        self.assumed = Assumed()  #: truth of unknown conditions
        self.bound: dict[Hashable, Value] = {}  #: what an unknown or a choice turned out to be
        self.modules: dict[Any, int] = {}  #: the frames of the project's modules
        self.device_checked = False  #: inside a branch on a device
        self.module_checked = False  #: inside a branch on the ``training`` of a module
        self.periodic = False  #: inside a branch that every k-th iteration takes
        self.either_walks = False  #: inside such a branch, and a backward pass is made whichever way it goes
        self.varying = False  #: inside a branch that some iterations take, by what they have computed
        self.turns: dict[Hashable, Hashable] = {}
        """Of each branch that some iterations are sure to take and others to pass: which of them this one is."""
        self.raised = False  #: None was used as if it were something else, or an empty list as if it held something
        self.unfollowed = False  #: something was called that could not be followed, and rules were not told
        self.token: object = object()
        self.history = History()

    def copy(self) -> World:
        """A fork of this world.  Both share objects until either writes."""
        new = World.__new__(World)
        new.heap = self.heap.copy()
        new.shared = self.shared
        new.grad = self.grad
        new.assumed = self.assumed.copy()
        new.bound = self.bound.copy()
        new.modules = self.modules.copy()
        new.module_checked, new.device_checked = self.module_checked, self.device_checked
        new.periodic, new.raised, new.unfollowed = self.periodic, self.raised, self.unfollowed
        new.varying, new.either_walks = self.varying, self.either_walks
        new.turns = self.turns  # never changed in place
        self.token, new.token = object(), object()
        before = self.history.known
        self.history, new.history = History(before), History(before)
        return new

    @property
    def within(self) -> tuple[bool, bool, bool, bool]:
        """In which kinds of branches it stands: on the mode of a module, and periodic, and varying ones."""
        return self.module_checked, self.periodic, self.either_walks, self.varying

    @within.setter
    def within(self, branches: tuple[bool, bool, bool, bool]) -> None:
        self.module_checked, self.periodic, self.either_walks, self.varying = branches

    def alternatives(self, choice: Choice) -> list[tuple[Value, World]]:
        """What a choice may be after all that was assumed, each with a fork of this world in which it is that."""
        conditions: Iterable[Assumptions] = choice.conditions or [()] * len(choice.alternatives)
        ways = [*zip(choice.alternatives, conditions, strict=True)]
        allowed = [way for way in ways if not any(self.assumed.follows(key) is (not holds) for key, holds in way[1])]
        return [(alternative, self._taking(choice, alternative, holding)) for alternative, holding in allowed or ways]

    def _taking(self, choice: Choice, alternative: Value, conditions: Assumptions) -> World:
        world = self.copy()
        world.bound[choice.key] = alternative
        world.assumed.assume(conditions)
        world.bound.update(_keys_told(conditions))
        return world

    def parted(self, other: World) -> tuple[History | None, set[int]]:
        """Where this world and another were one for the last time, and the objects that may be different since then."""
        mine: History | None = self.history
        theirs: History | None = other.history
        keys: set[int] = set()
        while mine is not theirs:
            if mine is not None and (theirs is None or mine.depth >= theirs.depth):
                keys |= mine.keys
                mine = mine.parent
            elif theirs is not None:
                keys |= theirs.keys
                theirs = theirs.parent
        return mine, keys

    def disagreements(self, other: World) -> list[tuple[int, Object, Object]]:
        """The objects that both worlds have, each as it is in this one and in the other, where that is not the same."""
        here, there, shared = self.heap.get, other.heap.get, self.shared.get
        differing = [(key, x, y) for key in self.parted(other)[1] if (x := here(key)) is not (y := there(key))]
        differing.sort(key=_KEY)
        found = ((key, x or shared(key), y or shared(key)) for key, x, y in differing)
        return [(key, x, y) for key, x, y in found if x is not None and y is not None]

    def become(self, other: World) -> None:
        """Go on as ``other``, which must not be used any more."""
        if other is not self:
            for slot in World.__slots__:
                setattr(self, slot, getattr(other, slot))

    def new(self, obj: Object, place: Hashable = None, *, key: int = 0) -> Ref:
        """Put an object into the heap, under a number that was taken for it or a new one.

        What two worlds make at one ``place`` of the program is one object: where they meet again it is joined, not
        kept as one of two.
        """
        obj.owner = self.token
        obj.stamp = fresh()
        if key or place is not None:  # a number just taken is one that no other world has
            key = key or self._placed(place)
            self.history.keys.add(key)
        key = key or obj.stamp
        self.heap[key] = obj
        return Ref(key)

    def _placed(self, place: Hashable) -> int:
        """The first id of this place that this world has no object for."""
        for number in itertools.count():
            key = _places.get((place, number))
            if key is None:
                key = _places[place, number] = fresh()
            if key not in self.heap and key not in self.shared:
                return key
        raise AssertionError

    def adopt(self, objects: dict[int, Object]) -> None:
        """Take over the objects of another world that this one does not have."""
        for key, obj in objects.items():
            if key not in self.heap:
                self.heap[key] = obj
                self.history.keys.add(key)

    def all(self, kind: type[ObjectT], *, imported: bool = False) -> list[tuple[int, ObjectT]]:
        """The objects of a kind that this program has made, and those that imported modules have made, by number."""
        own = {key: obj for key, obj in self.heap.items() if type(obj) is kind}
        if not imported:
            return [*own.items()]
        others = ((key, obj) for key, obj in self.shared.of(kind).items() if key not in self.heap)
        return [*others, *own.items()]

    def having(self, role: Role, *, imported: bool = False) -> list[tuple[int, Instance]]:
        """Of these, the objects that are something to a training program: its optimizers."""
        return [(key, obj) for key, obj in self.all(Instance, imported=imported) if obj.role is role]

    def write(self, key: int) -> Any:
        """The object ``key``, free to be changed in this world."""
        obj = self.heap.get(key)
        if obj is None:
            obj = self.shared[key]
        if obj.owner is not self.token:
            obj = obj.copy()
            obj.owner = self.token
            self.heap[key] = obj
            self.history.keys.add(key)
        obj.stamp = fresh()
        return obj

    def find(self, key: int) -> Object | None:
        """The object with this id."""
        obj = self.heap.get(key)
        return self.shared.get(key) if obj is None else obj

    def get(self, value: Value, kind: type[ObjectT]) -> ObjectT | None:
        """The heap object behind ``value`` if it is of this kind."""
        if type(value) is Ref:
            obj = self.heap.get(value.id) or self.shared.get(value.id)
            if isinstance(obj, kind):
                return obj
        return None

    def age(self, value: Value) -> int:
        """The number at which an object came to be: of two that were joined, the older tensor, or the younger list."""
        assert isinstance(value, Ref)
        return getattr(self.find(value.id), "age", 0) or value.id

    def store(self, place: Hashable, value: Value) -> None:
        """Let what is read at a place in something unknown be ``value`` from now on."""
        self.bound[Stored(place)] = self.resolve(value)

    def stored(self, place: Hashable) -> Value | None:
        """What was stored last at a place in something unknown; None if nothing was."""
        known = self.bound.get(Stored(place))
        return None if known is None else self.resolve(known)

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


def _keys_told(conditions: Assumptions) -> Iterator[tuple[Hashable, Value]]:
    """What unknown values are where these conditions hold: the keys by which something was looked up in a table."""
    for condition, holds in conditions:
        match condition:
            case Comparison("==", subject, Const() as value) if holds:
                yield subject, value
