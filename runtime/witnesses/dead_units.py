"""Units of a ReLU that give zero for every sample of many steps.

The graph of a loss holds what each ReLU has given, and the layer it was given by.  It is looked into before the
backward pass of few steps: after the first forty, after four times as many, and so on.  Only where most units of a
layer are zero there, the steps that follow are looked at too, until they are enough to tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gradlint.events import UnitsDead

from ..records.samples import Arriving
from ..records.saved import held_by, saved_by
from ..records.walks import below
from ..roster import Resting
from ..tensors import holds_values, unseen_by_modes

if TYPE_CHECKING:
    from ..calls import BackwardCall, ForwardCall, StepCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..records.modules import KnownModules

WARM = 40  #: steps before the first look
RARELY = 4  #: times as many steps are made until the next look, where there is nothing to suspect
EVERY = 5  #: of the steps that follow a suspicion, one is looked at
LOOKS = 8  #: at a layer, at least, before it is reported
MOST = 64  #: looks, after which there are too few samples to tell
SAMPLES = 64  #: at least, and as many as there are units, up to
ENOUGH = 1024  #: samples
POSITIONS = 8  #: of an image, at most, that count as samples of their own
SHARE = 0.9  #: of the units of a layer
MANY = 256  #: ReLUs that are looked at
NODES = 20_000  #: of a graph
DEPTH = 5  #: nodes between a ReLU and the layer that gave it what it was given

_RELU = "ReluBackward"
#: Nodes that leave units what they are, and whose first input is what they were made of.
_PASSED = (
    "NativeBatchNorm",
    "CudnnBatchNorm",
    "MiopenBatchNorm",
    "NativeLayerNorm",
    "NativeGroupNorm",
    "View",
    "UnsafeView",
    "ReshapeAlias",
    "ToCopy",
)
_CONVERTED = ("ToCopy",)


class _Layer(NamedTuple):
    """The weight that a ReLU's units come of."""

    weight: torch.Tensor
    node: Any  #: of the product with it
    convolves: bool
    transposed: bool  #: units are rows of the weight


@dataclass(slots=True, eq=False)
class _Units:
    """What is known of the units of a layer since it was suspected."""

    weight: torch.Tensor  #: held only while there is something to decide, which is a few steps
    site: FrameSite
    alive: torch.Tensor  #: for each unit, whether it was
    looks: int = 0
    samples: int = 0
    count: Arriving | None = None  #: of those that were


@dataclass(slots=True, eq=False)
class _Window:
    """A stretch of steps that are looked at."""

    layers: dict[int, _Units] = field(default_factory=dict)  #: by the id of their weight
    looks: int = 0


class DeadUnits(Resting):
    """Reports layers most of whose units give zero whatever they are given."""

    RESTS_FROM = ("backward_begins", "forward_ended")  # in steps that are not looked at

    def __init__(self, judge: Judge, modules: KnownModules) -> None:
        self._judge = judge
        self._modules = modules
        self._steps = 0
        self._next = self._start = WARM  #: the step to look at, and that with which the next window begins
        self._window = _Window()
        self._told: set[str] = set()
        self._evaluates = False
        self.rest()

    def step_ended(self, _: StepCall) -> None:
        self._steps += 1
        if self._steps >= self._next:
            self._evaluates = False
            if self._rests:
                self.wake()
            elif self._window.looks:
                self._go_on()

    def forward_ended(self, call: ForwardCall) -> None:
        if not call.module.training and any(tensor.requires_grad for tensor in call.tensors):
            self._evaluates = True

    def backward_begins(self, call: BackwardCall) -> None:
        if not call.accumulates or call.retain or self._evaluates or _is_captured(call):
            return
        with torch.no_grad(), unseen_by_modes():
            self._look(call)

    def finish(self, _: FrameSite) -> None:
        """Hold nothing any longer."""
        self._window = _Window()

    def _look(self, call: BackwardCall) -> None:
        window = self._window
        first = not window.looks
        window.looks += 1
        seen: set[int] = set()
        for result, layer in _relus(call.roots):
            known = window.layers.get(id(layer.weight))
            looked = _alive(result, layer) if first or known is not None else None
            if looked is None:
                continue
            alive, samples = looked
            if not first:
                alive = alive | ~_is_given_values(layer)
            if known is None:
                known = window.layers[id(layer.weight)] = _Units(layer.weight, call.site, alive)
            if known.alive.shape != alive.shape or known.alive.device != alive.device:
                continue
            known.alive = known.alive | alive
            known.samples += samples
            if id(layer.weight) not in seen:
                seen.add(id(layer.weight))
                known.looks += 1
        for key, known in list(window.layers.items()):
            if key in seen:
                known.count = Arriving(known.alive.count_nonzero().reshape(1))
            elif not first:
                del window.layers[key]  # it is not always used

    def _go_on(self) -> None:
        """After a step that was looked at: tell, or look at another one, or at none for long."""
        window = self._window
        if any(one.count is not None and not one.count.arrived for one in window.layers.values()):
            return
        for key, known in list(window.layers.items()):
            alive = int(known.count.wait()) if known.count is not None else known.alive.numel()
            if alive > (1 - SHARE) * known.alive.numel():
                del window.layers[key]
            elif known.looks >= LOOKS and known.samples >= _enough(known):
                self._tell(known)
                del window.layers[key]
        self.rest()
        if window.layers and window.looks < MOST:
            self._next = self._steps + EVERY - 1
            return
        self._start = max(RARELY * self._start, self._steps + WARM)
        self._next, self._window = self._start, _Window()

    def _tell(self, known: _Units) -> None:
        (name,) = self._modules.names([known.weight])
        layer = name.rpartition(".")[0] or name
        weight = known.weight.detach()
        rows = weight.flatten(1) if len(weight) == len(known.alive) else weight.t()
        pruned = (rows == 0).all(1)
        units = int((~pruned).sum())
        dead = int((~known.alive & ~pruned).sum())
        if not units or dead < SHARE * units or name in self._told:
            return
        self._told.add(name)
        self._judge.send(
            UnitsDead(site=known.site, layer=layer, dead=dead, units=units, samples=known.samples, steps=known.looks)
        )


