"""Old code: baselines and noqa comments, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradlint.cli import main

LOOP = """\
def train(model):
    loss = model()
    "GL201"


class Net:
    def forward(self, x):
        return "GL101"
"""


class Project:
    """A folder that is checked from within, by a tracer that reports every ``"GLnnn"`` it reads."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def check(self, *arguments: str) -> tuple[int, str, str]:
        code = main(["--output-format", "concise", *arguments])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def accept(self) -> str:
        code, out, err = self.check("--baseline", "known.json", "--write-baseline")
        assert (code, err) == (0, "")
        return out

    def known(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "known.json").read_text(encoding="utf-8"))["findings"]
        return found


@pytest.fixture
def project(
    tracer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Project:
    monkeypatch.chdir(tmp_path)
    made = Project(tmp_path, capsys)
    made.write("a.py", LOOP)
    return made


def test_known_findings_are_not_reported(project: Project) -> None:
    assert project.accept() == "Wrote 2 findings to known.json: 2 new, 0 gone.\n"
    assert project.check("--baseline", "known.json") == (
        0,
        "No findings in 1 file. 2 findings of the baseline are not shown.\n",
        "",
    )


def test_a_finding_is_kept_by_code_path_definition_and_line(project: Project) -> None:
    project.accept()
    assert project.known() == [
        {"path": "a.py", "code": "GL101", "definition": "Net.forward", "line": 'return "GL101"', "count": 1},
        {"path": "a.py", "code": "GL201", "definition": "train", "line": '"GL201"', "count": 1},
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def train", "import os\n\n\ndef other():\n    return os\n\n\ndef train"),
        ("    loss = model()\n", ""),
        ('    "GL201"\n', '    if loss:\n        "GL201"\n'),
        ("class Net:\n", "class Net:\n    size = 3\n\n    def build(self): ...\n\n"),
    ],
    ids=["above", "beside", "indented", "in the class"],
)
def test_edits_elsewhere_do_not_shift_what_is_known(project: Project, old: str, new: str) -> None:
    project.accept()
    assert old in LOOP
    project.write("a.py", LOOP.replace(old, new))
    assert project.check("--baseline", "known.json")[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('    "GL201"\n', '    "GL201"\n    "GL201"\n', "a.py:4:5: GL201"),  # one more of the same: the last is new
        ('    "GL201"\n', '    x = "GL201"\n', "a.py:3:9: GL201"),  # another line
        ('    "GL201"\n', '    "GL203"\n', "a.py:3:5: GL203"),  # another rule
        ("def train", "def other", "a.py:3:5: GL201"),  # another function
    ],
    ids=["count", "line", "code", "definition"],
)
def test_what_is_new_is_reported(project: Project, old: str, new: str, reported: str) -> None:
    project.accept()
    project.write("a.py", LOOP.replace(old, new))
    code, out, _ = project.check("--baseline", "known.json")
    assert code == 1
    assert [line.partition(" [")[0] for line in out.splitlines() if "as asked" in line] == [reported]


def test_what_is_known_in_one_file_is_new_in_another(project: Project) -> None:
    project.accept()
    project.write("b.py", LOOP)
    assert project.check("--baseline", "known.json")[1].startswith("b.py:3:5: GL201")


def test_what_is_gone_is_said(project: Project) -> None:
    project.write("a.py", LOOP.replace('    "GL201"\n', '    "GL201"\n    "GL201"\n'))
    project.accept()
    project.write("a.py", LOOP.replace('"GL201"', "pass"))
    code, _, err = project.check("--baseline", "known.json")
    assert (code, err.splitlines()) == (
        0,
        [
            'gradlint: gone from known.json: a.py: GL201 in train: "GL201" (2 times)',
            "gradlint: 1 finding of known.json is gone: --write-baseline updates it",
        ],
    )
    assert project.accept() == "Wrote 1 finding to known.json: 0 new, 2 gone.\n"
    assert project.check("--baseline", "known.json")[2] == ""


def test_many_that_are_gone_are_named_on_request(project: Project) -> None:
    project.write("a.py", "".join(f'x{number} = "GL201"\n' for number in range(12)))
    project.accept()
    project.write("a.py", "")
    lines = project.check("--baseline", "known.json")[2].splitlines()
    assert len(lines) == 12
    assert lines[-2:] == [
        "gradlint: and 2 more: --verbose names them",
        "gradlint: 12 findings of known.json are gone: --write-baseline updates it",
    ]
    assert sum("gone from" in line for line in project.check("--baseline", "known.json", "-v")[2].splitlines()) == 12


