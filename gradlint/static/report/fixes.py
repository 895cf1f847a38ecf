"""Fixes: the intents of a rule as edits of the source text.

Whatever cannot be spelled, would lose a comment, or stands where the text is not Python's own gives no fix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradlint import intents
from gradlint.finding import Applicability, Edit, Fix
from gradlint.rule import Violation
from gradlint.source import Source, SourceError
from gradlint.static.report import clearing, inserting, omitting, rewriting, unrecorded
from gradlint.static.report.place import CannotError, Change, Place
from gradlint.static.text.positions import Span
from gradlint.static.text.units import NodeSite


def fix_of(violation: Violation) -> Fix | None:
    """The mend of a violation as edits; None if it has none, or if it cannot be spelled."""
    mend, at = violation.mend, violation.at
    if mend is None or not isinstance(at, NodeSite):
        return None
    try:
        changes = [change for intent in mend.intents for change in _realised(intent, at)]
        source = at.unit.module.source
        for change in changes:
            _check_rows(change.span, source)
    except (CannotError, SourceError):
        return None
    changes.sort(key=lambda change: change.span)
    edits = tuple(Edit(source.location(*change.span), change.content) for change in changes)
    return Fix(mend.message, mend.applicability, edits)


def agreed(one: Fix | None, other: Fix | None) -> Fix | None:
    """The fix of a finding that was made twice: what both say, or none."""
    if one is None or other is None or one.edits != other.edits:
        return None
    return one if one.applicability is Applicability.UNSAFE else other


def _check_rows(span: Span, source: Source) -> None:
    """Rows that only IPython understands are not what they seem."""
    for row in range(span[0], span[2] + 1):
        cell = source.cell_at(row)
        if cell is not None:
            place = row - cell.first_row
            lines = cell.lines
            if place >= len(lines) or lines[place] not in (
                source.rows[row - 1],
                " " * cell.indent + source.rows[row - 1],
            ):
                raise CannotError


def _realised(intent: intents.Intent, at: NodeSite) -> Iterator[Change]:
    site = intent.at or at
    if not isinstance(site, NodeSite) or site.unit.module is not at.unit.module:
        raise CannotError
    place = Place(site)
    yield from _REALISERS[type(intent)](place, intent)


_REALISERS: Mapping[type[intents.Intent], Callable[[Place, Any], Iterator[Change]]] = {
    intents.Append: rewriting.append,
    intents.AssignBack: rewriting.assign_back,
    intents.ChangeItself: unrecorded.change_itself,
    intents.ClearGradients: clearing.clear_gradients,
    intents.Decorate: inserting.decorate,
    intents.DropArgument: rewriting.drop_argument,
    intents.DropArguments: rewriting.drop_arguments,
    intents.InsertBefore: inserting.insert_before,
    intents.InsertBehind: inserting.insert_behind,
    intents.InsertFirst: inserting.insert_first,
    intents.Omit: omitting.omit,
    intents.Rename: rewriting.rename,
    intents.Replace: rewriting.replace,
    intents.SetArgument: rewriting.set_argument,
    intents.Unwrap: rewriting.unwrap,
    intents.WrapStatement: inserting.wrap_statement,
}
