"""Intents: what a rule would have changed, said over the roles of its event and never over the text.

A rule attaches a :class:`Mend` to its violation.  The witness that has the source realises it as edits, or finds
that it cannot be spelled there, and then there is no fix.  What was seen at runtime has none.

Roles name a piece of the code at a site:

``node``
    what stands at the site itself;
``function``, ``receiver``
    of a call ``receiver.method(…)``, what is called, and whose method it is (of an attribute: whose it is);
``argument N``
    of a call, the positional argument at ``N``, from 0, or the one by the keyword ``N``;
``arguments``
    of a call, all that stands between its parentheses (in texts only; where it is nothing, a comma before it goes);
``statement``
    the statement it stands in;
``target``, ``value``
    of the assignment it is or stands in, the only target, and what is assigned;
``added``
    what ``+=`` adds, or ``x = x + …``;
``changed``
    the tensor that an assignment, an augmented assignment or a method changes in place, its ``.data`` left out;
``receiver of receiver``
    roles of roles.

Texts may hold ``{role}``, which stands for the source text there, and ``{torch}`` or ``{torch.nn}``, which stand for
how the file spells that module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from gradlint.finding import Applicability, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A change at ``at``, or where the violation is."""

    disputable: ClassVar[bool] = False  #: whether code elsewhere may stand against it: all of it has to be followed
    at: Site | None = None

    def merged(self, other: Intent) -> Intent | None:
        """What this and another intent for the same mistake both say; None if they contradict each other."""
        return self if self == other else None


@dataclass(frozen=True, slots=True)
class Append(Intent):
    """Put text right behind an expression, which is put in parentheses if it needs them.

    Args:
        method: the method whose call has to stand here; empty for any.
    """

    role: str
    text: str
    method: str = ""


@dataclass(frozen=True, slots=True)
class Replace(Intent):
    """Put text in the place of an expression or statement, which has to read like ``when``.

    Args:
        behind: what must stand before it in the function; empty for anything.
    """

    role: str
    text: str
    when: str
    behind: str = ""


@dataclass(frozen=True, slots=True)
class Rename(Intent):
    """Give what is called, an attribute, another name."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SetArgument(Intent):
    """Give a call this argument by keyword, in the place of the one that it may have."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class DropArgument(Intent):
    """Take an argument that is given by keyword out of a call; with the others, if it has a single one."""

    name: str


@dataclass(frozen=True, slots=True)
class DropArguments(Intent):
    """Take all arguments out of a call."""


@dataclass(frozen=True, slots=True)
class Unwrap(Intent):
    """Put the input of a call, its only argument or its receiver, in the place of the call.

    Args:
        name: what is called, be it under another name that the file imports it by; empty for any.
    """

    name: str = ""
    inner: Site | None = None  #: what the input has to be


@dataclass(frozen=True, slots=True)
class Omit(Intent):
    """Leave out an operation: its call gives way to the input; a layer leaves its Sequential, or its calls give way.

    Args:
        function: the name of the operation as a function and as a method.
        layer: the name of the layer that applies it.
    """

    disputable: ClassVar[bool] = True
    function: str
    layer: str


@dataclass(frozen=True, slots=True)
class AssignBack(Intent):
    """Assign the result of a call, a statement of its own, to what its method is called on."""


@dataclass(frozen=True, slots=True)
class ChangeItself(Intent):
    """Change a tensor itself instead of its ``.data``, in a block under ``header``; in none if that is empty."""

    disputable: ClassVar[bool] = True
    header: str


@dataclass(frozen=True, slots=True)
class ClearGradients(Intent):
    """Clear gradients before a backward pass adds to those that a step has applied.

    The statement comes before the first backward pass of those that this step is to apply: in the block of the step,
    behind another step that stands there before.  Where the step is made on a condition, it comes behind the step.

    Args:
        step: where the gradients are applied.
        first: the first backward pass since they were applied before; several, if it is not always the same.
        spent: where they were applied before.
    """

    step: Site
    first: frozenset[Site]
    spent: frozenset[Site]

    def merged(self, other: Intent) -> Intent | None:
        """The first backward pass may be that of either."""
        if not isinstance(other, ClearGradients) or (other.at, other.step) != (self.at, self.step):
            return None
        return replace(self, first=self.first | other.first, spent=self.spent | other.spent)


@dataclass(frozen=True, slots=True)
class InsertBefore(Intent):
    """Put a statement on a line of its own before the statement (or definition) here, as far indented."""

    text: str


@dataclass(frozen=True, slots=True)
class InsertBehind(Intent):
    """Put a statement on a line of its own behind the statement here, as far indented."""

    text: str


@dataclass(frozen=True, slots=True)
class InsertFirst(Intent):
    """Put a statement at the beginning of the function here, behind its docstring.

    Args:
        function: the name it must have.
        without: texts that it must not hold yet.
    """

    text: str
    function: str
    without: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decorate(Intent):
    """Put a decorator on the function here, nearest to it.

    Args:
        without: texts that the function must not hold.
        having: texts of which it must hold one, if there are any.
    """

    text: str
    without: tuple[str, ...] = ()
    having: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrapStatement(Intent):
    """Put the statement into a block with this header."""

    header: str


@dataclass(frozen=True, slots=True)
class Mend:
    """The intents that together mend a violation.

    Args:
        joint: where one mistake concerns several subjects, what mends each of them is to be done together.
    """

    message: str
    applicability: Applicability
    intents: tuple[Intent, ...]
    joint: bool = False


def agreed(one: Mend | None, other: Mend | None) -> Mend | None:
    """What mends a mistake that was seen twice: what both say, or nothing; where it is joint, all they say."""
    if one is None or other is None:
        return None
    if one.joint and other.joint:
        return replace(one, intents=tuple(dict.fromkeys((*one.intents, *other.intents))))
    merged = [intent.merged(same) for intent, same in zip(one.intents, other.intents, strict=False)]
    if len(one.intents) != len(other.intents) or None in merged:
        return None
    chosen = one if one.applicability is Applicability.UNSAFE else other
    return replace(chosen, intents=tuple(intent for intent in merged if intent is not None))


def safe(message: str, *intents: Intent) -> Mend:
    """A mend that keeps the meaning of the program apart from the mistake."""
    return Mend(message, Applicability.SAFE, intents)


def unsafe(message: str, *intents: Intent) -> Mend:
    """A mend that may change more than the mistake."""
    return Mend(message, Applicability.UNSAFE, intents)


def joint(message: str, *intents: Intent) -> Mend:
    """An unsafe mend for one of the subjects of a mistake, to be done together with those for the others."""
    return Mend(message, Applicability.UNSAFE, intents, joint=True)
