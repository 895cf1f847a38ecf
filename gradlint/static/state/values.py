"""Abstract values, and the objects of the abstract heap.

Values are immutable and compare by meaning.  Whatever has identity (a tensor, a module, a list, a frame of
variables) lives in the heap of a :class:`~gradlint.static.state.world.World` and is pointed to by a :class:`Ref`.
Properties of heap objects are three-valued: ``True``, ``False``, or ``None`` for unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gradlint.static.knowledge.roles import PLAIN, FunctionKind, Role
from gradlint.static.state.declaring import (
    AGREED,
    BOTH,
    BY_NAME,
    COMMON,
    EITHER,
    FIRST,
    FIRST_BY_NAME,
    FIRST_OF_BOTH,
    GIVEN_VALUE,
    GREATER_ROLE,
    GREATEST,
    HOOKS,
    ID,
    IDS,
    ONE_CLASS,
    ONE_VALUE,
    OPTIONAL,
    OWN,
    OWN_BY_NAME,
    OWN_HOOKS,
    OWN_ITEMS,
    OWN_PAIR,
    OWN_ROW,
    OWN_VALUE,
    OWN_VALUES,
    PAIRS,
    POINTED,
    POINTED_SET,
    ROW,
    SETTLED,
    SHARED,
    STATES,
    TOKENS,
    TOLD,
    UNION,
    VALUE,
    VALUES,
    VALUES_BY_NAME,
    VARIABLES,
    WHETHER,
    WHETHER_ANY,
    Join,
    agreed,
    beside,
    fact,
    story,
    uncertain,
    where_same,
)
from gradlint.static.state.origins import New, Origin, What, fresh
from gradlint.static.state.tensor import CHOSEN as CHOSEN
from gradlint.static.state.tensor import DEVICE
from gradlint.static.state.tensor import Averages as Averages
from gradlint.static.state.tensor import Cut as Cut
from gradlint.static.state.tensor import Object as Object
from gradlint.static.state.tensor import Tensor as Tensor

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.protocol import Token
    from gradlint.static.knowledge.ops import Layer, Loss
    from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
    from gradlint.static.text.files import Module

Tokens = frozenset["Token"]

# --- values ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A Python constant: None, a bool, number, string, bytes, or Ellipsis."""

    value: Any
    asked: int | None = None
    """Of a mode that was read off a module: the number at which that was last set; see :attr:`Instance.mode_asked`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and type(self.value) is type(other.value) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Unknown:
    """Any value.  ``key`` tells unknown values apart: equal keys mean the same value, tested once."""

    key: Origin
    hint: str = field(default="", compare=False)  #: the name it was first known by
    deps: frozenset[int] = field(default=frozenset(), compare=False)  #: parameter groups it may have come from


def new_unknown(what: What, hint: str = "", deps: frozenset[int] = frozenset()) -> Unknown:
    """A value of which only this is known.  No other is the same."""
    return Unknown(New(what, fresh()), hint, deps)


@dataclass(frozen=True, slots=True)
class Ref:
    """A pointer to a heap object."""

    id: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the project, with the frame it closes over."""

    unit: FunctionUnit
    frame: int
    owner: Class | None = None
    kind: FunctionKind = ""
    grad: bool | None = None  #: the grad mode a decorator sets, None for the caller's


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the project.  ``scope`` is the heap object that holds its attributes."""

    unit: ClassUnit
    bases: tuple[Value, ...] = field(hash=False)
    scope: int
    frame: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A method of an object: of the project (``function`` set) or known only by name."""

    receiver: Value
    name: str
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class External:
    """Something outside the project, by its canonical dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """A module of the project."""

    module: Module = field(hash=False)
    name: str = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """What ``from module import name`` brought into a file: looked up when the file reads it."""

    module: Module = field(hash=False)
    name: str


@dataclass(frozen=True, slots=True)
class Stars:
    """What ``from module import *`` brought into a file: files of the project, and others by name; the last first."""

    sources: tuple[Module | str, ...] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Super:
    """``super()``: attribute look-up continues after ``cls`` in the bases of the receiver."""

    cls: Class
    receiver: Value


@dataclass(frozen=True, slots=True)
class Partial:
    """``functools.partial``."""

    function: Value
    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]
    checked: bool = False  #: it was chosen by the mode of a module


@dataclass(frozen=True, slots=True)
class Lambda:
    """A lambda expression, with the frame it closes over."""

    site: Any  #: where it stands
    frame: int

    @property
    def node(self) -> Any:
        """The expression."""
        return self.site.node

    @property
    def unit(self) -> Any:
        """The unit it stands in."""
        return self.site.unit


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values; which one is decided at most once in a world."""

    key: Hashable
    alternatives: tuple[Value, ...]
    conditions: tuple[Assumptions, ...] = ()  #: for each alternative, what holds where it is that one; none: not known


