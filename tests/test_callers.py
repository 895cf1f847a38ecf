"""Which code of other files is executed where some files are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.configuration import Configuration
from gradlint.disk import Disk
from gradlint.engine import Engine
from gradlint.static.text.definition_units import ClassUnit, DefinitionUnit, FunctionUnit
from gradlint.static.text.files import Module
from gradlint.static.text.importers import Importers, Layout
from gradlint.static.text.project import Project
from gradlint.static.text.reach import Callers, Reach

NET = """\
import torch
from torch import nn

WIDTH = 4

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return torch.softmax(self.fc(x), dim=1)

def measure(model, x):
    return model(x).backward()
"""


def leading(root: Path, text: str, **files: str) -> list[str]:
    """The definitions of a file beside ``net.py`` that lead there, and the rows of the statements."""
    for name, content in {"net": NET, "user": text, "pyproject": "", **files}.items():
        (root / f"{name}.py").write_text(content, encoding="utf-8")
    project = Project([root])
    callers = Callers(Reach(project), [project.module(root / "net.py")])
    found = callers.among(project.module(root / "user.py").units)
    return [unit.name if isinstance(unit, (FunctionUnit, ClassUnit)) else str(unit.row) for unit in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from net import Net\n\ndef train():\n    return Net()\n", ["train"]),
        ("import net\n\ndef train():\n    return net.Net()\n", ["train"]),
        ("from net import *\n\ndef train():\n    return Net()\n", ["train"]),
        ("def train():\n    from net import Net\n    return Net()\n", ["train"]),
        ("from net import Net\n\nclass Wide(Net):\n    pass\n", ["Wide"]),
        ("from net import Net\n\nclass Trainer:\n    def make(self):\n        return Net()\n", ["Trainer"]),
        # through others
        ("from net import Net\n\ndef make():\n    return Net()\n\ndef train():\n    make()\n", ["make", "train"]),
        ("from net import Net\nmodel = Net()\n\ndef train():\n    model()\n", ["2", "train"]),
        ("from helper import make\nmodel = make()\n", ["2"]),
        ("from helper import other\nmodel = other()\n", []),
        # what is only mentioned, or means something else there
        ("import net\n\ndef train():\n    print('Net')  # net.Net\n", []),
        ("from net import Net\n\ndef train(Net, *, x=(1, 2)):\n    return Net()\n", []),
        ("from net import Net\n\ndef train(\n    x: int = 1,  # Net, as ever\n    *Net,\n):\n    return Net()\n", []),
        ("from net import Net\n\nclass A:\n    def train(self, Net):\n        return Net()\n", []),
        ("from net import WIDTH\nwidth = WIDTH * 2\n", []),  # nothing is reported of a number
        ("class Args:\n    x = 1\n\nif 1:\n    from net import Net\n    print(Args.x, Net())\n", ["4"]),
    ],
)
def test_what_leads_to_a_file(tmp_path: Path, text: str, expected: list[str]) -> None:
    helper = "from net import Net\n\ndef make():\n    return Net()\n\ndef other():\n    return 1\n"
    assert leading(tmp_path, text, helper=helper) == expected


def test_code_that_leads_nowhere_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlint.static.drive import analysis

    scripts = {
        "net.py": NET + "\ndef shared(x):\n    return x.data\n",
        "train.py": "from net import Net, shared\nmodel = Net()\nshared(model.fc.weight)\n",
        "other.py": "import torch\nimport net\nw = torch.zeros(3)\nw.data += 1\n",
        "pyproject.toml": "",
    }
    for name, text in scripts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    executed: list[str] = []
    entry = analysis._Analyzer._entry

    def recording(analyzer: analysis._Analyzer, start: Module | DefinitionUnit, *rest: object) -> None:
        executed.append((start if isinstance(start, Module) else start.module).path.name)
        entry(analyzer, start, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(analysis._Analyzer, "_entry", recording)
    Engine(Configuration(isolated=True)).check([tmp_path / "net.py"], [tmp_path / "net.py"])
    assert {"net.py", "train.py"} <= set(executed)
    assert "other.py" not in executed


def test_folders_nested_in_one_another_are_searched_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    folder = tmp_path
    for _ in range(150):
        folder = folder / "f"
        folder.mkdir()
        (folder / "a.py").write_text("import torch\n")
    (tmp_path / "user.py").write_text("from f.f.a import g\n")
    asked: list[Path] = []
    entries = Disk.entries

    def listed(disk: Disk, path: Path) -> dict[str, str]:
        asked.append(path)
        return entries(disk, path)

    monkeypatch.setattr(Disk, "entries", listed)
    importers = Importers(Layout([tmp_path], Disk()))
    assert importers.of([tmp_path / "f" / "f" / "a.py", folder / "a.py"], 64, 1_000) == [tmp_path / "user.py"]
    assert len(asked) < 20 * 150


@pytest.mark.parametrize(("length", "left_out"), [(10, 0), (200_000, 1)])
def test_what_is_too_much_to_follow_is_told(length: int, left_out: int, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    (tmp_path / "user.py").write_text("from net import Net\nnet = Net()\n" + "#" * length, encoding="utf-8")
    report = Engine(Configuration(isolated=True)).check([tmp_path / "net.py"], [tmp_path])
    assert [note.rpartition(": ")[2] for note in report.notes if "left out" in note] == [str(left_out)] * left_out
    everything = Engine(Configuration(isolated=True)).check([tmp_path / "net.py", tmp_path / "user.py"], [tmp_path])
    assert not [note for note in everything.notes if "left out" in note]
