"""Rules that another package brings through the entry-point group ``gradlint.rules``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "gradlint-houserules"
version = "1.0"

[project.entry-points."gradlint.rules"]
houserules = "houserules"

[tool.setuptools]
py-modules = ["houserules"]
"""

HOUSERULES = '''\
from gradlint.events import Backward
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class Watched(Rule):
    """Backward passes are announced.

    ## What it does
    Announces each of them.
    """

    code = "HOUSE001"
    name = "watched"
    severity = Severity.WARNING
    effect = Effect.STYLE
    remedy = "nothing"

    @on(Backward)
    def announce(self, event):
        yield Violation("a backward pass", at=event.site)
'''

TRAIN = """\
import torch

model = torch.nn.Linear(2, 1)
loss = model(torch.randn(8, 2)).mean()
loss.backward()
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_rule_of_another_package_runs_and_is_listed(tmp_path: Path, run: Run) -> None:
    package, installed = tmp_path / "package", tmp_path / "site-packages"
    package.mkdir()
    (package / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (package / "houserules.py").write_text(HOUSERULES, encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", installed]
    done = run(*pip, package, cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    gradlint = [sys.executable, "-m", "gradlint"]
    listed = run(*gradlint, "rule", "--all", "--output-format", "json", cwd=tmp_path, PYTHONPATH=str(installed))
    rule = next(rule for rule in json.loads(listed.stdout) if rule["code"] == "HOUSE001")
    assert rule["name"] == "watched"
    assert rule["summary"] == "Backward passes are announced."

    checked = run(
        *gradlint, "train.py", "--isolated", "--output-format", "json", cwd=tmp_path, PYTHONPATH=str(installed)
    )
    assert checked.returncode == 1, checked.stderr
    assert [(f["code"], f["location"]["row"]) for f in json.loads(checked.stdout)] == [("HOUSE001", 5)]

    installed_rule = installed / "houserules.py"
    # of another length: python takes bytecode for up to date that is of the same second and size
    changed = HOUSERULES.replace("a backward pass", "quite another message")
    installed_rule.write_text(changed, encoding="utf-8")  # results that were kept are not those of this rule
    again = run(*gradlint, "train.py", "--isolated", "--output-format", "json", cwd=tmp_path, PYTHONPATH=str(installed))
    assert [f["message"] for f in json.loads(again.stdout)] == ["quite another message"]
