"""What git ignores: the ``.gitignore`` files of a repository, nested ones and negation included."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from gradlint.disk import Disk
from gradlint.patterns import Patterns
from gradlint.reading import TooLargeError

MOST_PATTERNS = 5_000  #: in one place; every path is held against each


@lru_cache(maxsize=1024)
def patterns(lines: tuple[str, ...]) -> Patterns:
    """Patterns in the manner of ``.gitignore``."""
    return Patterns(lines)


def verdict(spec: Patterns, path: Path, root: Path, *, is_folder: bool) -> bool | None:
    """Whether ``spec``, relative to ``root``, takes ``path`` in (True), out again (False), or says nothing (None)."""
    if not path.is_relative_to(root) or path == root:
        return None
    return spec.verdict(path.relative_to(root).as_posix(), is_folder=is_folder)


class GitIgnore:
    """Tells which paths git ignores.  Outside a repository that is none.

    Args:
        disk: what files are read from.
        complain: is given one line for each file that git would read and that is not used.
    """

    def __init__(self, disk: Disk, complain: Callable[[str], None]) -> None:
        self._disk = disk
        self._complain = complain
        self._chains: dict[Path, tuple[tuple[Path, Patterns], ...] | None] = {}

    def ignored(self, path: Path, *, is_folder: bool, below: Path) -> bool:
        """Whether git ignores ``path``, found while walking ``below``.

        An ignore file that hides ``below`` itself is not asked: who names an ignored folder wants it checked.
        """
        for root, spec in self._chain(path.parent) or ():
            said = verdict(spec, path, root, is_folder=is_folder)
            if said is not None and not verdict(spec, below, root, is_folder=True):
                return said
        return False

    def _chain(self, folder: Path) -> tuple[tuple[Path, Patterns], ...] | None:
        """The ignore files that speak about ``folder``, nearest first; ``None`` outside a repository."""
        new: list[Path] = []
        above = folder
        while above not in self._chains:  # no call for each folder: they may be nested more deeply than calls
            new.append(above)
            if self._disk.kind(above / ".git") is not None:
                self._chains[above] = (*self._read(above, ".gitignore"), *self._read(above, ".git/info/exclude"))
                new.pop()
            elif above.parent == above:
                self._chains[above] = None
                new.pop()
            else:
                above = above.parent
        chain = self._chains[above]
        for below in reversed(new):
            chain = None if chain is None else (*self._read(below, ".gitignore"), *chain)
            self._chains[below] = chain
        return chain

    def _read(self, folder: Path, name: str) -> tuple[tuple[Path, Patterns], ...]:
        path = folder / name
        if not self._disk.is_file(path):
            return ()
        try:
            text = self._disk.read(path).decode("utf-8", "replace")
        except TooLargeError as error:
            self._complain(f"{path}: {error.strerror}")
            return ()
        except OSError:  # it cannot be read: git goes on without it too
            return ()
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        if len(lines) > MOST_PATTERNS:
            self._complain(f"{path}: more than {MOST_PATTERNS:,} lines, which are too many to heed")
            return ()
        return ((folder, patterns(tuple(lines))),) if any(lines) else ()
