"""Abstract values, and the objects of the abstract heap.

Values are immutable and compare by meaning.  Whatever has identity (a tensor, a module, a list, a frame of
variables) lives in the heap of a :class:`~gradlint.static.state.world.World` and is pointed to by a :class:`Ref`.
Properties of heap objects are three-valued: ``True``, ``False``, or ``None`` for unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gradlint.events import ConvertedToNumpy, DataWritten
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

    key: Hashable
    hint: str = field(default="", compare=False)  #: the name it was first known by
    deps: frozenset[int] = field(default=frozenset(), compare=False)  #: parameter groups it may have come from


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
    kind: str = ""  #: "", "static", "class" or "property"
    grad: bool | None = None  #: the grad mode a decorator sets, None for the caller's


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the project.  ``scope`` is the heap object that holds its attributes."""

    unit: ClassUnit
    bases: tuple[Value, ...]
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

SOME_METHOD = "some method"
"""What the keys of methods begin with whose names are computed."""

OPEN = "<open>"
"""An attribute of the object of a class that nothing builds: what it does, a subclass may do in another way."""

ESCAPED = "<escaped>"
"""An attribute of an object that code had which could not be followed: that may have set others."""

CHOSEN = "chosen"
"""The device of what is on CUDA where a program has chosen that: as where it is available."""

WALKED = "walked"
"""With a place: what a world is bound to once a backward pass has started there."""


def each_of(value: Value) -> tuple[Value, ...]:
    """What a value may be: one of a few, or itself."""
    return value.alternatives if type(value) is Choice else (value,)


# --- heap objects ----------------------------------------------------------------------------------------------


class Object:
    """Something with identity.  Objects are copied when a world that shares them writes to them."""

    __slots__ = ("owner", "stamp")
    owner: object  #: the token of the world that may change it in place
    stamp: int  #: when it was last written to: a number of :func:`~gradlint.static.state.world.fresh`

    def copy(self) -> Any:
        """A copy that shares no mutable state."""
        new = object.__new__(type(self))
        for slot in _slots(type(self)):
            value = getattr(self, slot)
            if type(value) is dict or type(value) is list:
                value = value.copy()
            setattr(new, slot, value)
        return new


_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots(kind: type) -> tuple[str, ...]:
    known = _SLOTS.get(kind)
    if known is None:
        known = _SLOTS[kind] = ("owner", *(f.name for f in fields(kind)))
    return known


@dataclass(slots=True, eq=False)
class Frame(Object):
    """The variables of a call, a module or a class body."""

    vars: dict[str, Value]
    parent: int | None = None
    owner: object = None


@dataclass(frozen=True, slots=True)
class Left:
    """A loop that was left: it, and the one it stands in."""

    loop: Hashable
    outer: Hashable


@dataclass(slots=True, eq=False)
class Group(Object):
    """A group of parameters that share a history: those of a layer, a Parameter, or an opaque module."""

    requires_grad: bool | None = True
    opaque: bool = False
    tokens: dict[str, Tokens] = field(default_factory=dict)
    made_at: Site | None = None
    stepped: int = 0  #: the number at which an optimizer last stepped them
    prepared: bool | None = False  #: a backward pass has added to its gradients since the last step
    discarded: Hashable = None  #: the loop in which their gradients were last cleared, whatever the iteration
    """A :class:`Left` once that loop was left, until a backward pass adds to them."""
    wasted: Hashable = None  #: the loop in an iteration of which gradients were cleared that no step had applied
    beside: frozenset[int] = frozenset()  #: those of the module they were put into, or were copied from
    placed: int = 0  #: the number at which that happened
    placed_at: Site | None = None
    copied: bool = False
    told: bool = False  #: whether they require grad, or some of them, was set since they were made
    touched: bool = False  #: its gradients were added to, applied, set or cleared, or may have been
    fed: int = 0  #: the number at which a backward pass last added to its gradients
    cleared: int = 0  #: the number at which they were last cleared, or may have been
    owner: object = None


