"""Programs that do what most do not: no witness fails, and nothing is told that does not hold."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import gradlint
import gradlint.runtime
from gradlint.runtime import Guard


def watch(*things: Any, **options: Any) -> Guard:
    return gradlint.guard(*things, on_finding="collect", **options)


def codes(guard: Guard) -> list[str]:
    assert not guard._failed
    return [finding.code for finding in guard.findings]


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 12, device: str = "cpu") -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4, device=device)).square().mean().backward()
        optimizer.step()


# --- records that hold tensors ---------------------------------------------------------------------------------


def records() -> Iterator[type]:
    for module in pkgutil.walk_packages(gradlint.runtime.__path__, "gradlint.runtime."):
        if ".integrations." not in module.name:
            for kind in vars(importlib.import_module(module.name)).values():
                if isinstance(kind, type) and kind.__module__ == module.name and dataclasses.is_dataclass(kind):
                    yield kind


def test_records_that_hold_tensors_are_not_compared_by_what_they_hold() -> None:
    found = list(records())
    assert len(found) > 15
    held = ("Tensor", "ref[", "Any", "Saved", "Parameter")
    by_value = [
        kind.__name__
        for kind in found
        if kind.__dataclass_params__.eq
        and any(word in str(one.type) for one in dataclasses.fields(kind) for word in held)
    ]
    assert by_value == []


def test_a_head_is_replaced_at_one_place_for_each_task_and_the_old_ones_are_kept() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    heads = []
    with watch(model, optimizer) as guard:
        for _ in range(4):
            train(model, optimizer, steps=2)
            heads.append(model[1])
            model[1] = nn.Linear(8, 2)
            optimizer.add_param_group({"params": model[1].parameters()})
        train(model, optimizer, steps=2)
    assert codes(guard) == []


def test_heads_of_one_size_that_no_optimizer_is_given() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    heads = []
    with watch(model, optimizer) as guard:
        for _ in range(4):
            train(model, optimizer, steps=2)
            heads.append(model[1])
            model[1] = nn.Linear(8, 2)
        train(model, optimizer, steps=2)
    assert codes(guard) == ["GL209"]


# --- tensors without values ------------------------------------------------------------------------------------


def test_a_training_on_the_meta_device() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to("meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, select="ALL") as guard:
        train(model, optimizer, steps=25, device="meta")
    assert codes(guard) == []


def test_gradients_that_pile_up_on_the_meta_device() -> None:
    model = nn.Linear(4, 2, device="meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer) as guard:
        for _ in range(12):
            model(torch.ones(3, 4, device="meta")).square().mean().backward()
            optimizer.step()
    assert codes(guard) == ["GL201"]


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_a_training_on_fake_tensors(exact: bool) -> None:
    with FakeTensorMode(), watch(select="ALL", exact=exact) as guard:
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=False)
        for step in range(25):
            optimizer.zero_grad()
            out = model(torch.ones(3, 4))
            kept = out.detach().clone()
            kept += step
            out.square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                model[0].weight.clamp_(-1, 1)
    assert codes(guard) == []


def test_complex_gradients() -> None:
    weight = nn.Parameter(torch.ones(3, dtype=torch.complex64))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with watch(select=("GL701", "GL704")) as guard:
        for _ in range(12):
            optimizer.zero_grad()
            (weight * weight.conj()).real.sum().backward()
            optimizer.step()
    assert codes(guard) == []


# --- parameters that gradients reach late, or never -------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 2])
def test_a_parameter_without_elements_misses_no_gradient(size: int) -> None:
    used, other = nn.Linear(4, 2), nn.Parameter(torch.ones(size))
    optimizer = torch.optim.SGD([*used.parameters(), other], lr=0.1)
    with watch(used, optimizer) as guard:
        train(used, optimizer)
    assert codes(guard) == (["GL702"] if size else [])


@pytest.mark.parametrize("begins", [11, 100])
def test_a_loss_that_sets_in_late(begins: int) -> None:
    body, auxiliary = nn.Linear(4, 4), nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *auxiliary.parameters()], lr=0.01)
    with watch(body, auxiliary, optimizer) as guard:
        for step in range(20):
            optimizer.zero_grad()
            hidden = body(torch.ones(3, 4))
            loss = hidden.square().mean()
            if step >= begins:
                loss = loss + auxiliary(hidden).square().mean()
            loss.backward()
            optimizer.step()
    assert codes(guard) == (["GL702"] if begins == 100 else [])


# --- logarithms of probabilities and an epsilon -----------------------------------------------------------------


def cross(p: torch.Tensor) -> torch.Tensor:
    return -torch.log(p + 1e-8)[:, 0].mean()


def entropy(p: torch.Tensor) -> torch.Tensor:
    return -(p * torch.log(p + 1e-8)).sum(1).mean()


def entropy_of_the_negative(p: torch.Tensor) -> torch.Tensor:
    return (-p * (p + 1e-8).log()).sum(1).mean()


def entropy_from_behind(p: torch.Tensor) -> torch.Tensor:
    logarithm = torch.log(1e-8 + p)
    return -(logarithm * p).sum(1).mean()


def weighted(p: torch.Tensor) -> torch.Tensor:
    return -(torch.log(p + 1e-8) * torch.ones(3, 2)).mean()


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (cross, ["GL306"]),
        (weighted, ["GL306"]),
        (entropy, []),
        (entropy_of_the_negative, []),
        (entropy_from_behind, []),
    ],
)
def test_an_epsilon_belongs_to_an_entropy(loss: Callable[[torch.Tensor], torch.Tensor], expected: list[str]) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer) as guard:
        for _ in range(3):
            optimizer.zero_grad()
            loss(torch.softmax(model(torch.randn(3, 4)), dim=1)).backward()
            optimizer.step()
    assert codes(guard) == expected


# --- parameters that are spread over a mesh ---------------------------------------------------------------------


@pytest.fixture
def mesh() -> Iterator[Any]:
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.device_mesh.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("clears", ["never", "to none", "to zeros"])
def test_gradients_that_are_dtensors(clears: str, mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, distribute_module, distribute_tensor

    model = distribute_module(nn.Linear(4, 2), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = distribute_tensor(torch.ones(3, 4), mesh, [Replicate()])
    with watch(model, optimizer) as guard:
        for _ in range(20):
            if clears != "never":
                optimizer.zero_grad(set_to_none=clears == "to none")
            model(x).sum().backward()
            optimizer.step()
    assert codes(guard) == (["GL201"] if clears == "never" else [])


# --- updates without an optimizer -------------------------------------------------------------------------------


def by_subtraction(p: torch.Tensor, grad: torch.Tensor) -> None:
    p -= 0.1 * grad


def by_data(p: torch.Tensor, grad: torch.Tensor) -> None:
    p.data.add_(grad, alpha=-0.1)


def by_assignment(p: torch.Tensor, grad: torch.Tensor) -> None:
    p.data = p.data - 0.1 * grad


def by_copy(p: torch.Tensor, grad: torch.Tensor) -> None:
    p.copy_(p - 0.1 * grad.clone())


@pytest.mark.parametrize("clears", ["never", "to none", "to zeros", "through data", "afterwards"])
@pytest.mark.parametrize("update", [by_subtraction, by_data, by_assignment, by_copy])
def test_a_model_that_is_updated_by_hand(update: Callable[..., None], clears: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    with watch(model, select="GL201") as guard:
        for _ in range(6):
            if clears in ("to none", "to zeros"):
                model.zero_grad(set_to_none=clears == "to none")
            if clears == "through data":
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.data.zero_()
            model(torch.randn(3, 4)).square().mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    update(p, p.grad)
                    if clears == "afterwards":
                        p.grad.zero_()
    assert codes(guard) == (["GL201"] if clears == "never" else [])


def clipped(p: torch.Tensor, total: list[float]) -> None:
    total.append(p.grad.norm().item())
    p.clamp_(-1, 1)


def perturbed(p: torch.Tensor, total: list[float]) -> None:
    total.append(0.0 if p.grad is None else 1.0)
    p.add_(torch.randn_like(p), alpha=0.1)


def averaged(p: torch.Tensor, total: list[float]) -> None:
    p.lerp_(torch.zeros_like(p), 0.1)


@pytest.mark.parametrize("look", [clipped, perturbed, averaged])
def test_gradients_that_are_accumulated_and_looked_at_while_weights_move(look: Callable[..., None]) -> None:
    model = nn.Linear(4, 2)
    with watch(model, select="GL201") as guard:
        total: list[float] = []
        for _ in range(6):
            model(torch.randn(3, 4)).square().mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    look(p, total)
    assert codes(guard) == []


def test_moved_by_hand_and_back_and_then_stepped() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, select="GL201") as guard:
        for _ in range(6):
            model(torch.randn(3, 4)).square().mean().backward()
            with torch.no_grad():
                steps = [0.1 * p.grad for p in model.parameters()]
                for p, step in zip(model.parameters(), steps, strict=True):
                    p.add_(step)
            model(torch.randn(3, 4)).square().mean().backward()
            with torch.no_grad():
                for p, step in zip(model.parameters(), steps, strict=True):
                    p.sub_(step)
            optimizer.step()
            optimizer.zero_grad()
    assert codes(guard) == []


# --- gradients that a program defines itself ----------------------------------------------------------------------


class Filled(torch.autograd.Function):
    """Writes a part of what it is given, unnoticed, and says itself what the gradients are."""

    @staticmethod
    def forward(ctx: Any, whole: torch.Tensor, part: torch.Tensor, index: int) -> torch.Tensor:
        ctx.index = index
        whole.data[index] = part
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (grad,) = grads
        return grad, grad[ctx.index], None


def filled(whole: torch.Tensor, part: torch.Tensor, index: int) -> torch.Tensor:
    whole.data[index] = part
    return whole


@pytest.mark.parametrize(("fill", "expected"), [(Filled.apply, []), (filled, ["GL101"])])
def test_a_function_that_defines_its_gradients_may_write_through_data(
    fill: Callable[..., torch.Tensor], expected: list[str]
) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, select="GL101") as guard:
        for _ in range(3):
            optimizer.zero_grad()
            out = model(torch.randn(3, 4))
            whole = torch.zeros(2, 3, 2, requires_grad=True)
            for index in range(2):
                whole = fill(whole * 1, out * index, index)
            whole.sum().backward()
            optimizer.step()
    assert codes(guard) == expected


# --- memory that is given back ---------------------------------------------------------------------------------


class UpdatesInBackward(torch.optim.Optimizer):
    """Applies each gradient as soon as it is there, and gives its memory back; ``step`` has nothing left to do."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 0.1})
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self.apply)

    def apply(self, parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        with torch.no_grad():
            parameter.add_(parameter.grad, alpha=-0.1)
        parameter.grad.untyped_storage().resize_(0)

    def step(self, closure: Any = None) -> None:
        """Nothing is left to do."""


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("width", [2, 2000])
def test_gradients_whose_memory_was_given_back_are_not_read(width: int, exact: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))
    with watch(model, exact=exact) as guard:
        optimizer = UpdatesInBackward(list(model.parameters()))
        for _ in range(12):
            model(torch.ones(3, 4)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not codes(guard)


def test_an_average_of_the_model_is_not_frozen() -> None:
    torch.manual_seed(0)

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
            self.target = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).requires_grad_(False)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return (self.online(inputs) - self.target(inputs)).square().mean()

    pair = Pair()
    optimizer = torch.optim.SGD(pair.online.parameters(), lr=0.1)
    with watch(pair, optimizer, select=["GL415"]) as guard:
        for _ in range(12):
            optimizer.zero_grad()
            pair(torch.randn(8, 4)).backward()
            optimizer.step()
            for average, own in zip(pair.target.parameters(), pair.online.parameters(), strict=True):
                average.data = 0.9 * average.data + 0.1 * own.data
    assert not codes(guard)
