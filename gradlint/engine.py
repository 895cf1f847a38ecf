"""The engine: read, analyze, suppress, select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gradlint.configuration import Configuration
from gradlint.disk import Disk
from gradlint.finding import Finding, Location
from gradlint.interruption import Ending
from gradlint.policy import Policy
from gradlint.refusal import Refusal
from gradlint.selection import Choice
from gradlint.settings import Settings

if TYPE_CHECKING:
    from gradlint.parallel import Progress
    from gradlint.parts import Outcome, Part
    from gradlint.rule import Rule
    from gradlint.source import Source, SourceError
    from gradlint.static.text.project import Project

Reader = Callable[[Path], "Source"]


class Known(Protocol):
    """What is known of parts from earlier runs."""

    def recall(self, part: Part, rules: Sequence[type[Rule]], project: Project) -> Outcome | None:
        """What a part came to, if it would come to the same now."""

    def keep(self, part: Part, rules: Sequence[type[Rule]], outcome: Outcome) -> None:
        """Keep what a part came to, if that is settled."""


@dataclass(slots=True)
class Report:
    """The outcome of a run."""

    targets: Sequence[Path]
    read: Reader
    findings: list[Finding] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)  #: findings of rules that are off by default, by file
    files: int = 0
    troubles: list[str] = field(default_factory=list)  #: what could not be done, a line each
    notes: list[str] = field(default_factory=list)  #: shown under --verbose
    known: list[Finding] = field(default_factory=list)  #: findings of the baseline, which are not reported
    gone: list[str] = field(default_factory=list)  #: findings of the baseline that are no more, a line each
    differs: bool = False  #: fixes would change a file, and were asked to be shown only
    unfinished: dict[Path, Ending] = field(default_factory=dict)  #: targets of which not all is known, and why
    alone: bool = False  #: what imports the targets was not followed

    def take_over(self, earlier: Report, targets: Iterable[Path]) -> None:
        """Take what an earlier report says of some targets, and what it could not do."""
        names = {str(target) for target in targets}
        self.findings += [finding for finding in earlier.findings if finding.location.filename in names]
        self.left_out.update({name: count for name, count in earlier.left_out.items() if name in names})
        self.files = earlier.files
        self.troubles[:0] = [trouble for trouble in earlier.troubles if trouble not in self.troubles]
        self.notes[:0] = [note for note in earlier.notes if note not in self.notes]

    @property
    def is_whole(self) -> bool:
        """Whether every target was followed to the end."""
        return not self.unfinished

    @property
    def is_interrupted(self) -> bool:
        """Whether the user has ended the run."""
        return Ending.INTERRUPTED in self.unfinished.values()

    def tell_unfinished(self) -> None:
        """Put among the troubles what was not followed to the end."""
        for ending in dict.fromkeys(self.unfinished.values()):
            files = [path for path, other in self.unfinished.items() if other is ending]
            which = str(files[0]) if len(files) == 1 else f"{len(files)} of {len(self.targets)} files"
            self.troubles.append(f"incomplete: {ending.value}, {which} not checked to the end")

    def line(self, place: Location) -> str | None:
        """The source line where ``place`` begins; ``None`` when it cannot be had."""
        from gradlint.source import SourceError

        try:
            lines = self.read(Path(place.filename)).lines(place.cell)
        except SourceError:
            return None
        return lines[place.row - 1] if place.row <= len(lines) else None


@dataclass(frozen=True, slots=True)
class Earlier:
    """A report, and the files that have changed since."""

    report: Report
    changed: frozenset[Path]


class Engine:
    """Checks files.

    Args:
        configuration: the settings of each file's folder.
        choice: what the command line says about rules.
        progress: told which file is followed, in how many there is something left to follow, and which share is done.
        jobs: how many processes to use at most; None to decide by the number of files.
        known: what is known of parts from earlier runs.
    """

    def __init__(
        self,
        configuration: Configuration,
        choice: Choice | None = None,
        progress: Progress | None = None,
        jobs: int | None = None,
        known: Known | None = None,
    ) -> None:
        from gradlint.rule import all_rules

        self.configuration = configuration
        self.disk = configuration.disk
        self.choice = choice or Choice()
        self.progress = progress or (lambda _path, _files, _share: None)
        self.jobs = jobs
        self.known = known
        self.rules = all_rules()
        self._policies: dict[Path | None, Policy] = {}  # by the file that settings come from

    def policy(self, settings: Settings) -> Policy:
        """What happens to the findings of each rule where ``settings`` hold.

        Raises:
            Refusal: an unknown code, naming where it stands.
        """
        if settings.origin not in self._policies:
            self._policies[settings.origin] = Policy(settings, self.choice, self.rules)
        return self._policies[settings.origin]

    def check(
        self,
        targets: Sequence[Path],
        roots: Sequence[Path] = (),
        given: Mapping[Path, Callable[[], Source]] | None = None,
        earlier: Earlier | None = None,
        *,
        alone: bool = False,
    ) -> Report:
        """Check ``targets`` (absolute paths of files).

        Args:
            targets: the files whose findings are wanted; files they import are read where needed.
            roots: the folders that were named: imports are looked for below them.
            given: sources that are not to be read from the disk, such as standard input.
            earlier: what was found in the same targets before some of them changed; what that cannot have altered is
                taken from there.
            alone: nothing is followed of what imports the targets; what it would prove or disprove is not known.
        """
        from gradlint.rules.syntax_error import SyntaxError as SyntaxErrorRule

        reader = _MemoReader(given or {}, self.disk)
        report = Report(targets, reader, alone=alone)
        report.targets = targets = self._configured(targets, report)
        policies = {target: self.policy(self.configuration.of_folder(target.parent)) for target in targets}
        chosen = [policy.selection for policy in dict.fromkeys(policies.values())]
        taking_part = frozenset[str]().union(*(selection.shown | selection.counted for selection in chosen))
        rules = [rule for rule in self.rules if rule.code in taking_part and rule.listens()]
        project = self._project(roots, reader) if rules or earlier is not None else None
        due = targets if earlier is None or project is None else project.connected(earlier.changed, targets)
        readable: list[Path] = []
        found: list[Finding] = []
        for part, outcome in self._analyze(project, due, rules, alone) if project else self._read(due, reader):
            readable += outcome.readable
            found += [
                *outcome.findings,
                *(SyntaxErrorRule.at(error.location, error.reason) for error in outcome.errors),
            ]
            report.files += len({*outcome.readable, *(error.path for error in outcome.errors)})
            report.notes += outcome.notes
            report.troubles += outcome.troubles
            if outcome.ending is not None:
                report.unfinished.update(dict.fromkeys(part.targets, outcome.ending))
        if project is not None and project.importers_left_out:
            count = len(project.importers_left_out)
            report.notes.append(
                f"what imports the files that are checked is too much to be followed: files left out: {count}"
            )
        report.notes.sort()  # in an order that does not tell which part they come from
        for finding in self._unsuppressed(found, readable, reader, policies, report):
            self._file(finding, policies, report)
        report.troubles.sort()
        if earlier is not None:
            report.take_over(earlier.report, set(targets).difference(due))
        report.findings.sort(key=lambda finding: finding.sort_key)
        report.tell_unfinished()
        return report

    def are_imported(
        self, targets: Sequence[Path], roots: Sequence[Path], given: Mapping[Path, Callable[[], Source]]
    ) -> bool:
        """Whether other files import some targets, so that a check of these alone is not all there is to know."""
        return bool(self._project(roots, _MemoReader(given, self.disk)).importers_of(targets))

    def _configured(self, targets: Sequence[Path], report: Report) -> list[Path]:
        """The targets for which there are settings; a wrong configuration file costs those of its own folder.

        Raises:
            Refusal: the settings of all targets are wrong.
        """
        refusals: dict[Path, Refusal] = {}
        for target in targets:
            try:
                self.policy(self.configuration.of_folder(target.parent))
            except Refusal as refusal:
                refusals[target] = refusal
        if refusals and len(refusals) == len(targets):
            raise refusals[targets[0]]
        report.troubles += dict.fromkeys(map(str, refusals.values()))
        return [target for target in targets if target not in refusals]

    def _project(self, roots: Sequence[Path], reader: Reader) -> Project:
        from gradlint.static.text.project import Project

        sources = self.configuration.of_folder(Path.cwd()).src
        return Project(roots, read=reader, disk=self.disk, **({"sources": sources} if sources else {}))

    def _analyze(
        self, project: Project, targets: Sequence[Path], rules: Sequence[type[Rule]], alone: bool
    ) -> Iterator[tuple[Part, Outcome]]:
        """The parts that the targets fall into, and what each came to, now or in an earlier run."""
        from gradlint.parts import split

        parts = split(project, targets, alone=alone)
        known = {part: self.known.recall(part, rules, project) for part in parts} if self.known else {}
        due = [part for part in parts if known.get(part) is None]
        fresh: dict[Part, Outcome] = {}
        if due:
            from gradlint.parallel import analyze_by, jobs_for

            jobs = self.jobs or jobs_for(sum(len(part.targets) for part in due))
            fresh = dict(zip(due, analyze_by(jobs, project, due, rules, self.progress), strict=True))
        for part in parts:
            outcome = known.get(part) or fresh[part]
            if self.known and part in fresh:
                self.known.keep(part, rules, outcome)
            yield part, outcome

    def _read(self, targets: Sequence[Path], reader: Reader) -> Iterator[tuple[Part, Outcome]]:
        """What is not Python, where there is nothing else to look for."""
        from gradlint.parts import Part, read_part

        def read(path: Path) -> Source:
            source = reader(path)
            errors = [] if source.is_notebook else syntax_errors(source)
            if errors:
                raise errors[0]
            return source

        for target in targets:
            part = Part((target,))
            yield part, read_part(part, read)

    def _unsuppressed(
        self,
        findings: Iterable[Finding],
        targets: Iterable[Path],
        reader: Reader,
        policies: Mapping[Path, Policy],
        report: Report,
    ) -> Iterator[Finding]:
        from gradlint.suppression import read_suppressions, unknown_codes, unused

        by_file: dict[str, list[Finding]] = {}
        for finding in findings:
            by_file.setdefault(finding.location.filename, []).append(finding)
        for target in targets:
            told = by_file.pop(str(target), [])
            try:
                source = reader(target)
                suppressions = read_suppressions(source.text, source.location)
                here = [*told, *unknown_codes(suppressions, self.rules)]
                kept = [finding for finding in here if not suppressions.suppress(finding)]
                if target not in report.unfinished and not report.alone:  # else nobody knows what a comment is good for
                    kept += unused(
                        suppressions, [rule for rule in self.rules if rule.code in policies[target].selection.shown]
                    )
            except Exception as error:  # noqa: BLE001 -- comments that cannot be read cost no finding
                report.troubles.append(f"{target}: internal error: {type(error).__name__}: {error}")
                kept = told
            yield from kept
        for elsewhere in by_file.values():
            yield from elsewhere

    def _file(self, finding: Finding, policies: Mapping[Path, Policy], report: Report) -> None:
        """Put a finding where it belongs: shown, counted or dropped."""
        path = Path(finding.location.filename)
        policy = policies.get(path) or self.policy(self.configuration.of_folder(path.parent))
        if policy.ignores(finding.code, path):
            return
        if finding.code in policy.selection.shown:
            report.findings.append(policy.applied(finding))
        elif finding.code in policy.selection.counted:
            report.left_out[str(path)] = report.left_out.get(str(path), 0) + 1


def disk_reader(disk: Disk) -> Reader:
    """Reads each file once, from the disk."""
    return _MemoReader({}, disk)


class _MemoReader:
    """Reads each file once."""

    def __init__(self, given: Mapping[Path, Callable[[], Source]], disk: Disk) -> None:
        self._given = given
        self._disk = disk
        self._known: dict[Path, Source | SourceError] = {}

    def __call__(self, path: Path) -> Source:
        from gradlint.source import SourceError, read_source

        outcome = self._known.get(path)
        if outcome is None:
            try:
                outcome = self._given[path]() if path in self._given else read_source(path, self._disk.read)
            except SourceError as error:
                outcome = error
            self._known[path] = outcome
        if isinstance(outcome, SourceError):
            raise outcome
        return outcome


def syntax_errors(source: Source) -> list[SourceError]:
    """What in a source is not Python: anywhere in a file, or in cells of a notebook, whose other cells stand."""
    from gradlint.source import SourceError
    from gradlint.syntax import error_in

    if source.is_notebook:
        return list(source.problems)
    error = error_in(source.text)
    return [SourceError(source.path, error.row, error.column, error.reason)] if error else []
