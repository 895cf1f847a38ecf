"""What is measured and found, on its way to the logger of the user.  Nothing here imports torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradlint.events import GradientsMeasured
from gradlint.finding import Finding, Site

from .loggers import logger_of
from .perlayer import layers

if TYPE_CHECKING:
    from .calls import StepCall


class Log:
    """A witness that reports nothing: it counts steps, and keeps what the logger is to be given outside of the guard.

    Args:
        given: a logger as the user named it; None for none.

    Raises:
        TypeError: it is no logger.
    """

    def __init__(self, given: Any) -> None:
        self._logger = None if given is None else logger_of(given)
        self._steps: Counter[int] = Counter()  # by the id of an optimizer
        self._found = 0
        self.waiting: dict[tuple[Site, int], dict[str, float]] = {}  #: norms by parameter, by backward pass and step

    @property
    def wanted(self) -> bool:
        """Whether there is a logger."""
        return self._logger is not None

    def step_begins(self, call: StepCall) -> None:
        self._steps[id(call.optimizer)] += 1

    def measured(self, event: GradientsMeasured) -> None:
        """Gradient norms arrived; of parameters on several devices in parts."""
        if self._logger is not None:
            norms = {name: values[-1] for name, values in event.norms.items() if values}
            self.waiting.setdefault((event.site, event.step), {}).update(norms)

    def deliver(self, fresh: Iterable[Finding]) -> Exception | None:
        """Give the logger what waits, and findings that are seen for the first time.

        What it raises is returned, and ends nothing but this: the logger is given nothing more.
        """
        waiting, self.waiting = self.waiting, {}
        if self._logger is None:
            return None
        try:
            for (_, step), norms in waiting.items():
                numbers = {f"gradlint/gradient_norm/{layer}": norm for layer, norm in layers(norms).items()}
                numbers["gradlint/total_gradient_norm"] = math.hypot(*norms.values())
                self._logger.log_numbers(numbers, step)
            step = max(self._steps.values(), default=0)
            for finding in fresh:
                self._found += 1
                self._logger.log_finding(finding, step)
                self._logger.log_numbers({"gradlint/findings": float(self._found)}, step)
        except Exception as error:  # noqa: BLE001  the training goes on without what watches it
            self._logger = None
            return error
        return None
