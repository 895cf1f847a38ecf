"""Findings of which one is told for a function, or for a cause, and what mends all that stand together.

Which one that is does not depend on how conditions are written: of what stands in different branches it is the least
nested, whichever of the branches comes first in the text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

import libcst as cst

from gradlint.finding import Applicability, Edit, Finding, Fix, Location, Related, Site
from gradlint.rule import Violation
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.nodes import Tree, children
from gradlint.static.text.units import NodeSite

_Key = tuple[str, Location]


class Together:
    """Knows which findings stand together."""

    def __init__(self) -> None:
        self._functions: dict[_Key, tuple[Hashable, str] | None] = {}
        self._sites: dict[_Key, Site] = {}

    def note(self, key: _Key, violation: Violation) -> None:
        """A finding was made of a violation; once it is to be told by itself, it is."""
        found = _function(violation) if violation.in_function else None
        self._sites.setdefault(key, violation.at)
        if self._functions.setdefault(key, found) is not None:
            self._functions[key] = found

    def once(self, findings: Iterable[Finding], loops_apart: bool) -> list[Finding]:
        """Of some findings of a rule, the first of each cause; those without a cause as they are.

        Args:
            findings: all of them.
            loops_apart: whether of those of one cause the first in each loop is meant, where no loop holds the other.
        """
        groups: dict[Hashable, list[Finding]] = {}
        for finding in findings:
            groups.setdefault(finding.cause or finding.location, []).append(finding)
        parts = (part for group in groups.values() for part in (self._by_loops(group) if loops_apart else [group]))
        return [self._first(part) for part in parts]

    def _by_loops(self, group: list[Finding]) -> Iterable[list[Finding]]:
        """Findings in one function, those apart whose innermost loops stand beside one another."""
        if len(group) == 1:
            return [group]
        loops = [_loops(self._sites[f.code, f.location]) for f in group]
        innermost = {each[0] if each else None for each in loops}
        parts: dict[Hashable, list[Finding]] = {}
        for finding, around in zip(group, loops, strict=True):
            outermost = next((loop for loop in reversed(around) if loop in innermost), None)
            parts.setdefault(None if None in innermost else outermost, []).append(finding)
        return parts.values()

    def merged(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings in order, each with those for which it stands."""
        groups: dict[Hashable, list[Finding]] = {}
        for finding in sorted(findings, key=lambda f: f.sort_key):
            key = (finding.code, finding.location)
            function = self._functions.get(key)
            groups.setdefault(key if function is None else (finding.code, function[0]), []).append(finding)
        return sorted(map(self._one, groups.values()), key=lambda f: f.sort_key)

    def _one(self, group: list[Finding]) -> Finding:
        first = self._first(group)
        said = self._functions.get((first.code, first.location))
        if len(group) == 1 or said is None:
            return first
        places = tuple(Related(said[1], other.location) for other in group if other is not first)
        return replace(first, related=(*first.related, *places), fix=_joint(group))

    def _first(self, group: list[Finding]) -> Finding:
        """The one that stands for all."""
        if len(group) == 1:
            return group[0]
        return min(group, key=lambda f: (f.location.filename, *_order(self._sites[f.code, f.location]), f.location))


def _order(site: Site) -> tuple[object, ...]:
    """What tells which of two places in a file comes first, branches of a condition left aside."""
    if not isinstance(site, NodeSite):
        return 0, 0, (), ""
    tree, node = site.unit.tree, site.node
    return site.locate().cell or 0, tree.offset, _path(tree, node), cst.Module([]).code_for_node(node)


def _path(tree: Tree, node: cst.CSTNode) -> tuple[int, ...]:
    """The place of a node in each node that it stands in; in a condition, how many are nested below that branch."""
    path: list[int] = []
    nested = 0
    while (above := tree.parent(node)) is not None:
        if isinstance(above, (cst.If, cst.IfExp)) and node is not above.test:
            nested += 1
            path += [0, nested] if isinstance(node, cst.If) else [nested]  # 'elif' is a condition in a branch
        elif isinstance(above, (cst.If, cst.IfExp)):
            path.append(0)
        elif not isinstance(above, cst.Else):
            path.append(next(i for i, child in enumerate(children(above)) if child is node))
        node = above
    return tuple(reversed(path))


def _loops(site: Site) -> list[int]:
    """The loops that a place stands in, the innermost first, by their identity."""
    if not isinstance(site, NodeSite):
        return []
    found: list[int] = []
    node: cst.CSTNode | None = site.node
    while node is not None:
        if isinstance(node, (cst.For, cst.While)):
            found.append(id(node))
        node = site.unit.tree.parent(node)
    return found


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
