"""Changes of expressions: calls, their arguments, and what stands around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gradlint import intents
from gradlint.static.report.place import CannotError, Change, Place
from gradlint.static.text.positions import Span, Tree
from gradlint.static.text.spelling import binds, imports

_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.SimpleString)
#: where an expression can stand without parentheses whatever it is, as long as it stands on one row
_OPEN = (cst.Arg, cst.Assign, cst.AnnAssign, cst.Return, cst.Expr, cst.Element)


def append(place: Place, intent: intents.Append) -> Iterator[Change]:
    """Text behind an expression."""
    if intent.method:
        function = place.role("function")
        if not isinstance(function, cst.Attribute) or function.attr.value != intent.method:
            raise CannotError
    node = place.role(intent.role)
    row, column, end_row, end_column = place.outer(node)
    text = place.spelled(intent.text)
    atomic = isinstance(node, _ATOMS) or bool(getattr(node, "lpar", ()))
    if not isinstance(node, cst.BaseExpression) or isinstance(node, cst.GeneratorExp):
        raise CannotError
    if not atomic:
        yield Change((row, column, row, column), "(")
        text = f"){text}"
    yield Change((end_row, end_column, end_row, end_column), text)


def replace(place: Place, intent: intents.Replace) -> Iterator[Change]:
    """Text in the place of an expression or statement."""
    node = place.role(intent.role)
    span = place.span(node)
    written = place.spelled(intent.text)
    if not place.reads(intent.role, intent.when) or not place.stands_behind(intent.behind):
        raise CannotError
    if isinstance(node, cst.BaseExpression) and _is_target(node, place.tree):
        raise CannotError
    yield from _narrowed(place, span, written)


def _narrowed(place: Place, span: Span, written: str) -> Iterator[Change]:
    """The smallest change that writes this text."""
    text = place.text(span)
    ahead = 0
    while ahead < min(len(text), len(written)) and text[ahead] == written[ahead]:
        ahead += 1
    behind = 0
    while behind < min(len(text), len(written)) - ahead and text[-1 - behind] == written[-1 - behind]:
        behind += 1
    start = _moved(span[:2], text[:ahead])
    end = _moved(span[:2], text[: len(text) - behind])
    yield place.removed(start, end, written[ahead : len(written) - behind])


def _moved(start: tuple[int, int], text: str) -> tuple[int, int]:
    rows = text.count("\n")
    return (start[0] + rows, len(text) - text.rfind("\n")) if rows else (start[0], start[1] + len(text))


def _is_target(node: cst.BaseExpression, tree: Tree) -> bool:
    parent = tree.parent(node)
    if isinstance(parent, (cst.AugAssign, cst.AnnAssign)):
        return parent.target is node
    return isinstance(parent, (cst.AssignTarget, cst.Del, cst.For, cst.CompFor, cst.NamedExpr)) or (
        isinstance(parent, cst.Element) and isinstance(tree.parent(tree.parent(parent) or parent), cst.Assign)
    )


def rename(place: Place, intent: intents.Rename) -> Iterator[Change]:
    """Another name of a method."""
    function = place.role("function")
    if not isinstance(function, cst.Attribute) or function.attr.value != intent.old:
        raise CannotError
    yield Change(place.span(function.attr), intent.new)


def set_argument(place: Place, intent: intents.SetArgument) -> Iterator[Change]:
    """A keyword argument, new or in the place of the one that is there."""
    call = place.call()
    text = place.spelled(intent.text)
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == intent.name:
            yield Change(place.outer(arg.value), text)
            return
        if isinstance(arg.value, cst.GeneratorExp) or arg.star == "**":
            raise CannotError
    if call.args:
        end = place.outer(call.args[-1].value)[2:]
        yield Change((*end, *end), f", {intent.name}={text}")
    else:
        row, column = place.span(call)[2:]
        yield Change((row, column - 1, row, column - 1), f"{intent.name}={text}")


def drop_argument(place: Place, intent: intents.DropArgument) -> Iterator[Change]:
    """A call without one of its keyword arguments."""
    args = place.call().args
    index = next((i for i, arg in enumerate(args) if arg.keyword and arg.keyword.value == intent.name), None)
    if index is None:
        raise CannotError
    arg = args[index]
    begin, end = place.span(arg)[:2], place.outer(arg.value)[2:]
    if index:
        begin = place.outer(args[index - 1].value)[2:]
    elif len(args) > 1:
        end = place.span(args[1])[:2]
    elif isinstance(arg.comma, cst.Comma):
        end = place.span(arg.comma)[2:]
    yield place.removed(begin, end)


def drop_arguments(place: Place, _intent: intents.DropArguments) -> Iterator[Change]:
    """A call without its arguments."""
    call = place.call()
    row, column = place.span(call)[2:]
    if call.args:
        yield place.removed(place.span(call.args[0])[:2], (row, column - 1))


def unwrap(place: Place, intent: intents.Unwrap) -> Iterator[Change]:
    """The input of a call in the place of the call."""
    call = place.call()
    given = inputs(call)
    if (intent.name and not is_called(place, call, intent.name)) or given is None:
        raise CannotError
    if intent.inner is not None and getattr(intent.inner, "node", None) is not given:
        raise CannotError
    idle = _idle_assignment(place, call, intent.name)
    yield from [idle] if idle is not None else give_way(place, call, given)


def _idle_assignment(place: Place, call: cst.Call, name: str) -> Change | None:
    """Leave out an assignment that would only say ``x = x``, or ``x, y = x, y``, without the calls of ``name``."""
    assign = place.enclosing(call, cst.Assign)
    if not name or assign is None or len(assign.targets) != 1:
        return None
    for target, value in zip(_parts(assign.targets[0].target), _parts(assign.value), strict=False):
        plain: cst.BaseExpression | None = value
        if isinstance(value, cst.Call):
            plain = inputs(value) if is_called(place, value, name) else None
        if plain is None or not plain.deep_equals(target):
            return None
    if len(_parts(assign.targets[0].target)) != len(_parts(assign.value)):
        return None
    return place.without_statement(assign)


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [element.value for element in node.elements] if isinstance(node, cst.Tuple) else [node]


def give_way(place: Place, call: cst.Call, kept: cst.BaseExpression) -> Iterator[Change]:
    """Put an expression that is part of a call in the place of the call."""
    whole, inner = place.span(call), place.outer(kept)
    parent = place.tree.parent(call)
    atomic = isinstance(kept, _ATOMS) or bool(getattr(kept, "lpar", ()))
    bare = atomic or (isinstance(parent, _OPEN) and inner[0] == inner[2])
    yield place.removed(whole[:2], inner[:2], "" if bare else "(")
    yield place.removed(inner[2:], whole[2:], "" if bare else ")")


def is_called(place: Place, call: cst.Call, name: str) -> bool:
    """Whether what is called has this name, be it under another that the file imports it by."""
    function = call.func
    if isinstance(function, cst.Attribute):
        return function.attr.value == name
    if not isinstance(function, cst.Name):
        return False
    imported = (path for path, spelling in imports(place.source.text).items() if spelling == function.value)
    return any(path.rpartition(".")[2] == name for path in imported) or function.value == name


def inputs(call: cst.Call, droppable: Sequence[str] = ()) -> cst.BaseExpression | None:
    """What a call is given, or called on; None if it has further arguments, apart from those that may be dropped."""
    if any(arg.star for arg in call.args):
        return None
    given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "input"]
    others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - {"input"}
    positional = [arg for arg in call.args if arg.keyword is None]
    if not others <= set(droppable):
        return None
    if "dim" in droppable and len(positional) == len(given) and given and _is_number(given[-1]):
        given.pop()  # the dimension, by position
    if given:
        return given[0] if len(given) == 1 else None
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def _is_number(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) or (
        isinstance(node, cst.UnaryOperation) and isinstance(node.expression, cst.Integer)
    )


def assign_back(place: Place, _intent: intents.AssignBack) -> Iterator[Change]:
    """The result of a method assigned to what it is called on."""
    call = place.node.value if isinstance(place.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        raise CannotError
    owner = receiver = call.func.value
    while isinstance(owner, cst.Attribute):
        owner = owner.value
    if not isinstance(owner, cst.Name):
        raise CannotError
    function = place.enclosing(place.node, cst.FunctionDef)
    if receiver is owner and function is not None and not binds(place.text(place.span(function)), owner.value):
        raise CannotError  # a variable of an outer scope
    start = place.span(place.node)[:2]
    yield Change((*start, *start), f"{place.text(place.span(receiver))} = ")
