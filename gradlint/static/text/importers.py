"""How a project lies on disk: which path the name of a module leads to, and which files import a given one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gradlint.consulted import FOLDER, FOLDERS, MARKERS
from gradlint.disk import Disk
from gradlint.source import SourceError, read_source

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


SKIPPED = frozenset(
    {"__pycache__", "build", "dist", "env", "lightning_logs", "node_modules", "site-packages", "venv", "wandb"}
)
MAX_FILES, MAX_ENTRIES = 1000, 20_000  #: of the part of a project that is searched, about half a second's worth
# nothing is gone back for: in a file of spaces, or of brackets that stay open, that would take for ever
_REST = rb"(\((?:[^()#]|#[^\n]*+)*+\)|(?:[^\r\n;#\\]|\\\r?\n)*+)"
_FROM = rb"(?:(?<!\w)|(?<=\\[nt]))from(?=[. \t])((?:(?!(?:from|import)\b)\w++|[. \t])++)import\b[ \t]*+"
_STATEMENT = re.compile(rb"^[ \t]*(?:" + _FROM + _REST + rb"|import[ \t]++((?:[^\r\n;#\\]|\\\r?\n)*+))", re.MULTILINE)
_STATEMENT_IN_JSON = re.compile(_FROM + rb"([^\r\n;#\\\"]*+)|import[ \t]++([^\r\n;#\\\"]*+)")
_COMMENT = re.compile(rb"#[^\n]*")
_NAME = re.compile(r"\s*([\w.]+)")

Imports = tuple[tuple[int, str, tuple[str, ...]], ...]  #: the level, the module, and what is taken from it


@dataclass(slots=True)
class _Searched:
    """What was found below a folder."""

    files: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    entries: int = 0  #: in all of these folders

    def add(self, other: _Searched) -> None:
        """Take over what was found below another."""
        self.files += other.files
        self.folders += other.folders
        self.entries += other.entries


class Importers:
    """Searches a project for the files that import others."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._imports: dict[Path, Imports] = {}
        self._sizes: dict[Path, int] = {}  #: of the code in a file
        self.left_out: set[Path] = set()  #: the nearest files that import others and were too many, or too long
        self._scopes: dict[Path, list[Path]] = {}
        self._too_large: set[Path] = set()

    def of(self, paths: Iterable[Path], limit: int, room: int) -> list[Path]:
        """The files that import one of ``paths``, directly or through others, the nearest first up to a limit.

        A step that would exceed the limit is left out as a whole, and those behind it.  Sorted by path.

        Args:
            paths: the files that are imported.
            limit: how many may come together.
            room: how much code they may hold together, in characters, where ``paths`` hold less.
        """
        given = {absolute(path) for path in paths}
        candidates = {path for folder in {path.parent for path in given} for path in self._scope(folder)} - given
        found: set[Path] = set()
        wanted = given
        while wanted:
            names = {_last_name(path) for path in wanted}
            wanted = {path for path in candidates - found if self._leads_to(path, wanted, names)}
            if len(found) + len(wanted) > limit or self._exceeds(found | wanted, room, given):
                self.left_out |= wanted
                break
            found |= wanted
        return sorted(found)

    def _exceeds(self, paths: Collection[Path], room: int, given: Collection[Path]) -> bool:
        """Whether files hold more code than there is room for, and than the given ones."""
        size = self._size(paths)
        return size > room and size > self._size(given)

    def _size(self, paths: Collection[Path]) -> int:
        for path in paths:
            if path not in self._sizes:
                with suppress(SourceError):
                    self._sizes[path] = len(read_source(path, self._layout.disk.read).text)
        return sum(self._sizes.get(path, 0) for path in paths)

    def connected(self, paths: Iterable[Path], among: Iterable[Path], between: Iterable[Path]) -> list[Path]:
        """The files among some that are connected with ``paths`` by imports, also by those in others ``between``."""
        places = {absolute(path): path for path in among}
        neighbours = self._neighbours((*places, *map(absolute, between)))
        reached = _reached(map(absolute, paths), neighbours)
        return [path for place, path in places.items() if place in reached]

    def components(self, paths: Iterable[Path]) -> list[list[Path]]:
        """Files in groups that no import connects; in order, as the files of each group."""
        places = {absolute(path): path for path in paths}
        neighbours = self._neighbours(places)
        groups: list[list[Path]] = []
        seen: set[Path] = set()
        for place in places:
            if place not in seen:
                reached = _reached([place], neighbours)
                seen |= reached
                groups.append([path for other, path in places.items() if other in reached])
        return groups

    def _neighbours(self, places: Iterable[Path]) -> dict[Path, set[Path]]:
        """For each of some files, those of them that it imports or that import it."""
        neighbours: dict[Path, set[Path]] = {place: set() for place in places}
        for place in neighbours:
            for other in self._imported_by(place):
                if other in neighbours:
                    neighbours[place].add(other)
                    neighbours[other].add(place)
        return neighbours

    def _imported_by(self, path: Path) -> Iterator[Path]:
        """What a file imports, the packages on the way included."""
        folder = path.parent
        for level, module, items in self._imports_of(path):
            parts = module.split(".") if module else []
            names = [".".join(parts[:end]) for end in range(0 if level else 1, len(parts) + 1)]
            for name in (*names, *(f"{module}.{item}" if module else item for item in items)):
                found = self._layout.find_relative(level, name, folder) if level else self._layout.find(name, folder)
                if found is not None:
                    yield found

    def _leads_to(self, path: Path, wanted: set[Path], names: set[str]) -> bool:
        folder = path.parent
        for level, module, items in self._imports_of(path):
            words = {*module.split("."), *items, folder.name if level else ""}
            if names.isdisjoint(words) and level < 2:
                continue
            full = [module, *(f"{module}.{item}" if module else item for item in items)]
            for name in full:
                found = self._layout.find_relative(level, name, folder) if level else self._layout.find(name, folder)
                if found is not None and found in wanted:
                    return True
        return False

    def _imports_of(self, path: Path) -> Imports:
        known = self._imports.get(path)
        if known is None:
            try:
                data = self._layout.disk.read(path)
            except OSError:
                data = b""
            known = self._imports[path] = tuple(_imports_in(data, notebook=path.suffix == ".ipynb"))
        return known

    def _scope(self, folder: Path) -> list[Path]:
        """The files of the largest folder around ``folder`` that is not too large to search."""
        known = self._scopes.get(folder)
        if known is not None:
            return known
        top, above, passed = self._layout.top(folder), folder, [folder]
        found = self._search(folder)
        known = found.files
        while above != top and found.files:
            above = above.parent
            if above in self._too_large:
                break
            if self._scopes.get(above):
                known = self._scopes[above]
                break
            more = self._search(above, passed[-1], found)
            if not more.files:
                break
            found, known = more, more.files
            passed.append(above)
        self._layout.disk.searched(found.folders, MAX_ENTRIES, exceeded=found.entries > MAX_ENTRIES)
        self._scopes.update(dict.fromkeys(passed, known))
        return known

    def _search(self, top: Path, below: Path | None = None, known: _Searched | None = None) -> _Searched:
        """The files below a folder, of which one folder is known already; none if there is too much to go through."""
        found = _searched(top, self._layout.disk, below, known)
        if found.entries > MAX_ENTRIES or len(found.files) > MAX_FILES:
            self._layout.disk.searched(found.folders, MAX_ENTRIES, exceeded=found.entries > MAX_ENTRIES)
            self._too_large.add(top)
            found.files.clear()
        return found


