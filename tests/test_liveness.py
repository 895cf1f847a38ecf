"""Which variables may still be read after a statement, and what it spares to know that."""

from __future__ import annotations

import ast
import builtins
import itertools
from pathlib import Path

import libcst as cst
import pytest

from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.source import source_from_text
from gradlint.static.python.budget import Budget
from gradlint.static.python.progress import _statements
from gradlint.static.state.context import Context
from gradlint.static.state.liveness import Live, Liveness, _Walk
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.files import Module
from gradlint.static.text.units import StatementUnit

FUNCTION = """\
def f(a, b, c):
    d = a + 1  # live: b c d
    if d:
        e = b  # live: c e
    else:
        e = c = 1  # live: c e
    return e + c
"""
LOOPS = """\
def f(items, n):
    total = 0  # live: items n total
    for item in items:
        new = item * 2  # live: n new total
        if new > n:
            continue
        last = new  # live: last n total
        total += last  # live: n total
        if total > n:
            break
    else:
        total = n  # live: n total
    while n:
        n, m = n - 1, total  # live: m n total
        print(m)  # live: n total
    return total
"""
WAYS_OUT = """\
def f(path, w, x, y, a, n):
    try:
        data = open(path)  # live: a data n rest w x y
        y = 1  # live: a data n rest w x y
    except OSError as error:
        data = w  # live: a data n rest x y
    finally:
        w = x  # live: a data n rest y
    with open(data) as stream:
        row = [w for w in stream if w]  # live: a n rest row stream y
        del w  # live: a n rest row stream y
    match row:
        case [x, *rest] if stream:
            y: int = x  # live: a rest y
        case {n.key: y, **rest}:
            print(rest)  # live: a rest y
        case _:
            raise KeyError(row)
    a[y] = rest  # live:
"""
DEFINITIONS = """\
def f(a, b, c):
    later = lambda: a + b  # live: a b c later
    a = 2  # live: a b c later
    c.a = c.b(a=1)  # live: a b later
    return later()
"""


def points(liveness: Liveness, unit: FunctionUnit | StatementUnit) -> dict[int, Live | None]:
    """By row, what may be read after the statements in a unit."""
    ctx = Context(unit.module, unit, 1)
    body = unit.node.body if isinstance(unit, FunctionUnit) else unit.node
    lines = [node for node in _statements(body) if isinstance(node, cst.SimpleStatementLine)]
    return {unit.locate(node).row: liveness.after(node, ctx) for node in lines}


def load(text: str) -> Module:
    module = Module(source_from_text(text, Path("/somewhere/file.py")), "file")
    module.check()
    return module


@pytest.mark.parametrize("text", [FUNCTION, LOOPS, WAYS_OUT, DEFINITIONS])
def test_what_may_be_read_after_each_statement(text: str) -> None:
    (unit,) = load(text).units
    assert isinstance(unit, FunctionUnit)
    names = (getattr(node, "arg", None) or getattr(node, "id", None) for node in ast.walk(ast.parse(text)))
    variables = {name for name in names if name and not hasattr(builtins, name)}
    found = {
        row: sorted(live.names & variables)
        for row, live in points(Liveness(), unit).items()
        if live is not None and "# live:" in text.splitlines()[row - 1]
    }
    marked = {
        row: line.partition("# live:")[2].split() for row, line in enumerate(text.splitlines(), 1) if "# live:" in line
    }
    assert found == marked
    assert len(marked) >= 3


def test_statements_after_which_something_is_not_read_any_more() -> None:
    (unit,) = load("def f(a, b):\n    c = a\n    d = c + b\n    d = d + 1\n    return b + d\n").units
    assert isinstance(unit, FunctionUnit)
    ctx, liveness = Context(unit.module, unit, 1), Liveness()
    assert [liveness.ends(node, ctx) for node in unit.node.body.body] == [True, True, False, True]


