"""Gradient norms, measured on some steps and read later: a device is never waited for."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from gradlint.events import GradientsMeasured, Origin

from ..tensors import has_memory, holds_values, unseen_by_modes

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from ..calls import StepCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..recording import Recording
    from ..records.modules import KnownModules

EARLY = (1, 2, 4, 8)
EVERY = 10  #: of the later steps, each tenth is measured
MANY = 64  #: optimizers, above which those that are gone are forgotten
KEPT = 10  #: measurements of a parameter that are kept
MANY = 64  #: gradients, from which on small ones are measured together
SMALL = 1024  #: elements of each, on average


class Origins(Protocol):
    """Who finds out where gradients that are NaN or infinite begin."""

    suspected: bool  #: gradients are known to be NaN or infinite
    found: Origin | None  #: where those begin that are there, as far as it is known

    def explain(self) -> None:
        """Gradients turned out to be NaN or infinite."""
        ...

    def end(self) -> None:
        """Where they begin has been told."""
        ...

    def pause(self, seconds: float) -> None:
        """Some steps follow that are not measured; a step takes so many seconds."""
        ...

    def resume(self) -> None:
        """The next step is measured."""
        ...


class _Kept:
    """The latest norms of the gradients of some parameters, which are measured together."""

    __slots__ = ("keys", "names", "norms")

    def __init__(self, keys: list[int], names: list[str], norms: list[deque[float]]) -> None:
        self.keys = keys
        self.names = names
        self.norms = norms


@dataclass(slots=True, eq=False)
class _Measurement:
    """Norms on their way from a device."""

    site: FrameSite
    step: int
    kept: _Kept
    origin: Origin | None
    values: list[float] | torch.Tensor
    ready: Any  #: a CUDA event, or None for values that are there

    @property
    def arrived(self) -> bool:
        return self.ready is None or bool(self.ready.query())


class GradientNorms:
    """Reports the norms of gradients as they are when a step applies them."""

    def __init__(self, judge: Judge, modules: KnownModules, recording: Recording, origins: Origins) -> None:
        self._origins = origins
        self._judge = judge
        self._modules = modules
        self._recording = recording
        self._steps: dict[int, int] = {}  # by optimizer id
        self._pending: list[_Measurement] = []
        self._norms: dict[int, deque[float]] = {}  # the latest of each parameter, by its id
        self._names: dict[int, str] = {}
        self._kept: dict[tuple[int, torch.device], _Kept] = {}  # by the id of an optimizer

    def step_begins(self, call: StepCall) -> None:
        optimizer = call.optimizer
        if len(self._steps) > MANY:  # made again and again: their numbers begin anew
            self._steps, self._kept = {}, {}
        step = self._steps[id(optimizer)] = self._steps.get(id(optimizer), 0) + 1
        if step % EVERY == EVERY - 1:
            self._origins.resume()  # the next step is measured
        if step not in EARLY and step % EVERY and not self._origins.suspected:
            return
        self._settle()
        if call.closure or getattr(optimizer, "found_inf", None) is not None:
            return  # gradients that are not there yet, or that the step itself may refuse
        site = self._recording.walked_at
        if site is not None:
            self._measure(_found(optimizer), step, site, id(optimizer))
            if self._origins.suspected:
                self._settle()  # before the parameters are no more what they were
                self._origins.end()
        if step >= 2 * EVERY:
            self._origins.pause(self._recording.seconds / step)

    def finish(self, _: FrameSite) -> None:
        """Read what has arrived."""
        self._settle(wait=True)

    def _measure(
        self, found: list[tuple[torch.Tensor, torch.Tensor]], step: int, site: FrameSite, optimizer: int
    ) -> None:
        devices = dict.fromkeys(grad.device for _, grad in found)
        for device in devices:
            there = found if len(devices) == 1 else [entry for entry in found if entry[1].device == device]
            keys = [id(parameter) for parameter, _ in there]
            kept = self._kept.get((optimizer, device))
            if kept is None or kept.keys != keys:
                kept = self._kept[optimizer, device] = self._keep([parameter for parameter, _ in there], keys)
            values, ready = _measured([grad for _, grad in there], device)
            if isinstance(values, list) and not all(map(math.isfinite, values)):
                self._origins.explain()
            self._pending.append(_Measurement(site, step, kept, self._origins.found, values, ready))

    def _keep(self, parameters: list[torch.Tensor], keys: list[int]) -> _Kept:
        if any(key not in self._names for key in keys):
            self._names.update(zip(keys, self._modules.names(parameters), strict=True))
        norms = [self._norms.setdefault(key, deque(maxlen=KEPT)) for key in keys]
        return _Kept(keys, [self._names[key] for key in keys], norms)

    def _settle(self, wait: bool = False) -> None:
        pending, self._pending = self._pending, []
        for measured in pending:
            if not measured.arrived:
                if not wait:
                    self._pending.append(measured)
                    continue
                measured.ready.synchronize()
            values, kept = measured.values, measured.kept
            arrived = values.tolist() if isinstance(values, torch.Tensor) else values
            for norms, value in zip(kept.norms, arrived, strict=True):
                norms.append(value)
            history = dict(zip(kept.names, map(tuple, kept.norms), strict=True))
            event = GradientsMeasured(site=measured.site, step=measured.step, norms=history, origin=measured.origin)
            self._judge.send(event)


def _measured(grads: list[torch.Tensor], device: torch.device) -> tuple[list[float] | torch.Tensor, Any]:
    """The norms of gradients, and what tells when they are there; in main memory they are."""
    with unseen_by_modes(), torch.no_grad():
        if device.type == "cpu" and _are_many_and_small(grads):
            return _norms_at_once(grads), None
        norms = _norms(grads)
        if device.type == "cpu":
            return [norm.item() for norm in norms], None
        values = torch.stack(norms)
        if device.type != "cuda":
            return values, None
        there = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(device))
        return there, ready


def _found(optimizer: Optimizer) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The parameters of an optimizer whose gradients have values, with these gradients, or the local parts of them."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    found = [(parameter, grad) for parameter in parameters if (grad := parameter.grad) is not None]
    if _are_plain([grad for _, grad in found]):
        return found  # known of all together: there may be thousands
    local = [(parameter, getattr(grad, "_local_tensor", grad)) for parameter, grad in found]
    return [(parameter, grad) for parameter, grad in local if holds_values(grad)]


def _are_plain(grads: list[torch.Tensor]) -> bool:
    """Whether all of these hold values, as :func:`holds_values` has it, and are nothing but tensors."""
    return (
        set(map(type, grads)) == {torch.Tensor}
        and {grad.layout for grad in grads} == {torch.strided}
        and "meta" not in {grad.device.type for grad in grads}
        and torch._C._functorch.peek_interpreter_stack() is None
        and all(map(has_memory, grads))
    )


def _are_many_and_small(grads: list[torch.Tensor]) -> bool:
    """Whether a call for each of these takes longer than copying them."""
    if len(grads) < MANY or {grad.dtype for grad in grads} != {torch.float32}:
        return False
    return sum(grad.numel() for grad in grads) <= SMALL * len(grads)


def _norms_at_once(grads: list[torch.Tensor]) -> list[float]:
    """The norms of many small gradients in main memory, by way of one that holds all their elements."""
    lengths = torch.tensor([grad.numel() for grad in grads], device="cpu")
    flat: torch.Tensor = torch._C._nn.flatten_dense_tensors(grads)
    squares = torch.segment_reduce(flat.square_(), "sum", lengths=lengths, initial=0.0)
    norms: list[float] = squares.sqrt_().tolist()
    return norms


def _norms(grads: list[torch.Tensor]) -> list[torch.Tensor]:
    """The norms, in single precision at least: a sum of squares soon leaves the range of half precision."""
    if {grad.dtype for grad in grads} != {torch.float32}:
        grads = [torch.view_as_real(grad) if grad.is_complex() else grad for grad in grads]
        grads = [grad if grad.dtype in (torch.float32, torch.float64) else grad.float() for grad in grads]
        return [norm.to(torch.float32) for norm in torch._foreach_norm(grads)]
    return list(torch._foreach_norm(grads))
