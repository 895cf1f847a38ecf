"""Comments that suppress a finding, put where they hold."""

from __future__ import annotations

import ast
import io

from gradlint.finding import Finding
from gradlint.server.documents import Opened
from gradlint.suppression import read_suppressions


def suppressed(opened: Opened, finding: Finding) -> str | None:
    """The text of a file or cell with a comment behind the row of a finding.

    None where no comment can stand, as within a string.
    """
    cell, row = finding.location.cell, finding.location.row
    lines = list(io.StringIO(opened.document(cell).text, newline=""))
    if row > len(lines):
        return None
    line = lines[row - 1]
    body = line.rstrip("\r\n")
    lines[row - 1] = f"{body.rstrip()}  # gradlint: ignore[{finding.name}]{line[len(body) :]}"
    text = "".join(lines)
    before, after = opened.source, opened.with_text(cell, text).source
    try:
        same = ast.dump(ast.parse(before.text)) == ast.dump(ast.parse(after.text))
    except (SyntaxError, ValueError):
        return None
    return text if same and read_suppressions(after.text, after.location).suppress(finding) else None
