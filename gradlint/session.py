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
from gradlint.engine import Engine, Report
from gradlint.output.machine import as_json, github
from gradlint.output.progress import ProgressBar
from gradlint.output.style import Style, shown_path, wants_colour
from gradlint.output.summary import statistics as as_statistics
from gradlint.output.summary import summary
from gradlint.output.text import concise, full
from gradlint.refusal import Refusal
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


def run(
    paths: Sequence[Path],
    configuration: Configuration,
    choice: Choice,
    *,
    force_exclude: bool = False,
    stdin_filename: Path | None = None,
    fixing: Fixing = Fixing(),
    statistics: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> Report:
    """Check ``paths`` and print the outcome: findings on standard output, everything else on standard error.

    Raises:
        Refusal: a request that makes no sense, before anything is checked.
    """
    started = time.perf_counter()
    cwd = Path.cwd()
    settings = configuration.of_folder(cwd)
    progress = ProgressBar(sys.stderr)
    engine = Engine(configuration, choice, progress)
    engine.selection(settings)  # a misspelled selector is told even where no file is found
    troubles: list[str] = []
    discovery = Discovery(configuration, troubles.append, force_exclude=force_exclude)
    if STDIN in paths:
        if fixing.fix and not fixing.diff:
            raise Refusal("gradlint: --fix cannot change standard input: --diff shows what it would change")
        targets, given = _stdin(paths, discovery, stdin_filename)
        roots: list[Path] = []
    else:
        targets, given = discovery.files(paths), {}
        roots = [Path(os.path.abspath(path)) for path in paths]
    report = engine.check(targets, roots, given)
    mended = None
    if fixing.wanted:
        from gradlint.fixing import mend

        mended = mend(report, lambda new: engine.check(targets, roots, {**given, **new}), unsafe=fixing.unsafe)
        report = report if fixing.diff else mended.report
    progress.close()
    report.troubles[:0] = troubles
    if mended is not None and fixing.diff:
        _print_diff(mended, cwd)
        report.differs = bool(mended.after)
    elif mended is not None:
        _write(mended, report)
    output_format = settings.output_format or "text"
    if not fixing.diff:
        _print_findings(report, output_format, cwd, statistics=statistics, quiet=quiet)
    if mended is not None and not quiet:
        _print_mended(mended, fixing, to_stderr=fixing.diff or output_format in ("json", "github"))
    sys.stdout.flush()
    if verbose:
        _print_verbose(report, configuration, cwd, time.perf_counter() - started)
    if not report.files and not report.troubles and not quiet:
        click.echo("gradlint: no Python files or notebooks found", err=True)
    for trouble in report.troubles:
        click.echo(f"gradlint: {trouble}", err=True)
    return report


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


def _print_diff(mended: Mended, cwd: Path) -> None:
    """The changes of each file as a unified diff; of a notebook, those of its JSON."""
    from gradlint.fixing import difference

    for path in sorted(mended.after):
        click.echo(difference(mended.before[path], mended.after[path], shown_path(str(path), cwd)), nl=False)


def _write(mended: Mended, report: Report) -> None:
    from gradlint.fixing import replace_file

    for path, data in sorted(mended.after.items()):
        try:
            replace_file(path, mended.before[path].data, data)
        except OSError as error:
            report.troubles.append(f"{path}: not fixed: {error.strerror or error}")


def _print_mended(mended: Mended, fixing: Fixing, *, to_stderr: bool) -> None:
    if not mended.after:
        return
    verb = "Would fix" if fixing.diff else "Fixed"
    files = len(mended.after)
    told = f"{verb} {mended.applied} {'finding' if mended.applied == 1 else 'findings'}"
    click.echo(f"{told} in {files} {'file' if files == 1 else 'files'}.", err=to_stderr)


def _print_findings(report: Report, output_format: str, cwd: Path, *, statistics: bool, quiet: bool) -> None:
    if statistics:
        click.echo(as_statistics(report.findings, output_format), nl=False)
    elif output_format == "json":
        click.echo(as_json(report.findings), nl=False)
    elif output_format == "github":
        for finding in report.findings:
            click.echo(github(finding, cwd))
    if output_format in ("json", "github"):
        return
    style = Style(wants_colour(sys.stdout))
    if not statistics:
        for finding in report.findings:
            told = (
                concise(finding, style, cwd) if output_format == "concise" else full(finding, style, cwd, report.line)
            )
            click.echo(told, color=style.colour)
    if not quiet:
        click.echo(summary(report.findings, report.files, report.left_out))


def _print_verbose(report: Report, configuration: Configuration, cwd: Path, seconds: float) -> None:
    origins = {configuration.of_folder(target.parent).origin for target in report.targets}
    for origin in sorted(origin for origin in origins if origin):
        click.echo(f"gradlint: configuration: {shown_path(str(origin), cwd)}", err=True)
    for target in report.targets:
        click.echo(f"gradlint: checked {shown_path(str(target), cwd)}", err=True)
    for note in report.notes:
        click.echo(f"gradlint: {note}", err=True)
    click.echo(f"gradlint: {report.files} files in {seconds:.2f} s", err=True)
