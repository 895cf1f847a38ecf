"""JSON in the shape of Ruff's, and the workflow commands of GitHub."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradlint.finding import Finding, Fix, Location, Severity
from gradlint.output.style import relative_name
from gradlint.output.visible import visible

#: what JSON leaves as it is in a string and a terminal does not: controls, line ends, marks of direction, surrogates


def as_json(findings: Sequence[Finding]) -> str:
    """All findings as a JSON list; rows and columns count from 1, file names are absolute."""
    return json_text([as_dict(finding) for finding in findings])


def json_text(value: Any) -> str:
    """A value as JSON, in ASCII, which every terminal and pipe has: nothing in it moves a cursor unseen."""
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f") + "\n"


def as_dict(finding: Finding) -> dict[str, Any]:
    """One finding as a JSON object."""
    where = finding.location
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "severity": finding.severity.value,
        "effect": finding.effect.value if finding.effect else None,
        "filename": where.filename,
        "location": _start(where),
        "end_location": _end(where),
        "cell": where.cell,
        "related": [
            {
                "message": other.message,
                "filename": other.location.filename,
                "location": _start(other.location),
                "cell": other.location.cell,
            }
            for other in finding.related
        ],
        "fix": _fix(finding.fix) if finding.fix else None,
        "url": None,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "message": fix.message,
        "edits": [
            {
                "content": edit.content,
                "location": _start(edit.location),
                "end_location": _end(edit.location),
                **({"cell": edit.location.cell} if edit.location.cell is not None else {}),
            }
            for edit in fix.edits
        ],
    }


def _start(location: Location) -> dict[str, int]:
    return {"row": location.row, "column": location.column}


def _end(location: Location) -> dict[str, int]:
    row = location.end_row or location.row
    return {"row": row, "column": location.end_column or location.column}


_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.STYLE: "notice"}


def github(finding: Finding, cwd: Path) -> str:
    """A workflow command that GitHub shows at the line.  Rows of a notebook's cell are no rows of its file."""
    where = finding.location
    properties = {"file": relative_name(where.filename, cwd), "title": f"{finding.code} {finding.name}"}
    message = finding.message
    if where.cell is None:
        properties["line"] = str(where.row)
        if where.end_row > where.row:
            properties["endLine"] = str(where.end_row)
        else:
            properties["col"] = str(where.column)
            if where.end_column > where.column:
                properties["endColumn"] = str(where.end_column)
    else:
        message = f"cell {where.cell}, line {where.row}: {message}"
    if finding.remedy:
        message += f"\n{finding.remedy}"
    told = ",".join(f"{key}={_escape(value, ':,')}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {told}::{_escape(message)}"


def _escape(text: str, also: str = "") -> str:
    shown = visible(text, keep="\r\n")
    return "".join(f"%{ord(character):02X}" if character in f"%\r\n{also}" else character for character in shown)
