"""What other systems do differently, simulated: encodings of terminals and locales, Windows' paths, linked folders.

No such machine takes part in these tests; they hold what can be had of Windows and macOS on any machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, cast

import pytest

from gradlint.ignorefiles import patterns, verdict

FLAGGED = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for größe in range(10):
    loss = model(torch.randn(8, 2)).pow(2).mean()
    loss.backward()  # Øresund – 学习
    optimizer.step()
"""


def gradlint(folder: Path, *arguments: str, python: Sequence[str] = (), environment: Mapping[str, str] = {}) -> Any:
    """Run the command line in a folder; what it prints is bytes."""
    return subprocess.run(
        [sys.executable, *python, "-m", "gradlint", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a program that has one mistake, and a configuration; both hold more than ASCII."""
    (tmp_path / "größe.py").write_text(FLAGGED, encoding="utf-8")
    (tmp_path / "gradlint.toml").write_text('extend-exclude = ["left_out"]  # Ø 学\n', encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("encoding", "output_format"),
    [("cp1252", "text"), ("cp437", "concise"), ("cp932", "github"), ("cp932", "json"), ("cp1252", "json")],
)
def test_a_terminal_that_cannot_show_all_characters_is_no_reason_to_fail(
    encoding: str, output_format: str, project: Path
) -> None:
    done = gradlint(
        project, "--output-format", output_format, environment={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    )
    assert done.returncode == 1, done.stderr
    told = done.stdout.decode(encoding)
    assert "GL201" in told
    if output_format == "json":  # whatever the encoding, it is read as UTF-8
        assert told.isascii()
        (finding,) = json.loads(told)
        assert Path(finding["filename"]) == project.resolve() / "größe.py"


def test_files_are_read_the_same_in_a_locale_without_unicode(project: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (project / "left_out").mkdir()
    (project / "left_out/train.py").write_text(FLAGGED, encoding="utf-8")
    (project / "plain.py").write_text(FLAGGED, encoding="utf-8")
    done = gradlint(project, "--output-format", "concise", "--no-cache", environment=locale)
    assert done.returncode == 1, done.stderr
    assert b"plain.py:7:5: GL201" in done.stdout
    assert done.stdout.count(b"GL201") == 2, "what the configuration excludes is left out"


def test_no_file_is_read_or_written_in_the_encoding_of_the_locale(project: Path) -> None:
    strict = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")
    for arguments in (["."], ["."], ["--fix", "--unsafe-fixes", "."], ["rule", "GL201"]):  # the second from the cache
        done = gradlint(project, *arguments, python=strict)
        assert b"EncodingWarning" not in done.stderr
        assert done.returncode in (0, 1), done.stderr
    assert "zero_grad" in (project / "größe.py").read_text(encoding="utf-8"), "the fix has been written"


def test_without_fork_one_process_finds_the_same(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"train{number}.py").write_text(FLAGGED, encoding="utf-8")
    script = "import os, sys\nFORK\nfrom gradlint.cli import main\nsys.exit(main(sys.argv[1:]))"
    outputs = []
    for change in ("", "del os.fork"):
        done = subprocess.run(
            [sys.executable, "-c", script.replace("FORK", change), "--no-cache", "--jobs", "3", "."],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("GL201") == 4


@pytest.mark.parametrize(
    ("pattern", "path", "included"),
    [
        ("tests/", r"C:\work\project\tests\test_train.py", True),
        ("tests/", r"C:\work\project\src\train.py", None),
        ("src/**/old_*.py", r"C:\work\project\src\a\b\old_train.py", True),
        ("!keep.py", r"C:\work\project\keep.py", False),
        ("*.py", r"D:\elsewhere\train.py", None),
    ],
)
def test_patterns_match_paths_of_windows(pattern: str, path: str, included: bool | None) -> None:
    root = cast("Path", PureWindowsPath(r"C:\work\project"))
    assert verdict(patterns((pattern,)), cast("Path", PureWindowsPath(path)), root, is_folder=False) is included


def test_line_endings_of_windows_stay_and_count_as_one_line(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(FLAGGED.replace("\n", "\r\n").encode())
    told = json.loads(gradlint(tmp_path, "--output-format", "json", "--no-cache", ".").stdout)
    assert [(finding["location"]["row"], finding["location"]["column"]) for finding in told] == [(7, 5)]
    gradlint(tmp_path, "--fix", "--unsafe-fixes", ".")
    fixed = path.read_bytes()
    assert b"optimizer.zero_grad()\r\n" in fixed
    assert fixed.count(b"\n") == fixed.count(b"\r\n")


def test_a_folder_that_is_reached_by_a_link_is_named_as_it_was_reached(project: Path, tmp_path_factory: Any) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "link"  # as /tmp is one on macOS
    link.symlink_to(project, target_is_directory=True)
    done = gradlint(link, "--output-format", "concise", "--no-cache", ".", environment={"PWD": str(link)})
    assert done.stdout.decode().startswith("größe.py:7:5: GL201")
