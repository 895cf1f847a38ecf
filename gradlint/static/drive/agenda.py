"""What is still to be followed, for those who wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

Watch = Callable[[Path, int, float], None]
"""Told which file is followed, how many files there is still something to follow in, and which share is done."""


class Agenda:
    """Counts the entry points of each file.

    Args:
        watch: told of each that begins.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._left: Counter[Path] = Counter()
        self._total = 0
        self._done = 0

    def plan(self, files: Iterable[Path]) -> None:
        """Something is to be followed in each of these files, as often as it is named."""
        before = self._left.total()
        self._left.update(files)
        self._total += self._left.total() - before

    def begin(self, file: Path) -> None:
        """Something that was planned in a file begins."""
        self._watch(file, len(self._left), self._done / self._total if self._total else 0.0)
        self._done += 1
        self._left[file] -= 1
        if self._left[file] <= 0:
            del self._left[file]
