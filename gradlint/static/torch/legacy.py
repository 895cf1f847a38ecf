"""Calls that are told by what was written: old names, a softmax without its dimension, the log of a softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge.guesses import EPSILON_NAME
from gradlint.static.knowledge.torch_table import DEPRECATED_INITS, SOFTMAX_DIMS, SYMBOLS
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.values import NONE, Const, Ref, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

_SMALL = 0.1


class Legacy:
    """Tells of calls of torch that are written in a way that should be another."""

    _witness: Witness
    _ledgers: Ledgers
    _tensors: Tensors
    _evaluation: Evaluation

    def __init__(self) -> None:
        self._same: Ledger[int, int] = self._ledgers.open()
        """Of probabilities to which a small number was added, or that were negated: which they are."""
        self._logs: Ledger[int, tuple[int, Site]] = self._ledgers.open()
        """Of a logarithm of such probabilities: which they are, and where it was taken."""

    def called(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``name(...)``, by canonical name."""
        position = SOFTMAX_DIMS.get(name)
        if position is not None:
            dim = args.get(position, "dim")
            if dim is None and not name.startswith("torch.nn."):
                dim = args.keywords.get("axis")
            given = dim is not None and w.resolve(dim) != NONE
            shown = name.replace("torch.nn.functional", "F").replace("torch.nn", "nn")
            fact = unknown() if args.open and not given else known(given)
            self._witness.send(events.SoftmaxCalled(site=site, function=shown, dim_given=fact), w, ctx)
        elif name == "torch.log" and args.positional:
            self.logarithm(args.positional[0], w, ctx, site)
        elif name == "torch.autograd.Variable":
            self._variable(args, w, ctx, site)
        elif name in DEPRECATED_INITS:
            self._send("init", name.replace("torch.nn", "nn"), f"nn.init.{name.rpartition('.')[2]}_", w, ctx, site)

    def _variable(self, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        volatile = args.get(2, "volatile")
        if volatile is not None and w.resolve(volatile) != Const(False):
            self._send("volatile", "Variable(…, volatile=…)", "with torch.no_grad():", w, ctx, site)
            return
        value = args.get(0, "data")
        detached = unknown() if value is None else self._tensors.view_of(w.resolve(value), w).requires_grad
        self._send("variable", "Variable(…)", "the tensor itself", w, ctx, site, detached)

    def indexed(self, tensor: Tensor, index: object, w: World, ctx: Context, site: Site) -> bool:
        """Whether this is ``loss.data[0]``, where the loss has no dimension: it had one once, and raises now."""
        base = w.find(tensor.data_of) if tensor.data_of is not None else None
        if not isinstance(base, Tensor) or index != Const(0) or base.shape != ():
            return False
        if tensor.size == "one" and tensor.data_of is not None:
            self._evaluation.measured([Ref(tensor.data_of)], False, w, ctx)
            self._send("index", ".data[0]", ".item()", w, ctx, site, taken_at=tensor.data_at)
        return tensor.size == "one"

    def part(self, tensor: Tensor, index: object, part: Value, w: World) -> None:
        """``loss.data[0]`` gave this part, where the loss may be a single number: that is on no device, if it is one.

        So does ``loss.detach()[0]``, which the fix for ``.data`` makes of it.
        """
        is_detached = tensor.data_of is not None or (tensor.cut is not None and tensor.cut.how == "detach")
        if not is_detached or index != Const(0) or tensor.size or tensor.shape:
            return
        if tensor.activation in (None, "none") and isinstance(part, Ref):  # else it is what a layer gave
            new: Tensor = w.write(part.id)
            new.device, new.device_if_tensor = None, new.device or new.device_if_tensor

    def _send(
        self,
        kind: Literal["variable", "volatile", "index", "init"],
        name: str,
        instead: str,
        w: World,
        ctx: Context,
        site: Site,
        detached: Fact[bool] | None = None,
        taken_at: Site | None = None,
    ) -> None:
        if detached is None:
            detached = unknown()
        event = events.DeprecatedUsed(
            site=site, kind=kind, name=name, instead=instead, detached=detached, taken_at=taken_at
        )
        self._witness.send(event, w, ctx)

    # --- the logarithm of a softmax

    def logarithm(self, value: Value, w: World, ctx: Context, site: Site) -> None:
        """``torch.log(value)``."""
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is None:
            return
        activation = tensor.nudged or tensor.activation
        event = events.LogTaken(
            site=site,
            input=self._tensors.view_of(value, w),
            activation=unknown() if activation is None else known(activation),
        )
        self._witness.send(event, w, ctx)

    def computed(self, name: str, inputs: list[Value], result: Value, w: World, site: Site) -> None:
        """An operator, a method or a function of torch gave ``result``: it may bear on the logarithm of a softmax."""
        operands = [w.resolve(value) for value in inputs]
        if not operands or not isinstance(result, Ref):
            return
        symbol = SYMBOLS.get(name, name)
        if symbol == "log":
            self._logged(result, operands[0], site)
        elif symbol == "neg":
            self._negated(result, operands[0], w)
        elif symbol == "+" and len(operands) == 2:
            self._added(result, operands[0], operands[1], w)
            self._added(result, operands[1], operands[0], w)
        elif symbol == "*" and len(operands) == 2:
            self._multiplied(*operands)
            self._multiplied(*reversed(operands))

    def _added(self, result: Ref, one: Value, other: Value, w: World) -> None:
        """``one + other``: adding a small number leaves the values what they nearly were."""
        tensor = w.get(one, Tensor)
        if tensor is None or tensor.activation != "softmax" or not isinstance(one, Ref) or not _is_small(other):
            return
        new: Tensor = w.write(result.id)
        new.nudged, new.activation_at = tensor.activation, tensor.activation_at
        self._same[result.id] = one.id

    def _logged(self, result: Ref, value: Value, site: Site) -> None:
        if isinstance(value, Ref) and value.id in self._same:
            self._logs[result.id] = self._same[value.id], site

    def _negated(self, result: Ref, value: Value, w: World) -> None:
        tensor = w.get(value, Tensor)
        if not isinstance(value, Ref) or tensor is None:
            return
        if value.id in self._logs:
            self._logs[result.id] = self._logs[value.id]
        elif tensor.activation == "softmax":
            self._same[result.id] = value.id

    def _multiplied(self, one: Value, other: Value) -> None:
        """``p * torch.log(p + eps)``, an entropy: what is lost of small probabilities makes no difference there."""
        if isinstance(one, Ref) and isinstance(other, Ref) and other.id in self._logs:
            probabilities, taken_at = self._logs[other.id]
            if probabilities in (one.id, self._same.get(one.id)):
                self._witness.withdraw(events.LogTaken, taken_at)


def _is_small(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, float) and abs(value.value) < _SMALL
    return isinstance(value, Unknown) and EPSILON_NAME.search(value.hint) is not None
