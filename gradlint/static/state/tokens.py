"""The tokens of a subject: how events move them, and which of them are told apart where there are many."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gradlint.finding import Location
from gradlint.protocol import Protocol, Token

if TYPE_CHECKING:
    from gradlint.events import Event
    from gradlint.finding import Site

MANY = 32  #: tokens of a subject, above which those that differ in nothing but their story are one
LINEAGES = 16  #: of these, above which their lineages are not told apart either

_Story = tuple[tuple[str, str, int, int, int], ...]


class _Several:
    """A lineage that may be any of many."""

    def locate(self) -> Location:
        """Nowhere: no story is told of it."""
        return Location("", 1, 1)


SEVERAL: Final = _Several()


def told_apart(tokens: frozenset[Token]) -> frozenset[Token]:
    """Tokens, of which not too many are to differ only in the way they came to where they stand.

    Loops in one another, over calls that each clear and walk, have more of these ways than can be followed; and
    functions that all call one another, each with steps of its own, have more steps that may have been the last.
    """
    if len(tokens) <= MANY:
        return tokens
    lineages = {token.lineage for token in tokens}
    alike: dict[tuple[str, Site | None], list[Token]] = {}
    for token in tokens:
        lineage = token.lineage if token.lineage is None or len(lineages) <= LINEAGES else SEVERAL
        alike.setdefault((token.state, lineage), []).append(token)
    if len(alike) == len(tokens):
        return tokens
    kept = ((lineage, min(group, key=_story)) for (_, lineage), group in alike.items())
    return frozenset(token if token.lineage is lineage else replace(token, lineage=lineage) for lineage, token in kept)


@lru_cache(4096)
def _story(token: Token) -> _Story:
    """What tells tokens apart that stand at one place, in an order that is the same in every run."""
    places = ((name, site.locate()) for name, site in (*token.entered, *token.last))
    return tuple((name, at.filename, at.cell or 0, at.row, at.column) for name, at in places)


@lru_cache(4096)
def standing(tokens: frozenset[Token]) -> frozenset[tuple[str, Site | None]]:
    """Where tokens stand, however they came there."""
    return frozenset([(token.state, token.lineage) for token in tokens])


def forget_tokens() -> None:
    """Let go of the tokens that were met, and of the code they stand for."""
    _story.cache_clear()
    standing.cache_clear()


@dataclass(frozen=True, slots=True)
class Move:
    """What an event at a place does to the tokens of a subject."""

    after: frozenset[Token]
    perhaps: frozenset[Token]  #: where it may not have happened
    verdicts: tuple[tuple[Token, bool], ...]  #: each token, and whether it was violated
    violates: bool


class Moves:
    """Moves tokens by events."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[frozenset[Token], Move]] = {}  #: by protocol, type of event and place
        self._single: dict[Hashable, dict[Token, tuple[Token, bool]]] = {}  #: the same of each token
        self._last: tuple[str, Event | None] = "", None  #: the protocol and event that were asked about last
        self._here: dict[frozenset[Token], Move] = {}  #: what is known of them: an event may touch many subjects

    def clear(self) -> None:
        """Forget them, which follow again from the events."""
        self._known.clear()
        self._single.clear()
        self._last, self._here = ("", None), {}

    def of(self, slot: str, protocol: Protocol, before: frozenset[Token], event: Event) -> Move:
        """Advance each token.

        Args:
            slot: what the protocol is known by.
            protocol: the protocol that they are tokens of.
            before: where a subject stands.
            event: what happens to it.
        """
        if self._last[1] is not event or self._last[0] != slot:
            self._last = slot, event
            self._here = self._known.setdefault((slot, type(event), event.site), {})
        move = self._here.get(before)
        if move is None:
            tokens = told_apart(before)  # those of several worlds
            single = self._single.setdefault((slot, type(event), event.site), {})
            move = self._here[before] = self._advance(single, protocol, tokens, event)
        return move

    def _advance(
        self, known: dict[Token, tuple[Token, bool]], protocol: Protocol, before: frozenset[Token], event: Event
    ) -> Move:
        verdicts: list[tuple[Token, bool]] = []
        moved: list[Token] = []
        for token in before:
            step = known.get(token)
            if step is None:
                step = known[token] = protocol.advance(token, event)
            moved.append(step[0])
            verdicts.append((token, step[1]))
        after = told_apart(frozenset(moved))
        violates = any(violated for _, violated in verdicts)
        return Move(after, told_apart(after | before), tuple(verdicts), violates)