Assumptions = tuple[tuple[Hashable, bool], ...]
"""The keys of unknown conditions, and whether they hold."""

Value = (
    Const
    | Unknown
    | Ref
    | Function
    | Class
    | Bound
    | External
    | Namespace
    | Imported
    | Stars
    | Super
    | Partial
    | Lambda
    | Choice
)

NONE = Const(None)
HOOKED = "backward hooks"
"""What a world is bound to once a module has a hook that is given the gradients of its inputs."""

OPEN = "<open>"
"""An attribute of the object of a class that nothing builds: what it does, a subclass may do in another way."""

ESCAPED = "<escaped>"
"""An attribute of an object that code had which could not be followed: that may have set others."""

REPEATED = "<repeated>"
"""An attribute of a layer that a list holds several times, because it was multiplied.  A copy of it has it no more."""

WALKED = "walked"  #: with a place: what a world is bound to once a backward pass has started there
LEFT = "left behind"
"""With a layer: what a world is bound to once the parameters of its model follow others, and its statistics do not."""


def each_of(value: Value) -> tuple[Value, ...]:
    """What a value may be: one of a few, or itself."""
    return value.alternatives if type(value) is Choice else (value,)


# --- heap objects ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Frame(Object):
    """The variables of a call, a module or a class body."""

    vars: dict[str, Value] = fact(join=VALUES_BY_NAME, same=VARIABLES, points=OWN_BY_NAME)
    parent: int | None = fact(None, same=POINTED, points=ID)
    owner: object = None


@dataclass(frozen=True, slots=True)
class Left:
    """A loop that was left: it, and the one it stands in."""

    loop: Hashable
    outer: Hashable


