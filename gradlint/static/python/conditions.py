"""Conditions: whether they hold, the ways they may turn out, and what is learned from each."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from gradlint.static.knowledge.guesses import CLASS_NAME
from gradlint.static.python.binding import Names
from gradlint.static.python.budget import MAX_WORLDS
from gradlint.static.python.collections import Collections
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.state.comparisons import computed
from gradlint.static.state.context import Context
from gradlint.static.state.origins import Asked, Comparison, Not, Operation, Truth
from gradlint.static.state.provenance import is_later, key_of
from gradlint.static.state.values import (
    NONE,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Function,
    Lambda,
    Mapping,
    Object,
    Partial,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site

_COMPARE: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    cst.Equal: ("==", operator.eq),
    cst.NotEqual: ("!=", operator.ne),
    cst.LessThan: ("<", operator.lt),
    cst.LessThanEqual: ("<=", operator.le),
    cst.GreaterThan: (">", operator.gt),
    cst.GreaterThanEqual: (">=", operator.ge),
}


_KNOWN = {"torch", "numpy", *sys.stdlib_module_names}
"""Libraries of which nearly everything with a name is a module, function or class."""


class Conditions:
    """Tells what conditions are worth, and parts the worlds in which they turn out differently."""

    _domain: Domain
    _execution: Execution
    _names: Names
    _collections: Collections

    # --- truth

    def truth(self, value: Value, w: World) -> tuple[bool | None, Hashable | None, bool]:
        """(known truth, key to remember an assumption by, whether the key means the opposite)."""
        if isinstance(value, Const):
            return bool(value.value), None, False
        if isinstance(value, External):
            return (True, None, False) if _is_definition(value) else (None, Truth(value), False)
        if isinstance(value, (Class, Function, Bound, Lambda, Partial)):
            return True, None, False
        if isinstance(value, Ref):
            tensor = w.get(value, Tensor)
            origin = None if tensor is None else tensor.origin
            return self._collections.truth(value, w), Truth(value if origin is None else origin), False
        if isinstance(value, Unknown):
            if is_later(value):
                return True, None, False
            key: Hashable = value.key
            flipped = False
            while isinstance(key, Not):
                key, flipped = key.condition, not flipped
            return None, key, flipped
        if isinstance(value, Choice):
            truths = {self.truth(v, w)[0] for v in value.alternatives}
            return (truths.pop() if len(truths) == 1 else None), Truth(value.key), False
        return None, None, False

    def truth_in(self, value: Value, w: World) -> bool | None:
        """The truth of a value, as far as it is known or follows from what was assumed in this world."""
        truth, key, flipped = self.truth(value, w)
        return _assumed(key, flipped, w) if truth is None else truth

    # --- comparisons

    def comparison(self, node: cst.Comparison, w: World, ctx: Context) -> Value:
        """The value of a comparison: whether it holds, or what stands for that."""
        left = w.resolve(self._execution.evaluate(node.left, w, ctx))
        if len(node.comparisons) != 1:
            for part in node.comparisons:
                self._execution.evaluate(part.comparator, w, ctx)
            return new_unknown("comparison")
        part = node.comparisons[0]
        right = w.resolve(self._execution.evaluate(part.comparator, w, ctx))
        kind = type(part.operator)
        if kind in (cst.Is, cst.IsNot):
            return self._identity(left, right, kind is cst.IsNot, w)
        if kind in (cst.In, cst.NotIn):
            found = self._collections.contains(right, left, w)
            if found is not None:
                return Const(found is (kind is cst.In))
            key = computed(Comparison("in", key_of(left), key_of(right)))
            return Unknown(key) if kind is cst.In else Unknown(computed(Not(key)))
        symbol, function = _COMPARE[kind]
        if isinstance(left, Const) and isinstance(right, Const):
            try:
                return Const(bool(function(left.value, right.value)))
            except TypeError:
                return new_unknown("comparison")
        if w.get(left, Tensor) is not None or w.get(right, Tensor) is not None:
            return self._domain.operators.compare(symbol, left, right, w, ctx, ctx.site(node))
        if symbol == "==":
            return self.equality(left, right, w)
        if symbol == "!=":
            same = self.equality(left, right, w)
            return Const(not same.value) if isinstance(same, Const) else Unknown(computed(Not(key_of(same))))
        return Unknown(computed(Comparison(symbol, key_of(left), key_of(right))))

    def equality(self, left: Value, right: Value, w: World) -> Value:
        """Whether two values, neither of which is a tensor, are equal, or what stands for that."""
        if isinstance(left, Const) and isinstance(right, Const):
            return Const(bool(left.value == right.value))
        same = self._equal(left, right, w)
        return Unknown(computed(Comparison("==", key_of(left), key_of(right)))) if same is None else Const(same)

    def _equal(self, left: Value, right: Value, w: World) -> bool | None:
        """Whether two values that are neither tensors nor numbers that are both known are equal, if that is known."""
        if (is_later(left) and right == Const(0)) or (is_later(right) and left == Const(0)):
            return False
        same = _same_definition(left, right)
        if same is not None:
            return same
        if isinstance(left, Const) or isinstance(right, Const):
            other = w.get(right if isinstance(left, Const) else left, Object)
            return False if isinstance(other, (Sequence, Mapping)) else None
        a, b = w.get(left, Sequence), w.get(right, Sequence)
        if a is None or b is None or a.tail is not None or b.tail is not None or a.mutable is not b.mutable:
            return None
        items = [item.value for item in map(w.resolve, (*a.items, *b.items)) if isinstance(item, Const)]
        if len(items) < len(a.items) + len(b.items):
            return None
        return items[: len(a.items)] == items[len(a.items) :]

    def _identity(self, left: Value, right: Value, negated: bool, w: World) -> Value:
        known: bool | None = None
        if isinstance(left, Const) and isinstance(right, Const):
            known = left == right
        elif isinstance(left, Const) or isinstance(right, Const):
            other = right if isinstance(left, Const) else left
            undecided = isinstance(other, (Unknown, Choice)) or self._domain.branches.may_be_none(other, w)
            known = None if undecided or not _is_definition(other) else False
        elif isinstance(left, Ref) and isinstance(right, Ref):
            known = left == right
        else:
            known = _same_definition(left, right)
        if known is not None:
            return Const(known is not negated)
        key = computed(Comparison("is", key_of(left), key_of(right)))
        return Unknown(computed(Not(key))) if negated else Unknown(key)

    # --- ways

    def decide(self, test: cst.BaseExpression, w: World, ctx: Context) -> list[tuple[bool, World]]:
        """The ways a condition may turn out, each with the world in which it does."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return [(not taken, world) for taken, world in self.decide(test.expression, w, ctx)]
        if isinstance(test, cst.BooleanOperation):
            stop = isinstance(test.operator, cst.Or)
            out = []
            for taken, world in self.decide(test.left, w, ctx):
                out += [(stop, world)] if taken is stop else self.decide(test.right, world, ctx)
            return out
        ways = []
        for world in self._split(test, w, ctx):
            parted = self.parted(world.resolve(self._execution.evaluate(test, world, ctx)), world)
            for taken, end in parted if len(parted) > 1 else ():
                self._refine(test, taken, end, ctx)
            ways += parted
        return ways

    def parted(self, value: Value, w: World) -> list[tuple[bool, World]]:
        """The ways the value of a condition may turn out: both, if nothing is known of it."""
        truth, key, flipped = self.truth(value, w)
        if truth is None:
            truth = _assumed(key, flipped, w)
        if truth is not None:
            return [(truth, w)]
        other = w.copy()
        if key is not None:
            w.assumed[key], other.assumed[key] = not flipped, flipped
        return [(True, w), (False, other)]

    def _split(self, test: cst.BaseExpression, w: World, ctx: Context) -> list[World]:
        """One world for each alternative of the choices a condition looks at directly."""
        worlds = [w]
        for choice in self._choices_in(test, w, ctx):
            split = []
            for world in worlds:
                split += [branch for _, branch in world.alternatives(choice)]
            worlds = split if len(split) <= MAX_WORLDS else worlds
        return worlds

    def _choices_in(self, node: cst.CSTNode, w: World, ctx: Context) -> Iterator[Choice]:
        """The choices that a condition reads through plain names, attributes and comparisons of them."""
        if type(node) in (cst.Name, cst.Attribute):
            value = w.resolve(self._execution.evaluate(node, w, ctx)) if _plain(node) else NONE
            if isinstance(value, Choice):
                yield value
        elif type(node) is cst.Comparison:
            yield from self._choices_in(node.left, w, ctx)
            for part in node.comparisons:
                yield from self._choices_in(part.comparator, w, ctx)
        elif type(node) is cst.Call:
            for arg in node.args:
                yield from self._choices_in(arg.value, w, ctx)

    def _refine(self, test: cst.BaseExpression, taken: bool, w: World, ctx: Context) -> None:
        """Learn from a condition: ``isinstance(m, nn.Linear)``, ``type(m) == nn.Linear``, ``x is None``."""
        if not taken:
            self._found_empty(test, w, ctx)
        if type(test) is cst.Call and taken and len(test.args) == 2:
            if isinstance(test.func, cst.Name) and test.func.value == "isinstance":
                subject = w.resolve(self._execution.evaluate(test.args[0].value, w, ctx))
                kind = w.resolve(self._execution.evaluate(test.args[1].value, w, ctx))
                self._domain.values.checked(subject, kind, w, ctx.site(test))
        elif type(test) is cst.Attribute:
            self.refine_parameter(test, taken, w, ctx)
        elif type(test) is cst.Comparison and len(test.comparisons) == 1:
            part = test.comparisons[0]
            if isinstance(part.operator, (cst.Is, cst.Equal)) is taken and isinstance(
                part.operator, (cst.Is, cst.Equal, cst.IsNot, cst.NotEqual)
            ):
                subject = w.resolve(self._execution.evaluate(test.left, w, ctx))
                other = w.resolve(self._execution.evaluate(part.comparator, w, ctx))
                self.found_equal(subject, other, w, ctx.site(test))

    def _found_empty(self, test: cst.BaseExpression, w: World, ctx: Context) -> None:
        """A list or dict is not true, or its length is not positive: nothing is in it here."""
        if type(test) is cst.Comparison and len(test.comparisons) == 1:
            part = test.comparisons[0]
            if type(part.operator) not in (cst.GreaterThan, cst.NotEqual) or _number(part.comparator) != 0:
                return
            test = test.left
            if type(test) is not cst.Call:
                return
        if type(test) is cst.Call and type(test.func) is cst.Name and test.func.value == "len" and len(test.args) == 1:
            test = test.args[0].value
        if type(test) not in (cst.Name, cst.Attribute):
            return
        value = w.resolve(self._execution.evaluate(test, w, ctx))
        obj = w.get(value, Object)
        if isinstance(value, Ref) and isinstance(obj, (Sequence, Mapping)) and obj.tail is not None and not obj.items:
            w.write(value.id).empty()

    def found_equal(self, subject: Value, other: Value, w: World, site: Site) -> None:
        """Two values turned out to be equal: what is not known is the constant, or of the class, that the other is."""
        if not isinstance(subject, Unknown):
            return
        key = subject.key
        if isinstance(other, Const) and not isinstance(key, Operation):
            w.bound[key] = other
        elif isinstance(key, Asked) and key.question == "type":
            self._domain.values.checked(cast("Value", key.of), other, w, site)

    def refine_parameter(self, test: cst.BaseExpression, taken: bool, w: World, ctx: Context) -> None:
        """``p.requires_grad`` of one of many parameters: it is none of those that are known to differ."""
        if type(test) is cst.Attribute and test.attr.value == "requires_grad" and isinstance(test.value, cst.Name):
            one = self._domain.values.one_that(w.resolve(self._execution.evaluate(test.value, w, ctx)), taken, w)
            if one is not None:
                self._names.assign(test.value.value, one, w, ctx)


