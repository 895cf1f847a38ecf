"""The guard in an interactive session: from one cell on, until it is told to stop."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import gradlint
from gradlint.configuration import Configuration
from gradlint.finding import Finding, Location
from gradlint.interactive.showing import Shown, under_names
from gradlint.output.style import shown_path
from gradlint.selection import Choice
from gradlint.suppression import read_suppressions

if TYPE_CHECKING:
    from gradlint.runtime.session import Guard

NameOf = Callable[[str], "str | None"]  #: what a cell is called, from the file name of its code; None for real files


class Watch:
    """A guard that watches cells, and what it has found that was not shown yet.

    Args:
        choice: what is asked for about rules.
        exact: as for :func:`gradlint.guard`.
        folder: whose configuration holds.
        name_of: what cells are called.

    Raises:
        Refusal: a configuration that cannot be read, or a rule that does not exist.
        ModuleNotFoundError: torch is not installed.
    """

    def __init__(self, choice: Choice, exact: float, folder: Path, name_of: NameOf) -> None:
        from gradlint.runtime.filtering import Filter

        self._filter = Filter(Configuration(), choice)
        self._name_of = name_of
        self._folder = folder
        self._shown = 0
        codes = self._filter.codes(folder)
        self._guard: Guard = gradlint.guard(on_finding="collect", select=codes, exact=exact)
        self._guard.__enter__()

    @property
    def findings(self) -> list[Finding]:
        """What was found and is wanted, under the names of cells."""
        return [under_names(finding, self._named) for finding in self._guard.findings if self._wants(finding)]

    def fresh(self) -> Shown | None:
        """What was found since this was last asked; None if nothing was."""
        findings = self.findings
        new, self._shown = findings[self._shown :], len(findings)
        return self._as_shown(new) if new else None

    def stop(self) -> None:
        """Watch no longer."""
        if self._guard.active:
            self._guard.__exit__(None, None, None)

    def report(self) -> Report:
        """All that was found, with what happened."""
        return Report(self._guard, self._as_shown(self.findings), self._cells(), self._folder)

    def _as_shown(self, findings: list[Finding]) -> Shown:
        files = {name: filename for filename, name in self._cells().items()}

        def line_of(place: Location) -> str | None:
            return linecache.getline(files.get(place.filename, place.filename), place.row) or None

        return Shown(findings, line_of, self._folder, "the guard has found nothing")

    def _cells(self) -> dict[str, str]:
        """The names of cells, by the file names of their code; of one that has run twice, the later."""
        return {filename: name for filename in list(linecache.cache) if (name := self._name_of(filename)) is not None}

    def _named(self, place: Location) -> Location:
        name = self._name_of(place.filename)
        return place if name is None else replace(place, filename=name)

    def _wants(self, finding: Finding) -> bool:
        """Whether neither the settings nor a comment is against it; comments of cells are in no file."""
        if self._name_of(finding.location.filename) is None:
            wanted: bool = self._filter.wants(finding)
            return wanted
        filename = finding.location.filename
        text = "".join(linecache.getlines(filename))

        def located(row: int, column: int, end_row: int, end_column: int) -> Location:
            return Location(filename, row, column, end_row, end_column)

        return not read_suppressions(text, located).suppress(finding)


class Report:
    """The report of a guard: a page within the notebook, and text elsewhere."""

    def __init__(self, guard: Guard, shown: Shown, names: dict[str, str], folder: Path) -> None:
        self._guard = guard
        self._shown = shown
        self._names = names
        self._folder = folder

    def __repr__(self) -> str:
        return repr(self._shown)

    def _repr_html_(self) -> str:
        page = self._guard.report("html")
        for filename, name in self._names.items():
            whole, inside = shown_path(filename, self._folder), Path(filename)
            for written in (filename, whole, inside.name):  # as the page may say
                page = page.replace(escape(written), escape(name))
            for folder in (f"{inside.parent}/", whole.removesuffix(inside.name)):
                page = page.replace(escape(folder), "") if folder else page
        style = "width:100%;height:36em;box-sizing:border-box;border:1px solid rgba(128,128,128,.4)"
        return f'<iframe title="gradlint" sandbox="" style="{style}" srcdoc="{escape(page)}"></iframe>'
