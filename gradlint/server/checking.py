"""Checking documents as they stand in an editor, which need not be what lies on the disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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


class Checker:
    """Checks documents, and after a change only those that imports connect with it.

    Args:
        configure: how settings are had from a disk; asked before each check, as their files may change.
        choice: what the command line says about rules.
    """

    def __init__(self, configure: Callable[[Disk], Configuration], choice: Choice) -> None:
        self._configure = configure
        self._choice = choice
        self._last: Report | None = None
        self._texts: Mapping[Path, str] = {}  #: the documents as they were then
        self._known: dict[Path, Text] = {}  #: those of them that were looked into since

    def check(
        self, texts: Mapping[Path, str], roots: Sequence[Path] = (), changed: frozenset[Path] | None = None
    ) -> Report:
        """Check documents.

        Args:
            texts: the documents by their absolute paths; files that they import are read from the disk.
            roots: the folders of the workspace: imports are looked for below them.
            changed: those that have changed since the last check; None where anything may have, on the disk as well.

        Raises:
            Refusal: a configuration file that cannot be read or has something unknown in it.
        """
        last, self._last = self._last, None
        configuration = self._configure(Edited(texts))
        discovery = Discovery(configuration, lambda _trouble: None, force_exclude=True)
        targets = sorted(path for path in texts if not discovery.excludes(path))
        given = {path: partial(source_from_text, text, path) for path, text in texts.items()}
        earlier = None if last is None or changed is None or list(last.targets) != targets else Earlier(last, changed)
        self._last = Engine(configuration, self._choice, jobs=1).check(targets, roots, given, earlier)
        self._texts = dict(texts)
        self._known.clear()
        return self._last

    def moved(self, texts: Mapping[Path, str], changed: frozenset[Path]) -> Report | None:
        """The last report, as it is of documents in which only comments and blank lines have changed since.

        Returns:
            None where more has changed, or nothing was checked before.
        """
        last, before = self._last, self._texts
        if last is None or texts.keys() != before.keys():
            return None
        findings: list[Finding] | None = last.findings
        for path in changed & texts.keys():
            move = self._move(path, before[path], texts[path])
            findings = None if move is None or findings is None else move.findings(findings)
        if findings is None:
            return None
        self._texts = dict(texts)
        self._last = replace(last, findings=findings, read=partial(_read, self._texts, last.read))
        return self._last

    def prepare(self) -> None:
        """Find the tokens of what was checked, so that what moves next is told without delay."""
        for path, text in self._texts.items():
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