def _number(node: cst.BaseExpression) -> int | None:
    """The number that is written, if one is."""
    return int(node.value) if type(node) is cst.Integer and node.value.isdecimal() else None


def _assumed(key: Hashable | None, flipped: bool, w: World) -> bool | None:
    """The truth that follows from what was assumed in a world; see :meth:`Conditions.truth`."""
    holds = None if key is None else w.assumed.follows(key)
    return None if holds is None else holds is not flipped


def _same_definition(left: Value, right: Value) -> bool | None:
    """Whether two functions or classes are the same one; None where that is not known."""
    if not isinstance(left, (External, Class, Function)) or not isinstance(right, (External, Class, Function)):
        return None
    alike = isinstance(left, Function) and isinstance(right, Function) and left.unit is right.unit
    if alike or not (_is_definition(left) and _is_definition(right)):
        return True if left == right else None
    return left == right


def _is_definition(value: Value) -> bool:
    """Whether a value is no mere setting, as what a library gives may be that is not known by name."""
    if not isinstance(value, External):
        return True
    first, _, rest = value.name.partition(".")
    return not rest or first in _KNOWN or CLASS_NAME.match(rest.rpartition(".")[2]) is not None


def _plain(node: cst.CSTNode) -> bool:
    while type(node) is cst.Attribute:
        node = node.value
    return type(node) is cst.Name
