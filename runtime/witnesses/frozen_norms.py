"""Normalisation layers that are frozen, and move their running statistics all the same.

Models are looked at before a few of the steps: a layer that is frozen each time, and has moved, stays so.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from gradlint.events import NormDrifts

from ..tensors import holds_values

if TYPE_CHECKING:
    from torch import nn

    from ..calls import ForwardCall, StepCall
    from ..frames import FrameSite
    from ..judging import Judge

_OFTEN = 4  #: looks at a layer, the last of which tells
_FIRST = 8  #: steps of all optimizers together before each of which is looked, and then before each twice as far


class _Layer:
    """A layer that was seen frozen, or not."""

    __slots__ = ("batches", "looks", "reference", "thawed", "values")

    def __init__(self, layer: _BatchNorm, batches: int) -> None:
        self.reference = weakref.ref(layer)
        self.batches = batches  #: those it had seen at the first look
        self.looks = 0
        self.thawed = False  #: it was seen to be trained, or to follow what is trained, as the average of a model does
        self.values = [one.detach().clone() for one in layer.parameters(recurse=False) if holds_values(one)]

    def has_changed(self, parameters: list[nn.Parameter]) -> bool:
        """Whether the parameters have other values than at the first look."""
        now = [one.detach() for one in parameters if holds_values(one)]
        return len(now) != len(self.values) or not all(map(torch.equal, now, self.values))


class FrozenNorms:
    """Reports calls that move what is frozen."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._called: dict[int, tuple[weakref.ref[nn.Module], FrameSite]] = {}
        self._layers: dict[int, _Layer] = {}
        self._told: set[FrameSite] = set()
        self._steps = 0

    def forward_ended(self, call: ForwardCall) -> None:
        if not call.recomputed and call.tensors and call.tensors[0].requires_grad:
            known = self._called.get(id(call.module))
            if known is None or known[1] is not call.site or known[0]() is not call.module:
                self._called[id(call.module)] = weakref.ref(call.module), call.site

    def step_begins(self, _: StepCall) -> None:
        self._steps += 1
        if self._steps > _FIRST and self._steps & (self._steps - 1):
            return
        self._called = {key: known for key, known in self._called.items() if known[0]() is not None}
        self._layers = {key: layer for key, layer in self._layers.items() if layer.reference() is not None}
        for reference, site in self._called.values():
            module = reference()
            if module is not None and any(parameter.requires_grad for parameter in module.parameters()):
                self._look(module, site)

    def _look(self, module: nn.Module, site: FrameSite) -> None:
        for layer in module.modules():
            if not isinstance(layer, _BatchNorm) or layer.num_batches_tracked is None:
                continue
            parameters = list(layer.parameters(recurse=False))
            known = self._layers.get(id(layer))
            if known is None or known.reference() is not layer:
                known = self._layers[id(layer)] = _Layer(layer, int(layer.num_batches_tracked))
            known.thawed = known.thawed or any(one.requires_grad for one in parameters)
            known.thawed = known.thawed or known.has_changed(parameters)
            if known.thawed or not layer.training or not parameters:
                continue
            known.looks += 1
            moved = known.looks >= _OFTEN and int(layer.num_batches_tracked) > known.batches
            if moved and site not in self._told:
                self._told.add(site)
                self._judge.send(NormDrifts(site=site, layer=type(layer).__name__))
