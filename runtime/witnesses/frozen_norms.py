"""Normalisation layers that are frozen, and move their running statistics all the same.

Models are looked at before a few of the steps: a layer that is frozen each time, and has moved, stays so.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from torch.nn.modules.batchnorm import _BatchNorm

from gradlint.events import NormDrifts

if TYPE_CHECKING:
    from torch import nn

    from ..calls import ForwardCall, StepCall
    from ..frames import FrameSite
    from ..judging import Judge

_OFTEN = 4  #: looks at a layer, the last of which tells
_FIRST = 8  #: steps of all optimizers together before each of which is looked, and then before each twice as far


class FrozenNorms:
    """Reports calls that move what is frozen."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._called: weakref.WeakKeyDictionary[nn.Module, FrameSite] = weakref.WeakKeyDictionary()
        self._moved: weakref.WeakKeyDictionary[nn.Module, list[int]] = weakref.WeakKeyDictionary()
        self._thawed: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._told: set[FrameSite] = set()
        self._steps = 0

    def forward_ended(self, call: ForwardCall) -> None:
        if not call.recomputed and call.tensors and call.tensors[0].requires_grad:
            self._called[call.module] = call.site

    def step_begins(self, _: StepCall) -> None:
        self._steps += 1
        if self._steps <= _FIRST or not self._steps & (self._steps - 1):
            for module, site in list(self._called.items()):
                if any(parameter.requires_grad for parameter in module.parameters()):
                    self._look(module, site)

    def _look(self, module: nn.Module, site: FrameSite) -> None:
        for layer in module.modules():
            if not isinstance(layer, _BatchNorm) or layer.num_batches_tracked is None or layer in self._thawed:
                continue
            parameters = list(layer.parameters(recurse=False))
            if any(parameter.requires_grad for parameter in parameters):
                self._thawed.add(layer)
            elif layer.training and parameters:
                counts = self._moved.setdefault(layer, [])
                counts.append(int(layer.num_batches_tracked))
                if len(counts) >= _OFTEN and counts[0] < counts[-1] and site not in self._told:
                    self._told.add(site)
                    self._judge.send(NormDrifts(site=site, layer=type(layer).__name__))