@dataclass(slots=True, eq=False)
class Group(Object):
    """A group of parameters that share a history: those of a layer, a Parameter, or an opaque module."""

    requires_grad: bool | None = fact(True)
    opaque: bool = fact(False, join=EITHER)
    tokens: dict[str, Tokens] = fact(factory=dict, join=TOKENS, same=STATES, reset=True)
    made_at: Site | None = story(TOLD)
    stepped: int = fact(0, join=GREATEST, same=SETTLED)  #: the number at which an optimizer last stepped them
    prepared: bool | None = fact(False, reset=True, same=SETTLED)
    """A backward pass has added to its gradients since the last step."""
    loaded: bool = fact(False, join=EITHER, same=SETTLED)  #: they came out of a file, where it was trained before
    discarded: Hashable = fact(None, same=SETTLED)
    """The loop in which their gradients were last cleared, whatever the iteration.

    A :class:`Left` once that loop was left, until a backward pass adds to them.
    """
    scheduled: Hashable = fact(None, same=SETTLED)  #: the loop in which a scheduler of theirs was last stepped
    scheduled_on: int = fact(0, join=GREATEST, same=SETTLED)  #: the gradients that were to be applied then
    wasted: Hashable = fact(None, same=SETTLED)  #: the loop where gradients were cleared that no step had applied
    beside: frozenset[int] = fact(frozenset(), join=agreed(frozenset()), same=SETTLED)
    """Those of the module they were put into, or were copied from."""
    placed: int = fact(0, join=where_same("beside", 0, GREATEST), same=SETTLED)  #: the number at which that happened
    placed_at: Site | None = story(TOLD, join=where_same("beside", None, FIRST))
    copied: bool = fact(False, join=where_same("beside", False, EITHER))
    requires_grad_set: bool = fact(False, join=EITHER)  #: that of some was set since they were made
    thawed: int = fact(0, join=GREATEST, same=SETTLED)
    """The number at which they were last told to require grad, having been frozen."""
    thawed_at: Site | None = story(TOLD)
    gradients_used: bool = fact(False, join=EITHER, reset=True, same=SETTLED)
    """Its gradients were added to, applied, set or cleared, or may have been."""
    fed: int = fact(0, join=GREATEST, same=SETTLED)
    """The number at which a backward pass last added to its gradients."""
    hooked: bool = fact(False, join=EITHER, same=SETTLED)  #: hooks may change its gradients
    lent: frozenset[int] = fact(frozenset(), join=COMMON, same=SETTLED)  #: others to whom its gradients were handed
    averages: Averages = fact(Averages.NONE, join=GREATEST, same=SETTLED)  #: whose gradients are summed
    averaged_in: int = fact(0, join=GREATEST, same=SETTLED)  #: the iteration in which the first of them was added
    clipped: int = fact(0, join=GREATEST, same=SETTLED)  #: the number at which its gradients were last clipped
    fed_at: Site | None = fact(None, same=SETTLED)  #: where, if that pass is known to have reached them
    cleared: int = fact(0, join=GREATEST, same=SETTLED)
    """The number at which they were last cleared, or may have been."""
    owner: object = None


@dataclass(slots=True, eq=False)
class Segment(Object):
    """A piece of graph that holds saved tensors."""

    freed: bool | None = fact(False)
    freed_at: Site | None = story(TOLD)
    walked_at: Site | None = fact(None, join=FIRST_OF_BOTH, same=WHETHER)
    """Where a backward pass is sure to have walked it, and to have retained it."""
    result: int | None = fact(None, same=WHETHER, points=ID)  #: the tensor that the operation returned
    saved: frozenset[int] = fact(frozenset(), join=COMMON, same=WHETHER_ANY)
    """The tensors whose storage its backward needs."""
    perhaps_saved: frozenset[int] = fact(frozenset(), join=uncertain("saved"), same=WHETHER_ANY)
    """Those whose storage it may need."""
    spoilt_at: Site | None = fact(None, join=FIRST_OF_BOTH, same=WHETHER)  #: where one of them was changed
    spoilt_by: str = fact("", join=beside("spoilt_at", ""))
    presumed: bool = fact(False, join=EITHER)  #: the graph of something unknown, which may hold nothing
    weights: frozenset[int] = fact(frozenset(), join=COMMON, same=POINTED_SET)
    """The parameter groups whose values its backward needs."""
    stale_at: Site | None = fact(None, join=FIRST_OF_BOTH, same=WHETHER)  #: where a step changed one of them
    idle: bool = fact(False, join=EITHER)  #: they were changed where a module is not in training mode
    retained_at: frozenset[Site] = fact(frozenset(), join=UNION, same=WHETHER_ANY)
    """All backward passes that may have retained it."""
    owner: object = None


@dataclass(slots=True, eq=False)
class Stream(Object):
    """What iterators draw from: each of its items is given once."""

    used_up_at: Site | None = fact(None, join=FIRST_OF_BOTH, same=WHETHER)  #: where it came to its end
    opened_at: Site | None = story(TOLD)  #: where the source makes the iterator
    owner: object = None


class Hook(NamedTuple):
    """A forward hook of a module, or what an optimizer calls after a step."""

    function: Value
    inside: bool  #: it is one of a part of that module, which is not known


