"""The manual: what ``gradlint rule`` prints, and the rule table of the README."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gradlint.protocol import Violating
from gradlint.refusal import Refusal
from gradlint.selection import codes_of

if TYPE_CHECKING:
    from gradlint.events import Event
    from gradlint.protocol import Protocol
    from gradlint.rule import Rule


def witnesses(rule: type[Rule]) -> tuple[str, ...]:
    """Which witnesses can see what the rule is about: ``static``, ``runtime`` or both.

    A check needs any event it is written over, a protocol one of those that it judges, and all others but those that
    only ever bring it back to its start (a witness in whose view such a thing makes a new subject has nothing to
    send).  A rule that listens to no event speaks about the source text itself, which only the linter reads.
    """
    if not rule.listens():
        return ("static",)
    return tuple(
        name
        for name in ("static", "runtime")
        if not _sent_by(name).isdisjoint(rule.checks)
        or any(_is_fed(protocol, _sent_by(name)) for protocol in rule.protocols)
    )


def _is_fed(protocol: Protocol, sent: frozenset[type[Event]]) -> bool:
    goes_on = frozenset(
        event
        for (_, event), target in protocol.transitions.items()
        if target != protocol.start.state and not isinstance(target, Violating)
    )
    return goes_on <= sent and not protocol.judged.isdisjoint(sent)


def _sent_by(witness: str) -> frozenset[type[Event]]:
    sent: frozenset[type[Event]] = importlib.import_module(f"gradlint.{witness}").EVENTS
    return sent


def find(name: str, rules: Sequence[type[Rule]]) -> type[Rule]:
    """The rule with this code or slug.

    Raises:
        Refusal: there is none.
    """
    for rule in rules:
        if name.upper() == rule.code or name.lower() == rule.name:
            return rule
    if codes_of(name, rules, "gradlint ", "rule"):
        raise Refusal(f"gradlint rule: {name!r} means several rules: name one, or use --all")
    raise AssertionError("codes_of raises when nothing matches")


def describe(rule: type[Rule]) -> dict[str, Any]:
    """A rule as JSON tells it."""
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "effect": rule.effect.value,
        "default": rule.default(),
        "witnesses": list(witnesses(rule)),
        "fix": rule.fix,
        "summary": rule.summary(),
    }


def page(rule: type[Rule]) -> str:
    """The manual page of a rule, as Markdown."""
    facts = [
        f"Severity: {rule.severity.value}",
        f"effect: {rule.effect.label}",
        "selected by default" if rule.default() else "not selected by default",
        f"seen by: {', '.join(_SEEN_BY[name] for name in witnesses(rule))}",
        f"fix: {rule.fix or 'none'}",
    ]
    return f"# {rule.name} ({rule.code})\n\n{' · '.join(facts)}\n\n{rule.page()}\n"


_SEEN_BY = {"static": "the linter", "runtime": "the guard"}


def table(rules: Iterable[type[Rule]]) -> str:
    """All rules as a Markdown table."""
    lines = [
        "| code | name | severity | effect | linter | guard | fix | what it reports |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rule in rules:
        seen = witnesses(rule)
        marks = ["✓" if name in seen else "–" for name in ("static", "runtime")]
        severity = rule.severity.value + ("" if rule.default() else ", opt-in")
        summary = rule.summary().replace("|", "\\|")
        cells = [rule.code, rule.name, severity, rule.effect.label, *marks, rule.fix or "–", summary]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def listing(rules: Sequence[type[Rule]], output_format: str) -> str:
    """All rules in the given format: ``text``, ``json`` or ``markdown`` (a table, then every page)."""
    if output_format == "json":
        return json.dumps([describe(rule) for rule in rules], indent=2) + "\n"
    if output_format == "markdown":
        return "\n".join([table(rules), *(page(rule) for rule in rules)])
    width, effect = (max(map(len, texts)) for texts in ([r.name for r in rules], [r.effect.label for r in rules]))
    return "".join(
        f"{rule.code}  {rule.name:{width}}  {rule.severity.value:7}  {rule.effect.label:{effect}}  {rule.summary()}"
        f"{'' if rule.default() else ' (opt-in)'}\n"
        for rule in rules
    )


def single(rule: type[Rule], output_format: str) -> str:
    """One rule in the given format."""
    if output_format == "json":
        return json.dumps({**describe(rule), "page": rule.page()}, indent=2) + "\n"
    return page(rule)
