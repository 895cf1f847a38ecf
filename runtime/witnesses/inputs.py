"""Inputs of outermost modules that require grad, and whether anything reads what backward passes make for them.

Reading ``x.grad`` is noticed by a property on ``torch.Tensor`` that is there only while such an input is alive and
unread: an ordinary training never meets it.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import Event, GradientRead, InputDone, InputFed

from ..calls import BackwardCall, ForwardCall, StepCall
from ..cohorts import Cohorts, Subject
from ..frames import FrameSite, user_site
from ..judging import Judge
from ..roster import Resting
from ..tensors import given_tensors

if TYPE_CHECKING:
    from ..calls import SwapCall

EVENTS: frozenset[type[Event]] = frozenset({InputFed, GradientRead, InputDone})
PATIENCE = 3  # optimizer steps after which an unread gradient is taken to be in vain


class Input(Subject):
    """A leaf that was given to a module and requires grad, though it is no parameter."""

    __slots__ = ("fed_at", "paid", "steps", "tensor")

    def __init__(self, tensor: torch.Tensor, fed_at: FrameSite) -> None:
        self.tensor = weakref.ref(tensor)
        self.fed_at = fed_at
        self.steps = 0
        self.paid = False  # a backward pass has made a gradient for it


class InputGradients(Resting):
    """Reports inputs fed, their gradients read, and the moment nothing can read them any more."""

    RESTS_FROM = ("backward_begins", "backward_ended", "step_begins")

    def __init__(self, judge: Judge) -> None:
        self._cohorts: Cohorts[Input] = Cohorts(judge, judge.follows(*EVENTS))
        self._unread: list[Input] = []
        self._fed: dict[int, Input] = {}  # the last of them at each address: an input that is gone leaves its own
        self._read: set[FrameSite] = set()  # calls whose inputs' gradients are read at times
        self.rest()

    def forward_ended(self, call: ForwardCall) -> None:
        given = [one for one in given_tensors(call.args, call.kwargs) if one.requires_grad and one.is_leaf]
        if not given and not self._unread:
            return
        if call.recomputed:
            self._all_read(call.site)  # checkpointing computes again, and may need inputs that require grad
            return
        if call.site in self._read or not torch.is_grad_enabled() or torch._C._functorch.peek_interpreter_stack():
            return
        for tensor in given:
            if isinstance(tensor, torch.nn.Parameter):
                continue
            if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
                continue  # a hook is given the gradient
            if not any(output.requires_grad for output in call.tensors):
                return
            self._feed(tensor, call.site)

    def _feed(self, tensor: torch.Tensor, site: FrameSite) -> None:
        known = self._fed.get(id(tensor))
        if known is None or known.tensor() is not tensor:
            known = self._fed[id(tensor)] = Input(tensor, site)
            self._unread.append(known)
            self._cohorts.add(known)
            _grad_property.add(self)
            self.wake()
        self._cohorts.send(InputFed(site=site, module=""), [known])

    def backward_begins(self, call: BackwardCall) -> None:
        for tensor in call.inputs:
            self.gradient_read(tensor, call.site)

    def backward_ended(self, call: BackwardCall) -> None:
        for fed in self._unread:
            tensor = fed.tensor()
            if tensor is not None and _grad_of(tensor) is not None:
                fed.paid = True

    def step_begins(self, call: StepCall) -> None:
        for group in call.optimizer.param_groups:
            for parameter in group["params"]:
                self.gradient_read(parameter, call.site)
        for fed in self._unread:
            fed.steps += 1
        self._done([fed for fed in self._unread if fed.steps >= PATIENCE], call.site)

    def tensors_swapped(self, call: SwapCall) -> None:
        """Expect nothing of inputs that become others."""
        swapped = set(map(id, call.tensors))
        self._forget([fed for fed in self._unread if id(fed.tensor()) in swapped], None)

    def finish(self, site: FrameSite) -> None:
        """The guard ends.  What a step has passed over is taken to be in vain; the rest may be read outside."""
        self._done([fed for fed in self._unread if fed.steps], site)
        self._forget(self._unread, None)

    def gradient_read(self, tensor: Any, site: FrameSite) -> None:
        """The gradient of ``tensor`` was read or asked for; so are, at times, those of its likes."""
        fed = self._fed.get(id(tensor))
        if fed is not None and fed.tensor() is tensor:
            self._read.add(fed.fed_at)
            alike = [other for other in self._unread if other.fed_at == fed.fed_at]
            self._forget(alike, GradientRead(site=site))

    def _all_read(self, site: FrameSite) -> None:
        self._forget(self._unread, GradientRead(site=site))

    def _done(self, inputs: list[Input], site: FrameSite) -> None:
        # Alive or dead: whoever wanted the gradient of a dead input would have read it before.
        self._forget([fed for fed in inputs if fed.paid], InputDone(site=site))
        self._forget([fed for fed in inputs if not fed.paid], None)

    def _forget(self, inputs: list[Input], event: Event | None) -> None:
        if not inputs:
            return
        if event is not None:
            self._cohorts.send(event, inputs)
        self._cohorts.drop(inputs)
        gone = {id(fed) for fed in inputs}
        self._unread = [fed for fed in self._unread if id(fed) not in gone]
        self._fed = {key: fed for key, fed in self._fed.items() if id(fed) not in gone}
        if not self._unread:
            _grad_property.discard(self)
            self.rest()


_base_grad = torch._C.TensorBase.__dict__["grad"]


def _grad_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """``tensor.grad``, unnoticed by the property below."""
    with torch._C.DisableTorchFunction():
        grad: torch.Tensor | None = _base_grad.__get__(tensor)
    return grad


class _GradProperty:
    """Replaces ``torch.Tensor.grad`` while some guard waits for a gradient to be read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: tuple[InputGradients, ...] = ()
        self._property = property(self._get, _base_grad.__set__, _base_grad.__delete__, _base_grad.__doc__)

    def add(self, waiting: InputGradients) -> None:
        with self._lock:
            if waiting not in self._waiting:
                self._waiting = (*self._waiting, waiting)
            if "grad" not in torch.Tensor.__dict__:
                torch.overrides.get_default_nowrap_functions()  # caches what it finds on Tensor: let it be the original
                torch.Tensor.grad = self._property  # type: ignore[assignment]  # it is a descriptor too

    def discard(self, waiting: InputGradients) -> None:
        with self._lock:
            self._waiting = tuple(other for other in self._waiting if other is not waiting)
            if not self._waiting and torch.Tensor.__dict__.get("grad") is self._property:
                del torch.Tensor.grad

    def _get(self, tensor: torch.Tensor) -> torch.Tensor | None:
        grad: torch.Tensor | None = _base_grad.__get__(tensor)
        for waiting in self._waiting:
            try:
                waiting.gradient_read(tensor, user_site(2))
            except Exception:  # noqa: BLE001  reading an attribute of a tensor never fails because of a guard
                self.discard(waiting)
        return grad


_grad_property = _GradProperty()
