"""Findings in an editor where only comments and blank lines have changed: they move, and nothing is followed again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradlint.configuration import Configuration
from gradlint.disk import Disk
from gradlint.engine import Report
from gradlint.selection import Choice
from gradlint.server.checking import Checker

PATH = Path("/nowhere/train.py")
PROGRAM = '''\
import torch
from torch import nn


class Net(nn.Module):
    """A network."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 4)
        self.layer.weight.data[0] = 1

    def forward(self, x):
        x = torch.nn.functional.dropout(
            self.layer(x),
            0.5,
        )
        return torch.softmax(x, dim=1)


net = Net()
text = """
several rows
"""
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.CrossEntropyLoss()(net(x), y); print(text)
    loss.backward()
    optimizer.step()
'''


def checker() -> Checker:
    def configure(disk: Disk) -> Configuration:
        return Configuration(isolated=True, disk=disk)

    return Checker(configure, Choice())


def moved(before: str, after: str) -> Report | None:
    """The report on a text, moved to another."""
    one = checker()
    one.check({PATH: before})
    return one.moved({PATH: after}, frozenset([PATH]))


def fresh(text: str) -> Report:
    return checker().check({PATH: text})


@st.composite
def commented(draw: st.DrawFn) -> str:
    """The program with comments and blank lines put in."""
    rows: list[str] = []
    for row in PROGRAM.splitlines():
        in_string = row in ("several rows", '"""')
        kinds = ["none"] if in_string else ["none", "none", "blank", "comment", "behind", "shifted"]
        kind = draw(st.sampled_from(kinds))
        if kind == "blank":
            rows.append("")
        elif kind == "comment":
            rows.append("  # a remark, 'quoted")
        behind = "  # behind" if kind == "behind" and row and not row.endswith('"""') else ""
        rows.append((row.replace(" = ", "   =  ") if kind == "shifted" else row) + behind)
    return "\n".join(rows) + "\n"


def places(report: Report) -> list[tuple[object, ...]]:
    return [(each.code, each.message, each.location, each.related, each.cause) for each in report.findings]


def test_the_program_has_findings_of_many_kinds() -> None:
    report = fresh(PROGRAM)
    assert {"GL110", "GL201", "GL301", "GL401"} <= {finding.code for finding in report.findings}
    assert any(finding.fix is not None for finding in report.findings)


@settings(deadline=None)
@given(commented(), commented())
def test_findings_are_where_a_check_finds_them(before: str, after: str) -> None:
    report, expected = moved(before, after), fresh(after)
    if report is None:  # a fix would replace what has changed
        assert any(finding.fix is not None for finding in expected.findings)
        return
    assert report.findings == expected.findings
    assert places(report) == places(expected)
    assert [report.line(each.location) for each in report.findings] == [
        expected.line(each.location) for each in expected.findings
    ]


@settings(deadline=None)
@given(st.integers(0, 3), st.sampled_from(["", "# a remark"]))
def test_what_is_put_before_all_moves_all(count: int, line: str) -> None:
    report = moved(PROGRAM, f"{line}\n" * count + PROGRAM)
    assert report is not None
    assert report.findings == fresh(f"{line}\n" * count + PROGRAM).findings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.5,", "0.25,"),
        ("    optimizer.step()", "    if x:\n        optimizer.step()"),
        ("several rows", "several  rows"),
        ("loss.backward()", "loss.backward()  # noqa"),
        ("loss.backward()", "loss.backward()  # gradlint: ignore[GL201]"),
        ("loss.backward()", "loss.backward("),
        ("net = Net()", '"""never closed'),
        ("    loss.backward()", "  loss.backward()"),
    ],
)
def test_what_changes_more_is_checked(old: str, new: str) -> None:
    assert old in PROGRAM
    assert moved(PROGRAM, PROGRAM.replace(old, new)) is None


def test_a_comment_that_suppresses_stays_with_what_stands_in_its_row() -> None:
    before = "import torch\n\nf(\n    1, 2,  # noqa\n)\n"
    assert moved(before, before.replace("f(", "# remark\nf(")) is not None
    assert moved(before, before.replace("1, 2,", "1,\n    2,")) is None


def test_where_a_fix_would_be_made_anew_all_is_checked() -> None:
    assert moved(PROGRAM, PROGRAM.replace("optimizer.step()", "optimizer.step()  # now")) is None
    assert moved(PROGRAM, PROGRAM.replace("net = Net()", "net = Net()  # now")) is not None


def test_nothing_has_moved_before_a_check_or_beside_other_documents() -> None:
    one = checker()
    assert one.moved({PATH: PROGRAM}, frozenset([PATH])) is None
    one.check({PATH: PROGRAM})
    assert one.moved({PATH: PROGRAM, PATH.with_name("other.py"): ""}, frozenset([PATH])) is None


def test_several_moves_come_one_after_the_other() -> None:
    one = checker()
    one.check({PATH: PROGRAM})
    text = PROGRAM
    for number in range(3):
        text = f"# remark {number}\n{text}"
        report = one.moved({PATH: text}, frozenset([PATH]))
        assert report is not None
        assert report.findings == fresh(text).findings


LINES = [
    "    optimizer.zero_grad()",
    "    print(loss.data)",
    "x = 1",
    "# a remark",
    "",
    "    loss.backward()  # noqa",
    "  (",
]


@settings(deadline=None, max_examples=15)
@example([(8, "    optimizer.zero_grad()", False, False), (0, "# a remark", False, False)])  # a message names a line
@given(
    st.lists(
        st.tuples(st.integers(0, PROGRAM.count("\n")), st.sampled_from(LINES), st.booleans(), st.booleans()), max_size=5
    )
)
def test_after_any_edits_it_is_told_what_a_check_of_the_text_tells(edits: list[tuple[int, str, bool, bool]]) -> None:
    one = checker()
    one.check({PATH: PROGRAM})
    lines = PROGRAM.splitlines()
    for place, line, replaces, prepares in edits:
        lines[place : place + replaces] = [line]
        text = "\n".join(lines) + "\n"
        if prepares:
            one.prepare()
        report = one.moved({PATH: text}, frozenset([PATH])) or one.check({PATH: text}, (), frozenset([PATH]))
        expected = fresh(text)
        assert report.findings == expected.findings
        assert places(report) == places(expected)
