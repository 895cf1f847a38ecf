"""Findings in the terms of the Language Server Protocol."""

from __future__ import annotations

import difflib
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from gradlint.engine import Report
from gradlint.finding import Finding, Fix, Location, Severity
from gradlint.source import SourceError

if TYPE_CHECKING:
    from pygls.workspace import PositionCodec

_MOST_COMPARED = 4000  #: lines; the time grows with the square of their number
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.STYLE: types.DiagnosticSeverity.Information,
}


class Translator:
    """Tells what a report holds in terms of the protocol.

    Args:
        report: also what the lines of files are known by.
        codec: counts columns as the editor does, mostly in units of UTF-16.
        uri_of: the URI of the document that holds a place.
    """

    def __init__(self, report: Report, codec: PositionCodec, uri_of: Callable[[Location], str]) -> None:
        self._report = report
        self._codec = codec
        self._uri_of = uri_of

    def diagnostic(self, finding: Finding) -> types.Diagnostic:
        """A finding, with the places that explain it and what helps."""
        message = f"{finding.message}\nhelp: {finding.remedy}" if finding.remedy else finding.message
        return types.Diagnostic(
            self.range(finding.location),
            message,
            severity=_SEVERITIES[finding.severity],
            code=finding.code,
            source="gradlint",
            related_information=[
                types.DiagnosticRelatedInformation(
                    types.Location(self._uri_of(other.location), self.range(other.location)), other.message
                )
                for other in finding.related
            ],
        )

    def edits(self, fix: Fix) -> types.WorkspaceEdit:
        """The edits of a fix: in the file of its finding, or in cells of one notebook."""
        changes: dict[str, list[types.TextEdit]] = {}
        for edit in fix.edits:
            text_edit = types.TextEdit(self.range(edit.location), edit.content)
            changes.setdefault(self._uri_of(edit.location), []).append(text_edit)
        return types.WorkspaceEdit({uri: tuple(edits) for uri, edits in changes.items()})

    def meets(self, finding: Finding, asked: types.Range) -> bool:
        """Whether the place of a finding and a range have something in common, be it an end."""
        place = self.range(finding.location)
        return place.start <= asked.end and asked.start <= place.end

    def range(self, place: Location) -> types.Range:
        """A place in a file; what has no end of its own is empty."""
        start = self._position(place, place.row, place.column)
        if not place.end_row:
            return types.Range(start, start)
        return types.Range(start, self._position(place, place.end_row, place.end_column))

    def _position(self, place: Location, row: int, column: int) -> types.Position:
        try:
            lines = self._report.read(Path(place.filename)).lines(place.cell)
        except SourceError:  # what is told of it is where it cannot be read
            lines = ()
        before = lines[row - 1][: column - 1] if row <= len(lines) else ""
        return types.Position(row - 1, self._codec.client_num_units(before))


def troubles_of(path: Path, troubles: Iterable[str]) -> Iterator[types.Diagnostic]:
    """What could not be done with a file, at its beginning."""
    start = types.Position(0, 0)
    for trouble in troubles:
        if trouble.startswith(f"{path}:"):
            message = trouble.removeprefix(f"{path}:").lstrip()
            severity = types.DiagnosticSeverity.Warning
            yield types.Diagnostic(types.Range(start, start), message, severity=severity, source="gradlint")


def line_edits(before: str, after: str, codec: PositionCodec) -> list[types.TextEdit]:
    """The edits, in whole lines, that make one text another."""
    old, new = (list(io.StringIO(text, newline="")) for text in (before, after))

    def position(line: int) -> types.Position:
        if line == len(old) and old and not old[-1].endswith(("\n", "\r")):
            return types.Position(line - 1, codec.client_num_units(old[-1]))
        return types.Position(line, 0)

    return [
        types.TextEdit(types.Range(position(first), position(end)), "".join(new[start:stop]))
        for first, end, start, stop in _changes(old, new)
    ]


def _changes(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Which lines become which others: those between the first and the last that differ, parted if they are few."""
    shorter = min(len(old), len(new))
    begin = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    alike = next((at for at in range(shorter - begin) if old[-1 - at] != new[-1 - at]), shorter - begin)
    one, other = old[begin : len(old) - alike], new[begin : len(new) - alike]
    if len(one) + len(other) > _MOST_COMPARED:
        yield begin, begin + len(one), begin, begin + len(other)
        return
    for kind, first, end, start, stop in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind != "equal":
            yield begin + first, begin + end, begin + start, begin + stop
