"""Findings as a notebook shows them: HTML, and text where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from gradlint.finding import Finding, Location, Severity
from gradlint.output.style import Style, shown_place
from gradlint.output.text import LineOf, full

_EDGES = {Severity.ERROR: "#d1242f", Severity.WARNING: "#bf8700", Severity.STYLE: "#1b7c83"}
_BOX = "border-left:4px solid {edge};margin:.3em 0;padding:.2em .8em;font-size:.92em;text-align:left"
_CODE = (
    "margin:.2em 0;padding:.2em .5em;background:rgba(128,128,128,.1);color:inherit;text-align:left;overflow-x:auto;"
    "font-family:monospace"
)
_MARK = "background:rgba(255,190,40,.4);color:inherit"


@dataclass(frozen=True)
class Shown:
    """Findings to be displayed; by themselves in HTML, which needs no style sheet and suits light and dark pages."""

    findings: Sequence[Finding]
    line_of: LineOf
    cwd: Path
    nothing: str = "nothing found"  #: what to say where there are none

    def __repr__(self) -> str:
        if not self.findings:
            return f"gradlint: {self.nothing}"
        return "\n".join(full(finding, Style(), self.cwd, self.line_of) for finding in self.findings).rstrip("\n")

    def _repr_html_(self) -> str:
        if not self.findings:
            return f'<div style="opacity:.7;font-size:.92em">gradlint: {escape(self.nothing)}</div>'
        return "".join(map(self._box, self.findings))

    def _box(self, finding: Finding) -> str:
        head = (
            f'<b style="color:{_EDGES[finding.severity]}">{finding.code}</b> '
            f"<b>{escape(finding.name)}</b> <span>{escape(finding.message)}</span>"
        )
        parts = [head, *self._place(finding.location, "")]
        for other in finding.related:
            parts += self._place(other.location, other.message)
        if finding.remedy:
            parts.append(f"<div><b>help:</b> {escape(finding.remedy)}</div>")
        return f'<div class="gradlint" style="{_BOX.format(edge=_EDGES[finding.severity])}">{"".join(parts)}</div>'

    def _place(self, place: Location, message: str) -> Iterator[str]:
        said = f": {escape(message)}" if message else ""
        yield f'<div style="opacity:.8">{escape(shown_place(place, self.cwd))}{said}</div>'
        line = self.line_of(place)
        if line is not None:
            line = line.rstrip("\r\n")
            start = min(place.column - 1, len(line))
            end = place.end_column - 1 if place.end_row == place.row else len(line)
            marked = f'<mark style="{_MARK}">{escape(line[start:end])}</mark>'
            yield f'<pre style="{_CODE}">{escape(line[:start])}{marked}{escape(line[end:])}</pre>'


def under_names(finding: Finding, named: Callable[[Location], Location]) -> Finding:
    """A finding with its places in files that people know by other names."""
    related = tuple(replace(other, location=named(other.location)) for other in finding.related)
    return replace(finding, location=named(finding.location), related=related)