@pytest.mark.parametrize("look", ["eval(text)", "exec(text)", "locals()", "vars()", "print(dir())"])
def test_anything_may_be_read_by_a_name_that_is_computed(look: str) -> None:
    (unit,) = load(f"def f(text, a):\n    a = 1\n    return {look}\n").units
    assert isinstance(unit, FunctionUnit)
    assert set(points(Liveness(), unit).values()) == {None}


def test_the_mode_of_a_model_is_not_a_look_at_variables() -> None:
    (unit,) = load("def f(model, a):\n    a = vars(model.eval())\n    return model\n").units
    assert isinstance(unit, FunctionUnit)
    assert None not in points(Liveness(), unit).values()


def test_variables_of_a_file_may_be_read_by_its_functions_and_by_what_comes_later() -> None:
    module = load(
        "for x in range(3):\n"
        "    a, b, c, d = x, x, x, x\n"
        "    print(a)\n"
        "print(b)\n"
        "def f(a):\n"
        "    return [c for _ in range(3)]\n"
    )
    unit = module.units[0]
    assert isinstance(unit, StatementUnit)
    after = points(Liveness(), unit)
    assert after[2] is not None
    assert after[3] is not None
    assert after[2].names & set("abcdx") == set("abc")
    assert after[3].names & set("abcdx") == set("bc")


def steps(root: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The statements that are executed to check a file."""
    taken = 0
    tick = Budget.tick

    def counting(budget: Budget) -> None:
        nonlocal taken
        taken += 1
        tick(budget)

    path = root / "main.py"
    path.write_text(text, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(Budget, "tick", counting)
        report = Engine(Configuration(isolated=True)).check([path], [path])
    assert report.troubles == []
    assert [finding.code for finding in report.findings] == ["GL201"]
    return taken


TRAINING = """\
import sys
import torch
from torch import nn

net = nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(int(sys.argv[1])):
    for x in torch.randn(9, 3, 2):
{}
        net(x).sum().backward()
        optimizer.step()
"""


def test_choices_that_are_over_do_not_multiply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    branch = (
        "        if x[{0}].item() > 0:\n"
        "            y{0} = x.cuda()\n"
        "        else:\n"
        "            y{0} = x.softmax(0)\n"
        "        print(y{0})\n"
    )
    few, many, more = (
        steps(tmp_path, TRAINING.format("".join(map(branch.format, range(count)))), monkeypatch)
        for count in (2, 12, 22)
    )
    assert more - many == many - few <= 400  # 2,663 if each value is kept apart to the end


def test_nested_loops_cost_in_proportion_to_their_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def text(depth: int) -> str:
        loops = "".join(f"{'    ' * (2 + n)}for i{n} in range(len(x)):\n" for n in range(depth))
        return TRAINING.format(loops + "    " * (2 + depth) + "print(x.mean())")

    costs = [steps(tmp_path, text(depth), monkeypatch) for depth in (1, 2, 3, 4, 5, 6)]
    grown = [later - before for before, later in itertools.pairwise(costs)]
    assert max(grown) <= 2 * min(grown)


def test_the_body_of_a_loop_is_gone_through_twice_however_deep_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    depth = 18
    loops = "".join(f"{'    ' * (1 + n)}for i{n} in a:\n" for n in range(depth))
    (unit,) = load(f"def f(a, b):\n{loops}{'    ' * (1 + depth)}b = i0 + b\n    return b\n").units
    assert isinstance(unit, FunctionUnit)
    visits = 0
    statement = _Walk.statement

    def counting(walk: _Walk, node: cst.CSTNode, live: frozenset[str]) -> frozenset[str]:
        nonlocal visits
        visits += 1
        return statement(walk, node, live)

    monkeypatch.setattr(_Walk, "statement", counting)
    (live, _) = points(Liveness(), unit).values()
    assert live is not None
    assert {"a", "b", "i0"} <= live.names
    assert visits <= 5 * (depth + 2)
