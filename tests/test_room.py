"""Room for work that calls deeply and makes many objects that stay."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradlint.room import look_for_garbage_seldom, with_room
from gradlint.rule import all_rules
from gradlint.static.drive.analysis import _Analyzer, analyze
from gradlint.static.text.project import Project


def faults() -> int:
    """How many pages of memory this process has asked for."""
    resource = pytest.importorskip("resource", reason="Windows does not tell")
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)


def leaf() -> None:
    """A call that needs a frame."""


def call_at(depth: int) -> None:
    """Call again and again, so many calls deep."""
    if depth:
        call_at(depth - 1)
    else:
        for _ in range(200):
            leaf()


def asked(run: Callable[[], None]) -> int:
    """The pages that something asks for that was done before."""
    run()
    before = faults()
    run()
    return faults() - before


@pytest.mark.parametrize("depths", [range(500), range(3_000, 3_200)])
def test_no_depth_asks_for_memory_with_each_call(depths: range) -> None:
    def everywhere() -> None:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(6_000)
        for depth in depths:
            call_at(depth)
        sys.setrecursionlimit(limit)

    assert asked(lambda: with_room(everywhere)) < 200 < asked(everywhere)


def test_limits_are_as_before() -> None:
    limit, thresholds = sys.getrecursionlimit(), gc.get_threshold()
    within = with_room(lambda: (sys.getrecursionlimit(), gc.get_threshold()))
    assert within[0] >= 6_000
    assert within[1][0] > thresholds[0]
    with pytest.raises(ZeroDivisionError):
        with_room(lambda: 1 // 0)
    assert (sys.getrecursionlimit(), gc.get_threshold()) == (limit, thresholds)


def test_what_acts_leave_behind_is_looked_for_between_them() -> None:
    left: list[int] = []

    def act() -> int:
        for _ in range(100_000):
            circle: list[Any] = []
            circle.append(circle)
        return sum(left)

    def note(phase: str, info: dict[str, int]) -> None:
        left.append(info["collected"] if phase == "stop" else 0)

    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    try:
        look_for_garbage_seldom()
        assert with_room(act) == 0
        kept: list[list[int]] = [[] for _ in range(1_000)]
        assert sum(left) >= 100_000
        assert len(kept) == 1_000
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)


@pytest.mark.parametrize(("threshold", "then"), [(0, 0), (700, 50_000), (60_000, 60_000)])
def test_a_collector_that_is_slower_or_off_stays_so(threshold: int, then: int) -> None:
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(threshold, 7, 9)
        look_for_garbage_seldom()
        assert gc.get_threshold() == (then, 7, 9)
    finally:
        gc.set_threshold(*thresholds)


def test_what_the_analysis_lets_go_of_does_not_refer_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage is looked for that seldom because there is next to none, however much is followed."""
    functions = "".join(
        f"def train_{i}(model, batches):\n    target = copy.deepcopy([model])\n    for x in batches:\n"
        f"        if x.shape[0] > {i}:\n            model(x).mean().backward()\n    return target\n\n"
        for i in range(40)
    )
    (tmp_path / "train.py").write_text(f"import copy\nimport torch\n\n{functions}")
    left: list[int] = []
    follow = _Analyzer._entry

    def followed(*args: Any) -> None:
        gc.collect()
        follow(*args)
        left.append(gc.collect())

    monkeypatch.setattr(_Analyzer, "_entry", followed)
    assert not analyze(Project([tmp_path]), [tmp_path / "train.py"], all_rules()).crashes
    assert len(left) > 40
    assert sum(left) < 5 * len(left)
