"""The guard as a callback of the Trainer of Lightning, as ``lightning`` or ``pytorch_lightning``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradlint.finding import Finding
from gradlint.runtime import OnFinding

from .lifetime import GuardOfTrainer

if TYPE_CHECKING:
    Callback: Any
elif "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback


class GuardCallback(Callback):  # type: ignore[misc]  # one of two classes, neither of which mypy need know
    """Watches ``trainer.fit()``: ``Trainer(callbacks=[GuardCallback()])``.  The arguments are those of the guard."""

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

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._training.begin(pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._training.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._training.end(exception)
