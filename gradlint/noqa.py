"""``--add-noqa``: a suppression comment behind every finding, so that old code passes and new code is checked."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gradlint.engine import Report
from gradlint.finding import Applicability, Edit, Finding, Fix
from gradlint.fixing import replace_file, rewritten
from gradlint.output.summary import count
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
            data, left = _commented(source, findings)
            try:
                if data != source.data:
                    replace_file(path, source.data, data)
            except OSError as error:
                report.troubles.append(f"{path}: not changed: {error.strerror or error}")
                continue
        added += len(findings) - len(left)
        report.troubles += [f"{finding.location}: no comment can suppress {finding.code} here" for finding in left]
    return f"Suppressed {count(added, 'finding')} by noqa comments.\n"


def _commented(source: Source, findings: list[Finding]) -> tuple[bytes, list[Finding]]:
    """The bytes of a file with comments that suppress its findings, and the findings for which there is no place."""
    data = source.data
    left = findings
    for at_end in (False, True):
        current = source_from_bytes(source.path, data)
        comments = read_suppressions(current.text, current.location)
        layout = _layout(current)
        by_row: dict[tuple[int | None, int], list[Finding]] = {}
        for finding in left:
            place = finding.location
            row = comments.ends.get((place.cell, place.row), place.row) if at_end else place.row
            by_row.setdefault((place.cell, row), []).append(finding)
        edits = [_edit(current, layout, cell, row, found) for (cell, row), found in by_row.items()]
        data = rewritten(current, [each for each in edits if each is not None]).data
        now = source_from_bytes(source.path, data)
        suppressing = read_suppressions(now.text, now.location)
        left = [finding for finding in left if not suppressing.suppress(finding)]
        if not left:
            break
    return data, left


@dataclass(frozen=True, slots=True)
class _Row:
    """The comment at the end of a row, with the column where it begins (from 1)."""

    comment: str = ""
    column: int = 0


def _layout(source: Source) -> dict[int, _Row]:
    """The rows of the text behind which a comment can stand: those that end outside of strings and backslashes."""
    rows: dict[int, _Row] = {}
    comment, column = "", 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                comment, column = token.string, token.start[1] + 1
            elif token.type in (tokenize.NEWLINE, tokenize.NL):
                rows[token.start[0]] = _Row(comment, column)
                comment, column = "", 0
    except (tokenize.TokenError, SyntaxError):
        pass
    return rows


def _edit(
    source: Source, layout: dict[int, _Row], cell: int | None, row: int, findings: Iterable[Finding]
) -> Finding | None:
    """A finding whose fix writes the comment for those of a row; None where there can be none."""
    before = next((span.first_row - 1 for span in source.cells if span.number == cell), 0)
    found = layout.get(row + before)
    if found is None:
        return None
    first, *_ = findings
    codes = sorted({finding.code for finding in findings})
    match = _CODES.search(found.comment)
    if match is not None:
        missing = [code for code in codes if code not in re.split(r"[\s,]+", match["codes"].upper())]
        column, text = found.column + match.end("codes"), "".join(f", {code}" for code in missing)
    else:
        line = source.rows[row + before - 1]
        column, text = len(line.rstrip()) + 1, f"  # noqa: {', '.join(codes)}"
    where = source.location(row + before, column, row + before, column)
    fix = Fix("suppress", Applicability.SAFE, (Edit(where, text),))
    return replace(first, fix=fix)
