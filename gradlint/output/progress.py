"""A line that tells how far a run is, for those that take long enough to wonder."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import IO

from gradlint.output.style import shown_path
from gradlint.output.summary import counted

PATIENCE = 1.0  #: seconds before anything is drawn
WIDTH = 30


class ProgressBar:
    """Draws on ``stream`` when it is a terminal, and wipes itself away at the end."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._wanted = stream.isatty()
        self._started = time.monotonic()
        self._drawn = self._started + PATIENCE - 0.1
        self._length = 0
        self._file = ""

    def __call__(self, path: Path | None, files: int, share: float) -> None:
        """Say how far the run is.

        Args:
            path: the file that is followed; None where it is the same as before, or not known.
            files: in how many there is something left to follow.
            share: of the whole, between 0 and 1.
        """
        now = time.monotonic()
        if not self._wanted or now - self._drawn < 0.1:
            return
        self._drawn = now
        if path is not None:
            self._file = shown_path(str(path), Path.cwd())
        filled = int(WIDTH * share)
        line = f"[{'#' * filled}{' ' * (WIDTH - filled)}] {counted(files, 'file')} left  {self._file}"
        line = line[: shutil.get_terminal_size().columns - 1]
        self._stream.write(f"\r{line}{' ' * (self._length - len(line))}")
        self._stream.flush()
        self._length = len(line)

    def close(self) -> None:
        """Remove the line, if it was ever drawn."""
        if self._length:
            self._stream.write(f"\r{' ' * self._length}\r")
            self._stream.flush()
            self._length = 0
