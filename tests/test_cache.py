"""The result cache: a run that uses it tells what one without it tells, and executes next to nothing."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gradlint.cache import NAME, Cache, location
from gradlint.cachefolder import CHECKED, TOLD
from gradlint.cli import main
from gradlint.consulted import Consulted
from gradlint.disk import Disk
from gradlint.output import OUTPUT_FORMATS

HERE = Path(__file__).parent
NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return {}
"""
PLAIN, SOFTMAXED = NET.format("self.layer(x)"), NET.format("torch.softmax(self.layer(x), dim=1)")
TRAIN = """\
import torch
from torch import nn
from net import Net

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


class Outcome(NamedTuple):
    code: int
    out: str


Gradlint = Callable[..., Outcome]


@pytest.fixture
def gradlint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gradlint:
    """Runs the command line in a project of two files, which are read anew however young they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADLINT_CACHE_DIR", raising=False)
    (tmp_path / "pyproject.toml").write_text("[tool.gradlint]\n", encoding="utf-8")
    (tmp_path / "net.py").write_text(PLAIN, encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        captured = capsys.readouterr()
        assert not captured.err, captured.err
        return Outcome(code, captured.out)

    return run


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often files are analysed: one number, that of the files, for each time."""
    from gradlint.engine import Engine

    numbers: list[int] = []
    check = Engine.check

    def counting(engine: Engine, targets: Any, *arguments: Any) -> Any:
        numbers.append(len(targets))
        return check(engine, targets, *arguments)

    monkeypatch.setattr(Engine, "check", counting)
    return numbers


def codes(outcome: Outcome) -> list[str]:
    return [finding["code"] for finding in json.loads(outcome.out)]


@pytest.mark.parametrize("output_format", OUTPUT_FORMATS)
@pytest.mark.parametrize("options", [(), ("--quiet", "--statistics"), ("--select", "ALL", "--diff")])
def test_a_warm_run_prints_the_same(
    output_format: str,
    options: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    analyses: list[int],
) -> None:
    shutil.copytree(HERE / "example_project", tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    command = ["--output-format", output_format, *options, "."]
    outcomes = [(main(arguments), capsys.readouterr()) for arguments in (["--no-cache", *command], command)]
    assert outcomes[0] == outcomes[1]
    passes = len(analyses) // 2
    assert (main(command), capsys.readouterr()) == outcomes[0]
    assert len(analyses) == (3 if "--diff" in options else 2) * passes  # what is to be mended is looked at anew


def test_results_are_shared_by_output_formats(gradlint: Gradlint, analyses: list[int]) -> None:
    for output_format in OUTPUT_FORMATS:
        gradlint("--output-format", output_format)
    assert analyses == [2]
    gradlint("--select", "GL301")
    assert analyses == [2, 2]


@pytest.mark.parametrize("target", [".", "train.py"])
def test_every_change_of_what_was_consulted_counts(
    gradlint: Gradlint, analyses: list[int], tmp_path: Path, target: str
) -> None:
    def run() -> list[str]:
        found = codes(gradlint("--output-format", "json", target))
        before = len(analyses)
        assert codes(gradlint("--output-format", "json", target)) == found
        assert len(analyses) == before  # the second of two is warm
        assert codes(gradlint("--output-format", "json", "--no-cache", target)) == found
        return found

    assert run() == []
    (tmp_path / "net.py").write_text(SOFTMAXED, encoding="utf-8")  # what is imported
    assert run() == ["GL301"]
    text = TRAIN.replace("model(x), y)", "model(x), y)  # noqa: GL301")
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    assert run() == []
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    assert run() == ["GL301"]
    configuration = tmp_path / "pyproject.toml"
    configuration.write_text('[tool.gradlint]\nignore = ["GL301"]\n', encoding="utf-8")
    assert run() == []
    configuration.write_text('[tool.gradlint.per-file-ignores]\n"net.py" = ["GL2"]\n', encoding="utf-8")
    assert run() == ["GL301"]
    (tmp_path / "gradlint.toml").write_text('[per-file-ignores]\n"train.py" = ["GL301"]\n', encoding="utf-8")
    assert run() == []
    (tmp_path / "gradlint.toml").unlink()
    (tmp_path / "net").mkdir()
    assert run() == ["GL301"]
    (tmp_path / "net" / "__init__.py").write_text(PLAIN, encoding="utf-8")  # a package comes before a module
    assert run() == []
    shutil.rmtree(tmp_path / "net")
    assert run() == ["GL301"]
    (tmp_path / "net.py").unlink()
    assert run() == []


def test_a_change_of_an_importing_file_counts(gradlint: Gradlint, tmp_path: Path) -> None:
    dropout = "        self.layer = nn.Linear(4, 3)\n        self.extras = [nn.Linear(3, 3)]\n"
    (tmp_path / "net.py").write_text(PLAIN.replace("        self.layer = nn.Linear(4, 3)\n", dropout), encoding="utf-8")
    command = ("--output-format", "json", "net.py")
    first = codes(gradlint(*command))
    assert first == codes(gradlint("--no-cache", *command))
    (tmp_path / "train.py").write_text(TRAIN.replace("Net()", "Net()\nmodel.extras = None"), encoding="utf-8")
    assert gradlint(*command) == gradlint("--no-cache", *command)


def test_a_file_that_is_new_is_checked(gradlint: Gradlint, tmp_path: Path) -> None:
    assert codes(gradlint("--output-format", "json")) == []
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "net.py").write_text(SOFTMAXED, encoding="utf-8")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    assert codes(gradlint("--output-format", "json")) == ["GL301"]
    (tmp_path / ".gitignore").write_text("more/\n", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    assert codes(gradlint("--output-format", "json")) == []


def test_time_stamps_of_young_files_are_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n", encoding="utf-8")
    disk = Disk()
    disk.read(file)
    disk.entries(tmp_path)
    assert disk.consulted.stats == {}
    consulted = Consulted(disk.consulted.stored())
    assert consulted.holds()
    assert consulted.stats == {}
    file.write_text("x = 2\n", encoding="utf-8")
    assert not consulted.holds()


def test_what_was_touched_only_is_not_analysed_again(
    gradlint: Gradlint, analyses: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradlint()
    os.utime(tmp_path / "train.py", ns=(10**18, 10**18))
    (tmp_path / "notes.txt").write_text("nothing of interest\n", encoding="utf-8")
    gradlint()
    assert analyses == [2]


def test_time_stamps_spare_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr("gradlint.consulted.time.time_ns", lambda: 4 * 10**18)
    disk = Disk()
    disk.read(file)
    disk.entries(tmp_path)
    assert disk.consulted.stats.keys() == {str(file), str(tmp_path)}
    monkeypatch.setattr(Consulted, "content", None)
    monkeypatch.setattr(Consulted, "listing", None)
    assert Consulted(disk.consulted.stored()).holds()


def test_links_that_lead_elsewhere_count(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("x = 1\n", encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to("one")
    disk = Disk()
    assert disk.real(link / "a.py") == str(tmp_path.resolve() / "one" / "a.py")
    assert Consulted(disk.consulted.stored()).holds()
    link.unlink()
    link.symlink_to("two")
    assert not Consulted(disk.consulted.stored()).holds()


def test_the_size_of_a_search_counts(tmp_path: Path) -> None:
    disk = Disk()
    entries = disk.entries(tmp_path)
    disk.searched([tmp_path], len(entries) + 1, exceeded=False)
    (tmp_path / "a.txt").write_text("", encoding="utf-8")
    assert Consulted(disk.consulted.stored()).holds()
    (tmp_path / "b.txt").write_text("", encoding="utf-8")
    assert not Consulted(disk.consulted.stored()).holds()


def test_what_changed_while_it_was_read_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n", encoding="utf-8")
    disk = Disk()
    disk.read(file)
    file.write_text("x = 2\n", encoding="utf-8")
    disk.read(file)
    assert not disk.consulted.complete


def test_a_damaged_or_foreign_cache_is_as_good_as_none(gradlint: Gradlint, analyses: list[int], tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SOFTMAXED, encoding="utf-8")
    expected = gradlint()
    files = sorted((tmp_path / NAME).glob("*.*d"))
    assert {file.suffix for file in files} == {CHECKED, TOLD}
    for damage in (
        lambda data: b"",
        lambda data: data[:-7],
        lambda data: data[:60] + b"?" + data[61:],
        lambda _: b"#" * 99,
    ):
        for file in files:
            file.write_bytes(damage(file.read_bytes()))
        assert Cache(str(tmp_path / NAME)).told(()) is None
        assert gradlint() == expected
    assert analyses == [2] * 5


def test_another_version_does_not_use_it(
    gradlint: Gradlint, analyses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    gradlint()
    monkeypatch.setattr(sys, "version", "another")
    gradlint()
    assert analyses == [2, 2]


def test_what_cannot_be_written_is_told_on_request_only(
    gradlint: Gradlint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert gradlint("--cache-dir", "file/below") == gradlint("--no-cache")
    assert main(["--verbose", "--cache-dir", "file/below"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "no cache" in line]
    assert told == [f"gradlint: no cache: {tmp_path / 'file' / 'below'}: Not a directory"]
    assert (tmp_path / "file").read_text(encoding="utf-8") == ""


def test_no_cache_leaves_nothing(gradlint: Gradlint, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    gradlint("--no-cache")
    assert sorted(tmp_path.iterdir()) == before


def test_standard_input_is_never_kept(gradlint: Gradlint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOFTMAXED.encode())))
    gradlint("-")
    assert not (tmp_path / NAME).exists()


def test_trouble_is_never_kept(gradlint: Gradlint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["missing.py"]) == 2
        assert capsys.readouterr().err == "gradlint: missing.py: no such file or folder\n"
    assert not list((tmp_path).glob(f"{NAME}/*.*d"))


def test_fixing_tells_what_is_left(gradlint: Gradlint, tmp_path: Path) -> None:
    text = "import torch\nw = torch.zeros(3, requires_grad=True)\nloss = (w * w).sum()\nprint(loss.numpy())\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    found = gradlint("--output-format", "concise")
    assert found.code == 1
    assert gradlint("--output-format", "concise") == found
    fixed = gradlint("--fix", "--output-format", "concise")
    assert fixed.code == 0
    assert "Fixed 1 finding in 1 file." in fixed.out
    assert gradlint("--output-format", "concise") == gradlint("--no-cache", "--output-format", "concise")
    assert gradlint("--fix", "--output-format", "concise") == Outcome(0, "No findings in 2 files.\n")


def test_where_it_lies(gradlint: Gradlint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert location() == str(tmp_path / NAME)
    monkeypatch.setenv("GRADLINT_CACHE_DIR", "elsewhere")
    assert location() == str(tmp_path / "deep" / "er" / "elsewhere")
    assert location("asked") == str(tmp_path / "deep" / "er" / "asked")
    gradlint(str(tmp_path / "net.py"))
    assert (tmp_path / "deep" / "er" / "elsewhere" / ".gitignore").read_text(encoding="utf-8").endswith("\n*\n")
    tag = (tmp_path / "deep" / "er" / "elsewhere" / "CACHEDIR.TAG").read_text(encoding="utf-8")
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_folder_of_others_stays_theirs(gradlint: Gradlint, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "data.txt").write_text("theirs", encoding="utf-8")
    gradlint("--cache-dir", "theirs")
    assert gradlint("clean", "--cache-dir", "theirs") == Outcome(0, f"There is no cache at {theirs}.\n")
    assert [path.name for path in theirs.iterdir()] == ["data.txt"]


def test_clean(gradlint: Gradlint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gradlint()
    assert (tmp_path / NAME).is_dir()
    (tmp_path / "below").mkdir()
    assert gradlint("clean", "below") == Outcome(0, f"Removed {tmp_path / NAME}.\n")
    assert not (tmp_path / NAME).exists()
    assert gradlint("clean") == Outcome(0, f"There is no cache at {tmp_path / NAME}.\n")


def test_the_oldest_make_room(gradlint: Gradlint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlint.cache._MOST_FILES", 4)
    draft = tmp_path / NAME / f"{'0' * 32}{CHECKED}.1-2.new"
    for number, code in enumerate(("GL101", "GL102", "GL103", "GL104", "GL105")):
        gradlint("--select", code)
        for file in (tmp_path / NAME).glob("*.*d"):
            os.utime(file, (number, number))
        draft.touch()
        os.utime(draft, (0, 0))
    gradlint("--select", "GL106")
    assert len(list((tmp_path / NAME).glob("*.*d"))) <= 5  # what is told is written last
    assert not draft.exists()


HEAVY = {
    "ast",
    "click",
    "dataclasses",
    "hashlib",
    "inspect",
    "libcst",
    "tokenize",
    "torch",
    "typing_extensions",
}


def test_a_warm_run_imports_nothing_heavy(tmp_path: Path) -> None:
    shutil.copytree(HERE / "example_project", tmp_path / "project")

    def run(*arguments: str) -> tuple[int, str, set[str]]:
        command = [sys.executable, "-v", "-m", "gradlint", *arguments]
        done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, encoding="utf-8")
        return done.returncode, done.stdout, set(re.findall(r"^import '([\w.]+)'", done.stderr, re.MULTILINE))

    cold = run(".")
    assert cold[0] == 1
    assert cold[2] >= {"libcst", "gradlint.rules.missing_zero_grad", "gradlint.static.drive.interpreter"}
    warm = run(".")
    assert warm[:2] == cold[:2]
    assert not warm[2] & HEAVY
    ours = {name for name in warm[2] if name.startswith("gradlint")}
    assert ours == {
        "gradlint",
        "gradlint.cache",
        "gradlint.cachedir",
        "gradlint.cachefolder",
        "gradlint.cachekey",
        "gradlint.consulted",
        "gradlint.reading",
    }
    other_format = run("--output-format", "concise", ".")
    assert not {name for name in other_format[2] if name.startswith(("libcst", "gradlint.rules", "gradlint.static"))}


def test_runs_at_the_same_time(tmp_path: Path) -> None:
    shutil.copytree(HERE / "example_project", tmp_path / "project")
    command = [sys.executable, "-m", "gradlint", "--output-format", "json", "."]
    for _ in range(2):
        runs = [
            subprocess.Popen(command, cwd=tmp_path / "project", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(3)
        ]
        outputs = [run.communicate(timeout=120) for run in runs]
        assert len(set(outputs)) == 1
        assert outputs[0][1] == b""
    assert not list((tmp_path / "project" / NAME).glob("*.new"))


def test_edits_at_random_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    shutil.copytree(HERE / "example_project", project)
    monkeypatch.chdir(project)
    fixed = HERE / "example_project_fixed"
    dice = random.Random(20)  # noqa: S311 -- the same edits each time
    names = sorted(path.name for path in project.glob("*.py"))
    for _ in range(8):
        name = dice.choice(names)
        match dice.randrange(5):
            case 0:
                shutil.copy(fixed / name, project / name)
            case 1:
                shutil.copy(HERE / "example_project" / name, project / name)
            case 2:
                (project / name).unlink(missing_ok=True)
            case 3:
                (project / "pyproject.toml").write_text(f'[tool.gradlint]\nignore = ["GL{dice.randrange(1, 5)}"]\n')
            case 4:
                (project / name.removesuffix(".py")).mkdir(exist_ok=True)
                shutil.copy(fixed / name, project / name.removesuffix(".py") / dice.choice(["__init__.py", name]))
        for target in (".", dice.choice(names)):
            told = []
            for options in ([], [], ["--no-cache"]):
                code = main(["--output-format", "json", *options, target])
                told.append((code, capsys.readouterr()))
            assert told[0] == told[1] == told[2]
