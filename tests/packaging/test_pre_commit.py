"""The pre-commit hook, with the real pre-commit, in a repository of somebody else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CLEAN = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 2)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
FLAGGED = CLEAN.replace("    optimizer.zero_grad()\n", "")

ROOT = Path(__file__).parents[2]
HOME = "https://example.org/gradlint"  #: what the documentation says instead of an address

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Commit = Callable[[dict[str, str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def commit(snapshot: Path, release: str, index: None, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Commit:
    """Commits files in a repository that uses the hook as the documentation says; its environment is built once."""
    folder = tmp_path_factory.mktemp("scratch")
    environment = {
        "PRE_COMMIT_HOME": str(tmp_path_factory.mktemp("pre-commit")),
        "GIT_CONFIG_GLOBAL": str(folder.parent / "gitconfig"),
    }
    (folder.parent / "gitconfig").write_text("[user]\nname = t\nemail = t@example.org\n", encoding="utf-8")
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    shown = page.split("<!-- pre-commit -->\n```yaml\n")[1].split("```")[0]
    assert f"rev: {release}\n" in shown, "the page names another version"
    (folder / ".pre-commit-config.yaml").write_text(shown.replace(HOME, str(snapshot)), encoding="utf-8")
    for command in (["git", "init", "-q"], [sys.executable, "-m", "pre_commit", "install"]):
        done = run(*command, cwd=folder, **environment)
        assert done.returncode == 0, done.stderr

    def add_and_commit(files: dict[str, str]) -> subprocess.CompletedProcess[str]:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        run("git", "add", "-A", cwd=folder)
        return run("git", "commit", "-m", "Change", cwd=folder, **environment)

    return add_and_commit


def test_the_manifest_is_valid(run: Run) -> None:
    done = run(sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_refuses_findings_accepts_clean_files_and_minds_its_own_business(commit: Commit) -> None:
    without_files = commit({"notes.txt": "nothing to check\n"})
    assert without_files.returncode == 0, without_files.stdout + without_files.stderr

    refused = commit({"train.py": FLAGGED})
    told = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert "train.py:7:5: GL201 [missing-zero-grad]" in told
    assert "Failed" in told

    accepted = commit({"train.py": CLEAN})
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "Passed" in accepted.stdout + accepted.stderr
