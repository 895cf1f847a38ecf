"""Which files of a project import a given one, read off their import statements without parsing them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gradlint.consulted import FOLDER
from gradlint.disk import Disk
from gradlint.static.text.files import Layout, absolute

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
        self._scopes: dict[Path, list[Path]] = {}
        self._too_large: set[Path] = set()

    def of(self, paths: Iterable[Path], limit: int) -> list[Path]:
        """The files that import one of ``paths``, directly or through others, the nearest first up to ``limit``.

        A step that would exceed the limit is left out as a whole, and those behind it.  Sorted by path.
        """
        given = {absolute(path) for path in paths}
        candidates = {path for folder in {path.parent for path in given} for path in self._scope(folder)} - given
        found: set[Path] = set()
        wanted = given
        while wanted:
            names = {_last_name(path) for path in wanted}
            wanted = {path for path in candidates - found if self._leads_to(path, wanted, names)}
            if len(found) + len(wanted) > limit:
                break
            found |= wanted
        return sorted(found)

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
