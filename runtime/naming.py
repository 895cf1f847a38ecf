"""How the source of a function names values, from one operation in it to a later one: read once for each pair."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator

from .frames import FrameSite
from .spelling import function_syntax

_Range = tuple[int, int, int, int]


@functools.lru_cache(maxsize=256)
def adds_old_name(changed: FrameSite, added: FrameSite, position: int) -> bool:
    """Whether the operand of a sum is named as it was before an operation whose result leads to the other operand.

    Args:
        changed: where the operation is called, or what leads to it: it overwrites that operand, and returns it.
        added: where the sum is, in the same function.
        position: that of the operand.
    """
    function = function_syntax(changed.code)
    first, last = _range(changed), _range(added)
    if function is None or first is None or last is None:
        return False
    statements = list(_statements(function))
    start, end = _holder(statements, first), _holder(statements, last)
    operation = _expression(statements[end], last) if start is not None and end is not None else None
    if operation is None or start is None or end is None or end < start:
        return False
    operands = _operands(operation)
    skip, branch = operands[position], operands[1 - position]
    if not isinstance(skip, ast.Name) or branch is None:
        return False
    between = statements[start:end]
    if skip.id in {name for statement in between for name in _bound(statement)}:
        return False
    if start == end:
        return _contains(branch, first)
    return not _led_to(between).isdisjoint(_names(branch))


@functools.lru_cache(maxsize=256)
def is_whole_statement(called: FrameSite) -> bool:
    """Whether nothing is done with what a call returns."""
    function, place = function_syntax(called.code), _range(called)
    statements = list(_statements(function)) if function is not None else []
    holder = _holder(statements, place) if place is not None else None
    if holder is None:
        return False
    statement = statements[holder]
    return isinstance(statement, ast.Expr) and _range_of(statement.value) == place


def _range(site: FrameSite) -> _Range | None:
    """First and last line and byte of what is being evaluated."""
    start, end, first, last = next(
        itertools.islice(site.code.co_positions(), site.lasti // 2, None), (None, None, None, None)
    )
    return None if start is None or end is None or first is None or last is None else (start, first, end, last)


def _range_of(node: ast.expr | ast.stmt) -> _Range:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _contains(node: ast.expr | ast.stmt, place: _Range) -> bool:
    own = _range_of(node)
    return own[:2] <= place[:2] and place[2:] <= own[2:]


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function that hold no others, and loops for what they bind, in the order of its text."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            continue
        held = any(isinstance(part, (ast.stmt, ast.ExceptHandler)) for part in ast.iter_child_nodes(child))
        if isinstance(child, ast.stmt) and (not held or isinstance(child, (ast.For, ast.AsyncFor))):
            yield child
        if held:
            yield from _statements(child)


def _holder(statements: list[ast.stmt], place: _Range) -> int | None:
    """The number of the innermost statement around a place."""
    around = [number for number, statement in enumerate(statements) if _contains(statement, place)]
    return around[-1] if around else None


def _expression(statement: ast.stmt, place: _Range) -> ast.AST | None:
    """What stands at a place."""
    if isinstance(statement, ast.AugAssign) and _range_of(statement) == place:
        return statement
    return next((n for n in ast.walk(statement) if isinstance(n, ast.expr) and _range_of(n) == place), None)


def _operands(operation: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """The two sides of a sum or difference, in the order in which a function of torch is given them."""
    if isinstance(operation, ast.BinOp):
        return operation.left, operation.right
    if isinstance(operation, ast.AugAssign):
        return operation.target, operation.value
    given: list[ast.expr] = list(operation.args) if isinstance(operation, ast.Call) else []
    if len(given) == 1 and isinstance(operation, ast.Call) and isinstance(operation.func, ast.Attribute):
        given.insert(0, operation.func.value)
    return (given[0], given[1]) if len(given) == 2 else (None, None)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return _names(statement.target)
    stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {name.id for name in stored}


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _led_to(statements: list[ast.stmt]) -> set[str]:
    """The names of what comes, statement by statement, of what the first one computes."""
    first, *rest = statements
    led = _bound(first) or _receiver(first)
    for statement in rest:
        bound, plain = _bound(statement), isinstance(statement, ast.Assign)
        if led.isdisjoint(_read(statement)):
            led -= bound if plain else set()
        else:
            led |= bound or _receiver(statement)
    return led


def _read(statement: ast.stmt) -> set[str]:
    """The names that a statement reads to bind others."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return _names(statement.iter)
    loaded = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store))
    names = {name.id for name in loaded}
    return names | _bound(statement) if isinstance(statement, ast.AugAssign) else names


def _receiver(statement: ast.stmt) -> set[str]:
    """What a statement that is a call is a method of: ``features`` in ``features.append(x)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return _names(call.func) if isinstance(call, ast.Call) else set()
