"""Gradients that are scaled, unscaled and clipped, and the order in which that is done.

What a scaler multiplied carries a mark in its graph; the gradients of a backward pass from there are scaled, until
their scaler, or anybody else, has changed them.  A change through ``.data`` shows in no version: before a mistake is
told, norms are compared with those at the beginning.  They are taken until a scaler makes a step, and on suspicion.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import (
    Event,
    GradientsClipped,
    GradientsScaled,
    GradientsUnscaled,
    ScalerStepped,
    ScalerUpdated,
)

from ..gradients.bundles import Bundle, are_zero, norms
from ..roster import Resting

if TYPE_CHECKING:
    from ..calls import BackwardCall, ClipCall, ScalerCall, StepCall
    from ..frames import FrameSite
    from ..gradients.history import GradientHistory

EVENTS: frozenset[type[Event]] = frozenset({GradientsClipped, GradientsScaled, ScalerStepped})
LEVELS = 3  #: of a graph, below its root, in which a scaled loss is looked for
ROUNDING = 1e3  #: a limit that is less than the scale by more than this is no limit of scaled gradients

_guards = itertools.count(1)


class Scaling(Resting):
    """Reports to the protocols over gradients what scalers and clipping do with them."""

    RESTS_FROM = ("backward_ended", "step_ended")  # until there is a scaler, or something suspicious

    def __init__(self, history: GradientHistory) -> None:
        self._history = history
        history.before_step.append(self._before_step)
        self._key = f"gradlint.scaled.{next(_guards)}"
        self._scaler: weakref.ref[torch.amp.GradScaler] | None = None  # that was used last
        self._steppers: dict[int, weakref.ref[torch.amp.GradScaler]] = {}
        """Scalers that made a step and were not updated since, by the ids of optimizers."""
        self._asked = False  # for its scale, since its last update: gradients or limits may be scaled by hand
        self._doubts_scaled = True  # whether norms of scaled gradients are taken
        self._doubts_spent = False  # whether those are that a step has applied
        self._known: dict[int, torch.Tensor] = {}  # norms of gradients that were new, by the ids of their parameters
        self._suspects: set[FrameSite] = set()  # places where gradients were clipped too early or too late
        self._right: set[FrameSite] = set()  # or were so once, but not always
        self.rest()

    # --- scalers ---------------------------------------------------------------------------------------------

    def scaler_called(self, call: ScalerCall) -> None:
        if call.optimizer is not None and call.method in ("step", "unscale_"):
            self._unscaled(self._of(call), call.site)

    def scaler_returned(self, call: ScalerCall) -> None:
        if call.method == "scale" and call.error is None:
            self._scaler = weakref.ref(call.scaler)
            self.wake()
            for tensor in [call.result] if isinstance(call.result, torch.Tensor) else list(call.result):
                node: Any = tensor.grad_fn
                if node is not None:
                    node.metadata[self._key] = True
        elif call.method == "get_scale":
            self._asked = True
        elif call.method == "update":
            self._asked = False
            self._steppers = {key: one for key, one in self._steppers.items() if one() is not call.scaler}
        elif call.method == "step" and call.optimizer is not None:
            if call.error is None:
                self._doubts_scaled = bool(self._suspects)
                stepper = self._steppers.get(id(call.optimizer))
                if stepper is None or stepper() is not None:  # else the last one is gone, and never was updated
                    self._history.tell(ScalerUpdated(site=call.site), self._of(call))
                self._steppers[id(call.optimizer)] = weakref.ref(call.scaler)
            if call.error is None or "already been called" in str(call.error):
                self._history.tell(ScalerStepped(site=call.site), self._of(call))

    def _of(self, call: ScalerCall) -> list[Bundle]:
        groups = [] if call.optimizer is None else call.optimizer.param_groups
        return self._history.of(parameter for group in groups for parameter in group["params"])

    def _unscaled(self, bundles: list[Bundle], site: FrameSite) -> None:
        for bundle in bundles:
            bundle.scaled = False
        self._history.tell(GradientsUnscaled(site=site), bundles)

    # --- what is done with the gradients ---------------------------------------------------------------------

    def backward_ended(self, call: BackwardCall) -> None:
        if self._scaler is None or call.error is not None or not call.accumulates or not self._is_scaled(call.roots):
            return
        reached = self._history.reached
        for bundle in reached:
            bundle.scaled = True
        self._history.tell(GradientsScaled(site=call.site), reached)
        if self._doubts_scaled:
            self._measure(reached)

    def _is_scaled(self, roots: Iterable[Any]) -> bool:
        nodes: set[Any] = {root.grad_fn if isinstance(root, torch.Tensor) else root.node for root in roots} - {None}
        for _ in range(LEVELS):
            if any(self._key in node.metadata for node in nodes):
                return True
            nodes = {child for node in nodes for child, _ in node.next_functions if child is not None}
        return False

    def _before_step(self, call: StepCall, bundles: list[Bundle]) -> None:
        """Are these gradients what the scaled loss has left?"""
        scaled = [bundle for bundle in bundles if bundle.scaled] if self._scaler is not None else []
        # An optimizer that is given a scale divides by it.
        if scaled and (getattr(call.optimizer, "grad_scale", None) is not None or not self._are_unchanged(scaled)):
            self._unscaled(scaled, call.site)

    def step_ended(self, call: StepCall) -> None:
        if self._doubts_spent:
            parameters = [parameter for group in call.optimizer.param_groups for parameter in group["params"]]
            self._measure(self._history.of(parameters))

    def gradients_clipped(self, call: ClipCall) -> None:
        if not math.isfinite(call.limit):
            return  # this only measures
        if self._history.are_new(call.parameters):
            self._right.add(call.site)
            return
        bundles = self._history.look(call.parameters, call.site)
        added = [bundle for bundle in bundles if bundle.added]
        scaled = [bundle for bundle in added if bundle.scaled]
        if added and (not scaled or self._limit_is_scaled(call.limit)):
            self._right.add(call.site)
            return
        concerned = scaled or _done_with(bundles)
        if not concerned or call.site in self._right:
            return
        if call.site not in self._suspects:
            self._suspects.add(call.site)
            self._doubts_scaled = self._doubts_spent = True
            self.wake()
        elif not any(bundle.scaled or bundle.spent for bundle in concerned) or self._are_unchanged(concerned):
            self._history.tell(GradientsClipped(site=call.site), concerned)

    def _limit_is_scaled(self, limit: float) -> bool:
        scaler = None if self._scaler is None else self._scaler()
        scale = None if scaler is None else scaler._scale
        return self._asked and (scale is None or limit * ROUNDING >= float(scale))

    # --- doubts ----------------------------------------------------------------------------------------------

    def _measure(self, bundles: list[Bundle]) -> None:
        self._known.update((key, norm) for key, norm in _norms(bundles) if norm is not None)

    def _are_unchanged(self, bundles: list[Bundle]) -> bool:
        """Whether gradients are known to be what they were when they were new."""
        if any(id(parameter()) not in self._known for bundle in bundles for parameter in bundle.parameters):
            self._doubts_scaled = True
            return False
        return all(norm is None or bool(self._known[key] == norm) for key, norm in _norms(bundles))


def _done_with(bundles: list[Bundle]) -> list[Bundle]:
    """Those of gradients no backward pass has added to since a step, or a clearing, that went before."""
    there = [bundle for bundle in bundles if bundle.grads is not None]
    if any(bundle.spent for bundle in there):
        return there if all(bundle.spent for bundle in there) else []
    if there:
        return [bundle for bundle in there if all(are_zero(norms(bundle.known())))]
    return [bundle for bundle in bundles if bundle.reached]


def _norms(bundles: list[Bundle]) -> Iterator[tuple[int, torch.Tensor | None]]:
    """The norms of gradients as they are now, by the ids of their parameters."""
    for bundle in bundles:
        yield from zip((id(parameter()) for parameter in bundle.parameters), norms(bundle.known()), strict=True)
