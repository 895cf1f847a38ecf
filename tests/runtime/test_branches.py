"""Operations in place and the sums that they spoil: what the guard reads in the source, and where it does not look."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gradlint
from gradlint.runtime.torch_functions import OVERWRITES, UNMOVED
from gradlint.static.knowledge import torch_table as table


class Branch(nn.Module):
    """Adds what a function makes of an input and two layers."""

    def __init__(self, function: Callable[[Any, Any, Any], torch.Tensor]) -> None:
        super().__init__()
        self.act = nn.LeakyReLU(0.1, inplace=True)
        self.layer = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.act, self.layer)


def _named_anew(x: Any, act: Any, layer: Any) -> torch.Tensor:
    skip = x
    for _ in range(1):
        h = layer(act(x))
    h = h * 2
    result: torch.Tensor = skip + h
    return result


def _through_a_list(x: Any, act: Any, layer: Any) -> torch.Tensor:
    features = []
    features.append(act(x))
    h = torch.cat([layer(one) for one in features])
    h += x
    result: torch.Tensor = h
    return result


def _by_a_method(x: Any, act: Any, layer: Any) -> torch.Tensor:
    h = layer(F.hardtanh_(x))
    result: torch.Tensor = h.sub(x)
    return result


def _copied(x: Any, act: Any, layer: Any) -> torch.Tensor:
    skip = x * 1
    result: torch.Tensor = skip + layer(act(x))
    return result


def _bound_again(x: Any, act: Any, layer: Any) -> torch.Tensor:
    x = act(x)
    result: torch.Tensor = x + layer(x)
    return result


def _of_something_else(x: Any, act: Any, layer: Any) -> torch.Tensor:
    h = layer(act(x))
    h = layer(torch.ones(3, 4))
    result: torch.Tensor = x + h
    return result


def _nothing_done_with_it(x: Any, act: Any, layer: Any) -> torch.Tensor:
    act(x)
    result: torch.Tensor = x + layer(x)
    return result


def _in_a_lambda(x: Any, act: Any, layer: Any) -> torch.Tensor:
    add = lambda one, other: one + other  # noqa: E731  what has no statements of its own
    result: torch.Tensor = add(x, layer(act(x)))
    return result


def _codes(module: nn.Module, *, shift: float = 0.0) -> list[str]:
    torch.manual_seed(0)
    with gradlint.guard(on_finding="collect", select="GL414") as guard, torch.no_grad():
        module(torch.randn(3, 4).abs() + shift)
    return [finding.code for finding in guard.findings]


@pytest.mark.parametrize("function", [_named_anew, _through_a_list, _by_a_method])
def test_what_is_overwritten_is_added_by_its_old_name(function: Callable[..., torch.Tensor]) -> None:
    assert _codes(Branch(function), shift=-1.0) == ["GL414"]


@pytest.mark.parametrize("function", [_copied, _bound_again, _of_something_else, _nothing_done_with_it, _in_a_lambda])
def test_what_is_added_is_something_else_or_meant(function: Callable[..., torch.Tensor]) -> None:
    assert _codes(Branch(function), shift=-1.0) == []


def test_what_is_nowhere_below_zero_stays_what_it_is() -> None:
    assert _codes(Branch(_named_anew)) == []
    assert _codes(Branch(_named_anew), shift=-1.0) == ["GL414"]


def test_a_later_block_of_the_same_class_is_given_values_below_zero() -> None:
    blocks = nn.Sequential(nn.Sigmoid(), *(Branch(_named_anew) for _ in range(3)))
    assert _codes(blocks) == ["GL414"]


def test_nothing_is_read_while_a_program_is_traced() -> None:
    net = nn.Sequential(Branch(_bound_again), nn.BatchNorm1d(4)).eval()
    with (
        warnings.catch_warnings(record=True) as told,
        gradlint.guard(net, on_finding="collect", select=["GL414", "GL417"]) as guard,
    ):
        warnings.simplefilter("always")
        torch.jit.trace(net, torch.randn(3, 4))  # type: ignore[no-untyped-call]
    assert not [warning for warning in told if issubclass(warning.category, torch.jit.TracerWarning)]
    assert guard.findings == []


def test_values_stay_what_they_are() -> None:
    x, net = torch.randn(3, 4), nn.Sequential(nn.Linear(4, 4), Branch(_named_anew))
    expected = net(x)
    state = torch.get_rng_state()
    with gradlint.guard(net, on_finding="collect"):
        watched = net(x)
    assert torch.equal(expected, watched)
    assert torch.equal(state, torch.get_rng_state())


def test_both_witnesses_know_the_same_functions() -> None:
    functions = {name.rpartition(".")[2]: at for name, at in table.OVERWRITES.items() if ".functional." in name}
    assert {getattr(F, name): at for name, at in functions.items()} == {
        function: at for function, at in OVERWRITES.items() if at is not None
    }
    always = {getattr(o, name) for name in table.RENAMING for o in (torch, F, torch.Tensor) if hasattr(o, name)}
    assert always == {function for function, at in OVERWRITES.items() if at is None}
    assert {getattr(F, name) for name in table.UNMOVED if name.islower()} <= UNMOVED
    assert {function.__name__.removesuffix("_") for function in UNMOVED} <= table.UNMOVED


def test_layers_may_be_replaced_between_two_evaluations() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    average = copy.deepcopy(net).eval()
    x = torch.randn(8, 4)
    with gradlint.guard(net, on_finding="collect", select="GL417") as guard:
        for step in range(6):
            net(x)
            with torch.no_grad():
                own = dict(average.named_parameters())
                for name, new in net.named_parameters():
                    if name in own:
                        own[name].lerp_(new + 1, 0.5)
                if step == 1:
                    average[1] = nn.LayerNorm(4)
                average(x)
    assert guard.findings == []
    assert not guard._failed
