"""What only a CUDA device shows: conversions it forbids, skipped steps, and waits for it that a guard must not add."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gradlint

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).cuda()


def trainer(model: nn.Module) -> Callable[[], None]:
    """One step, of which no part waits for the device."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    x, y = torch.randn(6, 4, device="cuda"), torch.randint(0, 2, (6,), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


@contextlib.contextmanager
def waits() -> Iterator[list[warnings.WarningMessage]]:
    """The operations that wait for the device meanwhile."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode(mode)


def test_conversions_leave_with_a_note() -> None:
    weight = torch.ones(2, device="cuda")
    with gradlint.guard(on_finding="collect") as guard, pytest.raises(TypeError) as raised:
        weight.numpy()
    row = sys._getframe().f_lineno - 1
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL502", row)]
    assert "GL502" in "".join(raised.value.__notes__)


def test_an_ordinary_step_waits_for_the_device_no_more_than_without_a_guard() -> None:
    step = trainer(network())
    for _ in range(5):
        step()
    with waits() as plain:
        for _ in range(60):
            step()
    with gradlint.guard(on_finding="collect") as guard:
        for _ in range(20):  # it looks closer at the first steps
            step()
        with waits() as guarded:
            for _ in range(60):
                step()
    assert [str(one.message) for one in guarded] == [str(one.message) for one in plain]
    assert guard.findings == []


def scaled(steps: int) -> tuple[list[torch.Tensor], int]:
    """The parameters after a training whose first gradients are too large for their type, and the steps skipped."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**127, backoff_factor=2.0**-16)
    x, y = torch.randn(6, 4, device="cuda"), torch.randint(0, 2, (6,), device="cuda")
    skipped = 0
    for _ in range(steps):
        optimizer.zero_grad()
        scaler.scale(64 * cross_entropy(model(x), y)).backward()  # infinite, at first
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        skipped += scaler.get_scale() < before
    return [parameter.detach() for parameter in model.parameters()], skipped


def test_steps_that_a_scaler_skips_are_no_mistake() -> None:
    plain, skipped = scaled(40)
    with gradlint.guard(on_finding="collect") as guard:
        watched, skipped_there = scaled(40)
    assert 0 < skipped == skipped_there < 40
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert guard.findings == []
    assert not guard._failed
