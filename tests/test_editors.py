"""The recipes of the documentation, followed in the editors they are for, where these are installed."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[1] / "docs" / "editors.md"
BROKEN = """\
import torch
from torch import nn

net = nn.Linear(6, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 5, 6):
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def recipe(heading: str, language: str, index: int = 0) -> str:
    """A block of code of a language below a heading."""
    section = re.split(rf"^## {heading}$", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    section = re.split(r"^## ", section, flags=re.MULTILINE)[0]
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return blocks[index]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a mistake, in a folder whose name has a space."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "train.py").write_text(BROKEN)
    return folder


def followed(command: list[str], folder: Path) -> str:
    """What an editor prints that is started where gradlint is on the PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(folder.parent), "HOME": str(folder.parent)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    return done.stdout + done.stderr


def neovims() -> list[tuple[str, tuple[int, int]]]:
    """Every Neovim on the PATH or beside this Python, with its version."""
    folders = [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep)]
    found = dict.fromkeys(path for folder in folders if (path := shutil.which("nvim", path=folder)))
    versions: dict[str, tuple[int, int]] = {}
    for path in found:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"NVIM v(\d+)\.(\d+)", told)
        if match is not None:
            versions[path] = int(match[1]), int(match[2])
    return list(versions.items())


NEOVIM = """
vim.cmd("edit train.py")
vim.wait(100000, function() return #vim.diagnostic.get(0) > 0 end, 50)
for _, found in ipairs(vim.diagnostic.get(0)) do
  io.stdout:write(string.format("%s at %d:%d\\n", found.code, found.lnum + 1, found.col + 1))
end
local place = { textDocument = vim.lsp.util.make_text_document_params(), context = { diagnostics = {} },
  range = { start = { line = 7, character = 6 }, ["end"] = { line = 7, character = 6 } } }
for _, answer in pairs(vim.lsp.buf_request_sync(0, "textDocument/codeAction", place, 10000)) do
  for _, action in ipairs(answer.result) do io.stdout:write(action.title, "\\n") end
end
vim.cmd("qall!")
"""


@pytest.mark.parametrize(("index", "first", "last"), [(0, (0, 11), (9, 0)), (1, (0, 8), (0, 11)), (2, (0, 7), (0, 10))])
def test_neovim(project: Path, index: int, first: tuple[int, int], last: tuple[int, int]) -> None:
    editors = [path for path, version in neovims() if first <= version <= last]
    if not editors:
        pytest.skip(f"no Neovim from {first} to {last} is installed")
    (project.parent / "init.lua").write_text(recipe("Neovim", "lua", index))
    (project.parent / "look.lua").write_text(NEOVIM)
    for editor in editors:
        told = followed([editor, "--headless", "-u", "../init.lua", "-c", "luafile ../look.lua"], project)
        assert "GL201 at 8:5\n" in told
        assert "gradlint: ignore GL201 (missing-zero-grad) here\n" in told


EMACS = """
(find-file "train.py")
(flymake-mode 1)
(apply #'eglot (eglot--guess-contact))
(let ((end (+ (float-time) 100)))
  (while (and (< (float-time) end) (not (flymake-diagnostics)))
    (flymake-start)
    (accept-process-output nil 0.2)))
(dolist (found (flymake-diagnostics))
  (princ (format "line %d: %s\\n" (line-number-at-pos (flymake-diagnostic-beg found)) (flymake-diagnostic-text found))))
(eglot-shutdown (eglot-current-server))
"""


def test_emacs(project: Path) -> None:
    editor = shutil.which("emacs")
    if editor is None:
        pytest.skip("Emacs is not installed")
    probe = subprocess.run([editor, "--batch", "--eval", "(require 'eglot)"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("Emacs is installed without Eglot")
    (project.parent / "init.el").write_text(recipe("Emacs", "elisp"))
    (project.parent / "look.el").write_text(EMACS)
    told = followed([editor, "--batch", "-l", "../init.el", "-l", "../look.el"], project)
    assert "line 8: " in told
    assert "gradients are added to those an earlier step already applied" in told


def test_the_recipe_for_helix_names_its_settings() -> None:
    written = tomllib.loads(recipe("Helix", "toml"))
    (language,) = written["language"]
    assert language["name"] == "python"
    assert "gradlint" in language["language-servers"]
    assert written["language-server"] == {"gradlint": {"command": "gradlint", "args": ["server"]}}


def test_helix(project: Path) -> None:
    """It has no mode without a terminal: it is given one, and what it draws there is read."""
    editor = shutil.which("hx") or shutil.which("helix")
    if editor is None:
        pytest.skip("Helix is not installed")
    import pty
    import termios

    settings = project.parent / "helix"
    settings.mkdir()
    (settings / "languages.toml").write_text(recipe("Helix", "toml"))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "XDG_CONFIG_HOME": str(project.parent), "TERM": "xterm-256color"}
    terminal, inside = pty.openpty()
    termios.tcsetwinsize(inside, (40, 160))
    with subprocess.Popen(
        [editor, "train.py"], cwd=project, env=environment, stdin=inside, stdout=inside, start_new_session=True
    ) as running:
        try:
            os.write(terminal, b"8gg")  # the whole message is shown below the line of the cursor
            assert "gradients are added to those an earlier step already applied" in drawn(terminal, "help: clear the")
        finally:
            running.kill()
    os.close(inside)
    os.close(terminal)


def drawn(terminal: int, wanted: str, seconds: float = 60) -> str:
    """What a program draws in its terminal until a text appears there."""
    text, end = "", time.monotonic() + seconds
    while wanted not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            text += re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", os.read(terminal, 1 << 16).decode("utf-8", "replace"))
    return text


def test_visual_studio_code_knows_the_settings_that_are_told_of() -> None:
    package = json.loads((DOCUMENT.parents[1] / "editors" / "vscode" / "package.json").read_text(encoding="utf-8"))
    known = set(package["contributes"]["configuration"]["properties"])
    text = recipe("VS Code", "json")
    section = DOCUMENT.read_text(encoding="utf-8").split("## VS Code")[1].split("\n## ")[0]
    assert set(re.findall(r"`(gradlint\.\w+)`", section)) <= known
    assert f"gradlint-{package['version']}.vsix" in section
    assert json.loads(text)["notebook.codeActionsOnSave"] == {"notebook.source.fixAll.gradlint": "explicit"}


def test_jupyter_finds_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jupyter_lsp", reason="JupyterLab speaks to language servers through it")
    from jupyter_lsp import LanguageServerManager
    from jupyter_server.serverapp import ServerApp

    folder = tmp_path / "jupyter_server_config.d"
    folder.mkdir()
    (folder / "gradlint.json").write_text(recipe("JupyterLab", "json"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    app = ServerApp()
    app.config_dir = str(tmp_path)
    app.load_config_file()
    manager = LanguageServerManager(config=app.config, autodetect=False)
    manager.initialize()
    server = manager.language_servers["gradlint"]
    assert server["languages"] == ["python"]
    done = subprocess.run([server["argv"][0], *server["argv"][1:], "--help"], capture_output=True, check=False)
    assert done.returncode == 0
    assert "gradlint" in manager.sessions, "one that is started when it is needed"
