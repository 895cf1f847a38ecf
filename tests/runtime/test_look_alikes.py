"""Correct programs that look like a mistake the guard reports only after several steps, or at the end."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, mse_loss

import gradlint

LOOPS: list[Callable[[], object]] = []


def loop(function: Callable[[], object]) -> Callable[[], object]:
    """Mark a correct program."""
    LOOPS.append(function)
    return function


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def batches(count: int = 9) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for _ in range(count):
        yield torch.randn(6, 4), torch.randint(0, 2, (6,))


def sgd(*models: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([one for model in models for one in model.parameters()], lr=0.01)


def fit(model: nn.Module, optimizer: torch.optim.Optimizer, count: int = 6) -> None:
    for x, y in batches(count):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


# --- graphs that are retained ------------------------------------------------------------------------------------


@loop
def a_penalty_on_every_third_step_walks_the_graph_again() -> None:
    model = network()
    optimizer = sgd(model)
    for i, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward(retain_graph=True)
        if i % 3 == 2:
            (0.1 * loss).backward()
        optimizer.step()


@loop
def gradients_of_each_loss_on_its_own() -> None:
    trunk, heads = nn.Linear(4, 8), nn.ModuleList(nn.Linear(8, 2) for _ in range(3))
    optimizer = sgd(trunk, heads)
    for x, y in batches():
        hidden = trunk(x).tanh()
        losses = [cross_entropy(head(hidden), y) for head in heads]
        norms = []
        for loss in losses:
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            norms.append(trunk.weight.grad.norm().item())  # type: ignore[union-attr]  # it is there after backward
        optimizer.zero_grad()
        torch.stack([loss / norm for loss, norm in zip(losses, norms, strict=True)]).sum().backward()
        optimizer.step()


@loop
def an_error_before_the_second_pass() -> None:
    model = network()
    x, y = next(batches())
    loss = cross_entropy(model(x), y)
    loss.backward(retain_graph=True)
    del loss
    raise KeyboardInterrupt


# --- graphs that are kept ----------------------------------------------------------------------------------------


@loop
def a_short_window_of_outputs() -> None:
    model, recent = network(), deque[torch.Tensor](maxlen=3)
    optimizer = sgd(model)
    for x, y in batches(20):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        recent.append(loss)


@loop
def losses_of_the_micro_batches_of_one_step() -> None:
    model = network()
    optimizer = sgd(model)
    for _ in range(3):
        total: Any = 0
        for x, y in batches(8):
            loss = cross_entropy(model(x), y) / 8
            loss.backward()
            total += loss
        optimizer.step()
        optimizer.zero_grad()
        assert float(total) > 0


@loop
def several_losses_that_are_walked_together() -> None:
    model = network()
    optimizer = sgd(model)
    for _ in range(3):
        rewards: list[torch.Tensor] = []
        for x, y in batches(8):
            rewards.append(cross_entropy(model(x), y))
        optimizer.zero_grad()
        torch.stack(rewards).sum().backward()
        optimizer.step()


# --- evaluations -------------------------------------------------------------------------------------------------


@loop
def evaluation_with_everything_said() -> None:
    model = network()
    optimizer = sgd(model)
    for _ in range(2):
        model.train()
        fit(model, optimizer)
        model.eval()
        with torch.no_grad():
            assert sum((model(x).argmax(1) == y).sum().item() for x, y in batches()) >= 0


@loop
def a_loss_that_is_skipped_at_times_in_evaluation_mode() -> None:
    model = network().eval()
    optimizer = torch.optim.SGD(model[4:].parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches()):
        loss = mse_loss(model[4:](torch.randn(6, 8)), torch.randn(6, 2))
        if i % 2:
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del x, y


@loop
def attacks_that_stop_when_they_succeed() -> None:
    model = network().eval().requires_grad_(False)
    for x, y in batches():
        x.requires_grad_()
        for _ in range(3):
            output = model(x)
            if (output.argmax(1) != y).all():
                break
            (grad,) = torch.autograd.grad(cross_entropy(output, y), x)
            x = (x + 0.1 * grad.sign()).detach().requires_grad_()


@loop
def the_shape_of_an_output() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU()).eval()
    assert model(torch.zeros(1, 4)).shape == (1, 8)


@loop
def frozen_features_need_no_graph() -> None:
    features, head = network().eval().requires_grad_(False), nn.Linear(2, 2)
    optimizer = sgd(head)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(head(features(x)), y).backward()
        optimizer.step()


@loop
def tracing() -> None:
    torch.jit.trace(network().eval(), torch.randn(2, 4))


@loop
def normalization_is_estimated_anew() -> None:
    model = network()
    fit(model, sgd(model))
    with torch.no_grad():
        for x, _ in batches():
            model(x)


@loop
def samples_of_a_random_network() -> None:
    model = network()
    fit(model, sgd(model))
    x, y = next(batches())
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).float() for _ in range(8)]
    assert 0 <= torch.stack(hits).mean() <= 1


@loop
def dropout_that_was_asked_for() -> None:
    model = network()
    fit(model, sgd(model))
    model.eval()
    model.train()
    with torch.no_grad():
        for x, y in batches():
            assert (model(x).argmax(1) == y).float().mean() <= 1


@loop
def pseudo_labels() -> None:
    model = network()
    optimizer = sgd(model)
    for x, y in batches():
        with torch.no_grad():
            labels = model(x + 0.1).argmax(1)
            agree = (labels == y).float().mean()
        optimizer.zero_grad()
        (agree * cross_entropy(model(x), labels)).backward()
        optimizer.step()


@loop
def a_teacher_in_training_mode() -> None:
    model = network()
    teacher = copy.deepcopy(model)
    optimizer = sgd(model)
    for x, _ in batches():
        with torch.no_grad():
            target = teacher(x).softmax(1)
        optimizer.zero_grad()
        mse_loss(model(x).softmax(1), target).backward()
        optimizer.step()


@loop
def rollouts_in_training_mode() -> None:
    policy = network()
    optimizer = sgd(policy)
    for _ in range(3):
        with torch.no_grad():
            actions = [torch.distributions.Categorical(logits=policy(x)).sample() for x, _ in batches(5)]
        assert sum(action.float().mean().item() for action in actions) >= 0
        fit(policy, optimizer, 2)


# --- modules -----------------------------------------------------------------------------------------------------


class Committee(nn.Module):
    """Keeps a list beside the layers it registers one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.members = [nn.Linear(4, 2) for _ in range(3)]
        for number, member in enumerate(self.members):
            self.add_module(f"member{number}", member)
        self.frozen = [nn.Linear(4, 2).requires_grad_(False) for _ in range(2)]
        self.cache: list[torch.Tensor] = []
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = torch.stack([member(x) for member in self.members]).sum(0)
        self.cache = [self.last, self.last * 2]
        return self.last + sum(member(x) for member in self.frozen)


