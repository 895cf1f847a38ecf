"""Patterns in the manner of ``.gitignore``, matched in a time that they cannot make long.

They come with the project that is checked.  Translated into regular expressions one by one, as is common, thirty ``*a``
in a row take longer than anyone waits.  Here each wildcard but the last one of its kind takes the first place where
what follows it fits and never asks for another: as what follows is of a fixed length, a later place would not help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_SET = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\0-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_LONGEST = 32_767  #: characters of a path, on any system
_MEMBER = re.compile(r"\[:(?P<named>[^:\]]*):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\\]]))?", re.DOTALL)


class Pattern(NamedTuple):
    """One line."""

    takes: bool  #: what it fits; False after an exclamation mark, where it lets what an earlier line has taken
    folders_only: bool
    anywhere: bool  #: it is about the last part of a path alone
    expression: re.Pattern[str]


class Patterns:
    """Lines as in a ``.gitignore`` file, of which the last one that fits decides.

    Args:
        lines: those that git could make no sense of are passed over, as git does.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern for line in lines if (pattern := _pattern(line)) is not None][::-1]
        self._folders: dict[str, bool | None] = {}

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether they take a path in (True), out again (False), or say nothing (None).

        Args:
            path: relative to the folder that they are about, with slashes.
            is_folder: what stands there; what is in a folder that is taken in goes with it.
        """
        end = path.find("/")
        while end >= 0:
            if self._of_folder(path[:end]):
                return True
            end = path.find("/", end + 1)
        return self._of_folder(path) if is_folder else self._of(path, is_folder=False)

    def _of_folder(self, path: str) -> bool | None:
        if path not in self._folders:
            self._folders[path] = self._of(path, is_folder=True)
        return self._folders[path]

    def _of(self, path: str, *, is_folder: bool) -> bool | None:
        name = path[path.rfind("/") + 1 :]
        for takes, folders_only, anywhere, expression in self._patterns:
            if (is_folder or not folders_only) and expression.fullmatch(name if anywhere else path):
                return takes
        return None


def _pattern(line: str) -> Pattern | None:
    stripped = line.rstrip(" ")
    line = f"{stripped} " if stripped != line and _ends_escaped(stripped) else stripped
    if not line or line.startswith("#"):
        return None
    takes = not line.startswith("!")
    glob = line.removeprefix("!")
    folders_only = glob.endswith("/")
    glob = glob.removesuffix("/")
    anywhere = "/" not in glob
    expression = _expression(glob.removeprefix("/"))
    return None if expression is None else Pattern(takes, folders_only, anywhere, re.compile(expression, re.DOTALL))


def _expression(glob: str) -> str | None:
    """The regular expression for a path; None if nothing can fit."""
    parts: list[list[str]] = [[]]
    for sign in _signs(glob):
        if sign is None:
            return None
        if sign == "/":
            parts.append([])
        else:
            parts[-1].append(sign)
    if not all(parts) or sum(sign != "*" for part in parts for sign in part) > _LONGEST:
        return None
    runs: list[list[str]] = [[]]  # of parts, between which any number of folders may stand
    for part in parts:
        if len(part) > 1 and set(part) == {"*"}:
            runs.append([])
        else:
            runs[-1].append(_part(part))
    *before, end = ["/".join(run) for run in runs]
    if not before:
        return end
    first, *middle = before
    expression = f"{first}/" if first else ""
    expression += "".join(f"(?>(?:[^/]++/)*?{run}/)" for run in middle if run)
    return f"{expression}(?:[^/]++/)*{end}" if end else f"{expression}.+"


def _part(signs: list[str]) -> str:
    """The regular expression for one part of a path."""
    pieces = [""]
    for sign in signs:
        if sign != "*":
            pieces[-1] += sign
        elif len(pieces) == 1 or pieces[-1]:
            pieces.append("")
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + f"[^/]*{last}"


def _signs(glob: str) -> Iterator[str | None]:
    """Stars, slashes, regular expressions for one other character each, and None for what nothing can fit."""
    place = 0
    while place < len(glob):
        sign = glob[place]
        place += 1
        if sign == "*":
            yield "*"
        elif sign == "?":
            yield "[^/]"
        elif sign == "[":
            place, expression = _bracket(glob, place)
            yield expression
        elif sign == "\\":
            yield re.escape(glob[place]) if place < len(glob) else None
            place += 1
        else:
            yield re.escape(sign)


def _bracket(glob: str, place: int) -> tuple[int, str | None]:
    """Where the set of characters ends that begins before ``place``, and the regular expression for it."""
    negated = glob[place : place + 1] in ("!", "^")
    place += negated
    members: list[str] = []
    start = place
    while place == start or glob[place : place + 1] != "]":
        match = _MEMBER.match(glob, place)
        if match is None or (match["named"] is not None and match["named"] not in _SET):
            return len(glob), None
        if match["named"] is not None:
            members.append(_SET[match["named"]])
        else:
            first = match["first"][-1]
            last = (match["last"] or first)[-1]
            members.append(re.escape(first))  # even of a range that is upside down
            members += [f"{re.escape(first)}-{re.escape(last)}"] * (first < last)
        place = match.end()
    content = "".join(members)
    if negated:
        return place + 1, f"[^/{content}]"
    return place + 1, f"(?!/)[{content}]"


def _ends_escaped(part: str) -> bool:
    return (len(part) - len(part.rstrip("\\"))) % 2 == 1
