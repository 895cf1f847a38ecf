"""How a run ends: with its processes, and without a traceback, whatever ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradlint import parallel
from gradlint.cli import main

FLAWED = "import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())\n"
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is full")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")

#: a run that tells which processes work, and does not come to an end
ENDLESS = """
import os, sys, time
from pathlib import Path
from gradlint import parallel
from gradlint.__main__ import main

def analyze_part(*arguments):
    Path("working", str(os.getpid())).touch()
    time.sleep(120)

parallel.analyze_part = analyze_part
sys.argv[1:] = ["--no-cache", "--jobs", "3", "."]
sys.exit(main())
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run of three processes, and their numbers, its own first."""
    for number in range(3):
        folder = tmp_path / f"program_{number}"
        folder.mkdir()
        (folder / f"program_{number}.py").write_text(FLAWED)
    working = tmp_path / "working"
    working.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 60
        while len(list(working.iterdir())) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        numbers = {int(path.name) for path in working.iterdir()}
        assert len(numbers) == 3
        assert process.pid in numbers
        yield process, [process.pid, *sorted(numbers - {process.pid})]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@needs_fork
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not tell which processes live")
@pytest.mark.parametrize(
    ("ending", "to_all", "code"),
    [
        pytest.param(signal.SIGKILL, False, -signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGTERM, False, -signal.SIGTERM, id="terminated"),
        pytest.param(signal.SIGTERM, True, -signal.SIGTERM, id="terminated together"),
        pytest.param(signal.SIGINT, True, 130, id="interrupted from the keyboard"),
        pytest.param(signal.SIGINT, False, 130, id="interrupted"),
    ],
)
def test_processes_end_with_the_run(
    ending: signal.Signals, to_all: bool, code: int, running: tuple[subprocess.Popen[str], list[int]]
) -> None:
    process, numbers = running
    if to_all:
        os.killpg(process.pid, ending)
    else:
        process.send_signal(ending)
    out, err = process.communicate(timeout=30)  # pipes that a process still holds would keep it waiting
    told = "gradlint: incomplete: interrupted, 3 of 3 files not checked to the end\n" if code == 130 else ""
    assert (process.returncode, out, err) == (code, "", told)
    until = time.monotonic() + 30
    while any(map(is_alive, numbers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_alive, numbers))


def descriptors() -> int:
    """How many files this process has open; 0 where nobody can tell."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@needs_fork
def test_where_no_process_can_be_made_the_work_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / f"program_{number}.py").write_text(FLAWED)
    genuine = parallel._Helper
    made: list[object] = []

    def helper(*arguments: object) -> object:
        if made:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        made.append(genuine(*arguments))  # type: ignore[arg-type]
        return made[0]

    monkeypatch.setattr(parallel, "_Helper", helper)
    before = descriptors()
    assert main(["--isolated", "--no-cache", "--jobs", "1000000", "--output-format", "concise", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("GL501") == 4
    made.clear()
    assert descriptors() <= before + 1


def gradlint(*arguments: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradlint", *arguments]
    return subprocess.run(command, cwd=cwd, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


UNWRITABLE = "gradlint: the output cannot be written: No space left on device\n"


@needs_full
@pytest.mark.parametrize(
    "arguments",
    [
        ["train.py"],  # told from the cache
        ["--no-cache", "--output-format", "json", "train.py"],
        ["--no-cache", "--diff", "train.py"],
        ["rule", "GL201"],
        ["rule", "--all"],
        ["clean"],
        ["--version"],
        ["--help"],
    ],
)
def test_output_that_cannot_be_written_is_told(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FLAWED)
    if arguments == ["train.py"]:
        assert gradlint(*arguments, cwd=tmp_path, capture_output=True).returncode == 1
    with FULL.open("w") as full:
        done = gradlint(*arguments, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (2, UNWRITABLE)


@needs_full
def test_messages_that_cannot_be_written_are_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FLAWED)
    with FULL.open("w") as full:
        done = gradlint(
            "--output-format", "concise", "train.py", "missing.py", cwd=tmp_path, stdout=subprocess.PIPE, stderr=full
        )
    assert done.returncode == 2
    assert "GL501" in done.stdout


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("times", [1, 2])
def test_streams_may_be_closed(closed: tuple[int, ...], times: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FLAWED)
    for _ in range(times):
        done = gradlint(
            "--output-format",
            "concise",
            "train.py",
            cwd=tmp_path,
            capture_output=True,
            preexec_fn=lambda: list(map(os.close, closed)),
        )
    assert done.returncode == 1
    assert done.stderr == ""
    assert ("GL501" in done.stdout) is (1 not in closed)


def test_an_interrupt_before_anything_is_imported_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gradlint import __main__

    def interrupted(_arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "_told", interrupted)
    monkeypatch.setattr(sys, "argv", ["gradlint", str(tmp_path)])
    assert __main__.main() == 130
    monkeypatch.setattr(sys, "argv", ["gradlint", "run", "train.py"])
    with pytest.raises(KeyboardInterrupt):  # as python ends
        __main__.main()
