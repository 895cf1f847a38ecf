"""The examples of the manual pages, executed under a guard: flagged with their code, clean in the correct form."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
import torch

import gradlint
from gradlint.finding import Finding
from gradlint.rule import Rule, all_rules
from gradlint.runtime import EVENTS

PREAMBLE = (Path(__file__).parents[1] / "preamble.py").read_text(encoding="utf-8")
WITNESSED = [rule for rule in all_rules() if rule.listens() and rule.listens() <= EVENTS]

each_rule = pytest.mark.parametrize(
    "rule",
    [
        pytest.param(
            rule,
            marks=pytest.mark.skipif(
                rule.code == "GL706" or (rule.code == "GL502" and not torch.cuda.is_available()),
                reason="the example needs a CUDA device, or two ranks, as test_replicas.py has them",
            ),
        )
        for rule in WITNESSED
    ],
    ids=lambda rule: rule.code,
)

#: What runs an example that only defines something.
DRIVEN_BY = {"GL401": "Head()(x)", "GL404": "Experts(8, 2)(x)"}


def snippet(rule: type[Rule], heading: str) -> str:
    """The Python block under a heading of the manual page."""
    found = re.search(rf"^## {heading}\n```python\n(.*?)```$", rule.page(), re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def watched(path: Path, source: str, rule: type[Rule]) -> list[Finding]:
    """What the default rules, and this one, find while ``source`` runs after the preamble."""
    path.write_text(f"{PREAMBLE}\n\n{source}\n{DRIVEN_BY.get(rule.code, '')}\n", encoding="utf-8")
    namespace = {"__name__": "example"}
    select = [other.code for other in all_rules() if other.default() or other is rule]
    raised = contextlib.suppress(RuntimeError, TypeError, AssertionError)
    with raised, gradlint.guard(on_finding="collect", select=select) as guard:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)  # noqa: S102  what is tested
    return guard.findings


def test_the_core_rules_have_a_runtime_witness() -> None:
    assert {"GL109", "GL201", "GL203"} <= {rule.code for rule in WITNESSED}


@each_rule
def test_the_example_is_flagged(rule: type[Rule], tmp_path: Path) -> None:
    findings = watched(tmp_path / "example.py", snippet(rule, "Example"), rule)
    assert [finding.code for finding in findings] == [rule.code]
    assert findings[0].location.row > PREAMBLE.count("\n") + 1


@each_rule
def test_the_correct_form_is_clean(rule: type[Rule], tmp_path: Path) -> None:
    assert watched(tmp_path / "example.py", snippet(rule, "Use instead"), rule) == []
