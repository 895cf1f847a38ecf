"""What a rule says does not depend on which others take part."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.rule import Rule, all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.python.budget import Budget
from gradlint.static.text.project import Project

TEXT = """
import torch


def train(model, loader, optimizer, every):
    scaler = torch.amp.GradScaler()
    for i, x in enumerate(loader):
        loss = model(x).mean()
        scaler.scale(loss).backward()
        if i % every == every - 1:
            scaler.step(optimizer)
            scaler.update()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
"""


def rows(code: str, rules: list[type[Rule]], folder: Path) -> list[int]:
    """The rows at which a rule finds something in the text."""
    path = folder / "train.py"
    path.write_text(TEXT, encoding="utf-8")
    findings = analyze(Project([folder]), [path], rules).findings
    return [finding.location.row for finding in findings if finding.code == code]


@pytest.mark.parametrize("other", [None, "GL202", "GL206", "GL211", "GL212", "all"])
@pytest.mark.parametrize(("code", "row"), [("GL201", 9), ("GL211", 13)])
def test_events_of_other_rules_change_nothing(code: str, row: int, other: str | None, tmp_path: Path) -> None:
    taking_part = [rule for rule in all_rules() if rule.code in (code, other) or other == "all"]
    assert rows(code, taking_part, tmp_path) == [row]


MANY = """
import sys
import torch
import torch.nn as nn


class Shallow(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def forward(self, x):
        return self.body(x)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))

    def forward(self, x):
        return self.body(x)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)

    def forward(self, x):
        return self.body(x)


def generator(name):
    if name == "a":
        net = Shallow()
    elif name == "b":
        net = Deep()
    elif name == "c":
        net = Bare()
    elif name == "d":
        net = nn.Linear(8, 8)
    else:
        raise NotImplementedError
    return net


def critic(name):
    if name == "a":
        net = nn.Linear(8, 1)
    elif name == "b":
        net = nn.Sequential(nn.Linear(8, 1))
    elif name == "c":
        net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
    else:
        raise NotImplementedError
    return net


made = generator(sys.argv[1])
judge = critic(sys.argv[2])
fixed = torch.randn(4, 8)
optimizer = torch.optim.Adam(made.parameters(), lr=0.1)
for epoch in range(10):
    for real in [torch.randn(4, 8)] * 3:
        fake = made(torch.randn(4, 8))
        (-judge(fake).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
    shown = made(fixed)
    print(shown.detach().numpy())
"""


@pytest.mark.parametrize("code", ["GL201", "GL406"])
def test_as_much_is_followed_whichever_rules_are_selected(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    tick = Budget.tick

    def counted(budget: Budget) -> None:
        steps[-1] += 1
        tick(budget)

    monkeypatch.setattr(Budget, "tick", counted)
    (tmp_path / "main.py").write_text(MANY)
    for rules in ([rule for rule in all_rules() if rule.code == code], all_rules()):
        steps.append(0)
        analyze(Project([tmp_path]), [tmp_path / "main.py"], rules)
    alone, together = steps
    assert alone == together > 100


def test_what_a_rule_encloses_is_silenced_only_where_it_is_the_same_mistake(tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    path.write_text(
        "import torch\nfrom torch.autograd import Variable\n\n"
        "hidden = torch.nn.Linear(4, 4)(torch.randn(2, 4))\n"
        "leaf = Variable(hidden.data, requires_grad=True)\n"
        "print(leaf, hidden.mean().data[0])\n",
        encoding="utf-8",
    )
    rules = [rule for rule in all_rules() if rule.code in ("GL102", "GL901")]
    findings = analyze(Project([tmp_path]), [path], rules).findings
    assert sorted((finding.location.row, finding.code) for finding in findings) == [
        (5, "GL102"),
        (5, "GL901"),
        (6, "GL901"),
    ]


NETS = """\
from madeup import monitor
from torch import nn, randn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(x)


held = monitor.Writer()
held.note(Net().eval()(randn(2, 3)))
"""
USING = """\
from nets import Net, held


def first(x):
    net = Net().eval()
    out = net(x)
    held.note(out)
    print(held.last().argmax().item())


def second(x):
    net = Net().eval()
    print(held.last().argmax(1).tolist())
    print(net(x).argmax().item())
"""


def test_what_a_function_hands_to_an_object_of_a_file_is_forgotten_with_it(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    path = tmp_path / "main.py"
    path.write_text(USING, encoding="utf-8")
    rules = [rule for rule in all_rules() if rule.code == "GL406"]
    result = analyze(Project([tmp_path]), [path], rules)
    assert not result.crashes
    assert [finding.location.row for finding in result.findings] == [6, 14]
