"""What is imported when: never torch by the linter, nothing heavy before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None\n"  # any import of torch now raises ImportError


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def test_the_linter_works_where_torch_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(10):\n"
        "    loss = model(torch.randn(8, 2)).pow(2).mean()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n",
        encoding="utf-8",
    )
    done = run(
        WITHOUT_TORCH + "import gradlint\nfrom gradlint.cli import main\n"
        "main(['rule', '--all', '--output-format', 'json'])\nsys.exit(main(['train.py', '--isolated']))",
        tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert "train.py:6:5: GL201 [missing-zero-grad]" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["rule", "GL201"], ["rule", "--all"], ["--nonsense"], ["--select", "GL299"]],
    ids=" ".join,
)
def test_what_checks_nothing_does_not_import_the_parser(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom gradlint.cli import main\n"
        f"main({arguments})\n"
        "print([name for name in sys.modules if name in ('torch', 'libcst', 'concurrent', 'asyncio')])"
    )
    done = run(code, tmp_path)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_what_gradlint_offers_is_listed_without_importing_torch(tmp_path: Path) -> None:
    done = run(
        WITHOUT_TORCH + "import gradlint\nprint({'guard', 'Guard', '__version__'} <= set(dir(gradlint)))", tmp_path
    )
    assert done.stdout == "True\n", done.stderr
