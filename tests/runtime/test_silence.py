"""Correct training, in its many forms: the guard has nothing to say about it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

import gradlint

Loop = Callable[[], object]
LOOPS: list[Loop] = []


def loop(function: Loop) -> Loop:
    """Mark a correct training loop."""
    LOOPS.append(function)
    return function


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))


def batches(count: int = 5) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    for _ in range(count):
        yield torch.randn(6, 4), torch.randint(0, 2, (6,))


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **options)


def train(clear: Callable[[nn.Module, torch.optim.Optimizer], object], **options: Any) -> None:
    model = network()
    optimizer = sgd(model, **options)
    for x, y in batches():
        clear(model, optimizer)
        cross_entropy(model(x), y).backward()
        optimizer.step()


@loop
def clearing_to_none() -> None:
    train(lambda model, optimizer: optimizer.zero_grad(set_to_none=True))


@loop
def clearing_to_zero() -> None:
    train(lambda model, optimizer: optimizer.zero_grad(set_to_none=False))


@loop
def clearing_by_the_model() -> None:
    train(lambda model, optimizer: model.zero_grad())


@loop
def clearing_by_assignment() -> None:
    def clear(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for parameter in model.parameters():
            parameter.grad = None

    train(clear)


@loop
def clearing_by_multiplication() -> None:
    def clear(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= 0

    train(clear)


@loop
def clearing_through_data_where_no_version_shows_it() -> None:
    def clear(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.data.zero_()

    train(clear)


@loop
def fused() -> None:
    train(lambda model, optimizer: optimizer.zero_grad(), fused=True)


@loop
def clearing_after_the_step() -> None:
    model = network()
    optimizer = sgd(model)
    for x, y in batches():
        cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def accumulation() -> None:
    model = network()
    optimizer = sgd(model)
    for i, (x, y) in enumerate(batches(8)):
        (cross_entropy(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


@loop
def adversaries() -> None:
    generator, critic = network(), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    first, second = sgd(generator), torch.optim.Adam(critic.parameters())
    for x, _ in batches():
        second.zero_grad()
        (critic(generator(x).detach()).mean() - critic(torch.randn(6, 2)).mean()).backward()
        second.step()
        first.zero_grad()
        (-critic(generator(x)).mean()).backward()  # adds to the spent gradients of the critic, which clears them
        first.step()


@loop
def parameters_shared_by_two_optimizers() -> None:
    model = network()
    first, second = sgd(model), torch.optim.Adam(model.parameters())
    for x, y in batches():
        first.zero_grad()
        cross_entropy(model(x), y).backward()
        first.step()
        second.step()


@loop
def lbfgs() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x, y = next(batches())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)  # type: ignore[arg-type]  # torch types the closure as returning a float


class SharpnessAware(torch.optim.Optimizer):
    """Climbs to the worst neighbour, and descends with the gradient taken there."""

    def __init__(self, params: Any, base: type[torch.optim.Optimizer], **options: Any) -> None:
        super().__init__(params, options)
        self.base = base(self.param_groups, **options)
        self.climbed: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def climb(self) -> None:
        self.climbed = [(p, 0.05 * p.grad) for group in self.param_groups for p in group["params"]]
        for parameter, by in self.climbed:
            parameter.add_(by)
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> None:  # type: ignore[override]  # it needs the closure
        self.climb()
        with torch.enable_grad():
            closure()
        for parameter, by in self.climbed:
            parameter.sub_(by)
        self.base.step()
        self.zero_grad()


@loop
def sharpness_aware_minimization() -> None:
    model = nn.Linear(4, 2)
    optimizer = SharpnessAware(model.parameters(), torch.optim.SGD, lr=0.01)
    for x, y in batches():
        cross_entropy(model(x), y).backward()
        optimizer.step(lambda x=x, y=y: cross_entropy(model(x), y).backward())


class Scheduled(torch.optim.Adam):
    """Steps through its base class, so that the global hooks run twice for one step."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


