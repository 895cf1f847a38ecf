"""The command line: options, exit codes, and what goes where."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gradlint import __version__
from gradlint.cli import main
from gradlint.rule import all_rules


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def gradlint(
    tracer: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Runs the command line in an empty folder, with a tracer that reports every ``"GLnnn"`` it reads."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, **files: str) -> Outcome:
        for name, text in files.items():
            Path(name.replace("__", ".")).write_text(text, encoding="utf-8")
        code = main(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


Gradlint = Callable[..., Outcome]


def test_clean_files_exit_with_0(gradlint: Gradlint) -> None:
    assert gradlint("a.py", a__py="x = 1\n") == (0, "No findings in 1 file.\n", "")


def test_findings_exit_with_1(gradlint: Gradlint) -> None:
    outcome = gradlint("a.py", a__py='x = 1\ny = "GL201"\n')
    assert outcome.code == 1
    assert outcome.out == (
        'a.py:2:5: GL201 [missing-zero-grad] as asked\n2 | y = "GL201"\n  |     ^^^^^^^\n\n'
        "Found 1 error in 1 file: 1 gives a wrong result.\n"
    )


@pytest.mark.parametrize("arguments", [[], ["."], ["check"], ["check", "."], ["--", "a.py"], ["check", "a.py"]])
def test_check_is_what_happens_by_default(gradlint: Gradlint, arguments: list[str]) -> None:
    assert "GL201" in gradlint(*arguments, a__py='"GL201"\n').out


def test_a_folder_called_like_a_command_is_reached_as_a_path(gradlint: Gradlint, tmp_path: Path) -> None:
    (tmp_path / "rule").mkdir()
    (tmp_path / "rule/a.py").write_text('"GL201"\n', encoding="utf-8")
    assert "rule/a.py:1:1: GL201" in gradlint("./rule").out


def test_options_may_stand_first(gradlint: Gradlint) -> None:
    assert gradlint("--exit-zero", "a.py", a__py='"GL201"\n').code == 0


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        ([], ["GL101", "GL201"]),
        (["--select", "GL2"], ["GL201"]),
        (["--select", "GL2,data-read"], ["GL102", "GL201"]),
        (["--select", "GL201", "--select", "GL101"], ["GL101", "GL201"]),
        (["--select", "ALL", "--ignore", "data-mutation"], ["GL102", "GL201"]),
        (["--ignore", "GL1"], ["GL201"]),
        (["--extend-select", "GL102"], ["GL101", "GL102", "GL201"]),
    ],
)
def test_selection(gradlint: Gradlint, arguments: list[str], codes: list[str]) -> None:
    outcome = gradlint("a.py", "--output-format", "json", *arguments, a__py='"GL101", "GL102", "GL201"\n')
    assert [finding["code"] for finding in json.loads(outcome.out)] == codes


def test_findings_hidden_by_a_default_are_counted_unless_somebody_chose(gradlint: Gradlint) -> None:
    assert " 1 finding of rules that are off by default is not shown" in gradlint("a.py", a__py='"GL102"\n').out
    assert "off by default" not in gradlint("a.py", "--select", "GL2").out
    assert "off by default" not in gradlint("a.py", "--ignore", "GL102").out


def test_rules_nobody_wants_are_not_looked_for(gradlint: Gradlint, tracer: list[dict[str, Any]]) -> None:
    gradlint("a.py", "--select", "GL2", a__py="")
    assert tracer[0]["rules"] == {rule.code for rule in all_rules() if rule.code.startswith("GL2")}


def test_output_formats(gradlint: Gradlint) -> None:
    assert gradlint("--output-format", "concise", a__py='"GL201"\n').out == (
        "a.py:1:1: GL201 [missing-zero-grad] as asked\nFound 1 error in 1 file: 1 gives a wrong result.\n"
    )
    assert gradlint("--output-format", "github").out == (
        "::error file=a.py,title=GL201 missing-zero-grad,line=1,col=1,endColumn=8::as asked\n"
    )


def test_quiet_tells_the_findings_only(gradlint: Gradlint) -> None:
    outcome = gradlint("--quiet", "--output-format", "concise", a__py='"GL201"\n')
    assert outcome == (1, "a.py:1:1: GL201 [missing-zero-grad] as asked\n", "")


def test_verbose_tells_files_notes_and_time_on_standard_error(gradlint: Gradlint) -> None:
    outcome = gradlint("-v", a__py="", gradlint__toml="")
    assert outcome.out == "No findings in 1 file.\n"
    for told in ("configuration: gradlint.toml", "checked a.py", "a note of the tracer", "1 file in "):
        assert told in outcome.err


def test_statistics_stand_instead_of_the_findings(gradlint: Gradlint) -> None:
    outcome = gradlint("--statistics", a__py='"GL201"\n"GL201"\n"GL101"\n')
    assert outcome == (
        1,
        "2  GL201  missing-zero-grad\n1  GL101  data-mutation\nFound 3 errors in 1 file: 3 give a wrong result.\n",
        "",
    )
    counted = json.loads(gradlint("--statistics", "--output-format", "json").out)
    assert counted[0] == {"code": "GL201", "name": "missing-zero-grad", "count": 2}


def test_json_names_files_absolutely(gradlint: Gradlint, tmp_path: Path) -> None:
    (finding,) = json.loads(gradlint("a.py", "--output-format", "json", a__py='"GL201"\n').out)
    assert finding["filename"] == str(tmp_path / "a.py")


def test_standard_input(gradlint: Gradlint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def feed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    feed('"GL201"\n')
    assert gradlint("-", "--stdin-filename", "src/b.py", "--output-format", "concise").out.startswith(
        "src/b.py:1:1: GL201"
    )
    feed('"GL201"\n')
    assert '1 | "GL201"\n' in gradlint("-").out
    feed("(\n")
    assert "GL001 [syntax-error]" in gradlint("-", "--stdin-filename", "b.py").out
    feed('"GL201"\n')
    assert gradlint("-", "--force-exclude", "--stdin-filename", "build/b.py").code == 0
    assert gradlint("-", "a.py", a__py="").code == 2


def test_a_file_that_cannot_be_parsed_is_a_finding_and_the_run_goes_on(gradlint: Gradlint) -> None:
    outcome = gradlint("--output-format", "concise", a__py="def f(:\n", b__py='"GL201"\n', c__py="x = 'é'\n")
    assert outcome.code == 1
    first, second, _ = outcome.out.splitlines()
    assert first.startswith("a.py:1:7: GL001 [syntax-error] ")
    assert second.startswith("b.py:1:1: GL201")


def test_a_file_that_cannot_be_decoded_is_a_finding(gradlint: Gradlint, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x = 1\ny = '\xff'\n")
    assert "a.py:2:" in gradlint("--output-format", "concise").out


def test_a_crash_costs_no_findings_of_other_files(gradlint: Gradlint) -> None:
    outcome = gradlint("--output-format", "concise", a__py='"GL201"\n', b__py="crash\n", c__py='"GL101"\n')
    assert outcome.code == 2
    assert [line.split()[1] for line in outcome.out.splitlines()[:2]] == ["GL201", "GL101"]
    assert "b.py: internal error: ZeroDivisionError: as asked" in outcome.err
    assert "Traceback" not in outcome.err
    assert "Traceback" in gradlint("-v").err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.py"], "gradlint: missing.py: no such file or folder"),
        (["--nonsense"], "gradlint check: No such option"),
        (["--output-format", "xml"], "gradlint check: Invalid value for '--output-format'"),
        (["--select", "GL299"], "gradlint: --select: no rule is called 'GL299'"),
        (["--ignore", "zero-gard"], "gradlint: --ignore: no rule is called 'zero-gard'"),
        (["--config", "none.toml"], "none.toml: no such configuration file"),
        (["--config", "a.toml", "--isolated"], "gradlint check: --config and --isolated exclude each other"),
        (["rule"], "gradlint rule: name a rule, or use --all"),
        (["rule", "GL299"], "gradlint rule: no rule is called 'GL299'"),
        (["rule", "GL2"], "gradlint rule: 'GL2' means several rules"),
        ([""], "gradlint check: Invalid value for '[PATH]…': its name is empty"),
        (["clean", ""], "gradlint clean: Invalid value for '[PATH]': its name is empty"),
        *(
            ([option, ""], f"gradlint check: Invalid value for '{option}': its name is empty")
            for option in ("--baseline", "--config", "--cache-dir", "--stdin-filename")
        ),
        (["--output-file", ""], "gradlint check: Invalid value for '--output-file' / '-o': its name is empty"),
        (["run", "--html", "", "train.py"], "gradlint run: Invalid value for '--html': its name is empty"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(gradlint: Gradlint, arguments: list[str], told: str) -> None:
    outcome = gradlint(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith(told)
    assert outcome.err.count("\n") == 1


def test_bad_configuration_is_told_with_file_and_key(gradlint: Gradlint, tmp_path: Path) -> None:
    outcome = gradlint(gradlint__toml="selekt = []\n", a__py="")
    assert outcome.code == 2
    assert f"{tmp_path / 'gradlint.toml'}: unknown key 'selekt'" in outcome.err
    outcome = gradlint(gradlint__toml="select = ['GL299']\n")
    assert f"{tmp_path / 'gradlint.toml'}: select: no rule is called 'GL299'" in outcome.err
    outcome = gradlint(gradlint__toml="per-file-ignores = { a = ['GL299'] }\n")
    assert f"{tmp_path / 'gradlint.toml'}: per-file-ignores: no rule is called 'GL299'" in outcome.err


def test_a_missing_path_does_not_cost_the_others(gradlint: Gradlint) -> None:
    outcome = gradlint("missing.py", "a.py", a__py='"GL201"\n')
    assert outcome.code == 2
    assert "GL201" in outcome.out


def test_nothing_to_check_is_said(gradlint: Gradlint) -> None:
    assert gradlint() == (0, "No findings in 0 files.\n", "gradlint: no Python files or notebooks found\n")


def test_each_file_is_checked_under_the_nearest_configuration(gradlint: Gradlint, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/gradlint.toml").write_text("ignore = ['GL201']\n", encoding="utf-8")
    (tmp_path / "sub/b.py").write_text('"GL101", "GL201"\n', encoding="utf-8")
    outcome = gradlint("--output-format", "json", a__py='"GL101", "GL201"\n')
    found = [(Path(finding["filename"]).name, finding["code"]) for finding in json.loads(outcome.out)]
    assert found == [("a.py", "GL101"), ("a.py", "GL201"), ("b.py", "GL101")]
    assert len(json.loads(gradlint("--output-format", "json", "--isolated").out)) == 4


def test_the_configuration_sets_format_and_ignores_per_file(gradlint: Gradlint) -> None:
    outcome = gradlint(
        gradlint__toml="output-format = 'concise'\n[per-file-ignores]\n'a.py' = ['GL1', 'missing-zero-grad']\n",
        a__py='"GL101", "GL201"\n',
        b__py='"GL201"\n',
    )
    assert (
        outcome.out
        == "b.py:1:1: GL201 [missing-zero-grad] as asked\nFound 1 error in 2 files: 1 gives a wrong result.\n"
    )


def test_suppression(gradlint: Gradlint) -> None:
    text = '"GL201"  # noqa: GL201\n"GL201"  # gradlint: ignore[GL299]\n"GL102"  # noqa\n'
    outcome = gradlint("--output-format", "concise", a__py=text)
    assert outcome.out.splitlines() == [
        "a.py:2:1: GL201 [missing-zero-grad] as asked",
        "a.py:2:29: GL003 [unknown-code] no rule is called 'GL299'",
        "Found 1 error and 1 warning in 1 file: 1 gives a wrong result, 1 is a matter of style.",
    ]
    skipped = gradlint("--output-format", "concise", a__py="# gradlint: skip-file\n" + text)
    assert skipped.out == "No findings in 1 file.\n"


def test_unused_suppressions_are_reported_on_request(gradlint: Gradlint) -> None:
    outcome = gradlint("--extend-select", "GL002", "--output-format", "concise", a__py="x = 1  # noqa: GL201\n")
    assert outcome.out.startswith("a.py:1:16: GL002 [unused-suppression] GL201 suppresses nothing here\n")


def notebook(*cells: str) -> str:
    made = [
        {"cell_type": "markdown", "metadata": {}, "source": ["a heading"]},
        *({"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)} for cell in cells),
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_findings_and_suppressions_in_notebooks_are_by_cell(gradlint: Gradlint) -> None:
    text = notebook('%matplotlib inline\n"GL201"\n', '"GL201"  # noqa: GL201\n"GL101"\n', "x = (\n", "y = 1\n")
    outcome = gradlint("n.ipynb", n__ipynb=text)
    assert outcome.out.splitlines()[:3] == [
        "n.ipynb:cell 2:2:1: GL201 [missing-zero-grad] as asked",
        '2 | "GL201"',
        "  | ^^^^^^^",
    ]
    assert "n.ipynb:cell 3:2:1: GL101 [data-mutation] as asked\n" in outcome.out
    assert "n.ipynb:cell 4:1:" in outcome.out
    assert outcome.out.endswith("Found 3 errors in 1 file: 2 give a wrong result, 1 raises.\n")
    listed = json.loads(gradlint("n.ipynb", "--output-format", "json").out)
    assert [(finding["code"], finding["cell"], finding["location"]["row"]) for finding in listed] == [
        ("GL201", 2, 2),
        ("GL101", 3, 2),
        ("GL001", 4, 1),
    ]


def test_a_notebook_that_is_no_json_is_a_finding(gradlint: Gradlint) -> None:
    assert gradlint("--output-format", "concise", n__ipynb="{").out.startswith("n.ipynb:1:2: GL001 [syntax-error] not")


def test_colour_goes_to_terminals_or_where_it_is_forced(gradlint: Gradlint, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in gradlint(a__py='"GL201"\n').out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in gradlint().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in gradlint().out


def test_rule_prints_the_manual_page(gradlint: Gradlint) -> None:
    by_code, by_name = gradlint("rule", "GL201"), gradlint("rule", "missing-zero-grad")
    assert by_code == by_name
    assert by_code.code == 0
    assert by_code.out.startswith(
        "# missing-zero-grad (GL201)\n\nSeverity: error · effect: wrong result · selected by default · "
    )
    assert "## Use instead" in by_code.out


def test_rule_lists_every_rule(gradlint: Gradlint) -> None:
    listed = json.loads(gradlint("rule", "--all", "--output-format", "json").out)
    assert [rule["code"] for rule in listed] == [rule.code for rule in all_rules()]
    assert list(listed[0]) == ["code", "name", "severity", "effect", "default", "witnesses", "fix", "summary"]
    assert all(rule["witnesses"] for rule in listed)
    text = gradlint("rule", "--all").out
    assert all(f"{rule.code}  {rule.name} " in text for rule in all_rules())


def test_version(gradlint: Gradlint) -> None:
    assert gradlint("--version") == (0, f"gradlint {__version__}\n", "")


def test_help_names_the_commands_and_options(gradlint: Gradlint) -> None:
    assert "check" in gradlint("--help").out
    assert "--extend-select" in gradlint("check", "-h").out


def test_python_m_gradlint(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gradlint", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"gradlint {__version__}\n"


def test_a_run_does_not_look_for_garbage_in_what_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    program = (
        "import gc, sys\n"
        "from gradlint.__main__ import main\n"
        "sys.argv = ['gradlint', '--isolated', '--no-cache', 'a.py']\n"
        "assert main() == 0\n"
        "print('frozen:', gc.get_freeze_count() > 10_000, 'left:', len(gc.get_objects()) < 1_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "frozen: True left: True"


def test_names_and_text_no_terminal_can_show_do_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "ü.py").write_text('x = "你好" +\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "gradlint", "--isolated", "."],
        cwd=tmp_path,
        capture_output=True,
        env={"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert b"\xfc.py:1:" in done.stdout
    assert b'1 | x = "\\u4f60\\u597d" +' in done.stdout


def test_a_reader_that_has_seen_enough_is_no_finding(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("(\n", encoding="utf-8")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "gradlint", "--isolated", "a.py"],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.parametrize("options", [(), ("--output-format", "concise"), ("--statistics",)])
def test_where_no_file_could_be_checked_nothing_is_summed_up(gradlint: Gradlint, options: tuple[str, ...]) -> None:
    assert gradlint("missing", *options) == (2, "", "gradlint: missing: no such file or folder\n")
    assert gradlint("missing", "a.py", *options, a__py="x = 1\n").out == "No findings in 1 file.\n"


def test_one_file_is_called_one(gradlint: Gradlint) -> None:
    assert "gradlint: 1 file in " in gradlint("--verbose", "a.py", a__py="x = 1\n").err
    assert "gradlint: 2 files in " in gradlint("--verbose", "a.py", "b.py", b__py="x = 1\n").err
