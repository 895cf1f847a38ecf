"""Results of earlier runs: reports as they go into the cache, and come out of it."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlint.cache import Cache
from gradlint.consulted import digest_of
from gradlint.disk import Disk
from gradlint.engine import Engine, Reader, Report
from gradlint.finding import Applicability, Edit, Effect, Finding, Fix, Location, Related, Severity
from gradlint.rule import Rule

if TYPE_CHECKING:
    from gradlint.parts import Outcome, Part
    from gradlint.static.text.project import Project


class Results:
    """What is known of one request.

    Args:
        place: the folder of the cache, and the one below which no link is followed; None to do without.
        request: all that decides about the report and is not read from the disk, of types that ``marshal`` knows.
    """

    def __init__(self, place: tuple[str, str] | None, request: tuple[Any, ...]) -> None:
        self._cache = None if place is None else Cache(*place)
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

    def parts(self, engine: Engine) -> Parts | None:
        """What is known of the parts of what the engine checks; None without a cache."""
        return None if self._cache is None else Parts(self._cache, engine)

    def keep(self, report: Report, engine: Engine) -> None:
        """Keep a report that the engine made, unless something could not be done or could not be told again."""
        if self._cache is not None and not report.troubles:
            consult_program(engine.disk, engine.rules)
            if engine.disk.consulted.complete:
                self._mark = self._cache.remember(self._request, packed(report), engine.disk.consulted)

    def tell(self, arguments: Sequence[str], out: str, err: str, code: int) -> None:
        """Keep what a command line printed of the report, and its exit code."""
        if self._cache is not None and self._mark is not None:
            self._cache.tell(arguments, self._request, self._mark, (out, err, code))


class Parts:
    """What is known of parts that were analysed in earlier runs, of whatever was checked then.

    Args:
        cache: where it is kept.
        engine: what analyses.
    """

    def __init__(self, cache: Cache, engine: Engine) -> None:
        self._cache = cache
        self._engine = engine

    @cached_property
    def _program(self) -> bytes:
        """Stands for what gradlint itself is made of, and the rules of others."""
        files = consult_program(self._engine.disk, self._engine.rules)
        return digest_of(b"\n".join([os.fsencode(name) + digest for name, digest in files]) + sys.version.encode())

    def _key(self, part: Part, rules: Sequence[type[Rule]]) -> tuple[Any, ...]:
        codes = tuple(rule.code for rule in rules)
        return self._program, codes, tuple(map(str, part.targets)), tuple(map(str, part.callers))

    def recall(self, part: Part, rules: Sequence[type[Rule]], project: Project) -> Outcome | None:
        """What a part came to, if it would come to the same now."""
        from gradlint.footprint import Footprint
        from gradlint.parts import Outcome
        from gradlint.source import SourceError

        found = self._cache.recall_part(self._key(part, rules))
        if found is None:
            return None
        stored, readable, errors, findings, notes = found
        footprint = Footprint(*stored)
        if not project.still(footprint):
            return None
        return Outcome(
            [Path(path) for path in readable],
            [SourceError(Path(path), *rest) for path, *rest in errors],
            [_unpacked_finding(finding) for finding in findings],
            notes,
            footprint=footprint,
        )

    def keep(self, part: Part, rules: Sequence[type[Rule]], outcome: Outcome) -> None:
        """Keep what a part came to, if that is settled."""
        footprint = outcome.footprint
        if footprint is None or not outcome.settled:
            return
        self._cache.keep_part(
            self._key(part, rules),
            (
                (footprint.files, footprint.imports, footprint.packages),
                [str(path) for path in outcome.readable],
                [(str(error.path), error.row, error.column, error.reason, error.cell) for error in outcome.errors],
                [_finding(finding) for finding in outcome.findings],
                outcome.notes,
            ),
        )


def consult_program(disk: Disk, rules: Sequence[type[Rule]]) -> list[tuple[str, bytes]]:
    """Consult what the report owes to gradlint itself, to rules of others, and to what is installed beside it.

    Returns:
        The files of gradlint and of the rules, with the digests of their contents.
    """
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
    digests = ((str(file), disk.consulted.files.get(str(file))) for file in sorted(files))
    return [(name, digest) for name, digest in digests if digest is not None]


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
        finding.effect.value if finding.effect else None,
    )


def _unpacked_finding(stored: tuple[Any, ...]) -> Finding:
    code, name, message, severity, location, related, remedy, cause, fix, count, effect = stored
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
        effect=Effect(effect) if effect else None,
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