@dataclass(slots=True, eq=False)
class Segment(Object):
    """A piece of graph that holds saved tensors."""

    freed: bool | None = False
    freed_at: Site | None = None
    walked_at: Site | None = None  #: where a backward pass is sure to have walked it, and to have retained it
    result: int | None = None  #: the tensor that the operation returned
    saved: frozenset[int] = frozenset()  #: the tensors whose storage its backward needs
    perhaps_saved: frozenset[int] = frozenset()  #: those whose storage it may need
    spoilt_at: Site | None = None  #: where one of them was changed
    spoilt_by: str = ""
    presumed: bool = False  #: the graph of something unknown, which may hold nothing
    weights: frozenset[int] = frozenset()  #: the parameter groups whose values its backward needs
    stale_at: Site | None = None  #: where a step changed one of them
    idle: bool = False  #: they were changed where a module is not in training mode
    retained_at: frozenset[Site] = frozenset()  #: all backward passes that may have
    owner: object = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The place where a value lost its graph."""

    how: str  #: "detach", "copy", "integers", "number", "numpy", "gradient", "no_grad" or "round"
    at: Site


@dataclass(slots=True, eq=False)
class Tensor(Object):
    """A tensor, or a parameter; the element of ``model.parameters()`` stands for all of them at once."""

    requires_grad: bool | None = None
    is_leaf: bool | None = None
    is_parameter: bool | None = None
    device: str | None = None
    size: str | None = None  #: "one", "many", "samples" (as many as a batch has, which may be one), None
    shape: tuple[int | None, ...] | None = None
    integral: bool | None = None
    places: bool = False  #: of an integer type, and no mask: as an index it takes as many elements as it has, or more
    activation: str | None = None
    activation_at: Site | None = None
    random: bool = False  #: made of random numbers
    constant: bool = False  #: made of nothing that came from outside
    loaded: bool = False  #: made of nothing but what a loop over data gave
    placed: bool = False  #: put on its device on purpose
    kept_as: tuple[str, str] = ("", "")  #: the class and name of the module's attribute it is, or is a view of
    kept_at: Site | None = None  #: where it became that
    nudged: str = ""  #: the activation of what a small number was added to
    made_at: Site | None = None
    moved_at: Site | None = None
    moved_of: int | None = None  #: the tensor that was moved to a device, which gave this one
    groups: frozenset[int] = frozenset()  #: the groups this leaf is (of): their facts are its own
    deps: frozenset[int] = frozenset()  #: the groups its backward reaches
    open: bool = True  #: its backward may reach others too
    segments: frozenset[int] = frozenset()
    doubtful: frozenset[int] = frozenset()  #: those of the segments that its graph may not have
    sources: tuple[int, ...] = ()  #: the tensors that may be why it requires grad, when that is not known
    results: tuple[Unknown, ...] = ()  #: what unknown calls returned that may be why, too
    recorded: bool = False  #: computed while gradients were enabled: it requires grad if anything of that does
    data_of: int | None = None  #: the tensor whose ``.data`` this is
    data_at: Site | None = None
    gradient_of: frozenset[int] = frozenset()  #: computed from the gradients of these groups
    is_gradient: bool = False  #: the ``.grad`` of its ``gradient_of`` itself
    structured: bool = False  #: may be a tuple, dict or output object of tensors like this
    supposed: bool = False  #: made by operators or methods of what may be no tensor: it need be none either
    on_device_as_one: bool = False  #: where such an object would have its tensors is not known, unlike ``device``
    device_if_tensor: str | None = None
    """Of what is, or was computed from, a part of what a module gave: it need be no tensor; where it is if it is one.

    ``device`` is unknown as long as nothing was computed: modules also hand out tensors that they have moved.
    """
    calls: frozenset[int] = frozenset()  #: of modules, whose outputs it was computed from and which are watched
    scaled: bool = False  #: a loss multiplied by a gradient scaler, or computed from one
    reaches: frozenset[int] = frozenset()  #: presumed segments its backward walks
    cut: Cut | None = None  #: where what it was computed from lost its graph; None if something may carry one
    presumed: bool = False  #: came out of something that looks like a module: it requires grad if anything does
    outright: bool = False  #: what a module that is given returned as a whole, with its graph, or computed from that
    base: int | None = None  #: the tensor whose storage it shares
    stale_at: Site | None = None  #: where a numpy array that shares its storage was changed
    retains: bool | None = False  #: ``retain_grad()`` was called
    part_of: int | None = None  #: the output that may be a tuple, or the gradient, of which this was taken
    vague: bool = False  #: computed from something of which nothing is known
    asked_at: Site | None = None  #: where its own computation was told to require grad
    pending: tuple[ConvertedToNumpy | DataWritten, ...] = ()  #: what was done with it that is wrong if it requires grad
    begun: int = 0  #: of a running total: the iteration in which it was a mere number
    picked: bool = False  #: one or some of the parameters of its groups, it is not known which
    age: int = 0  #: of what is one of two: the number of the older one
    stands_for: tuple[int, ...] = ()  #: each of these tensors in turn, in a loop over too many to tell apart
    tokens: dict[str, Tokens] = field(default_factory=dict)
    owner: object = None


class Hook(NamedTuple):
    """A forward hook of a module, or what an optimizer calls after a step."""

    function: Value
    inside: bool  #: it is one of a part of that module, which is not known


@dataclass(slots=True, eq=False)
class Instance(Object):
    """An instance: of a class of the project, of a torch layer, or of something known by name only."""

    cls: Class | None = None
    name: str = ""  #: canonical name of an external class; for an opaque one the best name at hand
    kind: str = ""  #: "module", "optimizer", "loss", "scheduler", "scaler", "loader", "gradmode", …
    attrs: dict[str, Value] = field(default_factory=dict)
    layer: Layer | None = None
    loss: Loss | None = None
    groups: frozenset[int] = frozenset()  #: own parameter groups; for an optimizer those it steps
    training: bool | None = True
    mode_at: Site | None = None  #: where the mode was last set
    mode_asked: int = 0  #: the number at which it was last set to something known
    device: str | None = "cpu"
    opaque: bool = False
    mode_dependent: bool = False  #: of an opaque module: it is known to behave differently in training and evaluation
    grad: bool | None = None  #: of a gradmode: what it sets
    args: tuple[Value, ...] = ()
    made_at: Site | None = None
    set_at: dict[str, Site] = field(default_factory=dict)  #: where each attribute was last set, but for buffers
    optional: frozenset[str] = frozenset()  #: the attributes that were set on some of the ways that led here
    buffers: frozenset[str] = frozenset()  #: of a module: the attributes registered as buffers
    in_forward: bool = False  #: of a module: built in the forward pass of another, and not kept
    tokens: dict[str, Tokens] = field(default_factory=dict)
    stepped: bool | None = False  #: of an optimizer: whether it has stepped
    scheduled_at: Site | None = None  #: of an optimizer: where a scheduler of it was stepped
    born: int = 0  #: of an optimizer: the number at which it was built
    hooks: tuple[Hook, ...] = ()  #: of a module its forward hooks, of an optimizer those after a step, in order
    owner: object = None


@dataclass(slots=True, eq=False)
class Sequence(Object):
    """A list or tuple: known items, then any number of values like ``tail``."""

    items: list[Value] = field(default_factory=list)
    sites: list[Site | None] = field(default_factory=list)  #: where each item was put in
    tail: Value | None = None
    tail_site: Site | None = None
    mutable: bool = True
    fields: tuple[str, ...] = ()  #: of a namedtuple
    closed_by: tuple[Value, Value] | None = None  #: the last item of all, and what ``tail`` was when it was put there
    own: frozenset[int] = frozenset()  #: segments that only one of the values in the tail has, each one its own
    held: frozenset[int] = frozenset()  #: segments that some of the values in the tail are sure to have
    loses: bool = False  #: it has a greatest length, and lets go of others then
    clears: frozenset[int] = frozenset()  #: of a generator: whose gradients are cleared on the way to the next value
    age: int = 0  #: of what is one of two: the number of the younger one
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

    items: dict[Value, Value] = field(default_factory=dict)
    tail: Value | None = None
    factory: Value | None = None  #: what makes the value of a key that is not there yet
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
