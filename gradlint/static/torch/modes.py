"""The mode of a module as code asks for it: conditions on ``training``, and the numbers that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge.guesses import MODE_WORDS
from gradlint.static.knowledge.torch_table import DROPOUTS
from gradlint.static.python.binding import Names
from gradlint.static.state.origins import New, fresh
from gradlint.static.state.values import (
    Const,
    External,
    Frame,
    Function,
    Instance,
    Lambda,
    Partial,
    Ref,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import children

if TYPE_CHECKING:
    from gradlint.static.state.context import Context

_DROPPING = frozenset(name.rpartition(".")[2] for name in DROPOUTS)
_COMPOSED = (cst.BooleanOperation, cst.UnaryOperation, cst.Comparison, cst.ComparisonTarget)
_NUMBERS = ("int", "float", "bool")


class Modes:
    """Recognises conditions on the mode, and marks the numbers that are chosen by them."""

    _names: Names

    def __init__(self) -> None:
        self._asks: dict[int, bool] = {}
        self._assigned: dict[int, tuple[str, ...]] = {}

    def trim(self) -> None:
        """Forget what is known of nodes."""
        self._asks.clear()
        self._assigned.clear()

    def asked_by(self, node: cst.CSTNode) -> bool:
        """Whether a condition asks for training or evaluation mode."""
        known = self._asks.get(id(node))
        if known is None:
            known = self._asks[id(node)] = self._asked_by(node)
        return known

    def settled_by(self, node: cst.BaseExpression, taken: bool) -> bool:
        """Whether a condition on the mode settles which one it is, or should be, in a branch of it.

        Where it is not training or something else is not so (gradient checkpointing), it may be either.
        """
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return self.settled_by(node.expression, not taken)
        either = isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And)
        return self.asked_by(node) and (taken or not either or not any(map(_is_training, children(node))))

    def _asked_by(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Name):
            return node.value.lower() in MODE_WORDS
        if isinstance(node, cst.Attribute):
            return node.attr.value.lower() in MODE_WORDS
        if isinstance(node, _COMPOSED):
            return any(map(self._asked_by, children(node)))
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in _NUMBERS:
            return any(self._asked_by(arg.value) for arg in node.args)
        return False

    def chosen(self, value: Value) -> Value:
        """What stands for ``value`` where it is another one in the other mode."""
        if isinstance(value, Const):
            return new_unknown("mode", "mode")
        if isinstance(value, Unknown):
            return replace(value, key=New("mode", fresh()), hint="mode")
        if isinstance(value, (Function, Lambda)) or (isinstance(value, External) and value.name in DROPOUTS):
            return Partial(value, (), (), checked=True)
        return value

    def combined(self, value: Value) -> Value:
        """What stands for ``value`` where a number is another one in the other mode and the rest is the same."""
        if isinstance(value, Unknown):
            return replace(value, hint="mode")
        return self.chosen(value) if is_number(value) else value

    def returned(self, value: Value, w: World, ctx: Context) -> Value:
        """What a function returns: a number in a branch on the mode, such as a probability of dropout, follows it."""
        return self.combined(value) if w.module_checked and is_number(value) and self._drops(ctx) else value

    def _drops(self, ctx: Context) -> bool:
        return any("drop" in word or word in _DROPPING for word in ctx.module.words)

    def branched(self, node: cst.If, ends: list[World], ctx: Context) -> None:
        """After a branch on the mode: the numbers it assigned, among them probabilities of dropout, follow the mode."""
        names = self._assigned.get(id(node))
        if names is None:
            names = tuple(dict.fromkeys(_assigned(node))) if self._drops(ctx) else ()
            self._assigned[id(node)] = names
        for world in ends if names else ():
            frame = world.get(Ref(ctx.frame), Frame)
            for name in names if frame is not None else ():
                value = frame.vars.get(name)  # type: ignore[union-attr]
                told = self.combined(world.resolve(value)) if value is not None else None
                if told is not None and told is not value:
                    self._names.assign(name, told, world, ctx)


def _is_training(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
        return any(map(_is_training, children(node)))
    return isinstance(node, cst.Attribute) and node.attr.value == "training"


def is_number(value: Value | None) -> bool:
    """Whether a value is known to be a number, and not a flag."""
    return isinstance(value, Const) and type(value.value) in (int, float)


def _assigned(node: cst.If) -> Iterator[str]:
    """The names that the branches of a condition assign."""
    blocks = [node.body]
    if isinstance(node.orelse, cst.Else):
        blocks.append(node.orelse.body)
    elif node.orelse is not None:
        yield from _assigned(node.orelse)
    for line in (line for block in blocks for line in block.body if isinstance(line, cst.SimpleStatementLine)):
        for part in line.body:
            if isinstance(part, cst.Assign):
                yield from (t.target.value for t in part.targets if isinstance(t.target, cst.Name))


def acts_by_mode(layer: Instance) -> bool:
    """Whether a layer is known to behave differently in training and evaluation."""
    return layer.mode_dependent or (layer.layer is not None and layer.layer.mode_dependent)


def in_forward(ctx: Context) -> bool:
    """Whether execution stands in ``forward``, or in other methods of a module that put nothing into a mode."""
    here: Context | None = ctx
    evaluates = False
    while here is not None and here.in_forward:
        if here.function is not None:
            if here.function.unit.name == "forward":
                return True
            evaluates = evaluates or "eval" in here.function.unit.words
        here = here.parent
    return ctx.in_forward and not evaluates


__all__ = ["Modes", "acts_by_mode", "in_forward", "is_number"]
