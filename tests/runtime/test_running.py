"""``gradlint run``: the program as python runs it, and what is told about it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PYTHON = [sys.executable]
WATCHED = [sys.executable, "-m", "gradlint", "run"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "PYTHONSAFEPATH")}

TELLING = """
    import json, pickle, sys

    class Kept:
        pass

    print(json.dumps({
        "argv": sys.argv, "path": sys.path[:2], "name": __name__, "file": globals().get("__file__"),
        "package": __package__, "spec": __spec__ and [__spec__.name, __spec__.origin], "doc": __doc__,
        "loader": type(__loader__).__name__, "cached": bool(__cached__), "names": sorted(globals()),
        "main": sys.modules["__main__"].__dict__ is globals(),
        "pickled": type(pickle.loads(pickle.dumps(Kept()))).__module__,
        "builtins": type(__builtins__).__name__, "errors": [sys.stdout.errors, sys.stderr.errors],
    }, indent=1))
"""

MISTAKEN = """
    import sys
    import torch

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        model(torch.randn(8, 2)).pow(2).mean().backward()
        optimizer.step()
    print("trained", step)
    sys.exit(3)
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


def execute(command: list[str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["tell.py"],
        ["./tell.py", "--epochs", "3", "--", "-m", "--select", "x y"],
        ["inner/../inner/tell.py", "-h"],
        ["linked.py"],
        ["folder"],
        ["-m", "tell", "--help"],
        ["-m", "inner.tell", "a"],
        ["-m", "folder"],
    ],
    ids=" ".join,
)
def test_a_program_sees_what_python_would_show_it(arguments: list[str], tmp_path: Path) -> None:
    write(tmp_path, tell=TELLING, inner__in__tell=TELLING)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(textwrap.dedent(TELLING), encoding="utf-8")
    if arguments[0] == "-m":
        (tmp_path / "folder" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "linked.py").symlink_to(tmp_path / "inner" / "tell.py")
    alone = execute(PYTHON, *arguments, cwd=tmp_path)
    watched = execute(WATCHED, *arguments, cwd=tmp_path)
    assert json.loads(alone.stdout) == json.loads(watched.stdout)
    assert (alone.returncode, watched.returncode) == (0, 0)
    assert watched.stderr == "gradlint: the program did not import torch, and nothing was watched\n"


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.exit()",
        "import sys; sys.exit(7)",
        "import sys; sys.exit('no data')",
        "raise SystemExit(None)",
        "def f():\n    return 1 / 0\nf()",
        "try:\n    {}[1]\nexcept KeyError as error:\n    raise ValueError('wrapped') from error",
        "x = (",
        "import sys\nsys.excepthook = lambda kind, error, traceback: print('hooked', error)\nraise ValueError('x')",
        "import sys\nsys.stdout.close()",
        "import atexit\natexit.register(print, 'bye')\nraise ValueError('x')",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
        "import os\nprint('gone', flush=True)\nos._exit(4)",
        "def f():\n    raise KeyboardInterrupt\nimport atexit\natexit.register(print, 'bye')\nf()",
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
        "import sys\nsys.excepthook = lambda *_: print('hooked')\nraise KeyboardInterrupt",
        "try:\n    raise KeyboardInterrupt\nfinally:\n    print('swept')",
        "raise ExceptionGroup('several', [ValueError('x'), KeyError('y')])",
    ],
)
def test_a_program_ends_as_it_would_alone(source: str, tmp_path: Path) -> None:
    write(tmp_path, program=source)
    alone, watched = (execute(command, "program.py", cwd=tmp_path) for command in (PYTHON, WATCHED))
    assert watched.returncode == alone.returncode
    assert watched.stdout == alone.stdout
    ours = "gradlint: the program did not import torch, and nothing was watched\n"
    assert watched.stderr.replace(ours, "") == alone.stderr


@pytest.mark.parametrize("arguments", [["train.py"], ["-m", "train"]], ids=" ".join)
def test_an_interrupted_training_is_reported_and_ends_by_the_signal(arguments: list[str], tmp_path: Path) -> None:
    write(tmp_path, train=MISTAKEN.replace("sys.exit(3)", "raise KeyboardInterrupt"))
    alone, watched = (execute([*command, *arguments], cwd=tmp_path) for command in (PYTHON, WATCHED))
    assert watched.returncode == alone.returncode == -signal.SIGINT
    told, traceback = watched.stderr.splitlines(keepends=True), alone.stderr
    if arguments[0] == "-m":  # python itself shows how it runs a module
        traceback = re.sub(r'  File "<frozen runpy>".*\n', "", traceback)
    assert "".join(told[1:]).startswith(traceback)
    assert told[-1] == "gradlint: 1 error while it ran\n"


