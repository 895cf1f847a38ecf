"""The keys of unknown values tell apart what is not the same."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import pytest

from gradlint.static.state import origins
from gradlint.static.state.origins import CutFrom, ElementOf, ItemOf, New, Operation, Origin, Parameter, operands

KINDS: list[Any] = [
    kind for kind in vars(origins).values() if isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple
]


def made(kind: Any) -> Any:
    """An origin of a kind with the same fields as all the others, as far as they have any in common."""
    fields = len(kind._fields) - 1
    return kind(*(1,) * fields)


def test_no_two_kinds_are_equal() -> None:
    assert len({made(kind) for kind in KINDS}) == len(KINDS) > 30


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_field_is_the_kind_and_no_other_origin_has_it(kind: Any) -> None:
    assert kind._fields[-1] == "kind"
    assert [other for other in KINDS if other._field_defaults["kind"] == kind._field_defaults["kind"]] == [kind]


def test_what_an_unknown_value_may_be_is_listed() -> None:
    assert set(get_args(Origin)) <= set(KINDS)


class Case(NamedTuple):
    key: Any
    parts: tuple[Any, ...]


A, B = Parameter("f", "a", 0), Parameter("f", "b", 0)


@pytest.mark.parametrize(
    "case",
    [
        Case(Operation("+", A, B), (A, B)),
        Case(origins.UnaryOperation("-", A), (A,)),
        Case(origins.OneOf(1, (A, B)), (A, B)),
        Case(origins.Combined(1, (B, A)), (B, A)),
        Case(ItemOf(A, B), ()),
        Case(ElementOf(1, A), ()),
        Case(CutFrom(A), ()),
        Case(New("item", 1), ()),
    ],
)
def test_what_a_value_was_computed_from(case: Case) -> None:
    assert operands(case.key) == case.parts
