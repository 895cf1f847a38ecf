"""Nodes of libcst: parsed from texts that Python accepts, their children, and the values of literals and slices.

Of children and of literals at a tenth of the price of what libcst has for it, which copies each child, and asks the
parser of Python for each literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

import libcst as cst

_LAYOUT = ("whitespace", "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "leading_lines", "lines_after")
_FIELDS: dict[type, tuple[str, ...]] = {}


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes that a node is made of, without whitespace and parentheses."""
    kind = type(node)
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(f.name for f in fields(kind) if not f.name.startswith(_LAYOUT))
    for name in names:
        value = getattr(node, name)
        if type(value) is tuple or type(value) is list:
            yield from value
        elif hasattr(value, "with_changes"):
            yield value


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
        if isinstance(here, cst.Name):
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
