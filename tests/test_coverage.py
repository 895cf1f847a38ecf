"""What the calls of a project never come to in a function is followed as if nothing called it."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.static.python.progress import Coverage
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.project import Project

NET = """\
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, donor=None):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.reset(donor)

    def reset(self, donor):
        if donor is None:
            nn.init.normal_(self.fc.weight)
            return
        self.fc.weight.data.copy_(donor.fc.weight)  # GL110

    def forward(self, x, drop=False):
        x = self.fc(x)
        if drop:
            x = F.dropout(x)  # GL401
        return x

"""


def marks(tmp_path: Path, text: str) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """The codes and rows that are told of a file, and those that are marked in it."""
    path = tmp_path / "main.py"
    path.write_text(text, encoding="utf-8")
    report = Engine(Configuration(isolated=True)).check([path], [path])
    assert report.troubles == []
    marked = {(row, line.split("# ")[1][:5]) for row, line in enumerate(text.splitlines(), 1) if "# GL" in line}
    return {(f.location.row, f.code) for f in report.findings}, marked


CALLS = {
    "body of the file": "net = Net()\nprint(net(torch.randn(2, 3)).shape)\n",
    "function": "def use():\n    return Net()(torch.randn(2, 3))\n\nuse()\n",
    "behind the end": """\
def show(x, quick=True):
    if quick:
        return None
    out = Net()(x)
    return out.numpy()  # GL501

show(torch.randn(2, 3))
""",
    "one of several branches": """\
def show(x, what="shape"):
    out = Net()(x)
    if what == "shape":
        print(out.shape)
    elif what == "values":
        print(out.numpy())  # GL501
    else:
        raise ValueError(what)

show(torch.randn(2, 3))
""",
    "in one line": """\
def show(x, values=False):
    out = Net()(x)
    if values: print(out.numpy())  # GL501

show(torch.randn(2, 3))
""",
    "a function that is called there only": """\
def values(net, x):
    return net(x).numpy()  # GL501

def main(show=False):
    net = Net()
    print(net(torch.randn(2, 3)).shape)
    if show:
        print(values(net, torch.randn(2, 3)))

main()
""",
    "what was executed is judged by its calls": """\
def train(optimizer, net, x, clear=True, values=False):
    if clear:
        optimizer.zero_grad()
    out = net(x)
    out.sum().backward()
    optimizer.step()
    if values:
        print(out.numpy())  # GL501: it was walked

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    train(optimizer, net, torch.randn(2, 3))
""",
    "another method puts the model into evaluation mode": """\
class Judge:
    def __init__(self):
        self.model = nn.Sequential(Net(), nn.BatchNorm1d(3))

    def run(self, batches):
        self.model.eval()
        return [self.score(x, y) for x, y in batches]

    def score(self, x, y, verbose=False):
        with torch.no_grad():
            right = (self.model(x).argmax(1) == y).sum().item()
        if verbose:
            with torch.no_grad():
                right = (self.model(x).argmax(1) == y).sum().item()
        return right

Judge().run([(torch.randn(2, 3), torch.tensor([0, 1]))])
""",
    "another method freezes the model": """\
class Features:
    def __init__(self):
        self.net = Net()

    def prepare(self):
        self.net.requires_grad_(False)

    def of(self, x, array=False):
        out = self.net(x)
        if array:
            out = out.numpy()
        return out

features = Features()
features.prepare()
features.of(torch.randn(2, 3))
""",
    "another method moves the model": """\
class Runner:
    def __init__(self):
        self.net = Net().cuda()

    def prepare(self):
        self.net.cpu()

    @torch.no_grad()
    def run(self, x, array=False):
        out = self.net(x)
        if array:
            out = out.numpy()
        return out

runner = Runner()
runner.prepare()
runner.run(torch.randn(2, 3))
""",
    "gradients are disabled around the call": """\
def values(x, array=False):
    out = Net()(x)
    if array:
        return out.numpy()
    return out

with torch.no_grad():
    values(torch.randn(2, 3))
""",
    "gradients are disabled around the call of a method": """\
