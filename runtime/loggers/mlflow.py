"""Findings and gradient norms in MLflow: numbers as metrics, findings as an artifact in Markdown."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from typing import Any

from gradlint.finding import Finding

from .markdown import as_markdown
from .origin import is_module, is_of

AT_ONCE = 1000  #: metrics, which is as many as MLflow takes


def is_mlflow(given: Any) -> bool:
    """Whether it is a run of MLflow, or the library itself."""
    return is_module(given, "mlflow") or is_of(given, "mlflow", "Run")


class MlflowLogger:
    """Logs to a run.

    Args:
        given: a run, or ``mlflow``, whose run is then the active one; none is begun.
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self._told: list[str] = []

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Add a value to each metric."""
        mlflow = sys.modules["mlflow"]
        now = int(time.time() * 1000)
        metrics = [mlflow.entities.Metric(_allowed(name), number, now, step) for name, number in numbers.items()]
        for start in range(0, len(metrics), AT_ONCE):
            mlflow.MlflowClient().log_batch(self._run, metrics=metrics[start : start + AT_ONCE])

    def log_finding(self, finding: Finding, step: int) -> None:
        """Write the artifact that tells all findings so far."""
        self._told.append(f"{as_markdown(finding)}\n- first seen at step {step}\n")
        text = "\n".join(self._told)
        sys.modules["mlflow"].MlflowClient().log_text(self._run, text, "gradlint/findings.md")

    @property
    def _run(self) -> str:
        run = self._given.active_run() if is_module(self._given, "mlflow") else self._given
        if run is None:
            raise RuntimeError("no run of MLflow is active: call mlflow.start_run() before")
        return str(run.info.run_id)


def _allowed(name: str) -> str:
    """A name with nothing in it that MLflow refuses."""
    return re.sub(r"[^\w\-. :/]", "_", name)
