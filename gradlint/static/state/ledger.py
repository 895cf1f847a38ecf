"""What is noted of values while an entry point is followed: it ends with it, but for what imported modules made."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Ledger(dict[K, V]):
    """Notes by key; none is taken out but by :meth:`trim`."""

    def __init__(self) -> None:
        super().__init__()
        self._lasting: set[K] = set()
        self._trimmed = 0  #: how many notes were left when it was trimmed: the first ones, all of them lasting

    def keep(self, since: int) -> None:
        """What was noted when there were more than ``since`` notes is of a module, which outlives the entry point."""
        self._lasting.update(self._behind(since))

    def trim(self) -> None:
        """The entry point is done: drop all that nothing can ask for any more."""
        for key in [key for key in self._behind(self._trimmed) if key not in self._lasting]:
            del self[key]
        self._trimmed = len(self)

    def _behind(self, count: int) -> Iterator[K]:
        """The keys of all notes but the first ones, the last first: the first ones may be many."""
        return islice(reversed(self), len(self) - count)


class Ledgers:
    """All ledgers of an analysis."""

    def __init__(self) -> None:
        self._all: list[Ledger[Hashable, object]] = []

    def open(self) -> Ledger[K, V]:
        """A new one."""
        made: Ledger[K, V] = Ledger()
        self._all.append(made)  # type: ignore[arg-type]
        return made

    def sizes(self) -> list[int]:
        """How many notes there are; to be given to :meth:`keep`."""
        return [len(each) for each in self._all]

    def keep(self, since: list[int]) -> None:
        """See :meth:`Ledger.keep`."""
        for each, size in zip(self._all, since, strict=True):
            each.keep(size)

    def trim(self) -> None:
        """See :meth:`Ledger.trim`."""
        for each in self._all:
            each.trim()


__all__ = ["Ledger", "Ledgers"]