def test_only_what_was_looked_for_can_be_gone(project: Project) -> None:
    project.write("b.py", '"GL201"\n')
    project.accept()
    project.write("a.py", "")
    project.write("b.py", "")
    assert "b.py" not in project.check("a.py", "--baseline", "known.json")[2]  # it was not checked
    assert "GL201" not in project.check("a.py", "--baseline", "known.json", "--select", "GL1")[2]
    (project.folder / "b.py").unlink()
    assert "gone from known.json: b.py" in project.check("a.py", "--baseline", "known.json")[2]


def test_what_was_not_looked_for_stays_known(project: Project) -> None:
    project.write("b.py", '"GL203"\n')
    project.accept()
    project.write("b.py", "")
    project.check("a.py", "--baseline", "known.json", "--write-baseline", "--select", "GL1")
    assert [entry["code"] for entry in project.known()] == ["GL101", "GL201", "GL203"]
    project.check("--baseline", "known.json", "--write-baseline")
    assert [entry["code"] for entry in project.known()] == ["GL101", "GL201"]


def test_the_configuration_may_name_it(project: Project) -> None:
    (project.folder / "sub").mkdir()
    project.write("gradlint.toml", 'baseline = "sub/known.json"\n')
    assert project.check("--write-baseline")[0] == 0
    stored = json.loads((project.folder / "sub/known.json").read_text(encoding="utf-8"))
    assert {entry["path"] for entry in stored["findings"]} == {str(project.folder / "a.py")}  # not below sub/
    assert project.check() == (0, "No findings in 1 file. 2 findings of the baseline are not shown.\n", "")


def test_what_the_configuration_names_can_be_passed_over(project: Project) -> None:
    project.accept()
    project.write("gradlint.toml", 'baseline = "known.json"\n')
    assert project.check()[0] == 0
    code, out, _ = project.check("--no-baseline")
    assert code == 1
    assert out.startswith("a.py:3:")
    assert project.check()[0] == 0, "what is kept of a run is kept of that request only"


@pytest.mark.parametrize("other", [["--baseline", "known.json"], ["--write-baseline"]])
def test_no_baseline_goes_with_no_other_option_for_one(project: Project, other: list[str]) -> None:
    code, _, err = project.check("--no-baseline", *other)
    assert code == 2
    assert f"{other[0]} and --no-baseline exclude each other" in err


def test_an_edited_baseline_is_read_again(project: Project) -> None:
    project.accept()
    assert project.check("--baseline", "known.json")[0] == 0
    assert project.check("--baseline", "known.json")[0] == 0  # as the cache has it
    project.write("known.json", '{"version": 1, "findings": []}')
    assert project.check("--baseline", "known.json")[0] == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such baseline: --write-baseline makes one"),
        ("[", "not a baseline that this version of gradlint can read"),
        ("[]", "not a baseline that this version of gradlint can read"),
        ('{"version": 2, "findings": []}', "its version is 2, not 1"),
        ('{"version": 1, "findings": [{"path": 3}]}', "not a baseline"),
    ],
)
def test_what_is_no_baseline_is_refused(project: Project, content: str | None, why: str) -> None:
    if content is not None:
        project.write("known.json", content)
    code, out, err = project.check("--baseline", "known.json")
    assert (code, out) == (2, "")
    assert "known.json: " in err
    assert why in err


def test_writing_one_needs_its_name(project: Project) -> None:
    assert project.check("--write-baseline") == (
        2,
        "",
        "gradlint: --write-baseline needs the name of a file: --baseline FILE\n",
    )


def test_cells_of_notebooks_have_definitions(project: Project) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": "import os\n"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": 'def step():\n    "GL201"\n'},
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (project.folder / "a.py").unlink()
    project.write("n.ipynb", text)
    project.accept()
    assert [(entry["definition"], entry["line"]) for entry in project.known()] == [("step", '"GL201"')]


