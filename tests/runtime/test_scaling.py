"""Scaled gradients, clipped and applied in the right order and in wrong ones."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import gradlint
from gradlint.runtime import Guard

STEPS = 6


def line(offset: int = 0) -> int:
    """The line of the caller, and so many further on."""
    return sys._getframe(1).f_lineno + offset


def watch(**options: Any) -> Guard:
    return gradlint.guard(on_finding="collect", select=["GL1", "GL2", "GL7"], **options)


def told(guard: Guard) -> list[tuple[str, int]]:
    assert not guard._failed
    return [(finding.code, finding.location.row) for finding in guard.findings]


class Loop:
    """A model, its optimizer and a scaler."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(0)  # steps with scaled gradients diverge, and with some weights beyond what is finite
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, **options)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)

    def loss(self) -> torch.Tensor:
        return self.model(torch.randn(3, 4)).square().mean()  # type: ignore[no-any-return]  # torch does not say

    def batches(self, steps: int = STEPS) -> Iterator[torch.Tensor]:
        """Losses, each after the gradients were cleared."""
        for _ in range(steps):
            self.optimizer.zero_grad()
            yield self.loss()

    def finish(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()


# --- flagged ---------------------------------------------------------------------------------------------------


def test_scaled_gradients_that_the_optimizer_applies() -> None:
    loop = Loop()
    with watch() as guard, contextlib.suppress(AssertionError):
        for loss in loop.batches():
            loop.scaler.scale(loss).backward()
            backward = line(-1)
            loop.optimizer.step()
            loop.scaler.update()
    assert told(guard) == [("GL212", backward + 2)]
    assert [related.location.row for related in guard.findings[0].related] == [backward]


def test_scaled_gradients_that_the_optimizer_applies_without_an_update() -> None:
    loop = Loop()
    with watch() as guard:
        for loss in loop.batches():
            (loop.scaler.scale(loss) / 2).backward()
            loop.optimizer.step()
    assert told(guard) == [("GL212", line(-1))]
    assert guard.findings[0].count == STEPS


def test_a_scaler_that_is_never_updated() -> None:
    loop = Loop()
    with watch() as guard, pytest.raises(RuntimeError, match="since the last update"):
        for loss in loop.batches():
            loop.scaler.scale(loss).backward()
            loop.scaler.step(loop.optimizer)
    assert told(guard) == [("GL212", line(-1))]


@pytest.mark.parametrize("updates", [False, True])
def test_a_scaler_for_each_step(updates: bool) -> None:
    loop = Loop()
    with watch() as guard:
        for loss in loop.batches():
            loop.scaler = torch.amp.GradScaler("cpu")
            loop.scaler.scale(loss).backward()
            loop.scaler.step(loop.optimizer)
            stepped = line(-1)
            if updates:
                loop.scaler.update()
    assert told(guard) == ([] if updates else [("GL212", stepped)])


@pytest.mark.parametrize("by_value", [False, True])
@pytest.mark.parametrize("logged", [False, True])
def test_scaled_gradients_that_are_clipped(by_value: bool, logged: bool) -> None:
    loop = Loop()
    with watch() as guard:
        for loss in loop.batches():
            loop.scaler.scale(loss).backward()
            clip = clip_grad_value_ if by_value else clip_grad_norm_
            clip(loop.model.parameters(), 1.0)
            loop.finish()
            if logged:
                assert loop.scaler.get_scale() > 1
    assert told(guard) == [("GL211", line(-4))]
    assert [related.location.row for related in guard.findings[0].related] == [line(-7)]


@pytest.mark.parametrize("to_none", [False, True])
def test_gradients_that_are_clipped_after_the_step(to_none: bool) -> None:
    loop = Loop()
    with watch() as guard:
        for _ in range(STEPS):
            loop.optimizer.zero_grad(set_to_none=to_none)
            loop.loss().backward()
            loop.optimizer.step()
            nn.utils.clip_grad_norm_(loop.model.parameters(), max_norm=1.0)
    assert told(guard) == [("GL211", line(-1))]


@pytest.mark.parametrize("to_none", [False, True])
def test_gradients_that_are_clipped_before_the_backward_pass(to_none: bool) -> None:
    loop = Loop()
    with watch() as guard:
        for _ in range(STEPS):
            loop.optimizer.zero_grad(set_to_none=to_none)
            loss = loop.loss()
            clip_grad_norm_(loop.model.parameters(), 1.0)
            loss.backward()
            loop.optimizer.step()
    assert told(guard) == [("GL211", line(-3))]


# --- silent ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}, {"foreach": False}])
@pytest.mark.parametrize("unscale", [False, True])
def test_scalers_as_they_are_meant(options: dict[str, bool], unscale: bool) -> None:
    loop = Loop(**options)
    with watch() as guard:
        for index, loss in enumerate(loop.batches()):
            loop.scaler.scale(loss * (float("inf") if index == 2 else 1)).backward()
            if unscale:
                loop.scaler.unscale_(loop.optimizer)
                clip_grad_norm_(loop.model.parameters(), 1.0)
            loop.finish()
    assert told(guard) == []


def test_gradients_accumulated_under_a_scaler() -> None:
    loop = Loop()
    with watch() as guard:
        for index in range(12):
            loop.scaler.scale(loop.loss() / 3).backward()
            if index % 3 == 2:
                loop.scaler.unscale_(loop.optimizer)
                clip_grad_norm_(loop.model.parameters(), 1.0)
                loop.finish()
                loop.optimizer.zero_grad()
    assert told(guard) == []


@pytest.mark.parametrize("how", ["in place", "data", "assigned", "all at once"])
def test_gradients_that_are_unscaled_by_hand(how: str) -> None:
    loop = Loop()
    with watch(ignore="GL110") as guard:
        for loss in loop.batches():
            loop.scaler.scale(loss).backward()
            scale = float(loop.scaler._scale)  # type: ignore[arg-type]  # there is one
            for parameter in loop.model.parameters():
                assert parameter.grad is not None
                if how == "in place":
                    parameter.grad /= scale
                elif how == "data":
                    parameter.grad.data.div_(scale)
                elif how == "assigned":
                    parameter.grad = parameter.grad / scale
            if how == "all at once":
                torch._foreach_div_([parameter.grad for parameter in loop.model.parameters()], scale)
            clip_grad_norm_(loop.model.parameters(), 1.0)
            loop.optimizer.step()
    assert told(guard) == []


def test_a_limit_that_is_scaled_itself() -> None:
    loop = Loop()
    with watch() as guard:
        for loss in loop.batches():
            loop.scaler.scale(loss).backward()
            clip_grad_norm_(loop.model.parameters(), 0.25 * loop.scaler.get_scale())
            loop.finish()
    assert told(guard) == []


def test_norms_that_are_only_measured() -> None:
    loop = Loop()
    with watch() as guard:
        for loss in loop.batches():
            loop.scaler.scale(loss).backward()
            assert clip_grad_norm_(loop.model.parameters(), float("inf")) > 0
            loop.finish()
            clip_grad_norm_(loop.model.parameters(), float("inf"))
    assert told(guard) == []


@pytest.mark.parametrize("how", ["assigned", "copied", "copied behind autograd"])
def test_gradients_that_come_from_elsewhere_after_the_step(how: str) -> None:
    loop = Loop()
    with watch() as guard:
        for loss in loop.batches():
            loss.backward()
            loop.optimizer.step()
            for parameter in loop.model.parameters():
                assert parameter.grad is not None
                if how == "assigned":
                    parameter.grad = torch.randn_like(parameter)
                elif how == "copied":
                    parameter.grad.copy_(torch.randn_like(parameter))
                else:
                    parameter.grad.data.copy_(torch.randn_like(parameter))
            clip_grad_norm_(loop.model.parameters(), 1.0)
            loop.optimizer.step()
    assert [code for code, _ in told(guard) if code == "GL211"] == []


def test_a_part_that_has_no_gradients_in_this_step() -> None:
    heads = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])
    optimizer = torch.optim.SGD(heads.parameters(), lr=0.01)
    with watch() as guard:
        for index in range(8):
            optimizer.zero_grad()
            heads[index % 2](torch.randn(3, 4)).square().mean().backward()
            clip_grad_norm_(heads.parameters(), 1.0)
            optimizer.step()
    assert told(guard) == []


