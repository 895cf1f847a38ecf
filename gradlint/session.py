"""One run of the linter at a terminal: find the files, check them, report the outcome."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradlint.configuration import Configuration
from gradlint.discovery import Discovery
from gradlint.engine import Earlier, Engine, Report, disk_reader
from gradlint.interruption import TimeIsUpError, call_off, time_limit
from gradlint.output import MACHINE_FORMATS
from gradlint.output.progress import ProgressBar
from gradlint.output.rendering import changed, details, gone, rendered
from gradlint.output.style import Style, wants_colour
from gradlint.output.summary import counted
from gradlint.output.visible import visible
from gradlint.reading import most_bytes, too_large
from gradlint.refusal import Refusal
from gradlint.results import Results
from gradlint.selection import Choice

if TYPE_CHECKING:
    from gradlint.baseline import Baseline
    from gradlint.fixing import Mended
    from gradlint.source import Source

STDIN = Path("-")

Given = Mapping[Path, "Callable[[], Source]"]


@dataclass(frozen=True, slots=True)
class Fixing:
    """What is to be fixed, and how."""

    fix: bool = False
    diff: bool = False  #: show the changes only

    @property
    def wanted(self) -> bool:
        """Whether anything is to be fixed at all."""
        return self.fix or self.diff


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a run."""

    paths: Sequence[Path]
    configuration: Configuration
    choice: Choice
    force_exclude: bool = False
    stdin_filename: Path | None = None
    fixing: Fixing = Fixing()
    no_baseline: bool = False  #: report what the configuration's baseline knows, too
    write_baseline: bool = False  #: make what is found the known findings
    add_noqa: bool = False  #: suppress what is found by comments
    statistics: bool = False
    output_file: Path | None = None  #: instead of standard output
    quiet: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class _Piped:
    """What came on standard input."""

    path: Path  #: what it is called
    data: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    report: Report
    out: str = ""  #: on standard output
    err: str = ""  #: on standard error
    settled: bool = False  #: the same command would print the same again, as long as nothing changes


def run(request: Request, results: Results) -> Outcome:
    """Check files and print the outcome: findings on standard output, everything else on standard error.

    Raises:
        Refusal: a request that makes no sense, before anything is checked, or a file that cannot be written after it.
    """
    return Session(request, results).run()


