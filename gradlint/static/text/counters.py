"""What loops count up to a number before they begin anew, the conditions that ask for it, and running totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import libcst as cst

from gradlint.static.knowledge.guesses import ENUMERATE, RANGES_NAME
from gradlint.static.knowledge.torch_table import WALKS
from gradlint.static.text.nodes import children, dotted


def running_total(node: cst.Assign) -> cst.BaseExpression | None:
    """``total`` in ``total = total + loss``, ``average`` in ``average = 0.9 * average + 0.1 * loss``.

    As well what is looked up in a dict, in ``sums[name] = sums.get(name, 0) + loss``.
    """
    target = node.targets[0].target
    if len(node.targets) != 1 or type(target) not in (cst.Name, cst.Attribute, cst.Subscript):
        return None
    lookup = lookup_of(target, node.value)
    return next((total for total in (target, lookup) if total is not None and _is_sum_with(total, node.value)), None)


def lookup_of(target: cst.CSTNode, value: cst.CSTNode) -> cst.Call | None:
    """``sums.get(name, 0)`` where a value with that among its operands is put into ``sums[name]``."""
    if type(target) is not cst.Subscript:
        return None
    if type(value) is cst.BinaryOperation:
        return lookup_of(target, value.left) or lookup_of(target, value.right)
    if type(value) is not cst.Call or type(value.func) is not cst.Attribute or value.func.attr.value != "get":
        return None
    index = target.slice[0].slice
    same = value.func.value.deep_equals(target.value) and len(target.slice) == 1 and bool(value.args)
    return value if same and type(index) is cst.Index and value.args[0].value.deep_equals(index.value) else None


def adds_to(total: cst.BaseExpression, value: cst.BaseExpression) -> bool:
    """Whether a value is ``total``, as it is, and something more."""
    while type(value) is cst.BinaryOperation and isinstance(value.operator, (cst.Add, cst.Subtract)):
        if total.deep_equals(value.left) or total.deep_equals(value.right):
            return True
        value = value.left
    return False


def _is_sum_with(total: cst.BaseExpression, value: cst.BaseExpression) -> bool:
    """Whether a value is, or may be, a sum of which one term is ``total`` or a multiple of it."""
    if type(value) is cst.IfExp:
        return _is_sum_with(total, value.body) or _is_sum_with(total, value.orelse)
    if type(value) is not cst.BinaryOperation:
        return False
    if type(value.operator) in (cst.Add, cst.Subtract):
        return any(_is_multiple(total, term) or _is_sum_with(total, term) for term in (value.left, value.right))
    return any(_is_sum_with(total, factor) for factor in _factors(value))


def _is_multiple(total: cst.BaseExpression, term: cst.BaseExpression) -> bool:
    if type(term) is cst.BinaryOperation:
        return any(_is_multiple(total, factor) for factor in _factors(term))
    return type(term) is type(total) and total.deep_equals(term)


def _factors(value: cst.BinaryOperation) -> list[cst.BaseExpression]:
    """What a product or quotient is proportional to."""
    if type(value.operator) is cst.Multiply:
        return [value.left, value.right]
    return [value.left] if type(value.operator) is cst.Divide else []


_LOOPS = frozenset([cst.For, cst.While])
_APART = frozenset([cst.FunctionDef, cst.ClassDef, cst.Lambda])
_HOLDING = _LOOPS | {
    *(cst.IndentedBlock, cst.If, cst.Else, cst.With, cst.Match, cst.MatchCase),
    *(cst.Try, cst.TryStar, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally),
}  #: what branches may stand in
_LEAVING = frozenset([cst.Continue, cst.Return])
_COUNTS = (cst.AddAssign, cst.SubtractAssign)
_AT_THE_END = (cst.Equal, cst.GreaterThanEqual, cst.NotEqual, cst.LessThan)


class Counted(NamedTuple):
    """What is counted in a loop, or in a function that one calls, as the source spells it."""

    anew: frozenset[str] = frozenset()  #: counted up or down, and set anew in some of the iterations
    numbers: frozenset[str] = frozenset()  #: those of the iterations
    flags: Mapping[str, cst.BaseExpression] = {}  #: what is assigned a condition, and nothing else
    either_walks: bool = False  #: whichever way the branch goes, a backward pass is made

    def turns(self, comparison: cst.Comparison) -> bool:
        """Whether a comparison asks how far a counter has come, or for the last iteration."""
        if len(comparison.comparisons) != 1:
            return False
        part = comparison.comparisons[0]
        if self.anew and not self.anew.isdisjoint((dotted(comparison.left), dotted(part.comparator))):
            return True
        return isinstance(part.operator, _AT_THE_END) and self._is_the_last(comparison)

    def ends(self, test: cst.CSTNode) -> bool | None:
        """Whether a condition holds in the last iteration alone, or its opposite does (False); None if neither."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            way = self.ends(test.expression)
            return None if way is None else not way
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or not self._is_the_last(test):
            return None
        return {cst.Equal: True, cst.NotEqual: False}.get(type(test.comparisons[0].operator))

    def _is_the_last(self, comparison: cst.Comparison) -> bool:
        """Whether the number of an iteration is compared with that of the last one."""
        return dotted(comparison.left) in self.numbers and _is_the_last(comparison.comparisons[0].comparator)


NOTHING = Counted()


def counted_around(unit: cst.CSTNode) -> dict[int, Counted]:
    """What is counted where each branch of a function or statement stands, by the id of its condition."""
    found: dict[int, Counted] = {}
    _gather(unit, found, any(map(_walks, children(unit))))
    return found


