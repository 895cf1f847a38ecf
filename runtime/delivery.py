"""How what a guard finds reaches the program.  Imports without torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gradlint.finding import Finding

OnFinding = Literal["warn", "raise", "collect"] | Callable[[Finding], object]


class FindingWarning(UserWarning):
    """The category of the warnings a guard gives."""


class FindingError(RuntimeError):
    """Raised by a guard with ``on_finding="raise"``; ``finding`` says what was found."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding
