"""Which rules take part in a run: ``--select GL2``, ``ignore = ["data-read"]`` and their like.

A selector is a code (``GL201``), a prefix of codes (``GL2``), a slug (``missing-zero-grad``), what a mistake does
(``effect:wrong-result``, ``effect:raises``, ``effect:wastes``, ``effect:style``) or ``ALL``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradlint.finding import Effect
from gradlint.refusal import Refusal

if TYPE_CHECKING:
    from gradlint.rule import Rule

EVERYTHING = "ALL"
EFFECT = "effect:"


@dataclass(frozen=True, slots=True)
class Choice:
    """What one place (a configuration file, the command line) says about rules."""

    origin: str = ""  #: what stands before the key when a selector is unknown: "gradlint: --"
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The codes whose findings are shown, and those whose findings are only counted."""

    shown: frozenset[str]
    counted: frozenset[str] = frozenset()


def matching(selector: str, rules: Iterable[type[Rule]]) -> frozenset[str]:
    """The codes of ``rules`` that ``selector`` means; empty when it is unknown."""
    if selector.upper() == EVERYTHING:
        return frozenset(rule.code for rule in rules)
    if selector.lower().startswith(EFFECT):
        return frozenset(rule.code for rule in rules if f"{EFFECT}{rule.effect.value}" == selector.lower())
    prefix = selector.upper()
    named = frozenset(rule.code for rule in rules if rule.name == selector.lower())
    return named or frozenset(rule.code for rule in rules if prefix and rule.code.startswith(prefix))


def resolve(choices: Iterable[Choice], rules: Sequence[type[Rule]]) -> Selection:
    """Apply ``choices`` in order, each over the outcome of those before it.

    A ``select`` starts afresh.  Within one choice the more specific selector wins (a code or slug over a longer
    prefix over a shorter one over an effect over ``ALL``), and ``ignore`` wins between equals.

    Raises:
        Refusal: a selector that means no rule.
    """
    shown = frozenset(rule.code for rule in rules if rule.default())
    counted = frozenset(rule.code for rule in rules if not rule.default())
    for choice in choices:
        if choice.select is not None:
            shown = counted = frozenset()
        wanted = [(selector, codes_of(selector, rules, choice.origin, "select")) for selector in choice.select or ()]
        wanted += [
            (selector, codes_of(selector, rules, choice.origin, "extend-select")) for selector in choice.extend_select
        ]
        unwanted = [(selector, codes_of(selector, rules, choice.origin, "ignore")) for selector in choice.ignore]
        for width in sorted({breadth(s, codes) for s, codes in (*wanted, *unwanted)}, reverse=True):
            shown = shown.union(*(codes for s, codes in wanted if breadth(s, codes) == width))
            shown = shown.difference(*(codes for s, codes in unwanted if breadth(s, codes) == width))
        counted = counted.difference(*(codes for _, codes in unwanted))
    return Selection(shown, counted - shown)


def codes_of(selector: str, rules: Sequence[type[Rule]], origin: str, key: str) -> frozenset[str]:
    """The codes ``selector`` means.

    Raises:
        Refusal: when it means none, naming ``origin`` and ``key``.
    """
    codes = matching(selector, rules)
    if codes:
        return codes
    effects = [f"{EFFECT}{effect.value}" for effect in Effect]
    near = difflib.get_close_matches(selector.lower(), [*effects, *(rule.name for rule in rules)], 1)
    near = near or difflib.get_close_matches(selector.upper(), [rule.code for rule in rules], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise Refusal(f"{origin}{key}: no rule is called {selector!r}{hint}")


def breadth(selector: str, codes: frozenset[str]) -> int:
    """Smaller is more specific: codes and slugs 0, longer prefixes before shorter ones, effects, ``ALL`` last."""
    upper = selector.upper()
    if upper == EVERYTHING:
        return 1000
    if selector.lower().startswith(EFFECT):
        return 500
    return 0 if upper in codes or not any(code.startswith(upper) for code in codes) else 100 - len(selector)
