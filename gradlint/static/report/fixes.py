"""Fixes: the intents of a rule as edits of the source text; where a statement that clears gradients belongs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import libcst as cst

from gradlint import intents
from gradlint.finding import Applicability, Edit, Fix
from gradlint.rule import Violation
from gradlint.source import Source, SourceError
from gradlint.static.report import rewriting
from gradlint.static.report.place import CannotError, Change, Place
from gradlint.static.report.rewriting import line_before, line_behind
from gradlint.static.text.nodes import Span
from gradlint.static.text.units import NodeSite

_Block = Sequence[cst.BaseStatement]
_OWN_NAMES = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.Lambda)


def clear_gradients(place: Place, intent: intents.ClearGradients) -> Iterator[Change]:
    """``optimizer.zero_grad()`` before the backward passes that lead to a step."""
    site = intent.step
    if not isinstance(site, NodeSite) or site.unit.module is not place.module:
        raise CannotError
    step = Place(site)
    optimizer, closure = _optimizer(step)
    text = f"{optimizer}.zero_grad()"
    added = place.statement(place.node)
    first = _first(place, added, intent)
    if closure:
        if not _is_closure(place, closure):
            raise CannotError
        yield line_before(place, first or added, text)
    elif site.unit is place.unit:
        alone = intent.spent == {site}
        yield _in_unit(place, added, step.statement(site.node), first, text, alone)
    elif first is added and _follow(place, added, step):
        yield line_before(place, added, text)
    else:
        raise CannotError


def _first(place: Place, added: cst.BaseStatement, intent: intents.ClearGradients) -> cst.BaseStatement | None:
    """The statement of the first backward pass; None if it stands elsewhere."""
    firsts = [
        place.statement(site.node) if isinstance(site, NodeSite) and site.unit is place.unit else None
        for site in intent.first
    ]
    if any(first is added for first in firsts):  # what may have come before it, came before the step
        return added
    if len(firsts) > 1:
        raise CannotError
    return firsts[0]


def _optimizer(step: Place) -> tuple[str, str]:
    """How the optimizer is spelled where it makes a step, and the name of the closure it is given."""
    call = step.call()
    receiver = step.text(step.outer(step.role("receiver")))
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "step":
        raise CannotError
    statement = step.statement(call)
    if isinstance(statement, cst.For) or any(step.enclosing(call, kind) is not None for kind in _OWN_NAMES):
        raise CannotError  # the optimizer may have its name there only
    closure = ""
    if call.args:
        given = step.text(step.span(step.role("argument 0")))
        if len(call.args) > 1:
            raise CannotError
        if re.search(rf"\bdef {re.escape(given)}\b", step.source.text):
            closure = given
        else:  # a scaler, which steps the optimizer it is given
            receiver = given
    if not re.fullmatch(r"[\w.]+(\[[\w'\"]+\])?", receiver):
        raise CannotError
    return receiver, closure


def _is_closure(place: Place, name: str) -> bool:
    function = place.enclosing(place.node, cst.FunctionDef)
    return function is not None and function.name.value == name and not function.params.params


def _follow(place: Place, added: cst.BaseStatement, step: Place) -> bool:
    """Whether two statements of the same body (in a notebook, of the same cell) are units of their own."""
    whole = place.unit.node is added and step.unit.node is step.statement(step.node)
    cells = {place.source.cell_at(unit.row) for unit in (place.unit, step.unit)}
    return whole and place.unit.parent is step.unit.parent and len(cells) == 1


def _in_unit(
    place: Place,
    added: cst.BaseStatement,
    step: cst.BaseStatement,
    first: cst.BaseStatement | None,
    text: str,
    alone: bool,
) -> Change:
    """The line in its place, where step and backward pass are in one function.

    Args:
        place: that of the backward pass.
        added: its statement.
        step: the statement of the step.
        first: that of the first backward pass, if that stands in the same unit.
        text: the line.
        alone: no other step has applied the gradients before.
    """
    block, at = _block(place, step)
    reached = _index_in(place, block, added)
    if reached is not None:
        if first is added or reached > at:
            return line_before(place, block[reached] if first is added else added, text)
        return line_before(place, block[_start(place, block, reached, first)], text)
    outer, before = _block(place, added)
    later = _index_in(place, outer, step)
    if not alone or first is not added or later is None or later < before:
        raise CannotError
    return line_behind(place, step, text)


def _start(place: Place, block: _Block, reached: int, first: cst.BaseStatement | None) -> int:
    """The place in a block where the backward passes begin that its step applies."""
    begin = next((i + 1 for i in range(reached - 1, -1, -1) if ".step(" in _text(place, block[i])), 0)
    if begin == 0 and _is_docstring(block[0]):
        begin = 1
    opening = _index_in(place, block, first) if first is not None else None
    if opening is not None and begin <= opening <= reached:
        return opening
    whole = place.tree.parent(place.tree.parent(block[0]) or block[0])
    if not isinstance(whole, (cst.For, cst.While, cst.FunctionDef)):
        raise CannotError
    return begin


def _block(place: Place, statement: cst.BaseStatement) -> tuple[_Block, int]:
    parent = place.tree.parent(statement)
    if not isinstance(parent, (cst.IndentedBlock, cst.Module)):
        raise CannotError
    block = [each for each in parent.body if isinstance(each, cst.BaseStatement)]
    return block, next(i for i, each in enumerate(block) if each is statement)


def _index_in(place: Place, block: _Block, statement: cst.BaseStatement) -> int | None:
    """Which statement of a block holds another, in the same function."""
    here: cst.CSTNode | None = statement
    while here is not None:
        for i, each in enumerate(block):
            if each is here:
                return i
        here = place.tree.parent(here)
        if isinstance(here, (cst.FunctionDef, cst.ClassDef)):
            return None
    return None


def _text(place: Place, node: cst.CSTNode) -> str:
    return place.text(place.span(node))


def _is_docstring(statement: cst.BaseStatement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    only = statement.body[0]
    return isinstance(only, cst.Expr) and isinstance(only.value, (cst.SimpleString, cst.ConcatenatedString))


def fix_of(violation: Violation) -> Fix | None:
    """The mend of a violation as edits; None if it has none, or if it cannot be spelled."""
    mend, at = violation.mend, violation.at
    if mend is None or not isinstance(at, NodeSite):
        return None
    try:
        changes = [change for intent in mend.intents for change in _realised(intent, at)]
        source = at.unit.module.source
        for change in changes:
            _check_rows(change.span, source)
    except (CannotError, SourceError):
        return None
    changes.sort(key=lambda change: change.span)
    edits = tuple(Edit(source.location(*change.span), change.content) for change in changes)
    return Fix(mend.message, mend.applicability, edits)


def agreed(one: Fix | None, other: Fix | None) -> Fix | None:
    """The fix of a finding that was made twice: what both say, or none."""
    if one is None or other is None or one.edits != other.edits:
        return None
    return one if one.applicability is Applicability.UNSAFE else other


def _check_rows(span: Span, source: Source) -> None:
    """Rows that only IPython understands are not what they seem."""
    for row in range(span[0], span[2] + 1):
        cell = source.cell_at(row)
        if cell is not None:
            place = row - cell.first_row
            lines = cell.lines
            if place >= len(lines) or lines[place] not in (
                source.rows[row - 1],
                " " * cell.indent + source.rows[row - 1],
            ):
                raise CannotError


def _realised(intent: intents.Intent, at: NodeSite) -> Iterator[Change]:
    site = intent.at or at
    if not isinstance(site, NodeSite) or site.unit.module is not at.unit.module:
        raise CannotError
    place = Place(site)
    yield from _REALISERS[type(intent)](place, intent)


_REALISERS: Mapping[type[intents.Intent], Callable[[Place, Any], Iterator[Change]]] = {
    intents.Append: rewriting.append,
    intents.AssignBack: rewriting.assign_back,
    intents.ChangeItself: rewriting.change_itself,
    intents.ClearGradients: clear_gradients,
    intents.Decorate: rewriting.decorate,
    intents.DropArgument: rewriting.drop_argument,
    intents.DropArguments: rewriting.drop_arguments,
    intents.InsertBefore: rewriting.insert_before,
    intents.InsertBehind: rewriting.insert_behind,
    intents.InsertFirst: rewriting.insert_first,
    intents.Omit: rewriting.omit,
    intents.Rename: rewriting.rename,
    intents.Replace: rewriting.replace,
    intents.SetArgument: rewriting.set_argument,
    intents.Unwrap: rewriting.unwrap,
    intents.WrapStatement: rewriting.wrap_statement,
}
