"""Where the source adds to a variable, or to what hangs on it: read when something is seen to have grown."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradlint.finding import Location

from .frames import is_foreign, path_of
from .spelling import function_syntax

ADDING = ("add", "append", "appendleft", "extend", "insert", "put", "setdefault")
DEPTH = 2  #: functions that are handed on what grows


@dataclass(frozen=True, slots=True)
class Attribute:
    """A step of a path: ``.name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """A step of a path: ``[key]``."""

    key: str  #: as ``repr`` shows it


Path = tuple[Attribute | Item, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """What grows: a variable of a frame or, below it, what a path leads to."""

    name: str
    path: Path = ()

    def __str__(self) -> str:
        return self.name + "".join(
            f".{one.name}" if isinstance(one, Attribute) else f"[{one.key}]" for one in self.path
        )

    def below(self, step: Attribute | Item) -> Place:
        """What one more step leads to."""
        return Place(self.name, (*self.path, step))


@dataclass(frozen=True, slots=True, eq=False)
class Growing:
    """Something that has grown."""

    place: Place
    container: bool  #: things are put into it; else it is a sum
    objects: tuple[tuple[Any, int], ...] = ()  #: of the user's classes on the path, and after how many steps


def where_it_grows(growing: Growing, code: types.CodeType, names: dict[str, Any]) -> Location | None:
    """The one place where the source adds to it; None where there is none, or there are several.

    Looked through are the function itself, then methods of the objects it hangs on, then functions it is handed to.

    Args:
        growing: what has grown.
        code: of the function that has the variable.
        names: what its names stand for.
    """
    for places in (
        _places(code, growing.place, growing.container),
        _in_methods(growing),
        _in_functions(code, names, growing, DEPTH),
    ):
        found = set(places)
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _places(code: types.CodeType, place: Place, container: bool) -> Iterator[Location]:
    syntax = function_syntax(code)
    for node in ast.walk(syntax) if syntax is not None else ():
        if _adds(node, place, container):
            assert isinstance(node, (ast.stmt, ast.expr))
            end = node.end_lineno or node.lineno
            path = path_of(code.co_filename)
            yield Location(path, node.lineno, node.col_offset + 1, end, (node.end_col_offset or 0) + 1)


def _in_methods(growing: Growing) -> Iterator[Location]:
    for thing, steps in growing.objects:
        for base in type(thing).__mro__:
            for method in vars(base).values():
                if isinstance(method, types.FunctionType) and _is_users(method) and method.__code__.co_argcount:
                    place = Place(method.__code__.co_varnames[0], growing.place.path[steps:])
                    yield from _places(method.__code__, place, growing.container)


def _in_functions(code: types.CodeType, names: dict[str, Any], growing: Growing, depth: int) -> Iterator[Location]:
    syntax = function_syntax(code) if depth else None
    for call in ast.walk(syntax) if syntax is not None else ():
        function = names.get(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
        if not isinstance(call, ast.Call) or not isinstance(function, types.FunctionType) or not _is_users(function):
            continue
        inner = function.__code__
        given: list[tuple[str, ast.expr]] = list(zip(inner.co_varnames[: inner.co_argcount], call.args, strict=False))
        given += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
        for name, value in given:
            for steps in range(len(growing.place.path) + 1):
                if _is(value, Place(growing.place.name, growing.place.path[:steps])):
                    passed = Growing(Place(name, growing.place.path[steps:]), growing.container)
                    yield from _places(inner, passed.place, growing.container)
                    yield from _in_functions(inner, function.__globals__, passed, depth - 1)


def _is_users(function: types.FunctionType) -> bool:
    return not is_foreign(function.__code__.co_filename)


def _adds(node: ast.AST, place: Place, container: bool) -> bool:
    """Whether a statement or a call adds to what is there."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and _is(node.target, place)
    if isinstance(node, ast.Call):
        method = node.func if isinstance(node.func, ast.Attribute) and node.func.attr in ADDING else None
        return container and method is not None and _is(method.value, place)
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target, value = node.targets[0], node.value
    if container:
        return isinstance(target, ast.Subscript) and _is(target.value, place)
    pairs: Sequence[tuple[ast.expr, ast.expr]] = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    whole = Place(place.name, place.path[:-1]) if place.path else place  # of a tuple, which is made anew
    return any(
        (_is(left, place) or _is(left, whole))
        and any(_is(part, place) for part in ast.walk(right) if part is not right)
        for left, right in pairs
    )


def _is(node: ast.AST, place: Place) -> bool:
    """Whether an expression stands for a place; a key that is no constant may be any."""
    for step in reversed(place.path):
        if isinstance(step, Attribute):
            if not isinstance(node, ast.Attribute) or node.attr != step.name:
                return False
        elif not isinstance(node, ast.Subscript) or (
            isinstance(node.slice, ast.Constant) and repr(node.slice.value) != step.key
        ):
            return False
        node = node.value
    return isinstance(node, ast.Name) and node.id == place.name
