"""What a guard found, as text, JSON or annotations, in the words of the linter.  Nothing here imports torch."""

from __future__ import annotations

import json
import linecache
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gradlint.finding import Finding, Location, Severity
from gradlint.output import MACHINE_FORMATS, OUTPUT_FORMATS
from gradlint.output.machine import as_dict, github
from gradlint.output.reports import Material, for_machines
from gradlint.output.style import Style, wants_colour
from gradlint.output.text import concise, full
from gradlint.source import read_source

FORMATS = OUTPUT_FORMATS

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.STYLE: "style finding"}


@dataclass(frozen=True, slots=True)
class World:
    """The processes that train together, and which of them a report speaks of."""

    size: int = 1
    rank: int = 0  #: whose findings they are; those of all, when it is 0
    absent: tuple[int, ...] = ()  #: ranks that left nothing for the report
    unfinished: tuple[int, ...] = ()  #: ranks that are told with what they left before they ended
    patience: float = 0.0  #: seconds they were waited for

    @property
    def notes(self) -> list[str]:
        """What a reader should know about ranks whose report is missing or may lack something."""
        notes = []
        if self.absent:
            notes.append(f"nothing was heard from {in_words(self.absent)}")
        if self.unfinished:
            waited = f"within {self.patience:g} s"
            notes.append(f"no end was heard from {in_words(self.unfinished)} {waited}: told is what came before")
        return notes

    def __str__(self) -> str:
        if self.size == 1:
            return "while it ran"
        return f"while it ran on rank {self.rank} of {self.size}" if self.rank else f"while it ran on {self.size} ranks"


ALONE = World()


def told(
    findings: Sequence[Finding],
    output_format: str,
    cwd: Path,
    stream: IO[str] | None = None,
    world: World = ALONE,
    left_out: str = "",
) -> str:
    """All findings, ending in a line break.

    Args:
        findings: in the order in which they were seen.
        output_format: one of :data:`FORMATS`.
        cwd: the folder that paths are told relative to.
        stream: where the text will go, which decides about colour.
        world: the processes they come from.
        left_out: what a reader of text should know about findings that are not among them.
    """
    if output_format == "json":
        return json.dumps([as_json_value(finding) for finding in findings], indent=2) + "\n"
    if output_format == "github":
        notes = "".join(f"::warning title=gradlint::{note}\n" for note in world.notes)
        return "".join(f"{github(finding, cwd)}\n" for finding in findings) + notes
    if output_format in MACHINE_FORMATS:
        return for_machines(Material(findings, cwd, troubles=world.notes, read=read_source), output_format)
    findings = sorted(findings, key=lambda finding: finding.library)  # first those in the user's own code
    style = Style(stream is not None and _is_coloured(stream))
    show = _concise if output_format == "concise" else _full
    shown = "".join(f"{show(finding, style, cwd)}\n" for finding in findings)
    notes = "".join(f"gradlint: {note}\n" for note in (*world.notes, *([left_out] if left_out else [])))
    return f"{shown}{notes}gradlint: {in_short(findings, world)}\n"


def in_short(findings: Sequence[Finding], world: World = ALONE) -> str:
    """One line: how many of which severity."""
    counts = {severity: sum(finding.severity is severity for finding in findings) for severity in Severity}
    parts = [f"{n} {_NOUNS[severity]}{'' if n == 1 else 's'}" for severity, n in counts.items() if n]
    return f"{' and '.join(parts) or 'no findings'} {world}"


def left_out_in_short(findings: Sequence[Finding], option: str) -> str:
    """One line: how many of them are in which packages, and how to see them; empty without findings.

    Args:
        findings: those that are left out.
        option: what brings them.
    """
    if not findings:
        return ""
    counts = Counter(finding.library for finding in findings)
    packages = ", ".join(f"{count} in {package}" for package, count in sorted(counts.items()))
    noun = "finding" if len(findings) == 1 else "findings"
    return f"{len(findings)} {noun} in installed packages left out ({packages}): {option} tells them"


def in_words(ranks: Sequence[int]) -> str:
    """Ranks in ascending order, as "rank 3" or "ranks 0-2, 5"."""
    runs: list[tuple[int, int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    spelled = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"rank{'' if len(ranks) == 1 else 's'} {spelled}"


def as_json_value(finding: Finding) -> dict[str, Any]:
    """A finding in the linter's JSON, and what only the guard knows of it.

    ``count`` tells how often it was seen, ``ranks`` by which, ``library`` the installed package whose own it is.
    """
    return {
        **as_dict(finding),
        "count": finding.count,
        "ranks": list(finding.ranks),
        "remedy": finding.remedy,
        "library": finding.library or None,
    }


def source_line(place: Location) -> str | None:
    """The line where a location begins, where its source is at hand."""
    return linecache.getline(place.filename, place.row) or None


def _concise(finding: Finding, style: Style, cwd: Path) -> str:
    return concise(finding, style, cwd) + _times(finding)


def _full(finding: Finding, style: Style, cwd: Path) -> str:
    first, _, rest = full(finding, style, cwd, source_line).partition("\n")
    return f"{first}{_times(finding)}\n{rest}"


def _times(finding: Finding) -> str:
    parts = [f"{finding.count:,} times"] if finding.count > 1 else []
    parts += [f"on {in_words(finding.ranks)}"] if finding.ranks else []
    return f" ({', '.join(parts)})" if parts else ""


def _is_coloured(stream: IO[str]) -> bool:
    try:
        return wants_colour(stream)
    except (AttributeError, ValueError):  # a stream of the program's own making, or a closed one
        return False
