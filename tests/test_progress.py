"""The progress bar: patient, only on terminals, and gone at the end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gradlint.output.progress import ProgressBar

FILE = Path.cwd() / "package" / "train.py"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("gradlint.output.progress.time.monotonic", lambda: now[0])
    return now


def test_a_short_run_draws_nothing(clock: list[float]) -> None:
    stream = Terminal()
    bar = ProgressBar(stream)
    bar(FILE, 2, 0.5)
    clock[0] += 0.9
    bar(FILE, 1, 0.9)
    bar.close()
    assert stream.getvalue() == ""


def test_a_long_run_draws_and_wipes(clock: list[float]) -> None:
    stream = Terminal()
    bar = ProgressBar(stream)
    clock[0] += 1.5
    bar(FILE, 3, 0.5)
    bar(FILE, 2, 0.6)  # too soon after the last
    drawn = "[" + "#" * 15 + " " * 15 + "] 3 files left  package/train.py"
    assert stream.getvalue() == f"\r{drawn}"
    clock[0] += 1.5
    bar(None, 1, 0.9)  # the name stays; what was longer is wiped away
    assert stream.getvalue().rpartition("\r")[2] == "[" + "#" * 27 + " " * 3 + "] 1 file left  package/train.py "
    bar.close()
    last_line = stream.getvalue().rsplit("\r", 2)
    assert last_line[1].strip() == ""
    assert len(last_line[1]) >= len(drawn) - 1


def test_the_line_fits_the_terminal(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    bar = ProgressBar(stream)
    clock[0] += 1.5
    bar(FILE, 12, 0.5)
    assert len(stream.getvalue().lstrip("\r")) == 39


def test_a_file_is_spared(clock: list[float]) -> None:
    stream = io.StringIO()
    bar = ProgressBar(stream)
    clock[0] += 5
    bar(FILE, 1, 0.5)
    bar.close()
    assert stream.getvalue() == ""
