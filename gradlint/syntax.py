"""Whether a text is Python, and what is wrong with it if it is not."""

from __future__ import annotations

import ast
import re
import warnings

_PYTHON_2 = re.compile(
    r"Missing parentheses in call to|multiple exception types must be parenthesized|leading zeros in decimal integer"
)
_TOO_DEEP = "the code is nested too deeply to be parsed"
_SHAPE = re.compile(r"#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|[\[({]|[\])}]|\n", re.DOTALL)
_DEPTH, _ROWS_IN_BRACKETS, _LINE_LENGTH = 100, 1000, 2000
_LEVELS = 1000  #: of the tree, at which libcst takes about a second


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
        raise TextError(row, column, reason, final=not is_shallow(text)) from None
    except (RecursionError, MemoryError):
        raise TextError(1, 1, _TOO_DEEP) from None
    except ValueError as error:
        raise TextError(1, 1, str(error)) from None
    if not is_shallow(text) and _depth(tree) > _LEVELS:
        raise TextError(1, 1, _TOO_DEEP)
    return tree


def is_shallow(text: str) -> bool:
    """Whether a text can be given to libcst without a look at its tree; a long table of data is not shallow either.

    libcst takes time by the square of the depth of an expression, and overflows the stack on extreme nesting, which
    ends the process.
    """
    depth = rows = 0
    for part in _SHAPE.findall(text):
        if part in "([{":
            depth += 1
            if depth > _DEPTH:
                return False
        elif part in ")]}":
            depth = max(depth - 1, 0)
            rows = rows if depth else 0
        elif part == "\n" and depth:
            rows += 1
            if rows > _ROWS_IN_BRACKETS:
                return False
    return max(map(len, text.split("\n"))) <= _LINE_LENGTH


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


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
