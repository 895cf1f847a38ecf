"""Output: what people, programs and GitHub are shown."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradlint.finding import Applicability, Edit, Effect, Finding, Fix, Location, Related, Severity
from gradlint.output.excerpt import TAB, WIDEST, excerpt
from gradlint.output.machine import as_json, github
from gradlint.output.style import Style, wants_colour
from gradlint.output.summary import statistics, summary
from gradlint.output.text import concise, full

CWD = Path("/home/someone/project")
TRAIN = str(CWD / "train.py")
LINES = {10: "for x, y in loader:", 12: "\tloss.backward()", 13: "    optimizer.step()"}


def line_of(place: Location) -> str | None:
    return LINES.get(place.row)


FINDING = Finding(
    "GL201",
    "missing-zero-grad",
    "gradients are added to spent ones",
    Severity.ERROR,
    Location(TRAIN, 12, 2, 12, 17),
    (Related("spent here", Location(TRAIN, 13, 5, 13, 21)),),
    "call zero_grad() first",
    effect=Effect.WRONG_RESULT,
)


def test_text_shows_excerpt_story_and_remedy() -> None:
    assert full(FINDING, Style(), CWD, line_of) == (
        "train.py:12:2: GL201 [missing-zero-grad] gradients are added to spent ones\n"
        "12 |     loss.backward()\n"
        "   |     ^^^^^^^^^^^^^^^\n"
        "   | train.py:13:5: spent here\n"
        "13 |     optimizer.step()\n"
        "   |     ----------------\n"
        "   = help: call zero_grad() first\n"
    )


def test_a_range_of_several_rows_shows_its_first() -> None:
    loop = Finding("GL406", "x", "m", Severity.WARNING, Location(TRAIN, 10, 1, 14, 3))
    assert full(loop, Style(), CWD, line_of).splitlines()[1:] == [
        "10 | for x, y in loader:",
        "   | ^^^^^^^^^^^^^^^^^^^",
    ]


def test_without_the_line_there_is_no_excerpt() -> None:
    lost = Finding("GL001", "x", "m", Severity.ERROR, Location("/elsewhere/a.py", 99))
    assert full(lost, Style(), CWD, line_of) == "/elsewhere/a.py:99:1: GL001 [x] m\n"


def test_the_cell_of_a_notebook_is_named() -> None:
    cell = Finding("GL201", "x", "m", Severity.ERROR, Location(str(CWD / "n.ipynb"), 2, 5, cell=3))
    assert concise(cell, Style(), CWD) == "n.ipynb:cell 3:2:5: GL201 [x] m"


def test_colour_dresses_place_and_code() -> None:
    dressed = concise(FINDING, Style(colour=True), CWD)
    assert "\x1b[31m\x1b[1mGL201\x1b[0m" in dressed
    assert "\x1b" not in concise(FINDING, Style(), CWD)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "wanted"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (Terminal(), {"FORCE_COLOR": "0"}, False),
        (Terminal(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_when_colour_is_wanted(stream: io.StringIO, environment: dict[str, str], wanted: bool) -> None:
    assert wants_colour(stream, environment) is wanted


@pytest.mark.parametrize(
    ("line", "column", "end", "shown", "offset", "width"),
    [
        ("loss.backward()\n", 1, 5, "loss.backward()", 0, 4),
        ("\tx.data", 2, 8, " " * TAB + "x.data", TAB, 6),
        ("a = '你好'; b", 11, 12, "a = '你好'; b", 12, 1),
        ("a = '你好'", 6, 8, "a = '你好'", 5, 4),
        ("e\N{COMBINING ACUTE ACCENT} = x", 6, 7, "e\N{COMBINING ACUTE ACCENT} = x", 4, 1),
        ("x = '\x1b[2J'", 1, 2, "x = '\N{REPLACEMENT CHARACTER}[2J'", 0, 1),
        ("short", 40, 50, "short", 5, 1),
        ("to_end()  \r\n", 1, None, "to_end()", 0, 8),
        ("", 1, 1, "", 0, 1),
    ],
)
def test_excerpts_align(line: str, column: int, end: int | None, shown: str, offset: int, width: int) -> None:
    assert excerpt(line, column, end) == (shown, offset, width)


def test_long_lines_are_cut_around_the_place() -> None:
    line = "x" * 1000 + "HERE" + "y" * 1000
    shown, offset, width = excerpt(line, 1001, 1005)
    assert shown[offset : offset + width] == "HERE"
    assert len(shown) <= WIDEST + 1
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_a_long_place_is_cut_too() -> None:
    shown, offset, width = excerpt("f(" + "x" * 1000, 1, None)
    assert offset == 0
    assert width <= len(shown)


def test_json_has_the_shape_of_ruff() -> None:
    assert json.loads(as_json([FINDING])) == [
        {
            "code": "GL201",
            "name": "missing-zero-grad",
            "message": "gradients are added to spent ones",
            "severity": "error",
            "effect": "wrong-result",
            "filename": TRAIN,
            "location": {"row": 12, "column": 2},
            "end_location": {"row": 12, "column": 17},
            "cell": None,
            "related": [
                {"message": "spent here", "filename": TRAIN, "location": {"row": 13, "column": 5}, "cell": None}
            ],
            "fix": None,
            "url": None,
        }
    ]
    assert json.loads(as_json([])) == []


def test_json_tells_the_fix() -> None:
    fix = Fix("clear the gradients", Applicability.UNSAFE, (Edit(Location(TRAIN, 12, 1, 12, 1), "    zero()\n"),))
    mended = Finding("GL201", "x", "m", Severity.ERROR, Location(TRAIN, 12), fix=fix)
    assert json.loads(as_json([mended]))[0]["fix"] == {
        "applicability": "unsafe",
        "message": "clear the gradients",
        "edits": [
            {"content": "    zero()\n", "location": {"row": 12, "column": 1}, "end_location": {"row": 12, "column": 1}}
        ],
    }


def test_github_commands_are_escaped() -> None:
    awkward = Finding(
        "GL201", "x", "100 % wrong,\nreally: yes", Severity.WARNING, Location(str(CWD / "a,b:c.py"), 3, 4, 3, 9)
    )
    assert github(awkward, CWD) == (
        "::warning file=a%2Cb%3Ac.py,title=GL201 x,line=3,col=4,endColumn=9::100 %25 wrong,%0Areally: yes"
    )


def test_github_rows_of_ranges_and_cells() -> None:
    several = Finding("GL201", "x", "m", Severity.ERROR, Location(TRAIN, 3, 4, 5, 2), remedy="r")
    assert github(several, CWD) == "::error file=train.py,title=GL201 x,line=3,endLine=5::m%0Ar"
    cell = Finding("GL102", "x", "m", Severity.STYLE, Location(str(CWD / "n.ipynb"), 3, 4, cell=7))
    assert github(cell, CWD) == "::notice file=n.ipynb,title=GL102 x::cell 7, line 3: m"


def of(*severities: Severity) -> list[Finding]:
    return [Finding("GL201", "missing-zero-grad", "m", severity, Location(TRAIN, 1)) for severity in severities]


def test_the_summary_counts_by_severity() -> None:
    error, warning, style = Severity.ERROR, Severity.WARNING, Severity.STYLE
    assert summary(of(error), 1, 0) == "Found 1 error in 1 file."
    assert summary(of(warning, error, error), 12, 0) == "Found 2 errors and 1 warning in 12 files."
    assert summary(of(style, style, warning, error), 2, 0) == (
        "Found 1 error, 1 warning and 2 style findings in 2 files."
    )
    assert summary([], 3, 0) == "No findings in 3 files."


def test_the_summary_counts_by_effect() -> None:
    def doing(*effects: Effect | None) -> list[Finding]:
        return [Finding("GL201", "x", "m", Severity.ERROR, Location(TRAIN, 1), effect=effect) for effect in effects]

    wrong, raises, wastes, style = Effect
    assert summary(doing(wrong), 1, 0) == "Found 1 error in 1 file: 1 gives a wrong result."
    assert summary(doing(style, wastes, raises, wrong, wrong, None), 2, 0) == (
        "Found 6 errors in 2 files: 2 give a wrong result, 1 raises, 1 wastes memory or time, 1 is a matter of style."
    )


def test_the_summary_says_what_was_left_out() -> None:
    assert summary([], 3, 1) == (
        "No findings in 3 files. 1 finding of rules that are off by default is not shown: --select ALL shows it."
    )


def test_statistics_rank_the_codes() -> None:
    other = Finding("GL101", "data-mutation", "m", Severity.ERROR, Location(TRAIN, 1))
    findings = [other, *of(Severity.ERROR, Severity.ERROR)]
    assert statistics(findings, "text") == "2  GL201  missing-zero-grad\n1  GL101  data-mutation\n"
    assert json.loads(statistics(findings, "json"))[0] == {"code": "GL201", "name": "missing-zero-grad", "count": 2}
    assert statistics([], "text") == ""


@pytest.mark.parametrize(
    ("safe", "unsafe", "told"),
    [
        (0, 0, ""),
        (1, 0, " --fix fixes 1 of them."),
        (0, 2, " --fix --unsafe-fixes fixes 2 of them."),
        (5, 2, " --fix fixes 5 of them, --fix --unsafe-fixes 7."),
    ],
)
def test_the_summary_tells_what_is_mended_in_all(safe: int, unsafe: int, told: str) -> None:
    findings = of(*[Severity.ERROR] * 9)
    for number, applicability in enumerate([Applicability.SAFE] * safe + [Applicability.UNSAFE] * unsafe):
        findings[number] = replace(findings[number], fix=Fix("m", applicability, ()))
    assert summary(findings, 1, 0) == f"Found 9 errors in 1 file.{told}"
