"""What is known when a run is interrupted, or its time is up, or memory runs out: it is reported, and marked so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gradlint.cli import main
from gradlint.interruption import TimeIsUpError, time_limit

FLAWED = "import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())\n"
needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signals")

#: a run that leaves a file beside each that is followed, and in which something happens to what is called endless.py
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from gradlint.static.drive import entries
from gradlint.__main__ import main

genuine = entries.Entries.module

def module(self, module):
    Path(f"{module.path}.followed").touch()
    if module.path.name == "endless.py":
        HAPPENS
    genuine(self, module)

entries.Entries.module = module
sys.exit(main())
"""
SLEEPS = "time.sleep(120)"
OVERRUNS = f"signal.setitimer(signal.ITIMER_REAL, 0.1, 1); {SLEEPS}"  # the time limit is reached now
RUNS_OUT = "raise MemoryError"
IS_KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
LIMIT = ("--timeout", "1000")
NOTE = "# what is long is followed first\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three programs of two files; that in the middle is followed last."""
    for name, notes in (("one", 2), ("endless", 0), ("three", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(f"import flawed_{name}\n{FLAWED}{NOTE * notes}")
        (tmp_path / name / f"flawed_{name}.py").write_text(FLAWED)
    return tmp_path


def followed(tree: Path) -> list[str]:
    """The files that were followed; they are forgotten."""
    marks = sorted(tree.glob("*/*.followed"))
    for mark in marks:
        mark.unlink()
    return [mark.stem for mark in marks]


def start(tree: Path, happens: str, *arguments: str) -> subprocess.Popen[str]:
    common = ["--isolated", "--output-format", "concise", "--cache-dir", str(tree / "cache")]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("HAPPENS", happens), *common, *arguments, "."],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(tree: Path, happens: str, *arguments: str) -> tuple[int, list[str], str]:
    """The exit code, the files with findings, and what standard error says."""
    with start(tree, happens, *arguments) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, files(out), err


def files(out: str) -> list[str]:
    return [Path(line.split(":")[0]).name for line in out.splitlines() if ": GL" in line]


ALL = ["endless.py", "flawed_endless.py", "flawed_one.py", "one.py", "flawed_three.py", "three.py"]
ENDED = ALL[2:]  #: what does not belong to the program that is endless


@needs_signals
def test_a_time_limit_ends_the_run_and_its_processes(tree: Path) -> None:
    process = start(tree, SLEEPS, "--jobs", "3", "--timeout", "4")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "gradlint: incomplete: the time is up, " in err
    assert "endless.py" not in files(out)
    with pytest.raises(ProcessLookupError):  # none of its group is left
        os.killpg(process.pid, 0)


@needs_signals
def test_what_is_known_when_the_time_is_up(tree: Path) -> None:
    code, found, err = run(tree, OVERRUNS, "--jobs", "1", *LIMIT)
    assert (code, found) == (2, ENDED)
    assert err == "gradlint: incomplete: the time is up, 2 of 6 files not checked to the end\n"
    assert sorted(followed(tree)) == sorted(["endless.py", *ENDED])
    assert run(tree, "pass", "--jobs", "1") == (1, ALL, "")
    assert followed(tree) == ["endless.py", "flawed_endless.py"]  # the others were kept


@needs_signals
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_what_is_known_when_the_user_interrupts(jobs: str, tree: Path) -> None:
    with start(tree, SLEEPS, "--jobs", jobs) as process:
        until = time.monotonic() + 60
        while len(list(tree.glob("*/*.followed"))) < 5 and time.monotonic() < until:
            time.sleep(0.05)
        if jobs == "3":
            time.sleep(8)  # the others come to their ends
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert files(out) == ENDED
    assert err == "gradlint: incomplete: interrupted, 2 of 6 files not checked to the end\n"
    followed(tree)
    assert run(tree, "pass", "--jobs", "1") == (1, ALL, "")
    assert followed(tree) == ["endless.py", "flawed_endless.py"]


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_memory_that_runs_out_costs_what_needs_it(jobs: str, tree: Path) -> None:
    code, found, err = run(tree, RUNS_OUT, "--jobs", jobs)
    assert (code, found) == (2, [name for name in ALL if name != "endless.py"])
    assert err.endswith("endless.py: out of memory, what it leads to is not known\n")


@needs_signals
def test_a_process_that_is_killed_again_and_again_costs_one_part(tree: Path) -> None:
    code, found, err = run(tree, IS_KILLED, "--jobs", "3")
    assert (code, found) == (2, ENDED)
    killed = "a process was killed, for want of memory perhaps"
    assert err == f"gradlint: incomplete: {killed}, 2 of 6 files not checked to the end\n"


@needs_signals
def test_an_incomplete_run_blames_no_comment_and_fixes_nothing(tree: Path) -> None:
    suppressed = "import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())  # noqa: GL501\n"
    (tree / "endless" / "endless.py").write_text(suppressed)
    options = ("--select", "GL501,GL9", "--fix", "--unsafe-fixes", "--jobs", "1", *LIMIT)
    code, found, err = run(tree, OVERRUNS, *options)
    assert (code, found) == (2, ENDED)
    assert "gradlint: nothing is fixed: not all is known\n" in err
    assert (tree / "endless" / "endless.py").read_text() == suppressed
    assert (tree / "one" / "flawed_one.py").read_text() == FLAWED


@needs_signals
def test_machines_are_told_that_a_run_is_incomplete(tree: Path) -> None:
    with start(tree, OVERRUNS, "--output-format", "sarif", "--jobs", "1", *LIMIT) as process:
        out = process.communicate(timeout=60)[0]
    assert json.loads(out)["runs"][0]["invocations"][0]["executionSuccessful"] is False


@needs_signals
def test_known_findings_are_not_gone_because_a_run_is_incomplete(tree: Path) -> None:
    baseline = ("--baseline", str(tree / "baseline.json"), "--no-cache", "--jobs", "1")
    assert run(tree, "pass", *baseline, "--write-baseline")[0] == 0
    code, found, err = run(tree, OVERRUNS, *baseline, *LIMIT)
    assert (code, found) == (2, [])
    assert "gone" not in err


def test_a_time_that_is_up_before_anything_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(FLAWED)
    code = main(["--isolated", "--no-cache", "--timeout", "0.000001", str(tmp_path)])
    assert code == 2
    assert "the time " in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "inf", "soon"])
def test_a_time_limit_is_a_number_of_seconds(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--timeout", value, "."]) == 2
    assert "--timeout" in capsys.readouterr().err


def wait_beyond(seconds: float) -> float:
    """How long something lasts that a time limit ends."""
    started = time.monotonic()
    with pytest.raises(TimeIsUpError), time_limit(seconds):
        while time.monotonic() < started + 60:
            time.sleep(0.01)
    return time.monotonic() - started


def test_a_time_limit_ends_what_takes_longer() -> None:
    assert wait_beyond(0.2) < 30


def test_a_time_limit_where_there_are_no_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "setitimer", raising=False)
    before = signal.getsignal(signal.SIGINT)
    assert wait_beyond(0.2) < 60
    assert signal.getsignal(signal.SIGINT) is before


def test_a_time_limit_is_over_with_what_it_is_for() -> None:
    with time_limit(0.2):
        pass
    time.sleep(0.4)


def test_only_the_main_thread_has_a_time_limit() -> None:
    lasted = []

    def act() -> None:
        with time_limit(0.1):
            time.sleep(0.3)
        lasted.append(True)

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    assert lasted == [True]
