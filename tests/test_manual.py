"""The manual: witnesses, pages and tables are derived from the rules."""

from __future__ import annotations

import re
from pathlib import Path

import gradlint.static
from gradlint.manual import listing, page, table, witnesses
from gradlint.rule import Rule, all_rules

ROOT = Path(__file__).parents[1]
BY_CODE: dict[str, type[Rule]] = {rule.code: rule for rule in all_rules()}


def test_the_static_witness_declares_what_it_sends() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "gradlint/static").rglob("*.py"))
    sent = set(re.findall(r"\bevents\.([A-Z]\w+)\(", sources)) - {"Tensor"}
    assert sent == {event.__name__ for event in gradlint.static.EVENTS}


def test_witnesses_are_those_that_send_what_a_rule_needs() -> None:
    assert witnesses(BY_CODE["GL001"]) == ("static",)
    assert witnesses(BY_CODE["GL201"]) == ("static", "runtime")
    assert witnesses(BY_CODE["GL401"])[0] == "static"
    assert all(witnesses(rule) for rule in all_rules())


def test_a_page_tells_the_facts_before_the_text() -> None:
    lines = page(BY_CODE["GL201"]).splitlines()
    assert lines[0] == "# missing-zero-grad (GL201)"
    assert lines[2].startswith(
        "Severity: error · effect: wrong result · selected by default · seen by: the linter, the guard · fix: "
    )
    assert lines[4] == BY_CODE["GL201"].page().splitlines()[0]


def test_the_table_has_a_row_for_each_rule() -> None:
    rows = table(all_rules()).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {rule.code}" for rule in all_rules()]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 9 for row in rows)


def test_the_markdown_listing_is_the_table_and_every_page() -> None:
    text = listing(all_rules(), "markdown")
    assert text.startswith(table(all_rules()))
    assert all(page(rule) in text for rule in all_rules())
