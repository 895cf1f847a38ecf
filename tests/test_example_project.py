"""A project of several files with planted mistakes, and its corrected twin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint.rule import all_rules

TESTS = Path(__file__).parent
FLAWED, FIXED = TESTS / "example_project", TESTS / "example_project_fixed"


def found(folder: Path) -> list[tuple[str, int, str]]:
    """(file, row, code) of each finding of the default rules."""
    from gradlint.static.drive.analysis import analyze
    from gradlint.static.text.project import Project

    rules = [rule for rule in all_rules() if rule.default()]
    findings = analyze(Project([folder]), sorted(folder.glob("*.py")), rules).findings
    return sorted((Path(each.location.filename).name, each.location.row, each.code) for each in findings)


def planted(folder: Path) -> list[tuple[str, int, str]]:
    """(file, row, code) of each mark at the end of a line."""
    return sorted(
        (path.name, row, code)
        for path in folder.glob("*.py")
        for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for code in re.findall(r"GL\d{3}", line)
    )


def test_every_planted_mistake_is_found_and_nothing_else() -> None:
    assert found(FLAWED) == planted(FLAWED)


def test_the_mistakes_are_of_many_kinds() -> None:
    codes = {code for _, _, code in planted(FLAWED)}
    assert codes == {"GL101", "GL109", "GL110", "GL201", "GL203", "GL205", "GL301", "GL401", "GL406", "GL501", "GL502"}


def test_the_corrected_twin_is_clean() -> None:
    assert planted(FIXED) == []
    assert found(FIXED) == []


def test_the_corrected_twin_trains(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs torch")
    done = subprocess.run(
        [sys.executable, str(FIXED / "train.py"), "--epochs", "6"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    accuracy = re.search(r"accuracy (\d\.\d\d)", done.stdout)
    assert accuracy
    assert float(accuracy[1]) > 0.5, done.stdout
