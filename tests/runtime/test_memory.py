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
