"""What the documentation says of how well rules find what they look for."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gradlint.rule import Rule, all_rules

ROOT = Path(__file__).parents[1]
BY_CODE: dict[str, type[Rule]] = {rule.code: rule for rule in all_rules()}


@pytest.fixture(scope="module")
def measurements() -> ModuleType:
    """The module beside the site's hook, which is in no package."""
    spec = importlib.util.spec_from_file_location("measurements", ROOT / "docs/_site/measurements.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["measurements"] = module  # where dataclasses look for it
    try:
        spec.loader.exec_module(module)
        return module
    finally:
        del sys.modules["measurements"]


@pytest.mark.parametrize(
    ("part", "whole", "bound"),
    [(3, 3, 0.4385), (10, 10, 0.7225), (5, 10, 0.2366), (0, 4, 0.0)],  # as tables of Wilson's interval have it
)
def test_the_lower_bound_is_wilsons(measurements: ModuleType, part: int, whole: int, bound: float) -> None:
    assert measurements.lower_bound(part, whole) == pytest.approx(bound, abs=5e-5)


def test_precision_counts_reports_of_right_code_and_of_anything_else(measurements: ModuleType) -> None:
    counts = measurements.Counts(bugs=8, found=6, clean=5, flagged=1, extra=1)
    assert counts.recall == (6, 8)
    assert counts.precision == (6, 8)


def test_where_right_code_was_not_looked_at_there_is_no_precision(measurements: ModuleType) -> None:
    some, more = measurements.Counts(bugs=4, found=3), measurements.Counts(bugs=2, found=2, clean=5)
    assert [some.precision, some.left_alone] == [(0, 0), "–"]
    assert measurements.shown(some.precision) == "–"
    assert (some + more).recall == (5, 6)
    assert (some + more).precision == (0, 0)
    assert (more + more).left_alone == "10 of 10"


@pytest.mark.parametrize("change", [{"found": 9}, {"flagged": 6}, {"extra": -1}])
def test_counts_that_contradict_each_other_are_refused(measurements: ModuleType, change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="more was found than there is"):
        measurements.Counts(**{"bugs": 8, "found": 6, "clean": 5, "flagged": 1, "extra": 1, **change})


def test_the_data_is_of_rules_that_exist_and_of_witnesses_that_see_them(measurements: ModuleType) -> None:
    from gradlint.manual import witnesses

    known = measurements.read()
    assert known
    for measurement in known:
        assert all(measurement.witness in witnesses(BY_CODE[code]) for code in measurement.rules)


def test_a_page_shows_what_was_measured_and_says_what_was_not(measurements: ModuleType) -> None:
    told = measurements.section(BY_CODE["GL203"])
    counts = measurements.read()[0].rules["GL203"]
    assert f"({counts.found} of {counts.bugs}; at least " in told
    assert "Precision and recall of the guard are not measured for this rule." in told
    assert re.search(r"\d", measurements.section(BY_CODE["GL001"])) is None, "nothing of it was measured"


def test_fixtures_are_counted_as_they_are_marked(measurements: ModuleType) -> None:
    text = (ROOT / "tests/fixtures/log_of_softmax.py").read_text(encoding="utf-8")
    marks = [line for line in text.splitlines() if re.search(r"#.*\bGL306$", line)]
    silent = [case for case in text.split("# case: ")[1:] if "GL306" not in case]
    assert measurements.pinned(BY_CODE["GL306"]) == (len(marks), len(silent))
