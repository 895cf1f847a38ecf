"""Where gradients that are NaN or infinite begin: what is told of it, and that finding it out changes nothing."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime import FindingError, Guard
from gradlint.runtime.patches.interception import unwatched

Loss = Callable[[torch.Tensor], torch.Tensor]


class Logarithm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.drop = nn.Linear(4, 2), nn.BatchNorm1d(2), nn.Dropout(0.1)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        drawn = float(torch.rand(())) + random.random() + np.random.rand()  # noqa: S311  of no importance
        hidden = self.drop(self.norm(self.layer(x))).square() + drawn
        return torch.log(hidden * (x.sum() != 0)).square()


class Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layer(x) * (x.sum() != 0)
        return hidden.square().sum(1).sqrt()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((3, 3), float("-inf")).triu(1 if x.sum() else 0)
        row = x[:, None].expand(-1, 3, -1)
        out: torch.Tensor = self.heads(row, row, row, attn_mask=mask)[0]
        return out


class Divergence(nn.Module):
    def forward(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return (p.softmax(1) * (p.softmax(1) / q).log()).sum()


def batch(step: int, broken: int) -> torch.Tensor:
    return torch.randn(3, 4) * (step != broken)


def train(model: nn.Module, loss: Loss, broken: int = 7, steps: int = 12) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, steps):
        x = batch(step, broken)
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()


def watched(model: nn.Module, loss: Loss, **options: Any) -> Guard:
    torch.manual_seed(0)
    with gradlint.guard(on_finding="collect", select=["GL701"], **options) as guard:
        train(model, loss)
    assert not guard._failed
    return guard


def line(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, one in enumerate(lines, 1) if text in one)


divergence = Divergence()
ORIGINS: dict[str, tuple[Callable[[], nn.Module], Loss, str, str]] = {
    "root": (Root, torch.sum, "the first comes up in the backward pass of sqrt", "sum(1).sqrt()"),
    "attention": (
        Attention,
        torch.sum,
        "the first comes up in softmax of heads (MultiheadAttention)",
        "attn_mask=mask",
    ),
    "a part": (
        lambda: nn.Sequential(Root(), nn.Identity()),
        torch.sum,
        "in the backward pass of sqrt",
        "sum(1).sqrt()",
    ),
    "loss module": (
        lambda: nn.Linear(4, 2),
        lambda out: divergence(out, torch.tensor([[1.0, 0.0]])),
        "the first comes up in div",
        "/ q).log()",
    ),
}


@pytest.mark.parametrize("name", ORIGINS)
def test_the_first_operation_is_named_with_its_place(name: str) -> None:
    build, loss, told, place = ORIGINS[name]
    guard = watched(build(), loss)
    (finding,) = guard.findings
    assert told in finding.message
    assert [related.location.row for related in finding.related] == [line(place)]
    assert finding.remedy == "clip, scale or add an epsilon there"


def test_the_step_is_the_one_in_which_it_begins() -> None:
    (finding,) = watched(Root(), torch.sum).findings
    assert "at step 7:" in finding.message


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (
            lambda out: out.sum() / torch.zeros(()),
            "at step 1: those of weight, bias; the first comes up in div after Linear",
        ),
        (lambda out: (out * 0).sqrt().sum(), "the first comes up in the backward pass of sqrt after Linear"),
        (lambda out: (out * 0).sum().pow(0.5), "the first comes up in the backward pass of pow after Linear"),
        (lambda out: (out - 1e9).log().square().sum(), "the first comes up in log or pow after Linear"),
    ],
)
def test_what_follows_the_model_is_named(loss: Loss, told: str) -> None:
    (finding,) = watched(nn.Linear(4, 2), loss).findings
    assert told in finding.message
    assert not finding.related


def test_data_that_are_no_numbers() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradlint.guard(on_finding="collect", select=["GL701"]) as guard:
        for step in range(1, 10):
            x = torch.randn(3, 4)
            if step == 6:
                x[1, 2] = float("nan")
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    assert "at step 6: those of weight, bias; what Linear is given is NaN already" in guard.findings[0].message


def test_parameters_that_are_broken_already() -> None:
    model = nn.Linear(4, 2)
    nn.init.constant_(model.weight, float("inf"))
    (finding,) = watched(model, lambda out: out.square().sum()).findings
    assert finding.message.endswith("an earlier one, that was not looked at, made them so")


def fingerprint(build: Callable[[], nn.Module], watch: Any, steps: int = 12) -> str:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model = build()
    with watch:
        train(model, torch.sum, steps=steps)
    held = [one.detach().numpy().tobytes() for one in (*model.parameters(), *model.buffers())]
    states = [
        torch.get_rng_state().numpy().tobytes(),
        repr(random.getstate()).encode(),
        repr(np.random.get_state()).encode(),
    ]
    counts = [str(getattr(part, "calls", "")).encode() for part in model.modules()]
    return hashlib.sha256(b"".join([*held, *states, *counts])).hexdigest()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("steps", [8, 12])
@pytest.mark.parametrize("build", [Logarithm, Root, Attention])
def test_parameters_buffers_and_random_numbers_are_bitwise_the_same(
    build: Callable[[], nn.Module], steps: int, exact: bool
) -> None:
    guard = gradlint.guard(on_finding="collect", exact=exact)
    assert fingerprint(build, nullcontext(), steps) == fingerprint(build, guard, steps)
    assert "GL701" in [finding.code for finding in guard.findings]


def test_it_is_told_before_the_parameters_are_spoilt() -> None:
    model = Root()
    with pytest.raises(FindingError, match="sqrt"), gradlint.guard(on_finding="raise", select=["GL701"]):
        train(model, torch.sum)
    assert all(bool(one.isfinite().all()) for one in model.parameters())


def test_a_forward_pass_with_hooks_is_not_made_again() -> None:
    calls = []
    model = Root()
    model.layer.register_forward_hook(lambda *_: calls.append(1))
    (finding,) = watched(model, torch.sum).findings
    assert len(calls) == 11
    assert "the first comes up" not in finding.message
    assert "detect_anomaly" in finding.remedy


def test_what_the_second_pass_prints_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    class Printing(Root):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sum_of = float(x.sum())
            if not sum_of:
                print("zero")  # noqa: T201  as programs do
            return super().forward(x)

    watched(Printing(), torch.sum)
    assert capsys.readouterr().out == "zero\n"


def test_what_other_threads_print_meanwhile_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    class Printing(Root):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not float(x.sum()):
                other = threading.Thread(target=print, args=["zero"])
                other.start()
                other.join()
            return super().forward(x)

    watched(Printing(), torch.sum)
    assert capsys.readouterr().out == "zero\n" * 2


def test_what_another_thread_trains_meanwhile_is_seen() -> None:
    begun, goes_on = threading.Event(), threading.Event()
    found: list[str] = []

    def other() -> None:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with gradlint.guard(on_finding="collect", select=["GL201"]) as guard:
            begun.set()
            goes_on.wait()
            for _ in range(4):
                model(torch.randn(3, 2)).mean().backward()
                optimizer.step()
        found.extend(finding.code for finding in guard.findings)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with unwatched():
        goes_on.set()
        thread.join()
    assert found == ["GL201"]


def test_arguments_that_cannot_be_copied_are_left_alone() -> None:
    class Batch:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

    class Net(Root):
        def forward(self, given: Any) -> torch.Tensor:
            return super().forward(given.x)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradlint.guard(on_finding="collect", select=["GL701"]) as guard:
        for step in range(1, 12):
            optimizer.zero_grad()
            model(Batch(batch(step, 8))).sum().backward()
            optimizer.step()
    assert not guard._failed
    assert len(guard.findings) == 1


def test_a_scaled_loss_is_not_looked_into() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
    with gradlint.guard(on_finding="collect", select=["GL701"]) as guard:
        for step in range(6):
            optimizer.zero_grad()
            scaler.scale(model(torch.randn(3, 4)).sum() * (1e30 if step == 2 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert not guard.findings
    assert not guard._failed


def test_inputs_are_let_go_with_the_next_forward_pass() -> None:
    import weakref

    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradlint.guard(on_finding="collect", select=["GL701"]):
        x = torch.randn(3, 4)
        reference = weakref.ref(x)
        model(x).sum().backward()
        optimizer.step()
        del x
        model(torch.randn(3, 4))
        assert reference() is None


def test_a_generator_of_the_program_is_not_drawn_from() -> None:
    def outcome(watch: Any) -> float:
        generator = torch.Generator().manual_seed(0)

        class Noisy(Root):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) + torch.rand((), generator=generator)

        with watch:
            train(Noisy(), torch.sum)
        return float(torch.rand((), generator=generator))

    guard = gradlint.guard(on_finding="collect", select=["GL701"])
    assert outcome(nullcontext()) == outcome(guard)
    assert len(guard.findings) == 1


def test_a_module_that_shares_what_it_holds_with_its_copy_is_left_alone() -> None:
    class Shared(Root):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 0 * self.norm(torch.randn(3, 2)).sum()

        def __deepcopy__(self, memo: Any) -> Shared:
            return self

    model = Shared()
    (finding,) = watched(model, torch.sum).findings
    assert "the first comes up" not in finding.message
    assert int(model.norm.num_batches_tracked or 0) == 11


@pytest.mark.parametrize("exact", [False, True])
def test_of_very_short_steps_few_are_looked_at(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    monkeypatch.setattr("gradlint.runtime.witnesses.origins.SHORT", 60.0)
    torch.manual_seed(0)
    with gradlint.guard(on_finding="collect", select=["GL701"], exact=exact) as guard:
        train(Root(), torch.sum, broken=25, steps=40)
    (finding,) = guard.findings
    assert ("at step 25:" in finding.message and "sqrt" in finding.message) is exact
    assert ("at step 30:" in finding.message and "that was not looked at" in finding.message) is not exact
