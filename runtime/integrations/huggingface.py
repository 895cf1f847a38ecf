"""The guard as a callback of the Trainer of Hugging Face Transformers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transformers import TrainerCallback

from gradlint.finding import Finding
from gradlint.runtime import OnFinding

from .lifetime import GuardOfTrainer


class GuardCallback(TrainerCallback):  # type: ignore[misc]  # unknown to mypy where Transformers is not installed
    """Watches ``trainer.train()``: ``Trainer(…, callbacks=[GuardCallback()])``.

    The arguments are those of :func:`gradlint.guard`.  The Trainer tells no callback that a training raised: the guard
    then stays until the next training begins, :meth:`close` is called, or the callback is gone.
    """

    def __init__(
        self,
        on_finding: OnFinding = "warn",
        select: str | Iterable[str] | None = None,
        ignore: str | Iterable[str] | None = None,
        exact: bool | float = False,
        logger: Any = None,
        include_libraries: bool = False,
    ) -> None:
        self._training = GuardOfTrainer(on_finding, select, ignore, exact, logger, include_libraries)

    @property
    def findings(self) -> list[Finding]:
        """What was found in the training under way, or else in the last one."""
        return self._training.findings

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._training.begin(*([] if model is None else [model]))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._training.end()

    def close(self) -> None:
        """Stop watching a training that raised."""
        self._training.end()
