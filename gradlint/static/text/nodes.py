"""Nodes of libcst: parsed from texts that Python accepts, their children, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from types import TracebackType
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState  # libcst.metadata offers the same, at 0.4 s for the import

_LAYOUT = (
    *("whitespace", "leading_", "trailing_", "lines_after", "empty_lines", "header", "footer", "indent", "newline"),
    *("lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace"),
    *("comma", "semicolon", "colon", "first_colon", "second_colon", "dot", "equal", "separator"),
)
_FIELDS: dict[type, tuple[str, ...]] = {}


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes that a node is made of, without whitespace, parentheses and punctuation."""
    kind = type(node)
    names = _FIELDS.get(kind)
    if names is None:
        others = (each for each in fields(kind) if not each.name.startswith(_LAYOUT))
        names = _FIELDS[kind] = tuple(each.name for each in others if each.type is not str)
    found: list[cst.CSTNode] = []
    for name in names:
        value = getattr(node, name)
        if type(value) is tuple or type(value) is list:
            found += value
        elif value is not None and hasattr(value, "with_changes"):
            found.append(value)
    return found


def dotted(node: cst.CSTNode | None) -> str:
    """How a variable, or an attribute of one, is spelled: ``a.b.c``; empty for anything else."""
    if type(node) is cst.Attribute:
        owner = dotted(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return node.value if type(node) is cst.Name else ""


def names_in(node: cst.CSTNode) -> Iterator[str]:
    """The names that stand in an expression, those of attributes included."""
    queue = [node]
    while queue:
        here = queue.pop()
        if type(here) is cst.Name:
            yield here.value
        queue += children(here)


_TABBED = re.compile(
    r"(?:#[^\n]*"
    r"|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}"
    r"|\"(?:\\.|[^\\\n\"])*\"|'(?:\\.|[^\\\n'])*')"
    r"|^([ \f]*\t[ \t\f]*)",
    re.DOTALL | re.MULTILINE,
)


_ITEM = r"(?:[+-]?\d[\w.+-]*+|'[^'\\\n]*+'|\"[^\"\\\n]*+\")\s*+,\s*+"
_KEPT, _MANY = 256, 2_000  #: items of a long list that are parsed, and from how many on it is long
_ITEMS = re.compile(f"((?:{_ITEM}){{{_KEPT}}})((?:{_ITEM}){{{_MANY - _KEPT},}})")
_OTHERS = "*...,"  #: in the place of those that are not


def parse_module(text: str) -> cst.Module:
    """The tree of a text, in which each tab of an indentation is a space if libcst rejects it otherwise.

    Of two rows Python tells that one is indented deeper only where it is with tabs of any width, of one column, too;
    to libcst it has to begin with the indentation of the other.

    Of the constants in a long list, for each of which libcst takes as long as for a statement, only the first are in
    the tree, and any number of others; all else stands where it stood.

    Raises:
        ParserSyntaxError: libcst rejects it all the same.
    """
    if len(text) > 2 * _MANY:
        shorter = _ITEMS.sub(_shortened, text)
        if shorter != text:
            with suppress(cst.ParserSyntaxError):
                return cst.parse_module(shorter)
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError:
        evened = _TABBED.sub(_evened, text) if "\t" in text else text
        if evened == text:
            raise
        return cst.parse_module(evened)


def _shortened(match: re.Match[str]) -> str:
    """The first items, and as much space as the others take."""
    mark = iter(_OTHERS)
    return match[1] + "".join(each if each in "\r\n" else next(mark, " ") for each in match[2])


def _evened(match: re.Match[str]) -> str:
    return match[0] if match[1] is None else match[1].replace("\t", " ")


_PLAIN_FIELDS = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*(?::[^{}\d]*+(?:\d{1,2}[^{}\d]*+(?:\d{1,2}[a-zA-Z%]?)?)?)?\})*")
Literal = cst.Integer | cst.Float | cst.Imaginary | cst.SimpleString


def value_of(node: Literal) -> Any:
    """The value of a literal.

    Raises:
        ValueError: it has none, such as an integer with more digits than Python converts.
        SyntaxError: it has none, such as a string with an escape that is not complete.
    """
    text = node.value
    if type(node) is cst.Integer:
        return int(text, 0)
    if type(node) is cst.Float:
        return float(text)
    if type(node) is cst.SimpleString and text[0] in "\"'" and "\\" not in text:
        quote = 3 if text[:3] in ('"""', "'''") else 1
        return text[quote:-quote].replace("\r\n", "\n").replace("\r", "\n")
    return node.evaluated_value


