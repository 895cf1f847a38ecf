"""Compiled regions: what reaches a loss inside them is read from their graphs, and nothing about them changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

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


class KnowsNoLoss(nn.Module):
    """Returns the scores and what it has made of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.layer(x)
        return {"scores": scores, "probabilities": torch.softmax(scores, dim=1)}


SOFTMAX = sys._getframe().f_lineno - 3


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("given", ["scores", "probabilities"])
def test_a_softmax_in_a_compiled_model_whose_loss_is_outside(given: str) -> None:
    compilations = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        compilations.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    model = KnowsNoLoss()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlint.guard(model, optimizer, on_finding="collect") as guard:
        for _ in range(6):
            optimizer.zero_grad()
            out = compiled(torch.randn(5, 4))
            nn.functional.cross_entropy(out[given], torch.tensor([0, 1, 2, 0, 1])).backward()
            optimizer.step()
    assert not guard._failed
    found = [(finding.code, finding.location.row) for finding in guard.findings]
    line = sys._getframe().f_lineno - 4
    assert found == ([("GL301", line)] if given == "probabilities" else [])
    if found:
        assert [related.location.row for related in guard.findings[0].related] == [SOFTMAX]
    assert len(compilations) == 1
    assert not torch._C._len_torch_function_stack()


@pytest.mark.usefixtures("alone")
def test_a_model_that_ends_in_softmax_and_is_called_twice_in_a_step() -> None:
    compilations = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        compilations.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.NLLLoss()
    y = torch.tensor([0, 1, 2, 0, 1])
    with gradlint.guard(model, optimizer, on_finding="collect", select="GL3") as guard:
        for _ in range(6):
            optimizer.zero_grad()
            first, second = compiled(torch.randn(5, 4)), compiled(torch.randn(5, 4))
            (criterion(first, y) + criterion(torch.log(second), y)).backward()
            optimizer.step()
    assert not guard._failed
    line = sys._getframe().f_lineno - 3
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL302", line), ("GL306", line)]
    assert len(compilations) == 1


class Drops(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.drop, self.how = nn.Linear(4, 3), nn.Dropout(0.5), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        if self.how == "always":
            return nn.functional.dropout(x, 0.5)
        if self.how == "told":
            return nn.functional.dropout(x, 0.5, training=self.training)
        return self.drop(x)  # type: ignore[no-any-return]  # modules are not typed


DROPS = sys._getframe().f_lineno - 6


class Attends(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unsqueeze(0)
        p = 0.5 if self.training else 0.0
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=p)


class AlwaysAttends(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unsqueeze(0)
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


ATTENDS = sys._getframe().f_lineno - 3


class Holds(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)  # type: ignore[no-any-return]  # modules are not typed


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("part", "row"),
    [
        (lambda: Drops("always"), DROPS),
        (lambda: Drops("told"), None),
        (lambda: Drops("layer"), None),
        (Attends, None),
        (AlwaysAttends, ATTENDS),
        (lambda: nn.TransformerEncoderLayer(4, 1, 8, dropout=0.5, batch_first=True), None),
    ],
    ids=["always", "told", "layer", "attention told", "attention", "attention of torch"],
)
@pytest.mark.parametrize("held", [False, True], ids=["itself", "inside"])
def test_dropout_in_a_compiled_model(part: Callable[[], nn.Module], row: int | None, held: bool) -> None:
    model = Holds(part()) if held else part()
    x = torch.randn(1, 5, 4, requires_grad=True)
    with gradlint.guard(model, on_finding="collect", select="GL401") as guard:
        torch.compile(model, backend="aot_eager")(x).square().sum().backward()
    assert not guard._failed
    assert [finding.location.row for finding in guard.findings] == ([] if row is None else [row])


@pytest.mark.usefixtures("alone")
def test_a_function_that_no_module_calls_may_drop() -> None:
    weight = torch.randn(4, 3, requires_grad=True)

    @torch.compile(backend="aot_eager")
    def forward(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x @ weight, 0.5)

    with gradlint.guard(on_finding="collect", select="GL401") as guard:
        forward(torch.randn(5, 4)).sum().backward()
    assert guard.findings == []
    assert not guard._failed
