"""What a run comes to: the summary line and the statistics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from gradlint.finding import Applicability, Finding, Severity

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.STYLE: "style finding"}


def summary(findings: Sequence[Finding], files: int, left_out: int) -> str:
    """One line: how many findings of which severity, in how many files, and how many were left out."""
    by_severity = Counter(finding.severity for finding in findings)
    parts = [counted(by_severity[severity], noun) for severity, noun in _NOUNS.items() if by_severity[severity]]
    told = f"Found {_and(parts)}" if parts else "No findings"
    line = f"{told} in {counted(files, 'file')}"
    if left_out:
        line += f" ({counted(left_out, 'finding')} of rules that are off by default: --select ALL shows them)"
    line += "."
    return line + _mendable(findings)


def _mendable(findings: Sequence[Finding]) -> str:
    """How many of them which options mend, in all."""
    counts = Counter(finding.fix.applicability for finding in findings if finding.fix is not None)
    safe, every = counts[Applicability.SAFE], counts[Applicability.SAFE] + counts[Applicability.UNSAFE]
    if safe == 0:
        return f" --fix --unsafe-fixes mends {every} of them." if every else ""
    return f" --fix mends {safe} of them{f', --fix --unsafe-fixes {every}' if every > safe else ''}."


def statistics(findings: Sequence[Finding], output_format: str) -> str:
    """How often each code was found, the most frequent first."""
    counts = Counter((finding.code, finding.name) for finding in findings)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if output_format == "json":
        rows = [{"code": code, "name": name, "count": count} for (code, name), count in ranked]
        return json.dumps(rows, indent=2) + "\n"
    width = len(str(ranked[0][1])) if ranked else 0
    return "".join(f"{count:{width}}  {code}  {name}\n" for (code, name), count in ranked)


def counted(number: int, noun: str) -> str:
    """A number and what it is of."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
