"""Many statements that bind one name, looked at as one, because each of them leads to all others."""

from __future__ import annotations

from collections.abc import Sequence

from gradlint.static.text.units import StatementUnit, Unit


class Statements(Unit):
    """Stands for many statements of a file."""

    def __init__(self, statements: tuple[Unit, ...]) -> None:
        super().__init__(statements[0].module, None)
        self.statements = statements


def together(units: Sequence[Unit]) -> list[Unit]:
    """Units, the statements among them as one."""
    statements = tuple(unit for unit in units if isinstance(unit, StatementUnit))
    others = [unit for unit in units if not isinstance(unit, StatementUnit)]
    return [*others, Statements(statements)] if statements else others