class Session:
    """A request, and what is needed to answer it.

    Args:
        request: what is asked.
        results: what is known of it from earlier runs.
    """

    def __init__(self, request: Request, results: Results) -> None:
        self._request = request
        self._results = results
        self._configuration = request.configuration
        self._cwd = Path.cwd()
        self._settings = request.configuration.of_folder(self._cwd)
        self._progress = ProgressBar(sys.stderr)
        self._troubles: list[str] = []
        self._given: Given = {}
        self._piped: _Piped | None = None
        self._roots = [] if STDIN in request.paths else [Path(os.path.abspath(path)) for path in request.paths]
        self._baseline = self._read_baseline()
        self._recalled = False

    def run(self) -> Outcome:
        """Check, do what is to be done about the findings, and print."""
        started = time.perf_counter()
        with time_limit(self._settings.timeout):
            report, mended = self._checked_and_mended()
        if self._request.write_baseline or self._request.add_noqa:
            self._progress.close()
            report.troubles[:0] = self._troubles
            return self._accept(report)
        if mended is not None and not self._request.fixing.diff:
            report = mended.report
        self._progress.close()
        if mended is not None and self._request.fixing.diff:
            report.differs = bool(mended.after)
        elif mended is not None and self._piped is None:
            report = self._written(mended)
        report.troubles[:0] = self._troubles
        return self._printed(report, mended, started)

    def _checked_and_mended(self) -> tuple[Report, Mended | None]:
        report = self._checked()
        if self._request.write_baseline or self._request.add_noqa:
            return report, None
        if self._baseline is not None:
            self._baseline.apply(report, self._looked_for)
        return report, self._mended(report) if self._request.fixing.wanted else None

    def _checked(self) -> Report:
        """The report of an earlier run, if nothing has changed since, or a new one."""
        report = self._results.recall(disk_reader(self._configuration.disk))
        if report is not None and self._request.fixing.wanted and any(finding.fix for finding in report.findings):
            report = None  # a file that changes at this moment must not be given edits made for what it was
        self._recalled = report is not None
        if report is not None:
            return report
        engine = self._engine()
        engine.known = self._results.parts(engine)
        engine.policy(self._settings)  # a misspelled selector is named even where no file is found
        targets = self._targets()
        report = engine.check(targets, self._roots, self._given)
        if not self._troubles:
            self._results.keep(report, engine)
        return report

    def _engine(self) -> Engine:
        return Engine(self._configuration, self._request.choice, self._progress, self._settings.jobs)

    def _targets(self) -> list[Path]:
        request = self._request
        discovery = Discovery(self._configuration, self._troubles.append, force_exclude=request.force_exclude)
        if STDIN not in request.paths:
            return discovery.files(request.paths)
        if request.add_noqa:
            raise Refusal("gradlint: --add-noqa cannot change standard input")
        self._piped = _read_stdin(request.paths, request.stdin_filename)
        targets, self._given = _stdin(self._piped, discovery)
        return targets

    # --- known findings --------------------------------------------------------------------------------------------

    def _read_baseline(self) -> Baseline | None:
        path = None if self._request.no_baseline else self._settings.baseline
        if path is None:
            if self._request.write_baseline:
                raise Refusal("gradlint: --write-baseline needs the name of a file: --baseline FILE")
            return None
        from gradlint.baseline import Baseline

        if self._request.write_baseline and not self._configuration.disk.is_file(path):
            return Baseline(path)
        return Baseline.read(path, self._configuration.disk)

    def _looked_for(self, filename: str) -> Collection[str]:
        """The codes of the rules that take part in a file."""
        path = Path(filename)
        policy = self._engine().policy(self._configuration.of_folder(path.parent))
        return [code for code in policy.selection.shown if not policy.ignores(code, path)]

    def _accept(self, report: Report) -> Outcome:
        """Make the findings known ones, or suppress them by comments."""
        if self._request.add_noqa:
            from gradlint.noqa import add_noqa

            if self._baseline is not None:
                self._baseline.apply(report, self._looked_for)
            out = add_noqa(report)
        else:
            assert self._baseline is not None
            out = self._baseline.write(report, self._looked_for).told(self._baseline.path, self._cwd)
        err = "".join(f"gradlint: {visible(trouble)}\n" for trouble in report.troubles)
        click.echo("" if self._request.quiet else out, nl=False)
        click.echo(err, nl=False, err=True)
        report.findings = []  # none of them is left to be looked at
        return Outcome(report, out, err)

    # --- fixes -----------------------------------------------------------------------------------------------------

    def _mended(self, report: Report) -> Mended:
        from gradlint.fixing import Mended, mend

        if report.is_whole:
            try:
                mended = mend(report, self._again, unsafe=self._settings.unsafe_fixes)
            except TimeIsUpError:
                call_off()
            else:
                self._troubles += mended.troubles.values()
                return mended
        self._troubles.append("nothing is fixed: not all is known")
        return Mended(report)

    def _again(self, new: Given, earlier: Earlier) -> Report:
        """Check once more, after some sources have changed."""
        before = earlier.report
        whole = replace(before, findings=[*before.findings, *before.known], known=[], gone=[])
        given = {**self._given, **new}
        after = self._engine().check(list(before.targets), self._roots, given, Earlier(whole, earlier.changed))
        if after.is_interrupted:
            raise KeyboardInterrupt
        if not after.is_whole:
            raise TimeIsUpError
        if self._baseline is not None:
            self._baseline.apply(after, self._looked_for)
        return after

    def _written(self, mended: Mended) -> Report:
        """Write the files that change; the report of the files as they then are."""
        from gradlint.source import source_from_bytes

        failed = _write(mended, self._troubles)
        if not failed:
            return mended.report
        now = {path: partial(source_from_bytes, path, data) for path, data in mended.after.items()}
        return self._again(now, Earlier(mended.report, failed))

    # --- output ----------------------------------------------------------------------------------------------------

    def _printed(self, report: Report, mended: Mended | None, started: float) -> Outcome:
        request = self._request
        out, err = self._output(report, mended)
        if request.verbose:
            err += details(report, self._configuration, self._cwd, self._results.trouble, recalled=self._recalled)
            err += f"gradlint: {counted(report.files, 'file')} in {time.perf_counter() - started:.2f} s\n"
        if not report.files and not report.troubles and not request.quiet:
            err += "gradlint: no Python files or notebooks found\n"
        if report.gone and self._baseline is not None and not request.quiet:
            err += gone(report, self._baseline.path, self._cwd, every=request.verbose)
        err += "".join(f"gradlint: {visible(trouble)}\n" for trouble in report.troubles)
        click.echo(err, nl=False, err=True)
        lasting = request.verbose or request.output_file or report.troubles or (mended is not None and mended.after)
        return Outcome(report, out, err, settled=not lasting)

    def _output(self, report: Report, mended: Mended | None) -> tuple[str, str]:
        """Print what goes to standard output, or to a file; return it with what goes to standard error."""
        request = self._request
        output_format = self._settings.output_format or "text"
        to_stderr = request.fixing.diff or output_format in MACHINE_FORMATS
        if mended is not None and request.fixing.diff:
            out = _diff(mended, self._cwd)
        else:
            dressed = wants_colour(sys.stdout) and request.output_file is None
            out = rendered(
                report, output_format, Style(dressed), self._cwd, statistics=request.statistics, quiet=request.quiet
            )
        changes = "" if mended is None or request.quiet else changed(mended, diff=request.fixing.diff)
        out += "" if to_stderr else changes
        err = changes if to_stderr else ""
        if mended is not None and self._piped is not None and not request.fixing.diff:  # as formatters do
            out, err = "", out + err
            _pass_on(mended.after.get(self._piped.path, self._piped.data))
        elif request.output_file is not None:
            _write_report(request.output_file, out, "surrogateescape" if request.fixing.diff else "backslashreplace")
        else:
            if (
                request.fixing.diff and not sys.stdout.isatty() and hasattr(sys.stdout, "buffer")
            ):  # byte for byte, to apply
                click.echo(out.encode("utf-8", "surrogateescape"), nl=False)
            else:
                click.echo(visible(out, keep="\n\t") if request.fixing.diff else out, nl=False, color=True)
            sys.stdout.flush()
        return out, err


