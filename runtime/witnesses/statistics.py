"""Copies of models whose parameters follow those of another one, while their running statistics are left behind.

A model that is evaluated is looked at now and then: what has changed of it from one look to the next.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from gradlint.events import StatisticsLeft

from ..records.checksums import is_readable, reader

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from ..calls import BuildCall, ForwardCall, StepCall, SwapCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..records.modules import KnownModules


class _Seen(NamedTuple):
    """What a look at a model has seen."""

    weights: list[Any]  #: the content of its first and its last parameter
    statistics: list[Any]  #: that of the first layer's, and how often those of each layer were changed


class _Model:
    """A model that is evaluated."""

    __slots__ = ("before", "calls", "layers", "reference")

    def __init__(self, model: nn.Module) -> None:
        self.reference = weakref.ref(model)
        self.layers = [weakref.ref(layer) for layer in _layers(model)]
        self.calls = 0
        self.before: _Seen | None = None


class LeftStatistics:
    """Reports evaluations of what follows the parameters of another model alone."""

    def __init__(self, judge: Judge, modules: KnownModules, optimizers: Iterable[Optimizer]) -> None:
        self._judge = judge
        self._modules = modules
        self._optimizers = weakref.WeakSet(optimizers)
        self._models: dict[int, _Model] = {}
        self._told: set[FrameSite] = set()

    def optimizer_built(self, call: BuildCall) -> None:
        self._optimizers.add(call.optimizer)

    def step_begins(self, call: StepCall) -> None:
        self._optimizers.add(call.optimizer)

    def tensors_swapped(self, _: SwapCall) -> None:
        """Parameters become others: what was seen of them is not to be compared with them."""
        self._models.clear()

    def evaluated(self, call: ForwardCall) -> None:
        """A model was called in evaluation mode, or without gradients."""
        model = self._models.get(id(call.module))
        if model is None or model.reference() is not call.module:
            self._models = {key: one for key, one in self._models.items() if one.reference() is not None}
            model = self._models[id(call.module)] = _Model(call.module)
        model.calls += 1
        if not model.layers or model.calls & (model.calls - 1) or call.recomputed or call.site in self._told:
            return
        seen, before = _look(call.module, model), model.before
        model.before = seen
        if seen is None or before is None or seen.statistics != before.statistics or seen.weights == before.weights:
            return
        layer = next(_layers(call.module), None)  # they may have been replaced
        if layer is not None and self._follows(call.module):
            self._told.add(call.site)
            self._judge.send(StatisticsLeft(site=call.site, layer=type(layer).__name__))

    def _follows(self, model: nn.Module) -> bool:
        """Whether no optimizer steps a model, and another one like it has seen more."""
        own = list(model.parameters())
        mine = set(map(id, own))
        stepped = {id(p) for each in list(self._optimizers) for group in each.param_groups for p in group["params"]}
        if not mine.isdisjoint(stepped):
            return False
        seen = _batches(model)
        for other in self._modules:
            parameters = list(other.parameters())
            alike = [p.shape for p in parameters] == [p.shape for p in own]
            if alike and mine.isdisjoint(map(id, parameters)) and _batches(other) > seen:
                return True
        return False


def _layers(model: nn.Module) -> Iterator[_BatchNorm]:
    return (m for m in model.modules() if isinstance(m, _BatchNorm) and m.num_batches_tracked is not None)


def _batches(model: nn.Module) -> int:
    """How many batches the layers of a model have seen, all together."""
    return sum(int(layer.num_batches_tracked) for layer in _layers(model) if layer.num_batches_tracked is not None)


def _look(module: nn.Module, model: _Model) -> _Seen | None:
    """What a model holds; None where that cannot be read, or a layer is in training mode."""
    layers = [layer for reference in model.layers if (layer := reference()) is not None]
    if any(layer.training for layer in layers):
        return None
    if torch._C._get_tracing_state():
        return None
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return None
    parameters = [parameter.detach() for parameter in module.parameters()]
    kept = [(each.running_mean, each.running_var, each.num_batches_tracked) for each in layers]
    first = [each for each in kept[0] if each is not None] if kept else []
    read = [*parameters[:1], *parameters[-1:], *first]
    if not parameters or not all(map(is_readable, read)):
        return None
    content = [reader(tensor)() for tensor in read]
    versions = [each._version for layer in kept for each in layer if each is not None and not each.is_inference()]
    return _Seen(content[:2], [*content[2:], *versions])
