"""Suppression: which comments cover which findings."""

from __future__ import annotations

import pytest

from gradlint.finding import Finding, Location, Severity
from gradlint.rule import all_rules
from gradlint.suppression import read_suppressions, unknown_codes, unused


def locate(*place: int) -> Location:
    return Location("f.py", *place)


def finding(row: int, end_row: int = 0) -> Finding:
    return Finding("GL201", "missing-zero-grad", "message", Severity.ERROR, Location("f.py", row, 1, end_row or row, 2))


def covered(text: str, row: int, end_row: int = 0) -> bool:
    return read_suppressions(text, locate).suppress(finding(row, end_row))


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA",
        "# type: ignore  # noqa",
        "# noqa: GL201",
        "# noqa:GL201",
        "# noqa : gl201",
        "# noqa: F401,GL201",
        "# noqa: F401, GL201",
        "# noqa: F401 GL201",
        "# noqa: GL201 because gradients are meant to add up",
        "# noqa: GL2",
        "# noqa: accumulation on purpose",
        "# gradlint: ignore",
        "# gradlint: ignore[GL201]",
        "#gradlint:ignore[GL201,GL301]",
        "# gradlint: ignore[missing-zero-grad]",
        "# gradlint: ignore[GL2]  -- on purpose",
    ],
)
def test_comments_that_cover_the_line(comment: str) -> None:
    assert covered(f"step()  {comment}\n", 1)


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: F401",
        "# noqa: GL301",
        "# noqa-free",
        "# nonoqa",
        "# flake8: noqa",
        "# gradlint: ignore[GL301]",
        "# gradlint: ignore[]",
        "# gradlint: ignore-errors",
        "# gradlint is great",
    ],
)
def test_comments_that_do_not(comment: str) -> None:
    assert not covered(f"step()  {comment}\n", 1)


def test_only_the_line_itself_is_covered() -> None:
    text = "a()\nb()  # noqa\nc()\n"
    assert [covered(text, row) for row in (1, 2, 3)] == [False, True, False]


def test_text_in_strings_does_not_count() -> None:
    assert not covered('step("# noqa")\n', 1)
    assert not covered('step("""\n# noqa\n# gradlint: skip-file\n""")\n', 1)


def test_a_statement_of_several_lines_is_covered_from_its_last_line_or_from_within_the_finding() -> None:
    text = "loss = criterion(\n    model(x),  {}\n    y,\n)  {}\n"
    assert covered(text.format("", "# noqa"), 1, 1)
    assert covered(text.format("", "# noqa"), 2, 2)
    assert covered(text.format("# noqa", ""), 1, 4)
    assert not covered(text.format("# noqa", ""), 1, 1)


def test_a_comment_in_the_body_does_not_cover_the_header() -> None:
    text = "for x in y:\n    a()  # noqa\n    b()\n"
    assert not covered(text, 1, 3)
    assert covered("for x in y:  # noqa\n    a()\n    b()\n", 1, 3)


def test_skip_file_stands_on_its_own_line() -> None:
    assert covered("a()\n    # gradlint: skip-file\nb()\n", 1)
    assert not covered("a()  # gradlint: skip-file\nb()\n", 2)


def test_what_stands_before_a_tokenizing_error_counts() -> None:
    assert covered("a()  # noqa\nb(\n'''", 1)


def test_line_endings_do_not_matter() -> None:
    assert covered("a()\r\nb()  # noqa\r\n", 2)


def test_places_may_be_mapped_to_cells() -> None:
    suppressions = read_suppressions(
        "a()\nb()  # noqa\n", lambda row, column, _, end: Location("f.ipynb", 1, column, 1, end, cell=row + 2)
    )
    where = Location("f.ipynb", 1, 1, 1, 2, cell=4)
    assert suppressions.suppress(Finding("GL201", "x", "m", Severity.ERROR, where))
    elsewhere = Location("f.ipynb", 1, 1, 1, 2, cell=3)
    assert not suppressions.suppress(Finding("GL201", "x", "m", Severity.ERROR, elsewhere))


def test_unknown_codes_are_found_where_they_can_only_be_ours() -> None:
    text = "a()  # noqa: GL299, F999, GL201\nb()  # gradlint: ignore[zero-grad, GL2]\n"
    found = list(unknown_codes(read_suppressions(text, locate), all_rules()))
    assert [(f.code, f.message, f.location) for f in found] == [
        ("GL003", "no rule is called 'GL299'", Location("f.py", 1, 14, 1, 19)),
        ("GL003", "no rule is called 'zero-grad'", Location("f.py", 2, 25, 2, 34)),
    ]


def test_comments_without_use_are_found() -> None:
    text = (
        "a()  # noqa: GL201\n"  # used
        "b()  # noqa: GL201, F401\n"  # the first is of no use
        "c()  # noqa\n"  # may be meant for others
        "d()  # gradlint: ignore\n"
        "e()  # gradlint: ignore[GL102]\n"  # not selected
    )
    suppressions = read_suppressions(text, locate)
    assert suppressions.suppress(finding(1))
    selected = [rule for rule in all_rules() if rule.default() or rule.code == "GL002"]
    found = list(unused(suppressions, selected))
    assert [(f.message, f.location.row) for f in found] == [
        ("GL201 suppresses nothing here", 2),
        ("this comment suppresses nothing here", 4),
    ]
    assert not list(unused(suppressions, [rule for rule in selected if rule.code != "GL002"]))
