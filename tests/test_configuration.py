"""Configuration: where settings come from, and what is said about wrong ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gradlint.configuration import Configuration
from gradlint.refusal import Refusal
from gradlint.settings import DEFAULT_EXCLUDE, FileIgnores, Patterns, Settings, overriding, read_settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert Configuration(isolated=True).of_folder(tmp_path) == Settings()


def test_every_key_is_read(tmp_path: Path) -> None:
    settings = read_settings(
        write(
            tmp_path / "pyproject.toml",
            """
            [tool.gradlint]
            select = ["GL2"]
            ignore = ["GL201"]
            extend-select = ["data-read"]
            exclude = ["old"]
            extend-exclude = ["*_pb2.py"]
            output-format = "concise"
            [tool.gradlint.per-file-ignores]
            "tests/*" = ["GL1"]
            """,
        )
    )
    assert settings is not None
    assert settings.choices[-1].select == ("GL2",)
    assert settings.choices[-1].ignore == ("GL201",)
    assert settings.choices[-1].extend_select == ("data-read",)
    assert settings.exclude == Patterns(("old",), tmp_path)
    assert settings.extend_exclude == (Patterns(("*_pb2.py",), tmp_path),)
    assert settings.output_format == "concise"
    assert settings.per_file_ignores == (FileIgnores("tests/*", ("GL1",), tmp_path),)


def test_the_nearest_file_holds(tmp_path: Path) -> None:
    outer = write(tmp_path / "pyproject.toml", "[tool.gradlint]\n")
    inner = write(tmp_path / "sub/gradlint.toml", "")
    write(tmp_path / "sub/deeper/pyproject.toml", "[project]\nname = 'x'\n")
    configuration = Configuration()
    assert configuration.of_folder(tmp_path).origin == outer
    assert configuration.of_folder(tmp_path / "other").origin == outer
    assert configuration.of_folder(tmp_path / "sub/deeper").origin == inner


def test_gradlint_toml_wins_beside_pyproject(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.gradlint]\nselect = ['GL1']\n")
    write(tmp_path / "gradlint.toml", "select = ['GL2']\n")
    assert Configuration().of_folder(tmp_path).choices[-1].select == ("GL2",)


def test_a_named_file_holds_everywhere(tmp_path: Path) -> None:
    write(tmp_path / "gradlint.toml", "select = ['GL1']\n")
    named = write(tmp_path / "ci/strict.toml", "select = ['GL2']\n")
    assert Configuration(named).of_folder(tmp_path).choices[-1].select == ("GL2",)


def test_the_command_line_overrides_every_file(tmp_path: Path) -> None:
    write(tmp_path / "gradlint.toml", "exclude = ['a']\nextend-exclude = ['b']\noutput-format = 'json'\n")
    override = overriding(exclude=["c"], extend_exclude=["d"], output_format="github")
    settings = Configuration(override=override).of_folder(tmp_path)
    assert settings.exclude == Patterns(("c",))
    assert settings.extend_exclude == (Patterns(("b",), tmp_path), Patterns(("d",)))
    assert settings.output_format == "github"
    assert Configuration(isolated=True, override=overriding()).of_folder(tmp_path).exclude.lines == DEFAULT_EXCLUDE


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("selekt = ['GL1']", r"unknown key 'selekt'; did you mean 'select'\?"),
        ("threads = 4", r"unknown key 'threads' \(known: extend, select, "),
        ("select = 'GL1'", "select: must be a list of strings, not 'GL1'"),
        ("ignore = [1]", r"ignore: must be a list of strings, not \[1\]"),
        ("per-file-ignores = []", r"per-file-ignores: must be a table of lists by pattern, not \[\]"),
        ("per-file-ignores = { a = 'GL1' }", "per-file-ignores: 'a': must be a list of strings"),
        ("output-format = 'xml'", "output-format: must be one of text, concise, json, github, .*, not 'xml'"),
        ("select = [", "not valid TOML: "),
        ("a = " + "[" * 20_000, "not read: nested too deeply"),
        ("a = " + "{a = " * 20_000, "not read: nested too deeply"),
        ("select = {" + "a." * 90 + "a = 1}", r"select: must be a list of strings, not \{'a': .*\.\.\."),
        (f"{'k' * 9_000} = 1", r"unknown key 'kkk[k.]{90,110}kkk'"),
        pytest.param(
            f"exclude = [{'1,' * 90_000}]", r"exclude: must be a list of strings, not \[1, 1,.{10,40}$", id="array"
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path / "gradlint.toml", text)
    with pytest.raises(Refusal, match=f"{path}: {told}"):
        read_settings(path)


@pytest.mark.parametrize(
    "key", ["a", "'a'", '"a b"', '"a\\"b"', " a ", '"\\""', '"' + "k" * 500 + '"'], ids=lambda key: key[:9]
)
@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "a = {{ {} = 1 }}"])
def test_a_key_of_many_parts_takes_no_time(tmp_path: Path, key: str, form: str) -> None:
    path = write(tmp_path / "gradlint.toml", form.format(".".join([key] * (200_000 // (len(key) + 1)))))
    started = time.process_time()
    with pytest.raises(Refusal, match=r"a key of 100 parts or more|unknown key"):
        read_settings(path)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tool = 1", r"\[tool\] must be a table, not 1"),
        ("'tool' = [1]", r"\[tool\] must be a table, not \[1\]"),
        ("[[tool]]\ngradlint = 1", r"\[tool\] must be a table, not \[\{'gradlint': 1\}\]"),
        ("tool.gradlint = 1", r"\[tool.gradlint\] must be a table, not 1"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path / "pyproject.toml", text)
    with pytest.raises(Refusal, match=f"{path}: {told}"):
        read_settings(path)


@pytest.mark.parametrize("text", ["[tool]", "[project]\nname = 'gradlint'", "[tool.other]\ntool = 1", ""])
def test_a_pyproject_that_says_nothing_is_passed_over(tmp_path: Path, text: str) -> None:
    assert read_settings(write(tmp_path / "pyproject.toml", text)) is None


@pytest.mark.parametrize("text", ["[tool.gradlint]", "tool = {gradlint = {}}", "tool.gradlint.select = []"])
def test_a_pyproject_that_says_little_is_not(tmp_path: Path, text: str) -> None:
    assert read_settings(write(tmp_path / "pyproject.toml", text)) is not None


def test_in_pyproject_the_table_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "pyproject.toml", "[tool.gradlint]\nselekt = []\n")
    with pytest.raises(Refusal, match=r"pyproject.toml: \[tool.gradlint\]: unknown key 'selekt'"):
        read_settings(path)


def test_a_broken_pyproject_of_somebody_else_is_not_our_business(tmp_path: Path) -> None:
    assert read_settings(write(tmp_path / "pyproject.toml", "[tool.other\n")) is None


def test_a_missing_named_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no such configuration file"):
        Configuration(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("pattern", "path", "holds"),
    [
        ("tests/*", "tests/a.py", True),
        ("tests/*", "src/tests/a.py", False),
        ("conftest.py", "deep/down/conftest.py", True),
        ("tests/", "tests/deep/a.py", True),
        ("!src/", "tests/a.py", True),
        ("!src/", "src/a.py", False),
    ],
)
def test_patterns_of_per_file_ignores(tmp_path: Path, pattern: str, path: str, holds: bool) -> None:
    assert FileIgnores(pattern, ("GL1",), tmp_path).holds_for(tmp_path / path) == holds