class Reader:
    def __init__(self):
        self.net = Net()

    def read(self, x, array=False):
        out = self.net(x)
        if array:
            return out.numpy()
        return out

with torch.no_grad():
    Reader().read(torch.randn(2, 3))
""",
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS.keys())
def test_what_no_call_comes_to_is_followed(tmp_path: Path, calls: str) -> None:
    found, marked = marks(tmp_path, NET + calls)
    assert found == marked


FUNCTION = """\
def f(a):
    if a: one()
    else:
        two()
    for x in a:
        with x:
            three()
    try:
        four()
    except KeyError:
        five()
        six()
    def inner():
        seven()
    return 8
"""


def covered(tmp_path: Path) -> tuple[FunctionUnit, Coverage]:
    path = tmp_path / "main.py"
    path.write_text(FUNCTION, encoding="utf-8")
    (unit,) = Project([tmp_path]).module(path).units
    assert isinstance(unit, FunctionUnit)
    return unit, Coverage()


def meet(coverage: Coverage, unit: FunctionUnit, *names: str) -> None:
    """Execute all statements but the lines, and blocks of ``with``, that call one of these."""
    queue: list[cst.CSTNode] = [unit.node.body]
    while queue:
        node = queue.pop()
        text = cst.Module([]).code_for_node(node)
        passed_over = isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.With))
        if not (passed_over and any(f"{name}()" in text for name in names)):
            coverage.meets(id(node))
            queue += node.children
    coverage.enters(unit)
    coverage.settle()


def missed(coverage: Coverage, unit: FunctionUnit) -> list[str]:
    return [cst.Module([]).code_for_node(node).strip() for node in coverage.missed(unit)]


def test_what_was_executed_at_any_time_is_not_missed(tmp_path: Path) -> None:
    unit, coverage = covered(tmp_path)
    meet(coverage, unit, "one", "three", "five", "seven")
    assert missed(coverage, unit) == ["one()", "with x:\n    three()", "five()"]
    meet(coverage, unit, "one", "six", "four")
    assert missed(coverage, unit) == ["one()"]
    assert list(coverage.functions()) == [unit]
    meet(coverage, unit, "two")
    assert missed(coverage, unit) == []
    assert list(coverage.functions()) == []


def test_it_is_known_when_the_tree_is_parsed_again(tmp_path: Path) -> None:
    unit, coverage = covered(tmp_path)
    meet(coverage, unit, "two", "six")
    before = unit.node
    unit.let_go()
    assert missed(coverage, unit) == ["two()", "six()"]
    assert unit.node is not before


def test_of_a_function_that_was_not_executed_to_its_end_nothing_is_missed(tmp_path: Path) -> None:
    unit, coverage = covered(tmp_path)
    coverage.enters(unit)
    coverage.settle(whole=False)
    assert missed(coverage, unit) == []
    assert list(coverage.functions()) == []
    meet(coverage, unit, "two", "six")
    coverage.meets(id(unit.node.body.body[0].orelse.body.body[0]))  # type: ignore[union-attr]  # two()
    coverage.enters(unit)
    coverage.settle(whole=False)
    assert missed(coverage, unit) == ["six()"]


def test_functions_come_in_the_order_in_which_they_were_executed(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("".join(f"def f{n}():\n    pass\n" for n in range(50)), encoding="utf-8")
    units = [unit for unit in Project([tmp_path]).module(path).units if isinstance(unit, FunctionUnit)]
    coverage = Coverage()
    for unit in reversed(units):
        assert unit.node
        coverage.enters(unit)
    coverage.settle()
    assert list(coverage.functions()) == units[::-1]


def test_what_libcst_rejects_costs_nothing_else(tmp_path: Path) -> None:
    rejected = (
        "from contextlib import contextmanager\n\n@contextmanager\ndef frozen(x):\n    (x): int = 1\n    yield\n\n"
        "manager = frozen(1)\n"
    )
    found, marked = marks(tmp_path, rejected + NET + "net = Net()\nprint(net(torch.randn(2, 3)).numpy())  # GL501\n")
    assert found == marked
