"""What happens to the gradients of parameters: accumulated, applied, cleared.

Accumulation and clearing cannot be hooked cheaply, so they are read off: the identity and version of every
gradient are compared before and after each backward pass and step.  Parameters are held weakly and looked up by
id, because tensors compare elementwise.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradlint.events import Backward, Cleared, Event, NeverReached, Step, WeightsUpdated
from gradlint.facts import FALSE, TRUE, Fact, unknown
from gradlint.finding import Site

from .cohorts import Cohorts, Subject
from .frames import FrameSite
from .interception import BackwardCall, ForwardCall, StepCall
from .judging import Judge
from .modules import KnownModules
from .tensors import unseen_by_modes

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

PATIENCE = 10  #: steps after which a gradient that was never there is reported
PATIENCE_AT_END = 5
EVENTS: frozenset[type[Event]] = frozenset({Step, Cleared})  # those of its protocols


class Gradient(Subject):
    """The gradient of one parameter, as it was when it was last looked at."""

    __slots__ = ("added", "changed_at", "doubt", "grad", "parameter", "reached", "reached_at", "spent", "version")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter = weakref.ref(parameter)
        self.grad: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        self.reached = False  # there has been a gradient
        self.reached_at = self.changed_at = 0  # when, by a backward pass and otherwise, by the clock of the history
        self.spent = False  # applied by a step, and not known to have been cleared since
        self.added = False  # a backward pass has added to it since
        self.doubt: torch.Tensor | None = None  # its norm before that pass: zero means it had been cleared

    def remember(self, grad: torch.Tensor) -> None:
        """Take ``grad`` as it is now for what is known."""
        self.grad = weakref.ref(grad)
        self.version = version(grad)
        self.reached = True

    def clear(self) -> None:
        """Nothing of what was applied is left."""
        self.spent = self.added = False
        self.doubt = None


class _Steps:
    """The steps of one optimizer so far."""

    __slots__ = ("count", "ended_at", "gradients", "optimizer", "site", "unprepared")

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.gradients: list[Gradient] = []  # of the parameters it had when it was last seen
        self.count = 0
        self.site: FrameSite | None = None  # of the last one
        self.ended_at = 0  # by the clock of the history
        self.unprepared = True  # so far, no backward pass was there for any of them


class GradientHistory:
    """Reports backward passes, steps and clearings to the protocols over gradients."""

    def __init__(self, judge: Judge, modules: KnownModules) -> None:
        self._modules = modules
        self._steps: dict[int, _Steps] = {}
        self._clock = 0  # counts backward passes and steps
        self._walked_at = 0  # when the last backward pass began, whatever it reached
        self._suspects: dict[int, list[tuple[Gradient, str]]] = {}
        self._cohorts: Cohorts[Gradient] = Cohorts(judge, judge.follows(*EVENTS))
        self._judge = judge
        self._gradients: dict[int, Gradient] = {}
        self._order: list[Gradient] = []
        self._called: dict[int, weakref.ref[nn.Module]] = {}
        self._last_backward: Backward | None = None
        self._accepted: dict[tuple[FrameSite, str], Step] = {}  # with gradients to apply

    def watch(self, parameters: Iterable[torch.Tensor]) -> list[Gradient]:
        """The gradients of these parameters; those not yet known are followed from now on."""
        return [self._gradient(parameter)[0] for parameter in parameters]

    def _gradient(self, parameter: torch.Tensor) -> tuple[Gradient, bool]:
        gradient = self._gradients.get(id(parameter))
        if gradient is not None and gradient.parameter() is parameter:
            return gradient, False
        gradient = self._gradients[id(parameter)] = Gradient(parameter)
        self._order.append(gradient)
        self._cohorts.add(gradient)
        return gradient, True

    # --- what is told by the interception --------------------------------------------------------------------

    def forward_ended(self, call: ForwardCall) -> None:
        """Follow the parameters of a module from its first call on, before an optimizer shows them."""
        known = self._called.get(id(call.module))
        if known is None or known() is not call.module:
            self._called[id(call.module)] = weakref.ref(call.module)
            self.watch(parameter for parameter in call.module.parameters() if parameter.requires_grad)

    def backward_begins(self, call: BackwardCall) -> None:
        if not call.accumulates:
            return
        self._clock += 1
        self._walked_at = self._clock
        if not self._find_clearings(self._order, call.site):
            self._forget_dead()
        doubtful = _present([gradient for gradient in self._order if gradient.spent and not gradient.added])
        if doubtful:
            for (gradient, _), norm in zip(doubtful, norms([grad for _, grad in doubtful]), strict=True):
                gradient.doubt = norm

    def backward_ended(self, call: BackwardCall) -> None:
        if not call.accumulates:
            return
        assert call.event is not None  # the witness of backward passes comes first
        self._last_backward = event = call.event
        self._find_accumulations(self._order, event)

    def step_begins(self, call: StepCall) -> None:
        gradients = self._of(call.optimizer)
        if call.closure:
            return
        if call.within is not None and call.within.event is not None:
            self._find_accumulations(gradients, call.within.event)
        else:
            self._find_clearings(gradients, call.site)
        self._step(call, gradients)

    def step_ended(self, call: StepCall) -> None:
        gradients = self._of(call.optimizer)
        if call.closure:
            self._find_clearings(gradients, call.site)
            self._step(call, gradients)
        cleared = []
        for gradient in gradients:
            parameter = gradient.parameter()
            grad = None if parameter is None else parameter.grad
            if grad is None:
                if gradient.grad is not None:
                    cleared.append(gradient)
                gradient.grad = None
                gradient.clear()
            else:
                gradient.remember(grad)
                gradient.spent = True
                gradient.added = False
                gradient.doubt = None
        self._send_cleared(call.site, cleared)
        self._clock += 1
        self._of_optimizer(call.optimizer).ended_at = self._clock

    # --- reading off -----------------------------------------------------------------------------------------

    def _of(self, optimizer: Optimizer) -> list[Gradient]:
        """The gradients an optimizer owns.  One met for the first time was filled by the last backward pass."""
        steps = self._of_optimizer(optimizer)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        known = [gradient.parameter() for gradient in steps.gradients]
        if len(known) == len(parameters) and all(map(operator.is_, known, parameters)):
            return steps.gradients
        gradients, filled = [], []
        for parameter in parameters:
            gradient, new = self._gradient(parameter)
            gradients.append(gradient)
            if new:
                gradient.changed_at = self._walked_at  # by all that is known
            if new and parameter.grad is not None:
                gradient.remember(parameter.grad)
                filled.append(gradient)
        steps.gradients = gradients
        if self._last_backward is not None:
            for gradient in filled:
                gradient.reached_at = self._walked_at
            self._send(self._last_backward, filled)
        return gradients

    def _of_optimizer(self, optimizer: Optimizer) -> _Steps:
        steps = self._steps.get(id(optimizer))
        if steps is None or steps.optimizer() is not optimizer:
            steps = self._steps[id(optimizer)] = _Steps(optimizer)
        return steps

    def _prepared(self, call: StepCall, gradients: list[Gradient]) -> Fact[bool]:
        """Whether a backward pass has reached any of these gradients since the last step of their optimizer.

        It is known that none has where there is no gradient.  One that is still there may have been written to
        unseen: through ``.data`` from those of another copy of the parameters, or by a CUDA graph.
        """
        if call.closure or not type(call.optimizer).__module__.startswith("torch.optim."):
            return unknown()
        steps = self._of_optimizer(call.optimizer)
        if any(gradient.reached_at > steps.ended_at for gradient in gradients):
            return TRUE
        for gradient in gradients:
            grad = None if gradient.grad is None else gradient.grad()
            if gradient.changed_at > steps.ended_at and not gradient.reached:
                return unknown()  # met for the first time
            if grad is not None and (
                not steps.count
                or max(gradient.changed_at, self._walked_at) > steps.ended_at
                or grad.device.type != "cpu"
            ):
                return unknown()
        return FALSE

    def _find_clearings(self, gradients: list[Gradient], site: FrameSite) -> bool:
        """Before a backward pass or a step: which gradients were dropped, replaced or zeroed since last seen.

        Returns whether all parameters are still there.
        """
        cleared, replaced = [], []
        complete = True
        for gradient in gradients:
            parameter = gradient.parameter()
            if parameter is None:
                complete = False
                continue
            grad, before = parameter.grad, gradient.grad
            if before is None:
                if grad is not None:
                    gradient.remember(grad)  # assigned by hand
                    gradient.changed_at = self._clock + 1
                continue
            if grad is None:
                gradient.grad = None
            elif before() is grad:
                now = version(grad)
                if now == gradient.version:
                    continue
                gradient.version = now
                if not gradient.spent or gradient.added:
                    gradient.changed_at = self._clock + 1
                    continue  # clipped or unscaled, it is still what was accumulated
            else:
                gradient.remember(grad)
                replaced.append(gradient)
            gradient.changed_at = self._clock + 1
            gradient.clear()
            cleared.append(gradient)
        self._send_cleared(site, cleared)
        if self._last_backward is not None:
            self._send(self._last_backward, replaced)  # by what somebody made of those of the last backward pass
        return complete

    def _find_accumulations(self, gradients: list[Gradient], event: Backward) -> None:
        """After a backward pass, or in a hook within it: which gradients it has added to."""
        reached, cleared = [], []
        for gradient in gradients:
            parameter = gradient.parameter()
            if parameter is None:
                continue
            grad, before = parameter.grad, gradient.grad
            if grad is None:
                if before is not None:
                    gradient.grad = None
                    gradient.clear()
                    cleared.append(gradient)
                continue
            if before is not None and before() is grad and version(grad) == gradient.version:
                continue
            gradient.remember(grad)
            gradient.added = True
            gradient.reached_at = self._clock + 1
            reached.append(gradient)
        self._clock += bool(reached)
        self._send(event, reached)
        self._send_cleared(event.site, cleared)

    def _step(self, call: StepCall, gradients: list[Gradient]) -> None:
        self._settle_doubts(gradients, call.site)
        prepared = self._prepared(call, gradients)
        call.event = self._judged(call, prepared)
        self._of_optimizer(call.optimizer).unprepared &= prepared.is_false
        self._send(call.event, [gradient for gradient in gradients if gradient.grad is not None])
        # Where there is something to apply, what is not there for a part of the parameters is no loss.
        applied = [gradient for gradient in gradients if gradient.added]
        self._send(WeightsUpdated(site=call.site), applied or gradients)
        self._count(call, gradients)

    def _judged(self, call: StepCall, prepared: Fact[bool]) -> Step:
        """The step as an event, shown to its checks unless they have accepted its like."""
        name = type(call.optimizer).__name__
        key = call.site, name
        event = self._accepted.get(key) if prepared is TRUE else None
        if event is None:
            event = Step(site=call.site, optimizer=name, prepared=prepared)
            if self._judge.accepts(event) and prepared is TRUE:
                self._accepted[key] = event
        return event

    def _count(self, call: StepCall, gradients: list[Gradient]) -> None:
        """After several steps: which gradients have never been there?"""
        steps = self._of_optimizer(call.optimizer)
        steps.count += 1
        steps.site = call.site
        if steps.count == PATIENCE_AT_END:
            self._suspect(id(call.optimizer), gradients)
        elif steps.count == PATIENCE:
            self._tell_unreached(id(call.optimizer))

    def _suspect(self, key: int, gradients: list[Gradient]) -> None:
        """Remember the names now: at the end, the model may be gone."""
        unreached = [
            (one, parameter) for one in gradients if not one.reached and (parameter := one.parameter()) is not None
        ]
        trainable = [(one, parameter) for one, parameter in unreached if parameter.requires_grad]
        names = self._modules.names(parameter for _, parameter in trainable)
        self._suspects[key] = [(one, name) for (one, _), name in zip(trainable, names, strict=True)]

    def _tell_unreached(self, key: int) -> None:
        steps = self._steps[key]
        names = tuple(name for gradient, name in self._suspects.pop(key, ()) if not gradient.reached)
        if steps.unprepared and self._judge.checks(Step):
            return  # each of its steps was told to be in vain
        if names and steps.site is not None:
            self._judge.send(NeverReached(site=steps.site, parameters=names, steps=steps.count))

    def finish(self, _: FrameSite) -> None:
        """The guard ends: say of shorter trainings, too, what was never reached."""
        for key in list(self._suspects):
            self._tell_unreached(key)

    def _settle_doubts(self, gradients: list[Gradient], site: FrameSite) -> None:
        """Before spent gradients are said to be applied again: were they zeroed where no version shows it?

        Only here are values read from the device, and only on suspicion.
        """
        present = _present([gradient for gradient in gradients if gradient.spent and gradient.added])
        if not present:
            return
        was_zero = _zeros([(gradient, gradient.doubt) for gradient, _ in present if gradient.doubt is not None])
        now = norms([grad for _, grad in present])
        is_zero = _zeros([(gradient, norm) for (gradient, _), norm in zip(present, now, strict=True)])
        if was_zero or is_zero:
            for gradient in was_zero + is_zero:
                gradient.clear()
            self._send_cleared(site, list({id(gradient): gradient for gradient in was_zero + is_zero}.values()))
            if self._last_backward is not None:
                self._send(self._last_backward, [gradient for gradient in was_zero if gradient not in is_zero])

    def _send(self, event: Event, gradients: list[Gradient]) -> None:
        if gradients:
            self._cohorts.send(event, gradients)

    def _send_cleared(self, site: Site, gradients: list[Gradient]) -> None:
        if gradients:
            self._cohorts.send(Cleared(site=site), gradients)

    def _forget_dead(self) -> None:
        dead = [gradient for gradient in self._order if gradient.parameter() is None]
        if dead:
            self._order = [gradient for gradient in self._order if gradient.parameter() is not None]
            self._gradients = {id(gradient.parameter()): gradient for gradient in self._order}
            self._cohorts.drop(dead)


def _present(gradients: list[Gradient]) -> list[tuple[Gradient, torch.Tensor]]:
    return [
        (gradient, grad)
        for gradient in gradients
        if gradient.grad is not None and (grad := gradient.grad()) is not None
    ]


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; for a sharded one, its local part is what gradients are added to."""
    try:
        return tensor._version if type(tensor) is Tensor else int(getattr(tensor, "_local_tensor", tensor)._version)
    except RuntimeError:  # inference tensors do not count
        return -1


def norms(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The norm of each tensor, left on its device; unseen by function and dispatch modes."""
    if not tensors:
        return []
    with torch.no_grad(), torch._C.DisableTorchFunction(), unseen_by_modes():
        values = [_values(getattr(tensor, "_local_tensor", tensor)) for tensor in tensors]
        return [torch.linalg.vector_norm(value) for value in values]


def _values(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor._values() if tensor.is_sparse else tensor


def _zeros(pairs: list[tuple[Gradient, torch.Tensor]]) -> list[Gradient]:
    if not pairs:
        return []
    with torch.no_grad(), torch._C.DisableTorchFunction(), unseen_by_modes():
        return [gradient for gradient, norm in pairs if norm.item() == 0]
