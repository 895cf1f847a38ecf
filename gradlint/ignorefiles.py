"""What git ignores: the ``.gitignore`` files of a repository, nested ones and negation included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.disk import Disk

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


def patterns(lines: list[str]) -> GitIgnoreSpec:
    """Patterns in the manner of ``.gitignore``; a line git could not make sense of is passed over, as git does."""
    from pathspec import GitIgnoreSpec  # costs 15 ms, which a file that is named need not wait for

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        valid = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
            except ValueError:
                continue
            valid.append(line)
        return GitIgnoreSpec.from_lines(valid)


def verdict(spec: GitIgnoreSpec, path: Path, root: Path, *, is_folder: bool) -> bool | None:
    """Whether ``spec``, relative to ``root``, takes ``path`` in (True), out again (False), or says nothing (None)."""
    if not path.is_relative_to(root) or path == root:
        return None
    return spec.check_file(path.relative_to(root).as_posix() + ("/" if is_folder else "")).include


class GitIgnore:
    """Tells which paths git ignores.  Outside a repository that is none."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._chains: dict[Path, tuple[tuple[Path, GitIgnoreSpec], ...] | None] = {}

    def ignored(self, path: Path, *, is_folder: bool, below: Path) -> bool:
        """Whether git ignores ``path``, found while walking ``below``.

        An ignore file that hides ``below`` itself is not asked: who names an ignored folder wants it checked.
        """
        for root, spec in self._chain(path.parent) or ():
            said = verdict(spec, path, root, is_folder=is_folder)
            if said is not None and not verdict(spec, below, root, is_folder=True):
                return said
        return False

    def _chain(self, folder: Path) -> tuple[tuple[Path, GitIgnoreSpec], ...] | None:
        """The ignore files that speak about ``folder``, nearest first; ``None`` outside a repository."""
        if folder in self._chains:
            return self._chains[folder]
        top = self._disk.kind(folder / ".git") is not None
        above = () if top else None if folder.parent == folder else self._chain(folder.parent)
        chain = above
        if above is not None:
            chain = (*self._read(folder, ".gitignore"), *above)
            if top:
                chain = (*chain, *self._read(folder, ".git/info/exclude"))
        self._chains[folder] = chain
        return chain

    def _read(self, folder: Path, name: str) -> tuple[tuple[Path, GitIgnoreSpec], ...]:
        path = folder / name
        try:
            lines = self._disk.read(path).decode("utf-8", "replace").splitlines() if self._disk.is_file(path) else []
        except OSError:  # it cannot be read: git goes on without it too
            return ()
        return ((folder, patterns(lines)),) if lines else ()
