"""The values of literals: libcst asks the parser of Python for each, where most can be read off."""

from __future__ import annotations

from typing import Any

import libcst as cst

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


__all__ = ["Literal", "value_of"]
