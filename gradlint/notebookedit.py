"""Editing notebooks: where the text of a cell stands in the JSON, so that the rest of the JSON stays as it is."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from json.decoder import scanstring  # type: ignore[attr-defined]  # public in the standard library's source only
from typing import Any

_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^\s,\]}]+")
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NEWLINE = re.compile(r"\r\n?|\n")


class _String:
    """A string literal: where its content begins and ends in the JSON."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class _Cell:
    """The text of a cell, and where each of its characters stands."""

    def __init__(self, text: str, literals: list[_String], separator: str | None) -> None:
        self.separator = separator  #: between the lines of a cell that is a list of them; None for a single string
        self.places: list[int] = []
        content: list[str] = []
        for literal in literals:
            for match in _ESCAPE.finditer(text, literal.start, literal.end):
                self.places.append(match.start())
                content.append(json.loads(f'"{match[0]}"', strict=False))
        self.places.append(literals[-1].end if literals else -1)
        joined = "".join(content)
        self.starts = [0, *(match.end() for match in _NEWLINE.finditer(joined))]
        self.newline = "\r\n" if "\r\n" in joined else "\n"


class CellText:
    """The JSON of a notebook, addressed by cell, row and column.

    Args:
        text: valid JSON of a notebook.
    """

    def __init__(self, text: str) -> None:
        self._ascii = text.isascii()
        self._cells: dict[int, _Cell] = {}
        notebook, _ = _value(text, _skip(text, 0))
        for number, source in _sources(notebook):
            literals = [
                each for each in (source if isinstance(source, list) else [source]) if isinstance(each, _String)
            ]
            if literals:
                self._cells[number] = _Cell(text, literals, _separator(text, literals, isinstance(source, list)))
        self._order = sorted((cell.places[0], number) for number, cell in self._cells.items())

    def offset(self, cell: int | None, row: int, column: int) -> int:
        """The offset in the JSON of a place in a cell; LookupError if there is none."""
        found = self._cells[cell or 0]
        if row < 1 or column < 1:
            raise LookupError((cell, row, column))
        return found.places[found.starts[row - 1] + column - 1]

    def written(self, content: str, offset: int) -> str:
        """Content as the JSON spells it in the cell at this offset, with a string for each line if it has them."""
        _, number = self._order[bisect_right(self._order, offset, key=lambda item: item[0]) - 1]
        cell = self._cells[number]
        lines = [
            json.dumps(line, ensure_ascii=self._ascii)[1:-1]
            for line in _LINE.findall(content.replace("\n", cell.newline))
        ]
        ends_line = content.endswith("\n")
        if cell.separator is None:
            return "".join(lines)
        return f'"{cell.separator}"'.join(lines) + (f'"{cell.separator}"' if ends_line else "")


def _separator(text: str, literals: list[_String], is_list: bool) -> str | None:
    if not is_list:
        return None
    if len(literals) > 1:
        return text[literals[0].end + 1 : literals[1].start - 1]
    opening = text.rindex("[", 0, literals[0].start)
    return "," + text[opening + 1 : literals[0].start - 1]


def _sources(notebook: Any) -> list[tuple[int, Any]]:
    """The sources of cells by their number, from 1, as they are counted by the reader of notebooks."""
    sheets = notebook.get("worksheets")
    groups = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)] if isinstance(sheets, list) else []
    cells = notebook.get("cells", [cell for group in groups if isinstance(group, list) for cell in group])
    return [
        (number, cell.get("source", cell.get("input")))
        for number, cell in enumerate(cells, start=1)
        if isinstance(cell, dict)
    ]


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> tuple[Any, int]:
    """The JSON value at an offset, its strings as places, and where it ends."""
    if text[at] == '"':
        _, end = scanstring(text, at + 1, True)
        return _String(at + 1, end - 1), end
    if text[at] == "{":
        table: dict[str, Any] = {}
        at = _skip(text, at + 1)
        while text[at] != "}":
            key, at = scanstring(text, at + 1, True)
            at = _skip(text, _skip(text, at) + 1)
            table[key], at = _value(text, at)
            at = _skip(text, at)
            at = _skip(text, at + 1) if text[at] == "," else at
        return table, at + 1
    if text[at] == "[":
        items: list[Any] = []
        at = _skip(text, at + 1)
        while text[at] != "]":
            item, at = _value(text, at)
            items.append(item)
            at = _skip(text, at)
            at = _skip(text, at + 1) if text[at] == "," else at
        return items, at + 1
    match = _SCALAR.match(text, at)
    return None, match.end() if match else at + 1
