from __future__ import annotations

import ast
import random
import warnings
from collections import Counter
from pathlib import Path

import pytest

from gradlint.finding import Location
from gradlint.rule import all_rules
from gradlint.source import SourceError, read_source, source_from_bytes, source_from_text
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project
from gradlint.syntax import error_in

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
        (b"# coding: latin-1 \xe9\nx = 1\n", "# coding: latin-1 é\nx = 1\n", "iso-8859-1", "\n", False),
        (b"# \xe9\n# coding: latin-1\n", "# é\n# coding: latin-1\n", "iso-8859-1", "\n", False),
        (b"x = 1\n\x0cy = 2\n", "x = 1\n\x0cy = 2\n", "utf-8", "\n", False),
        (b"# coding: latin-1 \0\nx = '\xe9'\n", "# coding: latin-1 \0\nx = 'é'\n", "iso-8859-1", "\n", False),
    ],
)
def test_text_and_how_it_was_written(data: bytes, text: str | None, encoding: str, newline: str, bom: bool) -> None:
    source = source_from_bytes(PATH, data)
    assert text is None or source.text == text
    assert (source.encoding, source.newline, source.bom, source.data) == (encoding, newline, bom, data)


@pytest.mark.parametrize(
    ("data", "row", "column", "reason"),
    [
        (b"x = 1\ny = '\xe9'\n", 2, 6, "byte 0xe9 is not valid in utf-8"),
        (b"x = 1\n\n\n\xc3\xa9 = '\xe9'\n", 4, 6, "byte 0xe9 is not valid in utf-8"),
        (b"# coding: nope\n", 1, 1, "unknown encoding: nope"),
        (b"# coding: rot13\nx = 1\n", 1, 1, "cannot be decoded as "),
        (b"\n# coding: nope\n", 2, 1, "unknown encoding: nope"),
        (b"# coding: " + b"a" * 5000, 1, 1, f"unknown encoding: {'a' * 81}…"),
        (b"\xef\xbb\xbf# coding: latin-1\n", 1, 1, "iso-8859-1 is declared, after a byte order mark of utf-8"),
        (b"\xff\xfex\0=\0", 1, 1, "byte 0xff is not valid in utf-8"),
        (b"# coding: \xff\xfe\nx = 1\n", 1, 11, "byte 0xff is not valid in utf-8"),
        (b"# coding: utf-8 \xff\nx = 1\n", 1, 17, "byte 0xff is not valid in utf-8"),
        (b"\xef\xbb\xbf\xef\xbb\xbfx = 1\n", 1, 1, "invalid non-printable character U+FEFF"),
        (b"\xef\xbb\xbf\xef\xbb\xbf", 1, 1, "invalid non-printable character U+FEFF"),
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


def test_a_text_with_two_byte_order_marks_is_no_python() -> None:
    with pytest.raises(SourceError, match=r"1:1: invalid non-printable character U\+FEFF"):
        source_from_text("\ufeff\ufeffx = 1\n", PATH)


def test_what_python_takes_is_taken() -> None:
    dice = random.Random(3)  # noqa: S311 -- the same files each time
    names = [
        b"utf-8",
        b"latin-1",
        b"utf8",
        b"ascii",
        b"cp1252",
        b"nope",
        b"rot13",
        b"\xff",
        b"utf-8-sig",
        b"UTF_8",
        b"",
    ]
    marks, starts = (
        [b"", b"", b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2],
        [b"#", b"# -*- ", b"\n#", b"x = 0\n#", b"#\n\n#"],
    )
    ends = [b"\n", b" -*-\n", b" \xe9\n", b" \xc3\xa9\n", b"\r\n"]
    agreed: Counter[bool] = Counter()
    for _ in range(2000):
        coding = dice.choice([b" coding: ", b"coding=", b" no ", b" fileencoding="])
        body = dice.choice([b"x = 1\n", b"x = '\xe9'\n", b"x = '\xc3\xa9'\n", b"\xef\xbb\xbfx = 1\n"])
        data = b"".join([dice.choice(marks), dice.choice(starts), coding, dice.choice(names), dice.choice(ends), body])
        try:
            ast.parse(data)
            taken = True
        except (SyntaxError, LookupError):
            taken = False
        try:
            ours = error_in(source_from_bytes(PATH, data).text) is None
        except SourceError as error:
            if taken and error.reason.endswith("is not valid in utf-8") and b"'\xe9'" not in data:
                continue  # python does not always look what comments hold
            ours = False
        assert ours == taken, data
        agreed[taken] += 1
    assert min(agreed[True], agreed[False]) > 300


def test_what_python_says_of_escapes_is_not_told(tmp_path: Path) -> None:
    call = 'names = [re.sub("\\d", "", name) for name in torch.ones(2)]'
    text = f"import re\nimport torch\n\n{call}\n\ndef train(names):\n    {call}\n    return names\n\ntrain(names)\n"
    (tmp_path / "train.py").write_text(f"{text}torch.ones(2, requires_grad=True).numpy()\n")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = analyze(Project([tmp_path]), [tmp_path / "train.py"], all_rules()).findings
    assert [finding.code for finding in found] == ["GL501"]
    assert not told
