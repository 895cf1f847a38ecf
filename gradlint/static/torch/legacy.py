"""Calls that are told by what was written: old names, a softmax without its dimension, the log of a softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import libcst as cst

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge.guesses import EPSILON_NAME
from gradlint.static.knowledge.torch_table import DEPRECATED_INITS, SOFTMAX_DIMS
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
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
    _tensors: Tensors
    _evaluation: Evaluation

    def __init__(self) -> None:
        self._entropies: set[Site] = set()  #: logarithms that are multiplied by the probabilities themselves

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
        """Whether this is ``loss.data[0]``, where the loss is a single number: it was a number once, and raises now."""
        base = w.find(tensor.data_of) if tensor.data_of is not None else None
        if not isinstance(base, Tensor) or index != Const(0) or (base.is_leaf and base.shape):
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
        if tensor is None or site in self._entropies:
            return
        activation = tensor.nudged or tensor.activation
        event = events.LogTaken(
            site=site,
            input=self._tensors.view_of(value, w),
            activation=unknown() if activation is None else known(activation),
        )
        self._witness.send(event, w, ctx)

    def multiplied(self, node: cst.BinaryOperation, ctx: Context) -> None:
        """``p * torch.log(p + eps)``, an entropy: what is lost of small probabilities makes no difference there."""
        for factor, other in ((node.left, node.right), (node.right, node.left)):
            logged = _logged(other)
            if type(logged) is not cst.BinaryOperation or type(logged.operator) is not cst.Add:
                continue
            one = factor.expression if type(factor) is cst.UnaryOperation else factor
            if one.deep_equals(logged.left) or one.deep_equals(logged.right):
                self._entropies.add(ctx.site(other))

    def added(self, result: Value, left: Value, right: Value, w: World) -> None:
        """``left + right``: adding a small number leaves the values what they nearly were."""
        for one, other in ((left, right), (right, left)):
            tensor = w.get(w.resolve(one), Tensor)
            if tensor is None or tensor.activation != "softmax" or not isinstance(result, Ref):
                continue
            if _is_small(w.resolve(other)):
                new: Tensor = w.write(result.id)
                new.nudged, new.activation_at = tensor.activation, tensor.activation_at


def _is_small(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, float) and abs(value.value) < _SMALL
    return isinstance(value, Unknown) and EPSILON_NAME.search(value.hint) is not None


def _logged(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What the logarithm is taken of: ``torch.log(value)``, ``value.log()``."""
    if type(node) is not cst.Call or type(node.func) is not cst.Attribute or node.func.attr.value != "log":
        return None
    return node.args[0].value if node.args else node.func.value
