"""What a guard remembers does not grow with the length of a training: objects are counted, not bytes.

``tests/benchmarks/guard_memory.py`` looks at the memory of a hundred thousand steps.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import gradlint

WARM_UP = 150  #: steps in which caches fill
STEPS = 300
MANY = 900  #: tensors that are alive at once


def plain() -> Iterator[None]:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    while True:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.randint(3, (4,))).backward()
        optimizer.step()
        yield


def modules_made_in_each_step() -> Iterator[None]:
    """A teacher that is a frozen copy, made anew, and an optimizer of its own for each step."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 3))
    while True:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        teacher = copy.deepcopy(model).requires_grad_(False)
        x = torch.randn(4, 8)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), teacher(x)).backward()
        optimizer.step()
        yield


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize(
    ("training", "spare"),
    [(plain, 60), (modules_made_in_each_step, 3 * STEPS)],  # tensors that are gone are forgotten by the thousand
)
def test_nothing_is_remembered_of_each_step(training: Callable[[], Iterator[None]], spare: int, exact: bool) -> None:
    with gradlint.guard(on_finding="collect", exact=exact) as guard:
        steps = training()
        for _ in range(WARM_UP):
            next(steps)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(STEPS):
            next(steps)
        gc.collect()
        after = len(gc.get_objects())
    assert not guard._failed
    assert after - before < spare


class Layer(nn.Linear):
    """What its tensors are made into, once each: probabilities, values without a graph, data, parts of gradients."""

    def probabilities(self) -> torch.Tensor:
        return torch.softmax(self.bias, 0)

    def without_graph(self) -> torch.Tensor:
        return self.bias.detach()

    def data(self) -> torch.Tensor:
        return self.weight.data


@pytest.mark.parametrize("make", [Layer.probabilities, Layer.without_graph, Layer.data])
def test_tensors_that_were_many_are_forgotten_when_they_are_gone(make: Callable[[Layer], torch.Tensor]) -> None:
    layer = Layer(8, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-4)
    with gradlint.guard(on_finding="collect") as guard:
        for _ in range(2):  # steps, after which functions are watched still
            optimizer.zero_grad()
            layer(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
        make(layer)
        gc.collect()
        before = len(gc.get_objects())
        kept = [make(layer) for _ in range(MANY)]
        del kept
        for _ in range(MANY):
            make(layer)  # each takes the place of the one before
        gc.collect()
        after = len(gc.get_objects())
    assert not guard._failed
    assert after - before < MANY // 2
