"""How far files are from one another: what is in another package need not be followed where that costs too much."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project

OFTEN = 2  #: entry points of one package that took too long with others followed, until none of them are


class Distance:
    """Tells the files of one package from those of others.

    Args:
        project: the files.
    """

    def __init__(self, project: Project) -> None:
        self._is_package = project.is_package
        self._tops: dict[Path, Path] = {}
        self._too_long: Counter[Path] = Counter()

    def top(self, module: Module) -> Path:
        """The folder of the outermost package that a file is in; of a script, its own folder."""
        folder = module.path.parent
        known = self._tops.get(folder)
        if known is None:
            known = folder
            while self._is_package(known) and self._is_package(known.parent):
                known = known.parent
            self._tops[folder] = known
        return known

    def apart(self, one: Module, other: Module) -> bool:
        """Whether two files belong to different packages."""
        return self.top(one) != self.top(other)

    def took_too_long(self, module: Module) -> None:
        """An entry point in a file took too long where other packages were followed."""
        self._too_long[self.top(module)] += 1

    def is_too_far(self, module: Module) -> bool:
        """Whether what a file calls of other packages has turned out to be too costly."""
        return self._too_long[self.top(module)] >= OFTEN
