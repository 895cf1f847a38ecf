"""Layers in plain containers that a helper makes for the class: nobody trains them."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import nn

import gradlint


def block(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU())


def build(count: int) -> list[nn.Module]:
    return [nn.Linear(4, 4) for _ in range(count)]  # GL404


def chosen(layers: list[nn.Module]) -> list[nn.Module]:
    return layers[:2]


class Net(nn.Module):
    layers: list[nn.Module]

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        out: torch.Tensor = self.head(x)
        return out


class OfBlocks(Net):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [block(4) for _ in range(3)]  # GL404


class OfAMethod(Net):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [self.make() for _ in range(3)]  # GL404

    def make(self) -> nn.Module:
        return nn.Linear(4, 4)


class OfAStaticMethod(Net):
    def __init__(self) -> None:
        super().__init__()
        self.layers = []
        for _ in range(3):
            self.layers.append(self.make(4))  # GL404

    @staticmethod
    def make(width: int) -> nn.Module:
        return nn.Linear(width, width)


class OfABuilder(Net):
    def __init__(self) -> None:
        super().__init__()
        self.layers = build(3)


class Given(Net):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = chosen(layers)


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (OfBlocks, OfBlocks),
        (OfAMethod, OfAMethod),
        (OfAStaticMethod, OfAStaticMethod),
        (OfABuilder, build),
        (lambda: Given([nn.Linear(4, 4), nn.Linear(4, 4)]), None),
    ],
)
def test_layers_that_a_helper_makes(make: Callable[[], nn.Module], where: Callable[..., object] | None) -> None:
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradlint.guard(model, optimizer, on_finding="collect", select="GL404") as guard:
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    assert not guard._failed
    lines, first = inspect.getsourcelines(where) if where is not None else ([], 0)
    expected = [first + index for index, text in enumerate(lines) if text.rstrip().endswith("# GL404")]
    assert [finding.location.row for finding in guard.findings] == expected
