"""Suppression: the comments by which the author of a file says "I know".

``# noqa`` and ``# noqa: GL201`` as other linters read them, ``# gradlint: ignore`` and ``# gradlint: ignore[GL201]``
for gradlint alone, and ``# gradlint: skip-file`` on a line of its own.  Codes may be prefixes, and in the square
brackets slugs.  Comments are found by tokenizing, so that text in strings never counts.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradlint.finding import Finding, Location
from gradlint.selection import matching

if TYPE_CHECKING:
    from gradlint.rule import Rule

Place = tuple[int | None, int]  #: the cell of a notebook (None elsewhere) and the row
Locate = Callable[[int, int, int, int], Location]

_MENTION = re.compile(r"noqa|gradlint\s*:", re.IGNORECASE)
_CODE = r"[A-Z]{1,8}[0-9]{1,6}\b"
_NOQA = re.compile(rf"#\s*noqa(?![\w-])(?:\s*:\s*(?P<codes>{_CODE}(?:(?:\s*,\s*|\s+){_CODE})*))?", re.IGNORECASE)
_IGNORE = re.compile(r"#\s*gradlint\s*:\s*ignore(?![\w-])(?:\s*\[(?P<codes>[^\]]*)\])?", re.IGNORECASE)
_SKIP_FILE = re.compile(r"#\s*gradlint\s*:\s*skip-file(?![\w-])", re.IGNORECASE)


@dataclass(slots=True)
class Selector:
    """One code, prefix or slug in a suppression comment."""

    text: str
    location: Location
    ours: bool  #: it can only be meant for gradlint
    used: bool = False

    def matches(self, finding: Finding) -> bool:
        """Whether the finding is one of those meant."""
        return finding.code.startswith(self.text.upper()) or finding.name == self.text.lower()


@dataclass(slots=True)
class Directive:
    """One suppression comment; without selectors it means everything."""

    location: Location
    blanket: bool
    ours: bool
    selectors: list[Selector] = field(default_factory=list)
    used: bool = False

    def suppresses(self, finding: Finding) -> bool:
        """Whether the comment covers the finding; remembers that it was of use."""
        if self.blanket:
            self.used = True
            return True
        matched = [selector for selector in self.selectors if selector.matches(finding)]
        for selector in matched:
            selector.used = True
        return bool(matched)


class Suppressions:
    """The suppression comments of one file."""

    def __init__(self) -> None:
        self.skips_file = False
        self.at: dict[Place, list[Directive]] = {}
        self.ends: dict[Place, int] = {}  #: for each row of a logical line of several rows, its last row

    def suppress(self, finding: Finding) -> bool:
        """Whether a comment covers the finding.

        That is one on the first row of the finding, on a later row of it that belongs to the same logical line,
        or on the last row of that logical line.
        """
        if self.skips_file:
            return True
        where = finding.location
        end = self.ends.get((where.cell, where.row), where.row)
        rows = {*range(where.row, min(where.end_row, end) + 1), where.row, end}
        directives = [directive for row in rows for directive in self.at.get((where.cell, row), ())]
        covering = [directive for directive in directives if directive.suppresses(finding)]
        return bool(covering)

    def selectors(self) -> Iterator[Selector]:
        """Every code named in a comment, in the order of the file."""
        for directive in self.directives():
            yield from directive.selectors

    def directives(self) -> Iterable[Directive]:
        """Every suppression comment, in the order of the file."""
        return (directive for place in self.at for directive in self.at[place])


def read_suppressions(text: str, locate: Locate) -> Suppressions:
    """The suppression comments in the text of a module.

    Args:
        text: Python source; where it cannot be tokenized, what stands before counts.
        locate: from row, column, end row and end column in the text to the place that is shown to the user.
    """
    suppressions = Suppressions()
    if not _MENTION.search(text):
        return suppressions
    start = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                own_line = not token.line[:column].strip()
                suppressions.skips_file |= own_line and bool(_SKIP_FILE.search(token.string))
                where = locate(row, column + 1, row, column + 1)
                directives = list(_directives(token.string, where))
                if directives:
                    suppressions.at.setdefault((where.cell, where.row), []).extend(directives)
            elif token.type == tokenize.NEWLINE:
                for inner in range(start, row) if start else ():
                    where = locate(inner, 1, row, 1)
                    suppressions.ends[where.cell, where.row] = where.end_row
                start = 0
            elif not start and token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                start = row
    except (tokenize.TokenError, SyntaxError):
        pass
    return suppressions


def unknown_codes(suppressions: Suppressions, rules: Sequence[type[Rule]]) -> Iterator[Finding]:
    """A finding for each selector that is meant for gradlint and that no rule answers to."""
    from gradlint.rules.unknown_code import UnknownCode

    for selector in suppressions.selectors():
        if selector.ours and (":" in selector.text or not matching(selector.text, rules)):  # a comment names rules
            yield UnknownCode.at(selector.location, selector.text)


def unused(suppressions: Suppressions, selected: Sequence[type[Rule]]) -> Iterator[Finding]:
    """A finding for each comment or code that suppressed nothing, though every rule it means was looked for."""
    from gradlint.manual import witnesses
    from gradlint.rules.unused_suppression import UnusedSuppression

    if UnusedSuppression not in selected or suppressions.skips_file:
        return
    for directive in suppressions.directives():
        if directive.blanket and directive.ours and not directive.used:
            yield UnusedSuppression.at(directive.location, "this comment")
        for selector in directive.selectors:
            meant = [rule for rule in selected if rule.code in matching(selector.text, selected)]
            looked_for = all("static" in witnesses(rule) and rule is not UnusedSuppression for rule in meant)
            if meant and looked_for and not selector.used:
                yield UnusedSuppression.at(selector.location, selector.text)


def _directives(comment: str, at: Location) -> Iterator[Directive]:
    for pattern, ours in ((_NOQA, False), (_IGNORE, True)):
        for match in pattern.finditer(comment):
            directive = Directive(_span(at, *match.span()), blanket=match["codes"] is None, ours=ours)
            if match["codes"] is not None:
                for code in re.finditer(r"[^\s,]+", match["codes"]):
                    first = match.start("codes") + code.start()
                    selector = Selector(
                        code[0],
                        _span(at, first, first + len(code[0])),
                        ours=ours or bool(re.fullmatch(r"GL\d+", code[0], re.IGNORECASE)),
                    )
                    directive.selectors.append(selector)
            yield directive


def _span(comment: Location, start: int, end: int) -> Location:
    column = comment.column
    return Location(comment.filename, comment.row, column + start, comment.row, column + end, comment.cell)
