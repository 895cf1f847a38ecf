"""Expressions: evaluates them to abstract values, in place in one world."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.binding import Names
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.collections import Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.containers import Comprehensions, Filling
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.progress import Wholeness
from gradlint.static.state.comparisons import computed
from gradlint.static.state.context import Context, Results
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import Not, Operation, Text, UnaryOperation, Written, fresh
from gradlint.static.state.provenance import key_of, mode_of
from gradlint.static.state.values import (
    NONE,
    Class,
    Const,
    Instance,
    Lambda,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import Literal, formatted, value_of

_BINARY: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    cst.Add: ("+", operator.add),
    cst.Subtract: ("-", operator.sub),
    cst.Multiply: ("*", operator.mul),
    cst.Divide: ("/", operator.truediv),
    cst.FloorDivide: ("//", operator.floordiv),
    cst.Modulo: ("%", operator.mod),
    cst.Power: ("**", operator.pow),
    cst.MatrixMultiply: ("@", operator.matmul),
    cst.BitAnd: ("&", operator.and_),
    cst.BitOr: ("|", operator.or_),
    cst.BitXor: ("^", operator.xor),
    cst.LeftShift: ("<<", operator.lshift),
    cst.RightShift: (">>", operator.rshift),
}
_AUGMENTED: dict[type, str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
    cst.LeftShiftAssign: "<<",
    cst.RightShiftAssign: ">>",
}
_ARITHMETIC = frozenset(["+", "-", "*", "/", "//", "**", "@"])
_BY_SYMBOL = dict(_BINARY.values())
"""The objects that a program treats differently, later, by what it has chosen them."""
_CONSTANTS = {"True": Const(True), "False": Const(False), "None": NONE}


class Expressions:
    """Evaluates expressions.  Worlds that a nested call forks are joined again before evaluation goes on."""

    _domain: Domain
    _execution: Execution
    _whole: Wholeness
    _names: Names
    _choices: Choices
    _calls: Calls
    _attributes: Attributes
    _collections: Collections
    _conditions: Conditions
    _filling: Filling
    _comprehensions: Comprehensions

    def __init__(self) -> None:
        self._literals: dict[cst.CSTNode, Value] = {}
        self._table: dict[type, Callable[[Any, World, Context], Value]] = {
            cst.Name: self._name,
            cst.Attribute: self._attribute,
            cst.Call: self._call,
            cst.Subscript: self._subscript,
            cst.Integer: self._literal,
            cst.Float: self._literal,
            cst.Imaginary: self._literal,
            cst.SimpleString: self._literal,
            cst.ConcatenatedString: self._concatenated,
            cst.FormattedString: self._formatted,
            cst.BinaryOperation: self._binary,
            cst.UnaryOperation: self._unary,
            cst.BooleanOperation: self._boolean,
            cst.Comparison: self._conditions.comparison,
            cst.IfExp: self._conditional,
            cst.Tuple: self._sequence,
            cst.List: self._sequence,
            cst.Set: self._sequence,
            cst.Dict: self._dict,
            cst.ListComp: self._comprehensions.evaluate,
            cst.SetComp: self._comprehensions.evaluate,
            cst.GeneratorExp: self._comprehensions.evaluate,
            cst.DictComp: self._comprehensions.evaluate,
            cst.Lambda: self._lambda,
            cst.NamedExpr: self._walrus,
            cst.Await: lambda node, w, ctx: self._execution.evaluate(node.expression, w, ctx),
            cst.Yield: self._yield,
            cst.Ellipsis: lambda node, w, ctx: Const(...),
            cst.StarredElement: lambda node, w, ctx: self._execution.evaluate(node.value, w, ctx),
        }

    def trim(self) -> None:
        """Forget what is known of nodes."""
        self._literals.clear()

    def evaluate(self, node: cst.CSTNode, w: World, ctx: Context) -> Value:
        """The value of an expression; whatever is not understood is unknown."""
        handler = self._table.get(type(node))
        if handler is None:
            return new_unknown("expression")
        return handler(node, w, ctx)

    # --- leaves

    def _name(self, node: cst.Name, w: World, ctx: Context) -> Value:
        constant = _CONSTANTS.get(node.value)
        if constant is not None:
            return constant
        return w.resolve(self._names.lookup(node.value, w, ctx))

    def _literal(self, node: Literal, w: World, ctx: Context) -> Value:
        value = self._literals.get(node)
        if value is None:
            try:
                value = Const(value_of(node))
            except (ValueError, SyntaxError):
                value = Unknown(Written("literal", node))
            self._literals[node] = value
        return value

    def _concatenated(self, node: cst.ConcatenatedString, w: World, ctx: Context) -> Value:
        value = node.evaluated_value
        return Const(value) if value is not None else Unknown(Text(fresh()))

    def _formatted(self, node: cst.FormattedString, w: World, ctx: Context) -> Value:
        texts = []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                value = w.resolve(self._execution.evaluate(part.expression, w, ctx))
                self._domain.values.shown(value, w, ctx)
                known = isinstance(value, Const) and part.conversion is None
                spec = "".join(
                    t.value if isinstance(t, cst.FormattedStringText) else "{" for t in part.format_spec or ()
                )
                field = f"{{:{spec}}}" if spec else "{}"
                texts.append(formatted(field, [value.value], {}) if known and isinstance(value, Const) else None)
            elif isinstance(part, cst.FormattedStringText):
                texts.append(part.value)
        known_texts = list(itertools.takewhile(lambda text: text is not None, texts))
        beginning = "".join(text for text in known_texts if text is not None)
        if len(known_texts) < len(texts):
            return Unknown(Text(fresh(), beginning))
        return Const(beginning)

    def _lambda(self, node: cst.Lambda, w: World, ctx: Context) -> Value:
        return Lambda(ctx.site(node), ctx.frame)

    def _walrus(self, node: cst.NamedExpr, w: World, ctx: Context) -> Value:
        value = self._execution.evaluate(node.value, w, ctx)
        self._execution.bind(node.target, value, w, ctx, node)
        return value

    def _yield(self, node: cst.Yield, w: World, ctx: Context) -> Value:
        value: Value = NONE
        if isinstance(node.value, cst.From):
            value = self._collections.element(self._execution.evaluate(node.value.item, w, ctx), w, ctx)
        elif node.value is not None:
            value = self._execution.evaluate(node.value, w, ctx)
        if ctx.on_yield is not None:
            ctx.on_yield(w, value)
        elif ctx.yields is not None:
            self._filling.append(ctx.yields, value, w, ctx, ctx.site(node), kept=False)
        return NONE

    # --- access and calls

    def _attribute(self, node: cst.Attribute, w: World, ctx: Context) -> Value:
        owner = self._execution.evaluate(node.value, w, ctx)
        return w.resolve(self._attributes.get(owner, node.attr.value, w, ctx, ctx.site(node)))

    def _call(self, node: cst.Call, w: World, ctx: Context) -> Value:
        with self._whole.partly():
            return joined(self._calls.call_node(node, w, ctx), w)

    def _subscript(self, node: cst.Subscript, w: World, ctx: Context) -> Value:
        owner = w.resolve(self._execution.evaluate(node.value, w, ctx))
        parts = self._parts(node, w, ctx)
        part = w.resolve(self._collections.get_item(owner, _index_of(parts), w, ctx, ctx.site(node)))
        if isinstance(part, Unknown) and isinstance(owner, Class):
            return owner  # a generic class, told of what: it makes the same objects
        self._domain.items.subscripted(part, owner, parts, node, w)
        return part

    def index(self, node: cst.Subscript, w: World, ctx: Context) -> Value | slice | None:
        """The index of a subscript: a value, a slice of constants, or None where there is more to it."""
        return _index_of(self._parts(node, w, ctx))

    def _parts(self, node: cst.Subscript, w: World, ctx: Context) -> list[Value | slice | None]:
        """What stands between the brackets of a subscript; None for a slice of what is no constant."""
        parts: list[Value | slice | None] = []
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                parts.append(w.resolve(self._execution.evaluate(element.slice.value, w, ctx)))
            elif isinstance(element.slice, cst.Slice):
                ends = (element.slice.lower, element.slice.upper, element.slice.step)
                bounds = [self._execution.evaluate(end, w, ctx) if end else NONE for end in ends]
                known = [bound.value for bound in bounds if isinstance(bound, Const)]
                parts.append(slice(*known) if len(known) == len(bounds) else None)
        return parts

    # --- operators

    def _binary(self, node: cst.BinaryOperation, w: World, ctx: Context) -> Value:
        left = self._execution.evaluate(node.left, w, ctx)
        right = self._execution.evaluate(node.right, w, ctx)
        symbol = _BINARY[type(node.operator)][0]
        result = self.operate(symbol, left, right, w, ctx, node)
        if symbol == "*" and (self._domain.branches.asked_by(node.left) or self._domain.branches.asked_by(node.right)):
            return self._domain.branches.chosen(result)
        return result

    def operate(self, symbol: str, left: Value, right: Value, w: World, ctx: Context, node: cst.CSTNode) -> Value:
        """``left symbol right``."""
        left, right = self._choices.used(w.resolve(left), w), self._choices.used(w.resolve(right), w)
        w.raised = w.raised or (symbol in _ARITHMETIC and NONE in (left, right))
        if isinstance(left, Const) and isinstance(right, Const):
            return self._fold(symbol, left, right)
        left, right = self._domain.values.settled(left, w), self._domain.values.settled(right, w)
        if w.get(left, Tensor) is not None or w.get(right, Tensor) is not None:
            return self._domain.operators.arithmetic(symbol, left, right, w, ctx, ctx.site(node))
        if w.get(left, Object) is not None or w.get(right, Object) is not None:
            return self._collections.operate(symbol, left, right, w, ctx)
        deps = _deps(left) | _deps(right)
        return Unknown(computed(Operation(symbol, key_of(left), key_of(right))), mode_of(left, right), deps)

    def _fold(self, symbol: str, left: Const, right: Const) -> Value:
        a, b = left.value, right.value
        huge = symbol in ("**", "<<") and not (isinstance(b, (int, float)) and abs(b) < 100)
        long = symbol == "*" and (isinstance(a, (str, bytes)) or isinstance(b, (str, bytes)))
        if huge or long:
            return Unknown(Operation(symbol, key_of(left), key_of(right)))
        try:
            return Const(_BY_SYMBOL[symbol](a, b))
        except (TypeError, ValueError, ArithmeticError):
            return Unknown(Operation(symbol, key_of(left), key_of(right)))

    def _unary(self, node: cst.UnaryOperation, w: World, ctx: Context) -> Value:
        value = w.resolve(self._execution.evaluate(node.expression, w, ctx))
        if isinstance(node.operator, cst.Not):
            truth, key, _flipped = self._conditions.truth(value, w)
            if truth is not None:
                return Const(not truth)
            return Unknown(computed(Not(key))) if key is not None else new_unknown("not")
        if isinstance(value, Const) and isinstance(value.value, (int, float)):
            return Const(-value.value) if isinstance(node.operator, cst.Minus) else value
        if w.get(value, Tensor) is not None:
            return self._domain.operators.arithmetic("neg", value, NONE, w, ctx, ctx.site(node))
        return Unknown(computed(UnaryOperation(type(node.operator).__name__, key_of(value))), deps=_deps(value))

    def _boolean(self, node: cst.BooleanOperation, w: World, ctx: Context) -> Value:
        value = joined(self._short_circuit(node, w, ctx), w)
        return self._domain.branches.combined(value) if self._domain.branches.asked_by(node.left) else value

    def _short_circuit(self, node: cst.BooleanOperation, w: World, ctx: Context) -> Results:
        left = w.resolve(self._execution.evaluate(node.left, w, ctx))
        truth = self._conditions.truth_in(left, w)
        is_or = isinstance(node.operator, cst.Or)
        if truth is not None:
            return [(w, left if truth is is_or else self._execution.evaluate(node.right, w, ctx))]
        # Evaluated for what it does; it may be skipped, so what it does is joined with not doing it.
        other = w.copy()
        right = self._execution.evaluate(node.right, other, ctx)
        return [(w.copy(), left), (other, right)]

    def _conditional(self, node: cst.IfExp, w: World, ctx: Context) -> Value:
        if self._domain.branches.asked_by(node.test):
            node = _undenied(node)
            if _calls_either(node) and not self._domain.branches.settled_by(node.test, False):
                return joined(self._in_its_mode(node, w, ctx), w)
            value = w.resolve(self._execution.evaluate(node.test, w, ctx))
            chosen = node.body if self._conditions.truth(value, w)[0] is not False else node.orelse
            checked, w.module_checked = w.module_checked, True
            result = w.resolve(self._execution.evaluate(chosen, w, ctx))
            w.module_checked = checked
            return self._domain.branches.chosen(result)
        return joined(self._either(node, w, ctx), w)

    def _in_its_mode(self, node: cst.IfExp, w: World, ctx: Context) -> Results:
        """The result of one call where the mode is settled, and of another where it is not."""
        results: Results = []
        for taken, world in self._conditions.decide(node.test, w, ctx):
            checked, world.module_checked = world.module_checked, world.module_checked or taken
            value = world.resolve(self._execution.evaluate(node.body if taken else node.orelse, world, ctx))
            world.module_checked = checked
            results.append((world, self._domain.branches.chosen(value)))
        return results

    def _either(self, node: cst.IfExp, w: World, ctx: Context) -> Results:
        asks = self._domain.branches.asks_device(node.test)
        results: Results = []
        for taken, world in self._conditions.decide(node.test, w, ctx):
            checked, world.device_checked = world.device_checked, world.device_checked or asks
            value = self._execution.evaluate(node.body if taken else node.orelse, world, ctx)
            world.device_checked = checked
            results.append((world, value))
        return results

    def alternatives(self, node: cst.IfExp | cst.BooleanOperation, w: World, ctx: Context) -> Results:
        """``a if test else b`` on its own: objects of different kinds stay apart, for what else depends on the test.

        So do lists and dicts that were there before: what is put into the one is not in the other.  So does a model
        or a loss from what may be given in its place, also in ``a or b``.
        """
        chooses = isinstance(node, cst.IfExp)
        if self._domain.branches.asked_by(node.test if isinstance(node, cst.IfExp) else node.left):
            return [(w, self._execution.evaluate(node, w, ctx))]
        before = fresh()
        results = self._either(node, w, ctx) if isinstance(node, cst.IfExp) else self._short_circuit(node, w, ctx)
        values = [(world.resolve(value), world) for world, value in results]
        if len(results) > 1 and chooses and all(self._stays_apart(value, before, world) for value, world in values):
            return results
        if len(results) == 2 and self._is_given_or_made(values):
            return results
        return [(w, joined(results, w))]

    def _is_given_or_made(self, values: list[tuple[Value, World]]) -> bool:
        """Whether a value is either not known, or a model of the project or a loss."""
        made = [world.get(value, Instance) for value, world in values if not isinstance(value, Unknown)]
        if len(made) != 1 or made[0] is None:
            return False
        return made[0].loss is not None or (made[0].role is roles.MODULE and made[0].cls is not None)

    def _stays_apart(self, value: Value, before: int, w: World) -> bool:
        obj = w.get(value, Object)
        if isinstance(obj, Instance):
            return obj.role.stays_apart
        kept = isinstance(obj, Mapping) or (isinstance(obj, Sequence) and obj.mutable)
        return kept and isinstance(value, Ref) and value.id < before

    # --- displays and comprehensions

    def _sequence(self, node: cst.Tuple | cst.List | cst.Set, w: World, ctx: Context) -> Value:
        new = Sequence(mutable=not isinstance(node, cst.Tuple))
        for element in node.elements:
            value = self._execution.evaluate(element.value, w, ctx)
            if isinstance(element, cst.StarredElement):
                other = self._collections.iterate(value, w, ctx, ctx.site(element))
                if other.known is not None and new.tail is None:
                    new.items += other.known
                    new.sites += [None] * len(other.known)
                else:
                    inner = w.get(w.resolve(value), Sequence)
                    new.tail = other.element(w, ctx)
                    new.end_with(inner.ending if inner is not None else None)
            elif new.tail is not None:
                new.tail = self._choices.either(new.tail, value, w)
                new.end_with(value)
            else:
                new.items.append(value)
                new.sites.append(ctx.site(element.value))
        return w.new(new)

    def _dict(self, node: cst.Dict, w: World, ctx: Context) -> Value:
        ref = w.new(Mapping())
        for element in node.elements:
            value = self._execution.evaluate(element.value, w, ctx)
            if isinstance(element, cst.DictElement):
                key = w.resolve(self._execution.evaluate(element.key, w, ctx))
                self._filling.set_item(ref, key, value, w, ctx, ctx.site(element.value))
            else:
                self._filling.update(ref, value, w, ctx)
        return ref

    # --- augmented assignment

    def augment(self, node: cst.AugAssign, w: World, ctx: Context) -> None:
        """``target op= value``: in place for tensors and lists, a new value otherwise."""
        value = self._choices.used(w.resolve(self._execution.evaluate(node.value, w, ctx)), w)
        current = self._choices.used(w.resolve(self._execution.evaluate(_as_expression(node.target), w, ctx)), w)
        symbol = _AUGMENTED[type(node.operator)]
        if isinstance(node.target, cst.Subscript):
            owner = w.resolve(self._execution.evaluate(node.target.value, w, ctx))
            if self._domain.mutations.augmented_item(symbol, owner, value, node, w, ctx):
                return
        if self._domain.mutations.augmented(symbol, current, value, node, w, ctx):
            return
        sequence = w.get(current, Sequence)
        if sequence is not None and symbol == "+" and sequence.mutable:
            self._filling.extend(current, value, w, ctx, ctx.site(node.value))
            return
        if ctx.peeled and isinstance(current, Const) and isinstance(value, Const) and not isinstance(value.value, str):
            result: Value = new_unknown("counter")
        else:
            result = self.operate(symbol, current, value, w, ctx, node)
            self._domain.mutations.totalled(current, result, w, ctx)
        self._execution.bind(node.target, result, w, ctx, node)


def _undenied(node: cst.IfExp) -> cst.IfExp:
    """``a if test else b`` for ``b if not test else a``."""
    while isinstance(node.test, cst.UnaryOperation) and isinstance(node.test.operator, cst.Not):
        node = node.with_changes(test=node.test.expression, body=node.orelse, orelse=node.body)
    return node


def _calls_either(node: cst.IfExp) -> bool:
    return type(node.body) is cst.Call and type(node.orelse) is cst.Call


def _deps(value: Value) -> frozenset[int]:
    return value.deps if isinstance(value, Unknown) else frozenset()


def _as_expression(target: cst.CSTNode) -> cst.BaseExpression:
    assert isinstance(target, cst.BaseExpression)  # the grammar: a name, attribute or subscript
    return target


def _index_of(parts: list[Value | slice | None]) -> Value | slice | None:
    return parts[0] if len(parts) == 1 else None
