"""Which code of other files matters to those that are checked: what leads to them, and what enters into registries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.text.chains import Chain, assigned_in, chains_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.importers import absolute
from gradlint.static.text.index import may_store_argument
from gradlint.static.text.triggers import Feature
from gradlint.static.text.units import Unit

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project
    from gradlint.static.text.reach import Reach


_HEADER = re.compile(r"\bdef\s+\w+(?:\[[^\]]*\])?\s*\(")
_PARAMETER = re.compile(r"(?:\s|#[^\n]*\n|[*/],?)*(\w+)")
_MARK = re.compile(r"[\[({\])},]|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*")
_OPENING, _CLOSING = frozenset("[({"), frozenset("])}")


class Callers:
    """Tells which units lead to one of some files.

    Args:
        reach: what names mean.
        targets: the files.
    """

    def __init__(self, reach: Reach, targets: Iterable[Module]) -> None:
        self._reach = reach
        self._bound: dict[Unit, set[str]] = {}
        self._leading = {
            unit
            for module in targets
            for unit in module.units
            if reach.scope(module).mentions(unit) != Feature(0)  # nothing is reported where nothing is met
        }
        self._others: set[Unit] = set()

    def among(self, units: Iterable[Unit]) -> list[Unit]:
        """Those of some units from which execution may get to one of the files, be it through others."""
        return [unit for unit in units if self._leads(unit)]

    def _leads(self, start: Unit) -> bool:
        path, seen = [(start, self._ahead(start))], {start}
        while path:
            unit, ahead = path[-1]
            if unit in self._leading:
                self._leading.update(each for each, _ in path)
                return True
            other = next((each for each in ahead if each not in seen and each not in self._others), None)
            if other is None:
                path.pop()
            else:
                seen.add(other)
                path.append((other, self._ahead(other)))
        self._others |= seen
        return False

    def _ahead(self, unit: Unit) -> Iterator[Unit]:
        """What is executed, or looked at, by executing a unit."""
        scope = self._reach.scope(unit.module)
        for chain in _chains_of(unit):
            for other in scope.targets(chain) if chain.parts[0] else ():
                if isinstance(other, (FunctionUnit, ClassUnit)) or not self._binds(other).isdisjoint(chain.parts):
                    yield other

    def _binds(self, unit: Unit) -> set[str]:
        known = self._bound.get(unit)
        if known is None:
            known = self._bound[unit] = assigned_in(unit.text)
        return known


def _chains_of(unit: Unit) -> Iterable[Chain]:
    """The chains of names in a unit, but for those that begin with a parameter of the function they stand in."""
    if isinstance(unit, ClassUnit):
        header = unit.text.partition(unit.body[0].text)[0] if unit.body else unit.text
        return dict.fromkeys((*chains_in(header), *(chain for part in unit.body for chain in _chains_of(part))))
    chains = () if unit.is_import else chains_in(unit.text)
    parameters = _parameters(unit.text) if isinstance(unit, FunctionUnit) else set()
    return [chain for chain in chains if chain.parts[0] not in parameters]


def _parameters(text: str) -> set[str]:
    """The names of the parameters of a function."""
    header = _HEADER.search(text)
    found: set[str] = set()
    depth, place = 1, header.end() if header else len(text)
    while depth and (name := _PARAMETER.match(text, place)):
        found.add(name[1])
        place = name.end()
        for mark in _MARK.finditer(text, place):
            depth += (mark[0] in _OPENING) - (mark[0] in _CLOSING)
            place = mark.end()
            if not depth or (depth == 1 and mark[0] == ","):
                break
    return found


class Registrations:
    """Tells which files must be executed where they are imported, and not only where something of them is used.

    Args:
        project: where the modules that import statements name are found.
        reach: what names lead to.
    """

    def __init__(self, project: Project, reach: Reach) -> None:
        self._project = project
        self._reach = reach
        self._known: dict[Module, bool] = {}

    def among(self, module: Module) -> bool:
        """Whether the body of a file, or of those that a package brings together, changes objects of another file."""
        known = self._known.get(module)
        if known is None:
            self._known[module] = False  # it may lead back here
            known = self._known[module] = self._changes_others(module) or (
                module.is_package
                and any(
                    self.among(each)
                    for level, name in sorted(module.index.executed)
                    for each in self.imported(level, name, module)
                )
            )
        return known

    def _changes_others(self, module: Module) -> bool:
        changed = module.index.changed
        if changed is None:
            return True
        own = {unit.name for unit in module.units if isinstance(unit, (FunctionUnit, ClassUnit))}
        kept = any(self._keeps(module, name) for name in changed - own)
        return kept or any(self._reach.keeps_derived(unit) for unit in module.units)

    def _keeps(self, module: Module, name: str) -> bool:
        """Whether a name means an object of another file that may keep what it is given, or be changed itself."""
        if name in module.bound and all(bound != name for _, _, _, bound in module.imports):
            return False
        found = self._reach.member(module, name)
        if not isinstance(found, tuple):
            return True
        return any(unit.module is not module and may_store_argument(unit) for unit in found)

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