def _reached(starts: Iterable[Path], neighbours: Mapping[Path, set[Path]]) -> set[Path]:
    queue = list(starts)
    reached = set(queue)
    while queue:
        for other in neighbours.get(queue.pop(), set()) - reached:
            reached.add(other)
            queue.append(other)
    return reached


def _imports_in(data: bytes, *, notebook: bool) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    for match in (_STATEMENT_IN_JSON if notebook else _STATEMENT).finditer(data):
        origin, items, modules = (_COMMENT.sub(b"", part or b"").decode("utf-8", "replace") for part in match.groups())
        if modules:
            for name in _names(modules):
                yield 0, name, ()
        else:
            module = "".join(origin.split())
            stem = module.lstrip(".")
            yield len(module) - len(stem), stem, _names(items.strip("( \t)"))


def _names(text: str) -> tuple[str, ...]:
    """The names before ``as`` in a list of imports."""
    found = (_NAME.match(part.replace("\\", " ")) for part in text.split(","))
    return tuple(match[1] for match in found if match is not None)


def _last_name(path: Path) -> str:
    return path.parent.name if path.name == "__init__.py" else path.stem


def _searched(top: Path, disk: Disk, below: Path | None, known: _Searched | None) -> _Searched:
    """The Python files and notebooks below a folder, links not followed, as far as it can be gone through."""
    found = _Searched()
    folders = [top]
    while folders:
        folder = folders.pop()
        if known is not None and folder == below:
            found.add(known)
            continue
        try:
            listed = disk.entries(folder)
        except OSError:
            continue
        found.folders.append(folder)
        found.entries += len(listed)
        for name, kind in listed.items():
            if kind == FOLDER:
                if name not in SKIPPED and not name.startswith("."):
                    folders.append(folder / name)
            elif name.endswith((".py", ".ipynb")):
                found.files.append(folder / name)
        if found.entries > MAX_ENTRIES or len(found.files) > MAX_FILES:
            break
    return found
