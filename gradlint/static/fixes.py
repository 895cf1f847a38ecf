"""Fixes: the intents of a rule as edits of the source text.

Whatever cannot be spelled, would lose a comment, or stands where the text is not Python's own gives no fix.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import libcst as cst

from gradlint import intents
from gradlint.finding import Applicability, Edit, Fix
from gradlint.rule import Violation
from gradlint.source import Source, SourceError
from gradlint.static.positions import Span, Tree
from gradlint.static.units import NodeSite
from gradlint.syntax import TextError, parse

_ROLE = re.compile(r"\{([\w. ]+)\}")
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.SimpleString)
#: where an expression can stand without parentheses whatever it is, as long as it stands on one row
_OPEN = (cst.Arg, cst.Assign, cst.AnnAssign, cst.Return, cst.Expr, cst.Element)


class _CannotError(Exception):
    """The change cannot be spelled here."""


@dataclass(frozen=True, slots=True)
class _Change:
    """The text of a span of the module's text, and what is to stand there instead."""

    span: Span
    content: str


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
    except (_CannotError, SourceError):
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
                raise _CannotError


def _realised(intent: intents.Intent, at: NodeSite) -> Iterator[_Change]:
    site = intent.at or at
    if not isinstance(site, NodeSite) or site.unit.module is not at.unit.module:
        raise _CannotError
    place = _Place(site)
    yield from _REALISERS[type(intent)](place, intent)


