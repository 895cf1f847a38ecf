"""Changes of statements: new lines, decorators, and blocks around what stands there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gradlint import intents
from gradlint.static.report.place import CannotError, Change, Place


def insert_before(place: Place, intent: intents.InsertBefore) -> Iterator[Change]:
    """A line before a statement."""
    yield line_before(place, place.statement(place.node), place.spelled(intent.text))


def line_before(place: Place, node: cst.CSTNode, text: str) -> Change:
    """A new line before a statement, its decorators included."""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:
        node = node.decorators[0]
    span = place.span(node)
    indent = place.indent(span)
    row, column = span[:2]
    return Change((row, column, row, column), f"{text}\n{indent}")


def insert_behind(place: Place, intent: intents.InsertBehind) -> Iterator[Change]:
    """A line behind a statement."""
    yield line_behind(place, place.statement(place.node), place.spelled(intent.text))


def line_behind(place: Place, statement: cst.BaseStatement, text: str) -> Change:
    """A new line behind a statement of a line, with the comment at its end."""
    if not isinstance(statement, cst.SimpleStatementLine):
        raise CannotError
    span = place.span(statement.body[0])
    row = span[2]
    column = len(place.source.rows[row - 1]) + 1
    return Change((row, column, row, column), f"\n{place.indent(span)}{text}")


def insert_first(place: Place, intent: intents.InsertFirst) -> Iterator[Change]:
    """A line at the beginning of a function."""
    here: cst.CSTNode | None = place.node
    while here is not None and not isinstance(here, cst.FunctionDef):
        here = place.tree.parent(here)
    if here is None or here.name.value != intent.function or not isinstance(here.body, cst.IndentedBlock):
        raise CannotError
    if any(text in place.text(place.span(here)) for text in intent.without):
        raise CannotError
    body = here.body.body
    first = body[1] if len(body) > 1 and here.get_docstring(clean=False) is not None else body[0]
    yield line_before(place, first, place.spelled(intent.text))


def decorate(place: Place, intent: intents.Decorate) -> Iterator[Change]:
    """A decorator."""
    function, written = place.unit.node, place.unit.text
    if not isinstance(function, cst.FunctionDef) or any(text in written for text in intent.without):
        raise CannotError
    if intent.having and not any(text in written for text in intent.having):
        raise CannotError
    span = place.span(function)
    yield Change((*span[:2], *span[:2]), f"{place.spelled(intent.text)}\n{place.indent(span)}")


def wrap_statement(place: Place, intent: intents.WrapStatement) -> Iterator[Change]:
    """A block around a statement."""
    yield from wrapped(place, place.statement(place.node), place.spelled(intent.header))


def wrapped(place: Place, statement: cst.BaseStatement, header: str) -> Iterator[Change]:
    """A block with a header around a statement of a line, or of several that are no text."""
    if not isinstance(statement, cst.SimpleStatementLine):
        raise CannotError
    span = place.span(statement.body[0])
    text = place.text(span)
    if '"""' in text or "'''" in text or "\\\n" in text:
        raise CannotError
    indent = place.indent(span)
    step = "\t" if "\t" in indent else "    "
    yield Change((*span[:2], *span[:2]), f"{header}\n{indent}{step}")
    for row in range(span[0] + 1, span[2] + 1):
        if place.source.rows[row - 1].strip():
            yield Change((row, 1, row, 1), step)
