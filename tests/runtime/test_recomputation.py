"""Steps between the forward pass of a checkpoint and its repetition in the backward pass: nothing else notices them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import gradlint


def line(offset: int = 0) -> int:
    """The line of the caller, and so many further on."""
    return sys._getframe(1).f_lineno + offset


class Net(nn.Module):
    """Three layers, of which the one in the middle is computed again in the backward pass."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first = nn.Linear(4, 8)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        self.last = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        if self.how == "sequential":
            hidden = checkpoint_sequential(self.block, 2, hidden, use_reentrant=True)
        elif self.how == "function":
            hidden = checkpoint(lambda z: self.block(z), hidden, use_reentrant=True)
        else:
            hidden = checkpoint(self.block, hidden, use_reentrant=self.how == "reentrant")
        return self.last(hidden)  # type: ignore[no-any-return]  # torch does not say what layers return


each_way = pytest.mark.parametrize("how", ["reentrant", "not reentrant", "sequential", "function"])


@each_way
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_a_step_before_the_repetition(how: str, fused: bool, exact: bool) -> None:
    model = Net(how)
    optimizer = torch.optim.SGD(model.block[0].parameters(), lr=0.1, fused=fused, foreach=False)
    with gradlint.guard(on_finding="collect", exact=exact) as guard:
        outdated = model(torch.randn(3, 4))
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        outdated.square().mean().backward()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL213", line(-1))]
    assert [related.location.row for related in guard.findings[0].related] == [line(-3)]


@each_way
def test_a_step_over_other_parameters(how: str) -> None:
    model = Net(how)
    optimizer = torch.optim.SGD([model.last.bias], lr=0.1, fused=True)
    with gradlint.guard(on_finding="collect") as guard:
        outdated = model(torch.randn(3, 4)).square().mean()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        outdated.backward()
    assert guard.findings == []


@each_way
def test_a_critic_that_steps_before_it_judges_what_was_generated_earlier(how: str) -> None:
    generator, critic = nn.Linear(4, 4), Net(how)
    first, second = (torch.optim.Adam(net.parameters(), fused=True) for net in (generator, critic))
    with gradlint.guard(on_finding="collect") as guard:
        for _ in range(4):
            made = generator(torch.randn(3, 4))
            second.zero_grad()
            critic(made.detach()).square().mean().backward()
            second.step()
            first.zero_grad()
            critic(made).mean().backward()
            first.step()
    assert guard.findings == []


def test_what_hooks_have_packed_is_left_packed() -> None:
    unpacked: list[Any] = []

    def unpack(packed: torch.Tensor) -> torch.Tensor:
        unpacked.append(packed)
        return packed

    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    with gradlint.guard(on_finding="collect"):
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.detach(), unpack):
            outdated = model(torch.randn(3, 4)).square().mean()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        outdated.backward()
    assert len(unpacked) == len({id(packed) for packed in unpacked})
