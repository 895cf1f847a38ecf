"""The work that programs make which are hard to follow grows with their size, not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project

GROWTH = 2.5  #: times the work, for twice the size
Files = dict[str, str]  #: texts by the names of the files

_HEAD = "import torch\nfrom torch import nn\n\n"
_FLAWED = "\nx = torch.ones(2, requires_grad=True)\nx.numpy()\n"
_TRAINING = """\
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(8, 4, 2):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


def shape_conditions(number: int) -> Files:
    """Independent conditions on the shape of a tensor."""
    rows = "".join(f"    if x.shape[{i}] > {i}:\n        n{i} = {i}\n" for i in range(number))
    return {"train.py": f"{_HEAD}def train(model, x):\n{rows}    loss = model(x).sum()\n    loss.backward()\n{_FLAWED}"}


def import_cycle(number: int) -> Files:
    """Modules that each import the next, around a circle, and use what is there."""
    return {
        f"part_{i}.py": f"{_HEAD}from part_{(i + 1) % number} import Net{(i + 1) % number}, run{(i + 1) % number}\n\n"
        f"class Net{i}(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(2, 2)\n"
        f"    def forward(self, x):\n        return self.layer(x)\n\n"
        f"def run{i}(model):\n{_TRAINING}    return run{(i + 1) % number}(Net{(i + 1) % number}())\n{_FLAWED}"
        for i in range(number)
    }


def layers(number: int) -> Files:
    """A model of many layers, each an attribute of its own."""
    made = "".join(f"        self.l{i} = nn.Linear(4, 4)\n" for i in range(number))
    used = "".join(f"        x = self.l{i}(x)\n" for i in range(number))
    return {
        "train.py": f"{_HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{made}"
        f"    def forward(self, x):\n{used}        return x\n\n"
        f"def main():\n    model = Net()\n{_TRAINING}\nmain()\n{_FLAWED}"
    }


def long_list(number: int) -> Files:
    """A list of many numbers."""
    return {"train.py": f"{_HEAD}data = [{', '.join(map(str, range(number)))}]\nt = torch.tensor(data)\n{_FLAWED}"}


def unknown_calls(number: int) -> Files:
    """A value that goes through many calls of which nothing is known."""
    calls = "    x = f(x, y)\n" * number
    return {"train.py": f"{_HEAD}def run(f, x, y):\n{calls}    x.backward()\n{_FLAWED}"}


def same_statement(number: int) -> Files:
    """One statement, many times."""
    rows = "x = 1\n" * number
    return {"train.py": f"{_HEAD}{rows}{_FLAWED}"}


def shared_bases(number: int) -> Files:
    """Pairs of classes, both of each derived from both of those before."""
    pairs = "".join(
        f"class {name}{i}(A{i - 1}, B{i - 1}):\n    pass\n" for i in range(1, number) for name in ("A", "B")
    )
    return {
        "train.py": f"{_HEAD}class A0(nn.Linear):\n    pass\nclass B0(nn.Linear):\n    pass\n{pairs}"
        f"\nA{number - 1}(2, 2)(torch.ones(2)).numpy()\n{_FLAWED}"
    }


def cases(number: int) -> Files:
    """Cases of one ``match`` statement."""
    rows = "".join(f"        case {i}:\n            x = x * {i}\n" for i in range(number))
    return {"train.py": f"{_HEAD}def run(kind, x):\n    match kind:\n{rows}    x.backward()\n{_FLAWED}"}


def trainers(number: int) -> Files:
    """Functions that train one model, and each call three others."""
    text = "".join(
        f"def train{i}(model, optimizer, x, depth):\n    loss = model(x).sum()\n    loss.backward()\n"
        "    optimizer.step()\n    optimizer.zero_grad()\n"
        + "".join(
            f"    if depth > {j}:\n        train{(i * 7 + j * 3 + 1) % number}(model, optimizer, x, depth - 1)\n"
            for j in range(3)
        )
        for i in range(number)
    )
    start = (
        "model = nn.Linear(2, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "train0(model, optimizer, torch.randn(2, 2), int(input()))\n"
    )
    return {"train.py": f"{_HEAD}{text}\n{start}{_FLAWED}"}


def work(folder: Path, make: Callable[[int], Files], size: int) -> int:
    """How many calls an analysis makes, whatever the machine."""
    folder.mkdir()
    for file, text in make(size).items():
        (folder / file).write_text(text)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found = analyze(Project([folder]), sorted(folder.glob("*.py")), all_rules())
    finally:
        sys.setprofile(None)
    assert not found.crashes
    return calls


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (shape_conditions, 10),
        (import_cycle, 6),
        (layers, 60),
        (long_list, 500),
        (same_statement, 250),
        (cases, 200),
        (shared_bases, 16),
        (trainers, 40),
        (unknown_calls, 400),
    ],
)
def test_work_grows_with_the_size(make: Callable[[int], Files], size: int, tmp_path: Path) -> None:
    work(tmp_path / "before", make, 2)  # what is made once
    assert work(tmp_path / "large", make, 2 * size) <= GROWTH * work(tmp_path / "small", make, size)


def test_a_long_body_keeps_what_it_needs(tmp_path: Path) -> None:
    """What the first of many statements made is still there for the last, whatever was dropped meanwhile."""
    rows = "    y = torch.relu(layer(y))\n" * 500
    text = (
        f"def run():\n    layer = nn.Linear(2, 2)\n    loss = layer(torch.ones(2)).sum()\n    loss.backward()\n"
        f"    y = torch.ones(2)\n{rows}    loss.backward()\n\nrun()\n"
    )
    (tmp_path / "train.py").write_text(f"{_HEAD}{text}")
    found = analyze(Project([tmp_path]), [tmp_path / "train.py"], all_rules()).findings
    assert (last := text.count("\n", 0, text.rindex("loss.backward")) + 1 + _HEAD.count("\n")) > 500
    assert last in [finding.location.row for finding in found]


@pytest.mark.parametrize("kept", [None, 0, 50, 99])
def test_a_long_match_joins_what_agrees_only(tmp_path: Path, kept: int | None) -> None:
    """The one case of many that gives a tensor with its graph is not lost among the others."""
    ends = ["" if i == kept else ".detach()" for i in range(100)]
    rows = "".join(f"        case {i}:\n            y = (x * {i}){end}\n" for i, end in enumerate(ends))
    text = (
        f"def run(kind):\n    x = torch.ones(1, requires_grad=True)\n    match kind:\n{rows}"
        "        case _:\n            y = x.detach()\n    y.backward()\n\nrun(input())\n"
    )
    (tmp_path / "train.py").write_text(f"{_HEAD}{text}")
    found = analyze(Project([tmp_path]), [tmp_path / "train.py"], all_rules()).findings
    assert bool(found) is (kept is None)
