"""What is left out where something takes too many steps: other packages first, then what has taken most of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradlint.static.python.budget import Budget
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project
    from gradlint.static.text.reach import Reach
    from gradlint.static.text.units import Unit

TRIES = 3  #: how often something is followed once more because it took too many steps
TRIES_AGAIN = 1  #: the same of what is followed only for what its callers did not come to
OFTEN = 2  #: entry points of one package that took too long with others followed, until none of them are
LONG = 2_000  #: statements after which it is worth looking for what has taken most of them


class Patience:
    """Decides what is worth another try, and with how much less to follow."""

    _project: Project
    _reach: Reach
    _budget: Budget

    def __init__(self) -> None:
        self._tops: dict[Path, Path] = {}
        self._too_long: Counter[Path] = Counter()

    def far(self, home: Module, *, near: bool) -> Callable[[Module], bool] | None:
        """Which files are not followed from one; None if all are.

        Args:
            home: the file.
            near: it took too long with all of them.
        """
        near = near or self._too_long[self._top(home)] >= OFTEN
        return self.elsewhere(home) if near else None

    def elsewhere(self, home: Module) -> Callable[[Module], bool]:
        """Whether a file belongs to another package than one that is followed."""
        return partial(self.apart, home)

    def apart(self, one: Module, other: Module) -> bool:
        """Whether two files belong to different packages."""
        return self._top(one) != self._top(other)

    def is_worth_another(self, home: Module, near: Callable[[Unit], bool], *, all_followed: bool) -> bool:
        """Whether something that took too many steps is worth another try, with less to follow.

        Args:
            home: the file it stands in.
            near: whether a function belongs to it, and is to be followed whatever it takes.
            all_followed: other packages were followed, too.
        """
        long = self._budget.spent > LONG
        if all_followed and long:
            self._too_long[self._top(home)] += 1
            self._budget.shun(self.elsewhere(home))
        blamed = long and self._budget.blame(self._reach.stands_aside, near)
        return blamed or all_followed

    def _top(self, module: Module) -> Path:
        """The folder of the outermost package that a file is in; of a script, its own folder."""
        folder = module.path.parent
        known = self._tops.get(folder)
        if known is None:
            known = folder
            is_package = self._project.is_package
            while is_package(known) and is_package(known.parent):
                known = known.parent
            self._tops[folder] = known
        return known
