"""Changes of tensors through ``.data``, made of the tensors themselves where nothing is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gradlint import intents
from gradlint.static.report.inserting import wrapped
from gradlint.static.report.place import CannotError, Change, Place


def change_itself(place: Place, intent: intents.ChangeItself) -> Iterator[Change]:
    """The statement without the ``.data`` of what it changes, under a header."""
    statement = place.statement(place.node)
    if not isinstance(statement, cst.SimpleStatementLine):
        raise CannotError
    act: cst.CSTNode = statement.body[0]
    if isinstance(act, cst.Expr):
        act = act.value
    data = place.data_of_changed(act)
    if data is None:
        raise CannotError
    if intent.header:
        yield from wrapped(place, statement, place.spelled(intent.header))
    if isinstance(act, cst.Assign) and act.targets[0].target is data:
        yield _copied(place, act, data)
        return
    for attribute in _attributes(act):
        if attribute.attr.value == "data" and attribute.value.deep_equals(data.value):
            yield _without(place, attribute)


def _without(place: Place, data: cst.Attribute) -> Change:
    return place.removed(place.outer(data.value)[2:], place.span(data)[2:])


def _copied(place: Place, act: cst.Assign, data: cst.Attribute) -> Change:
    """``x.data = x.data * a + b`` as ``x.copy_(x * a + b)``: computed of its old values, it has their shape."""
    owner, value = place.text(place.span(data.value)), place.text(place.outer(act.value))
    through = re.compile(rf"(?<![\w.]){re.escape(owner)}\.data\b(?!\.)")
    if not isinstance(act.value, cst.BinaryOperation) or not through.search(value):
        raise CannotError
    row, column, end_row, end_column = place.span(act)
    return place.removed((row, column), (end_row, end_column), f"{owner}.copy_({through.sub(owner, value)})")


def _attributes(node: cst.CSTNode) -> Iterator[cst.Attribute]:
    queue = [node]
    while queue:
        here = queue.pop()
        if isinstance(here, cst.Attribute):
            yield here
        queue += here.children
