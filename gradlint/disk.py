"""The disk, as a run sees it: every answer is remembered, so that it can be told later whether it still holds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from gradlint.consulted import (
    FILES,
    FOLDERS,
    LINK_TO_FILE,
    LINK_TO_FOLDER,
    TELLING,
    Consulted,
    digest_of,
    digest_of_folder,
    kind_of,
    list_folder,
)
from gradlint.reading import NotRegularError, read_regular


class Disk:
    """Reads files and lists folders; what was listed once is not listed again."""

    def __init__(self) -> None:
        self.consulted = Consulted()
        self._folders: dict[str, dict[str, str] | OSError] = {}
        self._kinds: dict[str, str | None] = {}
        self._reals: dict[str, str] = {}

    def read(self, path: Path) -> bytes:
        """The content of a file.

        Raises:
            OSError: it cannot be read, is no regular file, or is too large.
        """
        name, known, asked = str(path), self.consulted, time.time_ns()
        try:
            data, seen = read_regular(name)
        except (FileNotFoundError, NotADirectoryError):
            known.complete &= known.files.setdefault(name, None) is None
            raise
        except NotRegularError:
            known.kinds[name] = kind_of(name)
            raise
        except OSError:
            known.complete = False
            raise
        known.date(name, seen, asked)
        digest = digest_of(data)
        known.complete &= known.files.setdefault(name, digest) == digest
        return data

    def entries(self, folder: Path) -> dict[str, str]:
        """The names in a folder as they are spelled, and what each is: see :mod:`gradlint.consulted`.

        Raises:
            OSError: it cannot be listed.
        """
        name = str(folder)
        found = self._folders.get(name)
        if found is None:
            found = self._folders[name] = self._list(name)
        if isinstance(found, OSError):
            raise found
        return found

    def _list(self, folder: str) -> dict[str, str] | OSError:
        known, asked = self.consulted, time.time_ns()
        try:
            seen = os.stat(folder)  # noqa: PTH116 -- a path that may hold anything
            entries = list_folder(folder)
        except OSError as error:
            known.complete &= isinstance(error, (FileNotFoundError, NotADirectoryError))
            known.folders[folder] = None, 0
            return error
        known.date_folder(folder, seen, asked, entries)
        known.folders[folder] = digest_of_folder(entries), len(entries)
        return entries

    def searched(self, folders: Iterable[Path], limit: int, *, exceeded: bool) -> None:
        """Remember that the number of entries in ``folders``, together, decided something."""
        self.consulted.searches.append((tuple(map(str, folders)), limit, exceeded))

    def kind(self, path: Path) -> str | None:
        """What stands at a path, links followed; None where nothing does."""
        name = str(path)
        if name not in self._kinds:
            listed = self._folders.get(str(path.parent)) if path.name in TELLING else None
            if isinstance(listed, dict):
                self._kinds[name] = listed.get(path.name)
            else:
                self._kinds[name] = self.consulted.kinds[name] = kind_of(name)
        return self._kinds[name]

    def is_file(self, path: Path) -> bool:
        """Whether there is a file at a path."""
        return self.kind(path) in FILES

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder at a path."""
        return self.kind(path) in FOLDERS

    def real(self, path: Path) -> str:
        """Where an absolute path leads when all links are followed."""
        new: list[Path] = []
        above = path
        while str(above) not in self._reals:  # no call for each folder: they may be nested more deeply than calls
            new.append(above)
            above = above.parent
            if above == new[-1]:
                break
        for below in reversed(new):
            self._reals[str(below)] = self._real(below)
        return self._reals[str(path)]

    def _real(self, path: Path) -> str:
        """Where a path leads, given where its folder does."""
        name, parent = str(path), str(path.parent)
        listed = self._folders.get(parent)
        entry = listed.get(path.name) if isinstance(listed, dict) else None
        is_link = entry in (LINK_TO_FILE, LINK_TO_FOLDER) if entry else os.path.islink(name)  # noqa: PTH114
        if parent != name and not is_link:
            return os.path.join(self._reals[parent], path.name)  # noqa: PTH118 -- of strings
        real = os.path.realpath(name)
        if real != name:
            self.consulted.links[name] = real
        return real
