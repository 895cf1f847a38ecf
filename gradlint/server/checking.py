"""Checking documents as they stand in an editor, which need not be what lies on the disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gradlint.configuration import Configuration
from gradlint.consulted import FILE
from gradlint.discovery import Discovery
from gradlint.disk import Disk
from gradlint.engine import Earlier, Engine, Reader, Report
from gradlint.finding import Finding
from gradlint.selection import Choice
from gradlint.server.moving import Move, Text
from gradlint.server.provisional import Edit, foreseen
from gradlint.source import Source, source_from_text

_NOTEBOOK = ".ipynb"


class Edited(Disk):
    """The disk, with the documents of an editor laid over what stands there.

    Args:
        texts: the documents by their absolute paths; some may never have been saved.
    """

    def __init__(self, texts: Mapping[Path, str]) -> None:
        super().__init__()
        self._data = {path: text.encode("utf-8", "surrogatepass") for path, text in texts.items()}

    def read(self, path: Path) -> bytes:
        """The content of a document or file."""
        data = self._data.get(path)
        return super().read(path) if data is None else data

    def entries(self, folder: Path) -> dict[str, str]:
        """The names in a folder, with those of documents."""
        unsaved = {path.name: FILE for path in self._data if path.parent == folder}
        return unsaved | super().entries(folder)

    def kind(self, path: Path) -> str | None:
        """What stands at a path."""
        return FILE if path in self._data else super().kind(path)


class SupersededError(BaseException):
    """Something has changed since a check began, and its outcome is not wanted any more.

    No fault, which a part of an analysis may cost; it ends the whole.
    """


@dataclass(slots=True)
class _Whole:
    """What the last whole check told."""

    report: Report
    texts: Mapping[Path, str]  #: the documents as they were then
    alone: list[Finding] | None = None  #: what was found in them alone; None if that was not asked, or is not known


class Checker:
    """Checks documents, and after a change only those that imports connect with it.

    Args:
        configure: how settings are had from a disk; asked before each check, as their files may change.
        choice: what the command line says about rules.
    """

    def __init__(self, configure: Callable[[Disk], Configuration], choice: Choice) -> None:
        self._configure = configure
        self._choice = choice
        self._whole: _Whole | None = None
        self._alone: Report | None = None  #: what was last found in the documents alone
        self._are_imported = False  #: whether other files import a document
        self._known: dict[Path, Text] = {}  #: the documents that were looked into since the last whole check

    def check(
        self,
        texts: Mapping[Path, str],
        roots: Sequence[Path] = (),
        changed: frozenset[Path] | None = None,
        superseded: Callable[[], bool] = lambda: False,
    ) -> Report:
        """Check documents.

        Args:
            texts: the documents by their absolute paths; files that they import are read from the disk.
            roots: the folders of the workspace: imports are looked for below them.
            changed: those that have changed since the last check; None where anything may have, on the disk as well.
            superseded: asked now and then whether the outcome is not wanted any more.

        Raises:
            Refusal: a configuration file that cannot be read or has something unknown in it.
            SupersededError: it is not wanted any more.
        """
        last = self._whole
        engine, targets, given = self._begun(texts, superseded)
        try:
            report = engine.check(
                targets, roots, given, _earlier(None if last is None else last.report, changed, targets)
            )
        except Exception:
            self._whole = None
            raise
        alone = self._alone.findings if self._alone and self._alone.targets == report.targets else None
        self._whole = _Whole(report, dict(texts), alone)
        self._known.clear()
        return report

    def check_alone(
        self, texts: Mapping[Path, str], roots: Sequence[Path] = (), changed: frozenset[Path] | None = None
    ) -> Report | None:
        """What a whole check is likely to find, by what stands in the documents and in what they import.

        What other files prove or disprove of them is taken from the last whole check.  Nothing is to be fixed yet: what
        mends a document may do harm where it is imported.  The arguments are those of :meth:`check`, before which this
        is to be called.

        Returns:
            None where no other file imports a document, so that a whole check takes no longer.
        """
        last, self._alone = self._alone, None
        engine, targets, given = self._begun(texts)
        if changed is None:
            self._are_imported = engine.are_imported(targets, roots, given)
        if not self._are_imported:
            return None
        self._alone = report = engine.check(targets, roots, given, _earlier(last, changed, targets), alone=True)
        whole, findings = self._whole, report.findings
        if whole is not None and whole.alone is not None:
            edits = {
                str(path): Edit(before, texts[path])
                for path, before in whole.texts.items()
                if path in texts and texts[path] != before
            }
            findings = foreseen(findings, whole.alone, whole.report.findings, edits)
        names = set(map(str, report.targets))
        told = [replace(finding, fix=None) for finding in findings if finding.location.filename in names]
        return replace(report, findings=sorted(told, key=lambda finding: finding.sort_key))

    def _begun(
        self, texts: Mapping[Path, str], superseded: Callable[[], bool] = lambda: False
    ) -> tuple[Engine, list[Path], Mapping[Path, Callable[[], Source]]]:
        """What checks documents, those to check, and how each is read."""

        def progress(_path: Path | None, _files: int, _share: float) -> None:
            if superseded():
                raise SupersededError

        configuration = self._configure(Edited(texts))
        discovery = Discovery(configuration, lambda _trouble: None, force_exclude=True)
        targets = sorted(path for path in texts if not discovery.excludes(path))
        given = {path: partial(source_from_text, text, path) for path, text in texts.items()}
        return Engine(configuration, self._choice, progress, jobs=1), targets, given

    def moved(self, texts: Mapping[Path, str], changed: frozenset[Path]) -> Report | None:
        """The last report, as it is of documents in which only comments and blank lines have changed since.

        Returns:
            None where more has changed, or nothing was checked before.
        """
        last = self._whole
        if last is None or texts.keys() != last.texts.keys():
            return None
        findings: list[Finding] | None = last.report.findings
        alone = last.alone
        for path in changed & texts.keys():
            move = self._move(path, last.texts[path], texts[path])
            findings = None if move is None or findings is None else move.findings(findings)
            alone = None if move is None or alone is None else move.findings(alone)
        if findings is None:
            return None
        report = replace(last.report, findings=findings, read=partial(_read, dict(texts), last.report.read))
        self._whole = _Whole(report, dict(texts), alone)
        self._alone = None if self._alone is None or alone is None else replace(self._alone, findings=alone)
        return report

    def prepare(self) -> None:
        """Find the tokens of what was checked, so that what moves next is told without delay."""
        for path, text in self._whole.texts.items() if self._whole is not None else ():
            if path.suffix != _NOTEBOOK and path not in self._known:
                with suppress(SyntaxError):
                    self._known[path] = Text(text)

    def _move(self, path: Path, before: str, after: str) -> Move | None:
        """How the code of a document has moved; None where it is no longer the same."""
        if path.suffix == _NOTEBOOK:
            return None
        known = self._known.pop(path, None)
        try:
            move = Move(str(path), known or Text(before), Text(after))
        except SyntaxError:
            return None
        if not move.keeps_meaning:
            return None
        self._known[path] = move.after
        return move


def _read(texts: Mapping[Path, str], otherwise: Reader, path: Path) -> Source:
    return source_from_text(texts[path], path) if path in texts else otherwise(path)


def _earlier(report: Report | None, changed: frozenset[Path] | None, targets: Sequence[Path]) -> Earlier | None:
    """What need not be checked again, if the same was checked before and only documents have changed since."""
    if report is None or changed is None or list(report.targets) != list(targets):
        return None
    return Earlier(report, changed)
