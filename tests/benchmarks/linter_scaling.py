"""How the time of a check grows with programs that are hard to follow or have many files, each of two sizes.

Run from anywhere, with gradlint installed; nothing is fetched::

    python tests/benchmarks/linter_scaling.py                  # all kinds
    python tests/benchmarks/linter_scaling.py match layers     # some
    python tests/benchmarks/linter_scaling.py --keep FOLDER    # leave the programs there

Every check runs in a process of its own, without a cache and with all rules.  Told are the seconds of user and system
time that the operating system counted for a program and for one of twice the size, and their ratio without what a
check of nothing takes.  Every program ends in a mistake (GL102, a value read through ``.data``) that has to be found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HEAD = "import torch\nfrom torch import nn, optim\n\n"
FLAW = "\nlast = torch.ones(2, requires_grad=True)\nprint(last.data)\n"
Files = dict[str, str]  #: texts by the names of the files; the first is checked


def _script(text: str) -> Files:
    return {"train.py": f"{HEAD}{text}{FLAW}"}


def conditions(number: int) -> Files:
    """``if`` statements in a row, about one value."""
    rows = "".join(f"    if k == {i}:\n        l = l * {i}\n" for i in range(number))
    return _script(f"def f(k, l):\n{rows}    l.backward()\n\nf(1, torch.ones(1, requires_grad=True))\n")


def match(number: int) -> Files:
    """Cases of one ``match`` statement."""
    rows = "".join(f"        case {i}:\n            l = l * {i}\n" for i in range(number))
    text = f"def f(k, l):\n    match k:\n{rows}    l.backward()\n\nf(input(), torch.ones(1, requires_grad=True))\n"
    return _script(text)


def _calls(number: int, each: int) -> list[list[int]]:
    return [[(i * 7 + j * 3 + 1) % number for j in range(each)] for i in range(number)]


def functions(number: int) -> Files:
    """Functions that each call three others."""
    text = ""
    for i, others in enumerate(_calls(number, 3)):
        rows = "".join(f"    x = f{j}(x, d - 1)\n" for j in others)
        text += f"def f{i}(x, d):\n    if d == 0:\n        return x\n{rows}    return x * 2\n\n"
    return _script(f"{text}f0(torch.ones(1, requires_grad=True), 3).backward()\n")


def _trainers(calls: list[list[int]]) -> Files:
    text = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(3, 3)\n\n    def forward(self, x):\n        return self.layer(x)\n\n"
    )
    for i, others in enumerate(calls):
        text += (
            f"def train{i}(model, opt, x, depth):\n    loss = model(x).sum()\n    loss.backward()\n"
            "    opt.step()\n    opt.zero_grad()\n"
        )
        for place, other in enumerate(others):
            text += f"    if depth > {place}:\n        train{other}(model, opt, x, depth - 1)\n"
    start = "m = Net()\no = optim.SGD(m.parameters(), 0.1)\ntrain0(m, o, torch.randn(3, 3), int(input()))\n"
    return _script(f"{text}\n{start}")


def trainers(number: int) -> Files:
    """Functions that train one model, and each call three others."""
    return _trainers(_calls(number, 3))


def all_trainers(calls: int) -> Files:
    """Functions that train one model and all call one another, by the number of calls."""
    number = round(calls**0.5)
    return _trainers([[j for j in range(number) if j != i] for i in range(number)])


def classes(number: int) -> Files:
    """Modules that build two others each."""
    text = "".join(
        f"class C{i}(nn.Module):\n    def __init__(self, d):\n        super().__init__()\n"
        f"        self.l = nn.Linear(3, 3)\n        if d > 0:\n            self.a = C{(i * 7 + 1) % number}(d - 1)\n"
        f"            self.b = C{(i * 3 + 2) % number}(d - 1)\n\n"
        "    def forward(self, x):\n        return self.a(self.b(self.l(x)))\n\n"
        for i in range(number)
    )
    return _script(f"{text}C0(int(input()))(torch.randn(3, 3)).sum().backward()\n")


def cycle(imports: int) -> Files:
    """Modules that all import one another, by the number of imports."""
    number = round(imports**0.5)
    start = "import torch\nfrom pkg import m0\n\nm0.K0()(torch.ones(2, requires_grad=True)).sum().backward()\n"
    files = {"main.py": f"{start}{FLAW}", "pkg/__init__.py": ""}
    for i in range(number):
        imported = "".join(f"from . import m{j}\n" for j in range(number) if j != i)
        one, other = (i + 1) % number, (i * 5 + 3) % number
        files[f"pkg/m{i}.py"] = (
            f"{imported}{HEAD}def g{i}(x, d):\n    return m{one}.g{one}(x, d - 1) if d else x * 2\n\n"
            f"class K{i}(nn.Module):\n    def forward(self, x):\n        return m{other}.g{other}(x, 2)\n"
        )
    return files


def layers(number: int) -> Files:
    """Layers of one model, each an attribute of its own."""
    made = "".join(f"        self.l{i} = nn.Linear(8, 8)\n" for i in range(number))
    used = "".join(f"        x = torch.relu(self.l{i}(x))\n" for i in range(number))
    return _script(
        f"class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{made}\n"
        f"    def forward(self, x):\n{used}        return x\n\n"
        "m = Net()\no = optim.SGD(m.parameters(), 0.1)\nfor _ in range(10):\n    o.zero_grad()\n"
        "    m(torch.randn(4, 8)).sum().backward()\n    o.step()\n"
    )


def sequential(number: int) -> Files:
    """Layers of one ``nn.Sequential``."""
    return _script(
        f"m = nn.Sequential(\n{'    nn.Linear(8, 8),' * number}\n)\no = optim.SGD(m.parameters(), 0.1)\n"
        "for _ in range(10):\n    o.zero_grad()\n    m(torch.randn(4, 8)).sum().backward()\n    o.step()\n"
    )


def numbers(number: int) -> Files:
    """Numbers of one list."""
    return _script(f"data = [{', '.join(map(str, range(number)))}]\nx = torch.tensor(data)\n")


def experiments(number: int) -> Files:
    """Small experiments of four files each, which import one another, as research code does."""
    network = (
        "class Net(nn.Module):\n    def __init__(self, width=32):\n        super().__init__()\n"
        "        self.body = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Dropout(0.2))\n"
        "        self.head = nn.Linear(width, 4)\n\n"
        "    def forward(self, x):\n        return self.head(self.body(x))\n"
    )
    data = (
        "from torch.utils.data import DataLoader, TensorDataset\n\ndef batches(size=8):\n"
        "    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))\n"
        "    return DataLoader(data, batch_size=size, shuffle=True)\n"
    )
    helpers = (
        "def update(loss, optimizer):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
        "    return loss.item()\n\n@torch.no_grad()\ndef accuracy(model, loader):\n    model.eval()\n"
        "    hits = [(model(x).argmax(1) == y).float().mean().item() for x, y in loader]\n"
        "    return sum(hits) / len(hits)\n"
    )
    train = (
        "from .data import batches\nfrom .helpers import accuracy, update\nfrom .network import Net\n\n"
        "def main(epochs=5):\n    model = Net()\n    criterion = nn.CrossEntropyLoss()\n"
        "    optimizer = optim.Adam(model.parameters(), lr=1e-3)\n    for epoch in range(epochs):\n"
        "        model.train()\n        for x, y in batches():\n            update(criterion(model(x), y), optimizer)\n"
        "        print(epoch, accuracy(model, batches()))\n\nif __name__ == '__main__':\n    main()\n"
    )
    parts = {"__init__": "", "network": network, "data": data, "helpers": helpers, "train": train}
    files = {"last.py": f"{HEAD}{FLAW}"}
    for i in range(number):
        files |= {f"experiment_{i}/{name}.py": f"{HEAD}{text}" if text else "" for name, text in parts.items()}
    return files


KINDS: dict[Callable[[int], Files], int] = {
    conditions: 3200,
    match: 900,
    functions: 200,
    trainers: 100,
    all_trainers: 400,
    classes: 100,
    cycle: 3600,
    experiments: 50,
    layers: 2500,
    sequential: 2500,
    numbers: 150_000,
}
"""The kinds of programs, and the smaller of the two sizes."""


def check(folder: Path, file: str) -> tuple[float, bool]:
    """CPU seconds of a check of a folder in a process of its own, and whether the mistake at the end was found."""
    options = ("--isolated", "--no-cache", "--select", "ALL", "--output-format", "json")
    command = [sys.executable, "-m", "gradlint", "check", *options, str(folder)]
    before = os.times()
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    after = os.times()
    rows = {
        (found["code"], found["location"]["row"])
        for found in json.loads(told.stdout)
        if Path(found["filename"]).name == file
    }
    last = (folder / file).read_text().count("\n")
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, ("GL102", last) in rows


def main() -> None:
    """Print the figures asked for."""
    names = {kind.__name__: kind for kind in KINDS}
    parser = argparse.ArgumentParser(description="time of a check against the size of programs")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"one of {', '.join(names)}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    wanted = [names[name] for name in options.kinds] or list(KINDS)
    with tempfile.TemporaryDirectory() as scratch:
        root = options.keep or Path(scratch)

        def measured(name: str, files: Files) -> tuple[float, bool]:
            for file, text in files.items():
                path = root / name / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check(root / name, next(iter(files)))

        start, _ = measured("nothing", {"train.py": "import torch\n"})
        print(f"a check of nothing takes {start:.2f} s\n\nkind               n       s      2n       s  ratio  found")
        for kind in wanted:
            size = KINDS[kind]
            (one, first), (two, second) = (measured(f"{kind.__name__}_{n}", kind(n)) for n in (size, 2 * size))
            ratio = (two - start) / max(one - start, 0.01)
            found = "yes" if first and second else "NO"
            print(f"{kind.__name__:12} {size:7} {one:7.2f} {2 * size:7} {two:7.2f} {ratio:6.2f}  {found}", flush=True)


if __name__ == "__main__":
    main()
