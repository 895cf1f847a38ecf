"""What loops count and set anew, and where either branch walks back."""

from __future__ import annotations

import libcst as cst
import pytest

from gradlint.static.text.counters import Counted, counted_around


def first_test(code: str) -> tuple[cst.BaseExpression, Counted]:
    """The first condition of a branch, and what is counted around it."""
    loop = cst.parse_statement(code)
    found = counted_around(loop)
    pending: list[cst.CSTNode] = [loop]
    while pending:
        node = pending.pop(0)
        if isinstance(node, cst.If):
            return node.test, found[id(node.test)]
        pending += node.children
    raise AssertionError(code)


@pytest.mark.parametrize(
    "body",
    [
        "    n += 1\n    if n == k:\n        n = 0\n",
        "    n = n + 1\n    if n >= k:\n        n = 0\n",
        "    n -= 1\n    if n > 0:\n        continue\n    n = k\n",
        "    for part in x:\n        n += 1\n    if n >= k:\n        n = 0\n",
    ],
)
def test_a_counter_is_set_anew_in_some_of_the_iterations(body: str) -> None:
    test, counted = first_test(f"for x in batches:\n{body}")
    assert isinstance(test, cst.Comparison)
    assert counted.turns(test)


@pytest.mark.parametrize(
    "code",
    [
        "for x in batches:\n    n += 1\n    if n == k:\n        print(n)\n",
        "for x in batches:\n    n = 0\n    n += 1\n    if n == k:\n        print(n)\n",
        "for x in batches:\n    if n == k:\n        n = 0\n",
        "for e in es:\n    n = 0\n    for x in xs:\n        n += 1\n        if n == k:\n            print(n)\n",
    ],
)
def test_what_only_grows_or_begins_anew_each_time_does_not_take_turns(code: str) -> None:
    test, counted = first_test(code)
    assert isinstance(test, cst.Comparison)
    assert not counted.turns(test)


@pytest.mark.parametrize(
    ("condition", "ends"),
    [
        ("i == len(batches) - 1", True),
        ("i == k - 1", True),
        ("i != k - 1", False),
        ("not i == k - 1", False),
        ("not i != k - 1", True),
        ("i == 3", None),
        ("i > k - 1", None),
    ],
)
def test_the_number_of_the_last_iteration(condition: str, ends: bool | None) -> None:
    test, counted = first_test(f"for i, x in enumerate(batches):\n    if {condition}:\n        print(i)\n")
    assert counted.ends(test) is ends


@pytest.mark.parametrize(
    ("rest", "either"),
    [
        ("    else:\n        loss.backward()\n", True),
        ("    else:\n        print(x)\n", False),
        ("    loss.backward()\n", False),
        ("        continue\n    loss.backward()\n", True),
        ("", False),
        ("    else:\n        continue\n    loss.backward()\n", False),
    ],
)
def test_either_branch_makes_a_backward_pass(rest: str, either: bool) -> None:
    _, counted = first_test(f"for x in batches:\n    if n == k:\n        loss.backward()\n{rest}")
    assert counted.either_walks is either


def test_the_other_branch_may_be_the_one_that_leaves() -> None:
    _, counted = first_test(
        "for x in batches:\n    if n < k:\n        pass\n    else:\n"
        "        loss.backward()\n        continue\n    loss.backward()\n"
    )
    assert counted.either_walks
