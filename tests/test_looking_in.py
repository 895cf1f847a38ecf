"""Looking in: files, settings, keys, schema, completion and --watch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import gradlint
from gradlint.cli import main
from gradlint.keys import KEYS, schema
from gradlint.settings import Patterns, Settings, read_settings

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, **files: str) -> tuple[int, str, str]:
        for name, text in files.items():
            path = Path(name.replace("__in__", "/").replace("__", "."))
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        code = main(arguments)
        return (code, *capsys.readouterr())

    return command


# --- files and settings --------------------------------------------------------------------------------------------


def test_the_files_that_would_be_checked(run: Run) -> None:
    assert run("--show-files", a__py="", src__in__b__py="", src__in__c__txt="", build__in__d__py="") == (
        0,
        "a.py\nsrc/b.py\n",
        "",
    )
    assert run("--show-files", "src", "missing") == (2, "src/b.py\n", "gradlint: missing: no such file or folder\n")
    assert run("--show-files", "--exclude", "src", "--config", "x.toml", x__toml="")[1] == "a.py\nbuild/d.py\n"


def test_settings_are_shown_with_the_file_that_says_them(run: Run) -> None:
    _, out, err = run(
        "--show-settings",
        "--output-format",
        "json",
        base__toml='jobs = 3\nextend-exclude = ["x"]\nignore = ["GL1"]\n',
        gradlint__toml='extend = "base.toml"\nselect = ["GL1", "GL201"]\nextend-exclude = ["y"]\ncache-dir = "c"\n'
        '[severity]\nGL201 = "warning"\n[per-file-ignores]\n"t/" = ["GL2"]\n',
    )
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "# settings for ."
    for line in (
        'select = ["GL1", "GL201"]  # gradlint.toml',
        'ignore = ["GL1"]  # base.toml',
        "jobs = 3  # base.toml",
        'extend-exclude = ["x", "y"]  # base.toml, gradlint.toml',
        'output-format = "json"  # the command line',
        'severity = { "GL201" = "warning" }  # gradlint.toml',
        'per-file-ignores = { "t/" = ["GL2"] }  # gradlint.toml',
        f'cache-dir = "{Path.cwd()}/c"  # gradlint.toml',
        "unsafe-fixes = false  # default",
        "# baseline: no baseline",
    ):
        assert line in lines
    assert lines[-1].startswith("# rules that are checked: GL101, ")
    assert lines[-1].endswith(", GL201")


def test_what_is_shown_is_a_configuration(run: Run) -> None:
    settings = {"jobs = 2": 2, 'src = ["lib"]': 1, "unsafe-fixes = true": True}
    _, out, _ = run("--show-settings", gradlint__toml="\n".join(settings))
    shown = tomllib.loads(out)
    jsonschema.validate(shown, schema())
    assert (shown["jobs"], shown["src"], shown["unsafe-fixes"]) == (2, [f"{Path.cwd()}/lib"], True)


def test_rules_that_are_left_out_in_a_file_are_not_shown_for_it(run: Run) -> None:
    toml = 'select = ["GL201", "GL301"]\n[per-file-ignores]\n"a.py" = ["GL2"]\n'
    _, out, _ = run("--show-settings", "a.py", "b.py", gradlint__toml=toml, a__py="", b__py="")
    assert re.findall("# rules that are checked: (.*)", out) == ["GL301", "GL201, GL301"]


# --- keys and schema -----------------------------------------------------------------------------------------------


def test_the_keys_are_those_of_the_settings() -> None:
    fields = {key.attribute for key in KEYS} - {"extend", "select", "ignore", "extend_select"}
    assert fields | {"origin", "choices", "origins", "cache_trusted"} == set(Settings.__dataclass_fields__)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_the_example_of_a_key_is_valid(tmp_path: Path, key: Any) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"[tool.gradlint]\n{key.example}\n", encoding="utf-8")
    jsonschema.validate(tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["gradlint"], schema())
    (tmp_path.parent / "gradlint.toml").write_text("", encoding="utf-8")  # which the example of extend names
    settings = read_settings(path)
    assert settings is not None
    assert set(settings.origins) == {key.name}


@pytest.mark.parametrize("key", [key for key in KEYS if key.default is not None], ids=lambda key: key.name)
def test_a_default_that_is_written_changes_nothing(tmp_path: Path, key: Any) -> None:
    jsonschema.validate({key.name: key.default}, schema())
    (tmp_path / "gradlint.toml").write_text("", encoding="utf-8")
    without = _plain(tmp_path / "gradlint.toml")
    written = "{}" if key.default == {} else json.dumps(key.default)
    (tmp_path / "gradlint.toml").write_text(f"{key.name} = {written}\n", encoding="utf-8")
    assert _plain(tmp_path / "gradlint.toml") == without


def _plain(path: Path) -> dict[str, Any]:
    """The settings in a file, without what tells where they come from."""
    settings = read_settings(path)
    assert settings is not None
    values = {name: getattr(settings, name) for name in Settings.__dataclass_fields__ if name != "origins"}
    return {name: value.lines if isinstance(value, Patterns) else value for name, value in values.items()}


def test_the_schema_is_the_one_that_is_shipped() -> None:
    """``gradlint config --output-format schema > gradlint/gradlint.schema.json`` writes it anew."""
    shipped = Path(gradlint.__file__).with_name("gradlint.schema.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == schema()
    jsonschema.Draft7Validator.check_schema(schema())


@pytest.mark.parametrize(
    "wrong",
    [
        {"selekt": []},
        {"select": "GL1"},
        {"select": ["GL2 01"]},
        {"jobs": 0},
        {"jobs": True},
        {"unsafe-fixes": "yes"},
        {"output-format": "xml"},
        {"severity": {"GL201": "grave"}},
        {"per-file-ignores": {"a": "GL1"}},
        {"cache-dir": ""},
    ],
    ids=str,
)
def test_the_schema_and_the_reader_refuse_the_same(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema())
    ((name, value),) = wrong.items()
    if name != "select" or value == "GL1":  # that a rule exists is known once rules are imported
        from gradlint.keys import key_named
        from gradlint.refusal import Refusal

        with pytest.raises(Refusal):
            key_named(name, "here").kind.read(value, "here")


def test_a_key_is_explained(run: Run) -> None:
    code, out, _ = run("config", "extend-exclude")
    assert code == 0
    assert out.startswith("extend-exclude\n\nFiles and folders to skip besides those of exclude.\n")
    assert 'Example:\n\n    extend-exclude = ["*_pb2.py"]\n' in out
    described = json.loads(run("config", "jobs", "--output-format", "json")[1])
    assert described["otherwise"] == "one for each CPU"
    assert run("config", "job")[2] == "gradlint config: unknown key 'job'; did you mean 'jobs'?\n"


def test_keys_are_listed(run: Run) -> None:
    _, out, _ = run("config")
    assert [line.split("  ")[0] for line in out.splitlines()] == [key.name for key in KEYS]
    assert [key["key"] for key in json.loads(run("config", "--output-format", "json")[1])] == [key.name for key in KEYS]
    assert json.loads(run("config", "--output-format", "schema")[1]) == schema()


# --- completion ----------------------------------------------------------------------------------------------------


def completed(*words: str) -> list[str]:
    """What bash would offer for the last word of a command line."""
    environment = {
        **os.environ,
        "_GRADLINT_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["gradlint", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "gradlint"], env=environment, capture_output=True, text=True, check=True
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ru"], {"rule", "run"}),
        (["check", "--output-format", "s"], {"sarif"}),
        (["--show-s"], {"--show-settings"}),
        (["--vers"], {"--version"}),
        (["src/tr"], {"src/tr"}),  # a file, which the shell completes itself
        (["rule", "missing-z"], {"missing-zero-grad"}),
        (["check", "--select", "GL201,effect:w"], {"GL201,effect:wrong-result", "GL201,effect:wastes"}),
        (["config", "extend-"], {"extend-select", "extend-exclude"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_shell_completes(words: list[str], offered: set[str]) -> None:
    assert set(completed(*words)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gradlint"],
        env={**os.environ, "_GRADLINT_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_GRADLINT_COMPLETE" in done.stdout, done.stderr


# --- watch ---------------------------------------------------------------------------------------------------------


class Watching:
    """A ``gradlint --watch`` in a folder, and what it has printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder.parent / "log.txt"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gradlint", "--watch", "--output-format", "concise", *arguments],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def expect(self, text: str, times: int = 1) -> str:
        """Wait until it has printed a text so many times."""
        deadline = time.monotonic() + 60
        while (printed := self.log.read_text()).count(text) < times:
            assert time.monotonic() < deadline, printed
            assert self.process.poll() is None, printed
            time.sleep(0.05)
        return printed


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n", encoding="utf-8")
    watched = Watching(folder)
    yield watched
    watched.process.kill()
    watched.process.wait()


def test_watch_checks_again_after_each_change(watching: Watching, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    mistake = "import torch\nprint(torch.ones(2, requires_grad=True).numpy())\n"
    watching.expect("No findings in 1 file.")
    (folder / "a.py").write_text(mistake, encoding="utf-8")
    watching.expect("a.py:2:7: GL501")
    (folder / "b.py").write_text(mistake, encoding="utf-8")  # a new file
    watching.expect("b.py:2:7: GL501")
    (folder / "gradlint.toml").write_text("ignore = [", encoding="utf-8")  # in the middle of an edit
    watching.expect("gradlint.toml: not valid TOML")
    (folder / "gradlint.toml").write_text('ignore = ["GL501"]', encoding="utf-8")
    watching.expect("No findings in 2 files.")
    before = watching.expect("is watching")
    time.sleep(1.5)
    assert watching.log.read_text() == before  # nothing changes, nothing happens
    watching.process.send_signal(2)
    assert watching.process.wait(10) == 0


def test_standard_input_cannot_be_watched(run: Run) -> None:
    assert run("--watch", "-") == (2, "", "gradlint: standard input cannot be watched\n")
