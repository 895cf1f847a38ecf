"""The tool that plants mistakes in correct code: what it plants, what it leaves alone, what it counts."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PLANT, PROJECT = TESTS / "tooling" / "plant.py", TESTS / "example_project_fixed"

CORRECT = """\
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = F.dropout(x, 0.2, training=self.training)
        return self.head(x)


model = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for x, y in [(torch.randn(2, 4), torch.tensor([0, 1]))] * 8:
    optimizer.zero_grad()
    output = model(x)
    loss = criterion(output, y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(np.mean(losses), output.detach().numpy())
"""
PLANTED = {
    "GL101": ["output = model(x); output.data.mul_(0.5)"],
    "GL110": [
        "optimizer.step(); [p.data.clamp_(-1, 1) for p in model.parameters()]",
        "self.head = nn.Linear(4, 3); self.head.weight.data.normal_(0, 0.02)",
    ],
    "GL201": ["pass"],
    "GL301": [
        "loss = criterion(torch.softmax(output, dim=1), y)",
        "output = torch.softmax(model(x), dim=1)",
        "return torch.softmax(self.head(x), dim=1)",
    ],
    "GL308": [
        "loss = criterion(torch.log_softmax(output, dim=1), y)",
        "output = torch.log_softmax(model(x), dim=1)",
        "return torch.log_softmax(self.head(x), dim=1)",
    ],
    "GL401": ["return F.dropout(self.head(x), 0.5)", "x = F.dropout(x, 0.2)"],
    "GL501": [
        "losses.append(loss)",
        "output = model(x); print(output.cpu().numpy())",
        "print(np.mean(losses), output.numpy())",
    ],
    "GL502": [
        "model = Net().cuda()\noutput = model((x).cuda()); print(output.detach().numpy())",
        'model = Net().to(torch.device("cuda:0"))\noutput = model((x).to("cuda")); print(output.detach().numpy())',
    ],
}


def planted(folder: Path) -> dict[str, list[str]]:
    """The changed lines of the mutants of a project, by code."""
    import plant  # beside it: the tests are no package
    import shapes

    texts = plant.texts_of(folder)
    lines: dict[str, list[str]] = {}
    chance = random.Random(0)  # noqa: S311 -- an order, not a secret
    for mutant in plant.mutants(texts, sorted(plant.MUTATIONS), chance, 9):
        before = texts[mutant.changed].split("\n")
        after = shapes.apply(texts[mutant.changed], mutant.edits).split("\n")
        assert len(before) == len(after), "rows stay where they are"
        changed = [new.strip() for old, new in zip(before, after, strict=True) if old != new]
        lines.setdefault(mutant.code, []).append("\n".join(changed))
    return {code: sorted(found) for code, found in lines.items()}


@pytest.fixture(autouse=True)
def _tooling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PLANT.parent)


def test_each_mistake_is_planted_where_it_is_one(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(CORRECT, encoding="utf-8")
    assert planted(tmp_path) == PLANTED


def test_nothing_is_planted_where_it_would_be_right(tmp_path: Path) -> None:
    accumulating = CORRECT.replace("    optimizer.zero_grad()", "    if len(losses) % 4 == 0: optimizer.zero_grad()")
    (tmp_path / "main.py").write_text(accumulating.replace("    loss.backward()\n", ""), encoding="utf-8")
    assert planted(tmp_path) == {}, "nothing trains"
    (tmp_path / "main.py").write_text(accumulating, encoding="utf-8")
    assert "GL201" not in planted(tmp_path), "gradients may be accumulated"


def test_every_planted_mistake_is_found(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(CORRECT, encoding="utf-8")
    folders = [str(tmp_path), str(PROJECT)]
    done = subprocess.run([sys.executable, str(PLANT), *folders], capture_output=True, text=True, check=True)
    counts = re.findall(r"(GL\d+): planted (\d+), found (\d+)", done.stdout)
    assert {code for code, _, _ in counts} == set(PLANTED)
    assert all(each == found for _, each, found in counts), done.stdout
