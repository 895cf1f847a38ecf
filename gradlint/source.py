"""Source text as it lies on disk: encodings, line endings, notebooks."""

from __future__ import annotations

import io
import os
import re
import tokenize
from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gradlint.finding import Location
from gradlint.notebook import CellSpan, normalised, read_notebook
from gradlint.reading import read_bytes
from gradlint.syntax import TextError

_ROW = re.compile("\n")
_BOM = b"\xef\xbb\xbf"
_ASCII = b"?" + bytes(range(1, 128)) + b"?" * 128  #: from Python 3.14 on, tokenize takes no NUL either


class SourceError(Exception):
    """A file that cannot be analysed: where, and why.  Row and column count from 1."""

    def __init__(self, path: Path, row: int, column: int, reason: str, cell: int | None = None) -> None:
        super().__init__(path, row, column, reason, cell)
        self.path, self.row, self.column, self.reason, self.cell = path, row, column, reason, cell

    @property
    def location(self) -> Location:
        """Where the problem is; ``row`` counts within the cell if there is one."""
        return Location(absolute(self.path), self.row, self.column, self.row, self.column, self.cell)

    def __str__(self) -> str:
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.path}:{cell}{self.row}:{self.column}: {self.reason}"


@dataclass(frozen=True)
class Source:
    """The text of one file or notebook, ready to be analysed."""

    path: Path  #: as it is to be shown
    text: str  #: newlines are "\\n", without byte order mark; the code cells of a notebook, one after the other
    cells: tuple[CellSpan, ...] = ()
    encoding: str = "utf-8"
    newline: str = "\n"  #: the commonest in the file
    bom: bool = False
    data: bytes = field(default=b"", repr=False)  #: the file as it lies on disk
    problems: tuple[SourceError, ...] = ()  #: cells that are not Python; their rows are blank in ``text``

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """The lines of ``text``, without their newlines."""
        return tuple(self.text.split("\n"))

    @cached_property
    def _starts(self) -> array[int]:
        """Where the rows begin in ``text``, and where one behind the last would."""
        ends = (match.end() for match in _ROW.finditer(self.text))
        return array("I", [0, *ends, len(self.text) + 1])

    def between(self, first: int, last: int) -> str:
        """The rows from one to another, both from 1, each with a newline; ``rows`` need not be made for it."""
        end = self._starts[last]
        text = self.text[self._starts[first - 1] : end]
        return text + "\n" if end > len(self.text) else text

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self._starts) - 1

    def lines(self, cell: int | None = None) -> tuple[str, ...]:
        """The lines of a cell, or of the whole text when no cell is named."""
        if cell is None:
            return self.rows
        return next((span.lines for span in self.cells if span.number == cell), ())

    @cached_property
    def filename(self) -> str:
        """The absolute path, or a name like ``<stdin>``."""
        return absolute(self.path)

    @property
    def is_notebook(self) -> bool:
        """Whether the text was made of the code cells of a notebook."""
        return self.path.suffix == ".ipynb"

    def location(self, row: int, column: int, end_row: int, end_column: int) -> Location:
        """A range of ``text`` as a range of the file, in the cell where it starts if it is a notebook."""
        cell = self.cell_at(row)
        if cell is None:
            return Location(self.filename, row, column, end_row, end_column)
        before = cell.first_row - 1
        return Location(
            self.filename, row - before, column + cell.indent, end_row - before, end_column + cell.indent, cell.number
        )

    def place(self, row: int) -> tuple[int | None, int]:
        """The number of the cell that a row of ``text`` comes from, and the row within it."""
        cell = self.cell_at(row)
        return (None, row) if cell is None else (cell.number, row - cell.first_row + 1)

    def cell_at(self, row: int) -> CellSpan | None:
        """The cell that a row of ``text`` comes from; None in a file that is no notebook."""
        index = bisect_right(self.cells, row, key=lambda cell: cell.first_row) - 1
        return self.cells[max(index, 0)] if self.cells else None


