"""Reports: all findings of a run in the format that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradlint.finding import Finding, Location
from gradlint.source import Source, SourceError


def _unread(path: Path) -> Source:
    raise SourceError(path, 1, 1, "not at hand")


@dataclass(frozen=True, slots=True)
class Material:
    """What a report is made of."""

    findings: Sequence[Finding]
    cwd: Path  #: what paths are shown relative to
    files: Sequence[Path] = ()  #: that were checked
    troubles: Sequence[str] = ()  #: what could not be done
    read: Callable[[Path], Source] = _unread

    def line(self, place: Location) -> str | None:
        """The source line where ``place`` begins; ``None`` when it cannot be had."""
        try:
            lines = self.read(Path(place.filename)).lines(place.cell)
        except SourceError:
            return None
        return lines[place.row - 1] if place.row <= len(lines) else None


def for_machines(material: Material, output_format: str) -> str:
    """A report in one of :data:`~gradlint.output.MACHINE_FORMATS`; each is imported only where it is used."""
    if output_format == "json":
        from gradlint.output.machine import as_json

        return as_json(material.findings)
    if output_format == "github":
        from gradlint.output.machine import github

        return "".join(f"{line}\n" for line in map(partial(github, cwd=material.cwd), material.findings))
    if output_format == "gitlab":
        from gradlint.output.gitlab import as_gitlab

        return as_gitlab(material)
    if output_format == "junit":
        from gradlint.output.junit import as_junit

        return as_junit(material)
    from gradlint.output.sarif import as_sarif

    return as_sarif(material)
