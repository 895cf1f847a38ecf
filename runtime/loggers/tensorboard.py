"""Findings and gradient norms in TensorBoard: numbers as scalars, findings as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlint.finding import Finding

from .markdown import as_markdown
from .origin import is_of


def is_writer(given: Any) -> bool:
    """Whether it is the ``SummaryWriter`` of ``torch.utils.tensorboard`` or of ``tensorboardX``."""
    return is_of(given, "torch", "SummaryWriter") or is_of(given, "tensorboardX", "SummaryWriter")


class TensorBoardLogger:
    """Writes with a ``SummaryWriter``, which stays the user's to flush and to close."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Add a scalar for each."""
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, step)

    def log_finding(self, finding: Finding, step: int) -> None:
        """Add a text under the code of the rule."""
        self._writer.add_text(f"gradlint/{finding.code}", as_markdown(finding), step)
