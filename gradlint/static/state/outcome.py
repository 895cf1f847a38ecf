"""How a piece of code may end."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradlint.static.state.values import Value
from gradlint.static.state.world import World

MAX_EXITS = 4  #: worlds in which a loop or a function may be left

Results = list[tuple[World, Value]]


@dataclass(slots=True)
class Outcome:
    """How a block may have ended."""

    normal: list[World] = field(default_factory=list)
    breaks: list[World] = field(default_factory=list)
    continues: list[World] = field(default_factory=list)
    returns: Results = field(default_factory=list)

    @property
    def exits(self) -> list[World]:
        """The worlds in which it was left, apart from its normal end."""
        return [*self.breaks, *self.continues, *(world for world, _ in self.returns)]

    def absorb(self, other: Outcome) -> None:
        """Take over the ways ``other`` was left, apart from its normal end."""
        self.breaks += other.breaks
        self.continues += other.continues
        self.returns += other.returns
