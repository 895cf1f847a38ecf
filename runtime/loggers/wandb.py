"""Findings and gradient norms in Weights & Biases: numbers beside those of the run, findings as a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from gradlint.finding import Finding

from .origin import is_module, is_of

COLUMNS = ["step", "code", "name", "severity", "place", "message", "help"]


def is_wandb(given: Any) -> bool:
    """Whether it is a run of Weights & Biases, or the library itself."""
    return is_module(given, "wandb") or is_of(given, "wandb", "Run")


class WandbLogger:
    """Logs to a run, at the step where the run is: no step of its own is begun, whose number would shift the others.

    Args:
        given: a run, or ``wandb``, whose run is then the one under way.
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self._rows: list[list[object]] = []

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Add them to what the run logs next."""
        self._run.log(dict(numbers), commit=False)

    def log_finding(self, finding: Finding, step: int) -> None:
        """Log the table of all findings so far."""
        self._rows.append(
            [
                step,
                finding.code,
                finding.name,
                finding.severity.value,
                str(finding.location),
                finding.message,
                finding.remedy,
            ]
        )
        table = sys.modules["wandb"].Table(columns=COLUMNS, data=[list(row) for row in self._rows])
        self._run.log({"gradlint/table": table}, commit=False)

    @property
    def _run(self) -> Any:
        run = self._given.run if is_module(self._given, "wandb") else self._given
        if run is None:
            raise RuntimeError("no run of Weights & Biases is under way: call wandb.init() before")
        return run
