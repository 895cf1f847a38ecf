"""Accumulation over micro-batches that is defeated, because each of them clears the gradients.

Followed is one parameter of each model that is called, over the first steps, in which functions are watched: that a
gradient is dropped is seen, and so is every look the program takes at one, which would be a use of it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import GradientsAccumulated, GradientsDiscarded, PeriodicStep

from ..cohorts import Cohorts, Subject
from ..frames import calling_frame, user_site
from ..gradients.bundles import version
from ..roster import Resting

if TYPE_CHECKING:
    from ..calls import BackwardCall, ForwardCall, StepCall, SwapCall
    from ..frames import FrameSite
    from ..judging import Judge

SURE = 3  #: steps with as many micro-batches before each of them are made on purpose
AT_END = 2
ELSEWHERE = 2  #: passes up to the step, of which the last at another place may be that of another loss
MODELS = 8  #: that are followed


class _Probe(Subject):
    """One parameter of a model, and what has happened to its gradient since the last step."""

    __slots__ = (
        *("alone", "dropped", "grad", "held", "model", "parameter", "passes", "periods", "stepped_at"),
        *("unsynchronized", "version"),
    )

    def __init__(self, parameter: torch.Tensor, model: torch.nn.Module) -> None:
        self.parameter = weakref.ref(parameter)
        self.model = weakref.ref(model)
        self.alone = True  # no other optimizer has stepped since the last step
        self.unsynchronized = False  # there was a pass that the ranks did not share
        self.grad: weakref.ref[torch.Tensor] | None = None
        self.version = -1
        self.held = False  # a gradient that no step has applied
        self.passes: list[FrameSite] = []
        self.dropped: list[FrameSite] = []
        self.periods: list[tuple[int, FrameSite, FrameSite]] = []  # micro-batches, where they are cleared, and walked
        self.stepped_at: FrameSite | None = None

    def changed(self) -> bool:
        """Whether the gradient is another one than when this was last asked."""
        parameter = self.parameter()
        grad = None if parameter is None else parameter.grad
        before = None if self.grad is None else self.grad()
        now = -1 if grad is None else version(grad)
        changed = grad is not None and (grad is not before or now != self.version)
        self.grad, self.version = None if grad is None else weakref.ref(grad), now
        return changed

    def step(self, site: FrameSite) -> bool:
        """A step is made; whether it may be one that is made on every k-th micro-batch only."""
        passes, dropped, held, alone = self.passes, self.dropped, self.held, self.alone
        self.passes, self.dropped, self.held, self.alone, self.stepped_at = [], [], False, True, site
        if not held or len(set(passes[:-1])) > 1 or len(dropped) != len(passes) - 1:
            return False
        # The pass before the step may stand at another place, as without `no_sync()`: unless it is another loss.
        if len(set(passes)) > 1 and not (alone and (len(passes) > ELSEWHERE or self.unsynchronized)):
            return False
        if len(passes) == 1:
            self.periods.append((1, passes[0], passes[0]))
            return len(self.periods) == 1  # the first iteration may be one that steps
        self.periods.append((len(passes), dropped[-1], passes[0]))
        counts = [count for count, _, _ in self.regular]
        return len(set(counts)) == 1

    @property
    def regular(self) -> list[tuple[int, FrameSite, FrameSite]]:
        """The periods, without a first one that is of one micro-batch."""
        return self.periods[1:] if self.periods and self.periods[0][0] == 1 else self.periods


class DefeatedAccumulation(Resting):
    """Reports steps on every k-th micro-batch, where the gradients of all the others were cleared unused."""

    RESTS_FROM = ("backward_ended", "step_begins", "step_ended")

    def __init__(self, judge: Judge) -> None:
        self._cohorts: Cohorts[_Probe] = Cohorts(judge, judge.follows(PeriodicStep))
        self._probes: list[_Probe] = []
        self._met: set[int] = set()  # ids of models
        self._stepping = False
        self.rest()

    def module_met(self, call: ForwardCall) -> None:
        if len(self._met) >= MODELS:
            return
        self._met.add(id(call.module))
        parameter = next((one for one in call.module.parameters() if one.requires_grad), None)
        if parameter is None or any(probe.parameter() is parameter for probe in self._probes):
            return
        if not parameter._backward_hooks and not getattr(parameter, "_post_accumulate_grad_hooks", None):
            probe = _Probe(parameter, call.module)
            self._probes.append(probe)
            self._cohorts.add(probe)
            self.wake()

    def backward_ended(self, call: BackwardCall) -> None:
        for probe in self._probes:
            if probe.changed() and call.accumulates:
                probe.passes.append(call.site)
                probe.held = True
                probe.unsynchronized |= getattr(probe.model(), "require_backward_grad_sync", True) is False

    def step_begins(self, call: StepCall) -> None:
        self._stepping = True
        owned = {id(parameter) for group in call.optimizer.param_groups for parameter in group["params"]}
        for probe in list(self._probes):
            if id(probe.parameter()) not in owned:
                probe.alone = False
                continue
            if call.closure or call.within is not None or not probe.step(call.site):
                self._drop([probe])
            elif len(probe.regular) == SURE:
                self._report(probe)

    def step_ended(self, _: StepCall) -> None:
        self._stepping = False

    def tensors_swapped(self, call: SwapCall) -> None:
        """Follow no parameter that becomes another one."""
        known = [(probe, (probe.parameter(), None if probe.grad is None else probe.grad())) for probe in self._probes]
        self._drop([probe for probe, pair in known if any(one is given for one in pair for given in call.tensors)])

    def finish(self, _: FrameSite) -> None:
        """The guard ends: two steps of a short training must do."""
        for probe in list(self._probes):
            if len(probe.regular) >= AT_END:
                self._report(probe)

    def _report(self, probe: _Probe) -> None:
        _, cleared_at, walked_at = probe.regular[-1]
        assert probe.stepped_at is not None
        self._cohorts.send(GradientsAccumulated(site=walked_at), [probe])
        self._cohorts.send(GradientsDiscarded(site=cleared_at), [probe])
        self._cohorts.send(PeriodicStep(site=probe.stepped_at), [probe])
        self._drop([probe])

    def _drop(self, probes: list[_Probe]) -> None:
        self._cohorts.drop(probes)
        self._probes = [probe for probe in self._probes if probe not in probes]
        if not self._probes:
            self._stepping = False
            self.rest()

    # --- what functions show ---------------------------------------------------------------------------------------

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a function: afterwards, a gradient that was dropped is gone."""
        descriptor: Any = torch.Tensor.grad
        return {
            descriptor.__set__: self._set,
            torch.Tensor.zero_: self._zeroed,
            torch._foreach_zero_: self._zeroed,
        }

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function."""
        descriptor: Any = torch.Tensor.grad
        return {descriptor.__get__: self._read}

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        for probe in self._probes:
            if probe.held and probe.parameter() is args[0]:
                self._cleared(probe)
                if args[1] is not None:
                    self._drop([probe])  # made by hand

    def _zeroed(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        given = args[0] if isinstance(args[0], (list, tuple)) else args[:1]
        for probe in self._probes:
            grad = None if probe.grad is None else probe.grad()
            if probe.held and grad is not None and any(one is grad for one in given):
                self._cleared(probe)

    def _cleared(self, probe: _Probe) -> None:
        probe.held = False
        probe.dropped.append(user_site(4))

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if self._probes and not self._stepping and result is not None and calling_frame(sys._getframe(1)) is not None:
            self._drop(self._probes)  # it is used, for whatever it may be
