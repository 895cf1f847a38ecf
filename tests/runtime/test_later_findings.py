"""What the guard finds only after several steps, or calls, of the same kind."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gradlint
from gradlint.runtime import Guard


def line(offset: int = 0) -> int:
    """The line of the caller, and so many further on."""
    return sys._getframe(1).f_lineno + offset


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(3, 4), torch.randint(0, 2, (3,))) for _ in range(count)]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def codes(guard: Guard) -> list[str]:
    return [finding.code for finding in guard.findings]


def watch(*things: Any) -> Guard:
    return gradlint.guard(*things, on_finding="collect")


def test_the_variable_that_keeps_graphs_is_named() -> None:
    model = network()
    optimizer = sgd(model)
    history: dict[str, list[torch.Tensor]] = {"loss": []}
    with watch() as guard:
        for x, y in batches(8):
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            walked = line(-1)
            optimizer.step()
            history["loss"].append(loss)
    (finding,) = guard.findings
    assert (finding.code, finding.location.row) == ("GL205", line(-2))
    assert "`history['loss']`" in finding.message
    assert [related.location.row for related in finding.related] == [walked]


def test_graphs_that_are_kept_under_another_name_each_time_are_no_growth() -> None:
    model = network()
    optimizer = sgd(model)
    losses = []
    with watch() as guard:
        for x, y in batches(8):
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses = [*losses[-2:], loss]
    assert codes(guard) == []


def test_layers_of_a_model_made_before_the_guard_are_found_by_the_source_of_its_class() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = nn.Linear(4, 4)
            self.heads = [nn.Linear(4, 2), nn.Linear(4, 2)]
            self.row = line(-1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([head(self.trunk(x)) for head in self.heads]).sum(0)

    model = Heads()
    optimizer = sgd(model)
    with watch(model, optimizer) as guard:
        for x, y in batches(3):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
        assert codes(guard) == ["GL404"], "it is told at the third step"
    assert guard.findings[0].location.row == model.row


def test_an_evaluation_in_training_mode_is_told_once_for_a_place() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = sgd(model)
    with watch() as guard:
        for _ in range(2):
            for x, y in batches(3):
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                losses = [cross_entropy(model(x), y).item() for x, y in batches(4)]
                row = line(-1)
    assert len(losses) == 4
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL407", row)]


def test_gradients_assigned_by_hand_are_something_to_apply() -> None:
    model = network()
    optimizer = sgd(model)
    with watch() as guard:
        for x, y in batches(4):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad = parameter.grad * 0.5
            optimizer.step()
    assert codes(guard) == []


def test_an_input_is_counted_whether_or_not_the_next_one_takes_its_address() -> None:
    model = network()
    optimizer = sgd(model)
    counts = []
    for kept in ([], None):
        with watch() as guard:
            for x, y in batches(9):
                given = x.clone().requires_grad_()
                if kept is not None:
                    kept.append(given)
                optimizer.zero_grad()
                cross_entropy(model(given), y).backward()
                optimizer.step()
                del given
        counts += [finding.count for finding in guard.findings]
    assert counts == [8, 8], "one at each step from the third on, and the last two together"
