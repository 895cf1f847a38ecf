"""The domain: what the execution of Python asks of what gives its objects a meaning.

The execution knows names, control flow, calls and the containers of the language.  Whatever else an object is, the
domain says: it is asked in eight small protocols, one for each thing that a program can do with an object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gradlint.static.knowledge.roles import Role
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.values import (
    Bound,
    Choice,
    Class,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Super,
    Unknown,
    Value,
)
from gradlint.static.state.world import World

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Site
    from gradlint.static.text.nodes import Place

Index = Value | slice | None
"""What stands between brackets: a value, a slice of constants, or None where there is more to it."""


@dataclass(slots=True)
class Items:
    """What iterating gives: the values in order when they are known, else a maker of one of them."""

    known: list[Value] | None
    element: Callable[[World, Context], Value]


class DomainNames(Protocol):
    """What names stand for outside the project."""

    canonical: Callable[[str], str]  #: the one name of a thing that is reached by several
    any_of: Callable[[str], str | None]  #: what stands for any one of the things in a namespace, if these are alike
    holds_strings: Callable[[str], bool]  #: whether what bears a name holds strings from outside of the program
    begins_tests: Callable[[str], bool]  #: whether classes that derive from this one hold tests
    is_test: Callable[[str], bool]  #: whether a method of a class that holds tests is one
    begins_part: Callable[[str], bool]  #: whether a name that begins so is one that parts of objects have
    roots: frozenset[str]  #: classes behind which nothing is reached that is known
    parts: tuple[str, ...]  #: attributes that are dicts of what an object is made of, as ``__dict__`` is

    def exports(self, module: str, name: str) -> bool:
        """Whether ``from module import *`` brings a name."""
        ...

    def grad_mode(self, decorator: str) -> bool | None:
        """The grad mode that a decorator sets."""
        ...

    def role(self, base: str, methods: Callable[[], Iterable[str]]) -> Role | None:
        """What the objects of a class are that derives from another one and has these methods; None if nothing."""
        ...

    def ends_lineage(self, base: str) -> bool:
        """Whether the initializer of a class calls none of those behind it."""
        ...


class DomainValues(Protocol):
    """What values are, and what two of them are together."""

    def either(self, a: Value, b: Value, w: World) -> Value | None:
        """A value that is one of two, in one world; None if the domain has nothing to say about them."""
        ...

    def decided(self, choice: Choice, taken: Value, w: World) -> None:
        """In this world a choice is what was taken."""
        ...

    def settled(self, value: Value, w: World) -> Value:
        """A value that is computed with: what is not known to be anything else is what operators are for."""
        ...

    def annotated(
        self, value: Value, annotation: cst.Annotation | None, w: World, ctx: Context, *, returned: bool = False
    ) -> None:
        """A value stands where an annotation says what it is, or was returned by a function that is said to."""
        ...

    def checked(self, value: Value, kind: Value, w: World, site: Site) -> None:
        """A value turned out to be an object of a class."""
        ...

    def one_that(self, value: Value, trained: bool, w: World) -> Ref | None:
        """Of a value that stands for several, those that are trained or not; None if that makes no difference."""
        ...

    def copied(self, original: Value, copy: Value, w: World, site: Site) -> None:
        """A deep copy was made of a value."""
        ...

    def number(self, value: Value, w: World, ctx: Context, site: Site) -> Value:
        """A number that is made of a value: ``float(value)``."""
        ...

    def shown(self, value: Value, w: World, ctx: Context) -> None:
        """A value is made part of a text."""
        ...

    def is_a(self, obj: Object | None, name: str, standard: type | None) -> bool | None:
        """Whether an object, or a constant (None), is one of an external class (``standard``: Python's), if known."""
        ...

    def type_of(self, obj: Object) -> Value | None:
        """The class of an object of the domain, if that is known."""
        ...

    def has(self, obj: Object, name: str) -> bool:
        """Whether an object of the domain is sure to have an attribute."""
        ...

    def is_default(self, value: Value, w: World) -> bool:
        """Whether a parameter is taken to be what its default says, where what is given for it is not known."""
        ...

    def some_part(self, obj: Instance, w: World) -> Value:
        """One of the parameters of an object, by a name that is not known."""
        ...


class DomainAttributes(Protocol):
    """Attributes of the domain's objects, and of unknown values that may be some."""

    def get(self, owner: Ref, obj: Object, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """``owner.name``; None if the domain has none of that name."""
        ...

    def get_of_unknown(self, owner: Unknown, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """``owner.name`` of something unknown; None if the name says nothing."""
        ...

    def part_of_unknown(self, value: Unknown, w: World) -> Value | None:
        """What an attribute of something unknown stands for; None if nothing is known of it."""
        ...

    def set(self, owner: Ref, obj: Object, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        """``owner.name = value``."""
        ...

    def set_of_unknown(self, owner: Unknown, name: str, value: Value, w: World, ctx: Context, site: Site) -> bool:
        """``owner.name = value`` of something unknown; whether the domain has seen to it."""
        ...


class DomainItems(Protocol):
    """Items of the domain's objects, and objects of the domain as items of Python's containers."""

    def iterate(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items | None:
        """What iterating over an object gives; None if the domain does not know."""
        ...

    def element(self, value: Value, obj: Object, w: World, ctx: Context) -> Value | None:
        """Any one of the values that iterating over an object gives; None if the domain does not know."""
        ...

    def get(self, owner: Value, obj: Object, index: Index, w: World, ctx: Context, site: Site) -> Value | None:
        """``owner[index]``; None for an object that is none of the domain's."""
        ...

    def set(
        self,
        owner: Value,
        obj: Object | None,
        index: Index,
        value: Value,
        w: World,
        ctx: Context,
        site: Site,
        *,
        place: Place | None,
    ) -> bool:
        """``owner[index] = value``; whether the domain has seen to it."""
        ...

    def set_in(self, owner: Ref, obj: Instance, index: Index, value: Value, w: World, site: Site) -> None:
        """``owner[index] = value`` for an object that holds others."""
        ...

    def remove(self, owner: Ref, index: Index, w: World) -> None:
        """``del owner[index]`` for an object that holds others."""
        ...

    def subscripted(self, part: Value, owner: Value, parts: Iterable[Index], node: cst.Subscript, w: World) -> None:
        """A part was taken of an object, by several indices perhaps."""
        ...

    def read_out(self, container: Sequence | Mapping, w: World, ctx: Context, *, in_turn: bool = False) -> None:
        """Any one of what a container holds was read; ``in_turn`` if a loop has each of them."""
        ...

    def collected(self, ref: Ref, value: Value, w: World, ctx: Context, site: Site) -> None:
        """A value is put into a container."""
        ...

    def several(self, value: Value, w: World) -> frozenset[int]:
        """The objects that a value stands for, where it stands for more than one in turn."""
        ...

    def selection(self, value: Value, w: World) -> Value:
        """One or some of what a value stands for, it is not known which."""
        ...

    def one_of(self, value: Value, own: frozenset[int], w: World) -> Value:
        """One of the values that a loop has put into a list, some of whose graphs are its own."""
        ...

    def paired(self, values: list[Value], w: World, ctx: Context, site: Site) -> None:
        """``zip(*values)``."""
        ...

    def another(self, value: Unknown) -> Unknown | None:
        """Another item like this one; None if the domain knows nothing of it."""
        ...

    def made_since(self, value: Value, since: int, w: World) -> frozenset[int]:
        """What a value holds that was made after the number ``since``."""
        ...

    def alike(self, one: Value, other: Value, w: World) -> bool:
        """Whether two arrays that one place makes are told apart by nothing."""
        ...


class DomainCalls(Protocol):
    """Calls of the domain's objects, of methods by name, and what classes of the domain do beside what is written."""

    def prepared(self, callee: Value, w: World, site: Site) -> Value:
        """What is about to be called, or asked for a method, and turns out to be an object by that."""
        ...

    def recognised(self, receiver: Ref, method: str, w: World, site: Site) -> None:
        """A method is called, which only some objects have perhaps."""
        ...

    def is_forward(self, receiver: Value, method: str, w: World) -> bool:
        """Whether a method is one of those that make a forward pass."""
        ...

    def without_grad(self, obj: Instance, method: str) -> bool:
        """Whether a library calls a method of an object while gradients are disabled."""
        ...

    def forward(self, receiver: Value, by: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``receiver.forward(…)`` is called by name, the receiver spelled as ``by``."""
        ...

    def named(self, named: Value, receiver: Value, owner: Class, w: World, ctx: Context, site: Site) -> None:
        """``super(named, receiver)`` in a method of ``owner``."""
        ...

    def method(self, receiver: Value, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a method that is known by its name only."""
        ...

    def part(self, callee: Unknown, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """Call what may be a part of an object of a library; None if it is none."""
        ...

    def external(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call something outside the project, by its canonical name."""
        ...

    def instance(
        self, callee: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Results | None:
        """Call an object; None if the domain does not say what that does."""
        ...

    def followed(
        self, callee: Bound, args: Arguments, w: World, ctx: Context, site: Site, act: Callable[[], Results]
    ) -> Results:
        """``act`` follows a method of the project, which may be what the domain knows under its name."""
        ...

    def returned(self, owner: Ref, name: str, results: Results, ctx: Context, site: Site) -> None:
        """A method of the project, which somebody else calls, has returned."""
        ...


class DomainBuilding(Protocol):
    """The project's classes, and the building of their objects."""

    def within(self, cls: Class, w: World, ctx: Context) -> None:
        """A class was defined while a function runs."""
        ...

    def opaque(self, cls: Class, w: World, place: Hashable) -> Value:
        """An object of a class of modules that need not be looked into."""
        ...

    def started(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """An object is about to be initialised."""
        ...

    def done(self, ref: Ref, w: World, ctx: Context) -> None:
        """An object was initialised."""
        ...

    def is_trainable(self, ref: Ref, w: World) -> bool:
        """Whether an object holds parameters."""
        ...

    def initialized(self, ref: Value, w: World, ctx: Context, site: Site) -> None:
        """An initializer of a class outside the project ran."""
        ...

    def filled(self, ref: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """An object of a class without an initializer of its own is built with these arguments."""
        ...

    def super_called(self, receiver: Super, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """``super().__init__(…)``."""
        ...


class DomainOperators(Protocol):
    """Operators, where one of the operands is an object of the domain."""

    def arithmetic(self, symbol: str, left: Value, right: Value, w: World, ctx: Context, site: Site) -> Value:
        """``left symbol right``; ``neg`` for a sign."""
        ...

    def compare(self, symbol: str, left: Value, right: Value, w: World, ctx: Context, site: Site) -> Value:
        """``left symbol right``, element by element."""
        ...

    def combined(self, symbol: str, left: Value, right: Value, w: World) -> Value | None:
        """An operator on objects that hold others; None if the domain does not know."""
        ...

    def total(self, values: list[Value], known: bool, w: World, ctx: Context, site: Site) -> Value:
        """``sum(values)``, of which one stands for all unless they are known."""
        ...


class DomainMutations(Protocol):
    """Statements that change objects, or add to them."""

    def statement(self, node: cst.Expr, w: World, ctx: Context) -> None:
        """An expression is a statement of its own, and about to be executed."""
        ...

    def augmented_item(
        self, symbol: str, owner: Value, value: Value, node: cst.AugAssign, w: World, ctx: Context
    ) -> bool:
        """``owner[index] symbol= value``; whether the domain has seen to it."""
        ...

    def augmented(self, symbol: str, current: Value, value: Value, node: cst.AugAssign, w: World, ctx: Context) -> bool:
        """``current symbol= value``; whether the domain has seen to it, in place."""
        ...

    def summed(
        self, target: cst.CSTNode, held: Value, value: Value, w: World, ctx: Context, site: Site, whole: bool = True
    ) -> None:
        """A value is added to what a target holds."""
        ...

    def totalled(self, held: Value, total: Value, w: World, ctx: Context) -> None:
        """What was held has become a total."""
        ...

    def puts_back(self, target: cst.CSTNode, value: cst.CSTNode, w: World, ctx: Context) -> bool:
        """Whether an assignment puts an object back to where it was taken from, changed in place."""
        ...


class DomainEscapes(Protocol):
    """What is handed to code that cannot be followed."""

    def call(self, callee: Value, args: Arguments, w: World, ctx: Context, site: Site, method: str = "") -> Value:
        """Call something that cannot be followed: it may do anything to the objects it is given."""
        ...

    def kept(self, keeper: Unknown, value: Value, w: World) -> None:
        """Something unknown was given an object of the project: it may use that when it is called."""
        ...

    def any_of(self, values: list[Value], w: World) -> Unknown:
        """Any one of some objects that come in an order which is not known."""
        ...

    def doubt(self, groups: Iterable[int], values: Iterable[Value], w: World) -> None:
        """What cannot be followed may have done anything with these."""
        ...

    def left(self, manager: Instance, w: World) -> None:
        """The block of a ``with`` statement was left."""
        ...

    def concerned(self, obj: Object) -> bool:
        """Whether an object is one of those that the domain is about."""
        ...


class DomainBranches(Protocol):
    """Conditions that mean something to the domain, and loops that are over."""

    def asked_by(self, node: cst.CSTNode) -> bool:
        """Whether a condition asks for a mode of the domain."""
        ...

    def settled_by(self, node: cst.BaseExpression, taken: bool) -> bool:
        """Whether a condition settles which mode it is, in a branch of it."""
        ...

    def chosen(self, value: Value) -> Value:
        """What stands for a value that is another one in another mode."""
        ...

    def combined(self, value: Value) -> Value:
        """What stands for a value that is combined with a condition on the mode."""
        ...

    def returned(self, value: Value, w: World, ctx: Context) -> Value:
        """What a function returns, in a branch on the mode perhaps."""
        ...

    def branched(self, node: cst.If, ends: list[World], ctx: Context) -> None:
        """The branches of a condition on the mode have met again."""
        ...

    def may_be_none(self, value: Value, w: World) -> bool:
        """Whether an object of the domain stands for something that may be missing."""
        ...

    def asks_device(self, node: cst.CSTNode) -> bool:
        """Whether a condition asks where objects are, or may be."""
        ...

    def is_periodic_alone(self, test: cst.CSTNode, w: World, ctx: Context) -> bool:
        """Whether nothing else is asked by a condition that holds every k-th time."""

    def is_periodic(self, test: cst.CSTNode, w: World, ctx: Context) -> bool:
        """Whether every k-th iteration takes the branch of a condition."""
        ...

    def either_walks(self, test: cst.CSTNode, ctx: Context) -> bool:
        """Whether a backward pass is made whichever way such a condition turns out, as far as its branches tell."""
        ...

    def asks_for_last(self, test: cst.CSTNode, ctx: Context) -> bool | None:
        """Whether a condition, or its opposite, holds in the last iteration of the innermost loop alone; else None."""
        ...

    def left(self, loop: Hashable, worlds: Iterable[World], ctx: Context) -> None:
        """A loop was left."""
        ...

    def apart(self, value: Value, node: cst.For, w: World) -> list[Value] | None:
        """The items of a loop one by one, where its body tells them apart by their names; None if it does not."""
        ...


class Domain:
    """All that the domain answers; filled once its own parts are made, which come after those that ask it."""

    __slots__ = (
        "attributes",
        "branches",
        "building",
        "calls",
        "escapes",
        "items",
        "mutations",
        "names",
        "operators",
        "values",
    )
    names: DomainNames
    values: DomainValues
    attributes: DomainAttributes
    items: DomainItems
    calls: DomainCalls
    building: DomainBuilding
    operators: DomainOperators
    mutations: DomainMutations
    escapes: DomainEscapes
    branches: DomainBranches
