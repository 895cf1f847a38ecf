"""Every rule on small programs: the findings are exactly the marks at the ends of the lines.

How cases are written stands in ``tooling/fixture_cases.py``. They run under torch, too, to prove that they are
programs, and that those marked with a code that raises do raise.
"""

from __future__ import annotations

import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from fixture_cases import RAISING, Case, all_cases, linted_slugs

from gradlint.rule import all_rules

CASES = all_cases()
LINTED = [case for case in CASES if case.slug in linted_slugs()]
RUN = [case for case in CASES if not case.not_run]


def test_cases_have_names_of_their_own() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_fixtures_belong_to_rules() -> None:
    assert {case.slug for case in CASES} <= {rule.name.replace("-", "_") for rule in all_rules()}


@pytest.mark.parametrize("case", LINTED, ids=[case.id for case in LINTED])
def test_findings_are_exactly_the_marks(case: Case, tmp_path: Path) -> None:
    from gradlint.static.drive.analysis import analyze
    from gradlint.static.text.project import Project

    rules = [rule for rule in all_rules() if rule.default() or rule.name.replace("-", "_") == case.slug]
    findings = analyze(Project([tmp_path]), case.write(tmp_path), rules).findings
    assert [
        (Path(finding.location.filename).relative_to(tmp_path).as_posix(), finding.location.row, finding.code)
        for finding in sorted(findings, key=lambda finding: finding.sort_key)
    ] == case.marks


@pytest.mark.parametrize("case", RUN, ids=[case.id for case in RUN])
def test_the_case_is_a_program(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="running the fixtures needs torch")
    torch.manual_seed(1)  # what a loss refuses depends on the numbers
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    raises = any(code in RAISING for _, _, code in case.marks)
    try:
        with pytest.raises((AttributeError, RuntimeError, TypeError)) if raises else nullcontext():
            runpy.run_path("main.py", run_name="__main__")
    finally:
        own = {path.split("/")[0].removesuffix(".py") for path in case.files}
        for name in set(sys.modules) - before:
            if name.split(".")[0] in own:
                del sys.modules[name]
