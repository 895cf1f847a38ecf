"""Results of earlier runs: reports as they go into the cache, and come out of it."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradlint.cache import Cache
from gradlint.disk import Disk
from gradlint.engine import Engine, Reader, Report
from gradlint.finding import Applicability, Edit, Finding, Fix, Location, Related, Severity
from gradlint.rule import Rule


class Results:
    """What is known of one request.

    Args:
        folder: the folder of the cache; None to do without.
        request: all that decides about the report and is not read from the disk, of types that ``marshal`` knows.
    """

    def __init__(self, folder: str | None, request: tuple[Any, ...]) -> None:
        self._cache = None if folder is None else Cache(folder)
        self._request = request
        self._mark: bytes | None = None

    @property
    def trouble(self) -> str:
        """Why nothing could be kept; empty if nothing stood in the way."""
        return self._cache.trouble if self._cache else ""

    def recall(self, read: Reader) -> Report | None:
        """The report of an earlier run, if it would be the same now.

        Args:
            read: how its files are read.
        """
        found = self._cache.recall(self._request) if self._cache else None
        if found is None:
            return None
        self._mark = found[1]
        return unpacked(marshal.loads(found[0]), read)  # noqa: S302 -- the cache has found it whole

    def keep(self, report: Report, engine: Engine) -> None:
        """Keep a report that the engine made, unless something could not be done or could not be told again."""
        if self._cache is not None and not report.troubles:
            _consult_program(engine.disk, engine.rules)
            if engine.disk.consulted.complete:
                self._mark = self._cache.remember(self._request, packed(report), engine.disk.consulted)

    def tell(self, arguments: Sequence[str], out: str, err: str, code: int) -> None:
        """Keep what a command line printed of the report, and its exit code."""
        if self._cache is not None and self._mark is not None:
            self._cache.tell(arguments, self._request, self._mark, (out, err, code))


def _consult_program(disk: Disk, rules: Sequence[type[Rule]]) -> None:
    """Consult what the report owes to gradlint itself, to rules of others, and to what is installed beside it."""
    packages = [name for name in list(sys.modules) if name.split(".")[0] == "gradlint"]
    folders = {Path(path) for name in packages for path in getattr(sys.modules[name], "__path__", ())}
    files = {folder / name for folder in folders for name in _listed(disk, folder) if name.endswith(".py")}
    files |= {Path(sys.modules[rule.__module__].__file__ or "") for rule in rules if rule.__module__ in sys.modules}
    for file in sorted(files):
        try:
            disk.read(file)
        except OSError:
            continue
    for path in dict.fromkeys(map(os.path.abspath, sys.path)):
        disk.consulted.installed[path] = disk.consulted.packages(path)


def _listed(disk: Disk, folder: Path) -> list[str]:
    try:
        return list(disk.entries(folder))
    except OSError:
        return []


def packed(report: Report) -> tuple[Any, ...]:
    """A report of types that ``marshal`` knows; without its troubles, because what has any is not kept."""
    findings = [_finding(finding) for finding in report.findings]
    return [str(target) for target in report.targets], findings, report.left_out, report.files, report.notes


def unpacked(stored: tuple[Any, ...], read: Reader) -> Report:
    """The report that was packed."""
    targets, findings, left_out, files, notes = stored
    found = [_unpacked_finding(finding) for finding in findings]
    return Report([Path(target) for target in targets], read, found, left_out, files, [], notes)


def _finding(finding: Finding) -> tuple[Any, ...]:
    return (
        finding.code,
        finding.name,
        finding.message,
        finding.severity.value,
        _place(finding.location),
        [(other.message, _place(other.location)) for other in finding.related],
        finding.remedy,
        _place(finding.cause),
        _fix(finding.fix) if finding.fix else None,
        finding.count,
    )


def _unpacked_finding(stored: tuple[Any, ...]) -> Finding:
    code, name, message, severity, location, related, remedy, cause, fix, count = stored
    return Finding(
        code,
        name,
        message,
        Severity(severity),
        Location(*location),
        tuple(Related(message, Location(*place)) for message, place in related),
        remedy,
        Location(*cause) if cause else None,
        _unpacked_fix(fix) if fix else None,
        count,
    )


def _fix(fix: Fix) -> tuple[Any, ...]:
    return fix.message, fix.applicability.value, [(_place(edit.location), edit.content) for edit in fix.edits]


def _unpacked_fix(stored: tuple[Any, ...]) -> Fix:
    message, applicability, edits = stored
    return Fix(message, Applicability(applicability), tuple(Edit(Location(*place), text) for place, text in edits))


def _place(location: Location | None) -> tuple[Any, ...] | None:
    if location is None:
        return None
    return location.filename, location.row, location.column, location.end_row, location.end_column, location.cell
