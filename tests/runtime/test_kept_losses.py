"""Losses that are kept with their graphs, wherever they are kept, and where the source adds them."""

# ruff: noqa: PERF401  these loops are what is tested
from __future__ import annotations

import inspect
from collections import deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gradlint

Record = namedtuple("Record", "index loss")
Train = Callable[[], torch.Tensor]
KEPT: list[torch.Tensor] = []


class Meter:
    def __init__(self) -> None:
        self.total: Any = 0.0
        self.values: list[torch.Tensor] = []

    def update(self, value: torch.Tensor) -> None:
        self.total += value  # GL205

    def keep(self, value: torch.Tensor) -> None:
        self.values.append(value)  # GL205

    def last(self, value: torch.Tensor) -> None:
        self.values = [value]


class Entry:
    def __init__(self, loss: torch.Tensor) -> None:
        self.loss = loss


def log(history: list[torch.Tensor], loss: torch.Tensor) -> None:
    history.append(loss)  # GL205


def in_a_dict_by_names(train: Train) -> None:
    totals: dict[str, Any] = {"loss": 0.0}
    for _ in range(6):
        for name, value in {"loss": train()}.items():
            totals[name] += value  # GL205


def in_a_tuple(train: Train) -> None:
    total: tuple[Any, int] = 0.0, 0
    for _ in range(6):
        total = (total[0] + train(), total[1] + 1)  # GL205


def in_two_at_once(train: Train) -> None:
    total: Any = 0.0
    count = 0
    for _ in range(6):
        total, count = total + train(), count + 1  # GL205


def in_an_object(train: Train) -> Any:
    meter = Meter()
    for _ in range(6):
        meter.update(train())
    return Meter.update


def in_a_list_of_an_object(train: Train) -> Any:
    meter = Meter()
    for _ in range(6):
        meter.keep(train())
    return Meter.keep


def by_a_helper(train: Train) -> Any:
    history: list[torch.Tensor] = []
    for _ in range(6):
        log(history, train())
    return log


def in_a_global(train: Train) -> None:
    KEPT.clear()
    for _ in range(6):
        KEPT.append(train())  # GL205


def in_records(train: Train) -> None:
    records = []
    for _ in range(6):
        records.append(Entry(train()))  # GL205


def in_named_tuples(train: Train) -> None:
    records = []
    for index in range(6):
        records.append(Record(index, train()))  # GL205


def in_short_epochs(train: Train) -> None:
    for _ in range(3):
        total: Any = 0.0
        for _ in range(3):
            total += train()  # GL205


def in_lists_of_short_epochs(train: Train) -> None:
    for _ in range(3):
        losses = []
        for _ in range(4):
            losses.append(train())  # GL205


def silent_the_last_one(train: Train) -> None:
    meter = Meter()
    for _ in range(6):
        meter.last(train())


def silent_a_window(train: Train) -> None:
    window: deque[torch.Tensor] = deque(maxlen=3)
    for _ in range(6):
        window.append(train())


def silent_this_one_and_the_one_before(train: Train) -> None:
    loss = train()
    for _ in range(6):
        before, loss = loss, train()
        pair = [before, loss]
    assert len(pair) == 2


def silent_numbers(train: Train) -> None:
    total, losses, meter = 0.0, [], Meter()
    for _ in range(6):
        loss = train()
        total += loss.item()
        losses.append(loss.detach())
        meter.update(loss.detach())


@pytest.mark.parametrize(
    "program",
    [value for name, value in list(globals().items()) if name.startswith(("in_", "by_", "silent_"))],
)
def test_what_keeps_losses(program: Callable[[Train], Any]) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    with gradlint.guard(model, optimizer, on_finding="collect", select="GL205") as guard:
        adds = program(train) or program
    assert not guard._failed
    lines, first = inspect.getsourcelines(adds)
    expected = [first + index for index, text in enumerate(lines) if text.rstrip().endswith("# GL205")]
    assert [finding.location.row for finding in guard.findings] == expected
    assert bool(expected) is not program.__name__.startswith("silent")


def test_losses_that_a_later_backward_pass_walks() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlint.guard(model, optimizer, on_finding="collect", select="GL205") as guard:
        for _ in range(4):
            optimizer.zero_grad()
            losses = []
            for _ in range(3):
                losses.append(model(torch.randn(3, 4)).square().mean())
            torch.stack(losses).mean().backward()
            optimizer.step()
    assert guard.findings == []


def test_a_sum_of_several_steps_that_is_walked_as_a_whole() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept: Any = 0.0
    with gradlint.guard(model, optimizer, on_finding="collect", select="GL205") as guard:
        for step in range(8):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
            kept = 0.9 * kept + model(torch.randn(3, 4)).sum()
            if step % 4 == 3:
                optimizer.zero_grad()
                kept.backward()
                optimizer.step()
                kept = 0.0
    assert guard.findings == []
