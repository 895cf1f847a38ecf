"""What a run prints: findings and summary, changes, what is gone from a baseline, details."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.output import MACHINE_FORMATS
from gradlint.output.style import Style, shown_path
from gradlint.output.summary import counted, summary
from gradlint.output.summary import statistics as as_statistics
from gradlint.output.visible import visible, visible_lines

if TYPE_CHECKING:
    from gradlint.configuration import Configuration
    from gradlint.engine import Report
    from gradlint.fixing import Mended

_MOST_GONE = 10  #: findings that are named


def rendered(report: Report, output_format: str, style: Style, cwd: Path, *, statistics: bool, quiet: bool) -> str:
    """The findings of a run in the format asked for, with a summary in those that people read."""
    if statistics:
        shown = as_statistics(report.findings, output_format)
    elif output_format in MACHINE_FORMATS:
        from gradlint.output.reports import Material, for_machines

        material = Material(report.findings, cwd, report.targets, report.troubles, report.read)
        shown = for_machines(material, output_format)
    elif output_format == "concise":
        from gradlint.output.text import concise

        shown = "".join(f"{concise(finding, style, cwd)}\n" for finding in report.findings)
    else:
        from gradlint.output.text import full

        shown = "".join(f"{full(finding, style, cwd, report.line)}\n" for finding in report.findings)
    if quiet or output_format in MACHINE_FORMATS or (report.troubles and not report.files):
        return shown
    return f"{shown}{short(report)}\n"


def short(report: Report) -> str:
    """A run in one line."""
    return summary(report.findings, report.files, sum(report.left_out.values()), len(report.known))


def changed(mended: Mended, *, diff: bool) -> str:
    """What was fixed, in one line, or would be; empty where nothing was."""
    if not mended.after:
        return "Would fix nothing.\n" if diff else ""
    verb = "Would fix" if diff else "Fixed"
    return f"{verb} {counted(mended.applied.total(), 'finding')} in {counted(len(mended.after), 'file')}.\n"


def gone(report: Report, baseline: Path, cwd: Path, *, every: bool) -> str:
    """Which findings of a baseline are no more."""
    name = shown_path(str(baseline), cwd)
    shown = report.gone if every else report.gone[:_MOST_GONE]
    lines = [f"gone from {name}: {line}" for line in shown]
    if len(shown) < len(report.gone):
        lines.append(f"and {len(report.gone) - len(shown)} more: --verbose names them")
    is_gone = "is" if len(report.gone) == 1 else "are"
    lines.append(f"{counted(len(report.gone), 'finding')} of {name} {is_gone} gone: --write-baseline updates it")
    return "".join(f"gradlint: {visible(line)}\n" for line in lines)


def details(report: Report, configuration: Configuration, cwd: Path, trouble: str, *, recalled: bool) -> str:
    """What --verbose adds: configuration, files, notes."""
    origins = {configuration.of_folder(target.parent).origin for target in report.targets}
    lines = [f"configuration: {shown_path(str(origin), cwd)}" for origin in sorted(o for o in origins if o)]
    lines += [f"checked {shown_path(str(target), cwd)}" for target in report.targets]
    lines += report.notes
    lines += ["nothing has changed since an earlier run"] if recalled else []
    lines += [f"no cache: {trouble}"] if trouble else []
    return "".join(visible_lines(line, "gradlint: ") for line in lines)
