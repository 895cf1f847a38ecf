"""Findings of which one is told for a function: the first, with the places of the others, and what mends them all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from gradlint.finding import Applicability, Edit, Finding, Fix, Location, Related
from gradlint.rule import Violation
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.units import NodeSite

_Key = tuple[str, Location]


class Together:
    """Knows which findings stand together."""

    def __init__(self) -> None:
        self._functions: dict[_Key, tuple[Hashable, str] | None] = {}

    def note(self, key: _Key, violation: Violation) -> None:
        """A finding was made of a violation; once it is to be told by itself, it is."""
        found = _function(violation) if violation.in_function else None
        if self._functions.setdefault(key, found) is not None:
            self._functions[key] = found

    def merged(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings in order, each with those for which it stands."""
        groups: dict[Hashable, list[Finding]] = {}
        for finding in sorted(findings, key=lambda f: f.sort_key):
            key = (finding.code, finding.location)
            function = self._functions.get(key)
            groups.setdefault(key if function is None else (finding.code, function[0]), []).append(finding)
        return [self._one(group) for group in groups.values()]

    def _one(self, group: list[Finding]) -> Finding:
        first, *others = group
        if not others:
            return first
        said = self._functions[first.code, first.location]
        assert said is not None
        places = tuple(Related(said[1], other.location) for other in others)
        return replace(first, related=(*first.related, *places), fix=_joint(group))


def _function(violation: Violation) -> tuple[Hashable, str] | None:
    """The function that a violation stands in, or the statements of a file, or of a cell, that stand in none."""
    at = violation.at
    if not isinstance(at, NodeSite):
        return None
    unit = at.unit
    body: Hashable = unit if isinstance(unit, FunctionUnit) else (unit.module, at.locate().cell)
    return body, violation.in_function


def _joint(group: list[Finding]) -> Fix | None:
    """What mends all of them at once, safely if each is mended so; None where one cannot be mended."""
    fixes = [finding.fix for finding in group if finding.fix is not None]
    if len(fixes) < len(group):
        return None
    edits: list[Edit] = []
    for fix in fixes:
        new = [edit for edit in fix.edits if edit not in edits]
        if any(_overlap(one.location, other.location) for one in new for other in edits):
            return None
        edits += new
    worst = next((fix for fix in fixes if fix.applicability is Applicability.UNSAFE), fixes[0])
    return replace(worst, edits=tuple(sorted(edits)))


def _overlap(one: Location, other: Location) -> bool:
    first, last = sorted((one, other))
    return (first.end_row, first.end_column) > (last.row, last.column) or first == last
