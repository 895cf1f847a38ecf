"""``--add-noqa``: a suppression comment behind every finding, so that old code passes and new code is checked."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradlint.engine import Report
from gradlint.finding import Applicability, Edit, Finding, Fix, Location
from gradlint.fixing import replace_file, rewritten
from gradlint.output.summary import counted
from gradlint.source import Source, SourceError, source_from_bytes
from gradlint.suppression import read_suppressions

_CODES = re.compile(r"#\s*noqa\s*:\s*(?P<codes>[A-Z]{1,8}[0-9]{1,6}(?:(?:\s*,\s*|\s+)[A-Z]{1,8}[0-9]{1,6})*)", re.I)


def add_noqa(report: Report) -> str:
    """Write ``# noqa: CODE`` where the findings of a report are; return what was done, in one line.

    A comment stands on the row of its finding, or at the end of the statement where that cannot hold one (in a string
    of several lines, before a backslash).  An existing ``noqa`` that names codes is extended.  Findings that no
    comment can suppress, such as those of files that are not Python, are added to the report's troubles.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_file.setdefault(finding.location.filename, []).append(finding)
    added = 0
    for filename, findings in by_file.items():
        path = Path(filename)
        try:
            source = report.read(path)
        except SourceError:
            left = findings
        else:
            try:
                data, left = _commented(source, findings)
                if data != source.data:
                    replace_file(path, source.data, data)
            except OSError as error:
                report.troubles.append(f"{path}: not changed: {error.strerror or error}")
                continue
            except Exception as error:  # noqa: BLE001 -- of whatever type, it costs the other files no comment
                report.troubles.append(f"{path}: not changed: internal error: {type(error).__name__}: {error}")
                continue
        added += len(findings) - len(left)
        report.troubles += [f"{finding.location}: no comment can suppress {finding.code} here" for finding in left]
    return f"Suppressed {counted(added, 'finding')} by noqa comments.\n"


def _commented(source: Source, findings: list[Finding]) -> tuple[bytes, list[Finding]]:
    """The bytes of a file with comments that suppress its findings, and the findings for which there is no place."""
    from gradlint.rules.syntax_error import SyntaxError as SyntaxErrorRule

    data = source.data
    hopeless = [finding for finding in findings if finding.code == SyntaxErrorRule.code]  # comments are not read there
    left = [finding for finding in findings if finding not in hopeless]
    for at_end in (False, True):
        if not left:
            break
        current = source_from_bytes(source.path, data)
        layout = _layout(current)
        by_row: dict[int, list[Finding]] = {}
        for finding in left:
            row = _row(current, finding.location)
            by_row.setdefault(layout.ends.get(row, row) if at_end else row, []).append(finding)
        edits = [_edit(current, layout, row, found) for row, found in by_row.items()]
        data = rewritten(current, [each for each in edits if each is not None]).data
        now = source_from_bytes(source.path, data)
        suppressing = read_suppressions(now.text, now.location)
        left = [finding for finding in left if not suppressing.suppress(finding)]
    return data, [*hopeless, *left]


def _row(source: Source, place: Location) -> int:
    """The row of the text where a location begins."""
    return place.row + next((span.first_row - 1 for span in source.cells if span.number == place.cell), 0)


@dataclass(slots=True)
class _Layout:
    """The rows of a text at whose end a comment can stand: those that end outside of strings and backslashes."""

    comments: dict[int, tuple[str, int]] = field(default_factory=dict)  #: what stands there, and its column (from 1)
    ends: dict[int, int] = field(default_factory=dict)  #: for each row of a statement, the last row of it


def _layout(source: Source) -> _Layout:
    layout = _Layout()
    comment, start = ("", 0), 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.text, newline=None).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                comment = token.string, column + 1
            elif token.type in (tokenize.NEWLINE, tokenize.NL):
                layout.comments[row] = comment
                comment = "", 0
                if token.type == tokenize.NEWLINE:
                    layout.ends.update(dict.fromkeys(range(start, row + 1), row))
                    start = 0
            elif not start and token.type not in (tokenize.INDENT, tokenize.DEDENT):
                start = row
    except (tokenize.TokenError, SyntaxError):
        pass
    return layout


def _edit(source: Source, layout: _Layout, row: int, findings: list[Finding]) -> Finding | None:
    """A finding whose fix writes the comment for those of a row; None where there can be none."""
    if row not in layout.comments:
        return None
    comment, start = layout.comments[row]
    codes = sorted({finding.code for finding in findings})
    match = _CODES.search(comment)
    if match is not None:
        missing = [code for code in codes if code not in re.split(r"[\s,]+", match["codes"].upper())]
        column, text = start + match.end("codes"), "".join(f", {code}" for code in missing)
    else:
        column, text = len(source.rows[row - 1].rstrip()) + 1, f"  # noqa: {', '.join(codes)}"
    where = source.location(row, column, row, column)
    return replace(findings[0], fix=Fix("suppress", Applicability.SAFE, (Edit(where, text),)))
