"""Schedulers that step before their optimizer ever has."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

import torch

from gradlint.events import FirstStep

from .interception import ScheduleCall, StepCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from torch.optim import Optimizer

    from .frames import FrameSite
    from .judging import Judge

_SCALER = torch.amp.grad_scaler.__file__


class Schedules:
    """Sends a :class:`~gradlint.events.FirstStep` for each optimizer whose first step is seen."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._stepped: dict[int, weakref.ref[Optimizer]] = {}
        self._latest: Callable[[], Optimizer | None] = lambda: None  # of them
        self._scheduled: dict[int, tuple[weakref.ref[Optimizer], FrameSite]] = {}

    def scheduler_stepped(self, call: ScheduleCall) -> None:
        optimizer = call.optimizer
        # torch marks an optimizer that has a scheduler when it steps; one that keeps a state had stepped before that.
        if not (self._has_stepped(optimizer) or getattr(optimizer, "_opt_called", False) or optimizer.state):
            self._scheduled[id(optimizer)] = weakref.ref(optimizer), call.site

    def step_begins(self, call: StepCall) -> None:
        if self._latest() is call.optimizer or self._has_stepped(call.optimizer):
            return
        self._stepped[id(call.optimizer)] = self._latest = weakref.ref(call.optimizer)
        optimizer, site = self._scheduled.pop(id(call.optimizer), (None, None))
        if optimizer is None or optimizer() is not call.optimizer or _is_scaled():
            site = None
        self._judge.send(FirstStep(site=call.site, scheduled_at=site))

    def _has_stepped(self, optimizer: Optimizer) -> bool:
        stepped = self._stepped.get(id(optimizer))
        return stepped is not None and stepped() is optimizer


def _is_scaled() -> bool:
    """Whether the step that begins is made by a gradient scaler, which may have left out earlier ones."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _SCALER:
            return True
        frame = frame.f_back
    return False
