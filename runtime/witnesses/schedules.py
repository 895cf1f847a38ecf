"""Schedulers that step before their optimizer ever has."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

import torch

from gradlint.events import FirstStep

from ..calls import ScheduleCall, StepCall
from ..gradients.bundles import version
from ..records.living import Marked

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from torch.optim import Optimizer

    from ..frames import FrameSite
    from ..judging import Judge

_SCALER = torch.amp.grad_scaler.__file__


class Schedules:
    """Sends a :class:`~gradlint.events.FirstStep` for the first step of an optimizer, or since it has a scheduler."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._stepped = Marked()
        self._latest: Callable[[], Optimizer | None] = _none  # of them
        self._scheduled: dict[int, tuple[weakref.ref[Optimizer], FrameSite, _Held]] = {}

    def scheduler_stepped(self, call: ScheduleCall) -> None:
        optimizer = call.optimizer
        if not getattr(optimizer, "_opt_called", False):  # torch marks one that steps once it has a scheduler
            self._scheduled[id(optimizer)] = weakref.ref(optimizer), call.site, _Held(optimizer)
            self._stepped.discard(optimizer)
            self._latest = _none

    def step_begins(self, call: StepCall) -> None:
        if self._latest() is call.optimizer or call.optimizer in self._stepped:
            return
        self._stepped.add(call.optimizer)
        self._latest = weakref.ref(call.optimizer)
        optimizer, site, held = self._scheduled.pop(id(call.optimizer), (None, None, None))
        if optimizer is None or optimizer() is not call.optimizer or _is_scaled() or (held and held.has_grown()):
            site = None
        self._judge.send(FirstStep(site=call.site, scheduled_at=site))


class _Held:
    """A gradient that was there when a scheduler was stepped, if one was."""

    def __init__(self, optimizer: Optimizer) -> None:
        owned = (parameter.grad for group in optimizer.param_groups for parameter in group["params"])
        grad = next((one for one in owned if one is not None), None)
        self._grad = None if grad is None else weakref.ref(grad)
        self._version = -1 if grad is None else version(grad)

    def has_grown(self) -> bool:
        """Whether others were added to it since, as they are over micro-batches."""
        grad = None if self._grad is None else self._grad()
        return grad is not None and version(grad) > self._version


def _none() -> None:
    """There is no latest one."""


def _is_scaled() -> bool:
    """Whether the step that begins is made by a gradient scaler, which may have left out earlier ones."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _SCALER:
            return True
        frame = frame.f_back
    return False
