"""Ordinary rounds that the guard passes over: what it finds is what it would find if it told each of them."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime.gradients import history, rounds
from gradlint.runtime.gradients.followed import Followed
from gradlint.runtime.gradients.rounds import Round
from gradlint.runtime.records.ages import Ages
from gradlint.runtime.roster import Resting
from gradlint.runtime.sampling import SAMPLE

LONG = 20  #: rounds, after which the next ones are passed over


class Training:
    """A model, an optimizer, and what one can do with them in and out of order."""

    def __init__(self, build: Callable[..., torch.optim.Optimizer] = torch.optim.SGD) -> None:
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.head = nn.Linear(8, 1)
        self.optimizer = build(self.model.parameters(), lr=0.01)
        self.x, self.y = torch.randn(6, 4), torch.randint(0, 2, (6,))
        self.kept: list[torch.Tensor] = []

    def forward(self) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(self.x), self.y)

    def clear(self) -> None:
        self.optimizer.zero_grad()

    def clear_in_place(self) -> None:
        self.optimizer.zero_grad(set_to_none=False)

    def clear_by_data(self) -> None:
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.data.zero_()

    def clear_some(self) -> None:
        self.model[0].weight.grad = None

    def backward(self) -> None:
        self.forward().backward()

    def backward_elsewhere(self) -> None:
        self.forward().backward()

    def backward_of_a_part(self) -> None:
        hidden = self.model[1](self.model[0](self.x)).detach()
        nn.functional.cross_entropy(self.model[2](hidden), self.y).backward()

    def gradients_by_hand(self) -> None:
        for parameter in self.model.parameters():
            parameter.grad = torch.ones_like(parameter)

    def clip(self) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def step(self) -> None:
        self.optimizer.step()

    def step_elsewhere(self) -> None:
        self.optimizer.step()

    def more_parameters(self) -> None:
        if len(self.optimizer.param_groups) == 1:
            self.optimizer.add_param_group({"params": list(self.head.parameters())})

    def call_another_model(self) -> None:
        nn.Linear(4, 4)(self.x)

    def frozen(self) -> None:
        self.model[0].weight.requires_grad_(not self.model[0].weight.requires_grad)

    def keep_the_loss(self) -> None:
        self.kept.append(self.forward())
        self.kept[-1].backward()

    def retain(self) -> None:
        self.forward().backward(retain_graph=True)

    def walk_twice(self) -> None:
        loss = self.forward()
        loss.backward(retain_graph=True)
        loss.backward()

    def differentiate_the_input(self) -> None:
        nn.functional.cross_entropy(self.model(self.x.clone().requires_grad_()), self.y).backward()

    def evaluate(self) -> None:
        self.model.eval()
        with torch.no_grad():
            self.forward()
        self.model.train()

    def evaluate_with_graphs(self) -> None:
        self.model.eval()
        self.model(self.x)
        self.model.train()

    def scaled(self) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale(self.forward()).backward()
        scaler.step(self.optimizer)
        scaler.update()

    def closure(self) -> None:
        def again() -> torch.Tensor:
            self.clear()
            loss = self.forward()
            loss.backward()
            return loss

        self.optimizer.step(again)

    def ordinary(self) -> None:
        self.clear()
        self.backward()
        self.step()


DEEDS = [
    "clear",
    "clear_in_place",
    "clear_by_data",
    "clear_some",
    "backward",
    "backward_elsewhere",
    "backward_of_a_part",
    "gradients_by_hand",
    "clip",
    "step",
    "step_elsewhere",
    "more_parameters",
    "call_another_model",
    "frozen",
    "keep_the_loss",
    "retain",
    "walk_twice",
    "differentiate_the_input",
    "evaluate",
    "evaluate_with_graphs",
    "scaled",
    "closure",
    *["ordinary"] * 20,
]

Seen = list[tuple[str, int, int, str]]


def chosen(seed: int) -> list[str]:
    return random.Random(seed).choices(DEEDS, k=40)  # noqa: S311  a program, not a secret


def seen(deeds: list[str], build: Callable[..., torch.optim.Optimizer] = torch.optim.SGD) -> Seen:
    torch.manual_seed(0)
    SAMPLE.seed(0)
    training = Training(build)
    with gradlint.guard(on_finding="collect", select=["ALL"]) as guard:
        for deed in deeds:
            getattr(training, deed)()
    return [(one.code, one.location.row, one.count, one.message) for one in guard.findings]


def told_each(
    monkeypatch: pytest.MonkeyPatch, deeds: list[str], **options: Callable[..., torch.optim.Optimizer]
) -> Seen:
    with monkeypatch.context() as patch:
        patch.setattr(history, "ALIKE", sys.maxsize)
        return seen(deeds, **options)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_by_passing_over_rounds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = ["ordinary"] * LONG + chosen(seed)
    assert seen(deeds) == told_each(monkeypatch, deeds)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_by_looking_at_some_of_many_parameters(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MANY", 1)
    monkeypatch.setattr(rounds, "TURNS", 2)
    deeds = ["ordinary"] * LONG + chosen(seed)
    assert seen(deeds) == told_each(monkeypatch, deeds)


class Replacing(torch.optim.SGD):
    """From some step on, it leaves copies of the gradients that it has applied."""

    replaces = False

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        result = super().step(closure)
        for parameter in self.param_groups[0]["params"] if self.replaces else ():
            parameter.grad = parameter.grad.clone()
        return result


def test_what_stands_in_the_place_of_many_applied_gradients_is_seen() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(rounds.MANY)))
    optimizer = Replacing(model.parameters(), lr=0.01)
    with gradlint.guard(on_finding="collect", select=["GL201"]) as guard:
        for step in range(LONG + 3 * rounds.TURNS):
            if step < LONG:
                optimizer.zero_grad()
            Replacing.replaces = step >= LONG
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
    assert [finding.code for finding in guard.findings] == ["GL201"]


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_by_resting(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = ["ordinary"] * LONG + chosen(seed)
    found = seen(deeds)
    with monkeypatch.context() as patch:  # all are told of everything, and follow every graph
        patch.setattr(Resting, "rest", lambda self: None)
        patch.setattr(Ages, "walked_again", lambda self, roots, site: False)
        patch.setattr(history, "ALIKE", sys.maxsize)
        assert seen(deeds) == found


def test_who_has_nothing_to_look_at_is_not_told() -> None:
    training = Training()
    with gradlint.guard(on_finding="collect", select=["ALL"]) as guard:
        for _ in range(LONG):
            training.ordinary()
        told = {type(handler.__self__).__name__ for handler in guard._roster.handlers["backward_ended"]}  # type: ignore[attr-defined]  # all are bound methods
        assert {"GradientHistory", "BackwardPasses"} <= told
        assert told.isdisjoint({"InputGradients", "Walks", "Scaling"})
        training.differentiate_the_input()
        training.scaled()
        told = {type(handler.__self__).__name__ for handler in guard._roster.handlers["backward_ended"]}  # type: ignore[attr-defined]  # likewise
        assert {"InputGradients", "Scaling"} <= told
    assert not any(guard._roster.handlers.values())


@pytest.mark.parametrize(
    "optimizer",
    [torch.optim.AdamW, functools.partial(torch.optim.SGD, momentum=0.9, nesterov=True, foreach=True)],
    ids=["AdamW", "gradients written by the step"],
)
@pytest.mark.parametrize("clip", [[], ["clip"]], ids=["", "clipped"])
def test_a_single_slip_in_a_long_training_is_found(
    clip: list[str], optimizer: Callable[..., torch.optim.Optimizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = ["clear", "backward", *clip, "step"]
    deeds = round_ * LONG + round_[1:] + round_ * LONG
    found = seen(deeds, optimizer)
    assert [(code, count) for code, _, count, _ in found] == [("GL201", 1)]
    assert found == told_each(monkeypatch, deeds, build=optimizer)


@pytest.mark.parametrize(
    ("deed", "codes"),
    [("clear", ["GL202"]), ("clear_some", ["GL201"]), ("gradients_by_hand", ["GL201"]), ("clear_by_data", [])],
)
def test_what_becomes_of_gradients_between_backward_and_step_is_seen(
    deed: str, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = ["clear", "backward", "step"]
    deeds = round_ * LONG + ["clear", "backward", deed, "step", "backward", "step"] + round_ * 4
    found = seen(deeds)
    assert [code for code, _, _, _ in found] == codes
    assert found == told_each(monkeypatch, deeds)


def test_clipping_ends_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    ended = Round.step_ended
    monkeypatch.setattr(Round, "step_ended", lambda self, *given: passed.append(1) or ended(self, *given))
    assert seen(["clear", "backward", "clip", "step"] * 40) == []
    assert len(passed) >= 25


def test_ordinary_rounds_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    looked: list[int] = []
    ended, look = Round.step_ended, Followed.look
    monkeypatch.setattr(Round, "step_ended", lambda self, *given: passed.append(1) or ended(self, *given))
    monkeypatch.setattr(Followed, "look", lambda self, bundles: looked.append(1) or look(self, bundles))
    assert seen(["ordinary"] * 40) == []
    assert len(passed) >= 25
    assert len(looked) == 4 * (40 - len(passed))
