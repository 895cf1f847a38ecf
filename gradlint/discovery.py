"""Discovery: from the paths somebody named to the files to check."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from gradlint.configuration import Configuration
from gradlint.consulted import CACHES, FILES, FOLDER
from gradlint.ignorefiles import GitIgnore, patterns, verdict
from gradlint.refusal import Refusal
from gradlint.settings import DEFAULT_INCLUDE, Patterns, Settings

MOST_NESTED = 200  #: folders in one another, below the one that is named
SUFFIXES = (".py", ".ipynb")


class Discovery:
    """Finds files: named ones always (unless ``force_exclude``), those below named folders by their suffix.

    Symbolic links to folders are not followed, so that links in a circle are harmless; a file reached under two
    names is checked once.

    Args:
        configuration: says what is excluded where.
        complain: is given one line for each path that does not exist or cannot be read.
    """

    def __init__(
        self, configuration: Configuration, complain: Callable[[str], None], *, force_exclude: bool = False
    ) -> None:
        self.configuration = configuration
        self.complain = complain
        self.force_exclude = force_exclude
        self._disk = configuration.disk
        self._gitignore = GitIgnore(self._disk, complain)

    def files(self, paths: Iterable[Path]) -> list[Path]:
        """The files to check, absolute, sorted, each once."""
        found: dict[str, Path] = {}
        for path in self._below_all(paths):
            real = self._disk.real(path)
            other = found.get(real)
            if other is None or (other.is_symlink(), other) > (path.is_symlink(), path):
                found[real] = path
        return sorted(found.values())

    def _below_all(self, paths: Iterable[Path]) -> Iterator[Path]:
        for named in paths:
            path = Path(os.path.abspath(named))
            is_folder = self._disk.is_folder(path)
            if not is_folder and self._disk.kind(path) is None:
                self.complain(f"{named}: {_why_missing(path)}")
            elif self.force_exclude and self.excludes(path, is_folder=is_folder):
                continue
            elif is_folder:
                yield from self._below(path)
            else:
                yield path

    def _below(self, top: Path) -> Iterator[Path]:
        pending = [(top, 0)]
        while pending:
            folder, depth = pending.pop()
            if depth > MOST_NESTED:
                self.complain(f"{folder}: more than {MOST_NESTED} folders deep, which is too deep to be searched")
                continue
            try:
                entries = self._disk.entries(folder)
            except OSError as error:
                self.complain(f"{error.filename or folder}: {error.strerror}")
                continue
            try:
                files, folders = self._entries(folder, depth, entries, top)
            except Refusal as refusal:  # a wrong configuration file costs what it would hold for
                if folder == top:
                    raise
                self.complain(str(refusal))
                continue
            pending += folders
            yield from files

    def _entries(
        self, folder: Path, depth: int, entries: Mapping[str, str], top: Path
    ) -> tuple[list[Path], list[tuple[Path, int]]]:
        """The files in a folder that are to be checked, and the folders that are to be searched, with their depth."""
        files: list[Path] = []
        folders: list[tuple[Path, int]] = []
        for name, kind in entries.items():
            if kind == FOLDER:
                if name not in CACHES and not self._skipped(folder / name, top, is_folder=True):
                    folders.append((folder / name, depth + 1))
            elif kind in FILES and name.endswith(SUFFIXES) and self._wanted(folder / name, top):
                files.append(folder / name)
        return files, folders

    def _wanted(self, path: Path, top: Path) -> bool:
        """Whether a file below a folder is to be checked: it is included, and neither excluded nor ignored."""
        include = self.configuration.of_folder(path.parent).include
        if include.lines != DEFAULT_INCLUDE and not _said(include, path, include.base or top, is_folder=False):
            return False
        return not self._skipped(path, top, is_folder=False)

    def _skipped(self, path: Path, top: Path, *, is_folder: bool) -> bool:
        settings = self.configuration.of_folder(path.parent)
        return self._excluded(path, settings, top, is_folder=is_folder) or self._gitignore.ignored(
            path, is_folder=is_folder, below=top
        )

    @staticmethod
    def _excluded(path: Path, settings: Settings, top: Path, *, is_folder: bool) -> bool:
        excluded = False
        for group in (settings.exclude, *settings.extend_exclude):
            root = group.base or settings.root or top
            if not path.is_relative_to(root) or _said(group, top, root, is_folder=True):
                root = top  # as with ignore files: a folder that is named is checked, though its name is excluded
            said = _said(group, path, root, is_folder=is_folder)
            excluded = excluded if said is None else said
        return excluded

    def excludes(self, path: Path, *, is_folder: bool = False) -> bool:
        """Whether ``path`` would not have been found from the folder of its configuration."""
        settings = self.configuration.of_folder(path if is_folder else path.parent)
        top = settings.root or Path.cwd()
        if not path.is_relative_to(top):
            top = path.parent
        steps = [step for step in reversed(path.parents) if step != top and step.is_relative_to(top)]
        return any(self._skipped(step, top, is_folder=True) for step in steps) or (
            path != top and self._skipped(path, top, is_folder=is_folder)
        )


def _said(group: Patterns, path: Path, root: Path, *, is_folder: bool) -> bool | None:
    return verdict(patterns(group.lines), path, root, is_folder=is_folder)


def _why_missing(path: Path) -> str:
    try:
        os.lstat(path)
        path.stat()
    except FileNotFoundError:
        return "a symbolic link that leads nowhere" if path.is_symlink() else "no such file or folder"
    except OSError as error:
        return str(error.strerror)
    return "no file or folder a moment ago"
