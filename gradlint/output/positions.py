"""Positions: where a finding stands in the file itself, for programs that know no cells of notebooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gradlint.finding import Location
from gradlint.source import Source, SourceError


@dataclass(frozen=True, slots=True)
class Span:
    """Rows and columns of a file, from 1; ``end_column`` is exclusive."""

    row: int
    column: int
    end_row: int
    end_column: int


class Positions:
    """Turns locations into spans of their files, which are JSON where they are notebooks.

    Args:
        read: how a file is read.
    """

    def __init__(self, read: Callable[[Path], Source]) -> None:
        self._read = read
        self._notebooks: dict[str, tuple[str, Callable[[int, int, int], int]] | None] = {}

    def of(self, place: Location) -> Span:
        """The span of a location; the beginning of its file where it stands in a notebook that cannot be read."""
        if place.cell is None:
            end_row = max(place.end_row, place.row)
            end_column = place.end_column or place.column
            return Span(place.row, place.column, end_row, max(end_column, place.column if end_row == place.row else 1))
        start = self._in_json(place, place.row, place.column)
        end = self._in_json(place, place.end_row or place.row, place.end_column or place.column)
        return Span(*start, *max(start, end))

    def cell(self, place: Location) -> str:
        """The words by which a message tells the cell and row of a notebook; empty elsewhere."""
        return "" if place.cell is None else f"cell {place.cell}, line {place.row}: "

    def _in_json(self, place: Location, row: int, column: int) -> tuple[int, int]:
        known = self._notebook(place.filename)
        if known is None or place.cell is None:
            return 1, 1
        text, offset_of = known
        try:
            offset = offset_of(place.cell, row, column)
        except LookupError:
            return 1, 1
        return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1

    def _notebook(self, filename: str) -> tuple[str, Callable[[int, int, int], int]] | None:
        if filename not in self._notebooks:
            from gradlint.notebookedit import CellText

            try:
                source = self._read(Path(filename))
                text = (source.data[3:] if source.bom else source.data).decode(source.encoding)
                self._notebooks[filename] = (text, CellText(text).offset)
            except (SourceError, UnicodeError, ValueError):
                self._notebooks[filename] = None
        return self._notebooks[filename]
