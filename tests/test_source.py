from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradlint.finding import Location
from gradlint.source import SourceError, read_source, source_from_bytes, source_from_text

PATH = Path("folder/file.py")


@pytest.mark.parametrize(
    ("data", "text", "encoding", "newline", "bom"),
    [
        (b"x = 1\n", "x = 1\n", "utf-8", "\n", False),
        (b"", "", "utf-8", "\n", False),
        (b"x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n", "utf-8", "\r\n", False),
        (b"x = 1\ry = 2\r", "x = 1\ny = 2\n", "utf-8", "\r", False),
        (b"x = 1\r\ny = 2\r\nz = 3\n", "x = 1\ny = 2\nz = 3\n", "utf-8", "\r\n", False),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8", "\n", True),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "# -*- coding: latin-1 -*-\nx = 'é'\n", "iso-8859-1", "\n", False),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'\n", None, "cp1252", "\n", False),
        (b"x = 1\n\x0cy = 2\n", "x = 1\n\x0cy = 2\n", "utf-8", "\n", False),
    ],
)
def test_text_and_how_it_was_written(data: bytes, text: str | None, encoding: str, newline: str, bom: bool) -> None:
    source = source_from_bytes(PATH, data)
    assert text is None or source.text == text
    assert (source.encoding, source.newline, source.bom, source.data) == (encoding, newline, bom, data)


#: what Python says of UTF-16
NULLS = "source code cannot contain null bytes" if sys.version_info >= (3, 14) else "invalid or missing encoding"


@pytest.mark.parametrize(
    ("data", "row", "column", "reason"),
    [
        (b"x = 1\ny = '\xe9'\n", 2, 6, "byte 0xe9 is not valid in utf-8"),
        (b"x = 1\n\n\n\xc3\xa9 = '\xe9'\n", 4, 6, "byte 0xe9 is not valid in utf-8"),
        (b"# coding: nope\n", 1, 1, "unknown encoding: nope"),
        (b"# coding: rot13\nx = 1\n", 1, 1, "cannot be decoded as "),
        (b"\xef\xbb\xbf# coding: latin-1\n", 1, 1, "encoding problem: utf-8"),
        (b"\xff\xfex\0=\0", 1, 1, NULLS),
    ],
)
def test_what_cannot_be_decoded_is_told_with_its_place(data: bytes, row: int, column: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        source_from_bytes(PATH, data)
    error = caught.value
    assert (error.path, error.row, error.column) == (PATH, row, column)
    assert error.reason.startswith(reason)
    assert str(error).startswith(f"{PATH}:{row}:{column}: {reason}")


@pytest.mark.parametrize("name", ["none.py", "folder.py"])
def test_what_cannot_be_read_is_told_with_its_cause(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(SourceError) as caught:
        read_source(tmp_path / name)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.reason in ("No such file or directory", "Is a directory")


def test_locations_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    source = read_source(Path("a.py"))
    assert source.path == Path("a.py")
    assert source.location(1, 2, 3, 4) == Location(str(tmp_path / "a.py"), 1, 2, 3, 4)
    assert source.place(1) == (None, 1)
    assert source.lines() == source.lines(None) == ("x = 1", "")


def test_lines_end_at_newlines_only() -> None:
    source = source_from_text("a = '\x0b\x1c\u2028'\n\x0cb = 2", Path("<stdin>"))
    assert source.lines() == ("a = '\x0b\x1c\u2028'", "\x0cb = 2")
    assert source.location(1, 1, 1, 1).filename == "<stdin>"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", ["\n"]),
        ("x = 1", ["x = 1\n"]),
        ("x = 1\n", ["x = 1\n", "\n"]),
        ("x = 1\n\ny = 2", ["x = 1\n", "\n", "y = 2\n"]),
        ("x = '\x0c\u2028é'\ny = 2\n", ["x = '\x0c\u2028é'\n", "y = 2\n", "\n"]),
    ],
)
def test_rows_are_cut_from_the_text(text: str, rows: list[str]) -> None:
    source = source_from_text(text, PATH)
    assert source.row_count == len(rows) == len(source.rows)
    for first in range(1, len(rows) + 1):
        for last in range(first, len(rows) + 1):
            assert source.between(first, last) == "".join(rows[first - 1 : last])


def test_text_that_no_file_could_hold() -> None:
    source = source_from_text("\ufeffx = '\udc80'\r\n", PATH)
    assert (source.text, source.bom, source.newline) == ("x = '?'\n", True, "\r\n")
