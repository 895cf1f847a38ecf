"""The ranks of a distributed training, each with a guard of its own: rank 0 tells what all of them saw.

Each other rank leaves what it has found where rank 0 can read it: at its first event, at each new finding and at the
end.  Rank 0 reads when its own guard ends, and waits for the others no longer than it was allowed to.  A rank that died
is told with what it had left.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlint.finding import Effect, Finding, Location, Related, Severity

from ..calls import BackwardCall, ForwardCall, RanksCall
from ..frames import user_site
from ..reporting import ALONE, World
from ..roster import Resting
from .channels import Channel, there_is_a_group

HURRY = 2.0  #: seconds to wait at most for ranks that have left nothing yet, or when the training raised
SELDOM = 16  #: calls of models, and backward passes after the first ones, of which one looks for other ranks
_POLL = 0.02  #: seconds

_made: Counter[str] = Counter()  # guards by the place where they were made, which is the same on all ranks


@dataclass(frozen=True, slots=True)
class Word:
    """What a rank has left for rank 0."""

    findings: tuple[Finding, ...]
    ended: bool  #: its guard has ended


class Ranks(Resting):
    """A witness that looks for the other ranks and keeps in touch with them.

    Args:
        patience: seconds that rank 0 waits for the others at the end.
    """

    RESTS_FROM = ("forward_ended",)  # where there are backward passes, they are enough

    def __init__(self, patience: float) -> None:
        place = user_site(2)
        name = f"{Path(place.code.co_filename).name}:{place.line}"
        _made[name] += 1
        self.name = f"{name}/{_made[name]}"  #: the same on all ranks, and another one for each guard
        self._patience = patience
        self.hurried = False  #: not to wait for others for long
        self._turn = 0
        self._channel: Channel | None = None
        self._process = 0
        self._looking = False
        self._calls = 0  # of outermost modules
        self._passes = 0  # backwards
        self._reached = False  #: this rank is another than 0, and rank 0 can read what it left
        self._alone = False  #: no other rank took part in an earlier turn
        self.on_meeting: Callable[[RanksCall], None] | None = None  #: told, once in a turn, that there are other ranks

    @property
    def silent(self) -> bool:
        """Whether rank 0 tells what this rank finds."""
        return self._reached

    def begin(self) -> None:
        """The guard begins to watch."""
        self._turn += 1
        self._channel = Channel(f"{self.name}/{self._turn}")
        self._process = os.getpid()
        self._looking, self._reached = True, False
        self.wake()

    def backward_begins(self, call: BackwardCall) -> None:
        self._passes += 1
        self.rest()
        if self._passes <= SELDOM or self._passes % SELDOM == 0:
            self.look()

    def forward_ended(self, call: ForwardCall) -> None:
        self._calls += 1
        if self._calls % SELDOM == 1:
            self.look()

    def look(self) -> None:
        """Find the other ranks, if that is not done."""
        if self._looking and self._channel is not None and there_is_a_group():
            try:
                self._looking = not self._channel.open()
            except RuntimeError:  # whoever served the store is gone
                self._looking = False
            if self._channel.rank and not self._reached:
                self.leave([])
            if self._channel.size > 1 and self.on_meeting is not None:
                meeting, self.on_meeting = self.on_meeting, None
                meeting(RanksCall(self._channel, self._has_ended, 0.0 if self._alone else self._patience))

    def leave(self, findings: Sequence[Finding]) -> None:
        """Leave what this rank has found so far, for rank 0 to read."""
        if self._channel is not None and self._channel.rank and os.getpid() == self._process:
            self._put(self._channel, Word(tuple(findings), ended=False))

    def _has_ended(self, rank: int) -> bool | None:
        """Whether another rank has left its last word; None where it has left none, or need not be waited for."""
        text = None
        with suppress(RuntimeError):
            text = self._channel.get(str(rank)) if self._channel is not None and not self.hurried else None
        return None if text is None else _read(text).ended

    def _put(self, channel: Channel, word: Word) -> None:
        self._reached = False
        with suppress(RuntimeError):
            channel.put(str(channel.rank), _written(word))
            self._reached = True

    def end(self, findings: Sequence[Finding]) -> tuple[list[Finding], World]:
        """The guard has ended: what to tell, and of whom.

        Args:
            findings: of this rank.
        """
        channel, self._channel = self._channel, None
        if channel is None or channel.size == 1 or os.getpid() != self._process:
            return list(findings), ALONE
        if channel.rank:
            _within(HURRY, lambda: self._put(channel, Word(tuple(findings), ended=True)))
            return list(findings), World(channel.size, channel.rank)
        words: dict[int, Word] = {}
        patience = min(self._patience, HURRY) if self.hurried else self._patience
        _within(patience + HURRY, lambda: self._listen(channel, words, patience))
        self._alone = not words
        heard = dict(words)  # a thread that is stuck in a store may write to the other one yet
        world = World(
            channel.size,
            absent=tuple(rank for rank in range(1, channel.size) if rank not in heard),
            unfinished=tuple(rank for rank, word in sorted(heard.items()) if not word.ended),
            patience=patience,
        )
        return merged(findings, heard), world

    def _listen(self, channel: Channel, words: dict[int, Word], patience: float) -> None:
        """Read what the others leave, until all have ended or patience has, and forget what they left before."""
        self._hear(channel, words, patience)
        for key in channel.expected:
            channel.drop(key)

    def _hear(self, channel: Channel, words: dict[int, Word], patience: float) -> None:
        begun = time.monotonic()
        waiting = set(range(1, channel.size))
        while True:
            for rank in sorted(waiting):
                text = channel.get(str(rank))
                if text is not None:
                    words[rank] = _read(text)
                    if words[rank].ended:
                        waiting.discard(rank)
                        channel.drop(str(rank))
            seconds = time.monotonic() - begun
            awaited = waiting & words.keys()
            known = 0.0 if self._alone else min(HURRY, patience)
            if not waiting or seconds >= (patience if awaited else known):
                return
            time.sleep(_POLL)


def merged(own: Sequence[Finding], heard: Mapping[int, Word]) -> list[Finding]:
    """The findings of all ranks, each mistake once, with the ranks that saw it; first those of rank 0 in its order."""
    found: dict[tuple[object, ...], Finding] = {}
    for rank, findings in sorted({0: tuple(own), **{rank: word.findings for rank, word in heard.items()}}.items()):
        for finding in findings:
            key = finding.identity
            before = found.get(key)
            found[key] = (
                dataclasses.replace(finding, ranks=(rank,))
                if before is None
                else dataclasses.replace(before, ranks=(*before.ranks, rank), count=before.count + finding.count)
            )
    return list(found.values())


def _within(seconds: float, action: Callable[[], object]) -> None:
    """Do something that may hang, and wait for it only so long."""

    def act() -> None:
        try:
            action()
        except Exception as failure:  # noqa: BLE001  the training has gone well, and its report is told all the same
            sys.stderr.write(f"gradlint: the ranks could not be asked ({type(failure).__name__}: {failure})\n")

    thread = threading.Thread(target=act, name="gradlint ranks", daemon=True)
    with suppress(RuntimeError):  # python is on its way out and begins no more threads
        thread.start()
        thread.join(seconds)


def _written(word: Word) -> str:
    return json.dumps([[dataclasses.asdict(finding) for finding in word.findings], word.ended], default=_plain)


def _plain(value: Severity | Effect) -> str:
    return str(value.value)


def _read(text: str) -> Word:
    findings, ended = json.loads(text)
    return Word(tuple(_finding(**finding) for finding in findings), ended)


def _finding(
    severity: str,
    location: dict[str, Any],
    related: list[dict[str, Any]],
    cause: dict[str, Any] | None,
    inside: dict[str, Any] | None,
    ranks: list[int],
    effect: str | None,
    **plain: Any,
) -> Finding:
    return Finding(
        severity=Severity(severity),
        location=Location(**location),
        related=tuple(Related(other["message"], Location(**other["location"])) for other in related),
        cause=None if cause is None else Location(**cause),
        inside=None if inside is None else Location(**inside),
        ranks=tuple(ranks),
        effect=None if effect is None else Effect(effect),
        **plain,
    )
