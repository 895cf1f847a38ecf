"""Checking a cell as it is about to run, after those that have run before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gradlint.configuration import Configuration
from gradlint.engine import Report
from gradlint.finding import Location
from gradlint.interactive.showing import Shown, under_names
from gradlint.notebook import notebook_of
from gradlint.selection import Choice
from gradlint.server.checking import Checker

_NAME = "session.ipynb"  #: under which the cells are checked, in the current folder


def check(cells: Mapping[int, str], choice: Choice, folder: Path) -> tuple[Shown, Report]:
    """What is found in the last of some cells, and all that was found.

    Args:
        cells: by the number under which each has run; the last is about to.
        choice: what is asked for about rules.
        folder: where imports are looked for, and configuration.

    Raises:
        Refusal: a configuration that cannot be read, or a rule that does not exist.
    """
    path, number = folder / _NAME, max(cells)
    checker = Checker(lambda disk: Configuration(disk=disk), choice)
    report = checker.check({path: notebook_of(cells)}, [folder])
    here = [finding for finding in report.findings if finding.location.filename == str(path)]
    lines = {cell_name(cell): text.splitlines() for cell, text in cells.items()}

    def named(place: Location) -> Location:
        if place.filename != str(path) or place.cell is None:
            return place
        return replace(place, filename=cell_name(place.cell), cell=None)

    def line_of(place: Location) -> str | None:
        rows = lines.get(place.filename)
        if rows is None:
            return report.line(place)
        return rows[place.row - 1] if place.row <= len(rows) else None

    findings = [under_names(finding, named) for finding in here if finding.location.cell == number]
    return Shown(findings, line_of, folder), report


def cell_name(number: int) -> str:
    """What a cell is called after it was run, as in tracebacks."""
    return f"In[{number}]"
