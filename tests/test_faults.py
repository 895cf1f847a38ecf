"""A fault of gradlint itself costs no more than the part of the analysis it is met in."""

from pathlib import Path

import pytest

from gradlint.cli import main
from gradlint.static.modules import Modules


def test_a_fault_in_one_entry_point_is_named_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("from torch import nn\n\nlayer = nn.Linear(2, 2)\nlayer(1).backward()\n")
    (tmp_path / "flawed.py").write_text(
        "import torch\n\nw = torch.ones(2, requires_grad=True)\nprint((w * 2).numpy())\n"
    )

    def fail(*_arguments: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(Modules, "call", fail)
    assert main(["--isolated", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "broken.py: internal error: ValueError: a fault" in captured.err
    assert "GL501" in captured.out


FLAWED = (
    "import torch\n\n\n"
    "def show():\n    w = torch.ones(2, requires_grad=True)\n    print((w * 2).numpy())\n\n\n"
    "def tell():\n    w = torch.ones(2, requires_grad=True)\n    print((w * 3).numpy())\n"
)
LONG = "".join(f"value_{number} = {number}\n" for number in range(30))


@pytest.mark.parametrize(
    ("files", "flawed"),
    [
        pytest.param({"whole.py": FLAWED + LONG + LONG}, "whole.py", id="its own body"),
        pytest.param(
            {
                "flawed.py": "from first import value_1\nfrom second import value_2\n" + FLAWED,
                "first.py": LONG,
                "second.py": LONG,
            },
            "flawed.py",
            id="what it imports",
        ),
    ],
)
def test_a_file_too_long_to_follow_costs_the_functions_in_it_nothing(
    files: dict[str, str],
    flawed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("gradlint.static.budget.MAX_STEPS", 60)
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if "GL501" in line]
    assert [line.rpartition("/")[2].split(":")[0] for line in found] == [flawed, flawed]


def test_a_file_too_long_to_follow_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole.py").write_text(FLAWED + LONG + LONG)
    monkeypatch.setattr("gradlint.static.budget.MAX_STEPS", 60)
    main(["--isolated", "--no-cache", "--verbose", str(tmp_path)])
    assert capsys.readouterr().err.count("whole.py: too long to follow") == 1