def _stdin(piped: _Piped, discovery: Discovery) -> tuple[list[Path], Given]:
    from gradlint.source import source_from_bytes

    if discovery.force_exclude and discovery.excludes(piped.path):
        return [], {}
    return [piped.path], {piped.path: partial(source_from_bytes, piped.path, piped.data)}


def _read_stdin(paths: Sequence[Path], name: Path | None) -> _Piped:
    if len(paths) > 1:
        raise Refusal("gradlint: - (standard input) cannot be checked together with other paths")
    path = Path(os.path.abspath(name or STDIN))
    if sys.stdin is None:
        raise Refusal("gradlint: -: standard input is closed")
    most = most_bytes(str(path))
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise Refusal(f"gradlint: -: {too_large(str(path), most).strerror}")
    return _Piped(path, data)


def _pass_on(data: bytes) -> None:
    """Write a source to standard output as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _diff(mended: Mended, cwd: Path) -> str:
    """The changes of each file as a unified diff; of a notebook, those of its JSON.  Bytes are kept as surrogates."""
    from gradlint.fixing import difference
    from gradlint.output.style import relative_name

    return b"".join(
        difference(mended.before[path], mended.after[path], relative_name(str(path), cwd))
        for path in sorted(mended.after)
    ).decode("utf-8", "surrogateescape")


def _write(mended: Mended, troubles: list[str]) -> frozenset[Path]:
    """Write the files that change, and return those that could not be written."""
    from gradlint.fixing import replace_file

    failed = set()
    for path, data in sorted(mended.after.items()):
        try:
            replace_file(path, mended.before[path].data, data)
        except OSError as error:
            troubles.append(f"{path}: not fixed: {error.strerror or error}")
            mended.leave(path)
            failed.add(path)
    return frozenset(failed)


def _write_report(path: Path, text: str, errors: str) -> None:
    from gradlint.writing import write_file

    try:
        write_file(path, text.encode("utf-8", errors))
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from error
