"""Programs of any size that are hard to follow: each grows in one way, by a number."""

from __future__ import annotations

from collections.abc import Callable

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


def conditions_in_a_row(number: int) -> Files:
    """Statements that each change one variable under a condition of their own."""
    rows = "".join(f"    if k == {i}:\n        l = l * {i}\n" for i in range(number))
    return {
        "train.py": f"{_HEAD}def train(model, k):\n    l = model(torch.ones(2)).sum()\n{rows}"
        f"    l.backward()\n{_FLAWED}"
    }


def shape_conditions(number: int) -> Files:
    """Independent conditions on the shape of a tensor."""
    rows = "".join(f"    if x.shape[{i}] > {i}:\n        n{i} = {i}\n" for i in range(number))
    return {"train.py": f"{_HEAD}def train(model, x):\n{rows}    loss = model(x).sum()\n    loss.backward()\n{_FLAWED}"}


def matched_cases(number: int) -> Files:
    """One match statement of many cases."""
    rows = "".join(f"        case {i}:\n            l = l * {i}\n" for i in range(number))
    return {
        "train.py": f"{_HEAD}def train(model, k):\n    l = model(torch.ones(2)).sum()\n    match k:\n{rows}"
        f"    l.backward()\n{_FLAWED}"
    }


def mutual_trainers(number: int) -> Files:
    """Functions that train, each of which may call any of the others."""
    calls = "".join(f"    if k == {i}:\n        train_{i}(model, k)\n" for i in range(number))
    return {
        "train.py": _HEAD + "".join(f"def train_{i}(model, k):\n{_TRAINING}{calls}\n" for i in range(number)) + _FLAWED
    }


def mutual_functions(number: int) -> Files:
    """Functions that each call their neighbours."""
    parts = "".join(
        f"def f{i}(x, k):\n    if k:\n        return f{(i + 1) % number}(x * 2, k - 1)\n"
        f"    return f{(i + 7) % number}(x, k) + f{(i + 3) % number}(x + 1, k)\n\n"
        for i in range(number)
    )
    return {"train.py": f"{_HEAD}{parts}{_FLAWED}\nf0(x, 3).sum().backward()\n"}


def mutual_classes(number: int) -> Files:
    """Modules whose methods build and call their neighbours."""
    parts = "".join(
        f"class C{i}(nn.Module):\n    def __init__(self, k=0):\n        super().__init__()\n"
        f"        self.layer = nn.Linear(2, 2)\n        self.next = C{(i + 1) % number}(k - 1) if k else None\n"
        f"        self.other = C{(i + 7) % number}(k - 1) if k > 2 else None\n"
        f"    def forward(self, x):\n        x = self.layer(x)\n"
        f"        if self.next is not None:\n            x = self.next(x)\n"
        f"        return x\n    def step(self, x):\n        return C{(i + 3) % number}()(x) + self.forward(x)\n\n"
        for i in range(number)
    )
    return {"train.py": f"{_HEAD}{parts}{_FLAWED}\nC0(3)(x).sum().backward()\n"}


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


def same_statement(number: int) -> Files:
    """One statement, many times."""
    rows = "x = 1\n" * number
    return {"train.py": f"{_HEAD}{rows}{_FLAWED}"}


def nested_loops(number: int) -> Files:
    """Loops within loops, over known items."""
    rows = "".join(f"{'    ' * i}for i{i} in (1, 2, 3, 4, 5, 6, 7, 8):\n" for i in range(number))
    return {"train.py": f"{_HEAD}n = 0\n{rows}{'    ' * number}n = n + 1\n{_FLAWED}"}


HARD: dict[str, tuple[Callable[[int], Files], int]] = {
    "conditions": (conditions_in_a_row, 400),
    "shapes": (shape_conditions, 40),
    "match": (matched_cases, 900),
    "trainers": (mutual_trainers, 10),
    "functions": (mutual_functions, 200),
    "classes": (mutual_classes, 200),
    "imports": (import_cycle, 60),
    "layers": (layers, 5_000),
    "list": (long_list, 300_000),
    "statements": (same_statement, 5_000),
    "loops": (nested_loops, 12),
}
"""The programs, by name, each with a size at which it is to be checked in a few seconds."""
