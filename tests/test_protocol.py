"""Protocols: what their tokens remember."""

from __future__ import annotations

from dataclasses import dataclass

from gradlint.events import Backward, EvalMode, Event, Step, SuperInit, Tensor
from gradlint.finding import Location
from gradlint.protocol import Protocol, Token


@dataclass(frozen=True)
class Row:
    """A place that is known by its row alone."""

    row: int

    def locate(self) -> Location:
        return Location("main.py", self.row, 1, self.row, 1)


def after(protocol: Protocol, *events: Event) -> Token:
    """The token of a subject that all this has happened to."""
    token = protocol.start
    for event in events:
        token, _ = protocol.advance(token, event)
    return token


READY = Protocol({("bare", SuperInit): "ready"}, start="bare", arms=())


def test_a_state_that_nothing_leaves_remembers_nothing_more() -> None:
    once = after(READY, SuperInit(site=Row(1)))
    assert once.state == "ready"
    assert once.last_at(SuperInit) == Row(1)
    assert after(READY, SuperInit(site=Row(1)), SuperInit(site=Row(2))) == once


def test_a_state_that_something_leaves_remembers_the_last_of_each() -> None:
    stepped = Protocol({("new", Step): "spent", ("spent", Backward): "new"}, start="new", arms=())
    assert after(stepped, Step(site=Row(1)), Step(site=Row(2))).last_at(Step) == Row(2)
    walked = after(stepped, Step(site=Row(1)), Backward(site=Row(2), root=Tensor()))
    assert (walked.state, walked.last_at(Step), walked.last_at(Backward)) == ("new", Row(1), Row(2))


def test_what_arms_does_so_in_any_state() -> None:
    armed = Protocol({("new", EvalMode): "over"}, start="new", arms=EvalMode)
    assert after(armed, EvalMode(site=Row(1)), EvalMode(site=Row(2))).lineage == Row(2)