def test_known_findings_are_not_fixed_and_not_gone_after_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import torch\n\nx = torch.ones(2, requires_grad=True)\na = x.numpy()\n"
    Path("a.py").write_text(text, encoding="utf-8")
    assert main(["--baseline", "known.json", "--write-baseline"]) == 0
    Path("a.py").write_text(text + "print(x.numpy())\n", encoding="utf-8")
    Path("b.py").write_text(text, encoding="utf-8")
    assert main(["--baseline", "known.json", "--fix"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1:] == [
        "No findings in 2 files. 1 finding of the baseline is not shown.",
        "Fixed 2 findings in 2 files.",
    ]
    assert err == ""
    assert Path("a.py").read_text(encoding="utf-8") == text + "print(x.detach().numpy())\n"
    assert ".detach()" in Path("b.py").read_text(encoding="utf-8")


# --- noqa ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('x = "GL201"\n', 'x = "GL201"  # noqa: GL201\n'),
        ('x = "GL201", "GL101", "GL201"\n', 'x = "GL201", "GL101", "GL201"  # noqa: GL101, GL201\n'),
        ('x = "GL201"  # noqa: E501\n', 'x = "GL201"  # noqa: E501, GL201\n'),
        ('x = "GL201"  # noqa:E501,W291 and why\n', 'x = "GL201"  # noqa:E501,W291, GL201 and why\n'),
        ('x = "GL201"  # type: ignore\n', 'x = "GL201"  # type: ignore  # noqa: GL201\n'),
        ('x = "GL201"   \n', 'x = "GL201"  # noqa: GL201   \n'),
        ('x = "GL201"', 'x = "GL201"  # noqa: GL201'),
        ('x = """\n"GL201"\n"""\n', 'x = """\n"GL201"\n"""  # noqa: GL201\n'),
        ('x = "GL201" + \\\n    "b"\n', 'x = "GL201" + \\\n    "b"  # noqa: GL201\n'),
        ('f(\n    "GL201",\n    3,\n)\n', 'f(\n    "GL201",  # noqa: GL201\n    3,\n)\n'),
        ('x = "GL201"  # noqa: GL201\n', 'x = "GL201"  # noqa: GL201\n'),
        ('x = "GL201"\r\ny = 2\r\n', 'x = "GL201"  # noqa: GL201\r\ny = 2\r\n'),
    ],
)
def test_a_comment_is_added_where_it_holds(project: Project, before: str, after: str) -> None:
    path = project.folder / "a.py"
    path.write_bytes(before.encode())
    code, out, err = project.check("--add-noqa")
    assert (code, err) == (0, "")
    assert path.read_bytes().decode() == after
    assert out == f"Suppressed {'0 findings' if before == after else _suppressed(before)} by noqa comments.\n"
    assert project.check()[:2] == (0, "No findings in 1 file.\n")


def _suppressed(text: str) -> str:
    count = text.count('"GL')
    return f"{count} finding{'' if count == 1 else 's'}"


def test_findings_without_a_place_for_a_comment_are_named(project: Project) -> None:
    project.write("a.py", 'x = "GL201"\n')
    project.write("b.py", "x = (\n")
    code, out, err = project.check("--add-noqa")
    assert (code, out) == (2, "Suppressed 1 finding by noqa comments.\n")
    assert "b.py:1:5: no comment can suppress GL001 here" in err


def test_comments_in_notebooks_stay_json(project: Project) -> None:
    (project.folder / "a.py").unlink()
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["%time f()\n", 'x = "GL201"\n', "y = 1"]}
    project.write("n.ipynb", json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert project.check("--add-noqa")[0] == 0
    stored = json.loads((project.folder / "n.ipynb").read_text(encoding="utf-8"))
    assert "".join(stored["cells"][0]["source"]) == '%time f()\nx = "GL201"  # noqa: GL201\ny = 1'


def test_what_the_baseline_knows_needs_no_comment(project: Project) -> None:
    project.accept()
    project.write("a.py", LOOP + '"GL203"\n')
    assert project.check("--add-noqa", "--baseline", "known.json")[1] == "Suppressed 1 finding by noqa comments.\n"
    assert (project.folder / "a.py").read_text(encoding="utf-8") == LOOP + '"GL203"  # noqa: GL203\n'


@pytest.mark.parametrize(
    "arguments", [["--add-noqa", "--fix"], ["--watch", "--write-baseline"], ["--show-files", "--add-noqa"]]
)
def test_one_thing_at_a_time(project: Project, arguments: list[str]) -> None:
    code, _, err = project.check(*arguments)
    assert code == 2
    assert "exclude each other" in err


def test_a_baseline_of_nested_brackets_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "known.json").write_text("[" * 100_000)
    (tmp_path / "a.py").write_text("import torch\n")
    known = str(tmp_path / "known.json")
    assert main(["--isolated", "--no-cache", "--baseline", known, str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"{known}: not a baseline that this version of gradlint can read: ")
