"""Text: findings with excerpts, explanation and remedy, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gradlint.finding import Finding, Location
from gradlint.output.excerpt import excerpt
from gradlint.output.style import COLOURS, Style, shown_place
from gradlint.output.visible import visible

LineOf = Callable[[Location], str | None]  #: the source line where a location begins, if it can be had


def concise(finding: Finding, style: Style, cwd: Path) -> str:
    """One line: place, code, name and message."""
    colour = COLOURS[finding.severity]
    place = style(shown_place(finding.location, cwd), bold=True)
    code = style(finding.code, fg=colour, bold=True)
    return f"{place}: {code} [{finding.name}] {visible(finding.message)}"


def full(finding: Finding, style: Style, cwd: Path, line_of: LineOf) -> str:
    """The finding with an excerpt, the places that explain it and the remedy."""
    places = [finding.location, *(other.location for other in finding.related)]
    gutter = max(len(str(place.row)) for place in places)
    lines = [concise(finding, style, cwd)]
    lines += _excerpt(finding.location, gutter, "^", COLOURS[finding.severity], style, line_of)
    for other in finding.related:
        bar = style("|", fg="blue", bold=True)
        lines.append(f"{' ' * gutter} {bar} {shown_place(other.location, cwd)}: {visible(other.message)}")
        lines += _excerpt(other.location, gutter, "-", "blue", style, line_of)
    if finding.remedy:
        lines.append(f"{' ' * gutter} {style('= help:', fg='green', bold=True)} {visible(finding.remedy)}")
    return "\n".join(lines) + "\n"


def _excerpt(place: Location, gutter: int, marker: str, colour: str, style: Style, line_of: LineOf) -> Iterator[str]:
    line = line_of(place)
    if line is None:
        return
    same_row = place.end_row in (0, place.row)
    end = (place.end_column or place.column + 1) if same_row else None
    shown, offset, width = excerpt(line, place.column, end)
    number = style(f"{place.row:{gutter}} |", fg="blue", bold=True)
    bar = style(f"{' ' * gutter} |", fg="blue", bold=True)
    yield f"{number} {shown}"
    yield f"{bar} {' ' * offset}{style(marker * width, fg=colour, bold=True)}"
