"""Parameters that are frozen when their optimizer is built, and thawed later: whenever that is, and whoever looks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime import Guard


class Net(nn.Module):
    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(*(nn.Linear(4, 4) for _ in range(depth)))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]  # modules are not typed

    def in_parts(self, x: torch.Tensor) -> torch.Tensor:
        features = self.body(x)
        return self.head(features)  # type: ignore[no-any-return]  # modules are not typed


def freeze(model: Net) -> torch.optim.Optimizer:
    model.body.requires_grad_(False)
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)


def train(call: Callable[[torch.Tensor], torch.Tensor], optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        call(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()


def codes(guard: Guard) -> list[str]:
    assert not guard._failed
    return [finding.code for finding in guard.findings]


def watch() -> Guard:
    """As ``gradlint run`` does: nothing is known before it happens."""
    return gradlint.guard(on_finding="collect", select="GL216")


@pytest.mark.parametrize("before", [3, 9, 50])
@pytest.mark.parametrize("after", [2, 10])
def test_the_model_is_gone_when_the_guard_ends(before: int, after: int) -> None:
    def main() -> None:
        model = Net()
        optimizer = freeze(model)
        train(model, optimizer, before)
        for parameter in model.body.parameters():
            parameter.requires_grad = True
        train(model, optimizer, after)

    with watch() as guard:
        main()
    assert codes(guard) == ["GL216"]
    assert "`body.0.weight`, `body.0.bias`, `body.1.weight` and 1 more, thawed" in guard.findings[0].message


def test_one_of_many_is_seen_within_some_steps() -> None:
    model = Net(depth=200)
    with watch() as guard:
        optimizer = freeze(model)
        train(model, optimizer, 9)
        model.body[150].requires_grad_(True)
        train(model, optimizer, 20)
    assert codes(guard) == ["GL216"]
    assert "`body.150.weight`, `body.150.bias`, thawed" in guard.findings[0].message


def test_parts_are_called_and_the_model_never() -> None:
    model = Net()
    with watch() as guard:
        optimizer = freeze(model)
        train(model.in_parts, optimizer, 9)
        model.body.requires_grad_(True)
        train(model.in_parts, optimizer, 4)
    assert codes(guard) == ["GL216"]


def test_networks_that_have_no_model_in_common_are_each_ones_own() -> None:
    body, head = nn.Linear(4, 4), nn.Linear(4, 2)
    body.requires_grad_(False)
    with watch() as guard:
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        train(lambda x: head(body(x)), optimizer, 9)
        body.requires_grad_(True)
        train(lambda x: head(body(x)), optimizer, 9)
    assert codes(guard) == []


@pytest.mark.parametrize("built", [False, True])
def test_frozen_when_it_was_known_already(built: bool) -> None:
    model = Net()
    with watch() as guard:
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 5) if built else model(torch.randn(3, 4))
        optimizer = freeze(model)
        train(model, optimizer, 9)
        model.body.requires_grad_(True)
        train(model, optimizer, 4)
    assert codes(guard) == ["GL216"]


# --- silent ----------------------------------------------------------------------------------------------------


def added(model: Net, optimizer: torch.optim.Optimizer) -> None:
    optimizer.add_param_group({"params": list(model.body.parameters())})
    train(model, optimizer, 9)


def owned_by_another(model: Net, optimizer: torch.optim.Optimizer) -> None:
    other = torch.optim.SGD(model.body.parameters(), lr=0.1)
    for _ in range(9):
        other.zero_grad()
        train(model, optimizer, 1)
        other.step()


def moved_by_hand(model: Net, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(9):
        train(model, optimizer, 1)
        with torch.no_grad():
            for parameter in model.body.parameters():
                assert parameter.grad is not None
                parameter -= 0.1 * parameter.grad
                parameter.grad = None


def moved_through_data(model: Net, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(9):
        train(model, optimizer, 1)
        for parameter in model.body.parameters():
            assert parameter.grad is not None
            parameter.data.sub_(parameter.grad, alpha=0.1)
            parameter.grad = None


def frozen_and_thawed_by_turns(model: Net, optimizer: torch.optim.Optimizer) -> None:
    other = torch.optim.SGD(model.body.parameters(), lr=0.1)
    for turn in range(12):
        model.body.requires_grad_(turn % 2 == 0)
        train(model, other if turn % 2 == 0 else optimizer, 1)


def not_reached(model: Net, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(9):
        optimizer.zero_grad()
        model.head(model.body(torch.randn(3, 4)).detach()).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize(
    "goes_on",
    [added, owned_by_another, moved_by_hand, moved_through_data, frozen_and_thawed_by_turns, not_reached],
)
def test_silent_where_somebody_cares_for_them(goes_on: Callable[[Net, torch.optim.Optimizer], None]) -> None:
    model = Net()
    with watch() as guard:
        optimizer = freeze(model)
        train(model, optimizer, 9)
        model.body.requires_grad_(True)
        goes_on(model, optimizer)
    assert codes(guard) == []


# --- as a program ----------------------------------------------------------------------------------------------

PROGRAM = """import torch
from torch import nn


def main():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)
    for epoch in range(6):
        if epoch == 2:
            for parameter in model[0].parameters():
                parameter.requires_grad = True
        for _ in range(10):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()


main()
"""


def test_a_program_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    told = []
    for command in (("run", "--on-finding", "collect"), ("check",)):
        line = [sys.executable, "-m", "gradlint", *command, "--output-format", "concise", "train.py"]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        told.append([text.split(" ")[:2] for text in (done.stdout + done.stderr).splitlines() if "GL216" in text])
    assert told == [[["train.py:9:17:", "GL216"]]] * 2
