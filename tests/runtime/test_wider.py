"""What the guard sees as the linter does: micro-batches that are walked at two places, models that know their loss."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime import Guard


def told(guard: Guard) -> list[tuple[str, int]]:
    assert not guard._failed
    return [(finding.code, finding.location.row) for finding in guard.findings]


def line(offset: int = 0) -> int:
    return sys._getframe(1).f_lineno + offset


# --- accumulation that is defeated ------------------------------------------------------------------------------


class Parallel(nn.Module):
    """Shares gradients between ranks, save where it is told not to: as DistributedDataParallel does."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(4, 2)
        self.require_backward_grad_sync = True

    def forward(self, x: torch.Tensor) -> Any:
        return self.module(x)

    @contextlib.contextmanager
    def no_sync(self) -> Any:
        self.require_backward_grad_sync = False
        yield
        self.require_backward_grad_sync = True


@pytest.mark.parametrize("clears", ["each time", "once"])
@pytest.mark.parametrize("count", [2, 4])
def test_all_but_the_last_micro_batch_are_walked_without_sharing(count: int, clears: str) -> None:
    model = Parallel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlint.guard(model, optimizer, on_finding="collect", select="GL214") as guard:
        for index in range(4 * count):
            if clears == "each time" or index % count == 0:
                optimizer.zero_grad()
                cleared = line(-1)
            if (index + 1) % count:
                with model.no_sync():
                    (model(torch.randn(3, 4)).square().mean() / count).backward()
            else:
                (model(torch.randn(3, 4)).square().mean() / count).backward()
                optimizer.step()
    assert told(guard) == ([("GL214", cleared)] if clears == "each time" else [])


def test_gradients_of_another_loss_are_cleared_unused() -> None:
    """A generator's loss reaches the discriminator, too."""
    model, other = nn.Linear(4, 2), nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    with gradlint.guard(model, other, on_finding="collect", select="GL214") as guard:
        for _ in range(6):
            for _ in range(3):
                other_optimizer.zero_grad()
                optimizer.zero_grad()
                model(other(torch.randn(3, 4))).square().mean().backward()
                other_optimizer.step()
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
    assert told(guard) == []


def test_one_more_loss_whose_gradients_are_not_wanted() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlint.guard(model, on_finding="collect", select="GL214") as guard:
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).abs().mean().backward()
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
    assert told(guard) == []


# --- models that compute their loss ------------------------------------------------------------------------------


class KnowsItsLoss(nn.Module):
    def __init__(self, dropout: float, named: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(dropout), nn.Linear(8, 3))
        self.named = named

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        logits = self.layers(x)
        loss = None if y is None else nn.functional.cross_entropy(logits, y)
        return {"logits": logits, "loss": loss} if self.named else (logits, loss)


@pytest.mark.parametrize("named", [False, True], ids=["tuple", "dict"])
@pytest.mark.parametrize(
    ("dropout", "evaluates", "gives"), [(0.5, "no", "y"), (0.0, "no", "y"), (0.5, "eval", "y"), (0.5, "no", "nothing")]
)
def test_a_model_that_is_given_the_labels(named: bool, dropout: float, evaluates: str, gives: str) -> None:
    model = KnowsItsLoss(dropout, named)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    y = torch.tensor([0, 1, 2])
    total = 0.0
    with gradlint.guard(model, optimizer, on_finding="collect", select="GL407") as guard:
        for _ in range(6):
            optimizer.zero_grad()
            out = model(torch.randn(3, 4), y)
            (out["loss"] if named else out[1]).backward()
            optimizer.step()
        if evaluates == "eval":
            model.eval()
        with torch.no_grad():
            for _ in range(4):
                out = model(torch.randn(3, 4), y if gives == "y" else None)
                called = line(-1)
                total += float((out["logits"] if named else out[0]).sum())
    expected = dropout and evaluates == "no" and gives == "y"
    assert told(guard) == ([("GL407", called)] if expected else [])


# --- steps in which functions are watched ----------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [1, 4])
@pytest.mark.parametrize("begins", [0, 40])
def test_what_comes_after_the_steps_of_several_optimizers(beside: int, begins: int) -> None:
    """Of each optimizer some steps are watched from their beginning to the next one, whenever it begins."""
    models = [nn.Linear(4, 2) for _ in range(beside)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    last, target = nn.Linear(4, 2), nn.Linear(4, 2)
    slow = torch.optim.SGD(last.parameters(), lr=0.1)
    with gradlint.guard(on_finding="collect", select="GL110") as guard:
        for iteration in range(begins + 4):
            for model, optimizer in zip(models, optimizers, strict=True):
                optimizer.zero_grad()
                model(torch.randn(3, 4)).square().mean().backward()
                optimizer.step()
            if iteration >= begins:
                slow.zero_grad()
                last(torch.randn(3, 4)).square().mean().backward()
                slow.step()
                for old, new in zip(target.parameters(), last.parameters(), strict=True):
                    old.data.mul_(0.9).add_(new.data, alpha=0.1)
    assert told(guard) == [("GL110", line(-1))]


def test_optimizers_made_again_and_again_are_not_all_watched() -> None:
    model = nn.Linear(4, 2)
    seen = 0

    class Counted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            nonlocal seen
            seen += torch._C._len_torch_function_stack()
            return model(x)  # type: ignore[no-any-return]  # modules are not typed

    counted = Counted()
    kept = []
    with gradlint.guard(on_finding="collect") as guard:
        for _ in range(200):
            kept.append(torch.optim.SGD(model.parameters(), lr=0.1))
            kept[-1].zero_grad()
            counted(torch.randn(3, 4)).square().mean().backward()
            kept[-1].step()
    assert told(guard) == []
    assert 4 <= seen < 60
