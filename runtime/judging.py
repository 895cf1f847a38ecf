"""The rules at work: selection, the checks of events, and findings told once however often they are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.events import Event, GradientsMeasured
from gradlint.finding import Finding, Related, Site
from gradlint.protocol import Protocol
from gradlint.refusal import Refusal
from gradlint.rule import Rule, Violation, all_rules
from gradlint.selection import Choice, resolve

from .frames import FrameSite
from .libraries import placed

if TYPE_CHECKING:
    from .recording import Recording

Followed = tuple[Rule, Protocol]


def selected(select: str | Iterable[str] | None, ignore: str | Iterable[str] | None) -> tuple[type[Rule], ...]:
    """The rules to use: the default ones or those of ``select``, without those of ``ignore``.

    Raises:
        ValueError: an entry is no code, prefix or name of a rule.
    """
    rules = all_rules()
    choice = Choice("gradlint.guard: ", None if select is None else _entries(select), _entries(ignore or ()))
    try:
        shown = resolve([choice], rules).shown
    except Refusal as refusal:
        raise ValueError(str(refusal)) from None
    return tuple(rule for rule in rules if rule.code in shown)


def _entries(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _function(site: Site) -> object:
    """The code that a place stands in, or the place where that is not known."""
    return site.code if isinstance(site, FrameSite) else site


class Judge:
    """Shows events to rules and keeps what they find."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self.rules = tuple(rule() for rule in rules)
        self._checks = {
            kind: [(rule, getattr(rule, check)) for rule in self.rules for check in rule.checks.get(kind, ())]
            for kind in {kind for rule in self.rules for kind in rule.checks}
        }
        self._findings: list[Finding] = []
        self._counts: list[int] = []
        self._known: dict[tuple[str, Site], int] = {}
        self._unwanted: dict[tuple[str, Site], Finding] = {}
        self._first: dict[tuple[str, object], tuple[str, Site]] = {}  #: of which one is told for a function
        self.wants: Callable[[Finding], bool] = lambda _: True  #: whether to keep a finding when it is first seen
        self.include_libraries = False  #: keep what is found in code of installed packages, too
        self.left_out: dict[tuple[object, ...], Finding] = {}  #: what is found there and not kept, by identity
        self.undelivered: list[int] = []  #: findings first seen since :meth:`fresh` was last asked
        self.turn = 0  #: counts what happens; an event is counted once in each
        self._last: tuple[int, Event, int] | None = None
        self.recording: Recording | None = None  #: told of what is found and measured, for a report
        self._pending: dict[tuple[str, Site], tuple[Rule, Violation, Event]] = {}
        self._innocent: set[tuple[str, Site]] = set()

    def follows(self, *kinds: type[Event]) -> tuple[Followed, ...]:
        """The protocols that listen to any of these types of events, with their rules."""
        return tuple(
            (rule, protocol)
            for rule in self.rules
            for protocol in rule.protocols
            if not protocol.events.isdisjoint(kinds)
        )

    def listens(self, *kinds: type[Event]) -> bool:
        """Whether any rule is interested in any of these types of events."""
        return any(not rule.listens().isdisjoint(kinds) for rule in self.rules)

    def checks(self, kind: type[Event]) -> bool:
        """Whether a rule checks each event of this type, as opposed to following what it touches."""
        return bool(self._checks.get(kind))

    def send(self, event: Event) -> list[Finding]:
        """Show an event to the checks that listen to its type; the findings, new and known, that it gives."""
        if self.recording is not None and isinstance(event, GradientsMeasured):
            self.recording.measured(event)
        return self._ask(event)[0]

    def accepts(self, event: Event) -> bool:
        """Show an event as :meth:`send` does; whether no check objects to it, and so to none that is equal."""
        return not self._ask(event)[1]

    def _ask(self, event: Event) -> tuple[list[Finding], bool]:
        found, objected = [], False
        for rule, check in self._checks.get(type(event), ()):
            violations = list(check(event))
            objected = objected or bool(violations)
            if getattr(check, "__gradlint_every_time__", False):
                violations = self._each_time(rule, violations, event)
            found += [self.report(rule, violation, event) for violation in violations]
        return found, objected

    def _each_time(self, rule: Rule, violations: list[Violation], event: Event) -> list[Violation]:
        """What to report at a place that is to be wrong each time: nothing, before it was so twice."""
        place = (rule.code, event.site)
        if not violations:
            self._innocent.add(place)
            self._pending.pop(place, None)
        if not violations or place in self._innocent:
            return []
        if (place[0], violations[0].at) in self._known:
            return violations
        if place in self._pending:
            rule, first, event = self._pending.pop(place)
            self.report(rule, first, event)
            return violations
        self._pending[place] = rule, violations[0], event
        return []

    def finish(self) -> None:
        """The guard ends: what was wrong the only time it happened is reported, too."""
        for rule, violation, event in self._pending.values():
            self.report(rule, violation, event)
        self._pending = {}

    def report(self, rule: Rule, violation: Violation, event: Event) -> Finding:
        """Keep a finding, or count it once more; one that is not wanted is only made."""
        key = (rule.code, violation.at)
        index = self._known.get(key)
        if index is None and violation.in_function:
            first = self._first.setdefault((rule.code, _function(violation.at)), key)
            if first != key and first in self._known:
                return self._stands_for(self._known[first], violation)
        if index is None:
            finding = self._unwanted.get(key) or placed(rule.finding(violation), violation.at, rule.concerns_values)
            if key in self._unwanted or not self._keeps(finding):
                self._unwanted[key] = finding
                return finding
            index = self._keep(finding)
            self._known[key] = index
        last = (index, event, self.turn)
        if self._last is None or self._last[::2] != last[::2] or self._last[1] is not event:
            self._counts[index] += 1
            self._last = last
            if self.recording is not None:
                self.recording.found(index)
        return self._findings[index]

    def _stands_for(self, index: int, violation: Violation) -> Finding:
        """A finding, of which one is told for a function, with another place."""
        finding, place = self._findings[index], Related(violation.in_function, violation.at.locate())
        if place not in finding.related:
            self._findings[index] = replace(finding, related=(*finding.related, place))
        return self._findings[index]

    def _keeps(self, finding: Finding) -> bool:
        if not self.wants(finding):
            return False
        if finding.library and not self.include_libraries:
            self.left_out.setdefault(finding.identity, finding)
            return False
        return True

    def _keep(self, finding: Finding) -> int:
        for index, other in enumerate(self._findings):
            if other.identity == finding.identity:
                return index
        self._findings.append(finding)
        self._counts.append(0)
        self.undelivered.append(len(self._findings) - 1)
        return len(self._findings) - 1

    @property
    def findings(self) -> list[Finding]:
        """All findings so far, in the order in which they were first seen."""
        return [replace(finding, count=count) for finding, count in zip(self._findings, self._counts, strict=True)]

    def fresh(self) -> list[Finding]:
        """The findings first seen since this was last asked."""
        if not self.undelivered:
            return []
        indices, self.undelivered = self.undelivered, []
        return [self._findings[index] for index in indices]
