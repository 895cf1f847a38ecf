"""Intents: what a rule would have changed, said over the roles of its event and never over the text.

A rule attaches a :class:`Mend` to its violation.  The witness that has the source realises it as edits, or finds
that it cannot be spelled there, and then there is no fix.  What was seen at runtime has none.

Roles name a piece of the code at a site:

``node``
    what stands at the site itself;
``function``, ``receiver``
    of a call ``receiver.method(…)``, what is called, and whose method it is (of an attribute: whose it is);
``argument N``
    of a call, the positional argument at ``N``, from 0;
``arguments``
    of a call, all that stands between its parentheses (in texts only);
``statement``
    the statement it stands in;
``target``, ``value``
    of the assignment it is or stands in, the only target, and what is assigned;
``added``
    what ``+=`` adds;
``receiver of receiver``
    roles of roles.

Texts may hold ``{role}``, which stands for the source text there, and ``{torch}`` or ``{torch.nn}``, which stand for
how the file spells that module.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradlint.finding import Applicability, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A change at ``at``, or where the violation is."""

    at: Site | None = None


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
    """Put text in the place of an expression or statement, which has to read like ``when``."""

    role: str
    text: str
    when: str


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
        only_for: the call that is the only one to use the value, directly or by a variable that nothing else reads;
            where another use is not ruled out there is no fix.
        keeps: the arguments by keyword that may be dropped with the call; any other stands against the change.
    """

    name: str = ""
    only_for: Site | None = None
    inner: Site | None = None  #: what the input has to be
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InsertBefore(Intent):
    """Put a statement on a line of its own before the statement (or definition) here, as far indented.

    Args:
        beside: a place in a statement of the same block, whose roles the text means.
        when: what has to stand at that place.
    """

    text: str
    beside: Site | None = None
    when: str = ""


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
    """

    text: str
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrapStatement(Intent):
    """Put the statement into a block with this header."""

    header: str


@dataclass(frozen=True, slots=True)
class Mend:
    """The intents that together mend a violation."""

    message: str
    applicability: Applicability
    intents: tuple[Intent, ...]


def agreed(one: Mend | None, other: Mend | None) -> Mend | None:
    """What mends a mistake that was seen twice: what both say, or nothing."""
    if one is None or other is None or one.intents != other.intents:
        return None
    return one if one.applicability is Applicability.UNSAFE else other


def safe(message: str, *intents: Intent) -> Mend:
    """A mend that keeps the meaning of the program apart from the mistake."""
    return Mend(message, Applicability.SAFE, intents)


def unsafe(message: str, *intents: Intent) -> Mend:
    """A mend that may change more than the mistake."""
    return Mend(message, Applicability.UNSAFE, intents)
