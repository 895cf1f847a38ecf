"""What is said of parameters that do not move, and what is remembered of them."""

from __future__ import annotations

import gc

import torch
from torch import nn

import gradlint
from gradlint.runtime import Guard
from gradlint.runtime.witnesses.unchanged import UnchangedParameters


def trained(optimizer: torch.optim.Optimizer, model: nn.Module, steps: int) -> Guard:
    """Training with the optimizer, under a guard."""
    with gradlint.guard(model, optimizer, on_finding="collect", select=["GL705"]) as guard:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(3, 4, dtype=next(model.parameters()).dtype)).square().mean().backward()
            optimizer.step()
    return guard


def test_a_learning_rate_of_zero_is_named() -> None:
    model = nn.Linear(4, 2)
    guard = trained(torch.optim.Adam(model.parameters(), lr=0.0), model, 52)
    assert [finding.message for finding in guard.findings] == [
        "weight, bias have not changed in 52 steps: the learning rate is 0"
    ]


def test_rounding_is_named_with_the_type() -> None:
    model = nn.Linear(4, 2, bias=False).bfloat16()
    nn.init.constant_(model.weight, 0.5)
    guard = trained(torch.optim.SGD(model.parameters(), lr=1e-6), model, 60)
    assert [finding.message for finding in guard.findings] == [
        "weight has not changed in 60 steps: at a learning rate of 1e-06, updates are rounded away in bfloat16"
    ]


def test_a_schedule_that_has_come_to_nothing_is_told_from_where_it_has() -> None:
    model = nn.Linear(4, 2, bias=False)
    nn.init.constant_(model.weight, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with gradlint.guard(model, optimizer, on_finding="collect", select=["GL705"]) as guard:
        for step in range(120):
            optimizer.param_groups[0]["lr"] = 1e-3 if step < 20 else 1e-12
            optimizer.zero_grad()
            model(torch.ones(3, 4)).square().mean().backward()
            optimizer.step()
    assert [finding.message for finding in guard.findings] == [
        "weight has not changed in 71 steps: the learning rate has come down to 1e-12"
    ]


def test_what_moves_after_all_is_not_told() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with gradlint.guard(model, optimizer, on_finding="collect", select=["GL705"]) as guard:
        for step in range(60):
            optimizer.param_groups[0]["lr"] = 0.1 if step == 59 else 0.0
            optimizer.zero_grad()
            model(torch.ones(3, 4)).square().mean().backward()
            optimizer.step()
    assert not guard.findings


def test_a_model_that_is_gone_at_the_end_is_told_by_its_name() -> None:
    def run() -> None:
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).square().mean().backward()
            optimizer.step()

    with gradlint.guard(on_finding="collect", select=["GL705"]) as guard:
        run()
    assert [finding.message for finding in guard.findings] == [
        "weight, bias have not changed in 60 steps: the learning rate is 0"
    ]


def test_optimizers_that_are_gone_are_forgotten() -> None:
    model = nn.Linear(4, 2)
    with gradlint.guard(model, on_finding="collect", select=["GL705"]) as guard:
        for _ in range(20):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.ones(3, 4)).square().mean().backward()
            optimizer.step()
        witnesses = [one for one in gc.get_objects() if type(one) is UnchangedParameters]
        assert len(witnesses) == 1
        assert len(witnesses[0]._optimizers) == 1
        assert not witnesses[0]._gone
    assert not guard.findings
