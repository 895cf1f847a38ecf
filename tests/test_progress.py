"""The progress bar: patient, only on terminals, and gone at the end."""

from __future__ import annotations

import io

import pytest

from gradlint.output.progress import ProgressBar


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
    bar(1, 2)
    clock[0] += 0.9
    bar(2, 2)
    bar.close()
    assert stream.getvalue() == ""


def test_a_long_run_draws_and_wipes(clock: list[float]) -> None:
    stream = Terminal()
    bar = ProgressBar(stream)
    clock[0] += 1.5
    bar(1, 2)
    bar(1, 2)  # too soon after the last
    assert stream.getvalue() == "\r[" + "#" * 15 + " " * 15 + "]  50 %"
    bar.close()
    last_line = stream.getvalue().rsplit("\r", 2)
    assert last_line[1].strip() == ""
    assert len(last_line[1]) >= len("[" + " " * 30 + "] 100 %")


def test_a_file_is_spared(clock: list[float]) -> None:
    stream = io.StringIO()
    bar = ProgressBar(stream)
    clock[0] += 5
    bar(1, 2)
    bar.close()
    assert stream.getvalue() == ""
