"""What is said of units that give nothing but zero, and that looking at them changes nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gradlint
from gradlint.runtime import Guard
from gradlint.runtime.witnesses.dead_units import DeadUnits


def watched(**options: Any) -> Guard:
    return gradlint.guard(on_finding="collect", select=["GL707"], **options)


def network(bias: float = -50.0) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    assert isinstance(model[0], nn.Linear)
    nn.init.constant_(model[0].bias, bias)
    return model


def train(model: nn.Module, steps: int = 100, batch: int = 16) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(batch, 8)).square().mean().backward()
        optimizer.step()


def test_the_layer_is_named_with_what_was_seen_of_it() -> None:
    with watched() as guard:
        train(network())
    assert [finding.message for finding in guard.findings] == [
        "the ReLU behind layer 0 gives zero in 32 of its 32 units for each of 128 samples, in 8 steps"
    ]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("bias", [-50.0, 0.0])
def test_the_training_is_bitwise_the_same(bias: float, exact: bool) -> None:
    def outcome(watch: Any) -> list[float]:
        torch.manual_seed(0)
        model = network(bias)
        with watch:
            train(model)
        return [*torch.cat([one.detach().flatten() for one in model.parameters()]).tolist(), float(torch.rand(()))]

    guard = gradlint.guard(on_finding="collect", exact=exact)
    assert outcome(nullcontext()) == outcome(guard)
    assert [finding.code for finding in guard.findings] == (["GL707"] if bias else [])
    assert not guard._failed


def test_what_a_checkpoint_computes_again_is_not_asked_for() -> None:
    calls = []
    body, head = nn.Linear(8, 32), nn.Linear(32, 2)
    nn.init.constant_(body.bias, -50.0)

    def inner(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return body(x).relu()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = body, head

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(checkpoint(inner, x, use_reentrant=False))
            return out

    with watched() as guard:
        train(Net())
    assert len(calls) == 200
    assert not guard.findings
    assert not guard._failed


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(8, 1), nn.ReLU(), nn.Flatten(), nn.Linear(1, 1)),
        lambda: nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)),
        lambda: nn.Sequential(nn.Linear(8, 4, dtype=torch.float32), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2)),
    ],
    ids=["one unit", "one dimension", "layer norm"],
)
def test_layers_of_other_kinds(make: Callable[[], nn.Sequential]) -> None:
    model = make()
    layer = next(one for one in reversed(list(model)[:3]) if getattr(one, "bias", None) is not None)
    nn.init.constant_(layer.bias, -50.0)  # type: ignore[arg-type]  # it has one
    with watched() as guard:
        train(model)
    assert [finding.code for finding in guard.findings] == ["GL707"]


def test_a_layer_that_is_called_again_and_again_is_one() -> None:
    cell = nn.Linear(8, 8)
    nn.init.constant_(cell.bias, -50.0)

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = cell, nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = x
            for _ in range(3):
                hidden = torch.relu(self.cell(x + hidden))
            out: torch.Tensor = self.head(hidden)
            return out

    with watched() as guard:
        train(Loop())
    assert [finding.message for finding in guard.findings] == [
        "the ReLU behind layer cell gives zero in 8 of its 8 units for each of 384 samples, in 8 steps"
    ]


def test_what_is_no_number_is_not_zero() -> None:
    model = network(float("nan"))
    with watched() as guard:
        train(model)
    assert not guard.findings


def test_of_a_healthy_network_nothing_is_held() -> None:
    model = network(0.0)
    with watched() as guard:
        train(model, steps=45)
        (witness,) = [one for one in gc.get_objects() if type(one) is DeadUnits]
        assert not witness._window.layers
        assert witness._next == 160
    assert not guard.findings
