"""What is generated while the site is built: the pages of the rules, their tables, and the changelog.

A hook of MkDocs.  Nothing of it is kept in the repository, so nothing of it can drift from the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import measurements  # beside this file, whose folder MkDocs puts on the path while it loads a hook
from mkdocs.structure.files import File, Files

from gradlint.keys import KEYS
from gradlint.manual import witnesses
from gradlint.rule import Rule, all_rules

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
GROUPS = {
    "GL0": "Files and comments",
    "GL1": "Graph",
    "GL2": "Training loop",
    "GL3": "Losses",
    "GL4": "Modules",
    "GL5": "NumPy and devices",
    "GL6": "Custom functions",
    "GL7": "While it trains",
    "GL9": "Older code",
}
FIXES = {
    "safe": "`gradlint --fix` applies it (safe)",
    "unsafe": "`gradlint --fix --unsafe-fixes` applies it (unsafe: look at the result)",
    None: "none: it needs a decision of yours",
}


def own_rules() -> list[type[Rule]]:
    """The rules that are gradlint's own, by code."""
    return [rule for rule in all_rules() if rule.__module__.startswith("gradlint.rules.")]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the rules into the navigation, behind the page that lists them."""
    assert config.nav is not None
    section = next(entry["Rules"] for entry in config.nav if "Rules" in entry)
    for prefix, title in GROUPS.items():
        section.append({title: [f"rules/{rule.name}.md" for rule in own_rules() if rule.code.startswith(prefix)]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each rule, and the changelog."""
    for rule in own_rules():
        files.append(File.generated(config, f"rules/{rule.name}.md", content=page(rule)))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content="---\nsearch: {exclude: true}\n---\n" + changelog))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the tables where a page asks for them."""
    texts: dict[str, Callable[[], str]] = {
        "rules": lambda: rule_tables(own_rules()),
        "measurements": lambda: measurements.tables(own_rules()),
        "keys": keys,
    }
    for marker, text in texts.items():
        asked = f"<!-- generated: {marker} -->"
        markdown = markdown.replace(asked, text()) if asked in markdown else markdown
    return markdown


def rule_tables(rules: Iterable[type[Rule]]) -> str:
    """The rules, a table for each group, with links to their pages."""
    rules = list(rules)
    parts = []
    for prefix, title in GROUPS.items():
        lines = [
            f"## {title}\n",
            "| code | what it reports | severity | effect | linter | guard | fix |",
            "|---|---|---|---|:-:|:-:|---|",
        ]
        lines += [_row(rule) for rule in rules if rule.code.startswith(prefix)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def keys() -> str:
    """What each key of the configuration means, as ``gradlint config`` explains it."""
    parts = []
    for key in KEYS:
        default = key.otherwise or f"`{json.dumps(key.default)}`"
        facts = f"Type: {key.kind.words}. Default: {default}"
        parts.append(f"### {key.name}\n\n{key.text}\n\n{facts}\n\n```toml\n[tool.gradlint]\n{key.example}\n```\n")
    return "\n".join(parts)


def _row(rule: type[Rule]) -> str:
    marks = ["✓" if name in witnesses(rule) else "–" for name in ("static", "runtime")]
    severity = rule.severity.value + ("" if rule.default() else "<br>opt-in")
    what = f"[{rule.name}]({rule.name}.md)<br>{rule.summary()}".replace("|", "\\|")
    return f"| {' | '.join([rule.code, what, severity, rule.effect.label, *marks, rule.fix or '–'])} |"


def page(rule: type[Rule]) -> str:
    """The page of a rule: what it is in a table, its manual page, and what was measured."""
    seen = witnesses(rule)
    facts = {
        "Severity": rule.severity.value,
        "Effect": rule.effect.label,
        "On by default": "yes" if rule.default() else f'no: `extend-select = ["{rule.code}"]` turns it on',
        "The linter": "reports it" if "static" in seen else "does not see it",
        "The guard": "reports it" if "runtime" in seen else "does not see it",
        "Fix": FIXES[rule.fix],
    }
    rows = "".join(f"| {name} | {value} |\n" for name, value in facts.items() if value)
    summary, _, rest = rule.page().partition("\n\n")
    silenced = ", ".join(rule.supersedes)
    beside = f"\nWhere it reports, {silenced} say nothing of the same mistake.\n" if silenced else ""
    parts = [
        f"---\nsearch: {{boost: 2}}\n---\n# {rule.name} ({rule.code})\n",
        summary + "\n",
        f"| | |\n|---|---|\n{rows}{beside}",
        rest + "\n",
        measurements.section(rule),
    ]
    return linked("\n".join(parts), rule)


def linked(text: str, rule: type[Rule]) -> str:
    """The text with links to the pages of the rules that it names; code, headings and links stay as they are."""
    names = {other.code: other.name for other in own_rules()} | {other.name: other.name for other in own_rules()}
    longest_first = sorted(names, key=len, reverse=True)
    kept = r"```.*?```|`[^`]*`|^#.*?$|!?\[[^\]]*\]\([^)]*\)"
    found = re.compile(rf"{kept}|(?<![\w-])({'|'.join(longest_first)})(?![\w-])", re.DOTALL | re.MULTILINE)

    def link(match: re.Match[str]) -> str:
        name = names.get(match[1] or "")
        return match[0] if name in (None, rule.name) else f"[{match[1]}]({name}.md)"

    return found.sub(link, text)