ERRONEOUS = """
    import torch
    from torch.utils.checkpoint import checkpoint

    def train():
        weight = torch.ones(2, requires_grad=True)
        loss = checkpoint(lambda x: x.exp(), weight, use_reentrant=True).sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError:
            torch.nn.functional.dropout(torch.ones(3), p=2.0)

    train()
"""


def test_errors_show_no_frame_of_gradlint(tmp_path: Path) -> None:
    write(tmp_path, train=ERRONEOUS)
    alone, watched = (execute(command, "train.py", cwd=tmp_path) for command in (PYTHON, WATCHED))
    assert watched.returncode == alone.returncode == 1
    assert frames(watched.stderr) == frames(alone.stderr)
    assert len(frames(alone.stderr)) > 6


def frames(stderr: str) -> list[str]:
    return re.findall(r'File "(.*), in ', stderr)


# --- configuration -------------------------------------------------------------------------------------------------


def reported(folder: Path, *arguments: str) -> list[tuple[str, str, int]]:
    """What a run tells at the end, which is all that it tells: file, code and row."""
    (folder / "report.json").unlink(missing_ok=True)
    options = ["--output-format", "json", "--output-file", "report.json"]
    done = execute(WATCHED, *options, *arguments, cwd=folder)
    assert done.returncode == 3, done.stderr
    findings = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert done.stderr.count("gradlint: ") == len(findings)
    return [(Path(one["filename"]).name, one["code"], one["location"]["row"]) for one in findings]


CONFIGURED = """
    import sys
    import torch
    from steps import feed

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        x = torch.randn(8, 2, requires_grad=True)
        feed(model, x)
        model(x.detach()).mean().backward(){comment}
        optimizer.step()
    sys.exit(3)
"""
STEPS = """
    def feed(model, x):
        model(x).square().mean().backward()
"""


def test_configuration_and_comments_hold_as_for_check(tmp_path: Path) -> None:
    write(tmp_path, train=CONFIGURED.format(comment=""), steps=STEPS)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.gradlint]\nper-file-ignores = { "steps.py" = ["input-requires-grad"] }\n', encoding="utf-8"
    )
    everything = [("steps.py", "GL109", 3), ("train.py", "GL201", 11)]
    assert reported(tmp_path, "-m", "train") == everything[1:]
    assert sorted(reported(tmp_path, "--isolated", "train.py")) == everything
    write(tmp_path, train=CONFIGURED.format(comment="  # noqa: GL201"))
    assert reported(tmp_path, "--isolated", "train.py") == everything[:1]


def test_what_a_comment_covers_ends_no_program(tmp_path: Path) -> None:
    write(tmp_path, train=CONFIGURED.format(comment="  # gradlint: ignore[missing-zero-grad]"), steps=STEPS)
    done = execute(WATCHED, "--on-finding", "raise", "--ignore", "GL109", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "gradlint: no findings while it ran\n")


def test_the_configured_format_is_used(tmp_path: Path) -> None:
    write(tmp_path, train=MISTAKEN)
    (tmp_path / "gradlint.toml").write_text('output-format = "github"\n', encoding="utf-8")
    done = execute(WATCHED, "--on-finding", "collect", "train.py", cwd=tmp_path)
    assert done.stderr.startswith("::error file=train.py,title=GL201")