def formatted(text: str, values: Sequence[object], named: Mapping[str, object]) -> str | None:
    """``text.format(*values, **named)``, where its fields are plain: names or numbers, and a short format."""
    if not _PLAIN_FIELDS.fullmatch(text):
        return None
    try:
        return text.format(*values, **named)
    except (IndexError, KeyError, TypeError, ValueError):
        return None


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


Span = tuple[int, int, int, int]  #: row, column, end row, end column; from 1, the end column exclusive


class Tree:
    """A piece of a file that libcst has parsed by itself.

    Args:
        root: what it was parsed to.
        offset: what is to be added to the rows of ``root`` to have those of the file.
    """

    __slots__ = ("__weakref__", "_parents", "_spans", "offset", "root", "units")

    def __init__(self, root: cst.Module, offset: int = 0) -> None:
        self.root = root
        self.offset = offset
        self.units: dict[int, object] = {}  #: by the identity of the node that defines them
        self._spans: dict[int, Span] | None = None
        self._parents: dict[int, cst.CSTNode] = {}

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that ``node`` is a child of; None for the root, whitespace, and what does not stand in this tree."""
        if not self._parents:
            queue: list[cst.CSTNode] = [self.root]
            while queue:
                each = queue.pop()
                for child in children(each):
                    self._parents.setdefault(id(child), each)
                    queue.append(child)
        return self._parents.get(id(node))

    def span(self, node: cst.CSTNode) -> Span | None:
        """Where ``node`` stands in the file; None if it does not stand in this tree, or is nested too deeply."""
        if self._spans is None:
            recorder = _Recorder(self.root)
            try:
                self.root._codegen(recorder)  # noqa: SLF001 -- what libcst's own PositionProvider calls
            except RecursionError:
                recorder.spans = {}
            self._spans = recorder.spans
        span = self._spans.get(id(node))
        if span is None:
            return None
        row, column, end_row, end_column = span
        return row + self.offset, column + 1, end_row + self.offset, end_column + 1


class _Recorder(CodegenState):
    """Follows the position while libcst writes a tree, and keeps where each node begins and ends.

    A node's syntactic position, which libcst announces where it differs, excludes the whitespace it owns.
    """

    def __init__(self, root: cst.Module) -> None:
        super().__init__(root.default_indent, root.default_newline)
        self.row = 1
        self.column = 0
        self.spans: dict[int, Span] = {}
        self._begun: list[tuple[int, int]] = []

    def add_token(self, value: str) -> None:
        newlines = value.count("\n")
        if newlines:
            self.row += newlines
            self.column = len(value) - value.rfind("\n") - 1
        else:
            self.column += len(value)

    def add_indent_tokens(self) -> None:
        for indent in self.indent_tokens:
            self.column += len(indent)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._begun.append((self.row, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        begun = self._begun.pop()
        if id(node) not in self.spans:
            self.spans[id(node)] = (*begun, self.row, self.column)

    def pop_trailing_newline(self) -> None:
        """Nothing stands after the last newline, and no text is kept that it could be taken from."""

    def record_syntactic_position(  # type: ignore[override]  # a context manager, if not one made of a generator
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Syntactic:
        return _Syntactic(self, node, start_node, end_node)


class _Syntactic:
    __slots__ = ("begun", "end_node", "node", "recorder", "start_node")

    def __init__(
        self, recorder: _Recorder, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self.recorder, self.node, self.start_node, self.end_node = recorder, node, start_node, end_node

    def __enter__(self) -> None:
        self.begun = (self.recorder.row, self.recorder.column)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        recorder, spans = self.recorder, self.recorder.spans
        begun = self.begun if self.start_node is None else spans[id(self.start_node)][:2]
        ended = (recorder.row, recorder.column) if self.end_node is None else spans[id(self.end_node)][2:]
        spans[id(self.node)] = (*begun, *ended)


__all__ = [
    "WHOLE",
    "Bound",
    "Literal",
    "Place",
    "Span",
    "Tree",
    "children",
    "dotted",
    "formatted",
    "names_in",
    "parse_module",
    "place_of",
    "value_of",
]
