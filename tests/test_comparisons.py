"""What follows from comparisons that were assumed."""

from __future__ import annotations

import operator
from ast import literal_eval
from collections.abc import Hashable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlint.static.state.comparisons import Assumed, computed, parts_of_sum
from gradlint.static.state.origins import Comparison, Operation, Parameter, Truth
from gradlint.static.state.values import Const

OPERATORS = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
MIRRORED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
X: Final = Parameter("f", "n", 0)
Y: Final = Parameter("f", "m", 0)


def key(text: str) -> Hashable:
    """The key of a condition such as ``x > 1``, ``1 < x`` or ``x``."""
    left, *rest = text.split(" ", 2)
    one, *others = [X if part == "x" else Const(literal_eval(part)) for part in (left, *rest[1:])]
    return Comparison(rest[0], one, others[0]) if rest else X


def assume(*texts: str) -> Assumed:
    """Conditions that hold, those behind ``not`` do not."""
    return Assumed({key(text.removeprefix("not ")): not text.startswith("not ") for text in texts})


@pytest.mark.parametrize(
    ("assumed", "condition", "expected"),
    [
        (["x > 1"], "x > 1", True),
        (["x > 1"], "x == 1", False),
        (["x > 1"], "x >= 1", True),
        (["x > 1"], "x < 2", None),
        (["x > 1"], "x == 2", None),
        (["not x > 1"], "x == 1", None),
        (["not x > 1"], "x <= 1", True),
        (["not x > 1"], "x == 2", False),
        (["not x > 1"], "x > 3", False),
        (["x == 1"], "x > 1", False),
        (["x == 1"], "x < 2.5", True),
        (["not x == 1"], "x > 1", None),
        (["x < 2"], "x > 2", False),
        (["1 < x"], "x == 1", False),
        (["x > 1"], "0 < x", True),
        (["x >= 1", "x <= 1"], "x == 1", True),
        (["x >= 1", "not x == 1"], "x > 1", True),
        (["x > 0", "x < 5"], "x == 7", False),
        (["x == 'a'"], "x == 'b'", False),
        (["not x == 'a'"], "x == 'b'", None),
        (["x == 'a'"], "x == 1", None),  # what compares with both is no text and no number
        (["x"], "x == 0", False),
        (["x"], "x == ''", False),
        (["x"], "x > 0", None),
        (["not x"], "x == 1", False),
        (["not x"], "x == 0", None),  # it may be None
        (["not x"], "x > 0", False),
        (["x > 1"], "x", True),
        (["x >= 0"], "x", None),
        (["x >= 0", "not x == 0"], "x", True),
        (["not x == 0"], "x", None),  # it may be None
        (["x > 2", "x < 1"], "x == 1", None),  # no world is like this
        ([], "x > 1", None),
    ],
)
def test_what_follows(assumed: list[str], condition: str, expected: bool | None) -> None:
    assert assume(*assumed).follows(key(condition)) is expected


@pytest.mark.parametrize(
    "condition",
    [
        Comparison(">", Y, Const(1)),
        Comparison(">", Const(1), Const(1)),
        Comparison(">", X, Y),
        Comparison(">", X, Const(None)),
        Comparison("==", X, Const(float("nan"))),
        Comparison("in", X, Const("abc")),
        Comparison("is", X, Const(None)),
        Truth(3),
        17,
    ],
)
def test_of_others_nothing_follows(condition: Hashable) -> None:
    assert assume("x > 1", "not x == 5").follows(condition) is None


comparisons = st.tuples(st.sampled_from(sorted(OPERATORS)), st.integers(-3, 3), st.booleans())


def test_computed_numbers_take_their_turns() -> None:
    remainder = Operation("%", X, Const(4))
    zero = Assumed([(Comparison("==", remainder, Const(0)), True)])
    assert zero.follows(Comparison("==", remainder, Const(3))) is None


def test_a_number_that_is_less_by_a_constant_is_that_number() -> None:
    less = Operation("-", X, Const(2))
    assert assume("x > 2").follows(Comparison(">", less, Const(0))) is True
    assert assume("x < 2").follows(Comparison(">", less, Const(0))) is False
    assert assume("x > 1").follows(Comparison(">", less, Const(0))) is None
    assert assume("x > 1").follows(Comparison("==", less, Const("a"))) is None
    remainder = Operation("-", Operation("%", X, Const(4)), Const(1))
    assert assume("x > 1").follows(Comparison(">", remainder, Const(1))) is None


@given(st.lists(st.tuples(st.sampled_from("+-"), st.integers(-3, 3)), min_size=1, max_size=5))
def test_whole_numbers_are_added_up(added: list[tuple[str, int]]) -> None:
    number: Hashable = X
    for symbol, constant in added:
        number = computed(Operation(symbol, number, Const(constant)))
    total = sum(constant if symbol == "+" else -constant for symbol, constant in added)
    assert parts_of_sum(number) == (X, total)
    zero = Assumed([(Comparison("==", X, Const(0)), True)])
    assert zero.follows(Comparison("==", number, Const(total))) in (True, None)


@pytest.mark.parametrize("last", [Const(1.5), Const(True), Const("a"), Y])
def test_others_are_not_added_up(last: Hashable) -> None:
    before = Operation("+", X, Const(1))
    assert computed(Operation("+", before, last)) == Operation("+", before, last)


@given(st.integers(-4, 4), st.lists(comparisons, max_size=4), comparisons)
def test_what_follows_holds(x: int, others: list[tuple[str, int, bool]], asked: tuple[str, int, bool]) -> None:
    def told(symbol: str, constant: int, mirrored: bool) -> Hashable:
        return Comparison(MIRRORED[symbol], Const(constant), X) if mirrored else Comparison(symbol, X, Const(constant))

    assumed = Assumed()
    for each in others:
        assumed.follows(told(*asked))  # what is learned later counts, too
        assumed[told(*each)] = OPERATORS[each[0]](x, each[1])
    assert assumed.follows(told(*asked)) in (None, OPERATORS[asked[0]](x, asked[1]))
    assert assumed.follows(X) in (None, bool(x))
