"""Checking documents as they stand in an editor, which need not be what lies on the disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from gradlint.configuration import Configuration
from gradlint.consulted import FILE
from gradlint.discovery import Discovery
from gradlint.disk import Disk
from gradlint.engine import Earlier, Engine, Report
from gradlint.selection import Choice
from gradlint.source import source_from_text


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
        return self._last
