"""Modules whose ``requires_grad`` is assigned, which freezes nothing."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime import Guard

x = torch.randn(3, 4)


def line(offset: int = 0) -> int:
    """The line of the caller, and so many further on."""
    return sys._getframe(1).f_lineno + offset


def watch() -> Guard:
    return gradlint.guard(on_finding="collect", select="GL410")


def told(guard: Guard) -> list[int]:
    assert not guard._failed
    return [finding.location.row for finding in guard.findings]


def network() -> nn.Sequential:
    return nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2))


class Switch(nn.Module):
    """Means something by the attribute."""

    def __init__(self, requires_grad: bool = True) -> None:
        super().__init__()
        self.requires_grad = requires_grad
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(self.requires_grad):
            return self.layer(x)  # type: ignore[no-any-return]  # torch does not say what layers return


def test_an_assignment_is_reported_where_it_is_made() -> None:
    model = network()
    with watch() as guard:
        model[0].requires_grad = False  # type: ignore[assignment]  # the mistake
        setattr(model[1], "requires_grad", False)  # noqa: B010  it is the same
        expected = line()
        model(x)
    assert told(guard) == [expected - 2, expected - 1]
    assert model[0].__dict__["requires_grad"] is False


def test_an_assignment_from_before_is_reported_at_the_call() -> None:
    model = network()
    model[0].requires_grad = False  # type: ignore[assignment]  # the mistake
    with watch() as guard:
        for _ in range(3):
            model(x)
    assert told(guard) == [line(-1)]
    assert "`0`" in guard.findings[0].message
    assert guard.findings[0].count == 1


@pytest.mark.parametrize("before", [False, True])
def test_what_a_class_means_something_by(before: bool) -> None:
    model = Switch()
    if before:
        model.requires_grad = False
    with watch() as guard:
        model.requires_grad = False
        model(x)
        Switch(requires_grad=False)(x)
    assert told(guard) == []


def test_what_was_frozen_as_well() -> None:
    model = network()
    model.requires_grad = False  # type: ignore[assignment]  # the mistake
    model.requires_grad_(False)
    with watch() as guard:
        model(x)
    assert told(guard) == []


def test_the_attribute_is_what_it_is_without_a_guard() -> None:
    model = network()
    with watch():
        assert not hasattr(model, "requires_grad")
        assert not hasattr(nn.Module, "requires_grad")
        model.requires_grad = True  # type: ignore[assignment]  # the mistake
        assert vars(model)["requires_grad"] is model.requires_grad
        assert vars(copy.deepcopy(model))["requires_grad"] is True
        assert pickle.loads(pickle.dumps(model)).requires_grad is True  # noqa: S301  our own, just made
        del model.requires_grad
        assert "requires_grad" not in vars(model)