@loop
def a_step_that_calls_super() -> None:
    model = network()
    optimizer = Scheduled(model.parameters())
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


@loop
def the_optimizer_in_the_backward_pass() -> None:
    model = network()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}

    def apply(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()  # type: ignore[index]  # hooks are typed for any tensor
        optimizers[parameter].zero_grad()  # type: ignore[index]

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(apply)
    for x, y in batches():
        cross_entropy(model(x), y).backward()


@loop
def sparse_gradients() -> None:
    table = nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        table(torch.tensor([1, 2])).sum().backward()
        optimizer.step()


@loop
def sparse_gradients_whose_values_are_zeroed() -> None:
    table = nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(4):
        if table.weight.grad is not None:
            table.weight.grad._values().zero_()
        table(torch.tensor([1, 2])).sum().backward()
        optimizer.step()


@loop
def a_gradient_scaler_that_skips_a_step() -> None:
    model = network()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for i, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        scaler.scale(cross_entropy(model(x), y) * (float("inf") if i == 2 else 1.0)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


@loop
def gradient_penalty() -> None:
    critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(critic.parameters())
    for x, _ in batches():
        x.requires_grad_()
        optimizer.zero_grad()
        out = critic(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        (out.mean() + (slope.norm(dim=1) - 1).square().mean()).backward()
        optimizer.step()


@loop
def adversarial_examples() -> None:
    model = network()
    optimizer = sgd(model)
    for x, y in batches():
        x.requires_grad_()
        cross_entropy(model(x), y).backward()
        assert x.grad is not None
        attacked = (x + 0.1 * x.grad.sign()).detach()
        optimizer.zero_grad()
        cross_entropy(model(attacked), y).backward()
        optimizer.step()


@loop
def the_gradient_of_an_input_read_by_a_hook() -> None:
    model = network()
    optimizer = sgd(model)
    seen = []
    for x, y in batches():
        x.requires_grad_().register_hook(seen.append)
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    assert len(seen) == 5


@loop
def saliency_read_after_some_steps_of_another_model() -> None:
    model = network().eval()
    x = torch.randn(2, 4, requires_grad=True)
    model(x).max().backward()
    assert x.grad is not None
    clearing_to_none()


@loop
def an_image_that_is_optimized() -> None:
    features = network().eval().requires_grad_(False)
    image = torch.randn(6, 4, requires_grad=True)
    optimizer = torch.optim.Adam([image])
    for _ in range(5):
        optimizer.zero_grad()
        features(image).square().mean().backward()
        optimizer.step()


@loop
def reentrant_checkpoints_that_need_an_input_with_grad() -> None:
    model, head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    for x, y in batches():
        x.requires_grad_()
        optimizer.zero_grad()
        cross_entropy(head(checkpoint(model, x, use_reentrant=True)), y).backward()
        optimizer.step()


@loop
def checkpoints_that_are_not_reentrant() -> None:
    model, head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(head(checkpoint(model, x, use_reentrant=False)), y).backward()
        optimizer.step()


@loop
def double_backward() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = sgd(model)
    for x, _ in batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        (loss + sum(grad.square().sum() for grad in grads)).backward()
        optimizer.step()


@loop
def two_losses_over_one_graph() -> None:
    model = network()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        out = model(x)
        cross_entropy(out, y).backward(retain_graph=True)
        out.square().mean().backward()
        optimizer.step()


@loop
def dead_units_and_nothing_cleared() -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    nn.init.constant_(model[0].bias, -10)
    optimizer = sgd(model)
    for x, _ in batches():
        model(x).sum().backward()
        optimizer.step()


@loop
def truncated_backpropagation() -> None:
    cell = nn.RNNCell(4, 4)
    optimizer = sgd(cell)
    hidden = torch.zeros(6, 4)
    for x, _ in batches():
        optimizer.zero_grad()
        hidden = cell(x, hidden.detach())
        hidden.sum().backward()
        optimizer.step()


@loop
def function_transforms() -> None:
    model = nn.Linear(4, 2)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    x, y = next(batches())

    def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(torch.func.functional_call(model, parameters, (x[None],)), y[None])

    grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    assert grads["weight"].shape == (6, 2, 4)
    torch.func.jacrev(lambda x: model(x))(x)
    torch.autograd.functional.jacobian(lambda x: model(x).sum(0), x)


@loop
def data_parallel() -> None:
    model = nn.DataParallel(network())
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


@loop
def averaged_copies() -> None:
    model = network()
    average = torch.optim.swa_utils.AveragedModel(model)
    teacher = copy.deepcopy(model)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)


@loop
def inference() -> None:
    model = network().eval()
    for x, _ in batches():
        with torch.inference_mode():
            out = model(x)
            model(out.new_ones(2, 4))
        with torch.no_grad():
            model(x.requires_grad_())


@loop
def gradients_assigned_by_hand() -> None:
    model, other = network(), network()
    optimizer = sgd(model)
    for x, y in batches():
        other.zero_grad()
        cross_entropy(other(x), y).backward()
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            mine.grad = None if theirs.grad is None else theirs.grad.clone()
        optimizer.step()


@loop
def master_copies_of_the_parameters() -> None:
    model = network()
    copies = [nn.Parameter(parameter.detach().clone()) for parameter in model.parameters()]
    optimizer = torch.optim.SGD(copies, lr=0.01)
    for x, y in batches():
        cross_entropy(model(x), y).backward()
        for copy_, parameter in zip(copies, model.parameters(), strict=True):
            if copy_.grad is None:
                copy_.grad = torch.zeros_like(copy_)
            copy_.grad.data.copy_(parameter.grad)
        optimizer.step()
        model.zero_grad()
        with torch.no_grad():
            for copy_, parameter in zip(copies, model.parameters(), strict=True):
                parameter.copy_(copy_)


@loop
def gradients_made_by_hand() -> None:
    model = network()
    optimizer = sgd(model)
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()


@loop
def a_scheduler_after_a_step_that_the_scaler_left_out() -> None:
    model = network()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cpu")
    for number, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        scaler.scale(loss if number else loss * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
        with warnings.catch_warnings(action="ignore"):
            scheduler.step()


@loop
def schedulers_that_are_told_the_epoch_or_step_after() -> None:
    model = network()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()


@loop
def a_mode_that_is_saved_and_restored() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        modes = {module: module.training for module in model.modules()}
        model.eval()
        with torch.no_grad():
            model(x)
        for module, mode in modes.items():
            module.training = mode


@loop
def an_encoder_kept_in_evaluation_mode() -> None:
    encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    model = nn.ModuleDict({"encoder": encoder, "head": nn.Linear(8, 2)})
    optimizer = torch.optim.SGD(model["head"].parameters(), lr=0.01)
    for x, y in batches():
        model.train()
        encoder.eval()
        optimizer.zero_grad()
        cross_entropy(model["head"](encoder(x)), y).backward()
        optimizer.step()


@loop
def models_that_come_and_go() -> None:
    for _ in range(5):
        clearing_after_the_step()


@pytest.mark.parametrize("exact", [False, True, 1 / 3], ids=["default", "exact", "sampled"])
@pytest.mark.parametrize("correct", LOOPS, ids=lambda function: function.__name__)
def test_correct_training_is_not_reported(correct: Loop, exact: bool | float) -> None:
    if exact and correct is function_transforms:
        pytest.skip("torch.func refuses to work under hooks on saved tensors, which exact checks need")
    with gradlint.guard(on_finding="collect", select=["ALL"], exact=exact) as guard:
        correct()
    assert [str(finding) for finding in guard.findings] == []
    assert not guard._failed
