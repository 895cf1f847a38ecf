"""How a project lies on disk: which path the name of a module leads to.  Nothing is read here but folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gradlint.consulted import FOLDER, FOLDERS, MARKERS
from gradlint.disk import Disk

#: names that mean the installed package wherever they are imported, even if a folder of the project bears them
INSTALLED = frozenset({"numpy", "torch", "torchvision"})


class Layout:
    """The folders of a project, listed when they are first needed.

    A path that is found is a file, or a folder that is a namespace package.  Spelling counts on every file system,
    and nothing outside of the project's root is found, wherever links lead.

    Args:
        roots: the files and folders that are checked.
        disk: what folders are listed from.
        sources: folders that imports are looked for in, after those around a file.
    """

    def __init__(self, roots: Iterable[Path], disk: Disk, sources: Iterable[Path] = ()) -> None:
        self.disk = disk
        self._sources = tuple(absolute(source) for source in sources)
        self._roots = [absolute(root) for root in roots]
        self._tops: dict[Path, Path] = {}
        self._found: dict[tuple[Path, int, str], Path | None] = {}

    def find(self, name: str, folder: Path) -> Path | None:
        """What ``import name`` means in a file of ``folder``; None if that is installed elsewhere."""
        key = (folder, 0, name)
        if key not in self._found:
            parts = name.split(".")
            installed = parts[0] in INSTALLED or parts[0] in sys.builtin_module_names
            self._found[key] = self._search(parts, folder) if all(parts) and not installed else None
        return self._found[key]

    def find_relative(self, level: int, name: str, folder: Path) -> Path | None:
        """What ``from ...name import`` means in a file of ``folder``, with ``level`` dots."""
        key = (folder, level, name)
        if key not in self._found:
            base, top = folder, self.top(folder)
            for _ in range(level - 1):
                if base == top:
                    self._found[key] = None
                    return None
                base = base.parent
            if name:
                self._found[key] = self._descend(base, name.split("."), top)
            else:
                self._found[key] = base / "__init__.py" if self.is_package(base) else base
        return self._found[key]

    def is_package(self, folder: Path) -> bool:
        """Whether a folder is a regular package."""
        return self._entries(folder).get("__init__.py", FOLDER) not in FOLDERS

    def top(self, folder: Path) -> Path:
        """The root of the project that ``folder`` belongs to: the nearest with a marker, or a given one above it."""
        known = self._tops.get(folder)
        if known is None:
            lineage = [folder, *folder.parents]
            marked = next((each for each in lineage if self._is_marked(each)), folder)
            known = min([marked, *(root for root in self._roots if root in lineage)], key=lambda each: len(each.parts))
            while self.is_package(known) and known.parent != known:
                known = known.parent
            self._tops[folder] = known
        return known

    def _search(self, parts: list[str], folder: Path) -> Path | None:
        top = self.top(folder)
        packaged = self.is_package(folder)
        if parts[0] in sys.stdlib_module_names:  # a script's own folder comes before the standard library
            found = None if packaged else self._descend(folder, parts, top)
            return None if found is None or found.suffix != ".py" else found
        namespace = None
        for base in self._search_path(folder, top, packaged=packaged):
            found = self._descend(base, parts, base if base in self._sources else top)
            if found is not None and found.suffix == ".py":
                return found
            namespace = namespace or found
        return namespace

    def _search_path(self, folder: Path, top: Path, *, packaged: bool) -> Iterator[Path]:
        """Where Python may look for what a file in ``folder`` imports, the likeliest first."""
        above = folder
        while self.is_package(above) and above != top:
            above = above.parent
        bases = [] if packaged else [folder]
        while True:
            bases.append(above)
            if above == top or above.parent == above:
                break
            above = above.parent
        bases += [base / "src" for base in bases if "src" in self._entries(base)]
        if packaged:
            bases.append(folder)  # a file of a package that is run as a script
        return iter(dict.fromkeys([*bases, *self._sources]))

    def _descend(self, base: Path, parts: list[str], top: Path) -> Path | None:
        """What stands at the end of ``parts`` below ``base``, within ``top``; in Python's own order."""
        *packages, last = parts
        for package in packages:
            if self._entries(base).get(package) not in FOLDERS:
                return None
            base = base / package
        entries = self._entries(base)
        found = None
        if entries.get(last) in FOLDERS and self.is_package(base / last):
            found = base / last / "__init__.py"
        elif entries.get(f"{last}.py", FOLDER) not in FOLDERS:
            found = base / f"{last}.py"
        elif entries.get(last) in FOLDERS and self._holds_python(base / last):
            found = base / last
        return found if found is not None and self._is_within(found, top) else None

    def _holds_python(self, folder: Path) -> bool:
        return any(name.endswith(".py") or kind in FOLDERS for name, kind in self._entries(folder).items())

    def _is_marked(self, folder: Path) -> bool:
        return any(self.disk.kind(folder / marker) for marker in MARKERS)

    def _is_within(self, path: Path, top: Path) -> bool:
        """Whether ``path`` is really below ``top``, wherever links lead."""
        return self.disk.real(path).startswith(self.disk.real(top).rstrip(os.sep) + os.sep)

    def _entries(self, folder: Path) -> dict[str, str]:
        """The names in a folder as they are spelled, and what each is."""
        try:
            return self.disk.entries(folder)
        except OSError:
            return {}


def absolute(path: Path) -> Path:
    """The path from the root of the file system, links kept."""
    return Path(os.path.abspath(path))
