"""Files whose import changes what other files hold: those that enter something into a registry, above all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.layout import absolute
from gradlint.static.text.patterns import may_store_argument

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project
    from gradlint.static.text.reach import Reach


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
