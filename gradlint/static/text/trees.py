"""Which trees are kept: those of the units that were used last, as trees take far more memory than their texts."""

from __future__ import annotations

from typing import Protocol

MAX_CHARACTERS = 1_000_000  #: of the texts whose trees are kept from one entry point to the next
SHARE = 40  #: of a large project, one in so many


class Parsed(Protocol):
    """What has a tree of its own, and can have it again."""

    used: int  #: when its tree was last asked for

    @property
    def text(self) -> str:
        """What the tree is made of."""

    def let_go(self) -> None:
        """Forget the tree."""


class Trees:
    """The units whose trees are at hand."""

    def __init__(self) -> None:
        self.turn = 0  #: how often trees could have been let go of: the time, as far as units know it
        self._kept: dict[Parsed, None] = {}
        self._size = 0
        self._all = 0  #: the characters of all files

    def belongs(self, text: str) -> None:
        """A file with this text is among those that trees may be kept of."""
        self._all += len(text)

    def keep(self, unit: Parsed) -> None:
        """A unit was parsed."""
        self._kept[unit] = None
        self._size += len(unit.text)

    def trim(self) -> bool:
        """Let go of the trees that were not used for longest, if there are too many; whether there were.

        Nothing that is at work may hold a node of a tree: it would be another one when it is met again.
        """
        self.turn += 1
        limit = max(MAX_CHARACTERS, self._all // SHARE)
        if self._size <= limit:
            return False
        for unit in sorted(self._kept, key=lambda unit: unit.used):
            if self._size <= limit // 2:
                break
            del self._kept[unit]
            self._size -= len(unit.text)
            unit.let_go()
        return True


__all__ = ["Trees"]