@dataclass(slots=True, eq=False)
class Instance(Object):
    """An instance: of a class of the project, of a torch layer, or of something known by name only."""

    cls: Class | None = fact(None, join=ONE_CLASS, same=ONE_VALUE)
    name: str = fact("", join=GREATEST)
    """Canonical name of an external class; for an opaque one the best name at hand."""
    role: Role = fact(PLAIN, join=GREATER_ROLE)
    attrs: dict[str, Value] = fact(factory=dict, join=VALUES_BY_NAME, same=BY_NAME, points=OWN_BY_NAME)
    layer: Layer | None = story("follows from the name", join=AGREED)
    loss: Loss | None = story("follows from the name", join=AGREED)
    groups: frozenset[int] = fact(frozenset(), join=UNION, same=POINTED_SET, points=OWN)
    """Own parameter groups; for an optimizer those it steps."""
    perhaps: frozenset[int] = fact(frozenset(), join=uncertain("groups"), same=SETTLED)
    """Those of them that are its own on some of the ways that led here, and on others are not."""
    training: bool | None = fact(True)
    mode_at: Site | None = fact(None, join=FIRST, same=SETTLED)  #: where the mode was last set
    mode_asked: int = fact(0, join=GREATEST, same=SETTLED)  #: the number at which it was last set to something known
    device: str | None = fact("cpu", join=DEVICE)
    opaque: bool = fact(False, join=EITHER)
    mode_dependent: bool = fact(False, join=EITHER)
    """Of an opaque module: it is known to behave differently in training and evaluation."""
    grad: bool | None = fact(None, same=SETTLED)  #: of a gradmode: what it sets
    args: tuple[Value, ...] = fact((), join=VALUES, points=OWN_ROW, same=SETTLED)
    made_at: Site | None = story("a place in the code has objects of one class, which the name tells")
    set_at: dict[str, Site] = story(TOLD, join=FIRST_BY_NAME, factory=dict)
    """Where each attribute was last set, but for buffers."""
    optional: frozenset[str] = fact(frozenset(), join=OPTIONAL, same=SETTLED)
    """The attributes that were set on some of the ways that led here."""
    buffers: frozenset[str] = fact(
        frozenset(), join=UNION, same=SETTLED
    )  #: of a module: the attributes registered as buffers
    in_forward: bool = fact(
        False, join=BOTH, same=SETTLED
    )  #: of a module: built in the forward pass of another, and not kept
    tokens: dict[str, Tokens] = fact(factory=dict, join=TOKENS, same=STATES)
    stepped: bool | None = fact(False)  #: of an optimizer: whether it has stepped
    scheduled_at: Site | None = fact(None, join=FIRST_OF_BOTH, same=SETTLED)
    """Of an optimizer: where a scheduler of it was stepped, on all the ways that led here."""
    born: int = fact(0, join=GREATEST, same=SETTLED)  #: the number at which it was built, where that is over
    drifts_at: Site | None = fact(None, join=FIRST_OF_BOTH, same=SETTLED)
    """Of a frozen module: where the outermost module was called that moved its statistics."""
    hooks: tuple[Hook, ...] = fact((), join=SHARED, same=HOOKS, points=OWN_HOOKS)
    """Of a module its forward hooks, of an optimizer those after a step, in order."""
    hooked_at: frozenset[Site] = fact(frozenset(), join=COMMON, same=WHETHER_ANY)
    """Of a module: where hooks were registered that it has still."""
    streams: frozenset[int] = fact(frozenset(), join=agreed(frozenset()), same=POINTED_SET, points=IDS)
    """What it draws from, if it is known to be an iterator."""
    owner: object = None


