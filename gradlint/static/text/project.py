"""The project around the files that are checked: its modules, read when something leads to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.consulted import digest_of
from gradlint.disk import Disk
from gradlint.footprint import Footprint
from gradlint.source import Source, SourceError, read_source
from gradlint.static.text.importers import Importers, Layout, absolute
from gradlint.static.text.trees import Trees

if TYPE_CHECKING:
    from gradlint.static.text.files import Module

CALLERS = 128 * 1024  #: characters of code in files that import others and are followed for these, some 3,500 lines
_STAR = re.compile(r"\bimport[ \t]*\*")


class Project:
    """The modules of a project.

    Args:
        roots: the files and folders that are checked.
        read: how to read a file.
        disk: what folders are listed from.
        sources: folders that imports are looked for in, after those around a file.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        read: Callable[[Path], Source] = read_source,
        disk: Disk | None = None,
        sources: Sequence[Path] = (),
    ) -> None:
        self._read = read
        self.disk = disk or Disk()
        self._layout = Layout(roots, self.disk, sources)
        self._importers = Importers(self._layout)
        self._modules: dict[str, Module | SourceError] = {}  # by real path
        self._parts: dict[Path, int] = {}  #: those that were read, by the number of the part that imports make of them
        self.trees = Trees()  #: those of all modules
        self._offered: dict[tuple[Module, str], bool] = {}
        self._starred: dict[Module, tuple[Module, ...]] = {}
        self._footprint: Footprint | None = Footprint()  # None after something that cannot be asked again

    def apart(self) -> Project:
        """The same project, of which nothing has been read yet."""
        other = copy(self)
        other.forget()
        return other

    def forget(self) -> None:
        """Let go of all modules that have been read."""
        self._modules, self._offered, self._starred, self._footprint = {}, {}, {}, Footprint()
        self._parts = {}
        self.trees = Trees()

    def footprint(self) -> Footprint | None:
        """What was asked since; None where it cannot be told, because a file could not be read."""
        return self._footprint

    def still(self, footprint: Footprint) -> bool:
        """Whether all answers would be the same."""
        return (
            all(self._look(Path(path)) == seen for path, seen in footprint.files.items())
            and all(
                _spelled(self._find(Path(folder), level, name)) == found
                for (folder, level, name), found in footprint.imports.items()
            )
            and all(self._layout.is_package(Path(folder)) == seen for folder, seen in footprint.packages.items())
        )

    def _look(self, path: Path) -> tuple[str, bytes] | None:
        try:
            return self.disk.real(path), digest_of(self._read(path).data)
        except SourceError:
            return None

    @property
    def modules_loaded(self) -> tuple[Module, ...]:
        """The modules that have been read, in the order of reading."""
        return tuple(module for module in self._modules.values() if not isinstance(module, SourceError))

    def may_freeze(self, module: Module) -> bool:
        """Whether a module that was read, or one of those that imports connect with it, may freeze parameters."""
        read = self.modules_loaded
        freezing = {each.path for each in read if each.may_freeze}
        if not freezing or module.path in freezing:
            return bool(freezing)
        if len(read) > len(self._parts):
            parts = self.components([each.path for each in read])
            self._parts = {path: number for number, part in enumerate(parts) for path in part}
        return any(self._parts[path] == self._parts[module.path] for path in freezing)

    def module(self, path: Path) -> Module:
        """The module at ``path``.

        Raises:
            SourceError: it cannot be read, or is not Python.
        """
        known = self._loaded(path)
        if isinstance(known, SourceError):
            raise known
        known.check()
        return known

    def resolve(self, name: str, importer: Module) -> Module | None:
        """The module of the project that ``import name`` means in ``importer``; None if it is installed elsewhere."""
        return self.imported(0, name, importer)

    def imported(self, level: int, name: str, importer: Module) -> Module | None:
        """The module that ``from ...name import`` means in ``importer``, with ``level`` dots: 0 for none."""
        return self._at(self._asked(_folder_of(importer), level, name))

    def holds(self, level: int, name: str, importer: Module) -> bool:
        """Whether what an import statement of ``importer`` names is a file of the project; it is not read."""
        return self._asked(_folder_of(importer), level, name) is not None

    def submodule(self, package: Module, name: str) -> Module | None:
        """The module ``name`` inside of a package."""
        return None if package.folder is None else self._at(self._asked(package.folder, 1, name))

    def offers(self, module: Module, name: str) -> bool:
        """Whether ``from module import *`` may bring a name, be it from behind others of its kind."""
        known = self._offered.get((module, name))
        if known is None:
            self._offered[module, name] = False  # it may lead back here
            known = self._offered[module, name] = self._has(module, name) and (
                not name.startswith("_") if module.index.public is None else name in module.index.public
            )
        return known

    def _has(self, module: Module, name: str) -> bool:
        """Whether a module may bind a name, or bring it with everything else of another one."""
        if name in module.source.text and name in module.bound:
            return True
        return any(self.offers(star, name) for star in self._stars(module))

    def _stars(self, module: Module) -> tuple[Module, ...]:
        """The files of the project of which a module imports everything."""
        known = self._starred.get(module)
        if known is None:
            asked = _STAR.search(module.source.text) is not None  # the index of most need not be made
            imports = module.imports if asked else ()
            found = [self.imported(level, name, module) for level, name, item, _ in imports if item == "*"]
            known = self._starred[module] = tuple(each for each in found if each is not None)
        return known

    def _asked(self, folder: Path, level: int, name: str) -> Path | None:
        found = self._find(folder, level, name)
        if self._footprint is not None:
            self._footprint.imports[str(folder), level, name] = _spelled(found)
        return found

    def _find(self, folder: Path, level: int, name: str) -> Path | None:
        return self._layout.find_relative(level, name, folder) if level else self._layout.find(name, folder)

    def importers_of(self, paths: Iterable[Path], *, limit: int = 64, room: int = CALLERS) -> list[Path]:
        """The files of the project that import one of ``paths``, directly or through others, those left out; sorted.

        The nearest are taken first.  Where more than ``limit`` would come together, or more characters than ``room``
        and than the files themselves have, the farther ones are left out.
        """
        return self._importers.of(paths, limit, room)

    @property
    def importers_left_out(self) -> frozenset[Path]:
        """The nearest of the files that :meth:`importers_of` left out."""
        return frozenset(self._importers.left_out)

    def connected(self, paths: Iterable[Path], among: Sequence[Path]) -> list[Path]:
        """Those of some files that imports connect with one of ``paths``, in either direction, at any distance.

        Findings in others do not depend on what stands in ``paths``.
        """
        return self._importers.connected(paths, among, self.importers_of(among))

    def components(self, paths: Sequence[Path]) -> list[list[Path]]:
        """Files in groups that no import connects, in order.  No file that is not given may import one of them."""
        return self._importers.components(paths)

    def size(self, path: Path) -> int:
        """The number of bytes of a file; 0 if it cannot be read."""
        try:
            return len(self._read(path).data)
        except SourceError:
            return 0

    def _at(self, path: Path | None) -> Module | None:
        if path is None:
            return None
        if path.suffix != ".py":
            return self._namespace(path)
        known = self._loaded(path)
        return None if isinstance(known, SourceError) else known  # told where the file itself is checked

    def _loaded(self, path: Path) -> Module | SourceError:
        key = self.disk.real(absolute(path))
        known = self._modules.get(key)
        if known is None:
            try:
                known = self._load(path)
            except SourceError as error:
                known = error
            self._modules[key] = known
        return known

    def _load(self, path: Path) -> Module:
        from gradlint.static.text.files import Module  # with libcst, which need not be loaded where every part is known

        place = absolute(path)
        try:
            source = self._read(path)
        except SourceError:
            self._footprint = None
            raise
        if self._footprint is not None:
            self._footprint.files[str(place)] = self.disk.real(place), digest_of(source.data)
        is_package = place.name == "__init__.py"
        names = [] if is_package else [place.stem]
        folder = place.parent
        while self.is_package(folder) and folder.parent != folder:
            names.insert(0, folder.name)
            folder = folder.parent
        package = ".".join(names if is_package else names[:-1])
        own = place.parent if is_package else None
        source = replace(source, data=b"")  # what stands there is in the text
        return Module(source, ".".join(names), package, is_package=is_package, folder=own, trees=self.trees)

    def is_package(self, folder: Path) -> bool:
        """Whether a folder is a regular package."""
        found = self._layout.is_package(folder)
        if self._footprint is not None:
            self._footprint.packages[str(folder)] = found
        return found

    def _namespace(self, folder: Path) -> Module:
        key = self.disk.real(absolute(folder))
        known = self._modules.get(key)
        if known is None or isinstance(known, SourceError):
            from gradlint.static.text.files import Module

            known = Module(Source(folder, ""), folder.name, folder.name, is_package=True, folder=folder)
            self._modules[key] = known
        return known


def _spelled(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _folder_of(module: Module) -> Path:
    return module.folder or absolute(module.path).parent
