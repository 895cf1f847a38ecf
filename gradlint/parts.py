"""Parts: files that no import connects are analysed apart, whether they are checked together or alone."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradlint.finding import Finding
    from gradlint.footprint import Footprint
    from gradlint.rule import Rule
    from gradlint.source import Source, SourceError
    from gradlint.static.text.project import Project


@dataclass(frozen=True, slots=True)
class Part:
    """Files that imports connect, in order."""

    targets: tuple[Path, ...]  #: those that are checked
    callers: tuple[Path, ...] = ()  #: those that import them, directly or not, and are not checked


@dataclass(slots=True)
class Outcome:
    """What the analysis of a part came to."""

    readable: list[Path] = field(default_factory=list)  #: the targets that are Python
    errors: list[SourceError] = field(default_factory=list)  #: why the others are not; cells of notebooks, too
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  #: what could not be followed
    troubles: list[str] = field(default_factory=list)  #: files that could not be read, faults of gradlint
    footprint: Footprint | None = None  #: what it came from; None if that cannot be told

    @property
    def settled(self) -> bool:
        """Whether it would be the same again, as long as nothing changes."""
        return self.footprint is not None and not self.troubles

    def add(self, other: Outcome) -> None:
        """Take over what another part came to, but for what it came from."""
        self.readable += other.readable
        self.errors += other.errors
        self.findings += other.findings
        self.notes += other.notes
        self.troubles += other.troubles


def split(project: Project, targets: Sequence[Path]) -> list[Part]:
    """The parts that files fall into, in their order."""
    wanted = set(targets)
    groups = project.components([*targets, *project.importers_of(targets)])
    parts = [
        Part(tuple(path for path in group if path in wanted), tuple(path for path in group if path not in wanted))
        for group in groups
    ]
    return [part for part in parts if part.targets]


def analyze_part(project: Project, part: Part, rules: Sequence[type[Rule]]) -> Outcome:
    """Analyse one part, and keep nothing of it but the outcome.

    Args:
        project: where the files lie; what was read for other parts is not looked at.
        part: what to analyse.
        rules: the rules to check.
    """
    from gradlint.static.drive.analysis import analyze

    alone = project.apart()
    outcome = read_part(part, lambda path: alone.module(path).source)
    try:
        analysis = analyze(alone, outcome.readable, rules, part.callers)
    except Exception as error:  # noqa: BLE001 -- whatever fails in one file must not cost the findings of the others
        if len(part.targets) > 1:
            return _one_by_one(project, part, rules)
        outcome.notes.append("".join(traceback.format_exception(error)).rstrip())
        outcome.troubles.append(f"{part.targets[0]}: internal error: {type(error).__name__}: {error}")
        return outcome
    outcome.findings, outcome.notes = analysis.findings, analysis.notes
    outcome.errors += analysis.rejected
    outcome.troubles += analysis.crashes
    outcome.footprint = alone.footprint()
    return outcome


def read_part(part: Part, read: Callable[[Path], Source]) -> Outcome:
    """Which files of a part are Python.

    Args:
        part: the files.
        read: how a file is read; SourceError if it cannot be read, or is not Python.
    """
    from gradlint.source import SourceError

    outcome = Outcome()
    for target in part.targets:
        try:
            outcome.errors += read(target).problems
        except SourceError as error:
            if isinstance(error.__cause__, OSError):
                outcome.troubles.append(f"{target}: {error.reason}")
            else:
                outcome.errors.append(error)
        else:
            outcome.readable.append(target)
    return outcome


def _one_by_one(project: Project, part: Part, rules: Sequence[type[Rule]]) -> Outcome:
    whole = Outcome()
    for target in part.targets:
        whole.add(analyze_part(project, Part((target,), tuple(project.importers_of([target]))), rules))
    return whole
