"""Tokens of protocols where there are many: which are told apart, and what worlds say of those that are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gradlint.finding import Location
from gradlint.protocol import Token
from gradlint.rule import Violation, all_rules
from gradlint.static.report.witness import Witness, _Judged
from gradlint.static.state.tokens import LINEAGES, MANY, SEVERAL, told_apart

RULE = next(rule for rule in all_rules() if rule.protocols)


@dataclass(frozen=True)
class Row:
    """A place in a file."""

    number: int

    def locate(self) -> Location:
        return Location("train.py", self.number, 1)


def tokens(lineages: int, ways: int) -> frozenset[Token]:
    return frozenset(
        Token(state, Row(lineage), last=(("Cleared", Row(way)),))
        for state in ("held", "spent")
        for lineage in range(1, lineages + 1)
        for way in range(1, ways + 1)
    )


def test_few_are_all_told_apart() -> None:
    few = tokens(4, 4)
    assert len(few) == MANY
    assert told_apart(few) is few


def test_of_many_ways_the_first_is_kept() -> None:
    assert told_apart(tokens(4, 9)) == tokens(4, 1)


@pytest.mark.parametrize("ways", [1, 3])
def test_of_many_lineages_none_is_told_apart(ways: int) -> None:
    untouched = Token("clear")
    kept = told_apart(tokens(LINEAGES + 1, ways) | {untouched})
    assert {(token.state, token.lineage) for token in kept} == {("held", SEVERAL), ("spent", SEVERAL), ("clear", None)}
    assert told_apart(kept) == kept


@pytest.mark.parametrize(
    ("votes", "proven"),
    [
        ([(Row(1), True)], True),
        ([(Row(1), True), (Row(2), False)], True),  # one lineage suffices
        ([(SEVERAL, True)], True),
        ([(Row(1), True), (SEVERAL, False)], False),  # which may be the same
        ([(SEVERAL, True), (Row(1), False)], False),
        ([(SEVERAL, True), (None, True)], True),
    ],
)
def test_what_any_of_many_lineages_says_holds_for_each(votes: list[tuple[Any, bool]], proven: bool) -> None:
    witness = Witness([RULE])
    (rule,) = witness.rules
    for lineage, violated in votes:
        violation = Violation("spent", Row(9)) if violated else None
        witness._vote(_Judged(("slot", Row(9), None, 1), lineage), rule, violation)
    assert bool(witness.proven()) is proven
