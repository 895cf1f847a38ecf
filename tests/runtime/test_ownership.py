"""Optimizers that do not own what is trained: built too early, frozen throughout, or left behind by a copy."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime import Guard

STEPS = 12


def line(offset: int = 0) -> int:
    """The line of the caller, and so many further on."""
    return sys._getframe(1).f_lineno + offset


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def sgd(*modules: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.01, **options)


def train(model: nn.Module, *optimizers: torch.optim.Optimizer, steps: int = STEPS) -> int:
    """Train; the line of the step."""
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    return line(-1)


def watch(*things: Any) -> Guard:
    return gradlint.guard(*things, on_finding="collect")


def told(guard: Guard) -> list[tuple[str, int]]:
    assert not guard._failed
    return [(finding.code, finding.location.row) for finding in guard.findings]


# --- flagged ---------------------------------------------------------------------------------------------------


def test_a_head_that_was_replaced_before_the_guard() -> None:
    model = network()
    optimizer = sgd(model)
    model[2] = nn.Linear(8, 3)
    with watch(model, optimizer) as guard:
        step = train(model, optimizer)
    assert told(guard) == [("GL209", step)]
    assert [related.location.row for related in guard.findings[0].related] == [step - 2]


def test_a_head_that_is_replaced_in_the_middle() -> None:
    model = network()
    optimizer = sgd(model)
    with watch(model, optimizer) as guard:
        train(model, optimizer)
        model[2] = nn.Linear(8, 3)
        placed = line(-1)
        step = train(model, optimizer)
    assert told(guard) == [("GL209", step)]
    assert [related.location.row for related in guard.findings[0].related] == [placed]


def test_a_layer_made_by_the_first_call() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 8)
            self.last: nn.Module | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.last is None:
                self.last = nn.Linear(8, 2)
            return self.last(self.first(x))  # type: ignore[no-any-return]  # torch does not say what layers return

    model = Net()
    with watch() as guard:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        built = line(-1)
        train(model, optimizer)
    assert told(guard) == [("GL209", built)]
    assert [related.message for related in guard.findings[0].related][:1] == ["they were put into the model here"]


@pytest.mark.parametrize("before", [False, True])
def test_a_copy_that_is_trained_instead(before: bool) -> None:
    model = network()
    optimizer = sgd(model)
    if before:
        model = copy.deepcopy(model)
    with watch() as guard:
        if not before:
            model = copy.deepcopy(model)
        step = train(model, optimizer)
    assert told(guard) == [("GL209", step)]


def test_an_optimizer_of_frozen_parameters_alone() -> None:
    model = network()
    model[0].requires_grad_(False)
    with watch() as guard:
        optimizer = torch.optim.SGD(model[0].parameters(), lr=0.01)
        built = line(-1)
        train(model, optimizer, steps=4)
        assert told(guard) == [("GL209", built)], "while it goes on: nothing else is trained"
    assert "frozen" in guard.findings[0].message


def test_an_optimizer_of_frozen_parameters_beside_another() -> None:
    model = network()
    model[0].requires_grad_(False)
    with watch() as guard:
        first = torch.optim.SGD(model[0].parameters())
        built = line(-1)
        train(model, first, sgd(model[2]))
        assert told(guard) == [], "it may thaw"
    assert told(guard) == [("GL209", built)]


# --- silent ----------------------------------------------------------------------------------------------------


def test_parameters_that_thaw_later() -> None:
    model = network()
    model[0].requires_grad_(False)
    optimizers = sgd(model[0]), sgd(model[2])
    with watch() as guard:
        train(model, *optimizers)
        model[0].requires_grad_(True)
        train(model, *optimizers)
    assert told(guard) == []


@pytest.mark.parametrize("how", ["added", "built again", "an optimizer of its own", "frozen", "by hand"])
def test_a_head_that_is_cared_for(how: str) -> None:
    model = network()
    optimizers = [sgd(model)]
    with watch(model, *optimizers) as guard:
        train(model, *optimizers)
        model[2] = nn.Linear(8, 3)
        if how == "added":
            optimizers[0].add_param_group({"params": list(model[2].parameters())})
        elif how == "built again":
            optimizers = [sgd(model)]
        elif how == "an optimizer of its own":
            optimizers.append(sgd(model[2]))
        elif how == "frozen":
            model[2].requires_grad_(False)
        for _ in range(STEPS):
            train(model, *optimizers, steps=1)
            if how == "by hand":
                for parameter in model[2].parameters():
                    assert parameter.grad is not None
                    with torch.no_grad():
                        parameter -= 0.1 * parameter.grad
                    parameter.grad = None
    assert told(guard) == []


def test_a_part_that_is_trained_on_purpose() -> None:
    model = network()
    with watch() as guard:
        train(model, sgd(model[2]))
    assert told(guard) == []


def test_a_teacher_copied_from_the_student() -> None:
    student = network()
    optimizer = sgd(student)
    teacher = copy.deepcopy(student)
    with watch() as guard:
        for _ in range(STEPS):
            optimizer.zero_grad()
            x = torch.randn(3, 4)
            (student(x) - teacher(x).detach()).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                for mine, other in zip(teacher.parameters(), student.parameters(), strict=True):
                    mine.lerp_(other, 0.1)
    assert told(guard) == []


def test_parameters_of_no_module() -> None:
    model = network()
    latent, unused = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([latent, unused], lr=0.1)
    with watch() as guard:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model.zero_grad()
            model(latent).square().mean().backward()
            optimizer.step()
    assert [code for code, _ in told(guard)] == ["GL702"]


def test_weights_that_are_replaced_in_each_iteration() -> None:
    model = network()
    optimizer = sgd(model[2])
    with watch(model, optimizer) as guard:
        for _ in range(STEPS):
            model[0].weight = nn.Parameter(torch.randn(8, 4))
            train(model, optimizer, steps=1)
    assert told(guard) == []


def test_folds_that_share_a_backbone() -> None:
    backbone = nn.Linear(4, 8)
    with watch() as guard:
        for _ in range(3):
            model = nn.Sequential(backbone, nn.Linear(8, 2))
            train(model, sgd(model))
    assert told(guard) == []
