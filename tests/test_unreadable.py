"""What an ordinary user meets on a disk: folders he may not enter, links in circles, folders nested without end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradlint.cli import main
from gradlint.configuration import Configuration
from gradlint.discovery import MOST_NESTED, Discovery
from gradlint.disk import Disk
from gradlint.ignorefiles import GitIgnore
from gradlint.settings import Settings

FLAWED = "import torch\nimport closed.inside, loop, unreadable\n\nprint(torch.ones(2, requires_grad=True).numpy())\n"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "project"
    for name in ("train.py", "closed/inside.py", "listed/inside.py", "unreadable.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FLAWED)
    (folder / "pyproject.toml").write_text("")
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "one").symlink_to("another")
    (folder / "another").symlink_to("one")
    (folder / "here").symlink_to(".")
    (folder / "unreadable.py").chmod(0o000)
    (folder / "closed").chmod(0o000)
    (folder / "listed").chmod(0o444)
    yield folder
    (folder / "closed").chmod(0o755)
    (folder / "listed").chmod(0o755)


def test_a_folder_is_checked_but_for_what_cannot_be_read(as_ordinary_user: Run, project: Path) -> None:
    done = as_ordinary_user("--output-format", "concise", ".", cwd=project)
    assert done.returncode == 2
    assert [line.split()[:2] for line in done.stdout.splitlines()[:-1]] == [["train.py:4:7:", "GL501"]]
    assert done.stderr.splitlines() == [
        f"gradlint: {project / 'closed'}: Permission denied",
        f"gradlint: {project / 'listed' / 'inside.py'}: Permission denied",
        f"gradlint: {project / 'unreadable.py'}: Permission denied",
    ]


def test_what_a_file_imports_need_not_be_readable(as_ordinary_user: Run, project: Path) -> None:
    for _ in range(2):
        done = as_ordinary_user("--output-format", "concise", "--quiet", "train.py", cwd=project)
        assert (done.returncode, done.stderr) == (1, "")
        assert done.stdout.startswith("train.py:4:7: GL501")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("closed", f"{{project}}{os.sep}closed: Permission denied"),
        ("closed/inside.py", "closed/inside.py: Permission denied"),
        ("listed/inside.py", "listed/inside.py: Permission denied"),
        ("unreadable.py", f"{{project}}{os.sep}unreadable.py: Permission denied"),
        ("loop.py", "loop.py: Too many levels of symbolic links"),
        ("one", "one: Too many levels of symbolic links"),
        ("one/inside.py", "one/inside.py: Too many levels of symbolic links"),
        ("train.py/inside.py", "train.py/inside.py: Not a directory"),
    ],
)
def test_what_is_named_and_cannot_be_read_is_told_with_its_reason(
    name: str, why: str, as_ordinary_user: Run, project: Path
) -> None:
    done = as_ordinary_user("--no-cache", name, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gradlint: {why.format(project=project)}\n"


def test_a_configuration_that_cannot_be_read_is_told(as_ordinary_user: Run, project: Path) -> None:
    (project / "pyproject.toml").chmod(0o000)
    done = as_ordinary_user("train.py", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{project / 'pyproject.toml'}: Permission denied\n"


def test_an_ignore_file_that_cannot_be_read_is_passed_over_as_git_does(as_ordinary_user: Run, project: Path) -> None:
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("train.py\n")
    (project / ".gitignore").chmod(0o000)
    assert "train.py:4:7: GL501" in as_ordinary_user("--output-format", "concise", ".", cwd=project).stdout


def test_a_current_folder_that_cannot_be_entered(as_ordinary_user: Run, project: Path) -> None:
    (project / "closed").chmod(0o755)
    program = "import os, sys; os.chmod('.', 0); from gradlint.cli import main; sys.exit(main(sys.argv[1:]))"
    for arguments in ([], ["inside.py"], ["clean"], [str(project / "train.py")]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=project / "closed",
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        (project / "closed").chmod(0o755)


@pytest.mark.parametrize("arguments", [[], ["train.py"], ["clean"], ["-"]])
def test_a_current_folder_that_is_gone_is_told(arguments: list[str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); from gradlint.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=gone, input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "gradlint: the current folder is gone\n")


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Path]:
    """Folders in one another, more than are searched; files on some levels."""
    here = Path.cwd()
    os.chdir(tmp_path)
    for level in range(MOST_NESTED + 50):
        if level in (3, MOST_NESTED, MOST_NESTED + 1):
            Path("a.py").write_text(f"level = {level}\n")
        Path("f").mkdir()
        os.chdir("f")
    os.chdir(here)
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_folders_are_searched_to_a_depth_that_is_told(nested: Path) -> None:
    complaints: list[str] = []
    files = Discovery(Configuration(), complaints.append).files([nested])
    assert [len(file.parts) - len(nested.parts) - 1 for file in sorted(files, key=lambda file: len(file.parts))] == [
        3,
        MOST_NESTED,
    ]
    (complaint,) = complaints
    assert complaint.endswith(f"/f: more than {MOST_NESTED} folders deep, which is too deep to be searched")


def test_folders_are_nested_more_deeply_than_calls() -> None:
    folder = Path("/", *["nowhere"] * 3000)
    assert Configuration().of_folder(folder) == Settings()
    assert not GitIgnore(Disk(), pytest.fail).ignored(folder / "a.py", is_folder=False, below=folder)
    assert Disk().real(folder) == str(folder)


def test_a_path_that_no_disk_can_hold_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x" * 5000, "x/" * 5000):
        assert main(["--no-cache", name]) == 2
        assert capsys.readouterr().err.endswith(": File name too long\n")