def _relus(roots: tuple[Any, ...]) -> Iterator[tuple[torch.Tensor, _Layer]]:
    """What the ReLUs of a graph have given, and the trained layers whose outputs they were given."""
    found = 0
    for number, node in enumerate(below(roots)):
        if number >= NODES or found >= MANY:
            return
        if node.name().startswith(_RELU):
            found += 1
            layer = _layer_of(node)
            result = _given_by(node) if layer is not None else None
            if layer is not None and result is not None and holds_values(result) and result.numel():
                yield result.detach(), layer


def _given_by(relu: Any) -> torch.Tensor | None:
    try:
        return held_by(relu._raw_saved_result)
    except RuntimeError:  # it was freed
        return None


def _layer_of(relu: Any) -> _Layer | None:
    """The layer behind a ReLU; None for one that is not trained, or from which other things lead there, too."""
    node = relu.next_functions[0][0]
    for _ in range(DEPTH):
        if node is None:
            return None
        name, following = node.name(), node.next_functions
        if name.startswith("Convolution"):
            weight = _parameter(following[1][0])
            return None if weight is None else _Layer(weight, node, convolves=True, transposed=True)
        if name.startswith(("Addmm", "Mm")):
            factor = following[-1][0]
            transposed = factor is not None and factor.name().startswith("TBackward")
            weight = _parameter(factor.next_functions[0][0] if transposed else factor)
            return None if weight is None else _Layer(weight, node, convolves=False, transposed=transposed)
        if not name.startswith(_PASSED):
            return None
        node = following[0][0]
    return None


def _parameter(node: Any) -> torch.Tensor | None:
    """The leaf that a node accumulates for, as it is or in another precision."""
    while node is not None and node.name().startswith(_CONVERTED):
        node = node.next_functions[0][0]
    variable = getattr(node, "variable", None)
    return variable if isinstance(variable, torch.Tensor) and variable.dim() >= 2 and holds_values(variable) else None


def _alive(result: torch.Tensor, layer: _Layer) -> tuple[torch.Tensor, int] | None:
    """For each unit whether it has given anything but zero, and the number of samples."""
    dimension = 1 if layer.convolves else result.dim() - 1
    units = layer.weight.shape[0] if layer.transposed else layer.weight.shape[1]
    if result.dim() < 2 or (layer.convolves and result.dim() != layer.weight.dim()):
        return None
    if result.shape[dimension] != units:
        return None
    others = [number for number in range(result.dim()) if number != dimension]
    positions = result.numel() // (units * len(result))
    samples = len(result) * (min(positions, POSITIONS) if layer.convolves else positions)
    return result.any(others), samples  # what is not a number is not zero


def _is_given_values(layer: _Layer) -> torch.Tensor:
    """Whether a layer is given anything: behind one that gives nothing, or a mask, all units are what their bias is."""
    given = [tensor.any() for tensor in saved_by(layer.node) if holds_values(tensor)]
    return torch.stack(given).all() if given else torch.tensor(True, device=layer.weight.device)


def _enough(known: _Units) -> int:
    return max(SAMPLES, min(known.alive.numel(), ENOUGH))


def _is_captured(call: BackwardCall) -> bool:
    on_device = any(isinstance(root, torch.Tensor) and root.is_cuda for root in call.roots)
    return on_device and torch.cuda.is_current_stream_capturing()
