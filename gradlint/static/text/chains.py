"""Chains of names, as ``self.fc.weight`` is one, read off a text without parsing it.

Comments and strings hold none, but for what f-strings put in braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_STRING = r"'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
_CHAIN = re.compile(
    rf"((?:super\([^()]*\)\s*)?(?:\.\s*)?(?<!\w)[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*(?!\w|[\"']))(\s*\()?"
    rf"|(\b(?:[fFtT][rR]?|[rR][fFtT])(?:{_STRING}))|(?<!\w)[rRbBuU]{{0,2}}(?:{_STRING})|#[^\n]*",
    re.DOTALL,
)
_BOUND = re.compile(
    r"(?m)^[ \t]*(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)(\w+)"
    r"|^[ \t]*+((?:[\w,()*]|[ \t]++(?=[\w,()*]))++)[ \t]*+(?::[^=\n]++)?=(?!=)"
)
_LOOP = re.compile(r"\b(?:for|as)[ \t]++((?:(?!(?:as|for|in)\b)\w++|[()*]|[ \t]++(?=[\w()*]))++)[ \t]*+(?:in\b|:|,)")
_WORD = re.compile(r"[^\W\d]\w*")
_BRACES = re.compile(r"\{([^{}]+)\}")
_SPACE = re.compile(r"\s+|\([^()]*\)")  # behind super, too


class Chain(NamedTuple):
    """A chain as it stands in a text."""

    parts: tuple[str, ...]  #: its names; the first is empty where something else stands before the first dot
    called: bool

    def resolved(self, imports: Mapping[str, str]) -> str | None:
        """The dotted name it means, by what the names of a file were imported as; None if it begins otherwise."""
        first = imports.get(self.parts[0])
        return None if first is None else ".".join((first, *self.parts[1:]))


def chains_in(text: str) -> tuple[Chain, ...]:
    """The chains of a text, each once, in the order in which they first stand there."""
    found: dict[Chain, None] = {}
    for chain, called, f_string in dict.fromkeys(_CHAIN.findall(text)):
        if chain:
            plain = chain if chain.isidentifier() else _SPACE.sub("", chain)
            found[Chain(tuple(plain.split(".")), bool(called))] = None
        elif f_string:
            for part in _BRACES.findall(f_string):
                found.update(dict.fromkeys(chains_in(part)))
    return tuple(found)


def words_in(text: str) -> list[str]:
    """The identifiers in a text, those in comments and strings too, in order."""
    return _WORD.findall(text)


def assigned_in(text: str) -> set[str]:
    """The names that a statement may bind."""
    bound = {word for groups in _BOUND.findall(text) for group in groups for word in words_in(group)}
    bound.update(word for group in _LOOP.findall(text) for word in words_in(group))
    return bound
