"""Nothing of what is checked is executed, however it is called and wherever gradlint is started."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FLAWED = "import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())\n"
MARK = "import pathlib, sys\npathlib.Path({!r}).touch()\nraise SystemExit(99)\n"

#: what a run imports, of the standard library, of what gradlint needs, and of itself
WANTED = [
    *("__future__", "array", "ast", "asyncio", "bisect", "concurrent", "copy", "dataclasses", "datetime", "decimal"),
    *("difflib", "enum", "errno", "fnmatch", "gc", "gettext", "hashlib", "inspect", "io", "itertools", "json"),
    *("linecache", "locale", "logging", "marshal", "multiprocessing", "pathlib", "pickle", "pprint", "queue", "random"),
    *("re", "secrets", "selectors", "shutil", "signal", "socket", "string", "struct", "subprocess", "tempfile"),
    *("textwrap", "threading", "time", "token", "tokenize", "tomllib", "traceback", "typing", "typing_extensions"),
    *("unicodedata", "uuid", "weakref", "zlib", "yaml", "attrs", "cattrs", "click", "libcst", "lsprotocol", "pygls"),
    *("torch", "numpy", "pathspec", "_blake2", "conftest", "sitecustomize", "usercustomize", "setup", "house"),
    "gradlint_house",
]
#: what python itself imports to find a module that -m names, before anything of that module
BEFORE = [
    *("abc", "codecs", "collections", "contextlib", "functools", "importlib", "keyword", "operator", "os", "reprlib"),
    *("runpy", "site", "stat", "types", "warnings"),
]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Path]:
    """A folder of which anything that is executed leaves a mark."""
    folder, marks = tmp_path / "hostile", tmp_path / "marks"
    folder.mkdir()
    marks.mkdir()
    for name in WANTED:
        (folder / f"{name}.py").write_text(MARK.format(str(marks / name)))
    (folder / "train.py").write_text(FLAWED)
    (folder / "pyproject.toml").write_text("")
    (folder / ".pre-commit-config.yaml").write_text("")
    for about in ("house-1.dist-info", "gradlint_house.egg-info"):
        (folder / about).mkdir()
        (folder / about / "entry_points.txt").write_text("[gradlint.rules]\nhouse = house\nmore = gradlint_house\n")
        for name in ("METADATA", "PKG-INFO"):
            (folder / about / name).write_text("Metadata-Version: 2.1\nName: house\nVersion: 1\n")
    yield folder
    assert [path.name for path in marks.iterdir()] == []


SCRIPT = str(Path(sys.executable).with_name("gradlint"))
MODULE = [sys.executable, "-m", "gradlint"]
SAFE = [sys.executable, "-P", "-m", "gradlint"]
STARTS = [
    pytest.param([SCRIPT], id="command", marks=pytest.mark.skipif(not Path(SCRIPT).exists(), reason="not installed")),
    pytest.param(MODULE, id="module"),
    pytest.param(SAFE, id="module, without the current folder"),
]


def run(command: list[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("start", STARTS)
def test_a_check_executes_nothing_of_the_folder(start: list[str], hostile: Path) -> None:
    for arguments in (
        ["--output-format", "concise", "--jobs", "3", "."],
        ["--output-format", "concise", "--jobs", "3", "."],  # told from the cache
        ["check", "--no-cache", "--force-exclude", "--output-format", "concise", "train.py"],  # as the hook calls it
        ["--no-cache", "--diff", "train.py"],
    ):
        done = run([*start, *arguments], hostile)
        assert (done.returncode, done.stderr) == (
            1,
            "" if "--diff" not in arguments else "Would fix 1 finding in 1 file.\n",
        )
        assert "train.py" in done.stdout
    done = run([*start, "--output-format", "json", "-"], hostile, FLAWED)
    assert [finding["code"] for finding in json.loads(done.stdout)] == ["GL501"]
    assert run([*start, "rule", "--all"], hostile).stderr == ""
    assert run([*start, "--no-cache", "--fix", "train.py"], hostile).returncode == 0
    assert run([*start, "clean"], hostile).returncode == 0


@pytest.mark.parametrize("start", STARTS)
def test_the_server_executes_nothing_of_the_folder(start: list[str], hostile: Path) -> None:
    pytest.importorskip("pygls")
    parameters: dict[str, object] = {"processId": None, "rootUri": hostile.as_uri(), "capabilities": {}}
    document = {"uri": (hostile / "train.py").as_uri(), "languageId": "python", "version": 1, "text": FLAWED}
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": parameters},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
    ]
    server = subprocess.Popen(
        [*start, "server"], cwd=hostile, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in messages:
            data = json.dumps({"jsonrpc": "2.0", **message}).encode()
            server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
            server.stdin.flush()
        told: dict[str, object] = {}
        while told.get("method") != "textDocument/publishDiagnostics":
            length = 0
            while line := server.stdout.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert length, "the server has ended"
            told = json.loads(server.stdout.read(length))
        assert "GL501" in json.dumps(told)
    finally:
        server.kill()
        server.communicate()


def test_python_can_be_told_to_leave_the_current_folder_out_from_the_start(hostile: Path) -> None:
    for name in BEFORE:
        (hostile / f"{name}.py").write_text((hostile / "re.py").read_text())
    assert run([*SAFE, "--output-format", "concise", "."], hostile).returncode == 1


def test_a_program_that_is_run_finds_what_lies_beside_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="a program is run under the guard, which watches torch")
    (tmp_path / "beside.py").write_text("value = 7\n")
    (tmp_path / "program.py").write_text("import sys, beside\nprint(beside.value, sys.path[0], '' in sys.path)\n")
    for start in (MODULE, SAFE, [SCRIPT]):
        for target in (["program.py"], ["-m", "program"]):
            if start == SAFE:
                continue  # as with python -P
            if not Path(start[0]).exists():
                continue
            done = run([*start, "run", *target], tmp_path)
            assert done.stdout == f"7 {tmp_path} False\n", done.stderr


def test_gradlint_that_lies_in_the_current_folder_still_runs(tmp_path: Path) -> None:
    import gradlint

    own = Path(gradlint.__file__).parents[1]
    done = run([*MODULE, "--version"], own)
    assert done.stdout == f"gradlint {gradlint.__version__}\n"