def test_two_optimizers_of_which_one_has_stepped() -> None:
    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    first, second = (torch.optim.SGD(part.parameters(), lr=0.01) for part in (body, head))
    both = [*body.parameters(), *head.parameters()]
    with watch() as guard:
        for _ in range(STEPS):
            first.zero_grad()
            second.zero_grad()
            head(body(torch.randn(3, 4))).square().mean().backward()
            first.step()
            clip_grad_norm_(both, 1.0)
            second.step()
    assert told(guard) == []


def test_a_batch_that_is_left_out_now_and_then() -> None:
    loop = Loop()
    with watch(ignore="GL206") as guard:
        for index, loss in enumerate(loop.batches(12)):
            if index % 4 != 3:
                loss.backward()
            clip_grad_norm_(loop.model.parameters(), 1.0)
            loop.optimizer.step()
    assert told(guard) == []


def test_two_scalers_that_take_turns_on_one_optimizer() -> None:
    loop = Loop()
    other = torch.amp.GradScaler("cpu")
    with watch() as guard:
        for index, loss in enumerate(loop.batches()):
            scaler = (loop.scaler, other)[index % 2]
            scaler.scale(loss).backward()
            scaler.step(loop.optimizer)
            if index % 2:
                loop.scaler.update()
                other.update()
    assert told(guard) == []


def test_scalers_and_clipping_do_what_they_do_without_a_guard() -> None:
    def outcome(guard: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        loop = Loop()
        norms = []
        with guard:
            for loss in loop.batches():
                loop.scaler.scale(loss).backward()
                loop.scaler.unscale_(loop.optimizer)
                norms.append(clip_grad_norm_((parameter for parameter in loop.model.parameters()), max_norm=0.01))
                loop.finish()
        return [*norms, *(parameter.detach() for parameter in loop.model.parameters())]

    alone, watched = outcome(contextlib.nullcontext()), outcome(watch())
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))
