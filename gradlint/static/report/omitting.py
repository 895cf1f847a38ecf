"""Leaving out an operation, wherever it is applied."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gradlint import intents
from gradlint.static.report.place import CannotError, Change, Place
from gradlint.static.report.rewriting import give_way, inputs, is_called
from gradlint.static.text.definition_units import leaves

_DROPPABLE = ("dim", "dtype")


def omit(place: Place, intent: intents.Omit) -> Iterator[Change]:
    """The input of an operation in its place; where a layer is built, it is taken out or no longer called."""
    call = place.call()
    if is_called(place, call, intent.layer):
        yield from _without_layer(place, call)
    elif is_called(place, call, intent.function) or _is_kept(place, call.func, intent.layer):
        yield from _through(place, call)
    else:
        raise CannotError


def _through(place: Place, call: cst.Call) -> Iterator[Change]:
    kept = inputs(call, _DROPPABLE)
    if kept is None or _stands_beside_input(place, call, kept):
        raise CannotError
    yield from give_way(place, call, kept)


def _stands_beside_input(place: Place, call: cst.Call, kept: cst.BaseExpression) -> bool:
    """Whether input and output are both wanted, each under its own name: then it is the output that is misused."""
    parent = place.tree.parent(call)
    if isinstance(parent, (cst.Element, cst.DictElement)) or (isinstance(parent, cst.Arg) and parent.keyword):
        return True
    function = place.enclosing(call, cst.FunctionDef)
    if not isinstance(parent, cst.Assign) or not isinstance(kept, cst.Name) or function is None:
        return False
    rest = place.text((*place.span(parent)[2:], *place.span(function)[2:]))
    named = parent.targets[0].target
    again = isinstance(named, cst.Name) and named.value == kept.value
    return not again and re.search(rf"\b{re.escape(kept.value)}\b", rest) is not None


def _without_layer(place: Place, built: cst.Call) -> Iterator[Change]:
    parent = place.tree.parent(built)
    if isinstance(parent, cst.Call) and parent.func is built:  # called where it is built
        yield from _through(place, parent)
    elif isinstance(parent, cst.Arg):
        yield _without_member(place, parent)
    elif isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        yield from _uncalled(place, parent.targets[0].target)
    else:
        raise CannotError


def _without_member(place: Place, member: cst.Arg) -> Change:
    """A Sequential without its last layer."""
    whole = place.tree.parent(member)
    if not isinstance(whole, cst.Call) or not is_called(place, whole, "Sequential"):
        raise CannotError
    if whole.args[-1] is not member or len(whole.args) < 2 or member.keyword is not None or member.star:
        raise CannotError
    start, before = place.outer(member.value)[:2], whole.args[-2]
    comma = isinstance(member.comma, cst.Comma)
    end = place.span(member.comma)[2:] if comma else place.outer(member.value)[2:]  # type: ignore[arg-type]
    rows = place.source.rows
    if not rows[start[0] - 1][: start[1] - 1].strip() and not rows[end[0] - 1][end[1] - 1 :].strip():
        return place.removed((start[0] - 1, len(rows[start[0] - 2]) + 1), end)  # rows of its own
    # the comma that may follow the last layer then follows the one before it
    kept = place.span(before.comma)[2:] if comma else place.outer(before.value)[2:]  # type: ignore[arg-type]
    return place.removed(kept, end)


def _uncalled(place: Place, target: cst.BaseExpression) -> Iterator[Change]:
    """The calls of a layer that is kept under a name give way to their inputs; it must be used in no other way."""
    found = False
    for here, mention in _mentions(place, target):
        if mention is target:
            continue
        call = here.tree.parent(mention)
        if not isinstance(call, cst.Call) or call.func is not mention:
            raise CannotError
        yield from _through(here, call)
        found = True
    if not found:
        raise CannotError


def _is_kept(place: Place, function: cst.BaseExpression, layer: str) -> bool:
    """Whether what is called is a layer of this kind, kept under a name that is given once."""
    built = []
    for here, mention in _mentions(place, function):
        assigned = here.tree.parent(here.tree.parent(mention) or mention)
        if isinstance(assigned, cst.Assign) and any(target.target is mention for target in assigned.targets):
            built.append(assigned.value)
    return len(built) == 1 and isinstance(built[0], cst.Call) and is_called(place, built[0], layer)


def _mentions(place: Place, named: cst.BaseExpression) -> Iterator[tuple[Place, cst.BaseExpression]]:
    """Where the file speaks of an attribute by this name, or of a variable by it."""
    attribute = isinstance(named, cst.Attribute)
    if isinstance(named, cst.Attribute):
        name = named.attr.value
    elif isinstance(named, cst.Name):
        name = named.value
    else:
        raise CannotError
    for unit in leaves(place.module.units):
        if name not in unit.words:
            continue
        here = Place(unit.here)
        queue: list[cst.CSTNode] = [unit.node]
        while queue:
            node = queue.pop()
            if isinstance(node, cst.Attribute):
                if attribute and node.attr.value == name:
                    yield here, node
                queue.append(node.value)
            elif isinstance(node, cst.Name) and not attribute and node.value == name:
                yield here, node
            else:
                queue += node.children
