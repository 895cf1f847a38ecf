"""How the source spells what happens at a place: read when a verdict depends on it, never on the hot path."""

from __future__ import annotations

import ast
import functools
import linecache
import textwrap
from types import CodeType

from gradlint.finding import Location

from .frames import FrameSite, path_of


def source_text(location: Location) -> str:
    """The text of a location; empty where its file cannot be read."""
    rows = [linecache.getline(location.filename, row) for row in range(location.row, location.end_row + 1)]
    if not rows or not rows[0]:
        return ""
    rows[-1] = rows[-1][: location.end_column - 1]
    rows[0] = rows[0][location.column - 1 :]
    return "".join(rows)


def operation_at(site: FrameSite) -> ast.AST | None:
    """The syntax of the operation at ``site``, parsed on its own; None where the source is not at hand."""
    try:
        statement = ast.parse(textwrap.dedent(source_text(site.locate()))).body[0]
    except (SyntaxError, IndexError, ValueError):
        return None
    return statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else statement


def call_at(site: FrameSite) -> ast.Call | None:
    """The call at ``site``."""
    operation = operation_at(site)
    return operation if isinstance(operation, ast.Call) else None


@functools.lru_cache(maxsize=256)
def function_text(code: CodeType) -> str:
    """The lines of a function."""
    last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    path = path_of(code.co_filename)
    return "".join(linecache.getline(path, row) for row in range(code.co_firstlineno, last + 1))


@functools.lru_cache(maxsize=256)
def function_syntax(code: CodeType) -> ast.AST | None:
    """The syntax of a function, or of a module for its own code; None where the source is not at hand."""
    path = path_of(code.co_filename)
    try:
        module = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None
    if code.co_name == "<module>":
        return module
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def share_a_loop(one: FrameSite, other: FrameSite) -> bool:
    """Whether two places stand in the same innermost loop of a function, or both in none."""
    if one.code is not other.code:
        return False
    syntax = function_syntax(one.code)
    return syntax is not None and _innermost(syntax, one.line) is _innermost(syntax, other.line)


def _innermost(syntax: ast.AST, line: int) -> ast.AST | None:
    """The innermost loop of a function in whose body a line stands."""
    found = None
    for node in ast.walk(syntax):  # outer ones come first
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            last = node.body[-1].end_lineno or node.body[-1].lineno
            if node.body[0].lineno <= line <= last:
                found = node
    return found
