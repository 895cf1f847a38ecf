"""One run of the linter at a terminal: find the files, check them, tell the outcome."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

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

STDIN = Path("-")


def run(
    paths: Sequence[Path],
    configuration: Configuration,
    choice: Choice,
    *,
    force_exclude: bool = False,
    stdin_filename: Path | None = None,
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
        report = _check_stdin(paths, engine, discovery, stdin_filename)
    else:
        report = engine.check(discovery.files(paths), [Path(os.path.abspath(path)) for path in paths])
    progress.close()
    report.troubles[:0] = troubles
    _print_findings(report, settings.output_format or "text", cwd, statistics=statistics, quiet=quiet)
    sys.stdout.flush()
    if verbose:
        _print_verbose(report, configuration, cwd, time.perf_counter() - started)
    if not report.files and not report.troubles and not quiet:
        click.echo("gradlint: no Python files or notebooks found", err=True)
    for trouble in report.troubles:
        click.echo(f"gradlint: {trouble}", err=True)
    return report


def _check_stdin(paths: Sequence[Path], engine: Engine, discovery: Discovery, name: Path | None) -> Report:
    from gradlint.source import source_from_bytes

    if len(paths) > 1:
        raise Refusal("gradlint: - (standard input) cannot be checked together with other paths")
    path = Path(os.path.abspath(name or STDIN))
    if discovery.force_exclude and discovery.excludes(path):
        return engine.check([])
    return engine.check([path], given={path: lambda: source_from_bytes(path, sys.stdin.buffer.read())})


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