def test_a_broken_configuration_elsewhere_does_not_end_the_training(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    write(
        tmp_path, train=CONFIGURED.format(comment="").replace("from steps", "from inner.steps"), inner__in__steps=STEPS
    )
    (inner / "gradlint.toml").write_text("selects = []\n", encoding="utf-8")
    done = execute(WATCHED, "--on-finding", "collect", "train.py", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("unknown key 'selects'") == 1
    assert "GL109" in done.stderr
    (tmp_path / "gradlint.toml").write_text("selects = []\n", encoding="utf-8")
    refused = execute(WATCHED, "train.py", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "unknown key 'selects'" in refused.stderr


def test_findings_are_told_at_once_and_at_the_end(tmp_path: Path) -> None:
    write(tmp_path, train=MISTAKEN)
    done = execute(WATCHED, "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "trained 3\n")
    first, *report = done.stderr.splitlines()
    assert first.startswith("gradlint: train.py:8:5: GL201 [missing-zero-grad] gradients are added")
    assert report[0].endswith("(3 times)")
    assert report[1].startswith("8 |     model(torch.randn(8, 2))")
    assert report[-1] == "gradlint: 1 error while it ran"


def test_raising_ends_the_program_at_the_finding(tmp_path: Path) -> None:
    write(tmp_path, train=MISTAKEN)
    done = execute(WATCHED, "--on-finding", "raise", "--output-format", "concise", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "FindingError: " in done.stderr
    assert done.stderr.splitlines()[-1] == "gradlint: 1 error while it ran"


def test_a_report_as_json_in_a_file(tmp_path: Path) -> None:
    write(tmp_path, train=MISTAKEN)
    options = ["--on-finding", "collect", "--output-format", "json", "--output-file", "report.json"]
    done = execute(WATCHED, *options, "-m", "train", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "trained 3\n", "")
    (finding,) = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (finding["code"], finding["location"]["row"], finding["count"]) == ("GL201", 8, 3)
    assert finding["filename"] == str(tmp_path / "train.py")


def test_annotations_and_selection(tmp_path: Path) -> None:
    write(tmp_path, train=MISTAKEN)
    told = execute(WATCHED, "--output-format", "github", "--on-finding", "collect", "train.py", cwd=tmp_path)
    assert told.stderr.startswith("::error file=train.py,title=GL201 missing-zero-grad,line=8,col=5")
    silent = execute(WATCHED, "--ignore", "GL2", "train.py", cwd=tmp_path)
    assert (silent.returncode, silent.stderr) == (3, "gradlint: no findings while it ran\n")


def test_an_error_of_autograd_leaves_with_its_note(tmp_path: Path) -> None:
    write(
        tmp_path,
        train="""
            import torch
            loss = torch.ones(2, requires_grad=True).pow(2).sum()
            loss.backward()
            loss.backward()
        """,
    )
    done = execute(WATCHED, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert f"gradlint: {tmp_path / 'train.py'}:5:1: GL203 [graph-freed]" in done.stderr
    assert "running.py" not in done.stderr


def test_the_environment_set_before_torch_is_imported_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        train="""
            import os, sys
            assert "torch" not in sys.modules
            os.environ["OMP_NUM_THREADS"] = "1"
            import torch
            print(torch.get_num_threads(), type(torch.__loader__).__name__, "exec_module" in vars(torch.__loader__))
            print(len(sys.meta_path) == len({type(finder) for finder in sys.meta_path}))
        """,
    )
    alone, watched = (execute(command, "train.py", cwd=tmp_path) for command in (PYTHON, WATCHED))
    assert watched.stdout == alone.stdout


def test_children_of_a_program_report_nothing(tmp_path: Path) -> None:
    write(
        tmp_path,
        train="""
            import os, sys, torch
            if os.fork() == 0:
                sys.exit(5)
            print(os.wait()[1] >> 8)
        """,
    )
    done = execute(WATCHED, "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5\n")
    assert done.stderr.count("no findings while it ran") == 1


def test_worker_processes_that_are_spawned_find_the_program(tmp_path: Path) -> None:
    write(
        tmp_path,
        train="""
            import multiprocessing

            def double(x):
                return 2 * x

            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.map(double, [1, 2]))
        """,
    )
    done = execute(WATCHED, "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[2, 4]\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["missing.py"], "can't open file "),
        (["empty"], "can't find '__main__' module in 'empty'"),
        (["-m", "missing"], "no module named missing"),
        (["-m", "missing.inner"], "no module can be found for 'missing.inner' (ModuleNotFoundError: "),
        (["-m", "package"], "'package' is a package and cannot be directly executed"),
        (["--select", "GL299", "program.py"], "GL299"),
        (["--on-finding", "sing", "program.py"], "'sing'"),
        (["--config", "none.toml", "program.py"], "none.toml: no such configuration file"),
        (["--config", "none.toml", "--isolated", "program.py"], "--config and --isolated exclude each other"),
        (["--output-file", "no/where.txt", "program.py"], "cannot write no/where.txt"),
        ([], "Missing argument 'SCRIPT|MODULE'"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], why: str, tmp_path: Path) -> None:
    write(tmp_path, program="", package__in____init__="")
    (tmp_path / "empty").mkdir()
    done = execute(WATCHED, *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_without_torch_one_line_says_so(tmp_path: Path) -> None:
    write(tmp_path, program="print('never')")
    code = (
        "import sys; sys.modules['torch'] = None\nfrom gradlint.cli import main\nsys.exit(main(['run', 'program.py']))"
    )
    done = execute(PYTHON, "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gradlint run: PyTorch is not installed, and there is nothing to watch without it\n"
