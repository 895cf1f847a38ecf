"""The action for GitHub, the template for GitLab and what the documentation says of them: valid, and they work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
FLAGGED = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    loss = model(torch.randn(8, 2)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def shown(heading: str) -> str:
    """The YAML under a heading of the page."""
    return PAGE.split(f"## {heading}\n", 1)[1].split("```yaml\n", 1)[1].split("```", 1)[0]


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        pytest.param((ROOT / "action.yml").read_text(encoding="utf-8"), "github-actions", id="action"),
        pytest.param((ROOT / "docs/ci/gitlab.yml").read_text(encoding="utf-8"), "gitlab-ci", id="template"),
        pytest.param(shown("GitHub Actions"), "github-workflows", id="workflow"),
        pytest.param(shown("GitLab CI"), "gitlab-ci", id="include"),
    ],
)
def test_the_schema_accepts_it(text: str, schema: str, tmp_path: Path, run: Run) -> None:
    (tmp_path / "file.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    if schema == "gitlab-ci":
        command += ["--data-transform", "gitlab-ci"]
    done = run(*command, "file.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_inputs_that_the_page_names_are_those_of_the_action() -> None:
    declared = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    table = PAGE.split("| input | default |", 1)[1].split("\n\n", 1)[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(declared)
    step = YAML(typ="safe").load(shown("GitHub Actions"))["jobs"]["gradlint"]["steps"][-1]
    assert set(step["with"]) <= set(declared)


def resolved(value: str, inputs: dict[str, str]) -> str:
    """What the runner makes of the expressions in a value."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: inputs[match[1]], value)


def run_action(given: dict[str, str], workspace: Path, temporary: Path, source: Path, run: Run) -> Any:
    """Run the steps of the action as the runner does: shell, variables, the path that a step adds to."""
    action = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = {name: given.get(name, about["default"]) for name, about in action["inputs"].items()}
    path_file = temporary / "path"
    path_file.touch()
    done = None
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input in the script itself could say anything to the shell"
        (temporary / "step.sh").write_text(step["run"], encoding="utf-8")
        added = ":".join(reversed(path_file.read_text(encoding="utf-8").split()))
        environment = {name: resolved(value, inputs) for name, value in step.get("env", {}).items()}
        done = run(
            *("bash", "--noprofile", "--norc", "-eo", "pipefail", temporary / "step.sh"),
            cwd=workspace,
            RUNNER_TEMP=str(temporary),
            GITHUB_ACTION_PATH=str(source),
            GITHUB_PATH=str(path_file),
            PATH=f"{added}:{Path(sys.executable).parent}:/usr/bin:/bin",
            **environment,
        )
        if done.returncode != 0:
            return done
    return done


def test_the_action_installs_itself_and_annotates(
    snapshot: Path, index: None, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workspace, temporary = tmp_path_factory.mktemp("workspace"), tmp_path_factory.mktemp("runner")
    (workspace / "train.py").write_text(FLAGGED, encoding="utf-8")
    (workspace / "other.py").write_text(FLAGGED, encoding="utf-8")
    given = {"paths": "train.py $(id)", "args": "--select GL201"}
    refused = run_action(given, workspace, temporary, snapshot, run)
    assert refused.returncode == 2
    assert "$(id)" in refused.stderr, "what an input says is a path, not a command"

    found = run_action({"paths": "train.py", "args": "--select GL201"}, workspace, temporary, snapshot, run)
    assert found.returncode == 1, found.stderr
    annotations = [line for line in found.stdout.splitlines() if line.startswith("::")]
    assert len(annotations) == 1
    assert annotations[0].startswith("::error ")
    assert "file=train.py," in annotations[0]
    assert ",line=7," in annotations[0]

    clean = run_action({"args": "--select GL301"}, workspace, temporary, snapshot, run)
    assert clean.returncode == 0, clean.stdout + clean.stderr


def test_the_template_installs_what_it_is_told_and_fails_on_findings(
    snapshot: Path, index: None, run: Run, tmp_path: Path
) -> None:
    job = YAML(typ="safe").load((ROOT / "docs/ci/gitlab.yml").read_text(encoding="utf-8"))["gradlint"]
    (tmp_path / "train.py").write_text(FLAGGED, encoding="utf-8")
    made = run(sys.executable, "-m", "venv", tmp_path / "image", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    variables = {name: value.replace("$CI_PROJECT_DIR", str(tmp_path)) for name, value in job["variables"].items()}
    variables |= {"GRADLINT_PATHS": "train.py", "PATH": f"{tmp_path}/image/bin:/usr/bin:/bin"}
    script = "\n".join(["set -e", *job["before_script"], *job["script"]])

    untold = run("sh", "-c", script, cwd=tmp_path, **variables)
    assert untold.returncode != 0
    assert "GRADLINT_SOURCE: set it" in untold.stderr

    found = run("sh", "-c", script, cwd=tmp_path, **variables, GRADLINT_SOURCE=str(snapshot))
    assert found.returncode == 1, found.stdout + found.stderr
    kept = job["artifacts"]["reports"]["codequality"]
    (issue,) = json.loads((tmp_path / kept).read_text(encoding="utf-8"))
    assert (issue["check_name"], issue["location"]["path"]) == ("GL201 missing-zero-grad", "train.py")
