"""What becomes of what modules are given and give: outputs that are left out, and residual branches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.intents import Omit
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import UNMOVED
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import united
from gradlint.static.state.context import Context, Ledger, Ledgers
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import NONE, Const, Ref, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


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


OVERWRITTEN = "overwritten"
"""With a number: what a world is bound to once a value was overwritten, whose result is known by another name."""

_KEEPING = ("keeps", "averages", "bounds")
_REDUCING = ("reduces", "one")
_PROBABILITIES = ("softmax", "sigmoid")


class Residuals:
    """Follows what is computed of the results of operations in place to where the old values are added to it."""

    _ledgers: Ledgers
    _witness: Witness

    def __init__(self) -> None:
        self._numbers: Ledger[Hashable, int] = self._ledgers.open()  #: by the keys of unknown values
        self._passed: Ledger[Hashable, frozenset[int]] = self._ledgers.open()
        """By the keys of what unknown parts of modules returned: the changes from whose results they were given."""

    def moves(self, how: str, target: Value, w: World) -> bool:
        """Whether an operation in place may change a value: relu leaves what another one has returned as it is."""
        tensor = w.get(target, Tensor)
        return how not in UNMOVED or tensor is None or not tensor.unsigned

    def overwritten(self, target: Value, result: Value, w: World, site: Site) -> None:
        """An operation has overwritten a value, and returned it: it is known as ``result`` from now on."""
        number = self._number(w.resolve(target), anew=True)
        if number and isinstance(result, Ref) and self._witness.listened(events.SkipOverwritten):
            w.bound[OVERWRITTEN, number] = Const(site)
            new: Tensor = w.write(result.id)
            new.passed, new.outdated = new.passed | {number}, new.outdated - {number}

    def called(self, result: Unknown, given: Iterable[Value], w: World, ctx: Context) -> None:
        """Something unknown was called, as one layer of a module is, and gave ``result``."""
        passed = united(self._led_to(value, w) for value in given) if ctx.in_forward else frozenset()
        if passed:
            self._passed[result.key] = passed

    def passed(self, key: Hashable) -> frozenset[int]:
        """The changes from whose results an unknown value was computed."""
        return self._passed.get(key, frozenset())

    def _led_to(self, value: Value, w: World) -> frozenset[int]:
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        return tensor.passed if tensor is not None else self.passed(value.key if isinstance(value, Unknown) else None)

    def computed(self, op: Op, result: Tensor, inputs: Iterable[Value], w: World) -> None:
        """An operation gave ``result``."""
        values = list(inputs)
        given = [w.get(value, Tensor) for value in values]
        result.passed = united(self._led_to(value, w) for value in values)
        keeps = op.sign == "keeps" or op.activation in _KEEPING
        least = 2 if op.size == "broadcast" else 1  # a number beside a tensor may be below zero
        result.unsigned = (
            op.sign == "positive"
            or op.activation in _PROBABILITIES
            or (keeps and len(given) >= least and all(tensor is not None and tensor.unsigned for tensor in given))
        )
        if len(values) == 1 and op.size not in _REDUCING:
            result.outdated = self._outdated(values[0], w) - result.passed

    def changed(self, how: Op, target: Ref, values: Iterable[Value], w: World, ctx: Context, site: Site) -> None:
        """A tensor is changed in place by others, and keeps its name."""
        values = list(values)
        self.summed(how, [target, *values], w, ctx, site)
        tensor: Tensor = w.write(target.id)
        before = tensor.passed
        self.computed(how, tensor, [target, *values], w)
        tensor.passed |= before

    def summed(self, op: Op, inputs: list[Value], w: World, ctx: Context, site: Site) -> None:
        """An operation is about to be applied: a sum may be one of a branch and of what it began with."""
        if op.activation != "combines" or op.size != "broadcast" or len(inputs) != 2:
            return
        for skip, branch in (inputs, inputs[::-1]):
            passed = self._led_to(branch, w)
            for number in sorted(self._outdated(skip, w) & passed if passed else ()):
                at = w.bound.get((OVERWRITTEN, number))
                if isinstance(at, Const):
                    self._witness.send(events.SkipOverwritten(site=at.value, added_at=site), w, ctx, alternative=site)

    def _outdated(self, value: Value, w: World) -> frozenset[int]:
        """The changes that have overwritten a value, or what a layer was given that gave it, under its old name."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        number = self._number(value)
        own = frozenset([number] if (OVERWRITTEN, number) in w.bound else ())
        return own if tensor is None else (own | tensor.outdated) - tensor.passed

    def _number(self, value: Value, *, anew: bool = False) -> int:
        """What tells a value, as it is known by one name, from others; 0 for what is no tensor."""
        if isinstance(value, Ref):
            return value.id
        if anew and isinstance(value, Unknown) and value.key not in self._numbers:
            self._numbers[value.key] = fresh()
        return self._numbers.get(value.key, 0) if isinstance(value, Unknown) else 0
