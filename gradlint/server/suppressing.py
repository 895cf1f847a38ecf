"""Comments that suppress a finding, put where they hold."""

from __future__ import annotations

import ast
import io
from pathlib import Path

from gradlint.finding import Finding
from gradlint.source import source_from_text
from gradlint.suppression import read_suppressions


def suppressed(text: str, finding: Finding) -> str | None:
    """A text with a comment behind the row of a finding; None where no comment can stand, as within a string."""
    lines = list(io.StringIO(text, newline=""))
    row = finding.location.row
    if row > len(lines):
        return None
    line = lines[row - 1]
    body = line.rstrip("\r\n")
    lines[row - 1] = f"{body.rstrip()}  # gradlint: ignore[{finding.name}]{line[len(body) :]}"
    after = "".join(lines)
    source = source_from_text(after, Path(finding.location.filename))
    try:
        same = ast.dump(ast.parse(text)) == ast.dump(ast.parse(after))
    except (SyntaxError, ValueError):
        return None
    return after if same and read_suppressions(source.text, source.location).suppress(finding) else None
