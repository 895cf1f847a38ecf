"""Weights that change through ``.data``: where a graph still needs them, its gradients are wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime import Guard


def watch(*things: object) -> Guard:
    return gradlint.guard(*things, on_finding="collect", select=("GL101", "GL110"))


def told(guard: Guard) -> list[tuple[str, int]]:
    assert not guard._failed
    return [(finding.code, finding.location.row) for finding in guard.findings]


def line(offset: int = 0) -> int:
    return sys._getframe(1).f_lineno + offset


def network() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_between_the_forward_and_the_backward_pass() -> None:
    model, optimizer = network()
    with watch(model, optimizer) as guard:
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(3, 4)).square().mean()
            model[2].weight.data.clamp_(-0.01, 0.01)
            written = line(-1)
            loss.backward()
            optimizer.step()
    assert told(guard) == [("GL110", written), ("GL101", written)]
    assert [finding.count for finding in guard.findings] == [3, 3]


def after_the_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
    model[2].weight.data.clamp_(-0.01, 0.01)


def before_the_forward_pass(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model[2].weight.data.clamp_(-0.01, 0.01)
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()


def a_bias_that_nothing_needs(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss = model(torch.randn(3, 4)).square().mean()
    model[2].bias.data.clamp_(-0.01, 0.01)
    loss.backward()
    optimizer.step()


def a_first_layer_whose_input_has_no_gradient(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss = model(torch.randn(3, 4)).square().mean()
    model[0].weight.data.clamp_(-0.01, 0.01)
    loss.backward()
    optimizer.step()


def another_tensor_that_is_given(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss = model(torch.randn(3, 4)).square().mean()
    model[2].weight.data = model[2].weight.data.clamp(-0.01, 0.01)
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize(
    "step",
    [
        after_the_step,
        before_the_forward_pass,
        a_bias_that_nothing_needs,
        a_first_layer_whose_input_has_no_gradient,
        another_tensor_that_is_given,
    ],
)
def test_where_no_graph_needs_the_old_values(step: Callable[[nn.Module, torch.optim.Optimizer], None]) -> None:
    model, optimizer = network()
    with watch(model, optimizer) as guard:
        for _ in range(3):
            optimizer.zero_grad()
            step(model, optimizer)
    assert [code for code, _ in told(guard)] == ["GL110"]
