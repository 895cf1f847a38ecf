"""In which mode the modules were called whose parameters a step updates, and where they were put into it."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING

from gradlint.events import Backward, EvalMode, ModelStepped, Tensor, TrainMode, WeightsUpdated
from gradlint.facts import FALSE

from ..calls import BackwardCall, ForwardCall, ModeCall, StepCall
from ..cohorts import Cohorts, Subject
from ..records.modules import depends_on_mode
from ..roster import Resting

if TYPE_CHECKING:
    from torch import nn

    from ..frames import FrameSite
    from ..judging import Judge


MANY = 256  #: modules, above which those that are gone are forgotten
LOOK_AGAIN = 100  #: steps after which a module that did not depend on its mode is looked through again


class _Mode(Subject):
    """The mode of one module, as a protocol over modes follows it."""

    __slots__ = ("module", "set_while_trained", "trained", "training")

    def __init__(self, module: nn.Module) -> None:
        self.module = weakref.ref(module)
        self.training = True  # as it was last told to the protocol
        self.trained = False  # in training mode
        self.set_while_trained = False  # its evaluation mode was set after it had been trained


class _LastCall:
    """The last call of a module that built a graph."""

    __slots__ = ("module", "old_until", "site", "training", "walked_at")

    def __init__(self, module: nn.Module, site: FrameSite) -> None:
        self.module = weakref.ref(module)
        self.training = module.training
        self.site = site
        self.walked_at: FrameSite | None = None  # by a backward pass that came after it
        self.old_until = 0.0  # the step from which on it may be news


class Modes(Resting):
    """Tells of steps on graphs that were built in evaluation mode."""

    RESTS_FROM = ("step_ended",)  # until there is a step that makes its gradients itself

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._calls: dict[int, _LastCall] = {}
        self._followed = judge.follows(EvalMode)
        self._cohorts: Cohorts[_Mode] = Cohorts(judge, self._followed)
        self._modes: dict[int, _Mode] = {}
        self._steps = 0
        self._news_at = 0.0  # the step from which on there may be any
        self._indifferent: dict[int, weakref.ref[nn.Module]] = {}  # to the mode they are in, when last looked through
        self.rest()

    def mode_set(self, call: ModeCall) -> None:
        self._indifferent.clear()
        self._all_may_be_news()
        if not self._followed:
            return
        if not call.training:
            if self._is_layer(call.module):
                return
            self._mode(call.module)
        event = TrainMode(site=call.site) if call.training else EvalMode(site=call.site)
        parts = {id(part) for part in call.module.modules()}
        for mode in list(self._modes.values()):
            module = mode.module()
            if module is None:
                continue
            if id(module) in parts or (call.training and any(part is call.module for part in module.modules())):
                self._tell(mode, event)

    def _mode(self, module: nn.Module) -> _Mode:
        mode = self._modes.get(id(module))
        if mode is None or mode.module() is not module:
            self._modes = {key: other for key, other in self._modes.items() if other.module() is not None}
            mode = self._modes[id(module)] = _Mode(module)
            self._cohorts.add(mode)
        return mode

    def _is_layer(self, module: nn.Module) -> bool:
        """Whether this is part of a module whose mode was set, or that was called by itself."""
        wholes = [mode.module() for mode in self._modes.values()] + [last.module() for last in self._calls.values()]
        return any(
            whole is not None and whole is not module and any(part is module for part in whole.modules())
            for whole in wholes
        )

    def _tell(self, mode: _Mode, event: TrainMode | EvalMode) -> None:
        mode.training = isinstance(event, TrainMode)
        mode.set_while_trained = not mode.training and mode.trained
        self._all_may_be_news()
        self._cohorts.send(event, [mode])

    def forward_ended(self, call: ForwardCall) -> None:
        for tensor in call.tensors:
            if tensor.requires_grad:
                break
        else:
            return
        if call.recomputed:
            return
        module = call.module
        last = self._calls.get(id(module))
        if last is not None and last.module() is module:
            if last.training is not module.training:
                last.training = module.training
                last.old_until = self._news_at = 0
            last.site, last.walked_at = call.site, None
            return
        self._calls[id(module)] = _LastCall(module, call.site)
        self._news_at = 0
        if len(self._calls) > MANY:
            self._calls = {key: last for key, last in self._calls.items() if last.module() is not None}

    def backward_begins(self, call: BackwardCall) -> None:
        if call.accumulates:
            for last in self._calls.values():
                last.walked_at = call.site

    def step_begins(self, call: StepCall) -> None:
        if call.closure:
            self.wake()
        else:
            self._stepped(call)

    def step_ended(self, call: StepCall) -> None:
        if call.closure:
            self._stepped(call)

    def _stepped(self, call: StepCall) -> None:
        self._steps += 1
        steps = self._steps
        if steps < self._news_at:
            return
        walked = [
            last
            for last in self._calls.values()
            if last.walked_at is not None and last.old_until <= steps and self._is_news(last)
        ]
        if not walked:
            self._news_at = min((last.old_until for last in self._calls.values()), default=0)
            return
        owned = {id(parameter) for group in call.optimizer.param_groups for parameter in group["params"]}
        for last in walked:
            module = last.module()
            if module is None:
                continue
            if not depends_on_mode(module):
                self._indifferent[id(module)] = last.module
                continue
            if not _has_any(module, owned):
                continue
            followed = bool(self._followed) and self._follow(last, module, call)
            if not last.training and not followed:
                self._judge.send(ModelStepped(site=call.site, training=FALSE, forward_at=last.site))

    def _is_news(self, last: _LastCall) -> bool:
        """Whether a step after this call is to be looked at: not a further one in training mode."""
        if not last.training or not self._followed:
            return not last.training
        module = last.module()
        indifferent = self._indifferent.get(id(module))
        if indifferent is not None and indifferent() is module and self._steps % LOOK_AGAIN:
            last.old_until = self._steps + LOOK_AGAIN - self._steps % LOOK_AGAIN
            return False
        mode = self._modes.get(id(module))
        if mode is None or mode.module() is not module or not (mode.training and mode.trained):
            return True
        last.old_until = math.inf
        return False

    def _all_may_be_news(self) -> None:
        self._news_at = 0
        for last in self._calls.values():
            last.old_until = 0

    def _follow(self, last: _LastCall, module: nn.Module, step: StepCall) -> bool:
        """Tell a step to the protocols over modes; whether those speak of the evaluation mode it was made in."""
        mode = self._mode(module)
        if last.training:
            if not mode.training:  # set back part by part, or by assignment
                self._tell(mode, TrainMode(site=last.site))
            if not mode.trained:
                mode.trained = True
                self._cohorts.send(WeightsUpdated(site=step.site), [mode])
            return False
        if not mode.set_while_trained or last.walked_at is None:
            return False
        self._cohorts.send(Backward(site=last.walked_at, root=Tensor()), [mode])
        self._cohorts.send(WeightsUpdated(site=step.site), [mode])
        return True


def _has_any(module: nn.Module, owned: set[int]) -> bool:
    return any(id(parameter) in owned for parameter in module.parameters())
