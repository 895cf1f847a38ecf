"""Regions that dynamo has compiled: what their graphs call, and where the user's program does so."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterator
from typing import Any

import torch

from gradlint.finding import Location

from ..frames import is_foreign, path_of

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def function_of(node: Any) -> Any:
    """What a node of a graph calls: a function of torch, or the method of a tensor."""
    if node.op == "call_method":
        return getattr(torch.Tensor, node.target, None)
    return node.target if node.op == "call_function" else None


def module_of(node: Any) -> type | None:
    """The class of the module whose code a node comes from, below the one that was compiled; None for that one."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    kind = stack[-1][1] if stack else None
    return kind if isinstance(kind, type) else None


def users_frames(node: Any) -> list[tuple[str, int, str]]:
    """Path, line and function of the frames of the user's program that a node was traced in, the innermost last."""
    frames = [(one["file"], int(one["line"]), one["function"]) for one in _FRAME.finditer(node.stack_trace or "")]
    return [(path_of(file), line, function) for file, line, function in frames if not is_foreign(file)]


def place_of(node: Any, name: str | None = None) -> Location | None:
    """Where the user's program does what a node does; None where the trace does not tell.

    Args:
        node: of a graph.
        name: of the function that is called there; by default, the outermost call of the line is it.
    """
    frames = users_frames(node)
    if not frames:
        return None
    path, line, _ = frames[-1]
    calls = [call for call in _calls_on(path, line) if name is None or _name(call) == name]
    if not calls:
        return Location(path, line, 1, line, 1) if name is None else None
    call = calls[0]
    end = call.end_lineno or line
    return Location(path, call.lineno, call.col_offset + 1, end, (call.end_col_offset or 0) + 1)


def call_of(node: Any, name: str) -> ast.Call | None:
    """The only call of a function of this name on the line that a node comes from."""
    frames = users_frames(node)
    calls = [call for call in _calls_on(*frames[-1][:2]) if _name(call) == name] if frames else []
    return calls[0] if len(calls) == 1 else None


def functions_around(node: Any) -> list[ast.AST | None]:
    """The functions that a node was traced in, the innermost last; None for one whose source is not at hand."""
    return [_function_at(path, line, name) for path, line, name in users_frames(node)]


def _calls_on(path: str, line: int) -> Iterator[ast.Call]:
    """The calls that begin on a line of a file, the outermost first."""
    syntax = _syntax(path)
    for node in ast.walk(syntax) if syntax is not None else ():
        if isinstance(node, ast.Call) and node.lineno == line:
            yield node


def _function_at(path: str, line: int, name: str) -> ast.AST | None:
    syntax = _syntax(path)
    found = [
        node
        for node in (ast.walk(syntax) if syntax is not None else ())
        if isinstance(node, _FUNCTION) and node.name == name and node.lineno <= line <= (node.end_lineno or line)
    ]
    return found[-1] if found else None  # the innermost


def _name(call: ast.Call) -> str | None:
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None)


@functools.lru_cache(maxsize=16)
def _syntax(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None
