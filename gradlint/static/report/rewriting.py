"""Changes of expressions and statements: what is put around them, what is left out, and what takes their place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gradlint import intents
from gradlint.static.report.place import CannotError, Change, Place
from gradlint.static.text.chains import binds, imports
from gradlint.static.text.definition_units import leaves
from gradlint.static.text.nodes import Span, Tree

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
