"""A progress bar for runs that take long enough to wonder."""

from __future__ import annotations

import time
from typing import IO

PATIENCE = 1.0  #: seconds before anything is drawn
WIDTH = 30


class ProgressBar:
    """Draws on ``stream`` when it is a terminal, and wipes itself away at the end."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._wanted = stream.isatty()
        self._started = time.monotonic()
        self._drawn = self._started + PATIENCE - 0.1

    def __call__(self, done: int, total: int) -> None:
        """Say how far the run is."""
        now = time.monotonic()
        if not self._wanted or not total or now - self._drawn < 0.1:
            return
        self._drawn = now
        filled = WIDTH * done // total
        self._stream.write(f"\r[{'#' * filled}{' ' * (WIDTH - filled)}] {100 * done // total:3} %")
        self._stream.flush()

    def close(self) -> None:
        """Remove the bar, if it was ever drawn."""
        if self._drawn > self._started + PATIENCE:
            self._stream.write("\r" + " " * (WIDTH + 9) + "\r")
            self._stream.flush()
