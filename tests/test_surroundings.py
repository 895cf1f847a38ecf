"""What the lines around a place tell: branches, and words that say that something is shared."""

from __future__ import annotations

import pytest

from gradlint.static.knowledge.guesses import is_misspelt
from gradlint.static.text.index import misspells, repeats
from gradlint.surroundings import is_chosen, says_shared

TEXT = """\
def build(count, tied):
    if tied:
        for _ in range(2):
            one = make(
                count,
            )
    else:
        one = other(count)
    layers = make(count)  # weights are shared


if __name__ == "__main__":
    build(3, True)
""".splitlines()


def test_a_branch_is_one_however_deep_a_statement_stands_in_it() -> None:
    assert [row for row in range(1, len(TEXT) + 1) if TEXT[row - 1].strip() and is_chosen(TEXT, row)] == [3, 4, 5, 6, 8]


def test_the_words_of_some_rows_tell_of_sharing() -> None:
    assert says_shared(TEXT, 9, 9)
    assert says_shared(TEXT, 1, 1)
    assert not says_shared(TEXT, 3, 8)
    assert not says_shared(["properties = strategies"], 1, 1)


@pytest.mark.parametrize(
    "text",
    ["layers = [layer] * 3", "return [layer] * n", "f(*[layer]\n  * n)", "(layer,) * 3", "3 * [layer]", "n() * [a, b]"],
)
def test_lists_that_are_multiplied(text: str) -> None:
    assert repeats(text)


@pytest.mark.parametrize("text", ["x[0] * y", "f(*[a, b])", "x[0] ** 2", "call(a, b) * 3", "x[i] *= 2", "[a, *b]"])
def test_what_is_multiplied_is_no_list(text: str) -> None:
    assert not repeats(text)


@pytest.mark.parametrize(
    "name",
    [
        "require_grad",
        "requires_gard",
        "requires_grads",
        "requires_grad_",
        "requiresgrad",
        "requiresGrad",
        "requires_grd",
    ],
)
def test_one_slip_away(name: str) -> None:
    assert is_misspelt(name)
    assert misspells(f"x.{name} = False")
    assert not misspells(f"x.{name} == False")


@pytest.mark.parametrize("name", ["requires_grad", "requires_graph", "required", "requires_gradcam", "grad"])
def test_other_names(name: str) -> None:
    assert not is_misspelt(name)