class _Place:
    """A node with its tree, and the text around it."""

    def __init__(self, site: NodeSite) -> None:
        self.site = site
        self.node = site.node
        self.unit = site.unit
        self.module = site.unit.module
        self.tree: Tree = site.unit.tree
        self.source = self.module.source

    # --- nodes

    def role(self, name: str) -> cst.CSTNode:
        """The node that plays a role here."""
        node = self.node
        for each in reversed(name.split(" of ")):
            node = self._role(each, node)
        return node

    def _role(self, name: str, node: cst.CSTNode) -> cst.CSTNode:
        if name == "node":
            return node
        if name == "statement":
            statement = self.statement(node)
            return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
        if name == "added" and isinstance(node, cst.AugAssign):
            return node.value
        if name == "target":
            targets = self._assignment(node).targets
            if len(targets) == 1:
                return targets[0].target
        if name == "value":
            return self._assignment(node).value
        if name == "receiver" and isinstance(node, (cst.Attribute, cst.Subscript)):
            return node.value
        call = node
        if not isinstance(call, cst.Call):
            raise _CannotError
        if name == "function":
            return call.func
        if name == "receiver" and isinstance(call.func, cst.Attribute):
            return call.func.value
        if name.startswith("argument "):
            position = int(name.removeprefix("argument "))
            given = call.args[: position + 1]
            if len(given) == position + 1 and all(arg.keyword is None and not arg.star for arg in given):
                return given[-1].value
        raise _CannotError

    def _assignment(self, node: cst.CSTNode) -> cst.Assign:
        here: cst.CSTNode | None = node
        while here is not None and not isinstance(here, (cst.Assign, cst.BaseStatement)):
            here = self.tree.parent(here)
        if not isinstance(here, cst.Assign):
            raise _CannotError
        return here

    def call(self) -> cst.Call:
        """The call that stands here."""
        if not isinstance(self.node, cst.Call):
            raise _CannotError
        return self.node

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement:
        """The statement, alone on its line, that a node stands in."""
        here: cst.CSTNode | None = node
        while here is not None and not isinstance(here, cst.BaseStatement):
            here = self.tree.parent(here)
        if here is None or (isinstance(here, cst.SimpleStatementLine) and len(here.body) != 1):
            raise _CannotError
        return here

    # --- spans and text

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node stands, without the parentheses around it."""
        span = self.tree.span(node)
        if span is None:
            raise _CannotError
        return span

    def outer(self, node: cst.CSTNode) -> Span:
        """Where a node stands, with the parentheses around it."""
        span = self.span(node)
        left: Sequence[cst.LeftParen] = getattr(node, "lpar", ())
        right: Sequence[cst.RightParen] = getattr(node, "rpar", ())
        if left and right:
            return (*self.span(left[0])[:2], *self.span(right[-1])[2:])
        return span

    def text(self, span: Span) -> str:
        """The text of a span."""
        row, column, end_row, end_column = span
        rows = list(self.source.rows[row - 1 : end_row])
        if not rows:
            raise _CannotError
        rows[-1] = rows[-1][: end_column - 1]
        rows[0] = rows[0][column - 1 :]
        return "\n".join(rows)

    def removed(self, start: tuple[int, int], end: tuple[int, int], content: str = "") -> _Change:
        """Take out what stands between two positions, unless a comment is among it."""
        span = (*start, *end)
        if "#" in self.text(span):
            raise _CannotError
        return _Change(span, content)

    def indent(self, span: Span) -> str:
        """What stands before a span on its row of the file: its indentation."""
        row, column = span[:2]
        before = self.source.rows[row - 1][: column - 1]
        if before.strip():
            raise _CannotError
        cell = self.source.cell_at(row)
        return before if cell is None else " " * cell.indent + before

    def spelled(self, text: str) -> str:
        """A text with what stands in braces filled in."""
        return _ROLE.sub(lambda match: self._filled(match[1]), text)

    def reads(self, role: str, text: str) -> bool:
        """Whether what plays a role reads like a text."""
        return self.text(self.span(self.role(role))) == self.spelled(text)

    def _filled(self, name: str) -> str:
        if name == "arguments":
            call = self.call()
            row, column = self.span(call)[2:]
            start = self.span(call.args[0])[:2] if call.args else (row, column - 1)
            return self.text((*start, row, column - 1))
        if name.split(".")[0] != "torch":
            return self.text(self.outer(self.role(name)))
        for module, spelling in _imports(self.source.text).items():
            if (name == module or name.startswith(f"{module}.")) and not self.binds(spelling):
                return spelling + name.removeprefix(module)
        raise _CannotError

    def binds(self, name: str) -> bool:
        """Whether the unit gives ``name`` a meaning of its own."""
        if isinstance(self.unit.node, cst.SimpleStatementLine):
            return False
        assigned = rf"(?:^|[^\w.]){name}\b\s*(?:=[^=]|,[^()]*=[^=]|:\s*\w)"
        parameter = rf"\bdef\b[^)]*[(,]\s*\*{{0,2}}{name}\b"
        bound = rf"\b(?:for|as|import)\s+{name}\b"
        return re.search(f"{assigned}|{parameter}|{bound}", self.unit.text) is not None


@lru_cache(maxsize=8)
def _imports(text: str) -> Mapping[str, str]:
    """How a file spells the modules it imports in its body, the shortest path first: torch.nn before torch."""
    found: dict[str, str] = {}
    try:
        tree = parse(text)
    except TextError:
        return found
    lost = {
        target.id
        for statement in tree.body
        for target in ast.walk(statement)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname is not None:
                    found.setdefault(alias.name, alias.asname)
                else:
                    top = alias.name.split(".")[0]
                    found.setdefault(top, top)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                found.setdefault(f"{statement.module}.{alias.name}", alias.asname or alias.name)
    kept = {module: name for module, name in found.items() if name not in lost}
    return dict(sorted(kept.items(), key=lambda item: -item[0].count(".")))


# --- one realisation for each kind of intent


def _append(place: _Place, intent: intents.Append) -> Iterator[_Change]:
    if intent.method:
        function = place.role("function")
        if not isinstance(function, cst.Attribute) or function.attr.value != intent.method:
            raise _CannotError
    node = place.role(intent.role)
    row, column, end_row, end_column = place.outer(node)
    text = place.spelled(intent.text)
    atomic = isinstance(node, _ATOMS) or bool(getattr(node, "lpar", ()))
    if not isinstance(node, cst.BaseExpression) or isinstance(node, cst.GeneratorExp):
        raise _CannotError
    if not atomic:
        yield _Change((row, column, row, column), "(")
        text = f"){text}"
    yield _Change((end_row, end_column, end_row, end_column), text)


def _replace(place: _Place, intent: intents.Replace) -> Iterator[_Change]:
    node = place.role(intent.role)
    span = place.span(node)
    written = place.spelled(intent.text)
    if not place.reads(intent.role, intent.when):
        raise _CannotError
    if isinstance(node, cst.BaseExpression) and _is_target(node, place.tree):
        raise _CannotError
    yield from _narrowed(place, span, written)


def _narrowed(place: _Place, span: Span, written: str) -> Iterator[_Change]:
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


def _rename(place: _Place, intent: intents.Rename) -> Iterator[_Change]:
    function = place.role("function")
    if not isinstance(function, cst.Attribute) or function.attr.value != intent.old:
        raise _CannotError
    yield _Change(place.span(function.attr), intent.new)


def _set_argument(place: _Place, intent: intents.SetArgument) -> Iterator[_Change]:
    call = place.call()
    text = place.spelled(intent.text)
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == intent.name:
            yield _Change(place.outer(arg.value), text)
            return
        if isinstance(arg.value, cst.GeneratorExp) or arg.star == "**":
            raise _CannotError
    if call.args:
        end = place.outer(call.args[-1].value)[2:]
        yield _Change((*end, *end), f", {intent.name}={text}")
    else:
        row, column = place.span(call)[2:]
        yield _Change((row, column - 1, row, column - 1), f"{intent.name}={text}")


def _drop_argument(place: _Place, intent: intents.DropArgument) -> Iterator[_Change]:
    args = place.call().args
    index = next((i for i, arg in enumerate(args) if arg.keyword and arg.keyword.value == intent.name), None)
    if index is None:
        raise _CannotError
    arg = args[index]
    begin, end = place.span(arg)[:2], place.outer(arg.value)[2:]
    if index:
        begin = place.outer(args[index - 1].value)[2:]
    elif len(args) > 1:
        end = place.span(args[1])[:2]
    elif isinstance(arg.comma, cst.Comma):
        end = place.span(arg.comma)[2:]
    yield place.removed(begin, end)


def _drop_arguments(place: _Place, _intent: intents.DropArguments) -> Iterator[_Change]:
    call = place.call()
    row, column = place.span(call)[2:]
    if call.args:
        yield place.removed(place.span(call.args[0])[:2], (row, column - 1))


def _unwrap(place: _Place, intent: intents.Unwrap) -> Iterator[_Change]:
    call = place.call()
    inner = _input(call, intent.keeps)
    if intent.name and not _is_called(place, call, intent.name):
        raise _CannotError
    if inner is None or (intent.inner is not None and getattr(intent.inner, "node", None) is not inner):
        raise _CannotError
    if intent.only_for is not None and not _feeds_only(place, call, intent.only_for):
        raise _CannotError
    whole, kept = place.span(call), place.outer(inner)
    parent = place.tree.parent(call)
    atomic = isinstance(inner, _ATOMS) or bool(getattr(inner, "lpar", ()))
    bare = atomic or (isinstance(parent, _OPEN) and kept[0] == kept[2])
    yield place.removed(whole[:2], kept[:2], "" if bare else "(")
    yield place.removed(kept[2:], whole[2:], "" if bare else ")")


def _is_called(place: _Place, call: cst.Call, name: str) -> bool:
    function = call.func
    if isinstance(function, cst.Attribute):
        return function.attr.value == name
    if not isinstance(function, cst.Name):
        return False
    imported = (path for path, spelling in _imports(place.source.text).items() if spelling == function.value)
    return any(path.rpartition(".")[2] == name for path in imported) or function.value == name


def _input(call: cst.Call, droppable: Sequence[str]) -> cst.BaseExpression | None:
    """What a call is given, if all its other arguments may be dropped."""
    inputs = [arg.value for arg in call.args if not arg.star and (arg.keyword is None or arg.keyword.value == "input")]
    others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - {"input"}
    if any(arg.star for arg in call.args) or not others <= set(droppable):
        return None
    positional = [arg for arg in call.args if arg.keyword is None]
    if "dim" in droppable and len(positional) == len(inputs) and inputs and _is_number(inputs[-1]):
        inputs.pop()  # the dimension, by position
    if inputs:
        return inputs[0] if len(inputs) == 1 else None
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def _is_number(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) or (
        isinstance(node, cst.UnaryOperation) and isinstance(node.expression, cst.Integer)
    )


def _feeds_only(place: _Place, call: cst.Call, user: object) -> bool:
    """Whether the value of a call goes into another one and nowhere else, be it by a variable."""
    if not isinstance(user, NodeSite) or user.unit.module is not place.module or not isinstance(user.node, cst.Call):
        return False
    if any(arg.value is call for arg in user.node.args):
        return True
    assign = place.tree.parent(call)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return False
    name = assign.targets[0].target
    if not isinstance(name, cst.Name):
        return False
    if not any(isinstance(arg.value, cst.Name) and arg.value.value == name.value for arg in user.node.args):
        return False
    text = place.unit.text if isinstance(place.unit.node, cst.FunctionDef) else place.source.text
    return len(re.findall(rf"\b{re.escape(name.value)}\b", text)) == 2


def _insert_before(place: _Place, intent: intents.InsertBefore) -> Iterator[_Change]:
    statement = place.statement(place.node)
    text = place.spelled(intent.text) if intent.beside is None else _beside(place, statement, intent)
    yield _line_before(place, statement, text)


def _line_before(place: _Place, node: cst.CSTNode, text: str) -> _Change:
    """A new line before a statement, its decorators included."""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:
        node = node.decorators[0]
    span = place.span(node)
    indent = place.indent(span)
    row, column = span[:2]
    return _Change((row, column, row, column), f"{text}\n{indent}")


def _beside(place: _Place, statement: cst.BaseStatement, intent: intents.InsertBefore) -> str:
    """The text, spelled for a place in the same block (in a notebook, in the same cell)."""
    site = intent.beside
    if not isinstance(site, NodeSite) or site.unit.module is not place.module:
        raise _CannotError
    other = _Place(site)
    beside = other.statement(site.node)
    if site.unit is place.unit:
        block = place.tree.parent(statement)
        together = block is not None and block is place.tree.parent(beside)
    else:  # statements of the same body that are units of their own
        whole = place.unit.node is statement and site.unit.node is beside
        together = whole and place.unit.parent is site.unit.parent
    receiver = other.text(other.outer(other.role("receiver")))
    cells = {place.source.cell_at(unit.row) for unit in (place.unit, site.unit)}
    if not together or len(cells) > 1 or "(" in receiver or not other.reads("node", intent.when):
        raise _CannotError
    return other.spelled(intent.text)


def _insert_first(place: _Place, intent: intents.InsertFirst) -> Iterator[_Change]:
    here: cst.CSTNode | None = place.node
    while here is not None and not isinstance(here, cst.FunctionDef):
        here = place.tree.parent(here)
    if here is None or here.name.value != intent.function or not isinstance(here.body, cst.IndentedBlock):
        raise _CannotError
    if any(text in place.text(place.span(here)) for text in intent.without):
        raise _CannotError
    body = here.body.body
    first = body[1] if len(body) > 1 and here.get_docstring(clean=False) is not None else body[0]
    yield _line_before(place, first, place.spelled(intent.text))


def _decorate(place: _Place, intent: intents.Decorate) -> Iterator[_Change]:
    function = place.unit.node
    if not isinstance(function, cst.FunctionDef) or any(text in place.unit.text for text in intent.without):
        raise _CannotError
    span = place.span(function)
    yield _Change((*span[:2], *span[:2]), f"{place.spelled(intent.text)}\n{place.indent(span)}")


def _wrap_statement(place: _Place, intent: intents.WrapStatement) -> Iterator[_Change]:
    statement = place.statement(place.node)
    if not isinstance(statement, cst.SimpleStatementLine):
        raise _CannotError
    span = place.span(statement.body[0])
    text = place.text(span)
    if '"""' in text or "'''" in text or "\\\n" in text:
        raise _CannotError
    indent = place.indent(span)
    step = "\t" if "\t" in indent else "    "
    yield _Change((*span[:2], *span[:2]), f"{place.spelled(intent.header)}\n{indent}{step}")
    for row in range(span[0] + 1, span[2] + 1):
        if place.source.rows[row - 1].strip():
            yield _Change((row, 1, row, 1), step)


_REALISERS: Mapping[type[intents.Intent], Callable[[_Place, Any], Iterator[_Change]]] = {
    intents.Append: _append,
    intents.Replace: _replace,
    intents.Rename: _rename,
    intents.SetArgument: _set_argument,
    intents.DropArgument: _drop_argument,
    intents.DropArguments: _drop_arguments,
    intents.Unwrap: _unwrap,
    intents.InsertBefore: _insert_before,
    intents.InsertFirst: _insert_first,
    intents.Decorate: _decorate,
    intents.WrapStatement: _wrap_statement,
}