@loop
def lists_of_registered_and_frozen_layers() -> None:
    model = Committee()
    fit(model, sgd(model))


class Wrapper(nn.Module):
    """Is given what it keeps in a list."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = members
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * torch.stack([member(x) for member in self.members]).sum(0)


@loop
def lists_from_outside() -> None:
    model = Wrapper([nn.Linear(4, 2), nn.Linear(4, 2)])
    fit(model, sgd(model))


class Prompt(nn.Module):
    """Holds a tensor that is changed by hand."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.shift = torch.zeros(4, requires_grad=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.net(x + self.shift)
        return output


@loop
def a_tensor_that_is_changed_by_hand() -> None:
    model = Prompt(network().eval())
    for x, y in batches():
        (grad,) = torch.autograd.grad(cross_entropy(model(x), y), model.shift)
        with torch.no_grad():
            model.shift -= 0.1 * grad


@loop
def a_tensor_that_an_optimizer_was_given() -> None:
    model = Prompt(network())
    fit(model, torch.optim.SGD([*model.parameters(), model.shift], lr=0.01))


class Actor(nn.Module):
    """Trains a tensor of its own by an optimizer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.log_alpha = torch.tensor(0.1)
        self.log_alpha.requires_grad = True
        self.optimizer = torch.optim.Adam([self.log_alpha])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.net(x) * self.log_alpha.exp()
        return output


@loop
def an_optimizer_among_the_attributes() -> None:
    model = Actor()
    fit(model, sgd(model.net))


@loop
def a_tensor_of_a_model_that_is_not_trained_yet() -> None:
    model = Prompt(network())
    optimizer = torch.optim.Adam([model.shift])
    for x, _ in batches():
        model(x).argmax(1)
    assert optimizer.param_groups


class Lazy(nn.Module):
    """Builds what it keeps when it first can, and what it fills each time."""

    def __init__(self) -> None:
        super().__init__()
        self.head: nn.Module | None = None
        self.kept: dict[int, nn.Module] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.head is None:
            self.head = nn.Linear(x.shape[1], 2)
        smooth = nn.Linear(2, 2, bias=False)
        nn.init.eye_(smooth.weight)
        layer = nn.Linear(2, 2)
        weights = {name: torch.zeros_like(value) for name, value in layer.named_parameters()}
        output: torch.Tensor = smooth(self.head(x)) + functional_call(layer, weights, (self.head(x),))
        return output


@loop
def layers_that_are_kept_or_filled() -> None:
    model = Lazy()
    model(torch.randn(2, 4))
    fit(model, sgd(model))


# --- accumulation ------------------------------------------------------------------------------------------------


@loop
def gradients_of_tasks_that_are_combined_by_hand() -> None:
    model = network()
    optimizer = sgd(model)
    for _ in range(4):
        gradients: list[list[Any]] = []
        for x, y in batches(3):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            gradients.append([parameter.grad for parameter in model.parameters()])
        for parameter, *of_tasks in zip(model.parameters(), *gradients, strict=True):
            parameter.grad = torch.stack(of_tasks).mean(0)
        optimizer.step()


@loop
def two_passes_of_one_closure() -> None:
    model = network()
    optimizer = sgd(model)

    def walk(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()

    for x, y in batches():
        walk(x, y)
        with torch.no_grad():
            moves = [0.05 * parameter.grad.sign() for parameter in model.parameters()]  # type: ignore[union-attr]  # set
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter += move
        walk(x, y)
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter -= move
        optimizer.step()


@loop
def steps_that_are_left_out_now_and_then() -> None:
    model = network()
    optimizer = sgd(model)
    for i, (x, y) in enumerate(batches(12)):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        if i not in (2, 3, 7):
            optimizer.step()


@loop
def a_generator_on_every_third_iteration() -> None:
    generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
    of_generator, of_critic = sgd(generator), sgd(critic)
    for i in range(12):
        of_critic.zero_grad()
        critic(generator(torch.randn(3, 2))).mean().backward()
        of_critic.step()
        of_generator.zero_grad()
        if i % 3 == 0:
            (-critic(generator(torch.randn(3, 2))).mean()).backward()
            of_generator.step()


@loop
def evaluation_by_layers_of_a_model_in_evaluation_mode() -> None:
    model = network()
    fit(model, sgd(model))
    body = nn.Sequential(*list(model.children()))
    model.eval()
    with torch.no_grad():
        for x, y in batches(5):
            cross_entropy(body(x), y)
            (model[:5](x).argmax(1) == y).sum()


@pytest.mark.parametrize("correct", LOOPS, ids=lambda function: function.__name__)
def test_correct_programs_are_not_reported(correct: Callable[[], object]) -> None:
    torch.manual_seed(0)
    with gradlint.guard(on_finding="collect") as guard:
        try:
            correct()
        except KeyboardInterrupt:
            guard.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert [str(finding) for finding in guard.findings] == []
    assert not guard._failed
