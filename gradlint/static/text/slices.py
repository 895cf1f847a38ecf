"""Slices of arrays: which part of its storage a subscript takes, where it is written out."""

from __future__ import annotations

import libcst as cst

from gradlint.static.text.literals import value_of

Bound = int | None
Place = tuple[int | tuple[Bound, Bound, Bound], ...]
"""Which part of an array a subscript of slices and numbers takes."""

WHOLE: Place = ()


def place_of(node: cst.Subscript) -> Place | None:
    """The part of an array that a subscript takes without copying it; None where that is not written out."""
    try:
        place = tuple(_part(element.slice) for element in node.slice)
    except ValueError:
        return None
    if all(part == (None, None, None) for part in place):
        return WHOLE
    return place if any(isinstance(part, tuple) for part in place) else None


def _part(node: cst.BaseSlice) -> int | tuple[Bound, Bound, Bound]:
    if isinstance(node, cst.Slice):
        lower, upper, step = (
            None if bound is None else _number(bound) for bound in (node.lower, node.upper, node.step)
        )
        return lower, upper, step
    if isinstance(node, cst.Index):
        return _number(node.value)
    raise ValueError


def _number(node: cst.BaseExpression) -> int:
    if isinstance(node, cst.Integer):
        return int(value_of(node))
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return -_number(node.expression)
    raise ValueError


__all__ = ["WHOLE", "Place", "place_of"]
