"""Trees of texts that Python accepts: libcst is stricter about their indentation."""

from __future__ import annotations

import re

import libcst as cst

_TABBED = re.compile(
    r"(?:#[^\n]*"
    r"|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}"
    r"|\"(?:\\.|[^\\\n\"])*\"|'(?:\\.|[^\\\n'])*')"
    r"|^([ \f]*\t[ \t\f]*)",
    re.DOTALL | re.MULTILINE,
)


def parse_module(text: str) -> cst.Module:
    """The tree of a text, in which each tab of an indentation is a space if libcst rejects it otherwise.

    Of two rows Python tells that one is indented deeper only where it is with tabs of any width, of one column, too;
    to libcst it has to begin with the indentation of the other.

    Raises:
        ParserSyntaxError: libcst rejects it all the same.
    """
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError:
        evened = _TABBED.sub(_evened, text) if "\t" in text else text
        if evened == text:
            raise
        return cst.parse_module(evened)


def _evened(match: re.Match[str]) -> str:
    return match[0] if match[1] is None else match[1].replace("\t", " ")
