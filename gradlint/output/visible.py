"""Text of others as it may be shown: nothing in it moves a cursor, dresses what follows or begins a line of its own."""

from __future__ import annotations

import re
import unicodedata

#: controls, marks of direction, line ends, surrogates
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
_SUSPECT = re.compile(r"[^\x20-\x7e]")


def visible(text: str, keep: str = "") -> str:
    r"""A text in which control characters, and whatever ends a line, are spelled as in a Python string: ``\x1b``.

    Args:
        text: such as the name of a file, or a message that quotes source.
        keep: the characters among them that stay as they are.
    """

    def spelled(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep or unicodedata.category(character) not in _UNSEEN:
            return character
        return character.encode("unicode_escape").decode("ascii")

    return _SUSPECT.sub(spelled, text)


def visible_lines(text: str, prefix: str) -> str:
    """Each line of a text behind a prefix, so that none is taken for a command by what reads a log."""
    return "".join(f"{prefix}{visible(line, keep=chr(9))}\n" for line in text.split("\n"))
