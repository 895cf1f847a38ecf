"""The values of literals: libcst asks the parser of Python for each, where most can be read off."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import libcst as cst

_PLAIN_FIELDS = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*(?::[^{}\d]*\d{0,2}[^{}\d]*\d{0,2}[a-zA-Z%]?)?\})*")
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


__all__ = ["Literal", "formatted", "value_of"]
