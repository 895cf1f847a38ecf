"""What a run comes to: the summary line and the statistics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from gradlint.finding import Applicability, Effect, Finding, Severity

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.STYLE: "style finding"}
_VERBS = {
    Effect.WRONG_RESULT: ("gives a wrong result", "give a wrong result"),
    Effect.RAISES: ("raises", "raise"),
    Effect.WASTES: ("wastes memory or time", "waste memory or time"),
    Effect.STYLE: ("is a matter of style", "are a matter of style"),
}


def summary(findings: Sequence[Finding], files: int, left_out: int, known: int = 0) -> str:
    """One line: how many findings of which severity and effect, in how many files, and what is not shown.

    Args:
        findings: those that are shown.
        files: how many were checked.
        left_out: findings of rules that are off by default.
        known: findings of the baseline.
    """
    by_severity = Counter(finding.severity for finding in findings)
    parts = [counted(by_severity[severity], noun) for severity, noun in _NOUNS.items() if by_severity[severity]]
    told = f"Found {_and(parts)}" if parts else "No findings"
    by_effect = Counter(finding.effect for finding in findings)
    effects = [f"{by_effect[each]} {_VERBS[each][by_effect[each] > 1]}" for each in Effect if by_effect[each]]
    line = f"{told} in {counted(files, 'file')}{': ' if effects else ''}{', '.join(effects)}."
    if left_out:
        is_hidden = "is not shown: --select ALL shows it" if left_out == 1 else "are not shown: --select ALL shows them"
        line += f" {counted(left_out, 'finding')} of rules that are off by default {is_hidden}."
    if known:
        line += f" {counted(known, 'finding')} of the baseline {'is' if known == 1 else 'are'} not shown."
    return line + _fixable(findings)


def _fixable(findings: Sequence[Finding]) -> str:
    """How many of them which options fix, in all."""
    counts = Counter(finding.fix.applicability for finding in findings if finding.fix is not None)
    safe, every = counts[Applicability.SAFE], counts[Applicability.SAFE] + counts[Applicability.UNSAFE]
    if safe == 0:
        return f" --fix --unsafe-fixes fixes {every} of them." if every else ""
    return f" --fix fixes {safe} of them{f', --fix --unsafe-fixes {every}' if every > safe else ''}."


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
    """A number with its noun, in the plural where it is not one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
