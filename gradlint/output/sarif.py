"""SARIF 2.1.0, the interchange format of static analysis, within the limits of GitHub's code scanning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gradlint import __version__
from gradlint.finding import Edit, Finding, Fix, Location, Severity
from gradlint.identity import Identities, relative
from gradlint.output.machine import json_text
from gradlint.output.positions import Positions
from gradlint.output.reports import Material
from gradlint.output.summary import counted

if TYPE_CHECKING:
    from gradlint.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: beyond these GitHub refuses a file, or leaves the rest out
MOST_RESULTS, MOST_RELATED, LONGEST_TEXT = 25_000, 100, 1000
ROOT = "SRCROOT"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.STYLE: "note"}
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.STYLE: "recommendation"}
_GRAVEST_FIRST = list(Severity)


def as_sarif(material: Material) -> str:
    """All findings, with the rules they are of."""
    kept = _kept(material.findings)
    described = _rules(kept)
    positions = Positions(material.read)
    index = {rule["id"]: place for place, rule in enumerate(described)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "gradlint",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": described,
            }
        },
        "originalUriBaseIds": {ROOT: {"uri": _file_uri(material.cwd) + "/"}},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(material, left_out=len(material.findings) - len(kept))],
        "results": [
            _result(finding, index, identity.fingerprint(number), material, positions)
            for finding, identity, number in Identities(material.read, material.cwd).numbered(kept)
        ],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_text(log)


def _kept(findings: Sequence[Finding]) -> Sequence[Finding]:
    """As many findings as GitHub takes: where there are more, the gravest."""
    if len(findings) <= MOST_RESULTS:
        return findings
    ranked = sorted(range(len(findings)), key=lambda place: _GRAVEST_FIRST.index(findings[place].severity))
    return [findings[place] for place in sorted(ranked[:MOST_RESULTS])]


def _invocation(material: Material, left_out: int) -> dict[str, Any]:
    notes = [{"level": "error", "message": {"text": trouble}} for trouble in material.troubles]
    if left_out:
        text = f"{counted(left_out, 'finding')} left out: GitHub takes {MOST_RESULTS} at most"
        notes.append({"level": "warning", "message": {"text": text}})
    return {"executionSuccessful": not material.troubles, "toolExecutionNotifications": notes}


def _rules(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    from gradlint.rule import all_rules

    codes = {finding.code for finding in findings}
    return [_rule(rule) for rule in all_rules() if rule.code in codes]


def _rule(rule: type[Rule]) -> dict[str, Any]:
    from gradlint.manual import page, witnesses

    return {
        "id": rule.code,
        "name": rule.__name__,
        "shortDescription": {"text": rule.summary()},
        "fullDescription": {"text": _shortened(f"{rule.summary()} {rule.why()}".strip())},
        "help": {"text": page(rule), "markdown": page(rule)},
        "defaultConfiguration": {"enabled": rule.default(), "level": _LEVELS[rule.severity]},
        "properties": {
            "tags": ["pytorch", "autograd", rule.name, rule.effect.value],
            "problem.severity": _PROBLEMS[rule.severity],
            "slug": rule.name,
            "effect": rule.effect.value,
            "fix": rule.fix or "none",
            "witnesses": list(witnesses(rule)),
        },
    }


def _result(
    finding: Finding, index: dict[str, int], fingerprint: str, material: Material, positions: Positions
) -> dict[str, Any]:
    text = positions.cell(finding.location) + finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        **({"ruleIndex": index[finding.code]} if finding.code in index else {}),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{text}\n{finding.remedy}" if finding.remedy else text},
        "locations": [{"physicalLocation": _physical(finding.location, material, positions)}],
        "partialFingerprints": {"gradlint/v1": fingerprint},
        "properties": {"severity": finding.severity.value, "effect": finding.effect.value if finding.effect else None},
    }
    if finding.related:
        result["relatedLocations"] = [
            {
                "id": number,
                "message": {"text": positions.cell(other.location) + other.message},
                "physicalLocation": _physical(other.location, material, positions),
            }
            for number, other in enumerate(finding.related[:MOST_RELATED])
        ]
    if finding.fix and all(edit.location.cell is None for edit in finding.fix.edits):
        result["fixes"] = [_fix(finding.fix, material, positions)]
    return result


def _fix(fix: Fix, material: Material, positions: Positions) -> dict[str, Any]:
    """A fix; those of notebooks are left out, because what they would replace is JSON."""
    by_file: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_file.setdefault(edit.location.filename, []).append(edit)
    return {
        "description": {"text": f"{fix.message} ({fix.applicability.value} fix)"},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(filename, material.cwd),
                "replacements": [
                    {"deletedRegion": _region(edit.location, positions), "insertedContent": {"text": edit.content}}
                    for edit in sorted(edits)
                ],
            }
            for filename, edits in sorted(by_file.items())
        ],
    }


def _physical(place: Location, material: Material, positions: Positions) -> dict[str, Any]:
    return {"artifactLocation": _artifact(place.filename, material.cwd), "region": _region(place, positions)}


def _region(place: Location, positions: Positions) -> dict[str, int]:
    span = positions.of(place)
    return {
        "startLine": span.row,
        "startColumn": span.column,
        "endLine": span.end_row,
        "endColumn": span.end_column,
    }


def _artifact(filename: str, cwd: Path) -> dict[str, str]:
    path = relative(filename, cwd)
    if Path(path).is_absolute():
        return {"uri": _file_uri(Path(filename))}
    return {"uri": quote(path, errors="surrogateescape"), "uriBaseId": ROOT}


def _file_uri(path: Path) -> str:
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
