"""How events move the tokens of protocols; what follows once is not worked out again."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradlint.protocol import Protocol, Token
from gradlint.static.state.tokens import told_apart
from gradlint.static.state.values import Tokens

if TYPE_CHECKING:
    from gradlint.events import Event


@dataclass(frozen=True, slots=True)
class Move:
    """What an event at a place does to the tokens of a subject."""

    after: Tokens
    perhaps: Tokens  #: where it may not have happened
    verdicts: tuple[tuple[Token, bool], ...]  #: each token, and whether it was violated
    violates: bool


class Moves:
    """Moves tokens by events."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Tokens, Move]] = {}  #: by protocol, type of event and place
        self._single: dict[Hashable, dict[Token, tuple[Token, bool]]] = {}  #: the same of each token

    def clear(self) -> None:
        """Forget them, which follow again from the events."""
        self._known.clear()
        self._single.clear()

    def of(self, slot: str, protocol: Protocol, before: Tokens, event: Event) -> Move:
        """Advance each token.

        Args:
            slot: what the protocol is known by.
            protocol: the protocol that they are tokens of.
            before: where a subject stands.
            event: what happens to it.
        """
        key = slot, type(event), event.site
        known = self._known.setdefault(key, {})
        move = known.get(before)
        if move is None:
            tokens = told_apart(before)  # those of several worlds
            move = known[before] = self._advance(self._single.setdefault(key, {}), protocol, tokens, event)
        return move

    def _advance(
        self, known: dict[Token, tuple[Token, bool]], protocol: Protocol, before: Tokens, event: Event
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
