"""Fixing where it cannot be written, and from standard input to standard output."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gradlint import fixing, noqa
from gradlint.cli import main
from gradlint.finding import Finding
from gradlint.source import Source

FLAWED = b"import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())\n"
MENDED = FLAWED.replace(b".numpy()", b".detach().numpy()")
UNSAFE = b"import torch\nprint(torch.softmax(torch.ones(2)).numpy())\n"

Run = Callable[..., subprocess.CompletedProcess[str]]


def full_disk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run in which no file may become longer than most of what is fixed."""
    limit = len(FLAWED) + 1
    program = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}));"
        "from gradlint.cli import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "--no-cache", *arguments, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_what_could_not_be_written_is_not_called_fixed(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    (tmp_path / "train.py").write_bytes(FLAWED)
    done = full_disk(tmp_path, "--output-format", "concise", "--fix")
    assert done.returncode == 2
    assert done.stderr == f"gradlint: {tmp_path / 'train.py'}: not fixed: File too large\n"
    assert done.stdout == (
        "train.py:3:7: GL501 [numpy-on-grad] .numpy() raises: the tensor requires grad\n"
        "Found 1 error in 1 file: 1 raises. --fix fixes 1 of them.\n"
    )
    assert (tmp_path / "train.py").read_bytes() == FLAWED
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_what_could_be_written_is(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    (tmp_path / "long.py").write_bytes(FLAWED)
    short = b"import torch\ntorch.ones(2,requires_grad=True).numpy()"
    (tmp_path / "short.py").write_bytes(short)
    done = full_disk(tmp_path, "--output-format", "concise", "--fix")
    assert done.returncode == 2
    assert done.stderr == f"gradlint: {tmp_path / 'long.py'}: not fixed: File too large\n"
    first, *rest = done.stdout.splitlines()
    assert first.startswith("long.py:3:7: GL501")
    assert rest == ["Found 1 error in 2 files: 1 raises. --fix fixes 1 of them.", "Fixed 1 finding in 1 file."]
    assert (tmp_path / "long.py").read_bytes() == FLAWED
    assert (tmp_path / "short.py").read_bytes() == short.replace(b".numpy", b".detach().numpy")


@pytest.mark.parametrize("option", ["--fix", "--diff", "--add-noqa"])
def test_a_fault_in_fixing_one_file_costs_only_itself(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.py", "fatal.py", "z.py"):
        (tmp_path / name).write_bytes(FLAWED)
    before = fixing.rewritten

    def faulty(source: Source, findings: Iterable[Finding]) -> fixing.Rewritten:
        if source.path.name == "fatal.py":
            raise ZeroDivisionError("as asked")
        return before(source, findings)

    monkeypatch.setattr(fixing, "rewritten", faulty)
    monkeypatch.setattr(noqa, "rewritten", faulty)
    monkeypatch.chdir(tmp_path)
    assert main(["--isolated", "--no-cache", option, "."]) == 2
    out, err = capsys.readouterr()
    done = "not changed" if option == "--add-noqa" else "not fixed"
    assert f"{tmp_path / 'fatal.py'}: {done}: internal error: ZeroDivisionError: as asked\n" in err
    assert (tmp_path / "fatal.py").read_bytes() == FLAWED
    if option == "--diff":
        assert [line for line in out.splitlines() if line.startswith("+++")] == ["+++ b/a.py", "+++ b/z.py"]
    else:
        assert (tmp_path / "a.py").read_bytes() == (tmp_path / "z.py").read_bytes() != FLAWED


def test_a_folder_that_cannot_be_written(as_ordinary_user: Run, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "train.py").write_bytes(FLAWED)
    folder.chmod(0o555)
    try:
        done = as_ordinary_user("--no-cache", "--fix", "--output-format", "concise", ".", cwd=folder)
    finally:
        folder.chmod(0o755)
    assert done.returncode == 2
    assert done.stderr == f"gradlint: {folder / 'train.py'}: not fixed: Permission denied\n"
    assert "GL501" in done.stdout
    assert "Fixed" not in done.stdout


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_stays_whose_it_was(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(FLAWED)
    path.chmod(0o640)
    os.chown(path, 65534, 65533)
    assert main(["--no-cache", "--fix", str(path)]) == 0
    seen = path.stat()
    assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (65534, 65533, 0o640)
    assert path.read_bytes() == MENDED


# --- from standard input to standard output


@pytest.fixture
def pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., tuple[int, bytes, str]]:
    """Runs gradlint on standard input."""
    monkeypatch.chdir(tmp_path)

    def run(data: bytes, *arguments: str) -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(["--output-format", "concise", *arguments, "-"])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return run


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data, id="as it is"),
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="line ends of Windows"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="byte order mark"),
        pytest.param(lambda data: b"# coding: latin-1\nx = '\xe4'\n" + data, id="another encoding"),
        pytest.param(lambda data: data.rstrip(b"\n"), id="no end of line"),
    ],
)
def test_the_fixed_source_goes_to_standard_output(
    change: Callable[[bytes], bytes], pipe: Callable[..., tuple[int, bytes, str]]
) -> None:
    said = "No findings in 1 file.\nFixed 1 finding in 1 file.\n"
    assert pipe(change(FLAWED), "--fix") == (0, change(MENDED), said)
    assert pipe(change(MENDED), "--fix") == (0, change(MENDED), "No findings in 1 file.\n")


def test_what_stays_is_told_on_standard_error(pipe: Callable[..., tuple[int, bytes, str]]) -> None:
    code, out, err = pipe(b"import torch\nimport torch.nn.functional as F\nx.backward(\n", "--fix")
    assert (code, out) == (1, b"import torch\nimport torch.nn.functional as F\nx.backward(\n")
    assert "GL001" in err
    code, out, err = pipe(b"x = '\xff'\n", "--fix")
    assert (code, out) == (1, b"x = '\xff'\n")
    assert "GL001" in err


def test_what_is_excluded_passes_through(pipe: Callable[..., tuple[int, bytes, str]]) -> None:
    arguments = ("--fix", "--quiet", "--force-exclude", "--stdin-filename", "build/a.py")
    assert pipe(FLAWED, *arguments) == (0, FLAWED, "")


def test_a_fault_changes_nothing(pipe: Callable[..., tuple[int, bytes, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr("gradlint.static.drive.analysis.analyze", fail)
    data = b"from torch import nn\n\nnn.Linear(2, 2)(1).backward()\n"
    code, out, err = pipe(data, "--fix")
    assert (code, out) == (2, data)
    assert "internal error: ValueError: a fault" in err


def test_a_diff_of_standard_input_is_still_one(pipe: Callable[..., tuple[int, bytes, str]]) -> None:
    code, out, _err = pipe(FLAWED, "--diff", "--stdin-filename", "a.py")
    assert code == 1
    assert out.startswith(b"--- a/a.py\n+++ b/a.py\n")
