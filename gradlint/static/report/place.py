"""A place in a source text: what plays which role there, and how it is spelled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst

from gradlint.static.text.chains import binds, imports
from gradlint.static.text.counters import lookup_of
from gradlint.static.text.nodes import Span, Tree
from gradlint.static.text.units import NodeSite

N = TypeVar("N", bound=cst.CSTNode)
_ROLE = re.compile(r"(, )?\{([\w. ]+)\}")


class CannotError(Exception):
    """The change cannot be spelled here."""


@dataclass(frozen=True, slots=True)
class Change:
    """The text of a span of the module's text, and what is to stand there instead."""

    span: Span
    content: str


class Place:
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
        if name == "added":
            return self._added(node)
        if name == "changed":
            return self._changed(node)
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
            raise CannotError
        if name == "function":
            return call.func
        if name == "receiver" and isinstance(call.func, cst.Attribute):
            return call.func.value
        if name.startswith("argument "):
            return self._argument(call, name.removeprefix("argument "))
        raise CannotError

    def _argument(self, call: cst.Call, name: str) -> cst.BaseExpression:
        if not name.isdigit():
            named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == name]
            if named:
                return named[0]
            raise CannotError
        given = call.args[: int(name) + 1]
        if len(given) <= int(name) or any(arg.keyword is not None or arg.star for arg in given):
            raise CannotError
        return given[-1].value

    def _added(self, node: cst.CSTNode) -> cst.BaseExpression:
        if isinstance(node, cst.AugAssign):
            return node.value
        assign = self._assignment(node)
        total, target = assign.value, assign.targets[0].target
        if (
            len(assign.targets) == 1
            and isinstance(total, cst.BinaryOperation)
            and isinstance(total.operator, cst.Add)
            and (total.left.deep_equals(target) or lookup_of(target, total.left) is total.left)
        ):
            return total.right
        raise CannotError

    def _changed(self, node: cst.CSTNode) -> cst.BaseExpression:
        data = self.data_of_changed(node)
        if data is not None:
            return data.value
        here = _start_of_change(node)
        if isinstance(here, (cst.Name, cst.Attribute)):
            return here
        raise CannotError

    def data_of_changed(self, node: cst.CSTNode) -> cst.Attribute | None:
        """The ``.data`` through which an assignment or a method changes a tensor; None if it is not through one."""
        here = _start_of_change(node)
        while True:
            if isinstance(here, cst.Attribute):
                return here if here.attr.value == "data" else None
            if isinstance(here, cst.Subscript):
                here = here.value
            elif isinstance(here, cst.Call) and isinstance(here.func, cst.Attribute):
                here = here.func.value
            else:
                return None

    def _assignment(self, node: cst.CSTNode) -> cst.Assign:
        here: cst.CSTNode | None = node
        while here is not None and not isinstance(here, (cst.Assign, cst.BaseStatement)):
            here = self.tree.parent(here)
        if not isinstance(here, cst.Assign):
            raise CannotError
        return here

    def enclosing(self, node: cst.CSTNode, kind: type[N]) -> N | None:
        """The innermost node of a kind that a node stands in."""
        here = self.tree.parent(node)
        while here is not None and not isinstance(here, kind):
            here = self.tree.parent(here)
        return here

    def call(self) -> cst.Call:
        """The call that stands here."""
        if not isinstance(self.node, cst.Call):
            raise CannotError
        return self.node

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement:
        """The statement, alone on its line, that a node stands in."""
        here: cst.CSTNode | None = node
        while here is not None and not isinstance(here, cst.BaseStatement):
            here = self.tree.parent(here)
        if here is None or (isinstance(here, cst.SimpleStatementLine) and len(here.body) != 1):
            raise CannotError
        return here

    # --- spans and text

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node stands, without the parentheses around it."""
        span = self.tree.span(node)
        if span is None:
            raise CannotError
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
            raise CannotError
        rows[-1] = rows[-1][: end_column - 1]
        rows[0] = rows[0][column - 1 :]
        return "\n".join(rows)

    def without_statement(self, node: cst.CSTNode) -> Change | None:
        """Take out a statement with its rows; None if it is not alone there, or its block needs it."""
        line = self.tree.parent(node)
        block = self.tree.parent(line) if line is not None else None
        row, column, end_row, end_column = self.span(node)
        rows = self.source.rows
        alone = not rows[row - 1][: column - 1].strip() and not rows[end_row - 1][end_column - 1 :].strip()
        if not alone or not isinstance(block, cst.IndentedBlock) or len(block.body) < 2:
            return None
        return self.removed((row - 1, len(rows[row - 2]) + 1), (end_row, len(rows[end_row - 1]) + 1))

    def removed(self, start: tuple[int, int], end: tuple[int, int], content: str = "") -> Change:
        """Take out what stands between two positions, unless a comment is among it."""
        span = (*start, *end)
        if "#" in self.text(span):
            raise CannotError
        return Change(span, content)

    def indent(self, span: Span) -> str:
        """What stands before a span on its row of the file: its indentation."""
        row, column = span[:2]
        before = self.source.rows[row - 1][: column - 1]
        if before.strip():
            raise CannotError
        cell = self.source.cell_at(row)
        return before if cell is None else " " * cell.indent + before

    def spelled(self, text: str) -> str:
        """A text with what stands in braces filled in."""

        def filled(match: re.Match[str]) -> str:
            found = self._filled(match[2])
            return (match[1] or "") + found if found else ""

        return _ROLE.sub(filled, text)

    def reads(self, role: str, text: str) -> bool:
        """Whether what plays a role reads like a text."""
        return self.text(self.span(self.role(role))) == self.spelled(text)

    def _filled(self, name: str) -> str:
        role, _, whose = name.partition(" of ")
        if role == "arguments":
            call = self.role(whose) if whose else self.node
            if not isinstance(call, cst.Call):
                raise CannotError
            row, column = self.span(call)[2:]
            start = self.span(call.args[0])[:2] if call.args else (row, column - 1)
            return self.text((*start, row, column - 1))
        if name.split(".")[0] != "torch":
            return self.text(self.outer(self.role(name)))
        for module, spelling in imports(self.source.text).items():
            if (name == module or name.startswith(f"{module}.")) and not self._shadows(spelling):
                return spelling + name.removeprefix(module)
        raise CannotError

    def _shadows(self, name: str) -> bool:
        """Whether the unit gives an imported name a meaning of its own."""
        return not isinstance(self.unit.node, cst.SimpleStatementLine) and binds(self.unit.text, name)

    def stands_behind(self, text: str) -> bool:
        """Whether a text stands before this place in the function."""
        function = self.enclosing(self.node, cst.FunctionDef)
        if not text:
            return True
        return function is not None and text in self.text((*self.span(function)[:2], *self.span(self.node)[:2]))


def _start_of_change(node: cst.CSTNode) -> cst.CSTNode | None:
    """What stands on the left of an assignment, or what a method is called on."""
    if isinstance(node, cst.AugAssign):
        return node.target
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return node.targets[0].target
    return node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
