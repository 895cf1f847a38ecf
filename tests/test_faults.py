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
