"""Nothing that a file is called, or holds, reaches a terminal, or the log of a workflow, as a command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gradlint.cli import main
from gradlint.finding import Finding, Location, Severity
from gradlint.output.machine import as_json, github
from gradlint.output.style import Style
from gradlint.output.text import full
from gradlint.output.visible import visible

SHOWS = "import torch\nw = torch.ones(2, requires_grad=True)\nprint((w * 2).numpy())"
NAMES = [
    "\x1b]0;title\x07.py",
    "\x1b[2J.py",
    "new\n::error::line.py",
    "\r::error::line.py",
    "::error::first.py",
    "\x85\u2028::error::line.py",
    "\u202egnp.py",
    "\x9b31m.py",
    os.fsdecode(b"\xff\x9b.py"),
]
COMMAND = ("::", "##[")


def harmless(text: str) -> bool:
    """Whether a terminal shows a text as it is, and no line of it is a command of whoever wrote the sources."""
    controls = [character for character in text if not character.isprintable() and character != "\n"]
    ours = ("::error file=", "::warning file=", "::notice file=")
    lines = [line for line in text.split("\n") if line.strip().startswith(COMMAND)]
    return not controls and all(line.startswith(ours) for line in lines)


@pytest.mark.parametrize("form", ["text", "concise", "json", "github"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_and_sources_are_shown_and_do_nothing(
    name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(f"{SHOWS}  # \x1b]8;;x\x07 \u2028::error::here \u202e\n", encoding="utf-8")
    assert main(["--isolated", "--no-cache", "--verbose", "--output-format", form, "."]) == 1
    out, err = capsys.readouterr()
    assert "numpy-on-grad" in out
    assert harmless(out)
    assert harmless(err)
    if form == "json":
        assert json.loads(out)[0]["filename"] == str(tmp_path / name)
    assert main(["--isolated", "--no-cache", f"missing{name}"]) == 2
    assert harmless(capsys.readouterr().err)


@pytest.mark.parametrize("form", ["concise", "github"])
def test_what_cannot_be_done_is_told_on_one_line(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "\n::error::folder\x1b[1m"
    folder.mkdir()
    (folder / "gradlint.toml").write_text('"\\u001b]0;x\\u0007\\n::error::key" = 1\n')
    (folder / "some.py").write_text(SHOWS)
    (folder / "broken.ipynb").write_text("\x1b[1m::error::")
    assert main(["--no-cache", "--output-format", form, str(folder)]) == 2
    out, err = capsys.readouterr()
    assert "unknown key" in err
    assert harmless(out)
    assert harmless(err)
    assert main(["--isolated", "--no-cache", "--output-format", form, str(folder)]) == 1
    out, err = capsys.readouterr()
    assert "not valid JSON" in out
    assert harmless(out)
    assert harmless(err)


def test_messages_are_shown_and_do_nothing(tmp_path: Path) -> None:
    said = "\x1b[31m\n::error::x \x9b \u2028"
    place = Location(str(tmp_path / "x.py"), 1, 1)
    finding = Finding("GL501", "numpy-on-grad", said, Severity.ERROR, place, remedy=said)
    for told in (full(finding, Style(), tmp_path, lambda _place: said), as_json([finding]), github(finding, tmp_path)):
        assert harmless(told)
    assert json.loads(as_json([finding]))[0]["message"] == said


def test_other_scripts_are_left_alone() -> None:
    assert visible("naïve Ωμέγα 学习.py") == "naïve Ωμέγα 学习.py"
    assert visible("a\tb\x1b\u2028\udcff") == r"a\tb\x1b\u2028\udcff"
