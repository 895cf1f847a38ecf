"""Operations that overwrite what they are given, and statements that drop what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint import events
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import ACTING, ACTS, DROPOUTS, MOVES, OVERWRITES, returns_new
from gradlint.static.python.execution import Execution
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import Bound, Const, Instance, Object, Ref, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.batches import Batches
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.memory import Memory, overwriting
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Residuals

if TYPE_CHECKING:
    from gradlint.finding import Site


class Overwriting:
    """Applies them: what they return is known by another name, and holds what the old one holds from now on."""

    _changes: Changes
    _operations: Operations
    _memory: Memory
    _residuals: Residuals

    def applied(
        self,
        how: str,
        op: Op,
        args: Arguments,
        w: World,
        ctx: Context,
        site: Site,
        *,
        parameters: frozenset[int] = frozenset(),
        device: str | None = None,
    ) -> Value:
        """The result of an operation that overwrites its first argument.

        Args:
            how: its name, that of a function or of a layer.
            op: what it would do to a copy.
            args: what it is given.
            w: the world.
            ctx: where.
            site: the place.
            parameters: those of the layer.
            device: that of the layer.
        """
        target = w.resolve(args.positional[0])
        before = w.get(target, Tensor)
        unsigned = before is not None and before.unsigned
        moves = self._residuals.moves(how, target, w)
        self._changes.in_place(f"{how.lower()}_", target, [], w, ctx, site)
        self._sign(target, unsigned, w)  # as it was given
        value = self._operations.apply(overwriting(op), args, w, ctx, site, parameters=parameters, device=device)
        result = w.get(value, Tensor)
        self._sign(target, result is not None and result.unsigned, w)
        self._memory.alias(value, target, w)
        if moves:
            self._residuals.overwritten(target, value, w, site)
        return value

    def is_asked(self, name: str, op: Op, args: Arguments, w: World) -> bool:
        """Whether a function overwrites its first argument: always, or because it is told to."""
        told = args.get(OVERWRITES[name], "inplace") if name in OVERWRITES else None
        asked = told is not None and w.resolve(told) == Const(True) and not self._is_inert(name, args, w)
        return bool(args.positional) and (op.inplace or asked)

    def _is_inert(self, name: str, args: Arguments, w: World) -> bool:
        """Whether a dropout is known to be told to drop nothing."""
        dropout = DROPOUTS.get(name)
        if dropout is None or dropout.training is None:
            return False
        training = args.get(dropout.training, "training")
        return training is not None and w.resolve(training) == Const(False)

    def _sign(self, target: Value, unsigned: bool, w: World) -> None:
        if isinstance(target, Ref) and w.get(target, Tensor) is not None:
            w.write(target.id).unsigned = unsigned


_PLACES = (cst.Name, cst.Integer, cst.SimpleString, cst.Ellipsis)


class Discards:
    """Notices statements that do nothing: calls whose result is all they do, and methods that are not called."""

    _execution: Execution
    _witness: Witness
    _modules: Modules
    _tensors: Tensors
    _batches: Batches

    def statement(self, node: cst.Expr, w: World, ctx: Context) -> None:
        """An expression is a statement of its own, and about to be executed."""
        call = node.value
        if isinstance(call, cst.Attribute):
            self._named(node, call, w, ctx)
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return
        name = call.func.attr.value
        if not returns_new(name) or not _is_plain(call.func.value) or self._is_shown(node, ctx):
            return
        receiver = w.resolve(self._execution.evaluate(call.func.value, w, ctx))
        tensor = w.get(receiver, Tensor)
        if tensor is None and not isinstance(receiver, Unknown):
            return
        if isinstance(receiver, Ref) and name in MOVES and self._modules.may_be_one(receiver, w):
            return
        certain = not tensor.structured if tensor is not None else self._batches.is_tensor(receiver, w, ctx)
        if not certain and (name in MOVES or not self._tensors.presumed(receiver, w)):
            return
        view = self._tensors.presumed_view(receiver, w)
        self._witness.send(events.ResultDiscarded(site=ctx.site(node), tensor=view, method=name), w, ctx)

    def _named(self, node: cst.Expr, method: cst.Attribute, w: World, ctx: Context) -> None:
        """``optimizer.step`` is a statement, for ``optimizer.step()``."""
        name = method.attr.value
        if name not in ACTING or not _is_plain(method.value) or self._is_shown(node, ctx):
            return
        named = w.resolve(self._execution.evaluate(method, w, ctx))
        if isinstance(named, Bound) and name in ACTS.get(_kind(w.get(w.resolve(named.receiver), Object)), ()):
            self._witness.send(events.MethodNamed(site=ctx.site(method), method=name), w, ctx)

    def _is_shown(self, node: cst.Expr, ctx: Context) -> bool:
        """A notebook shows the value of the last statement of a cell, and of the others where it is told to."""
        source, unit = ctx.module.source, ctx.unit
        if ctx.function is not None or not source.is_notebook:
            return False
        if "ast_node_interactivity" in source.text:
            return True
        if not isinstance(unit.node, cst.SimpleStatementLine) or unit.node.body[-1] is not node:
            return False
        cell = source.cell_at(unit.row)
        return not any(other.row > unit.end_row and source.cell_at(other.row) is cell for other in ctx.module.units)


def _kind(obj: Object | None) -> str:
    """What has methods, as the table of those that act calls it."""
    if isinstance(obj, Instance):
        return "module" if obj.role.is_module else obj.role.name
    return "tensor" if isinstance(obj, Tensor) else ""


def _is_plain(node: cst.BaseExpression) -> bool:
    """Whether an expression names something, or a part of it: it may be evaluated once more."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        if isinstance(node, cst.Subscript) and not all(_is_place(part.slice) for part in node.slice):
            return False
        node = node.value
    return isinstance(node, cst.Name)


def _is_place(index: cst.BaseSlice) -> bool:
    """Whether an index is made of names and numbers."""
    parts = [index.value] if isinstance(index, cst.Index) else []
    if isinstance(index, cst.Slice):
        parts = [part for part in (index.lower, index.upper, index.step) if part is not None]
    return all(isinstance(part.expression if isinstance(part, cst.UnaryOperation) else part, _PLACES) for part in parts)
