"""What a parameter, a field or a variable is annotated with stands for what nobody gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project

HEAD = """from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim import Optimizer

class Net(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.fc = nn.Linear(size, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).softmax(-1)

class Plain(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)

class Base(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

"""


def found(text: str, folder: Path) -> list[tuple[str, int]]:
    """The codes of findings and their rows, counted from the first row behind the head."""
    path = folder / "main.py"
    path.write_text(HEAD + text, encoding="utf-8")
    rules = [rule for rule in all_rules() if rule.listens()]
    return [(f.code, f.location.row - HEAD.count("\n")) for f in analyze(Project([folder]), [path], rules).findings]


FIT = """def fit(m: {module}, o: {optimizer}, batches):
    for x, y in batches:
        {clear}
        loss = F.mse_loss(m(x), y)
        loss.backward()
        o.step()
"""


@pytest.mark.parametrize("module", ["nn.Module", "'nn.Module'", "torch.nn.Sequential", "Plain", "Base"])
@pytest.mark.parametrize("optimizer", ["Optimizer", "optim.AdamW", '"Optimizer"'])
def test_an_optimizer_that_is_asked_for(module: str, optimizer: str, tmp_path: Path) -> None:
    assert found(FIT.format(module=module, optimizer=optimizer, clear="pass"), tmp_path) == [("GL201", 5)]
    assert not found(FIT.format(module=module, optimizer=optimizer, clear="o.zero_grad()"), tmp_path)
    assert not found(FIT.format(module=module, optimizer=optimizer, clear="m.zero_grad()"), tmp_path)


@pytest.mark.parametrize("optimizer", ["Optimizer | None", "Optional[Optimizer]", "Stepper", "int", "'not a type'"])
def test_what_names_no_class_of_torch_says_nothing(optimizer: str, tmp_path: Path) -> None:
    assert not found(FIT.format(module="nn.Module", optimizer=optimizer, clear="pass"), tmp_path)


def test_two_optimizers_that_are_asked_for(tmp_path: Path) -> None:
    text = """
def fit(g: nn.Module, d: nn.Module, og: Optimizer, od: Optimizer, batches):
    for x, y in batches:
        og.zero_grad()
        od.zero_grad()
        F.mse_loss(d(x), y).backward()
        od.step()
        F.mse_loss(d(g(x)), y).backward()
        og.step()
"""
    assert not found(text, tmp_path)


@pytest.mark.parametrize(
    ("module", "codes"),
    [("Net", ["GL301"]), ("'Net'", ["GL301"]), ("Plain", []), ("Base", []), ("nn.Module", []), ("Optional[Net]", [])],
)
def test_a_model_of_the_project_that_is_asked_for(module: str, codes: list[str], tmp_path: Path) -> None:
    text = f"def loss_of(m: {module}, x, y):\n    return F.cross_entropy(m(x), y)\n"
    assert [code for code, _ in found(text, tmp_path)] == codes


LOSSES = {
    "parameter": """
def loss_of(lf: nn.CrossEntropyLoss, x, y):
    return lf(torch.softmax(x, 1), y)
""",
    "variable": """
def loss_of(cfg, x, y):
    lf: nn.CrossEntropyLoss = cfg.make()
    return lf(torch.softmax(x, 1), y)
""",
    "result": """
def loss_of(cfg, x, y):
    return F.cross_entropy(make(cfg)(x), y)

def make(cfg) -> Net:
    return cfg.make()
""",
    "field": """
@dataclass
class State:
    lf: nn.CrossEntropyLoss

def loss_of(state: State, x, y):
    return state.lf(torch.softmax(x, 1), y)
""",
    "object": """
class Engine:
    def __init__(self, lf: nn.CrossEntropyLoss) -> None:
        self.lf = lf

    def loss_of(self, x, y):
        return self.lf(torch.softmax(x, 1), y)
""",
}


@pytest.mark.parametrize("text", LOSSES.values(), ids=LOSSES.keys())
def test_a_softmax_before_what_is_asked_for(text: str, tmp_path: Path) -> None:
    assert [code for code, _ in found(text, tmp_path)] == ["GL301"]
    assert not found(text.replace("torch.softmax(x, 1)", "x").replace("Net:", "Plain:"), tmp_path)


def test_what_is_given_counts_more_than_what_is_asked_for(tmp_path: Path) -> None:
    text = "def loss_of(m: Net, x, y):\n    return F.cross_entropy(m(x), y)\n"
    assert not found(text + "\nloss_of(Plain(4), torch.ones(2, 4), [0, 1])\n", tmp_path)


def test_the_default_of_a_field_is_not_what_it_holds(tmp_path: Path) -> None:
    text = """
@dataclass
class Options:
    probabilities: bool = True

def loss_of(options: Options, x, y):
    if options.probabilities:
        x = torch.softmax(x, 1)
    if not options.probabilities:
        return F.cross_entropy(x, y)
    return F.nll_loss(torch.log(x), y)
"""
    assert [code for code, _ in found(text, tmp_path)] == ["GL306"]


def test_parameters_that_are_asked_for_require_grad_unless_they_are_frozen(tmp_path: Path) -> None:
    assert found("def values(m: Net, x):\n    return m(x).numpy()\n", tmp_path) == [("GL501", 2)]
    assert not found("def values(m: Net, x):\n    m.requires_grad_(False)\n    return m(x).numpy()\n", tmp_path)


def test_classes_that_ask_for_each_other(tmp_path: Path) -> None:
    text = """
class A(nn.Module):
    def __init__(self, b: B) -> None:
        super().__init__()
        self.b = b

class B(nn.Module):
    def __init__(self, a: A) -> None:
        super().__init__()
        self.a = a

def loss_of(a: A, x, y):
    return F.cross_entropy(torch.softmax(a.b(x), 1), y)
"""
    assert [code for code, _ in found(text, tmp_path)] == ["GL301"]