def absolute(path: Path) -> str:
    """The absolute path of a file; names like ``<stdin>`` stay as they are."""
    text = str(path)
    return text if text.startswith("<") else os.path.abspath(text)


def read_source(path: Path, read: Callable[[Path], bytes] = read_bytes) -> Source:
    """The source at ``path``, a Python file or a notebook.

    Args:
        path: where it lies.
        read: how the bytes of a file are had.

    Raises:
        SourceError: it cannot be read (the cause is then an ``OSError``), it cannot be decoded, or it is no notebook
            although its name says so.
    """
    try:
        data = read(path)
    except OSError as error:
        raise SourceError(path, 1, 1, error.strerror or type(error).__name__) from error
    return source_from_bytes(path, data)


def source_from_bytes(path: Path, data: bytes) -> Source:
    """The source that ``data`` holds, as if it had been read from ``path``.

    Raises:
        SourceError: it cannot be decoded, or it is no notebook although its name says so.
    """
    notebook = path.suffix == ".ipynb"
    encoding, bom = ("utf-8", data.startswith(_BOM)) if notebook else _encoding(data, path)
    raw = data[3:] if bom else data
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode(encoding, "replace")) + 1
        reason = f"byte 0x{raw[error.start]:02x} is not valid in {encoding}"
        raise SourceError(path, before.count(b"\n") + 1, column, reason) from error
    except (UnicodeError, LookupError, ValueError) as error:
        raise SourceError(path, 1, 1, f"cannot be decoded as {encoding}: {error}") from error
    return _source(text, path, encoding=encoding, bom=bom, data=data)


def source_from_text(text: str, path: Path) -> Source:
    """The source that ``text`` holds, as if it had been read from ``path``.

    Raises:
        SourceError: it is no notebook although the name says so.
    """
    bom = text.startswith("\ufeff")
    return _source(text[bom:], path, encoding="utf-8", bom=bom, data=text.encode("utf-8", "surrogatepass"))


def _source(text: str, path: Path, *, encoding: str, bom: bool, data: bytes) -> Source:
    newline = _commonest_newline(text)
    text = normalised(text)
    if path.suffix != ".ipynb":
        if text.startswith("\ufeff"):  # a second byte order mark: parsers would pass over it, and python does not
            raise SourceError(path, 1, 1, "invalid non-printable character U+FEFF")
        return Source(path, text, (), encoding, newline, bom, data)
    try:
        code, cells, problems = read_notebook(text)
    except TextError as problem:
        raise SourceError(path, problem.row, problem.column, problem.reason) from problem
    broken = tuple(SourceError(path, each.row, each.column, each.reason, cell) for cell, each in problems)
    return Source(path, code, cells, encoding, newline, bom, data, broken)


def _encoding(data: bytes, path: Path) -> tuple[str, bool]:
    """The encoding that a file declares in its first two lines, and whether it has a byte order mark."""
    bom = data.startswith(_BOM)
    stream = io.BytesIO(data)
    stream.seek(len(_BOM) * bom)
    # whatever they hold beside the declaration: it is decoded later, and what cannot be is told with its place
    head = [stream.readline().translate(_ASCII) for _ in range(2)]
    try:
        encoding, _ = tokenize.detect_encoding(iter(head).__next__)
    except SyntaxError as error:
        row = 1 if b"coding" in head[0] else 2
        reason = error.msg if len(error.msg) < 100 else f"{error.msg[:99]}…"
        raise SourceError(path, row, 1, reason) from error
    except LookupError as error:  # since Python 3.14 for codecs that decode no text
        raise SourceError(path, 1, 1, f"cannot be decoded as declared: {error}") from error
    if bom and encoding != "utf-8":
        raise SourceError(path, 1, 1, f"{encoding} is declared, after a byte order mark of utf-8")
    return encoding, bom


def _commonest_newline(text: str) -> str:
    crlf = text.count("\r\n")
    counts = {"\n": text.count("\n") - crlf, "\r\n": crlf, "\r": text.count("\r") - crlf}
    return max(counts, key=lambda newline: counts[newline])
