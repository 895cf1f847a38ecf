"""Where unknown values come from: what their keys say.

Two unknown values are the same one if their origins are equal.  An origin names what a value was taken from or
computed from: the key of an unknown value, a constant, or a pointer to an object.  All are tuples, which are quickly
compared and hashed however deep they are; the last field of each tells its kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Final, Literal, NamedTuple, TypeGuard

What = Literal[
    "abstract",  # the result of a method that does nothing but raise
    "args",
    "autocast",
    "character",
    "clipped",
    "collate_fn",
    "comparison",
    "counted",  # a number that a loop counts from zero
    "counted on",  # such a number after the first iteration: it is not zero
    "counter",
    "decorated",
    "derivatives",
    "dict method",
    "each",
    "engine",
    "except",
    "expression",
    "field",
    "foreign path",  # a path that comes from elsewhere
    "getattr",
    "grad mode",
    "handler",
    "hook",
    "index",
    "input",
    "inputs",
    "item",
    "items",
    "iterated",
    "iterable",
    "kept",
    "key",
    "kwargs",
    "lambda",
    "large",
    "list method",
    "loss",
    "match",
    "member",
    "mode",
    "model",
    "module method",
    "module",
    "name",
    "never",
    "next",
    "not",
    "nothing",  # what is made of None as if it were a tensor, which raises: no world gets that far
    "operate",
    "optimizer method",
    "optimizers",
    "option",
    "options",  # what holds the options that were given: its attributes come from the command line
    "params",
    "parted",
    "partial",
    "range",
    "rank",
    "reduction",
    "result",
    "result of known",
    "slice",
    "super",
    "tensors",
    "trainer",
    "tried",
    "unpickled",
    "unreadable",
    "variable",
    "view",
]
"""What something is of which nothing else is known."""

Measure = Literal["data_ptr", "dim", "element_size", "get_device", "is_contiguous", "numel", "size", "stride"]
"""A method of tensors that tells something of one that has no graph."""

Question = Measure | Literal["device", "engine", "requires_grad", "training", "type"]
"""What is asked of a value, and has the same answer as long as that is the same."""

_counter = itertools.count(1)


def fresh() -> int:
    """A number not used before: an object id, or what tells an unknown value from all others."""
    return next(_counter)


# --- what comes from nowhere


class New(NamedTuple):
    """Something of which only this is known; no two of them are the same."""

    what: What
    number: int
    kind: Literal["new"] = "new"


class Parameter(NamedTuple):
    """What a function is given that is followed as if nobody called it."""

    function: Hashable  #: its unit, or where a lambda stands
    name: str
    call: Hashable
    kind: Literal["parameter"] = "parameter"


class Batch(NamedTuple):
    """What a data loader gives."""

    number: int
    loader: Hashable = None  #: the loader, if that is known
    kind: Literal["batch"] = "batch"


class Result(NamedTuple):
    """What a call returned that could not be followed."""

    number: int
    of_module: bool = False  #: what was called has the name of a module, and gradients are recorded
    wraps: bool = False  #: it was given an optimizer, and may have returned another object that steps it
    kind: Literal["result"] = "result"


class Number(NamedTuple):
    """A number, an array of them or a setting: it carries no graph."""

    number: int
    made_by: str = ""  #: the canonical name of what made it, where that is known and matters
    is_tensor: bool = False  #: it is a transform that gives tensors
    kind: Literal["number"] = "number"


class Figure(NamedTuple):
    """What a tensor or a conversion gives that is a number, or several."""

    number: int
    gradient_of: frozenset[int] = frozenset()  #: the parameter groups from whose gradients it was computed
    kind: Literal["figure"] = "figure"


class Text(NamedTuple):
    """A string."""

    number: int
    beginning: str = ""  #: how it begins, as far as that is known
    kind: Literal["text"] = "text"


class Made(NamedTuple):
    """An object that a library made."""

    cls: str  #: its canonical name
    number: int
    kind: Literal["made"] = "made"


class Named(NamedTuple):
    """What a name stands for that a file of the project does not define."""

    path: Hashable
    name: str
    is_imported: bool
    kind: Literal["named"] = "named"


class Written(NamedTuple):
    """What is written at a place of the program, and is nothing else: a literal, what is given to a hook."""

    what: Literal["literal", "hook", "input"]
    at: Hashable
    kind: Literal["written"] = "written"


class Setting(NamedTuple):
    """What the program is told from outside: ``torch.cuda.is_available()``."""

    name: str
    kind: Literal["setting"] = "setting"


# --- what is taken from something


class AttributeOf(NamedTuple):
    """``owner.name``."""

    owner: Hashable
    name: Hashable  #: a string, or the key of one
    since: int = 0  #: when something unknown was last stored there
    kind: Literal["attribute"] = "attribute"


class ItemOf(NamedTuple):
    """``owner[at]``."""

    owner: Hashable
    at: Hashable
    kind: Literal["item"] = "item"


class Stored(NamedTuple):
    """The place in something unknown that a value was stored in: what was read from there before is another."""

    place: Hashable  #: an :class:`AttributeOf` or an :class:`ItemOf`
    kind: Literal["stored"] = "stored"


class ElementOf(NamedTuple):
    """What an iteration over something gives."""

    number: int
    of: Hashable = None  #: what is iterated over, if anything is known of that
    kind: Literal["element"] = "element"


class Yielded(NamedTuple):
    """The index, so to speak, of what a method of a dict gives one after the other: ``items``."""

    method: str
    number: int
    kind: Literal["yielded"] = "yielded"


class AnyOf(NamedTuple):
    """Some values, of which each may be meant."""

    values: tuple[Hashable, ...]
    kind: Literal["any of"] = "any of"


class MemberOf(NamedTuple):
    """One of several things of a module of the project: what a choice is between, and no unknown value."""

    path: Hashable
    kind: Literal["member"] = "member"


class CopyOf(NamedTuple):
    """A deep copy."""

    number: int
    of: Hashable
    kind: Literal["copy"] = "copy"


class SomeMethodOf(NamedTuple):
    """``getattr(owner, name)`` with a name of which only the beginning is known."""

    owner: Hashable
    beginning: str
    name: Hashable
    kind: Literal["some method"] = "some method"


class StandsFor(NamedTuple):
    """An object as something unknown."""

    of: Hashable
    kind: Literal["stands for"] = "stands for"


class AnotherThan(NamedTuple):
    """What something unknown is where it is none of what it may have meant."""

    of: Hashable
    kind: Literal["another"] = "another"


class CutFrom(NamedTuple):
    """What was computed while no graph was recorded."""

    of: Hashable
    kind: Literal["cut"] = "cut"


# --- what is computed from something


class Operation(NamedTuple):
    """``left symbol right``."""

    symbol: str
    left: Hashable
    right: Hashable
    kind: Literal["operation"] = "operation"


class UnaryOperation(NamedTuple):
    """``-operand`` and the like."""

    operator: str
    operand: Hashable
    kind: Literal["unary operation"] = "unary operation"


class OneOf(NamedTuple):
    """What is one of several values, as worlds in which it is this or that were joined."""

    number: int
    ways: tuple[Hashable, ...] = ()
    """Their keys, and references to tensors, if all of them are such, and they are few."""
    kind: Literal["one of"] = "one of"


class Combined(NamedTuple):
    """What was computed from several values, in a way that is no longer told."""

    number: int
    parts: tuple[Hashable, ...]
    kind: Literal["combined"] = "combined"


class Asked(NamedTuple):
    """What is known of a value, as a number or an answer."""

    question: Question
    of: Hashable
    kind: Literal["asked"] = "asked"


class Length(NamedTuple):
    """``len(of)``."""

    of: Hashable
    kind: Literal["length"] = "length"


# --- conditions


class Comparison(NamedTuple):
    """``left symbol right``, where it holds or does not; the symbol may be ``in`` or ``is``."""

    symbol: str
    left: Hashable
    right: Hashable
    kind: Literal["comparison"] = "comparison"


class Not(NamedTuple):
    """A condition does not hold."""

    condition: Hashable
    kind: Literal["not"] = "not"


class Truth(NamedTuple):
    """Something that is no unknown value is true."""

    of: Hashable
    kind: Literal["truth"] = "truth"


class HasAttribute(NamedTuple):
    """``hasattr(owner, name)``."""

    owner: Hashable
    name: Hashable
    kind: Literal["has attribute"] = "has attribute"


class IsInstance(NamedTuple):
    """``isinstance(value, classes)``."""

    value: Hashable
    classes: tuple[Hashable, ...]
    kind: Literal["is instance"] = "is instance"


class Among(NamedTuple):
    """An unknown value is one of a few constants."""

    subject: Hashable
    values: tuple[object, ...]
    kind: Literal["among"] = "among"


class OptionAmong(NamedTuple):
    """So is an option of the command line."""

    name: str
    values: tuple[object, ...]
    kind: Literal["option among"] = "option among"


Origin = (
    New
    | Parameter
    | Batch
    | Result
    | Number
    | Figure
    | Text
    | Made
    | Named
    | Written
    | Setting
    | AttributeOf
    | ItemOf
    | ElementOf
    | CopyOf
    | SomeMethodOf
    | StandsFor
    | AnotherThan
    | CutFrom
    | Operation
    | UnaryOperation
    | OneOf
    | Combined
    | Asked
    | Length
    | Comparison
    | Not
    | Truth
    | HasAttribute
    | IsInstance
)
"""What the key of an unknown value is."""

EACH: Final = New("each", 0)
"""The index of what stands for every item."""


def is_origin(key: Hashable) -> TypeGuard[Origin]:
    """Whether a key is that of an unknown value, and no constant nor a pointer."""
    return isinstance(key, tuple)


def operands(key: Hashable) -> tuple[Hashable, ...]:
    """What a value was computed from by operators, or is one of; none of others."""
    if isinstance(key, Operation):
        return key.left, key.right
    if isinstance(key, UnaryOperation):
        return (key.operand,)
    if isinstance(key, OneOf):
        return key.ways
    return key.parts if isinstance(key, Combined) else ()
