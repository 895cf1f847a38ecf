"""Compiled regions: what reaches a loss inside them is read from their graphs, and nothing about them changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import gradlint


class KnowsItsLoss(nn.Module):
    def __init__(self, normalizes: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.normalizes = normalizes

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = self.layer(x)
        if self.normalizes:
            out = torch.softmax(out, dim=1).view(-1, 3)
        return nn.functional.cross_entropy(out, y)


LOSS = sys._getframe().f_lineno - 3


@pytest.fixture
def alone() -> Iterator[None]:
    """Nothing compiled is about, before and after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("normalizes", [True, False])
def test_a_softmax_before_cross_entropy(normalizes: bool) -> None:
    model = KnowsItsLoss(normalizes)
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlint.guard(model, optimizer, on_finding="collect") as guard:
        for _ in range(3):
            optimizer.zero_grad()
            compiled(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])).backward()
            optimizer.step()
    assert not guard._failed
    found = [(finding.code, finding.location.row) for finding in guard.findings]
    assert found == ([("GL301", LOSS)] if normalizes else [])
    if normalizes:
        assert [related.location.row for related in guard.findings[0].related] == [LOSS - 1]
    output = sys.modules["torch._dynamo.output_graph"]
    assert output.OutputGraph.call_user_compiler.__module__ == output.__name__
    assert not hasattr(output.OutputGraph.call_user_compiler, "__wrapped__")
