"""The guard around a loop that an Accelerator has prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlint.runtime.session import Guard

if TYPE_CHECKING:
    from accelerate import Accelerator


def guard_prepared(accelerator: Accelerator, **options: Any) -> Guard:
    """A guard of the models and optimizers that ``accelerator`` has prepared so far: a context manager.

    ::

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        with guard_prepared(accelerator) as guard:
            train()

    Steps that ``accelerator.accumulate()`` leaves out are no steps to the guard.

    Args:
        accelerator: what ``prepare()`` was called on.
        options: those of :func:`gradlint.guard`.
    """
    optimizers = [prepared.optimizer for prepared in accelerator._optimizers]
    return Guard(*accelerator._models, *optimizers, **options)
