"""Subjects of protocols in cohorts: what has the same history is advanced once, however many share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from gradlint.events import Event
from gradlint.finding import Site
from gradlint.protocol import Token

from .judging import Followed, Judge


class Subject:
    """Something a protocol follows; it knows the cohort it is in."""

    __slots__ = ("cohort",)

    cohort: Cohort


S = TypeVar("S", bound=Subject)
Tokens = tuple[Token, ...]


class Cohort:
    """Subjects whose tokens are the same in every protocol."""

    __slots__ = ("members", "tokens")

    def __init__(self, tokens: Tokens, members: list[Subject]) -> None:
        self.tokens = tokens
        self.members = members

    def __len__(self) -> int:
        return len(self.members)


class Cohorts(Generic[S]):
    """All subjects that some protocols follow.

    The protocols advance together; transitions are remembered, so that a loop pays for each only once.
    """

    def __init__(self, judge: Judge, followed: Sequence[Followed]) -> None:
        self._judge = judge
        self._followed = tuple(followed)
        self._start: Tokens = tuple(protocol.start for _, protocol in followed)
        self._interned: dict[Tokens, Tokens] = {self._start: self._start}
        self._fresh = Cohort(self._start, [])
        self._cohorts: list[Cohort] = [self._fresh]
        self.violations = 0  #: seen so far, whether for the first time or not
        self._moves: dict[tuple[int, type[Event], Site], tuple[Tokens, tuple[int, ...]]] = {}

    def add(self, subject: S) -> None:
        """Follow one more subject, to which nothing has happened yet."""
        if self._fresh.tokens is not self._start or self._fresh not in self._cohorts:
            self._fresh = Cohort(self._start, [])
            self._cohorts.append(self._fresh)
        self._fresh.members.append(subject)
        subject.cohort = self._fresh

    def add_like(self, subject: S, other: S) -> None:
        """Follow one more subject, to which the same has happened as to another."""
        other.cohort.members.append(subject)
        subject.cohort = other.cohort

    def drop(self, subjects: Iterable[S]) -> None:
        """Follow these no longer."""
        for cohort, members in _by_cohort(subjects).items():
            gone = {id(subject) for subject in members}
            cohort.members = [member for member in cohort.members if id(member) not in gone]
        self._cohorts = [cohort for cohort in self._cohorts if cohort.members or cohort is self._fresh]

    def send(self, event: Event, subjects: list[S]) -> None:
        """Tell every protocol that ``event`` has happened to ``subjects``."""
        moved = False
        if len(self._cohorts) == 1 and len(subjects) == len(self._cohorts[0].members):
            concerned = self._cohorts  # all that are followed have the same history, as in an ordinary training
        else:
            concerned = [
                cohort if len(members) == len(cohort.members) else self._split(cohort, members)
                for cohort, members in _by_cohort(subjects).items()
            ]
        for whole in concerned:
            before = whole.tokens
            whole.tokens, violated = self._move(before, event)
            moved = moved or whole.tokens is not before
            self.violations += len(violated)
            for index in violated:
                rule, protocol = self._followed[index]
                self._judge.report(rule, protocol.tell(rule, before[index], event), event)
        if moved and len(self._cohorts) > 1:
            self._merge()

    def _move(self, tokens: Tokens, event: Event) -> tuple[Tokens, tuple[int, ...]]:
        key = (id(tokens), type(event), event.site)
        move = self._moves.get(key)
        if move is None:
            steps = [
                protocol.advance(token, event) for token, (_, protocol) in zip(tokens, self._followed, strict=True)
            ]
            after = tuple(token for token, _ in steps)
            move = (
                self._interned.setdefault(after, after),
                tuple(index for index, (_, violated) in enumerate(steps) if violated),
            )
            self._moves[key] = move
        return move

    def _split(self, cohort: Cohort, members: list[Subject]) -> Cohort:
        chosen = {id(member) for member in members}
        cohort.members = [member for member in cohort.members if id(member) not in chosen]
        part = Cohort(cohort.tokens, members)
        for member in members:
            member.cohort = part
        self._cohorts.append(part)
        return part

    def _merge(self) -> None:
        kept: dict[int, Cohort] = {}
        for cohort in self._cohorts:
            if not cohort.members:
                continue
            first = kept.setdefault(id(cohort.tokens), cohort)
            if first is not cohort:
                first.members += cohort.members
                for member in cohort.members:
                    member.cohort = first
        self._cohorts = list(kept.values())


def _by_cohort(subjects: Iterable[S]) -> dict[Cohort, list[Subject]]:
    groups: dict[Cohort, list[Subject]] = {}
    for subject in subjects:
        groups.setdefault(subject.cohort, []).append(subject)
    return groups
