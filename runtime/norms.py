"""Gradient norms, measured on some steps and read later: a device is never waited for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import GradientsMeasured

from .tensors import unseen_by_modes

if TYPE_CHECKING:
    from .frames import FrameSite
    from .interception import BackwardCall, StepCall
    from .judging import Judge
    from .modules import KnownModules

EARLY = (1, 2, 4, 8)
EVERY = 10  #: of the later steps, each tenth is measured
KEPT = 10  #: measurements of a parameter that are kept


@dataclass(slots=True)
class _Measurement:
    """Norms on their way from a device."""

    site: FrameSite
    step: int
    keys: list[int]
    names: list[str]
    values: torch.Tensor
    ready: Any  #: a CUDA event, or None for values that are there

    @property
    def arrived(self) -> bool:
        return self.ready is None or bool(self.ready.query())


class GradientNorms:
    """Reports the norms of gradients as they are when a step applies them."""

    def __init__(self, judge: Judge, modules: KnownModules) -> None:
        self._judge = judge
        self._modules = modules
        self._backward: FrameSite | None = None
        self._steps: dict[int, int] = {}  # by optimizer id
        self._pending: list[_Measurement] = []
        self._kept: dict[int, deque[float]] = {}
        self._names: dict[int, str] = {}

    def backward_ended(self, call: BackwardCall) -> None:
        if call.accumulates:
            self._backward = call.site

    def step_begins(self, call: StepCall) -> None:
        optimizer = call.optimizer
        step = self._steps[id(optimizer)] = self._steps.get(id(optimizer), 0) + 1
        if step not in EARLY and step % EVERY:
            return
        self._settle()
        if call.closure or getattr(optimizer, "found_inf", None) is not None:
            return  # gradients that are not there yet, or that the step itself may refuse
        found = [
            (parameter, grad)
            for group in optimizer.param_groups
            for parameter in group["params"]
            if (grad := parameter.grad) is not None and grad.layout is torch.strided
        ]
        if found and self._backward is not None:
            self._measure(found, step, self._backward)

    def finish(self, _: FrameSite) -> None:
        """Read what has arrived."""
        self._settle(wait=True)

    def _measure(self, found: list[tuple[torch.Tensor, torch.Tensor]], step: int, site: FrameSite) -> None:
        keys = [id(parameter) for parameter, _ in found]
        if any(key not in self._names for key in keys):
            self._names.update(zip(keys, self._modules.names(parameter for parameter, _ in found), strict=True))
        by_device: dict[torch.device, list[int]] = {}
        for index, (_, grad) in enumerate(found):
            by_device.setdefault(grad.device, []).append(index)
        with torch.no_grad(), unseen_by_modes():
            for device, indices in by_device.items():
                values = _norms([_local(found[i][1]) for i in indices])
                ready = None
                if device.type == "cuda":
                    there = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
                    values = there.copy_(values, non_blocking=True)
                    ready = torch.cuda.Event()
                    ready.record(torch.cuda.current_stream(device))
                chosen = [keys[i] for i in indices]
                names = [self._names[key] for key in chosen]
                self._pending.append(_Measurement(site, step, chosen, names, values, ready))

    def _settle(self, wait: bool = False) -> None:
        pending, self._pending = self._pending, []
        for measured in pending:
            if not measured.arrived:
                if not wait:
                    self._pending.append(measured)
                    continue
                measured.ready.synchronize()
            history: dict[str, tuple[float, ...]] = {}
            for key, name, value in zip(measured.keys, measured.names, measured.values.tolist(), strict=True):
                kept = self._kept.get(key)
                if kept is None:
                    kept = self._kept[key] = deque(maxlen=KEPT)
                kept.append(value)
                history[name] = tuple(kept)
            self._judge.send(GradientsMeasured(site=measured.site, step=measured.step, norms=history))


def _local(grad: Any) -> torch.Tensor:
    local: torch.Tensor = grad if type(grad) is torch.Tensor else getattr(grad, "_local_tensor", grad)
    return local.detach() if local.requires_grad else local


def _norms(grads: list[torch.Tensor]) -> torch.Tensor:
    """The norms, in single precision at least: a sum of squares soon leaves the range of half precision."""
    dtypes = {grad.dtype for grad in grads}
    if dtypes == {torch.float32}:
        return torch.stack(torch._foreach_norm(grads))
    plain = [grad if grad.dtype in (torch.float32, torch.float64) else grad.float() for grad in grads]
    return torch.stack([norm.to(torch.float32) for norm in torch._foreach_norm(plain)])
