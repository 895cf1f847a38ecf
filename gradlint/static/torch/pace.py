"""What the numbers of schedulers and optimizers are made for: each batch, or each step of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_pace import LENGTH_AT, LENGTHS, PROPORTIONAL
from gradlint.static.python.execution import Execution
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.provenance import has_length, is_quotient
from gradlint.static.state.values import (
    NONE,
    Const,
    Function,
    Instance,
    Lambda,
    Mapping,
    Partial,
    Sequence,
    Unknown,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import children, names_in

if TYPE_CHECKING:
    from gradlint.finding import Site

_DIVIDED = "<divided rate>"


class Pace:
    """Reads the arguments of schedulers and optimizers that are built."""

    _execution: Execution

    def may_count_batches(self, name: str, args: Arguments, w: World, ctx: Context) -> bool:
        """Whether a scheduler may be built for the number of batches, and not for that of its optimizer's steps.

        So it may where the program takes that number from somewhere: the length of a loader, or an argument.  Where it
        divides it by another one, it counts the steps; a number that is written out tells nothing.
        """
        bare = name.rpartition(".")[2]
        told = args.get(LENGTH_AT.get(bare, -1))
        lengths = [value for key, value in args.keywords.items() if key in LENGTHS] + ([] if told is None else [told])
        if lengths:
            return args.open or any(self._is_count(w.resolve(value), w, ctx, sure=False) for value in lengths)
        return args.open or any(self._is_count(w.resolve(value), w, ctx, sure=True) for value in list(args)[1:])

    def is_proportional(self, optimizer: Instance) -> bool:
        """Whether an optimizer goes as far as its gradients are large, at a rate that is not divided for that."""
        return optimizer.name in PROPORTIONAL and not optimizer.opaque and _DIVIDED not in optimizer.attrs

    def built(self, optimizer: Instance, args: Arguments, w: World, site: Site) -> None:
        """An optimizer is built, which may be given its rate in parts."""
        groups = w.get(w.resolve(args.get(0, "params") or NONE), Sequence)
        options = [w.get(w.resolve(group), Mapping) for group in (groups.items if groups is not None else ())]
        rates = [group.items.get(Const("lr"), NONE) for group in options if group is not None]
        rates.append(args.get(1, "lr") or NONE)
        if any(map(is_quotient, map(w.resolve, rates))) or _divides(getattr(site, "node", None)):
            optimizer.attrs[_DIVIDED] = Const(True)

    def rate_set(self, group: Mapping, rate: Value, w: World) -> None:
        """``group["lr"] = rate``: one that is divided may be made for sums of gradients."""
        held = w.get(w.resolve(group.items.get(Const("params"), NONE)), Instance)
        if held is None or not is_quotient(w.resolve(rate)):
            return
        for key, obj in w.having(roles.OPTIMIZER):
            if obj.groups & held.groups:
                w.write(key).attrs[_DIVIDED] = Const(True)

    def _is_count(self, value: Value, w: World, ctx: Context, *, sure: bool) -> bool:
        """Whether a value is, or may be (not sure), a number of batches."""
        if isinstance(value, Unknown):
            return not is_quotient(value) and (not sure or has_length(value))
        if isinstance(value, Partial):
            given = [*value.args, *(each for _, each in value.kwargs)]
            return any(self._is_count(w.resolve(each), w, ctx, sure=False) for each in given)
        if isinstance(value, (Lambda, Function)):
            return self._mentions_count(value, w, ctx)
        row = w.get(value, Sequence)
        if row is not None:
            parts = [*row.items, *([] if row.tail is None else [row.tail])]
            return any(self._is_count(w.resolve(each), w, ctx, sure=sure) for each in parts)
        scheduler = w.get(value, Instance)
        return scheduler is not None and scheduler.role is roles.SCHEDULER and scheduler.opaque

    def _mentions_count(self, function: Lambda | Function, w: World, ctx: Context) -> bool:
        """Whether a function of the number of the step reads a number from around it that may be one of batches."""
        if not function.unit.is_readable:
            return True
        node: cst.FunctionDef | cst.Lambda = function.node if isinstance(function, Lambda) else function.unit.node
        for name in sorted(set(names_in(node.body)) - set(_bound(node))):
            value = w.resolve(self._execution.evaluate(cst.Name(name), w, ctx))
            if isinstance(value, Unknown) and self._is_count(value, w, ctx, sure=False):
                return True
        return False


def _bound(node: cst.CSTNode) -> Iterator[str]:
    """The names that a function binds: its parameters, and what it assigns to."""
    if isinstance(node, (cst.Param, cst.AssignTarget)):
        name = node.name if isinstance(node, cst.Param) else node.target
        if isinstance(name, cst.Name):
            yield name.value
    elif isinstance(node, cst.Attribute):
        yield node.attr.value
    for child in children(node):
        yield from _bound(child)


def _divides(node: cst.CSTNode | None) -> bool:
    """Whether a division is spelled in an expression."""
    if type(node) is cst.BinaryOperation and isinstance(node.operator, (cst.Divide, cst.FloorDivide)):
        return True
    return node is not None and any(map(_divides, children(node)))


__all__ = ["Pace"]
