"""Losses inside compiled regions, and behind them, read from the graphs that dynamo hands to its backend.

There is no function mode where code is compiled; the graph says as well what reaches which loss.  It is only looked at.
Where a graph returns what an activation has made, functions are watched from there to the step of the optimizer: in two
steps, and not before the last call of a model in them, so that nothing is compiled again.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import LogTaken, LossCalled, Tensor
from gradlint.facts import Fact, known, unknown
from gradlint.finding import Location, Site

from ..records.regions import function_of, place_of
from ..tensors import holds_values, unseen_by_modes
from ..torch_functions import APPLIES, KEEPS, LOGARITHMS, LOSSES

if TYPE_CHECKING:
    from ..calls import CompileCall, ForwardCall, StepCall
    from ..judging import Judge

Shaped = dict[Any, tuple[str, Location | None]]  # nodes by what last shaped their values, and where

_ACTIVATIONS = {function: name for name, functions in APPLIES.items() for function in functions}
_KEEPING = frozenset(KEEPS.split())
_MADE = ("softmax", "log_softmax", "sigmoid")
_VIEW = re.compile(r"(Unsafe)?View|Alias|AsStrided")
NEAR = 1e-3  #: how far probabilities may be from 1 in sum
LOOKS = 2  #: steps in which the losses behind a region are looked for


@dataclass(slots=True, eq=False)
class _Returned:
    """What an activation has made, returned by a compiled region."""

    activation: str
    place: Location | None  #: None for a layer of a model that is torch's own
    ndim: int

    def is_like(self, tensor: torch.Tensor) -> bool:
        """Whether the values of a tensor are such as this activation makes.  Waits for the device that has them."""
        if tensor.ndim != self.ndim or not tensor.numel() or not holds_values(tensor):
            return False
        with torch.no_grad(), unseen_by_modes():
            values = tensor.detach().float()
            if self.activation == "log_softmax":
                values = values.exp()
            if bool((values < 0).any()) or bool((values > 1 + NEAR).any()):
                return False
            sums = [values.sum(dim) - 1 for dim in range(values.ndim)]
            return self.activation == "sigmoid" or any(bool((one.abs() < NEAR).all()) for one in sums)


class CompiledLosses:
    """Follows activations through compiled graphs to the losses and logarithms that are given them.

    Args:
        judge: is told of losses and logarithms.
        know: is told of outputs of compiled regions, of what has made them, and where.
        watch: lets functions be watched, or no longer.
    """

    def __init__(
        self, judge: Judge, know: Callable[[torch.Tensor, str, Site], None], watch: Callable[[bool], None]
    ) -> None:
        self._judge = judge
        self._know = know
        self._watch = watch
        self._fresh: list[_Returned] = []  # by regions that were compiled in the call under way
        self._returned: dict[int, tuple[weakref.ref[torch.nn.Module], list[_Returned]]] = {}  # by modules
        self._calls = 0  # of compiled modules since the last step
        self._latest = 0  # how many there were before it
        self._usual = 0  # likewise, if it was the same in the step before that one
        self._looks = 0  # left
        self._has_known = False  # outputs that matter, since the last step
        self._watching = False

    def graph_compiled(self, call: CompileCall) -> None:
        """A region was traced; what it does is the same in each call."""
        shaped: Shaped = {}
        for node in call.graph.nodes:
            function = function_of(node)
            given = node.args[0] if node.args else node.kwargs.get("input")
            if function in _ACTIVATIONS:
                shaped[node] = _ACTIVATIONS[function], place_of(node)
            elif node.op == "output":
                self._note_outputs(given, shaped)
            elif given in shaped and getattr(function, "__name__", "") in _KEEPING:
                shaped[node] = shaped[given]
            elif function in LOSSES and (place := place_of(node)) is not None:
                view = _view(shaped.get(given))
                self._judge.send(LossCalled(site=place, loss=LOSSES[function], input=view, target=Tensor()))
            elif function in LOGARITHMS and given in shaped and (place := place_of(node)) is not None:
                view = _view(shaped[given])
                self._judge.send(LogTaken(site=place, input=view, activation=view.activation))

    def _note_outputs(self, outputs: Any, shaped: Shaped) -> None:
        for node in outputs if isinstance(outputs, (tuple, list)) else ():
            activation, place = shaped.get(node, ("", None))
            example = getattr(node, "meta", {}).get("example_value")
            if activation in _MADE and isinstance(example, torch.Tensor):
                self._fresh.append(_Returned(activation, place, example.ndim))

    # --- losses behind compiled regions ----------------------------------------------------------------------

    def forward_ended(self, call: ForwardCall) -> None:
        fresh, self._fresh = self._fresh, []
        if not (fresh or self._returned) or call.recomputed or not torch.is_grad_enabled():
            return
        if fresh or any(map(_is_compiled, call.tensors)):
            self._calls += 1
        if fresh:
            self._returned[id(call.module)] = weakref.ref(call.module), fresh
            self._looks = LOOKS
            return
        entry = self._returned.get(id(call.module))
        returned = entry[1] if entry is not None and entry[0]() is call.module else []
        for tensor in filter(_is_compiled, call.tensors):
            for one in returned:
                if one.is_like(tensor):
                    self._know(tensor, one.activation, one.place or call.site)
                    self._has_known = True
        if self._watching and self._calls > self._usual:
            self._stop()
        elif not self._watching and self._has_known and self._calls == self._usual:
            self._watching = True
            self._watch(True)

    def step_begins(self, call: StepCall) -> None:
        """Not before: while `Tensor.backward` runs, the mode that watches functions cannot be taken out."""
        if not self._returned:
            return
        steady = self._calls == self._latest and not call.closure
        self._latest, self._usual = self._calls, self._calls if steady else 0
        self._calls, self._has_known = 0, False
        if self._watching:
            self._stop()
            self._looks -= 1
            if self._looks <= 0:
                self._returned = {}

    def _stop(self) -> None:
        self._watching = False
        self._watch(False)


def _is_compiled(tensor: torch.Tensor) -> bool:
    """Whether a compiled region has returned this tensor."""
    node = tensor.grad_fn
    while node is not None and _VIEW.match(node.name()):  # torch makes views anew
        node = node.next_functions[0][0]
    return node is not None and node.name().startswith("Compiled")


def _view(entry: tuple[str, Location | None] | None) -> Tensor:
    activation: Fact[str] = unknown() if entry is None else known(entry[0])
    return Tensor(activation=activation, activation_at=None if entry is None else entry[1])
