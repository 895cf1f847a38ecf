"""Registries: what objects are handed to where they are defined, so that code which has the one leads to the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.text.chains import chains_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.importers import absolute
from gradlint.static.text.index import INIT_SUBCLASS, decorators_in, may_store_argument
from gradlint.static.text.units import Statements, StatementUnit, Unit

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project
    from gradlint.static.text.reach import Reach


class Entered(Statements):
    """Stands for all that stands in files which an import enters into a registry."""


class Registrations:
    """Tells what keeps definitions, and which files must be executed where they are imported, as that enters some.

    Args:
        project: where the modules that import statements name are found.
        reach: what names lead to.
    """

    def __init__(self, project: Project, reach: Reach) -> None:
        self._project = project
        self._reach = reach
        self._changed: dict[Module, frozenset[Module]] = {}
        self._known: dict[Module, bool] = {}
        self._kept: dict[Module, dict[Unit, list[Unit]]] = {}
        self._entered: dict[Module, dict[Module, Entered]] = {}
        self._of_imports: dict[Module, list[dict[Module, Entered]]] = {}

    def kept_by(self, unit: Unit) -> Iterable[Unit]:
        """The definitions of its file that a unit may keep: it decorates them, is derived from, or is their table."""
        kept = self._kept.get(unit.module)
        if kept is None:
            kept = self._kept[unit.module] = {}
            defined = self._reach.scope(unit.module).defined
            for each in unit.module.units:
                for keeper in self._keepers(each) if isinstance(each, (FunctionUnit, ClassUnit)) else ():
                    tables = (t for word in sorted(keeper.words & defined.keys()) for t in defined[word])
                    for holder in (keeper, *(table for table in tables if isinstance(table, StatementUnit))):
                        kept.setdefault(holder, []).append(each)
        return kept.get(unit, ())

    def _keepers(self, unit: FunctionUnit | ClassUnit) -> Iterator[Unit]:
        """What a definition is handed to where it stands."""
        scope = self._reach.scope(unit.module)
        for chain in chains_in(decorators_in(unit)):
            yield from filter(may_store_argument, scope.defined.get(chain.parts[0], ()))
        if isinstance(unit, ClassUnit) and INIT_SUBCLASS in unit.module.words:
            yield from (base for base in scope.hooked(unit) if base.module is unit.module)

    def entered(self, importer: Module, units: Iterable[Unit]) -> Iterator[Unit]:
        """What the imports of a file enter into the files that some units stand in."""
        known = self._of_imports.get(importer)
        if known is None:
            imports = sorted(importer.index.executed)
            imported = (module for level, name in imports for module in self.imported(level, name, importer))
            known = self._of_imports[importer] = [found for module in imported if (found := self._enters(module))]
        if known:
            holders = dict.fromkeys(unit.module for unit in units)
            yield from (found[holder] for found in known for holder in holders if holder in found)

    def _enters(self, module: Module) -> dict[Module, Entered]:
        """What the import of a module enters, by the files that hold it."""
        known = self._entered.get(module)
        if known is None:
            found: dict[Module, list[Unit]] = {}
            for each in self._brought(module, set()):
                for changed in self._changed_by(each):
                    found.setdefault(changed, []).extend(each.units)
            known = self._entered[module] = {holder: Entered(tuple(units)) for holder, units in found.items()}
        return known

    def among(self, module: Module) -> bool:
        """Whether the body of a file, or of those that a package brings together, changes objects of another file."""
        known = self._known.get(module)
        if known is None:
            self._known[module] = False  # it may lead back here
            known = self._known[module] = (
                module.index.changed is None
                or bool(self._changed_by(module))
                or any(map(self.among, self._gathered(module)))
            )
        return known

    def _brought(self, module: Module, seen: set[Module]) -> Iterator[Module]:
        """A file that changes objects of others, or those that a package brings together."""
        if module not in seen and self.among(module):
            seen.add(module)
            yield module
            for each in self._gathered(module):
                yield from self._brought(each, seen)

    def _gathered(self, module: Module) -> Iterator[Module]:
        """What a package brings together."""
        for level, name in sorted(module.index.executed) if module.is_package else ():
            yield from self.imported(level, name, module)

    def _changed_by(self, module: Module) -> frozenset[Module]:
        """The other files of which the body of one changes objects, as far as it tells."""
        known = self._changed.get(module)
        if known is None:
            own = {unit.name for unit in module.units if isinstance(unit, (FunctionUnit, ClassUnit))}
            names = (module.index.changed or frozenset()) - own
            keepers = {keeper for name in names for keeper in self._behind(module, name)}
            hooked = self._reach.scope(module).hooked
            bases = (base for unit in module.units if isinstance(unit, ClassUnit) for base in hooked(unit))
            known = self._changed[module] = frozenset(keepers | {base.module for base in bases}) - {module}
        return known

    def _behind(self, module: Module, name: str) -> Iterator[Module]:
        """The files in which a name means an object that may keep what it is given, or be changed itself."""
        if name in module.bound and all(bound != name for _, _, _, bound in module.imports):
            return
        found = self._reach.member(module, name)
        if isinstance(found, tuple):
            yield from (unit.module for unit in found if may_store_argument(unit))
        else:
            yield found

    def imported(self, level: int, name: str, importer: Module) -> Iterator[Module]:
        """The files of the project that are executed to import something: the packages it stands in, then itself.

        Those that the importer stands in itself are not among them: they are being executed already.
        """
        if (level, name) not in importer.index.executed:
            return
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            module = self._project.imported(level, ".".join(parts[:count]), importer)
            if module is None:
                return
            if module.folder is None or module.folder not in absolute(importer.path).parents:
                yield module
