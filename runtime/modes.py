"""In which mode the modules were called whose parameters a step updates."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from gradlint.events import ModelStepped, Step
from gradlint.facts import FALSE

from .interception import BackwardCall, ForwardCall, StepCall, inside_backward
from .modules import depends_on_mode
from .tensors import tensors_in

if TYPE_CHECKING:
    from torch import nn

    from .frames import FrameSite
    from .judging import Judge


MANY = 256  #: modules, above which those that are gone are forgotten


class _LastCall:
    """The last call of a module that built a graph."""

    __slots__ = ("module", "site", "training", "walked")

    def __init__(self, module: nn.Module, site: FrameSite) -> None:
        self.module = weakref.ref(module)
        self.training = module.training
        self.site = site
        self.walked = False  # a backward pass came after it


class Steps:
    """Sends a :class:`~gradlint.events.Step` for each step of an optimizer."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._calls: dict[int, _LastCall] = {}

    def forward_ended(self, call: ForwardCall) -> None:
        if inside_backward() or not any(tensor.requires_grad for tensor in tensors_in(call.output)):
            return
        self._calls[id(call.module)] = _LastCall(call.module, call.site)
        if len(self._calls) > MANY:
            self._calls = {key: last for key, last in self._calls.items() if last.module() is not None}

    def backward_begins(self, call: BackwardCall) -> None:
        if call.accumulates:
            for last in self._calls.values():
                last.walked = True

    def step_begins(self, call: StepCall) -> None:
        if not call.closure:
            self._send(call)

    def step_ended(self, call: StepCall) -> None:
        if call.closure:
            self._send(call)

    def _send(self, call: StepCall) -> None:
        call.event = Step(site=call.site, optimizer=type(call.optimizer).__name__)
        self._judge.send(call.event)
        in_evaluation = [last for last in self._calls.values() if last.walked and not last.training]
        if in_evaluation:
            owned = {id(parameter) for group in call.optimizer.param_groups for parameter in group["params"]}
            for last in in_evaluation:
                module = last.module()
                if module is not None and depends_on_mode(module) and _has_any(module, owned):
                    self._judge.send(ModelStepped(site=call.site, training=FALSE, forward_at=last.site))


def _has_any(module: nn.Module, owned: set[int]) -> bool:
    return any(id(parameter) in owned for parameter in module.parameters())
