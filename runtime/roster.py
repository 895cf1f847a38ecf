"""Which witnesses are told of what: one that has nothing to look at rests, until it wakes itself.

Most witnesses wait for something an ordinary step never has.  What they would be told meanwhile is not even asked of
them, so that a step pays for those that look at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Handler = Callable[[Any], None]

EVENTS = (
    "backward_begins",
    "backward_ended",
    "graph_retained",
    "step_begins",
    "step_ended",
    "scheduler_stepped",
    "mode_set",
    "forward_ended",
    "forward_stopped",
    "module_met",
    "evaluated",
    "layer_dropped",
    "scaler_called",
    "scaler_returned",
    "gradients_clipped",
    "optimizer_built",
    "parameters_drawn",
    "state_taken",
    "state_loaded",
    "state_saved",
    "hook_registered",
    "part_placed",
    "flag_set",
    "tensors_swapped",
    "values_exchanged",
    "ranks_met",
    "graph_compiled",
    "hooks_disabled",
    "hooks_enabled",
    "finish",
)


class Roster:
    """The handlers of witnesses, by event: methods of that name.

    Args:
        witnesses: in the order in which they are to be told.
    """

    def __init__(self, witnesses: Iterable[object] = ()) -> None:
        self._all: dict[str, list[tuple[object, Handler]]] = {event: [] for event in EVENTS}
        self._resting: set[tuple[int, str]] = set()  # ids of witnesses, and events
        self.handlers: dict[str, tuple[Handler, ...]] = {}  #: of those that do not rest
        for witness in witnesses:
            for event in EVENTS:
                if (handler := getattr(witness, event, None)) is not None:
                    self._all[event].append((witness, handler))
            if isinstance(witness, Resting):
                witness.join(self)
        for event in EVENTS:
            self._list(event)

    def rest(self, witness: object, events: Iterable[str]) -> None:
        """Do not tell ``witness`` of these events."""
        for event in events:
            self._resting.add((id(witness), event))
            self._list(event)

    def wake(self, witness: object, events: Iterable[str]) -> None:
        """Tell ``witness`` of these events again, from the next one on."""
        for event in events:
            self._resting.discard((id(witness), event))
            self._list(event)

    def dismiss(self, witness: object) -> None:
        """Tell ``witness`` of nothing more."""
        for event, known in self._all.items():
            self._all[event] = [entry for entry in known if entry[0] is not witness]
            self._list(event)

    def close(self) -> None:
        """Tell nobody of anything, and hold nobody."""
        self._all = {event: [] for event in EVENTS}
        self._resting.clear()
        self.handlers = dict.fromkeys(EVENTS, ())

    def _list(self, event: str) -> None:
        self.handlers[event] = tuple(
            handler for witness, handler in self._all[event] if (id(witness), event) not in self._resting
        )


class Resting:
    """A witness that rests from some events while there is nothing to look at."""

    RESTS_FROM: tuple[str, ...] = ()  #: while it rests, it is not told of these
    _roster: Roster | None = None
    _rests = False

    def join(self, roster: Roster) -> None:
        """Rest, and be woken, in this roster."""
        self._roster = roster
        if self._rests:
            roster.rest(self, self.RESTS_FROM)

    def rest(self) -> None:
        """There is nothing to look at for now."""
        if not self._rests:
            self._rests = True
            if self._roster is not None:
                self._roster.rest(self, self.RESTS_FROM)

    def wake(self) -> None:
        """There is something to look at."""
        if self._rests:
            self._rests = False
            if self._roster is not None:
                self._roster.wake(self, self.RESTS_FROM)