@dataclass(slots=True, eq=False)
class Sequence(Object):
    """A list or tuple: known items, then any number of values like ``tail``."""

    items: list[Value] = fact(factory=list, join=Join("j.items(x, y)"), same=ROW, points=OWN_VALUES)
    sites: list[Site | None] = story(TOLD, join=Join("j.sites(x, y)"), factory=list)  #: where each item was put in
    tail: Value | None = fact(None, join=Join("j.tail(x, y)"), same=ONE_VALUE, points=OWN_VALUE)
    tail_site: Site | None = story(TOLD, join=Join("j.tail_site(x, y)"))
    mutable: bool = fact(True, join=EITHER, same=SETTLED)
    fields: tuple[str, ...] = fact((), join=agreed(()), same=SETTLED)  #: of a namedtuple
    closed_by: tuple[Value, Value] | None = fact(None, points=OWN_PAIR, same=SETTLED)
    """The last item of all, and what ``tail`` was when it was put there."""
    own: frozenset[int] = fact(frozenset(), join=UNION, same=SETTLED)
    """Segments that only one of the values in the tail has, each one its own."""
    held: frozenset[int] = fact(frozenset(), join=COMMON, same=SETTLED)
    """Segments that some of the values in the tail are sure to have."""
    repeats: bool = fact(False, join=EITHER, same=SETTLED)  #: a loop fills it, with as many as there are
    loses: bool = fact(False, join=EITHER, same=SETTLED)  #: it has a greatest length, and lets go of others then
    clears: frozenset[int] = fact(frozenset(), join=UNION, same=SETTLED)
    """Of a generator: whose gradients are cleared on the way to the next value."""
    age: int = fact(0, join=GREATEST, same=SETTLED)  #: of what is one of two: the number of the younger one
    streams: frozenset[int] = fact(frozenset(), join=agreed(frozenset()), same=POINTED_SET, points=IDS)
    """What it draws from, if it is known to be an iterator."""
    owner: object = None

    def parts(self) -> list[Value]:
        """What it holds; of any number of values like the tail, that."""
        return [*self.items, self.tail] if self.tail is not None else list(self.items)

    def replace_parts(self, other: Callable[[Value], Value]) -> None:
        """Put others in the places of what it holds."""
        self.items = [other(item) for item in self.items]
        self.tail = other(self.tail) if self.tail is not None else None

    def empty(self) -> None:
        """Nothing is in it any more."""
        self.items, self.sites, self.tail, self.tail_site = [], [], None, None
        self.closed_by, self.own, self.held = None, frozenset(), frozenset()

    @property
    def ending(self) -> Value | None:
        """The last item, where there are any number of others and it is known all the same."""
        return self.closed_by[1] if self.closed_by is not None and self.closed_by[0] == self.tail else None

    def end_with(self, value: Value | None) -> None:
        """``value``, which ``tail`` stands for among others, comes last; None if that is not known."""
        self.closed_by = None if value is None or self.tail is None else (self.tail, value)


@dataclass(slots=True, eq=False)
class Mapping(Object):
    """A dict: known items by constant key, then any number of values like ``tail``."""

    items: dict[Value, Value] = fact(factory=dict, join=VALUES_BY_NAME, same=PAIRS, points=OWN_ITEMS)
    tail: Value | None = fact(None, join=VALUE, same=ONE_VALUE, points=OWN_VALUE)
    factory: Value | None = fact(None, points=GIVEN_VALUE, same=SETTLED)
    """What makes the value of a key that is not there yet."""
    views: frozenset[int] = fact(frozenset(), join=agreed(frozenset()), same=POINTED_SET, points=IDS, reset=True)
    """Of a state dict as a module gave it: the parameter groups, and the buffers, whose memory its tensors share."""
    taken_at: Site | None = story(TOLD)  #: where the module gave it
    outdated_at: Site | None = fact(None, join=FIRST, same=WHETHER, reset=True)
    """Where these parameters were changed since, on one of the ways that led here."""
    owner: object = None

    def parts(self) -> list[Value]:
        """The values it holds; of any number like the tail, that."""
        return [*self.items.values(), self.tail] if self.tail is not None else list(self.items.values())

    def replace_parts(self, other: Callable[[Value], Value]) -> None:
        """Put others in the places of the values it holds."""
        self.items = {key: other(value) for key, value in self.items.items()}
        self.tail = other(self.tail) if self.tail is not None else None

    def empty(self) -> None:
        """Nothing is in it any more."""
        self.items, self.tail = {}, None
