"""What a run consulted of the disk, and whether the disk would answer the same today.

This is what a warm run executes: it imports next to nothing.
"""

from __future__ import annotations

import os
import stat
import time
from _blake2 import blake2b  # from hashlib, it costs a warm run more than all the rest

from gradlint.reading import read_regular

TYPE_CHECKING = False  # typing alone costs a warm run more than the cache does
if TYPE_CHECKING:
    from typing import Any

Stat = tuple[int, int, int, int]  #: modified and changed (ns), size in bytes, inode

FILE, FOLDER, LINK_TO_FILE, LINK_TO_FOLDER, OTHER = "f", "d", "lf", "ld", "o"
FOLDERS = frozenset({FOLDER, LINK_TO_FOLDER})
FILES = frozenset({FILE, LINK_TO_FILE})

#: folders that tools fill as they run; none holds sources, whatever else changes in them
CACHES = frozenset({".gradlint_cache", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"})
#: names that say where a project begins
MARKERS = frozenset({".git", ".hg", "pyproject.toml", "setup.cfg", "setup.py"})
#: names that say something about a project
TELLING = MARKERS | {".gitignore", "gradlint.toml"}
_SETTLED = 2 * 10**9  #: ns after which a change gets another time stamp on every common file system


class Consulted:
    """The questions asked of the disk, each with its answer.

    Time stamps spare most files a second reading.  One that is so young that a later change might bear the same is
    not kept, and then the content decides.
    """

    def __init__(self, stored: tuple[Any, ...] | None = None) -> None:
        self.files: dict[str, bytes | None] = {}  #: by path, the digest of the content; None where there was no file
        self.folders: dict[str, tuple[bytes | None, int]] = {}  #: digest of what matters in it, number of all entries
        self.installed: dict[str, bytes | None] = {}  #: for folders of ``sys.path``, the digest of what is installed
        self.kinds: dict[str, str | None] = {}  #: what stood at a path that was only asked for
        self.links: dict[str, str] = {}  #: where the paths lead that lead elsewhere
        self.searches: list[tuple[tuple[str, ...], int, bool]] = []  #: folders, a limit for all their entries, exceeded
        self.stats: dict[str, Stat] = {}  #: of files and folders
        self.renewed = False  #: some time stamps are newer than those that were stored
        self.complete = True  #: False where an answer cannot be asked for again, or was not the same twice
        if stored is not None:
            *parts, self.searches, self.stats = stored
            self.files, self.folders, self.installed, self.kinds, self.links = parts

    def stored(self) -> tuple[Any, ...]:
        """All of it, of types that ``marshal`` knows."""
        return self.files, self.folders, self.installed, self.kinds, self.links, self.searches, self.stats

    def date(self, path: str, seen: os.stat_result, asked: int) -> None:
        """Keep the time stamps that a file or folder had before it was read, if they were old enough at ``asked``."""
        if max(seen.st_mtime_ns, seen.st_ctime_ns) < asked - _SETTLED:
            self.stats.setdefault(path, (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino))

    def take_over(self, other: Consulted) -> None:
        """Add what another process asked; where both asked and heard different answers, neither can be relied on."""
        self.complete &= other.complete
        for mine, theirs in (
            (self.files, other.files),
            (self.folders, other.folders),
            (self.installed, other.installed),
            (self.kinds, other.kinds),
            (self.links, other.links),
        ):
            answers: dict[str, Any] = mine
            self.complete &= all(answers.setdefault(path, answer) == answer for path, answer in theirs.items())
        self.searches += [search for search in other.searches if search not in self.searches]
        for path, seen in other.stats.items():
            self.stats.setdefault(path, seen)

    def holds(self) -> bool:
        """Whether every answer would be the same; time stamps that changed for nothing are renewed."""
        look = os.stat
        changed: list[str] = [path for path in self.files if path not in self.stats]
        changed += [path for path in (*self.folders, *self.installed) if path not in self.stats]
        for path, seen in self.stats.items():
            try:
                now = look(path)
            except OSError:
                return False
            if (now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino) != seen:
                changed.append(path)
        return (
            all(kind_of(path) == kind for path, kind in self.kinds.items())
            and all(os.path.realpath(path) == real for path, real in self.links.items())
            and self._still(dict.fromkeys(changed))
        )

    def _still(self, changed: dict[str, None]) -> bool:
        """Whether the content of files and folders is what it was, for all that their time stamps say."""
        counts = {path: count for path, (_, count) in self.folders.items()} if self.searches else {}
        for path in changed:
            self.stats.pop(path, None)
            if path in self.files and self.content(path) != self.files[path]:
                return False
            if path in self.installed and self.packages(path) != self.installed[path]:
                return False
            if path in self.folders:
                digest, counts[path] = self.listing(path)
                if digest != self.folders[path][0]:
                    return False
        self.renewed = not self.stats.keys().isdisjoint(changed)
        return all(
            (sum(counts[folder] for folder in folders) > limit) == exceeded
            for folders, limit, exceeded in self.searches
        )

    def content(self, path: str) -> bytes | None:
        """The digest of a file; None where there is none."""
        asked = time.time_ns()
        try:
            data, seen = read_regular(path)
        except OSError:
            return None
        self.date(path, seen, asked)
        return digest_of(data)

    def listing(self, folder: str) -> tuple[bytes | None, int]:
        """The digest of what matters in a folder, and how many entries it has; None and 0 where there is none."""
        asked = time.time_ns()
        try:
            seen = os.stat(folder)
            entries = list_folder(folder)
        except OSError:
            return None, 0
        self.date_folder(folder, seen, asked, entries)
        return digest_of_folder(entries), len(entries)

    def date_folder(self, folder: str, seen: os.stat_result, asked: int, entries: dict[str, str]) -> None:
        """Like ``date``; where a link in a folder leads may change without it, so that one with links is not dated."""
        if {LINK_TO_FILE, LINK_TO_FOLDER, OTHER}.isdisjoint(entries.values()):
            self.date(folder, seen, asked)

    def packages(self, folder: str) -> bytes | None:
        """The digest of the packages that are installed in a folder; None where there is no such folder."""
        asked = time.time_ns()
        try:
            seen = os.stat(folder)
            names = [name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info", ".egg-link"))]
        except OSError:
            return None
        self.date(folder, seen, asked)
        return digest_of("\n".join(sorted(names)).encode("utf-8", "surrogatepass"))


def digest_of(data: bytes) -> bytes:
    """Sixteen bytes that stand for ``data``."""
    return blake2b(data, digest_size=16).digest()


def digest_of_folder(entries: dict[str, str]) -> bytes:
    """Sixteen bytes that stand for what decides about sources in a folder: folders, Python files, configuration."""
    told = [
        f"{kind} {name}"
        for name, kind in sorted(entries.items())
        if (name.endswith((".py", ".ipynb")) or kind in FOLDERS or name in TELLING) and name not in CACHES
    ]
    return digest_of("\n".join(told).encode("utf-8", "surrogatepass"))


def list_folder(folder: str) -> dict[str, str]:
    """The names in a folder as they are spelled, and what each is; OSError if it cannot be listed."""
    with os.scandir(folder) as entries:
        return {entry.name: _kind(entry) for entry in entries}


def kind_of(path: str) -> str | None:
    """What stands at a path: a file, a folder or something else; links are followed, None where nothing is."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    return FOLDER if stat.S_ISDIR(mode) else FILE if stat.S_ISREG(mode) else OTHER


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_symlink():
            return LINK_TO_FOLDER if entry.is_dir() else LINK_TO_FILE if entry.is_file() else OTHER
        return FOLDER if entry.is_dir() else FILE if entry.is_file() else OTHER
    except OSError:
        return OTHER
