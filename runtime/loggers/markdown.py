"""A finding as Markdown, for pages that show it."""

from __future__ import annotations

from gradlint.finding import Finding


def as_markdown(finding: Finding) -> str:
    """Its message, the places of its story, and what to do."""
    lines = [f"**{finding.code} {finding.name}**: {finding.message}", f"- `{finding.location}`"]
    lines += [f"- `{other.location}`: {other.message}" for other in finding.related]
    if finding.remedy:
        lines.append(f"- help: {finding.remedy}")
    return "\n".join([lines[0], "", *lines[1:]])
