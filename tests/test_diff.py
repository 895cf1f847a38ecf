"""What --diff shows is what --fix does, byte for byte, whatever the file holds and is called."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradlint.cli import main

HEAD = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 2)\n"
MISTAKES = (
    "print(net(torch.ones(1, 2)).numpy())",
    "net.requires_grad = False",
    "nn.init.xavier_uniform(net.weight)",
    "values = net(torch.ones(1, 2)).numpy() + 1",
)
STRANGE = "\f\v\x1c\x1d\x1e\x85\u2028\u2029\x1b\t\x7f\ufeffé\N{SNAKE}\\"
COMMENTS = st.text(st.sampled_from(f"{STRANGE} ab"), max_size=6).map(lambda text: f"  #{text}")
LINES = st.one_of(
    st.tuples(st.sampled_from(MISTAKES), COMMENTS).map("".join),
    st.tuples(st.sampled_from(MISTAKES), st.just("  # é\r")).map("".join),
    st.text(st.sampled_from(STRANGE.replace("\\", "")), max_size=4).map(lambda text: f"text = '{text}'"),
    st.text(st.sampled_from(STRANGE.replace("\\", "")), max_size=4).map(lambda text: f'text = """{text}\n{text}"""'),
    st.sampled_from(["\f", "\f# page", "\t# tab", "", "x = 1 \\\n  + 1", "  ", "x = 1 ;"]),
)
NAMES = (
    "plain.py",
    "with space.py",
    "tab\tin.py",
    'quo"te.py',
    "back\\slash.py",
    "é.py",
    "new\nline.py",
    "\x1b[31m.py",
)
BYTES = os.fsdecode(b"\xff\xfe.py")


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """The name of a file and what it holds."""
    name = draw(st.sampled_from([*NAMES, BYTES]))
    lines = draw(st.lists(LINES, min_size=1, max_size=8))
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = (HEAD + "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n", "\n\f"]))).replace("\n", newline)
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]))
    if encoding == "latin-1":
        text = f"# coding: latin-1{newline}{text}"
    return name, text.encode(encoding, "replace")


def shown(folder: Path, *arguments: str) -> bytes:
    """What gradlint prints on standard output where it is no terminal."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main(["check", "--isolated", "--no-cache", *arguments, "."])
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue()


def applied(folder: Path, patch: bytes) -> None:
    """Let git apply a patch in a folder that is no repository."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, input=patch, cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, (done.stderr, patch)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(file=files())
def test_git_makes_of_a_diff_what_fix_makes_of_the_file(file: tuple[str, bytes]) -> None:
    name, data = file
    with tempfile.TemporaryDirectory() as temporary:
        one, other = Path(temporary, "one"), Path(temporary, "other")
        for folder in (one, other):
            folder.mkdir()
            (folder / name).write_bytes(data)
        patch = shown(one, "--diff", "--unsafe-fixes")
        assert (one / name).read_bytes() == data
        shown(other, "--fix", "--unsafe-fixes")
        fixed = (other / name).read_bytes()
        assert bool(patch) == (fixed != data)
        if patch:
            applied(one, patch)
        assert (one / name).read_bytes() == fixed


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("strange", [*STRANGE[:-1], "\\\n"], ids=ascii)
def test_lines_near_what_others_take_for_a_line_end(strange: str, newline: str, tmp_path: Path) -> None:
    before = f"import torch{newline}w = torch.ones(2, requires_grad=True){newline}text = '{strange}'{newline}"
    before = before.replace("\\\n", f"\\{newline}")
    (tmp_path / "name.py").write_bytes(f"{before}print((w * 2).numpy()){newline}# {strange[0]}".encode())
    patch = shown(tmp_path, "--diff")
    assert b".detach()" in patch
    applied(tmp_path, patch)
    after = f"{before}print((w * 2).detach().numpy()){newline}# {strange[0]}"
    assert (tmp_path / "name.py").read_bytes() == after.encode()


def test_on_a_terminal_a_diff_moves_no_cursor(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    (tmp_path / "name.py").write_text(
        "import torch\nw = torch.ones(2, requires_grad=True)\nprint((w * 2).numpy())  # \x1b]0;title\x07\n"
    )
    out = Terminal()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main(["check", "--isolated", "--no-cache", "--diff", "name.py"])
    assert "\x1b" not in out.getvalue()
    assert r"(w * 2).detach().numpy())  # \x1b]0;title\x07" in out.getvalue()
