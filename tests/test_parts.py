"""Parts that no import connects are analysed again only where something they rest on has changed.

Whatever is known of earlier runs, however many processes share the work and however files are parsed, the findings
are those of a run that knows nothing.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fixture_cases import cases_of, sources

from gradlint.cache import NAME
from gradlint.cachefolder import PART
from gradlint.cli import main
from gradlint.static.drive import analysis
from gradlint.static.text.nodes import Tree
from gradlint.static.text.units import Unit

if TYPE_CHECKING:
    import libcst as cst

HERE = Path(__file__).parent
NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return torch.softmax(self.layer(x), dim=1)
"""
TRAIN = """\
import torch
from torch import nn
{}

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
LONELY = "import torch\n\nw = torch.ones(3, requires_grad=True)\nprint((w * 2).numpy())\n"
Check = Callable[..., list[str]]


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the names of the files that are analysed."""
    names: list[str] = []
    genuine = analysis.analyze

    def analyze(project: object, targets: list[Path], *rest: object, **options: object) -> object:
        names.extend(target.name for target in targets)
        return genuine(project, targets, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(analysis, "analyze", analyze)
    return names


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], analysed: list[str]
) -> Check:
    """Checks a project of four files in two parts and one of its own, and returns what was analysed for it.

    That the output is that of a run without a cache is checked each time.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADLINT_CACHE_DIR", raising=False)
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    for number in (1, 2):
        (tmp_path / f"net{number}.py").write_text(NET, encoding="utf-8")
        (tmp_path / f"train{number}.py").write_text(TRAIN.format(f"from net{number} import Net"), encoding="utf-8")
    (tmp_path / "lonely.py").write_text(LONELY, encoding="utf-8")

    def run(*arguments: str) -> list[str]:
        told = (main([*arguments, "--output-format", "json"]), capsys.readouterr())
        names = sorted(analysed)
        assert (main([*arguments, "--output-format", "json", "--no-cache"]), capsys.readouterr()) == told
        analysed.clear()
        return names

    return run


ALL = ["lonely.py", "net1.py", "net2.py", "train1.py", "train2.py"]


def test_only_the_part_of_a_changed_file_is_analysed_again(check: Check, tmp_path: Path) -> None:
    assert check(".") == ALL
    assert check(".") == []
    (tmp_path / "net1.py").write_text(NET.replace("torch.softmax(self.layer(x), dim=1)", "self.layer(x)"))
    assert check(".") == ["net1.py", "train1.py"]
    (tmp_path / "lonely.py").write_text(f"{LONELY}print(w)\n")
    assert check(".") == ["lonely.py"]
    (tmp_path / "net1.py").write_text(NET)
    assert check(".") == ["net1.py", "train1.py"]  # of each part the last outcome is kept


def test_files_come_and_go(check: Check, tmp_path: Path) -> None:
    check(".")
    (tmp_path / "new.py").write_text(LONELY)
    assert check(".") == ["new.py"]
    (tmp_path / "new.py").rename(tmp_path / "renamed.py")
    assert check(".") == ["renamed.py"]
    (tmp_path / "renamed.py").unlink()
    assert check(".") == []
    (tmp_path / "net1.py").rename(tmp_path / "other.py")
    assert check(".") == ["other.py", "train1.py"]
    (tmp_path / "net1").mkdir()
    (tmp_path / "net1" / "__init__.py").write_text(NET)
    assert check(".") == ["__init__.py", "train1.py"]
    (tmp_path / "net1" / "layers.py").write_text(NET)  # nobody imports it, and it is no business of the others
    assert "train2.py" not in check(".")
    (tmp_path / "net1.py").write_text(LONELY)  # the package comes first
    assert "train1.py" not in check(".")


def test_an_import_that_connects_parts(check: Check, tmp_path: Path) -> None:
    check(".")
    (tmp_path / "train1.py").write_text(TRAIN.format("from net1 import Net\nimport train2"))
    assert check(".") == ["net1.py", "net2.py", "train1.py", "train2.py"]
    (tmp_path / "net2.py").write_text(f"{NET}\n\nclass Other(Net):\n    pass\n")
    assert check(".") == ["net1.py", "net2.py", "train1.py", "train2.py"]
    (tmp_path / "train1.py").write_text(TRAIN.format("from net1 import Net"))
    assert check(".") == ["net2.py", "train2.py"]  # the other part is again what it was


def test_what_is_not_checked_counts_where_it_leads_there(check: Check, tmp_path: Path) -> None:
    assert check("net1.py") == ["net1.py"]
    (tmp_path / "train2.py").write_text("import torch\n")
    assert check("net1.py") == []
    (tmp_path / "train1.py").write_text(TRAIN.format("from net1 import Net").replace("CrossEntropyLoss", "NLLLoss"))
    assert check("net1.py") == ["net1.py"]
    (tmp_path / "more.py").write_text("from net1 import Net\nNet()\n")
    assert check("net1.py") == ["net1.py"]


def test_requests_share_parts(check: Check) -> None:
    check(".")
    assert check("lonely.py") == []
    assert check("train1.py", "net1.py", "lonely.py") == []
    assert check("--statistics", "--extend-exclude", "lonely.py", ".") == []
    assert check("--select", "GL301", ".") == ALL  # other rules


def test_parts_that_are_known_need_no_parser(check: Check, tmp_path: Path) -> None:
    command = [sys.executable, "-v", "-m", "gradlint", "--output-format", "json"]
    for path, parses in ((".", True), ("lonely.py", False)):
        done = subprocess.run([*command, path], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
        assert "GL501" in done.stdout
        assert ("import 'libcst'" in done.stderr) is parses


def test_configuration_decides_what_is_shown_of_parts(check: Check, tmp_path: Path) -> None:
    check(".")
    (tmp_path / "pyproject.toml").write_text('[tool.gradlint.per-file-ignores]\n"train*" = ["GL3"]\n')
    assert check(".") == []
    (tmp_path / "pyproject.toml").write_text('[tool.gradlint]\nignore = ["GL501"]\n')
    assert check(".") == ALL
    (tmp_path / "train1.py").write_text(TRAIN.format("from net1 import Net  # gradlint: skip-file"))
    assert check(".") == ["net1.py", "train1.py"]


def test_files_that_are_not_python_are_told_again(check: Check, tmp_path: Path) -> None:
    (tmp_path / "net1.py").write_text("def f(:\n")
    assert check(".") == [name for name in ALL if name != "net1.py"]
    (tmp_path / "lonely.py").write_text("import torch\n")
    assert check(".") == ["lonely.py"]
    (tmp_path / "net2.py").write_bytes(b"x = '\xff'\n")
    for _ in range(2):
        assert "train1.py" not in check(".")


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-3], lambda data: data[:50] + b"?" * 9])
def test_damaged_parts_are_made_anew(check: Check, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    check(".")
    kept = sorted((tmp_path / NAME).glob(f"*{PART}"))
    assert len(kept) == 3
    for file in kept:
        file.write_bytes(damage(file.read_bytes()))
    (tmp_path / "lonely.py").write_text("import torch\n")
    assert check(".") == ALL
    (tmp_path / "lonely.py").write_text(LONELY)
    assert check(".") == ["lonely.py"]


def test_runs_at_the_same_time_over_parts(check: Check, tmp_path: Path) -> None:
    check(".")
    (tmp_path / "net1.py").write_text(NET.replace("dim=1", "dim=-1"))
    paths = [["."], ["train1.py", "net1.py"], ["."], ["net1.py", "lonely.py"]]
    commands = [[sys.executable, "-m", "gradlint", "--output-format", "json", *each] for each in paths]
    runs = [subprocess.Popen(each, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for each in commands]
    outputs = [run.communicate(timeout=120) for run in runs]
    assert [error for _, error in outputs] == [b""] * 4
    assert outputs[0] == outputs[2]
    assert json.loads(outputs[0][0])
    for path, (output, _) in zip(paths, outputs, strict=True):
        alone = subprocess.run([*commands[0][:5], "--no-cache", *path], cwd=tmp_path, capture_output=True, timeout=120)
        assert alone.stdout == output
    assert not list((tmp_path / NAME).glob("*.new"))


def test_edits_at_random_are_seen_in_every_part(check: Check, tmp_path: Path) -> None:
    dice = random.Random(6)  # noqa: S311 -- the same edits each time
    texts = [NET, LONELY, *(TRAIN.format(f"from {name} import Net") for name in ("net1", "net2", "lonely", "train2"))]
    for _ in range(12):
        victim = tmp_path / dice.choice([*ALL, "new.py"])
        if dice.random() < 0.2:
            victim.unlink(missing_ok=True)
        else:
            victim.write_text(dice.choice(texts))
        check(".")
        if (tmp_path / "train1.py").exists():
            check("train1.py")


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Realistic projects: one of several files that is right, one that is wrong, and a script of every rule."""
    root = tmp_path_factory.mktemp("projects")
    (root / "pyproject.toml").touch()
    for name in ("example_project", "example_project_fixed"):
        shutil.copytree(HERE / name, root / name)
    for slug in sources():
        for number, case in enumerate(case for case in cases_of(slug)[:3] if case.alone):
            case.write(root / f"{slug}_{number}")
    return root


def outcome(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main(["--isolated", "--select", "ALL", "--output-format", "json", *options, str(root)])
    return (code, *capsys.readouterr())


def test_neither_cache_nor_processes_nor_parsing_show(
    projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = outcome(projects, capsys, "--no-cache", "--jobs", "1")
    assert len({entry["code"] for entry in json.loads(expected[1])}) > 40
    for jobs in ("2", "4"):
        assert outcome(projects, capsys, "--no-cache", "--jobs", jobs) == expected
        folder = str(tmp_path / jobs)
        for _ in range(2):
            assert outcome(projects, capsys, "--cache-dir", folder, "--jobs", jobs) == expected
    for file in sorted(Path(folder).glob("*.checked")):
        file.unlink()  # what is known of parts only
    assert outcome(projects, capsys, "--cache-dir", folder, "--jobs", "1") == expected

    whole: list[str] = []

    def parse(unit: Unit) -> tuple[Tree, cst.CSTNode]:
        tree = unit.module.tree
        whole.append(unit.module.name)
        return tree, unit.find_in(tree.root)

    monkeypatch.setattr(Unit, "_parse", parse)
    assert outcome(projects, capsys, "--no-cache", "--jobs", "1") == expected
    assert len(set(whole)) > 5
