"""The tree as it stands, as a repository, a wheel and a source distribution, each made once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command away from the environment of a surrounding git process (a hook sets GIT_DIR and the like)."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTHONPATH"))}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **environment},
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs a command; text output is captured, the exit code is not checked."""
    return _run


def tracked_files() -> list[str]:
    """What belongs to the project: everything git tracks or would add."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout, and only git knows which files belong to the project")
    listed = _run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT)
    assert listed.returncode == 0, listed.stderr
    return sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with the tree as it stands, committed."""
    copy = tmp_path_factory.mktemp("snapshot") / "gradlint"
    for name in tracked_files():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--no-verify", "-m", "All"],
    ):
        done = _run("git", *command, cwd=copy)
        assert done.returncode == 0, done.stderr
    return copy


@pytest.fixture(scope="session")
def distributions(snapshot: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel, built with the build tools of this environment."""
    out = tmp_path_factory.mktemp("dist")
    done = _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, cwd=snapshot)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips what installs packages where pip reaches no package index."""
    probe = tmp_path_factory.mktemp("probe")
    done = _run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", ".", "click", cwd=probe)
    if done.returncode != 0:
        pytest.skip("pip reaches no package index here")


@pytest.fixture(scope="session")
def release(snapshot: Path) -> str:
    """The tag of this version, which the snapshot bears."""
    text = (ROOT / "gradlint/__init__.py").read_text(encoding="utf-8")
    declared = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert declared is not None
    name = f"v{declared[1]}"
    done = _run("git", "tag", name, cwd=snapshot)
    assert done.returncode == 0, done.stderr
    return name
