"""Code that has only moved: where its findings are once comments and blank lines around it have changed."""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gradlint.finding import Finding, Location
from gradlint.rules.syntax_error import SyntaxError as SyntaxErrorRule

_DIRECTIVE = re.compile(r"noqa|gradlint", re.I)
"""What comments say that suppress findings."""
_PLAIN = frozenset([tokenize.COMMENT, tokenize.NL, tokenize.ENCODING])
_INDENTING = frozenset([tokenize.INDENT, tokenize.DEDENT])
_Place = tuple[int, int]  #: row and column, both from 1


class Text:
    """A text and where its tokens begin.

    Args:
        text: of a Python file.

    Raises:
        SyntaxError: it has no tokens; what :mod:`tokenize` raises for some such texts is one as well.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.words: list[tuple[int, str]] = []  #: type and text of each token that means anything
        self.starts: list[_Place] = []  #: where each of them begins
        self.first_in: dict[int, int] = {}  #: by row, the first of those that begin there
        try:
            for kind, word, (row, column), _, _ in tokenize.generate_tokens(io.StringIO(text).readline):
                self._add(kind, word, row, column)
        except tokenize.TokenError as error:
            raise SyntaxError(str(error)) from error

    def _add(self, kind: int, word: str, row: int, column: int) -> None:
        if kind == tokenize.COMMENT and _DIRECTIVE.search(word):
            word = f"{self.first_in.get(row)} {word}"  # it is about what stands in its row
        elif kind in _PLAIN:
            return
        elif kind == tokenize.NEWLINE:
            word = ""
        self.words.append((kind, word))
        self.starts.append((row, column + 1))
        if kind not in _INDENTING:  # those stand where the next statement begins
            self.first_in.setdefault(row, len(self.words) - 1)

    def rows(self, place: Location) -> list[str]:
        """The rows in which a range stands."""
        return self.lines[place.row - 1 : max(place.row, place.end_row)]

    def anchor(self, place: _Place) -> int:
        """The token that a place belongs to: the one it is in or behind; the first of its row, in the indentation."""
        first = self.first_in.get(place[0])
        if first is not None and self.starts[first] > place:
            return first
        return max(bisect_right(self.starts, place) - 1, 0)


@dataclass(frozen=True, slots=True)
class Move:
    """What has become of the places in a file of which only comments and blank lines have changed.

    Args:
        filename: of the file.
        before: the text that findings were made in.
        after: the text as it is now.
    """

    filename: str
    before: Text
    after: Text

    @property
    def keeps_meaning(self) -> bool:
        """Whether both texts are the same program, with the same findings suppressed."""
        return self.before.words == self.after.words

    def findings(self, findings: Iterable[Finding]) -> list[Finding] | None:
        """Findings where they are now.

        None if the rows have changed that a fix would change, or that the message of a syntax error may name.
        """
        moved = [self._finding(finding) for finding in findings]
        return None if None in moved else [finding for finding in moved if finding is not None]

    def _finding(self, finding: Finding) -> Finding | None:
        if finding.code == SyntaxErrorRule.code and finding.location.filename == self.filename:
            return None
        moved = relocated(finding, self._location)
        if finding.fix is None:
            return moved
        same = all(self._reads_alike(*places) for places in zip(_places(finding), _places(moved), strict=True))
        return moved if same else None

    def _reads_alike(self, was: Location, now: Location) -> bool:
        """Whether the rows at a place, that a fix looks at, have not changed."""
        return was.filename != self.filename or self.before.rows(was) == self.after.rows(now)

    def _location(self, old: Location) -> Location:
        if old.filename != self.filename:
            return old
        row, column = self._place((old.row, old.column))
        end_row, end_column = self._place((old.end_row, old.end_column))
        return replace(old, row=row, column=column, end_row=end_row, end_column=end_column)

    def _place(self, old: _Place) -> _Place:
        number = self.before.anchor(old)
        was, now = self.before.starts[number], self.after.starts[number]
        return old[0] + now[0] - was[0], old[1] + (now[1] - was[1] if old[0] == was[0] else 0)


def relocated(finding: Finding, place: Callable[[Location], Location]) -> Finding:
    """A finding with all its places where they are now."""
    fix = finding.fix
    if fix is not None:
        fix = replace(fix, edits=tuple(replace(edit, location=place(edit.location)) for edit in fix.edits))
    return replace(
        finding,
        location=place(finding.location),
        related=tuple(replace(other, location=place(other.location)) for other in finding.related),
        cause=None if finding.cause is None else place(finding.cause),
        fix=fix,
    )


def _places(finding: Finding) -> list[Location]:
    """What a fix is made from, and where it changes something."""
    edits = finding.fix.edits if finding.fix is not None else ()
    related = [other.location for other in finding.related]
    return [finding.location, *related, *(edit.location for edit in edits)]
