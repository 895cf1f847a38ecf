"""What a shell offers when a word is completed."""

from __future__ import annotations

from click.shell_completion import CompletionItem

from gradlint.finding import Effect
from gradlint.keys import KEYS


def selectors(incomplete: str) -> list[CompletionItem]:
    """Rules by code and name, effects and ALL."""
    from gradlint.rule import all_rules

    before, comma, word = incomplete.rpartition(",")
    found = [(rule.code, rule.summary()) for rule in all_rules()]
    found += [(rule.name, rule.summary()) for rule in all_rules()]
    found += [(f"effect:{effect.value}", f"rules whose mistakes do this: {effect.label}") for effect in Effect]
    found.append(("ALL", "every rule"))
    return [
        CompletionItem(f"{before}{comma}{name}", help=text)
        for name, text in found
        if name.lower().startswith(word.lower())
    ]


def rule_names(incomplete: str) -> list[CompletionItem]:
    """Rules by code and name."""
    return [item for item in selectors(incomplete) if ":" not in item.value and item.value != "ALL"]


def keys(incomplete: str) -> list[CompletionItem]:
    """The keys of the configuration."""
    return [CompletionItem(key.name, help=key.text.split(". ")[0]) for key in KEYS if key.name.startswith(incomplete)]