def _gather(scope: cst.CSTNode, found: dict[int, Counted], walks: bool) -> None:
    """Note what is counted in the innermost loop or function for each branch in it; whether it walks at all is told."""
    counted: Counted | None = None
    queue: list[tuple[cst.CSTNode, list[cst.CSTNode], int]] = [(scope, [], 0)]
    while queue:
        here, around, number = queue.pop()
        if here is not scope and type(here) in _LOOPS:
            _gather(here, found, walks)
            continue
        if type(here) is cst.If:
            counted = counted or _counted_in(scope)
            either_walks = walks and _either_walks(here, around[number + 1 :])
            found[id(here.test)] = counted._replace(either_walks=either_walks)
        inner = children(here)
        queue += ((child, inner, place) for place, child in enumerate(inner) if type(child) in _HOLDING)


def _either_walks(node: cst.If, behind: list[cst.CSTNode]) -> bool:
    """Whether a backward pass is made whichever way a branch goes: in it, or behind it where the other way leaves."""
    ways = _ways(node)
    walking = [way for way in ways if _walks(way)]
    if len(walking) == 2:
        return True
    return len(walking) == 1 and _leaves(walking[0]) and any(map(_walks, behind))


def _ways(node: cst.If) -> list[cst.CSTNode]:
    """The blocks of a branch: what runs where the condition holds, and where it does not."""
    other = node.orelse.body if isinstance(node.orelse, cst.Else) else node.orelse
    return [node.body, *([] if other is None else [other])]


def _walks(node: cst.CSTNode) -> bool:
    """Whether a piece of code makes a backward pass, as far as it is spelled so."""
    if type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in WALKS:
        return True
    return type(node) not in _APART and any(map(_walks, children(node)))


def _counted_in(scope: cst.CSTNode) -> Counted:
    body = scope.body if isinstance(scope, (cst.For, cst.While, cst.FunctionDef)) else scope
    moved: set[str] = set()
    reset: set[str] = set()
    flags: dict[str, list[cst.BaseExpression]] = {}
    for statement, inner, sometimes in _statements(body):
        for name, value in _assignments(statement):
            if value is None or _moves(name, value):
                moved.add(name)
            elif sometimes and not inner:
                reset.add(name)
            if value is not None:
                flags.setdefault(name, []).append(value)
    conditions = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)
    settled = {
        name: values[0] for name, values in flags.items() if len(values) == 1 and isinstance(values[0], conditions)
    }
    return Counted(frozenset(moved & reset), frozenset(_numbers(scope)), settled)


def _statements(block: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, bool, bool]]:
    """The small statements of a block; whether they stand in a loop in it, and whether only some iterations do."""
    queue: list[tuple[cst.CSTNode, bool, bool]] = [(block, False, False)]
    while queue:
        node, inner, sometimes = queue.pop()
        kind = type(node)
        if kind in _APART:
            continue
        if isinstance(node, cst.BaseSmallStatement):
            yield node, inner, sometimes
            continue
        inner = inner or kind in _LOOPS
        if kind is cst.If or kind in _LOOPS:
            sometimes = True
        for child in children(node):
            queue.append((child, inner, sometimes))
            sometimes = sometimes or (type(child) is cst.If and any(map(_leaves, _ways(child))))


def _leaves(block: cst.CSTNode) -> bool:
    """Whether a block ends by leaving the iteration or the function."""
    if isinstance(block, cst.If):  # ``elif``
        return any(map(_leaves, _ways(block)))
    last = block.body[-1] if isinstance(block, cst.BaseSuite) and block.body else None
    if type(last) is cst.SimpleStatementLine:
        last = last.body[-1]
    return type(last) in _LEAVING


def _assignments(statement: cst.CSTNode) -> Iterator[tuple[str, cst.BaseExpression | None]]:
    """What a statement assigns to, by its spelling, and what it assigns; None where it adds to it, or takes from it."""
    if type(statement) is cst.AugAssign:
        name = dotted(statement.target)
        if name and isinstance(statement.operator, _COUNTS):
            yield name, None
    elif type(statement) is cst.Assign:
        for target in statement.targets:
            name = dotted(target.target)
            if name:
                yield name, statement.value


def _moves(name: str, value: cst.BaseExpression) -> bool:
    """Whether what is assigned is what was there, and something more or less."""
    return (
        type(value) is cst.BinaryOperation
        and isinstance(value.operator, (cst.Add, cst.Subtract))
        and name in (dotted(value.left), dotted(value.right))
    )


def _numbers(scope: cst.CSTNode) -> Iterator[str]:
    """The variables that number the iterations of a ``for`` loop."""
    if not isinstance(scope, cst.For) or type(scope.iter) is not cst.Call or type(scope.iter.func) is not cst.Name:
        return
    target: cst.CSTNode | None = scope.target
    if scope.iter.func.value == ENUMERATE:
        target = target.elements[0].value if isinstance(target, cst.Tuple) and target.elements else None
    elif scope.iter.func.value not in RANGES_NAME:
        return
    name = dotted(target)
    if name:
        yield name


def _is_the_last(node: cst.BaseExpression) -> bool:
    """Whether a number is spelled as the last one is: ``k - 1``, ``len(loader)``."""
    if type(node) is cst.Call:
        return type(node.func) is cst.Name and node.func.value == "len"
    return type(node) is cst.BinaryOperation and isinstance(node.operator, cst.Subtract)


__all__ = ["NOTHING", "Counted", "adds_to", "counted_around", "lookup_of", "running_total"]
