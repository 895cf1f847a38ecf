"""Whether a text is Python, and what is wrong with it if it is not."""

from __future__ import annotations

import ast
import re
import warnings

from gradlint.depth import is_shallow, too_deep

_PYTHON_2 = re.compile(
    r"Missing parentheses in call to|multiple exception types must be parenthesized|leading zeros in decimal integer"
)
_TOO_MANY = re.compile(r"too many (?:levels of indentation|nested parentheses|statically nested blocks)")
_TOO_DEEP = "the code is nested too deeply to be parsed"


class TextError(Exception):
    """Why a text is not what it should be.

    Args:
        row: from 1.
        column: from 1.
        reason: in one line.
        final: no other parser is to be asked; otherwise the text may be of a newer Python than the one that runs.
    """

    def __init__(self, row: int, column: int, reason: str, *, final: bool = True) -> None:
        super().__init__(row, column, reason)
        self.row, self.column, self.reason, self.final = row, column, reason, final


def parse(text: str) -> ast.Module:
    """The ``ast`` of a text whose newlines are line feeds.

    Raises:
        TextError: the running Python rejects the text.
    """
    null = text.find("\0")
    if null >= 0:
        before = text[:null]
        raise TextError(before.count("\n") + 1, null - before.rfind("\n"), "source code cannot contain null bytes")
    try:
        with warnings.catch_warnings():  # invalid escapes are the business of other linters
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        reason = error.msg or "invalid syntax"
        if _PYTHON_2.search(reason):
            reason = f"Python 2 syntax: {reason}"
        row, column = max(error.lineno or 1, 1), max(error.offset or 1, 1)
        raise TextError(row, column, reason, final=bool(_TOO_MANY.search(reason)) or not is_shallow(text)) from None
    except (RecursionError, MemoryError):
        raise TextError(1, 1, _TOO_DEEP) from None
    except ValueError as error:
        raise TextError(1, 1, str(error)) from None
    deepest = too_deep(tree, text)
    if deepest is not None:
        raise TextError(deepest, 1, _TOO_DEEP)
    return tree


def error_in(text: str) -> TextError | None:
    """What keeps a text from being Python, be it of a newer version than the one that runs; None if nothing does."""
    try:
        parse(text)
    except TextError as problem:
        if problem.final:
            return problem
        import libcst  # costs 0.2 s, and few texts come here

        try:
            libcst.parse_module(text)
        except Exception:  # noqa: BLE001 -- libcst raises several unrelated types on text that is not Python
            return problem
    return None
