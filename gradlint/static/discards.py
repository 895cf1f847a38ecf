"""Statements that compute a new tensor and drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint import events
from gradlint.static.context import Context
from gradlint.static.torch_table import METHODS
from gradlint.static.values import Tensor, Unknown
from gradlint.static.world import World

if TYPE_CHECKING:
    from gradlint.static.interpreter import Interpreter

_MOVES = frozenset(
    ["to", "cuda", "cpu", "type", "half", "float", "double", "bfloat16", "long", "int", "bool", "byte", "short"]
)
"""Methods that modules have too, where they change the module itself."""


class Discards:
    """Notices calls whose result is all they do, made for nothing."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

    def statement(self, node: cst.Expr, w: World, ctx: Context) -> None:
        """An expression is a statement of its own, and about to be executed."""
        call = node.value
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return
        name = call.func.attr.value
        if not returns_new(name) or not _is_plain(call.func.value) or self._is_shown(ctx):
            return
        receiver = w.resolve(self.m.eval(call.func.value, w, ctx))
        tensor = w.get(receiver, Tensor)
        if tensor is None and not isinstance(receiver, Unknown):
            return
        certain = tensor is not None and not tensor.structured
        if not certain and (name in _MOVES or not self.m.tensors.presumed(receiver, w)):
            return
        view = self.m.tensors.presumed_view(receiver, w)
        self.m.witness.send(events.ResultDiscarded(site=ctx.site(node), tensor=view, method=name), w, ctx)

    def _is_shown(self, ctx: Context) -> bool:
        """A notebook shows the value of the last statement of a cell."""
        return ctx.function is None and ctx.module.path.suffix == ".ipynb"


def returns_new(name: str) -> bool:
    """Whether a tensor method of this name gives a new tensor and does nothing else."""
    op = METHODS.get(name)
    if op is None or op.inplace or op.result not in ("tensor", "tensors", "pair"):
        return False
    return (
        name in _MOVES or op.view or op.detaches or f"{name}_" in METHODS or name in ("contiguous", "reshape", "clone")
    )


def _is_plain(node: cst.BaseExpression) -> bool:
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)
