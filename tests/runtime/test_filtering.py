"""Findings of a running program, under the configuration and the comments of the files where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.configuration import Configuration
from gradlint.finding import Finding, Location, Severity
from gradlint.refusal import Refusal
from gradlint.runtime.filtering import Filter
from gradlint.selection import Choice

NAMES = {"GL109": "input-requires-grad", "GL201": "missing-zero-grad", "GL211": "clip-misplaced"}


def wanted(folder: Path, choice: Choice | None = None, configuration: Configuration | None = None) -> list[str]:
    """Which of some findings are wanted: file, row and code."""
    found = Filter(configuration or Configuration(), choice or Choice())
    places = [("train.py", 1, "GL109"), ("train.py", 2, "GL201"), ("inner/steps.py", 1, "GL201")]
    return [
        f"{filename}:{row} {code}"
        for filename, row, code in places
        if found.wants(
            Finding(code, NAMES[code], "so", Severity.ERROR, Location(str(folder / filename), row, 1, row, 9))
        )
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "train.py").write_text("feed()\nstep()\n", encoding="utf-8")
    (tmp_path / "inner" / "steps.py").write_text("step()\n", encoding="utf-8")
    return tmp_path


EVERYTHING = ["train.py:1 GL109", "train.py:2 GL201", "inner/steps.py:1 GL201"]


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("", EVERYTHING),
        ('ignore = ["GL201"]', EVERYTHING[:1]),
        ('select = ["GL2"]', EVERYTHING[1:]),
        ('select = ["GL5"]\nextend-select = ["input-requires-grad"]', EVERYTHING[:1]),
        ('per-file-ignores = { "inner/*" = ["GL2"] }', EVERYTHING[:2]),
        ('per-file-ignores = { "!inner/*" = ["ALL"] }', EVERYTHING[2:]),
    ],
)
def test_settings_hold(project: Path, configured: str, expected: list[str]) -> None:
    (project / "pyproject.toml").write_text(f"[tool.gradlint]\n{configured}\n", encoding="utf-8")
    assert wanted(project) == expected
    assert wanted(project, configuration=Configuration(isolated=True)) == EVERYTHING


def test_the_nearest_settings_hold(project: Path) -> None:
    (project / "gradlint.toml").write_text('ignore = ["GL1"]\n', encoding="utf-8")
    (project / "inner" / "gradlint.toml").write_text('ignore = ["GL2"]\n', encoding="utf-8")
    assert wanted(project) == ["train.py:2 GL201"]


def test_the_command_line_is_applied_over_settings(project: Path) -> None:
    (project / "gradlint.toml").write_text('ignore = ["GL1"]\n', encoding="utf-8")
    assert wanted(project, Choice("--", extend_select=("GL109",))) == EVERYTHING
    assert wanted(project, Choice("--", ignore=("missing-zero-grad",))) == []


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [("# noqa", True), ("# noqa: GL201", True), ("# gradlint: ignore[GL2]", True), ("# noqa: GL109, E501", False)],
)
def test_comments_hold(project: Path, comment: str, silenced: bool) -> None:
    (project / "train.py").write_text(f"feed()\nstep()  {comment}\n", encoding="utf-8")
    assert wanted(project) == (EVERYTHING[:1] + EVERYTHING[2:] if silenced else EVERYTHING)


def test_rules_to_use_are_those_where_the_program_lies(project: Path) -> None:
    (project / "gradlint.toml").write_text('select = ["GL201"]\nextend-select = ["GL211"]\n', encoding="utf-8")
    found = Filter(Configuration(), Choice("--", ignore=("GL211",)))
    assert found.codes(project) == found.codes(project / "inner") == ["GL201"]


def test_broken_settings_are_refused_where_the_program_lies_and_told_once_elsewhere(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "gradlint.toml").write_text('per-file-ignores = { "*" = ["GL999"] }\n', encoding="utf-8")
    with pytest.raises(Refusal, match="GL999"):
        Filter(Configuration(), Choice()).codes(project)
    assert wanted(project) == EVERYTHING
    assert capsys.readouterr().err.count("GL999") == 1


def test_code_that_lies_in_no_file_is_under_the_usual_settings() -> None:
    found = Filter(Configuration(isolated=True), Choice())
    assert found.wants(Finding("GL201", NAMES["GL201"], "so", Severity.ERROR, Location("<string>", 1)))
    assert not found.wants(Finding("GL211", NAMES["GL211"], "so", Severity.ERROR, Location("<string>", 1)))
