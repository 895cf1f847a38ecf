"""The rules as a catalogue: metadata, manual pages, and examples that are what they say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from fixture_cases import cases_of

from gradlint.events import Event
from gradlint.finding import Effect, Severity
from gradlint.manual import witnesses
from gradlint.rule import Rule, all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project

TESTS = Path(__file__).parent
PREAMBLE = (TESTS / "preamble.py").read_text(encoding="utf-8")
HEADINGS = [
    "What it does",
    "Why is this bad",
    "Example",
    "Use instead",
    "At runtime",
    "Stays silent on",
    "References",
]
OWN = [rule for rule in all_rules() if rule.__module__.startswith("gradlint.rules.")]

each_rule = pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.code)
#: the linter's own codes (GL0xx) speak about the text of a file; tests of suppression and of the engine show them
each_rule_over_events = pytest.mark.parametrize(
    "rule", [rule for rule in OWN if not rule.code.startswith("GL0")], ids=lambda rule: rule.code
)

each_rule_of_the_linter = pytest.mark.parametrize(
    "rule", [rule for rule in OWN if rule.listens() and "static" in witnesses(rule)], ids=lambda rule: rule.code
)


def snippet(rule: type[Rule], heading: str) -> str:
    """The Python block under a heading of the manual page."""
    found = re.search(rf"^## {heading}\n```python\n(.*?)```$", rule.page(), re.DOTALL | re.MULTILINE)
    assert found, f"{rule.code}: no Python block directly under '## {heading}'"
    return found[1]


def codes(folder: Path, source: str, rule: type[Rule]) -> list[str]:
    """The codes of what the default rules, and this one, say about the source after the preamble."""
    from gradlint.static.drive.analysis import analyze
    from gradlint.static.text.project import Project

    path = folder / "example.py"
    path.write_text(PREAMBLE + "\n\n" + source, encoding="utf-8")
    first = PREAMBLE.count("\n") + 1
    findings = analyze(
        Project([folder]), [path], [other for other in all_rules() if other.default() or other is rule]
    ).findings
    assert all(finding.location.row > first for finding in findings), "the preamble itself must be clean"
    return [finding.code for finding in findings]


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in OWN}) == len(OWN)
    assert len({rule.name for rule in OWN}) == len(OWN)


@each_rule
def test_the_file_is_named_by_the_slug(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.__module__ == "gradlint.rules." + rule.name.replace("-", "_")
    assert rule.__name__.lower() == rule.name.replace("-", "")


@each_rule
def test_the_manual_page_has_its_headings_in_order(rule: type[Rule]) -> None:
    headings = re.findall(r"^## (.+)$", rule.page(), re.MULTILINE)
    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert set(HEADINGS) - set(headings) <= {"At runtime"}
    assert all(len(line) <= 120 or "](http" in line for line in rule.page().splitlines())


@each_rule
def test_the_effect_is_said(rule: type[Rule]) -> None:
    assert isinstance(rule.effect, Effect)
    assert "effect" in vars(rule)  # said for this rule, not taken over from another


@each_rule
def test_the_summary_is_one_sentence(rule: type[Rule]) -> None:
    summary = rule.summary()
    assert summary.endswith(".")
    assert len(re.findall(r"[.!?](?= [A-Z])", summary)) == 0
    assert len(summary) <= 110


@each_rule
def test_the_remedy_fits_a_line(rule: type[Rule]) -> None:
    assert rule.remedy
    assert len(rule.remedy) <= 100
    assert not rule.remedy.endswith(".")


@each_rule_over_events
def test_the_rule_listens_to_something(rule: type[Rule]) -> None:
    assert rule.listens()
    assert all(issubclass(event, Event) for event in rule.listens())


@each_rule
def test_what_is_superseded_exists(rule: type[Rule]) -> None:
    assert set(rule.supersedes) <= {other.code for other in all_rules()} - {rule.code}


@each_rule_over_events
def test_snippets_parse(rule: type[Rule]) -> None:
    for heading in ("Example", "Use instead"):
        ast.parse(snippet(rule, heading))


@each_rule_over_events
def test_the_rule_has_fixtures_of_both_kinds(rule: type[Rule]) -> None:
    cases = cases_of(rule.name.replace("-", "_"))
    flagged = [case for case in cases if any(rule.code == code for *_, code in case.marks)]
    assert flagged
    assert len(flagged) < len(cases)


@each_rule_of_the_linter
def test_the_example_is_flagged(rule: type[Rule], tmp_path: Path) -> None:
    assert codes(tmp_path, snippet(rule, "Example"), rule) == [rule.code]


@each_rule_of_the_linter
def test_the_correct_form_is_clean(rule: type[Rule], tmp_path: Path) -> None:
    assert codes(tmp_path, snippet(rule, "Use instead"), rule) == []


def test_a_rule_that_does_not_say_its_effect_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rule XX001 .*Silent.* does not say its effect: set it to one of Effect\."):
        type("Silent", (Rule,), {"code": "XX001", "name": "silent", "severity": Severity.ERROR})


@pytest.mark.parametrize("layer", ["nn.Linear(3, 3)", "nn.BatchNorm1d(3)"])
def test_what_is_said_of_layers_built_in_the_forward_pass_is_true_of_norms(layer: str, tmp_path: Path) -> None:
    text = f"from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return {layer}(x)\n"
    (tmp_path / "main.py").write_text(text)
    rules = [rule for rule in all_rules() if rule.code == "GL405"]
    (finding,) = analyze(Project([tmp_path]), [tmp_path / "main.py"], rules).findings
    assert finding.message.endswith(
        "is built in each forward pass: its parameters are new every time and never trained"
    )
