"""One run of the linter at a terminal: find the files, check them, tell the outcome."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradlint.configuration import Configuration
from gradlint.discovery import Discovery
from gradlint.engine import Earlier, Engine, Report, disk_reader
from gradlint.output.machine import as_json, github
from gradlint.output.progress import ProgressBar
from gradlint.output.style import Style, relative_name, shown_path, wants_colour
from gradlint.output.summary import statistics as as_statistics
from gradlint.output.summary import summary
from gradlint.output.text import concise, full
from gradlint.output.visible import visible, visible_lines
from gradlint.refusal import Refusal
from gradlint.results import Results
from gradlint.selection import Choice

if TYPE_CHECKING:
    from gradlint.fixing import Mended
    from gradlint.source import Source

STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class Fixing:
    """What is to be mended, and how."""

    fix: bool = False
    unsafe: bool = False  #: also where more might change than the mistake
    diff: bool = False  #: show the changes only

    @property
    def wanted(self) -> bool:
        """Whether anything is to be mended at all."""
        return self.fix or self.diff


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    report: Report
    out: str  #: on standard output
    err: str  #: on standard error
    settled: bool  #: the same command would print the same again, as long as nothing changes


def run(
    paths: Sequence[Path],
    configuration: Configuration,
    choice: Choice,
    results: Results,
    *,
    force_exclude: bool = False,
    stdin_filename: Path | None = None,
    fixing: Fixing = Fixing(),
    jobs: int | None = None,
    statistics: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> Outcome:
    """Check ``paths`` and print the outcome: findings on standard output, everything else on standard error.

    Raises:
        Refusal: a request that makes no sense, before anything is checked.
    """
    started = time.perf_counter()
    cwd = Path.cwd()
    settings = configuration.of_folder(cwd)
    progress = ProgressBar(sys.stderr)
    troubles: list[str] = []
    given: Given = {}
    roots = [] if STDIN in paths else [Path(os.path.abspath(path)) for path in paths]
    report = results.recall(disk_reader(configuration.disk))
    if report is not None and fixing.wanted and any(finding.fix for finding in report.findings):
        report = None  # a file that changes at this moment must not be given edits made for what it was
    recalled = report is not None
    if report is None:
        engine = Engine(configuration, choice, progress, jobs)
        engine.known = results.parts(engine)
        engine.selection(settings)  # a misspelled selector is told even where no file is found
        discovery = Discovery(configuration, troubles.append, force_exclude=force_exclude)
        if STDIN in paths:
            if fixing.fix and not fixing.diff:
                raise Refusal("gradlint: --fix cannot change standard input: --diff shows what it would change")
            targets, given = _stdin(paths, discovery, stdin_filename)
        else:
            targets = discovery.files(paths)
        report = engine.check(targets, roots, given)
        if not troubles:
            results.keep(report, engine)
    mended = None
    if fixing.wanted:
        from gradlint.fixing import mend

        targets = list(report.targets)

        def again(new: Given, earlier: Earlier) -> Report:
            return Engine(configuration, choice, progress, jobs).check(targets, roots, {**given, **new}, earlier)

        mended = mend(report, again, unsafe=fixing.unsafe)
        report = report if fixing.diff else mended.report
    progress.close()
    report.troubles[:0] = troubles
    if mended is not None and fixing.diff:
        report.differs = bool(mended.after)
    elif mended is not None:
        _write(mended, report)
    output_format = settings.output_format or "text"
    to_stderr = fixing.diff or output_format in ("json", "github")
    if mended is not None and fixing.diff:
        out = _diff(mended, cwd)
    else:
        out = _told(report, output_format, Style(wants_colour(sys.stdout)), cwd, statistics=statistics, quiet=quiet)
    changes = "" if mended is None or quiet else _changes(mended, fixing)
    out += "" if to_stderr else changes
    if fixing.diff and not sys.stdout.isatty() and hasattr(sys.stdout, "buffer"):  # it may be applied: byte for byte
        click.echo(out.encode("utf-8", "surrogateescape"), nl=False)
    else:
        click.echo(visible(out, keep="\n\t") if fixing.diff else out, nl=False, color=True)
    sys.stdout.flush()
    err = changes if to_stderr else ""
    if verbose:
        err += _details(report, configuration, cwd, results.trouble, recalled=recalled)
        err += f"gradlint: {report.files} files in {time.perf_counter() - started:.2f} s\n"
    if not report.files and not report.troubles and not quiet:
        err += "gradlint: no Python files or notebooks found\n"
    err += "".join(f"gradlint: {visible(trouble)}\n" for trouble in report.troubles)
    click.echo(err, nl=False, err=True)
    return Outcome(report, out, err, settled=not (verbose or report.troubles or (mended is not None and mended.after)))


Given = Mapping[Path, "Callable[[], Source]"]


def _stdin(paths: Sequence[Path], discovery: Discovery, name: Path | None) -> tuple[list[Path], Given]:
    from gradlint.source import source_from_bytes

    if len(paths) > 1:
        raise Refusal("gradlint: - (standard input) cannot be checked together with other paths")
    path = Path(os.path.abspath(name or STDIN))
    if discovery.force_exclude and discovery.excludes(path):
        return [], {}
    data = sys.stdin.buffer.read()
    return [path], {path: lambda: source_from_bytes(path, data)}


def _diff(mended: Mended, cwd: Path) -> str:
    """The changes of each file as a unified diff; of a notebook, those of its JSON.  Bytes are kept as surrogates."""
    from gradlint.fixing import difference

    return b"".join(
        difference(mended.before[path], mended.after[path], relative_name(str(path), cwd))
        for path in sorted(mended.after)
    ).decode("utf-8", "surrogateescape")


def _write(mended: Mended, report: Report) -> None:
    from gradlint.fixing import replace_file

    for path, data in sorted(mended.after.items()):
        try:
            replace_file(path, mended.before[path].data, data)
        except OSError as error:
            report.troubles.append(f"{path}: not fixed: {error.strerror or error}")


def _changes(mended: Mended, fixing: Fixing) -> str:
    if not mended.after:
        return ""
    verb = "Would fix" if fixing.diff else "Fixed"
    files = len(mended.after)
    told = f"{verb} {mended.applied} {'finding' if mended.applied == 1 else 'findings'}"
    return f"{told} in {files} {'file' if files == 1 else 'files'}.\n"


def _told(report: Report, output_format: str, style: Style, cwd: Path, *, statistics: bool, quiet: bool) -> str:
    """The findings in the format asked for."""
    if statistics:
        told = as_statistics(report.findings, output_format)
    elif output_format == "json":
        told = as_json(report.findings)
    elif output_format == "github":
        told = "".join(f"{github(finding, cwd)}\n" for finding in report.findings)
    elif output_format == "concise":
        told = "".join(f"{concise(finding, style, cwd)}\n" for finding in report.findings)
    else:
        told = "".join(f"{full(finding, style, cwd, report.line)}\n" for finding in report.findings)
    if quiet or output_format in ("json", "github"):
        return told
    return told + summary(report.findings, report.files, sum(report.left_out.values())) + "\n"


def _details(report: Report, configuration: Configuration, cwd: Path, trouble: str, *, recalled: bool) -> str:
    """What --verbose tells: configuration, files, notes."""
    origins = {configuration.of_folder(target.parent).origin for target in report.targets}
    lines = [f"configuration: {shown_path(str(origin), cwd)}" for origin in sorted(o for o in origins if o)]
    lines += [f"checked {shown_path(str(target), cwd)}" for target in report.targets]
    lines += report.notes
    lines += ["nothing has changed since an earlier run"] if recalled else []
    lines += [f"no cache: {trouble}"] if trouble else []
    return "".join(visible_lines(line, "gradlint: ") for line in lines)
