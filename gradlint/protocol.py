"""Protocols: pitfalls of order, as typestates (Strom and Yemini, 1986).

A :class:`Protocol` is a small state machine over events.  Each subject of the protocol (a group of parameters,
a module, an input) holds a :class:`Token`: its state, its *lineage* (the site that last armed it, kept after
the state has moved on) and the trail that later tells the story.  Tokens are immutable; the runtime witness keeps
one for each subject, the static witness a set of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlint.events import Event
    from gradlint.finding import Site
    from gradlint.rule import Violation


@dataclass(frozen=True, slots=True)
class Violating:
    """The target of a transition that is a mistake; the subject goes on in ``state``."""

    state: str


@dataclass(frozen=True, slots=True)
class Token:
    """Where one subject stands in a protocol."""

    state: str
    lineage: Site | None = None  #: the site of the event that last armed the subject
    entered: tuple[tuple[str, Site], ...] = ()  #: for each state, the site where it was last entered
    last: tuple[tuple[str, Site], ...] = ()  #: for each event type, the site where it last happened
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)  #: once it was asked for

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.state, self.lineage, self.entered, self.last)))
        assert self._hash is not None
        return self._hash

    def entered_at(self, state: str) -> Site | None:
        """Where the subject last entered ``state``."""
        return dict(self.entered).get(state)

    def last_at(self, event: type[Event]) -> Site | None:
        """Where an event of this type last reached the subject."""
        return dict(self.last).get(event.__name__)


def _with(pairs: tuple[tuple[str, Site], ...], key: str, site: Site) -> tuple[tuple[str, Site], ...]:
    for place, (name, known) in enumerate(pairs):
        if name == key:
            return pairs if known is site else (*pairs[:place], (key, site), *pairs[place + 1 :])
    return tuple(sorted((*pairs, (key, site)), key=itemgetter(0)))


class Protocol:
    """A typestate: transitions by ``(state, event type)``; what is not listed leaves the state as it is.

    Args:
        transitions: from ``(state, event type)`` to the next state, or to ``Violating(next state)``.
        start: the state of a subject nothing has happened to yet.
        arms: the event types that give a subject a new lineage.
    """

    def __init__(
        self,
        transitions: Mapping[tuple[str, type[Event]], str | Violating],
        *,
        start: str,
        arms: type[Event] | Iterable[type[Event]],
    ) -> None:
        self.transitions = dict(transitions)
        self.start = Token(start)
        self.arms = frozenset([arms] if isinstance(arms, type) else arms)
        self.events = frozenset(event for _, event in self.transitions)
        self._left = frozenset(state for state, _ in self.transitions)
        self.judged = frozenset(event for (_, event), to in self.transitions.items() if isinstance(to, Violating))
        self.name = ""
        self.rule_name = ""
        self._story: Callable[[Any, Token, Event], Violation] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.rule_name, self.name = owner.__name__, name

    def violated(self, story: Callable[[Any, Token, Event], Violation]) -> Callable[[Any, Token, Event], Violation]:
        """Decorate the method of the rule that tells what went wrong, from the violating token and event."""
        self._story = story
        return story

    def tell(self, rule: object, token: Token, event: Event) -> Violation:
        """The violation of ``token`` by ``event``, told by the rule that owns this protocol."""
        if self._story is None:
            raise TypeError(f"protocol {self.rule_name}.{self.name} has no @{self.name}.violated method")
        return self._story(rule, token, event)

    def advance(self, token: Token, event: Event) -> tuple[Token, bool]:
        """The token after ``event``, and whether the event violated the protocol."""
        kind = type(event)
        target = self.transitions.get((token.state, kind))
        if target is None:
            if kind not in self.events or (token.state not in self._left and kind not in self.arms):
                return token, False  # a state that nothing leaves has no story to tell
            target = token.state
        violated = isinstance(target, Violating)
        state = target.state if isinstance(target, Violating) else target
        return (
            Token(
                state,
                event.site if kind in self.arms else token.lineage,
                token.entered if state == token.state else _with(token.entered, state, event.site),
                _with(token.last, kind.__name__, event.site),
            ),
            violated,
        )
