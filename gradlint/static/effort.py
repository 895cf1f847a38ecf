"""What is spent on definitions that nothing calls, where no order of events matters: in proportion to their code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.triggers import Feature
from gradlint.static.units import ClassUnit, FunctionUnit, Unit

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from gradlint.static.reach import Reach
    from gradlint.static.units import DefinitionUnit, Module

PER_LINE = 4  #: statements executed for a line of a file
PER_FILE = 500  #: the same for a file, however short
PER_OWN_LINE = 4  #: statements executed for a line of a definition, where its file has used up what it has
PER_DEFINITION = 300  #: the same for a definition, however short


class Effort:
    """Keeps the time for a file in proportion to its size.

    Where events have an order, an entry point is followed to its end; who calls what with which values may be all that
    tells a mistake.

    Args:
        reach: what names lead to.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._left: dict[Module, int] = {}
        self._familiar: set[Unit] = set()  #: what was executed, or built, or named where that was

    def is_due(self, unit: FunctionUnit) -> bool:
        """Whether a function does more than to give other values to what is familiar, as variants of a model do."""
        named = self._named(unit)
        mentioned = self._reach.scope(unit.module).mentions(unit)
        return not named or not self._familiar.issuperset(named) or bool(mentioned & ~Feature.TRAINABLE)

    def steps(self, unit: DefinitionUnit) -> int:
        """The statements that may be executed for a definition."""
        own = PER_DEFINITION + PER_OWN_LINE * _lines(unit.text)
        return max(own, self._left_of(unit.module))

    def spent(self, unit: DefinitionUnit, steps: int, met: AbstractSet[Unit]) -> None:
        """A definition was followed for so many steps, and these functions and classes were met."""
        self._left[unit.module] = self._left_of(unit.module) - steps
        self._familiar |= met
        if isinstance(unit, FunctionUnit):
            self._familiar |= self._named(unit)

    def _left_of(self, module: Module) -> int:
        left = self._left.get(module)
        return PER_FILE + PER_LINE * _lines(module.source.text) if left is None else left

    def _named(self, unit: Unit) -> set[Unit]:
        leads = self._reach.scope(unit.module).leads_to(unit)
        return {other for other in leads if isinstance(other, (FunctionUnit, ClassUnit))}


def _lines(text: str) -> int:
    return text.count("\n") + 1
