"""The code quality report of GitLab."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gradlint.finding import Finding, Severity
from gradlint.identity import Identities, relative
from gradlint.output.machine import json_text
from gradlint.output.positions import Positions
from gradlint.output.reports import Material

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.STYLE: "minor"}
_ROOT = "CI_PROJECT_DIR"  #: the environment variable by which GitLab names the root of the repository


def as_gitlab(material: Material) -> str:
    """All findings; paths are relative to the root of the repository, which is the current folder outside of GitLab."""
    root = Path(os.environ.get(_ROOT) or material.cwd)
    positions = Positions(material.read)
    issues = [
        _issue(finding, identity.fingerprint(number), root, positions)
        for finding, identity, number in Identities(material.read, root).numbered(material.findings)
    ]
    return json_text(issues)


def _issue(finding: Finding, fingerprint: str, root: Path, positions: Positions) -> dict[str, Any]:
    span = positions.of(finding.location)
    return {
        "type": "issue",
        "check_name": f"{finding.code} {finding.name}",
        "description": f"{finding.code} {positions.cell(finding.location)}{finding.message}",
        "categories": ["Style" if finding.severity is Severity.STYLE else "Bug Risk"],
        "severity": _SEVERITIES[finding.severity],
        "fingerprint": fingerprint,
        "location": {
            "path": relative(finding.location.filename, root),
            "lines": {"begin": span.row, "end": span.end_row},
        },
    }
