"""Tensors that exchange all they are: torch refuses it for those that are referred to weakly, as a guard does."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, cross_entropy, log_softmax

import gradlint
from gradlint.runtime import Guard


def watch(**options: Any) -> Guard:
    return gradlint.guard(**{"on_finding": "collect", "select": ["ALL"], **options})


@pytest.fixture
def swapping() -> Iterator[None]:
    """Modules are converted, and loaded into, by swapping their parameters."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, clearing: bool = True) -> int:
    if clearing:
        optimizer.zero_grad()
    x = torch.linspace(0, 1, 24, dtype=next(model.parameters()).dtype).view(6, 4)
    cross_entropy(model(x), torch.arange(6) % 2).backward()
    row = sys._getframe().f_lineno - 1
    optimizer.step()
    return row


def to_double(model: nn.Module) -> None:
    model.double()


def load(model: nn.Module) -> None:
    model.load_state_dict(network().state_dict())


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize("before", [0, 1, 30], ids=["at first", "after a step", "after many"])
@pytest.mark.parametrize("convert", [to_double, load], ids=lambda function: function.__name__)
def test_parameters_are_swapped_as_without_a_guard(
    convert: Callable[[nn.Module], None], before: int, exact: bool
) -> None:
    def run() -> list[torch.Tensor]:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(before):
            step(model, optimizer)
        convert(model)
        for _ in range(8):
            step(model, optimizer)
        return [parameter.detach() for parameter in model.parameters()]

    plain = run()
    with watch(exact=exact) as guard:
        watched = run()
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert guard.findings == []
    assert not guard._failed


@pytest.mark.usefixtures("swapping")
def test_mistakes_are_found_after_a_swap() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch() as guard:
        for _ in range(30):
            step(model, optimizer)
        to_double(model)
        rows = {step(model, optimizer, clearing=False) for _ in range(4)}
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL201", *rows)]


def test_whatever_a_guard_remembers_can_be_swapped() -> None:
    """Among them outputs, losses, inputs, probabilities, aliases, gradients, and what a module keeps or was given."""

    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = network()
            self.kept = torch.zeros(2, requires_grad=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layers(x) + self.kept
            return out

    model = Keeping()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(exact=True) as guard:
        step(model, optimizer)
        given = torch.randn(6, 4, requires_grad=True)
        output = model(given)
        chances = output.sigmoid()
        added, bounded = chances + 1e-6, chances.clamp(0.1, 0.9)
        loss = binary_cross_entropy(bounded, torch.zeros(6, 2)) + log_softmax(output, 1).mean()
        loss.backward()
        alias = model.layers[0].weight.data
        model.register_parameter("late", nn.Parameter(torch.zeros(3)))
        with torch.no_grad():
            [model(one) for one in (torch.zeros(3, 4), torch.ones(3, 4))]
            unseen = model(torch.full((3, 4), 2.0))
        remembered = [given, output, chances, added, bounded, loss, alias, unseen, *model.parameters(), model.kept]
        remembered += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        assert sum(map(weakref.getweakrefcount, remembered)) > len(list(model.parameters()))
        for tensor in remembered:
            with suppress(RuntimeError):  # torch refuses those that a graph refers to, with or without a guard
                torch.utils.swap_tensors(tensor, torch.zeros(1))
            assert not weakref.getweakrefcount(tensor)
    assert not guard._failed


def test_references_of_the_program_are_still_refused() -> None:
    model = network()
    reference = weakref.ref(model[0].weight)
    with watch(), pytest.raises(RuntimeError, match="weakref"):
        torch.utils.swap_tensors(model[0].weight, nn.Parameter(torch.zeros(8, 4)))
    assert reference() is model[0].weight


def test_swapping_is_torchs_own_again_afterwards() -> None:
    before = torch.utils.swap_tensors
    with watch():
        assert torch.utils.swap_tensors is not before
    assert torch.utils.swap_tensors is before
