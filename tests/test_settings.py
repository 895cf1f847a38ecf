"""What the keys of the configuration do, through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradlint.cache import NAME, VARIABLE
from gradlint.cachedir import arguments_location
from gradlint.cli import main
from gradlint.configuration import Configuration
from gradlint.refusal import Refusal
from gradlint.settings import read_settings

Check = Callable[..., list[str]]

NUMPY = "import torch\nprint(torch.ones(2, requires_grad=True).numpy())\n"


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__in__", "/").replace("__", ".")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def check(tracer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Checks a folder with a tracer that reports every ``"GLnnn"``; returns file, row and code of what is found."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **files: str) -> list[str]:
        write(tmp_path, **files)
        main(["--output-format", "concise", *arguments])
        out, err = capsys.readouterr()
        assert err == ""
        return [line.split(" [")[0] for line in out.splitlines() if "as asked" in line]

    return run


# --- extend --------------------------------------------------------------------------------------------------------


def test_what_is_extended_holds_where_nothing_else_is_said(tmp_path: Path) -> None:
    write(
        tmp_path,
        base__toml='jobs = 2\noutput-format = "json"\nsrc = ["lib"]\n',
        sub__in__gradlint__toml='extend = "../base.toml"\noutput-format = "github"\n',
    )
    settings = Configuration().of_folder(tmp_path / "sub")
    assert (settings.jobs, settings.output_format) == (2, "github")
    assert settings.src == (tmp_path / "lib",)  # where it is written, not where it is extended
    assert settings.origin == tmp_path / "sub/gradlint.toml"


def test_rules_are_chosen_over_those_of_what_is_extended(check: Check) -> None:
    found = check(
        base__toml='select = ["GL2", "GL102"]\nignore = ["GL203"]\n',
        gradlint__toml='extend = "base.toml"\nextend-select = ["GL203"]\nignore = ["GL201"]\n',
        a__py='"GL101"\n"GL102"\n"GL201"\n"GL202"\n"GL203"\n',
    )
    assert found == ["a.py:2:1: GL102", "a.py:4:1: GL202", "a.py:5:1: GL203"]


def test_patterns_hold_below_the_folder_of_their_file(check: Check) -> None:
    found = check(
        gradlint__toml='extend-exclude = ["/sub/old"]\n[per-file-ignores]\n"/sub/a.py" = ["GL201"]\n',
        sub__in__gradlint__toml='extend = "../gradlint.toml"\nextend-exclude = ["/new"]\n',
        sub__in__a__py='"GL201"\n"GL101"\n',
        sub__in__old__in__b__py='"GL201"\n',
        sub__in__new__in__c__py='"GL201"\n',
        sub__in__d__py='"GL201"\n',
    )
    assert found == ["sub/a.py:2:1: GL101", "sub/d.py:1:1: GL201"]


def test_a_pyproject_can_be_extended(tmp_path: Path) -> None:
    extending = 'extend = "../pyproject.toml"'
    write(tmp_path, pyproject__toml="[tool.gradlint]\njobs = 7\n", ci__in__gradlint__toml=extending)
    assert Configuration().of_folder(tmp_path / "ci").jobs == 7


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a": 'extend = "a.toml"'}, "a.toml: extend: goes round in a circle: {0}/a.toml -> {0}/a.toml"),
        (
            {"a": 'extend = "b.toml"', "b": 'extend = "c.toml"', "c": 'extend = "b.toml"'},
            "c.toml: extend: goes round in a circle: {0}/b.toml -> {0}/c.toml -> {0}/b.toml",
        ),
        ({"a": 'extend = "b.toml"'}, "a.toml: extend: {0}/b.toml: No such file or directory"),
        ({"a": 'extend = "b.toml"', "b": "jobs = 0"}, "a.toml: extend: {0}/b.toml: jobs: must be a number from 1"),
    ],
    ids=["itself", "each other", "missing", "wrong"],
)
def test_what_cannot_be_extended_is_named(tmp_path: Path, files: dict[str, str], told: str) -> None:
    write(tmp_path, **{f"{name}__toml": text for name, text in files.items()})
    with pytest.raises(Refusal) as refused:
        read_settings(tmp_path / "a.toml")
    assert told.format(tmp_path) in str(refused.value)


def test_a_change_of_what_is_extended_counts(check: Check) -> None:
    files = {"gradlint__toml": 'extend = "base.toml"\n', "a__py": '"GL201"\n'}
    assert check(base__toml="", **files) == ["a.py:1:1: GL201"]
    assert check(base__toml='ignore = ["GL201"]') == []


# --- severity, fixes -----------------------------------------------------------------------------------------------


def test_severity_by_rule(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        Path(),
        gradlint__toml='[severity]\nGL2 = "style"\n"missing-zero-grad" = "warning"\n"effect:raises" = "style"\n',
        a__py='"GL201"\n"GL202"\n"GL501"\n"GL101"\n',
    )
    assert main(["--output-format", "json"]) == 1
    found = {each["code"]: each["severity"] for each in json.loads(capsys.readouterr().out)}
    assert found == {"GL201": "warning", "GL202": "style", "GL501": "style", "GL101": "error"}


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('[severity]\nGL299 = "error"', "severity: no rule is called 'GL299'"),
        ('fixable = ["GL299"]', "fixable: no rule is called 'GL299'"),
        ('unfixable = ["data-raed"]', "unfixable: no rule is called 'data-raed'; did you mean 'data-read'?"),
    ],
)
def test_unknown_rules_are_named(
    toml: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, gradlint__toml=toml, a__py="")
    assert main([]) == 2
    assert told in capsys.readouterr().err


def gradlint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradlint", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("toml", "arguments", "fixed"),
    [
        ("", [], True),
        ('unfixable = ["GL501"]', [], False),
        ('fixable = ["GL4"]', [], False),
        ('fixable = ["GL4"]', ["--fixable", "GL501"], True),
        ("", ["--unfixable", "numpy-on-grad"], False),
    ],
)
def test_what_may_be_fixed(tmp_path: Path, toml: str, arguments: list[str], fixed: bool) -> None:
    write(tmp_path, gradlint__toml=toml, a__py=NUMPY)
    done = gradlint(tmp_path, "--fix", *arguments)
    assert (".detach()" in (tmp_path / "a.py").read_text(encoding="utf-8")) == fixed
    assert done.returncode == (0 if fixed else 1), done.stdout + done.stderr
    if not fixed:
        assert "GL501" in done.stdout
        assert "--fix fixes" not in done.stdout  # what is not to be fixed is not offered


@pytest.mark.parametrize(
    ("toml", "arguments", "fixed"),
    [
        ("unsafe-fixes = true", [], True),
        ("unsafe-fixes = true", ["--no-unsafe-fixes"], False),
        ("", ["--unsafe-fixes"], True),
        ("", [], False),
    ],
)
def test_unsafe_fixes(tmp_path: Path, toml: str, arguments: list[str], fixed: bool) -> None:
    loop = "import torch\n\ndef f(model, optimizer, loader):\n    for x in loader:\n        model(x).sum().backward()\n"
    write(tmp_path, gradlint__toml=toml, a__py=f"{loop}        optimizer.step()\n")
    gradlint(tmp_path, "--fix", *arguments)
    assert ("zero_grad" in (tmp_path / "a.py").read_text(encoding="utf-8")) == fixed


# --- files ---------------------------------------------------------------------------------------------------------


def test_include_chooses_among_what_is_found(check: Check) -> None:
    files = {f"{name}__py": '"GL201"\n' for name in ("a", "src__in__b", "src__in__deep__in__c")}
    assert check(gradlint__toml='include = ["/src/**"]', **files) == ["src/b.py:1:1: GL201", "src/deep/c.py:1:1: GL201"]
    assert check("a.py") == ["a.py:1:1: GL201"]  # what is named is checked
    assert check(gradlint__toml='include = ["a.*", "*.ipynb"]') == ["a.py:1:1: GL201"]
    assert check(gradlint__toml='include = ["/src/**"]\nexclude = ["deep"]') == ["src/b.py:1:1: GL201"]


def test_imports_are_looked_for_in_src(tmp_path: Path) -> None:
    net = (
        "from torch import nn\nimport torch.nn.functional as F\n\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 3)\n\n"
        "    def forward(self, x):\n        return F.softmax(self.fc(x), dim=1)\n"
    )
    train = (
        "import torch.nn.functional as F\nfrom nets import Net\n\n"
        "def loss(x, y):\n    return F.cross_entropy(Net()(x), y)\n"
    )
    write(tmp_path, app__in__train__py=train, shared__in__python__in__nets__py=net, app__in__pyproject__toml="")
    assert gradlint(tmp_path / "app").returncode == 0
    write(tmp_path, app__in__gradlint__toml='src = ["../shared/python"]\n')
    done = gradlint(tmp_path / "app", "--output-format", "concise")
    assert done.stdout.startswith("train.py:5:12: GL301"), done.stdout + done.stderr


# --- cache and jobs ------------------------------------------------------------------------------------------------


def test_the_cache_is_where_the_configuration_says(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    check(gradlint__toml='cache-dir = "kept"\n', a__py="")
    assert sorted(path.suffix for path in Path("kept").glob("*.[ct]*")) == [".checked", ".told"]
    assert not Path(NAME).exists()
    check("--cache-dir", "named")
    assert list(Path("named").glob("*.told"))
    assert main(["clean"]) == 0
    assert not Path("kept").exists()


@pytest.mark.parametrize(
    ("files", "arguments", "found"),
    [
        ({}, [], NAME),
        ({"gradlint__toml": 'cache-dir = "kept"'}, [], "kept"),
        ({"gradlint__toml": 'cache-dir = "kept"'}, ["--isolated"], NAME),
        ({"gradlint__toml": 'cache-dir = "kept"'}, ["--cache-dir", "other"], "other"),
        ({"gradlint__toml": 'cache-dir = "kept"', "x__toml": ""}, ["--config", "x.toml"], NAME),
        ({"x__toml": 'cache-dir = "kept"'}, ["--config=x.toml"], "kept"),
        ({"gradlint__toml": 'extend = "x.toml"', "x__toml": 'cache-dir = "kept"'}, [], "kept"),
        ({"pyproject__toml": '[tool.gradlint]\ncache-dir = "kept"'}, [], "kept"),
        ({"pyproject__toml": '[tool.other]\ncache-dir = "theirs"'}, [], NAME),
        ({"gradlint__toml": "", "pyproject__toml": '[tool.gradlint]\ncache-dir = "kept"'}, [], NAME),
        ({}, ["--watch"], None),
        ({}, ["--output-file=x"], None),
    ],
    ids=str,
)
def test_a_warm_run_looks_into_the_same_cache(
    files: dict[str, str], arguments: list[str], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, pyproject__toml=files.get("pyproject__toml", ""), **{k: v for k, v in files.items() if k[0] != "p"})
    assert arguments_location(arguments) == (None if found is None else (str(tmp_path / found), str(tmp_path)))


def test_a_warm_run_with_a_configured_cache_imports_neither_parser_nor_rules(tmp_path: Path) -> None:
    write(tmp_path, gradlint__toml='cache-dir = "kept"\n', a__py=NUMPY)
    first = gradlint(tmp_path)
    code = (
        "import os, sys\n"
        "def end(code):\n"
        "    print(sorted(name for name in sys.modules if name in ('libcst', 'gradlint.rules', 'click')))\n"
        "    sys.exit(0)\n"
        "os._exit = end\n"
        "from gradlint.__main__ import main\nmain()\n"
    )
    for _ in range(2):  # sys.path is not that of "python -m": the first run with this one makes the result
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert first.stdout.startswith("a.py:2:7: GL501")
    assert done.stdout == f"{first.stdout}[]\n"


@pytest.mark.parametrize(("arguments", "jobs"), [([], 3), (["--jobs", "2"], 2)])
def test_jobs(
    arguments: list[str], jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def analyze_by(jobs: int, project: Any, due: Any, rules: Any, progress: Any) -> list[Any]:
        from gradlint.parts import analyze_part

        asked.append(jobs)
        return [analyze_part(project, part, rules) for part in due]

    monkeypatch.setattr("gradlint.parallel.analyze_by", analyze_by)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, gradlint__toml="jobs = 3\n", a__py=NUMPY)
    assert main([*arguments, "--no-cache"]) == 1, capsys.readouterr().err
    assert asked == [jobs]
