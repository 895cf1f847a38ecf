"""Parts: files that no import connects are analysed apart, whether they are checked together or alone."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.interruption import Ending, call_off
from gradlint.room import with_room

if TYPE_CHECKING:
    from gradlint.finding import Finding
    from gradlint.footprint import Footprint
    from gradlint.rule import Rule
    from gradlint.source import Source, SourceError
    from gradlint.static.drive.effort import Watch
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
    ending: Ending | None = None  #: why the analysis did not come to its end; what it found until then stands

    @property
    def settled(self) -> bool:
        """Whether it would be the same again, as long as nothing changes."""
        return self.footprint is not None and not self.troubles and self.ending is None

    def add(self, other: Outcome) -> None:
        """Take over what another part came to, but for what it came from."""
        self.readable += other.readable
        self.errors += other.errors
        self.findings += other.findings
        self.notes += other.notes
        self.troubles += other.troubles
        self.ending = self.ending or other.ending

    def end(self, error: BaseException) -> None:
        """Something has ended the analysis before its time."""
        self.ending = Ending.by(error)
        call_off()

    def fail(self, path: Path, error: Exception) -> None:
        """Something was met that gradlint should have been able to deal with; it costs no more than this file."""
        self.notes.append("".join(traceback.format_exception(error)).rstrip())
        self.troubles.append(f"{path}: internal error: {type(error).__name__}: {error}")


def split(project: Project, targets: Sequence[Path], *, alone: bool = False) -> list[Part]:
    """The parts that files fall into, in their order; with the files that import them, or without (alone)."""
    wanted = set(targets)
    groups = project.components([*targets, *(() if alone else project.importers_of(targets))])
    parts = [
        Part(tuple(path for path in group if path in wanted), tuple(path for path in group if path not in wanted))
        for group in groups
    ]
    return [part for part in parts if part.targets]


def analyze_part(project: Project, part: Part, rules: Sequence[type[Rule]], watch: Watch | None = None) -> Outcome:
    """Analyse one part, and keep nothing of it but the outcome.

    Args:
        project: where the files lie; what was read for other parts is not looked at.
        part: what to analyse.
        rules: the rules to check.
        watch: told which file is followed.
    """
    return with_room(lambda: _analyzed(project, part, rules, {} if watch is None else {"watch": watch}))


def _analyzed(project: Project, part: Part, rules: Sequence[type[Rule]], watching: dict[str, Watch]) -> Outcome:
    from gradlint.static.drive.analysis import analyze

    alone = project.apart()
    outcome = Outcome()
    try:
        outcome = read_part(part, lambda path: alone.module(path).source)
        analysis = analyze(alone, outcome.readable, rules, part.callers, **watching)
    except (KeyboardInterrupt, MemoryError) as error:
        outcome.end(error)
        return outcome
    except Exception as error:  # noqa: BLE001 -- whatever fails in one file must not cost the findings of the others
        if len(part.targets) > 1:
            return _one_by_one(project, part, rules)
        outcome.fail(part.targets[0], error)
        return outcome
    outcome.findings += analysis.findings
    outcome.notes += analysis.notes
    outcome.errors += analysis.rejected
    outcome.troubles += analysis.crashes
    if analysis.ended_by is not None:
        outcome.end(analysis.ended_by)
        return outcome
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
            cause = error.__cause__
            if isinstance(cause, OSError):
                outcome.troubles.append(f"{target}: {error.reason}")
            elif isinstance(cause, Exception) and error.reason.startswith("internal error: "):
                outcome.fail(target, cause)
            else:
                outcome.errors.append(error)
        except Exception as error:  # noqa: BLE001 -- as above
            outcome.fail(target, error)
        else:
            outcome.readable.append(target)
    return outcome


def _one_by_one(project: Project, part: Part, rules: Sequence[type[Rule]]) -> Outcome:
    whole = Outcome()
    for target in part.targets:
        whole.add(analyze_part(project, Part((target,), tuple(project.importers_of([target]))), rules))
        if whole.ending is not None and whole.ending.is_of_the_run:
            break
    return whole
