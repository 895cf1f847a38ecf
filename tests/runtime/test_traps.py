"""What watching a training stumbles over easily: recompilation, equal tensors, other threads, calls over many lines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import gradlint
from gradlint.runtime import Guard


def watch(**options: Any) -> Guard:
    return gradlint.guard(**{"on_finding": "collect", "select": ["ALL"], **options})


def codes(guard: Guard) -> list[str]:
    assert not guard._failed
    return [finding.code for finding in guard.findings]


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def batches(count: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    for _ in range(count):
        yield torch.randn(6, 4), torch.randint(0, 2, (6,))


def train(forward: Callable[[torch.Tensor], torch.Tensor], optimizer: torch.optim.Optimizer, count: int = 4) -> None:
    for x, y in batches(count):
        optimizer.zero_grad()
        cross_entropy(forward(x), y).backward()
        optimizer.step()


# --- compiled models ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"exact": True}], ids=["default", "exact"])
def test_a_guard_costs_a_compiled_model_one_recompilation_at_most(options: dict[str, Any]) -> None:
    compilations = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        compilations.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    train(compiled, optimizer)
    for _ in range(3):
        with watch(**options) as guard:
            train(compiled, optimizer, 6)
        assert codes(guard) == []
        train(compiled, optimizer)
    assert len(compilations) <= 2
    torch._dynamo.reset()


def test_only_what_torch_promises_tells_whether_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.compiler, "_is_compiling_flag", raising=False)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: False)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch() as guard:
        for x, y in batches(4):
            cross_entropy(model(x), y).backward()
            optimizer.step()
    assert codes(guard) == ["GL201"]
    assert guard._recording.counts["step"] == 4


# --- equal tensors -----------------------------------------------------------------------------------------------


def test_tensors_that_are_equal_are_told_apart() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch() as guard:
        for _ in range(4):
            read, unread = (torch.ones(6, 4, requires_grad=True) for _ in range(2))
            optimizer.zero_grad()
            loss = model(read).mean()
            loss = loss + model(unread).mean()
            row = sys._getframe().f_lineno - 1
            loss.backward()
            assert read.grad is not None
            optimizer.step()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL109", row)]


def test_layers_that_begin_equal_are_told_apart() -> None:
    first, second = nn.Linear(4, 2), nn.Linear(4, 2)
    second.load_state_dict(first.state_dict())
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (first, second)]
    with watch() as guard:
        for x, y in batches(4):
            optimizers[0].zero_grad()
            (cross_entropy(first(x), y) + cross_entropy(second(x), y)).backward()
            row = sys._getframe().f_lineno - 1
            for optimizer in optimizers:
                optimizer.step()
    assert [(finding.code, finding.location.row, finding.count) for finding in guard.findings] == [("GL201", row, 3)]


# --- threads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_another_thread_has_no_mode_and_no_hooks(exact: bool) -> None:
    seen: list[object] = []

    def work() -> None:
        seen.append(torch._C._len_torch_function_stack())
        seen.append(torch._C._autograd._top_saved_tensors_default_hooks(False))
        weight = torch.ones(3, requires_grad=True)
        out = weight.exp()
        out.detach().numpy()[:] = 0  # would be found in the guard's own thread
        out.sum().backward()

    with watch(exact=exact) as guard:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert (seen, codes(guard)) == ([0, None], [])


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_a_guard_in_a_thread_leaves_the_main_thread_alone(exact: bool) -> None:
    entered, looked = threading.Event(), threading.Event()
    guard = watch(exact=exact)

    def work() -> None:
        with guard:
            out = torch.ones(3, requires_grad=True).exp()
            out.data.zero_()
            out.sum().backward()
            entered.set()
            looked.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(60)
    depth = torch._C._len_torch_function_stack()
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    looked.set()
    thread.join()
    assert depth == 0
    assert hooks is None
    assert codes(guard) == ["GL101"]


# --- dropout, and how its call is written ------------------------------------------------------------------------


def deliberately(x: torch.Tensor) -> torch.Tensor:
    return dropout(
        x,
        p=0.5,
        training=True,
    )


def by_mistake(x: torch.Tensor) -> torch.Tensor:
    return dropout(
        x.relu(),
        p=0.5,
    )


def test_the_source_of_a_call_over_several_lines_is_read_as_a_whole() -> None:
    class Dropping(nn.Module):
        def __init__(self, drop: Callable[[torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.layer, self.drop = nn.Linear(4, 4), drop

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.drop(self.layer(x))

    with watch(select=["GL401"]) as guard, torch.no_grad():
        for drop in (deliberately, by_mistake):
            Dropping(drop).eval()(torch.ones(2, 4))
    first = by_mistake.__code__.co_firstlineno
    assert [(one.location.row, one.location.end_row) for one in guard.findings] == [(first + 1, first + 4)]


# --- parameters that no gradient reaches -------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "expected"), [(4, []), (5, ["GL702"]), (12, ["GL702"])])
def test_it_takes_several_steps_to_say_that_no_gradient_ever_came(steps: int, expected: list[str]) -> None:
    model, head = network(), nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    with watch() as guard:
        train(model, optimizer, steps)
    assert codes(guard) == expected


def test_parameters_that_are_reached_late_are_not_dead() -> None:
    model, head = network(), nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    with watch() as guard:
        train(model, optimizer, 4)
        train(lambda x: head(model(x)), optimizer, 8)
    assert codes(guard) == []


# --- training mode without gradients -----------------------------------------------------------------------------


def test_statistics_may_be_estimated_anew_in_training_mode() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch() as guard:
        for _ in range(3):
            train(model, optimizer, 3)
            model[1].reset_running_stats()
            with torch.no_grad():
                for x, _ in batches(3):
                    model(x)
        torch.optim.swa_utils.update_bn([x for x, _ in batches(3)], model)
    assert codes(guard) == []


def test_experience_may_be_gathered_in_training_mode() -> None:
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(policy.parameters())
    with watch() as guard:
        for x, _ in batches(6):
            with torch.no_grad():
                actions = torch.distributions.Categorical(logits=policy(x)).sample()
            optimizer.zero_grad()
            chances = torch.distributions.Categorical(logits=policy(x)).log_prob(actions)
            (-chances * torch.randn(6)).mean().backward()
            optimizer.step()
    assert codes(guard) == []


# --- activations that are computed again -------------------------------------------------------------------------


def once(model: nn.Sequential, x: torch.Tensor, reentrant: bool) -> torch.Tensor:
    out: torch.Tensor = checkpoint(model, x, use_reentrant=reentrant)
    return out


def in_segments(model: nn.Sequential, x: torch.Tensor, reentrant: bool) -> torch.Tensor:
    out: torch.Tensor = checkpoint_sequential(model, 2, x, use_reentrant=reentrant)
    return out


def nested(model: nn.Sequential, x: torch.Tensor, reentrant: bool) -> torch.Tensor:
    def tail(hidden: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = checkpoint(model[3:], model[:3](hidden), use_reentrant=reentrant)
        return out

    out: torch.Tensor = checkpoint(tail, x, use_reentrant=reentrant)
    return out


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "fused SGD": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, fused=True),
}


@pytest.mark.parametrize("exact", [False, True, 1 / 3], ids=["default", "exact", "sampled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("reentrant", [False, True], ids=["not reentrant", "reentrant"])
@pytest.mark.parametrize("recomputed", [once, in_segments, nested], ids=lambda function: function.__name__)
def test_computing_activations_again_is_no_mistake(recomputed: Any, reentrant: bool, name: str, exact: float) -> None:
    stem, model = nn.Linear(4, 4), network()
    optimizer = OPTIMIZERS[name]([*stem.parameters(), *model.parameters()])
    with watch(exact=exact) as guard:
        train(lambda x: recomputed(model, stem(x), reentrant), optimizer, 6)
    assert codes(guard) == []


def test_mistakes_are_found_under_recomputation_as_well() -> None:
    stem, model = nn.Linear(4, 4), network()
    optimizer = torch.optim.SGD([*stem.parameters(), *model.parameters()], lr=0.1)
    with watch(exact=True) as guard:
        for x, y in batches(4):
            cross_entropy(once(model, stem(x), False), y).backward()
            row = sys._getframe().f_lineno - 1
            optimizer.step()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL201", row)]
