"""Files of the project: which path the name of a module leads to, what stands there, and why it cannot be read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import libcst as cst

from gradlint.consulted import FOLDER, FOLDERS, MARKERS
from gradlint.disk import Disk
from gradlint.source import Source, SourceError
from gradlint.static.knowledge.torch_table import may_freeze
from gradlint.static.text.chains import assigned_in, words_in
from gradlint.static.text.definition_units import ClassUnit, DefinitionUnit, FunctionUnit
from gradlint.static.text.index import EMPTY, Index, index_of
from gradlint.static.text.nodes import Tree, Trees, parse_module
from gradlint.static.text.units import Unit

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


#: of what libcst says
_DETAILS = re.compile(r"^parser error: error at \d+:\d+: |(?<=expected one of ).*, (?=[A-Z][a-z])")


class Module:
    """A file of the project, or a folder that is a namespace package.

    Args:
        source: its text; empty for a namespace package.
        name: its dotted name, as seen from the folder above its outermost package.
        package: the dotted name of the package its relative imports start from; empty outside of packages.
        is_package: it is an ``__init__.py`` or a namespace package.
        folder: where its submodules are; None if it can have none.
        trees: what keeps the trees of its units.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        package: str = "",
        *,
        is_package: bool = False,
        folder: Path | None = None,
        trees: Trees | None = None,
    ) -> None:
        self.source = source
        self.name = name
        self.package = package
        self.is_package = is_package
        self.folder = folder
        self.trees = trees or Trees()
        self.trees.belongs(source.text)
        self.rejected: dict[int, SourceError] = {}
        """By their first rows, why units that were needed could not be parsed."""
        self._tree: Tree | SourceError | None = None

    @property
    def path(self) -> Path:
        """The file, as it is to be shown."""
        return self.source.path

    @cached_property
    def words(self) -> frozenset[str]:
        """The identifiers in its text, those in comments and strings too."""
        return frozenset(words_in(self.source.text))

    @cached_property
    def may_freeze(self) -> bool:
        """Whether anything in it may freeze parameters."""
        return may_freeze(self.source.text)

    @cached_property
    def definitions(self) -> Mapping[str, DefinitionUnit]:
        """The functions and classes of its body by name; the first where there are several."""
        units = [unit for unit in self.units if isinstance(unit, (FunctionUnit, ClassUnit))]
        return {unit.name: unit for unit in reversed(units)}

    @property
    def units(self) -> tuple[Unit, ...]:
        """The statements of its body, in order; none if it is not Python."""
        return self.index.units

    @property
    def imports(self) -> tuple[tuple[int, str, str | None, str], ...]:
        """Its import statements; see :func:`~gradlint.static.text.index.imports_in`."""
        return self.index.imports

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that its body may bind, but for those that ``import *`` brings."""
        found = {bound for _, _, _, bound in self.imports}
        for unit in self.units:
            found.update((unit.name,) if isinstance(unit, (FunctionUnit, ClassUnit)) else assigned_in(unit.text))
        return frozenset(found)

    @property
    def index(self) -> Index:
        """What stands in its body; nothing if it is not Python."""
        return EMPTY if isinstance(self._read, SourceError) else self._read

    def check(self) -> None:
        """Raise a SourceError if it is not Python."""
        if isinstance(self._read, SourceError):
            raise self._read

    @cached_property
    def _read(self) -> Index | SourceError:
        try:
            return index_of(self)
        except SourceError as error:
            return error
        except Exception as fault:  # noqa: BLE001 -- it costs what this file tells, not what those that import it do
            told = self.error(1, 1, f"internal error: {type(fault).__name__}: {fault}")
            told.__cause__ = fault
            return told

    @property
    def tree(self) -> Tree:
        """The whole file as libcst parses it.

        Raises:
            SourceError: libcst rejects the file.
        """
        if self._tree is None:
            try:
                self._tree = Tree(parse_module(self.source.text))
            except cst.ParserSyntaxError as error:
                reason = f"it cannot be parsed, although Python can: {_DETAILS.sub('', error.message)}"
                self._tree = self.error(error.raw_line, error.raw_column + 1, reason)
            except (RecursionError, MemoryError, ValueError, TypeError) as error:
                self._tree = self.error(1, 1, f"it cannot be parsed: {type(error).__name__}: {error}")
        if isinstance(self._tree, SourceError):
            raise self._tree
        return self._tree

    def error(self, row: int, column: int, reason: str) -> SourceError:
        """What is wrong at a row of the text."""
        cell, row = self.source.place(row)
        return SourceError(self.path, row, column, reason, cell)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"
