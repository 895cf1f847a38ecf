"""Running totals: statements that add to what a name, an attribute or an item holds."""

from __future__ import annotations

import libcst as cst


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
