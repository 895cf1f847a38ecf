"""The project around the files that are checked: which file an import leads to, and which files import one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from gradlint.source import Source, SourceError, read_source
from gradlint.static.index import index
from gradlint.static.units import Module

__all__ = ["Module", "Project"]

#: names that mean the installed package wherever they are imported, even if a folder of the project bears them
INSTALLED = frozenset({"numpy", "torch", "torchvision"})
MARKERS = frozenset({".git", ".hg", "pyproject.toml", "setup.cfg", "setup.py"})
SKIPPED = frozenset(
    {"__pycache__", "build", "dist", "env", "node_modules", "site-packages", "venv", "wandb", "lightning_logs"}
)
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]*(?=[. \t])([.\w \t]+?)[ \t]*\bimport\b[ \t]*(\([^)]*\)|(?:[^\r\n;#\\]|\\\r?\n)*)"
    rb"|import[ \t]+((?:[^\r\n;#\\]|\\\r?\n)*))",
    re.MULTILINE,
)
_IMPORT_IN_JSON = re.compile(rb"(?:from|import)[ \t]([^\n\"]*)")
_WORD = re.compile(rb"\w+")


class Project:
    """The modules of a project, read when they are first needed.

    Args:
        roots: the files and folders that are checked.
        read: how to read a file.
    """

    def __init__(self, roots: Sequence[Path], *, read: Callable[[Path], Source] = read_source) -> None:
        self._roots = [_absolute(root) for root in roots]
        self._read = read
        self._modules: dict[str, Module | SourceError] = {}  # by real path
        self._folders: dict[Path, dict[str, bool]] = {}
        self._tops: dict[Path, Path] = {}
        self._resolved: dict[tuple[Path, str], Module | None] = {}
        self._importing: dict[Path, dict[Path, frozenset[bytes]]] = {}

    @property
    def modules_loaded(self) -> tuple[Module, ...]:
        """The modules that have been read, in the order of reading."""
        return tuple(module for module in self._modules.values() if isinstance(module, Module))

    def module(self, path: Path) -> Module:
        """The module at ``path``.

        Raises:
            SourceError: it cannot be read, or is not Python.
        """
        key = os.path.realpath(path)
        known = self._modules.get(key)
        if known is None:
            try:
                known = self._load(path)
            except SourceError as error:
                known = error
            self._modules[key] = known
        if isinstance(known, SourceError):
            raise known
        return known

    def resolve(self, name: str, importer: Module) -> Module | None:
        """The module of the project that ``import name`` means in ``importer``; None if it is installed elsewhere."""
        parts = name.split(".")
        if not all(parts) or parts[0] in INSTALLED or parts[0] in sys.builtin_module_names:
            return None
        folder = self._folder_of(importer)
        key = (folder, name)
        if key not in self._resolved:
            self._resolved[key] = self._search(parts, folder)
        return self._resolved[key]

    def resolve_relative(self, level: int, name: str, importer: Module) -> Module | None:
        """The module that ``from ...name import`` means in ``importer``, with ``level`` dots."""
        folder = self._folder_of(importer)
        top = self._top(folder)
        for _ in range(level - 1):
            if folder == top:
                return None
            folder = folder.parent
        return self._below(folder, name, top) if name else self._package(folder, top)

    def submodule(self, package: Module, name: str) -> Module | None:
        """The module ``name`` inside of a package."""
        if package.folder is None:
            return None
        return self._below(package.folder, name, self._top(package.folder))

    def importers_of(self, paths: Iterable[Path]) -> list[Path]:
        """The files of the project that may import one of ``paths``, directly or not, those left out; sorted.

        It goes by the words in their import statements, so that some of the files may not import any of them.
        """
        given = {_absolute(path) for path in paths}
        importing: dict[Path, frozenset[bytes]] = {}
        for top in sorted({self._top(path.parent) for path in given}):
            importing |= self._imports_in(top)
        found: set[Path] = set()
        names = {_last_name(path) for path in given}
        while names:
            more = {path for path, words in importing.items() if path not in found and not names.isdisjoint(words)}
            found |= more
            names = {_last_name(path) for path in more if path.suffix == ".py"}
        return sorted(found - given)

    # --- loading -----------------------------------------------------------------------------------------------

    def _load(self, path: Path) -> Module:
        source = self._read(path)
        place = _absolute(path)
        names = [] if place.name == "__init__.py" else [place.stem]
        folder = place.parent
        while self._is_package(folder) and folder.parent != folder:
            names.insert(0, folder.name)
            folder = folder.parent
        is_package = place.name == "__init__.py"
        package = ".".join(names if is_package else names[:-1])
        own = place.parent if is_package else None
        module = Module(source, ".".join(names), package, is_package=is_package, folder=own)
        index(module)
        return module

    def _namespace(self, folder: Path) -> Module:
        key = os.path.realpath(folder)
        known = self._modules.get(key)
        if not isinstance(known, Module):
            known = Module(Source(folder, ""), folder.name, folder.name, is_package=True, folder=folder)
            self._modules[key] = known
        return known

    # --- finding -----------------------------------------------------------------------------------------------

    def _search(self, parts: list[str], folder: Path) -> Module | None:
        top = self._top(folder)
        packaged = self._is_package(folder)
        if parts[0] in sys.stdlib_module_names:  # a script's own folder comes before the standard library
            found = None if packaged else self._descend(folder, parts, top)
            return None if found is None or _is_namespace(found) else found
        namespace = None
        for base in self._search_path(folder, top, packaged=packaged):
            found = self._descend(base, parts, top)
            if found is not None and not _is_namespace(found):
                return found
            namespace = namespace or found
        return namespace

    def _search_path(self, folder: Path, top: Path, *, packaged: bool) -> Iterator[Path]:
        """Where Python may look for what a file in ``folder`` imports, the likeliest first."""
        above = folder
        while self._is_package(above) and above != top:
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
        return iter(dict.fromkeys(bases))

    def _below(self, folder: Path, name: str, top: Path) -> Module | None:
        key = (folder, "." + name)
        if key not in self._resolved:
            self._resolved[key] = self._descend(folder, name.split("."), top)
        return self._resolved[key]

    def _package(self, folder: Path, top: Path) -> Module | None:
        return self._imported(folder / "__init__.py", top) if self._is_package(folder) else self._namespace(folder)

    def _descend(self, base: Path, parts: list[str], top: Path) -> Module | None:
        """The module at the end of ``parts`` below ``base``, within ``top``."""
        *packages, last = parts
        for package in packages:
            if not self._entries(base).get(package, False):
                return None
            base = base / package
        entries = self._entries(base)
        folder = base / last
        if entries.get(last, False) and self._is_package(folder):
            return self._imported(folder / "__init__.py", top)
        if entries.get(f"{last}.py") is False:
            return self._imported(base / f"{last}.py", top)
        if entries.get(last, False) and self._holds_python(folder) and _is_within(folder, top):
            return self._namespace(folder)
        return None

    def _imported(self, path: Path, top: Path) -> Module | None:
        if not _is_within(path, top):
            return None
        try:
            return self.module(path)
        except SourceError:  # told where the file itself is checked
            return None

    def _folder_of(self, module: Module) -> Path:
        return module.folder or _absolute(module.path).parent

    def _is_package(self, folder: Path) -> bool:
        return self._entries(folder).get("__init__.py") is False

    def _holds_python(self, folder: Path) -> bool:
        entries = self._entries(folder)
        return any(name.endswith(".py") or is_folder for name, is_folder in entries.items())

    def _entries(self, folder: Path) -> dict[str, bool]:
        """The names in a folder as they are spelled, and whether each is a folder."""
        known = self._folders.get(folder)
        if known is None:
            try:
                with os.scandir(folder) as entries:
                    known = {entry.name: entry.is_dir() for entry in entries}
            except OSError:
                known = {}
            self._folders[folder] = known
        return known

    def _top(self, folder: Path) -> Path:
        """The project's root: the outermost of the nearest folder with a marker and the given roots."""
        known = self._tops.get(folder)
        if known is None:
            lineage = [folder, *folder.parents]
            marked = next((each for each in lineage if not MARKERS.isdisjoint(self._entries(each))), folder)
            candidates = [marked, *(root for root in self._roots if root in lineage)]
            known = min(candidates, key=lambda each: len(each.parts))
            while self._is_package(known) and known.parent != known:
                known = known.parent
            self._tops[folder] = known
        return known

    def _imports_in(self, top: Path) -> dict[Path, frozenset[bytes]]:
        """The words in the import statements of each file below ``top``."""
        known = self._importing.get(top)
        if known is None:
            known = {path: _imported_words(path) for path in _files_below(top)}
            self._importing[top] = known
        return known


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _is_namespace(module: Module) -> bool:
    return module.is_package and module.path == module.folder


def _is_within(path: Path, top: Path) -> bool:
    """Whether ``path`` is really below ``top``, wherever links lead."""
    real, root = os.path.realpath(path), os.path.realpath(top)
    return real.startswith(root.rstrip(os.sep) + os.sep)


def _last_name(path: Path) -> bytes:
    return os.fsencode(path.parent.name if path.name == "__init__.py" else path.stem)


def _files_below(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")):
                yield Path(folder, name)


def _imported_words(path: Path) -> frozenset[bytes]:
    try:
        data = path.read_bytes()
    except OSError:
        return frozenset()
    pattern = _IMPORT_IN_JSON if path.suffix == ".ipynb" else _IMPORT
    return frozenset(
        word for match in pattern.finditer(data) for part in match.groups(b"") for word in _WORD.findall(part)
    )
