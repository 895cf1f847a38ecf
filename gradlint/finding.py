"""Findings: what a rule has to say about one place, ready to be shown.

A :class:`Site` is a place as a witness holds it while it works (a syntax node, a stack frame); it is turned
into a :class:`Location` only when a finding is made, because positions are expensive and findings are rare.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Protocol


class Severity(enum.Enum):
    """How grave a finding is."""

    ERROR = "error"  #: it raises, or gradients are wrong
    WARNING = "warning"  #: probably wrong, or it costs memory or time
    STYLE = "style"  #: it works today, and a safer form exists


class Effect(enum.Enum):
    """What a mistake does to whoever runs the program; its values select rules, as in ``effect:wrong-result``."""

    WRONG_RESULT = "wrong-result"  #: it runs, and what it trains or computes is not what was meant
    RAISES = "raises"  #: it ends with an error, here or where it is used
    WASTES = "wastes"  #: the result is right, and memory or time is lost
    STYLE = "style"  #: it does what was meant, and a safer or current form exists

    @property
    def label(self) -> str:
        """The effect in words."""
        return {"wrong-result": "wrong result", "wastes": "wastes memory or time"}.get(self.value, self.value)


@dataclass(frozen=True, order=True, slots=True)
class Location:
    """A range of source text.  Rows and columns count from 1; ``end_column`` is exclusive."""

    filename: str
    row: int
    column: int = 1
    end_row: int = 0
    end_column: int = 0
    cell: int | None = None  #: of a notebook, counted from 1 among all cells; ``row`` is then within the cell

    def locate(self) -> Location:
        """A location is its own site."""
        return self

    def __str__(self) -> str:
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.filename}:{cell}{self.row}:{self.column}"


class Site(Protocol):
    """A place a witness can point to.  Sites are hashable, and equal when they mean the same place."""

    def locate(self) -> Location:
        """The place as a range of source text."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding."""

    message: str
    location: Location


class Applicability(enum.Enum):
    """Whether a fix keeps the meaning of the program apart from the mistake itself."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, order=True, slots=True)
class Edit:
    """Replace the text of ``location`` by ``content``."""

    location: Location
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that together mend a finding."""

    message: str
    applicability: Applicability
    edits: tuple[Edit, ...]

    @property
    def is_safe(self) -> bool:
        """Whether it keeps the meaning of the program apart from the mistake."""
        return self.applicability is Applicability.SAFE


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake, told once: where it shows, why it is one, and what explains it."""

    code: str
    name: str
    message: str
    severity: Severity
    location: Location
    related: tuple[Related, ...] = ()
    remedy: str = ""
    cause: Location | None = None  #: where the mistake was made, when that is not where it shows
    fix: Fix | None = None
    count: int = field(default=1, compare=False)  #: how often the runtime guard saw it
    ranks: tuple[int, ...] = field(default=(), compare=False)  #: that saw it, in a report of several
    effect: Effect | None = None  #: that of its rule; None where no rule made the finding
    library: str = ""  #: the installed package whose own it is, where the guard saw it
    inside: Location | None = None  #: where in code of an installed package, which is called at ``location``

    def __str__(self) -> str:
        lines = [f"{self.location}: {self.code} [{self.name}] {self.message}"]
        lines += [f"    {other.location}: {other.message}" for other in self.related]
        if self.remedy:
            lines.append(f"    help: {self.remedy}")
        return "\n".join(lines)

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for findings that are one: the guard tells each mistake once, however it was met."""
        return (self.code, self.location, self.inside)

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Findings are shown by file, cell, row, column and code."""
        where = self.location
        return (where.filename, where.cell or 0, where.row, where.column, self.code, self.message)
