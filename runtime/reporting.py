"""What a guard found, as text, JSON or annotations, in the words of the linter.  Nothing here imports torch."""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from gradlint.finding import Finding, Location, Severity
from gradlint.output.machine import as_dict, github
from gradlint.output.style import Style, wants_colour
from gradlint.output.text import concise, full

FORMATS = ("text", "concise", "json", "github")

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.STYLE: "style finding"}


def told(findings: Sequence[Finding], output_format: str, cwd: Path, stream: IO[str] | None = None) -> str:
    """All findings, ending in a line break.

    Args:
        findings: in the order in which they were seen.
        output_format: one of :data:`FORMATS`.
        cwd: the folder that paths are told relative to.
        stream: where the text will go, which decides about colour.
    """
    if output_format == "json":
        return json.dumps([as_json_value(finding) for finding in findings], indent=2, ensure_ascii=False) + "\n"
    if output_format == "github":
        return "".join(f"{github(finding, cwd)}\n" for finding in findings)
    style = Style(stream is not None and _is_coloured(stream))
    show = _concise if output_format == "concise" else _full
    shown = "".join(f"{show(finding, style, cwd)}\n" for finding in findings)
    return f"{shown}gradlint: {in_short(findings)}\n"


def in_short(findings: Sequence[Finding]) -> str:
    """One line: how many of which severity."""
    counts = {severity: sum(finding.severity is severity for finding in findings) for severity in Severity}
    parts = [f"{n} {_NOUNS[severity]}{'' if n == 1 else 's'}" for severity, n in counts.items() if n]
    return f"{' and '.join(parts)} while it ran" if parts else "no findings while it ran"


def as_json_value(finding: Finding) -> dict[str, Any]:
    """A finding in the linter's JSON, with ``count``, how often it was seen, and ``remedy``."""
    return {**as_dict(finding), "count": finding.count, "remedy": finding.remedy}


def source_line(place: Location) -> str | None:
    """The line where a location begins, where its source is at hand."""
    return linecache.getline(place.filename, place.row) or None


def _concise(finding: Finding, style: Style, cwd: Path) -> str:
    return concise(finding, style, cwd) + _times(finding)


def _full(finding: Finding, style: Style, cwd: Path) -> str:
    first, _, rest = full(finding, style, cwd, source_line).partition("\n")
    return f"{first}{_times(finding)}\n{rest}"


def _times(finding: Finding) -> str:
    return f" ({finding.count} times)" if finding.count > 1 else ""


def _is_coloured(stream: IO[str]) -> bool:
    try:
        return wants_colour(stream)
    except (AttributeError, ValueError):  # a stream of the program's own making, or a closed one
        return False
