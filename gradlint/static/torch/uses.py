"""Uses: what modules are given, and what becomes of the outputs of activations.

An activation may be left out where its output only feeds a loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint.intents import Omit
from gradlint.static.knowledge.ops import Op
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Ledgers
from gradlint.static.state.values import NONE, Ref, Tensor, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.context import Ledger

#: the losses that apply an activation themselves
_APPLIED = {
    "cross_entropy": ("softmax", "log_softmax"),
    "binary_cross_entropy_with_logits": ("sigmoid",),
}
_OMITTED = ("softmax", "log_softmax", "sigmoid")


class Uses:
    """Watches activations; leaving one out is disputed as soon as something else depends on its values."""

    _ledgers: Ledgers
    _witness: Witness
    _tensors: Tensors

    def __init__(self) -> None:
        self._judged: Site | None = None
        self._ranked: Ledger[int, Site] = self._ledgers.open()  #: the largest values of an output, and the like

    def judged(self, loss: str, prediction: Value | None, target: Value | None, w: World, site: Site) -> None:
        """A loss is about to be computed."""
        self._judged = site
        tensor = w.get(w.resolve(prediction), Tensor) if prediction is not None else None
        if tensor is not None and tensor.activation not in _APPLIED.get(loss, ()):
            self._dispute(tensor)
        if target is not None:
            self.escaped([target], w)

    def applied(self, op: Op, inputs: Iterable[Value], has_dim: bool, w: World, site: Site) -> None:
        """An operation was applied.  What keeps the values passes them on, what ranks them depends on their order."""
        ranks = op.ranks and (has_dim or op.result != "pair_by_dim")
        if op.activation == "keeps" or ranks or site == self._judged:
            return
        for value in inputs:
            self._used(value, w)

    def ranked(self, op: Op, inputs: list[Value], values: Value, w: World) -> None:
        """The largest (smallest, middle) values were taken together with their places, which is all that may count."""
        tensor = w.get(inputs[0], Tensor) if inputs else None
        at = tensor.activation_at if tensor is not None and tensor.activation in _OMITTED else None
        if op.ranks and at is not None and isinstance(values, Ref):
            self._ranked[values.id] = at

    def escaped(self, values: Iterable[Value], w: World) -> None:
        """Values left the code that is followed, or are shown, stored or compared."""
        for value in self._tensors.tensors_in(values, w):
            self._used(value, w)

    def _used(self, value: Value, w: World) -> None:
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            self._dispute(tensor)
        if isinstance(value, Ref) and value.id in self._ranked:
            self._witness.dispute(Omit, self._ranked[value.id])

    def _dispute(self, tensor: Tensor) -> None:
        if tensor.activation in _OMITTED and tensor.activation_at is not None:
            self._witness.dispute(Omit, tensor.activation_at)


class Inputs:
    """Knows the leaves that are inputs of models."""

    def __init__(self) -> None:
        self.groups: set[int] = set()  #: groups of leaves that a module with parameters is given

    def fed(self, given: Iterable[Value], w: World) -> None:
        """A module with parameters, or what looks like one, is called: what it is given first is its input.

        So is what that was computed from, as noise that was added to it.
        """
        tensor = w.get(w.resolve(next(iter(given), NONE)), Tensor)
        if tensor is not None and not tensor.is_parameter:
            self.groups |= tensor.groups or tensor.deps
