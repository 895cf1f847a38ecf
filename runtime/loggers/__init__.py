"""Where a guard tells what it measures and finds while the training goes on, besides its report.

- :mod:`gradlint.runtime.loggers.tensorboard`: a ``SummaryWriter``
- :mod:`gradlint.runtime.loggers.wandb`: a run of Weights & Biases
- :mod:`gradlint.runtime.loggers.mlflow`: a run of MLflow

Nothing here imports torch or any of these libraries: who logs to one has imported it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from gradlint.finding import Finding

from .mlflow import MlflowLogger, is_mlflow
from .tensorboard import TensorBoardLogger, is_writer
from .wandb import WandbLogger, is_wandb


@runtime_checkable
class Logger(Protocol):
    """What ``gradlint.guard(…, logger=…)`` asks of an object that is none of the libraries' own."""

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> object:
        """Take numbers by their names.

        Args:
            numbers: ``gradlint/gradient_norm/LAYER``, the norm of the gradients of a layer, and
                ``gradlint/total_gradient_norm``, that of all of an optimizer; ``gradlint/findings``, how many mistakes
                were found so far.  Norms need not be finite.
            step: of the optimizer, counted from 1; for findings, of the one that has made most of them.
        """
        ...

    def log_finding(self, finding: Finding, step: int) -> object:
        """Take a mistake, when it is first seen."""
        ...


class CallableLogger:
    """A function of numbers and a step, as :meth:`Logger.log_numbers` takes them."""

    def __init__(self, function: Callable[[Mapping[str, float], int], object]) -> None:
        self._function = function

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Hand them on."""
        self._function(numbers, step)

    def log_finding(self, finding: Finding, step: int) -> None:
        """A finding is no number; ``on_finding`` takes a function of findings."""


def logger_of(given: Any) -> Logger:
    """The logger for what a user has at hand.

    Args:
        given: a ``SummaryWriter``, a run of Weights & Biases or MLflow or one of these two modules, a :class:`Logger`,
            or a function of numbers and a step.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(given, Logger) and not isinstance(given, type):
        return given
    if is_writer(given):
        return TensorBoardLogger(given)
    if is_wandb(given):
        return WandbLogger(given)
    if is_mlflow(given):
        return MlflowLogger(given)
    if callable(given) and not isinstance(given, type):
        return CallableLogger(given)
    raise TypeError(
        "logger is a SummaryWriter, a run of Weights & Biases or MLflow, a function of numbers and a step, or has the "
        f"methods log_numbers and log_finding; it is no {type(given).__name__}"
    )
