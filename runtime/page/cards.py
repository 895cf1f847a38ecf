"""The findings of a report, each as a page shows it: its story, with the source around every place of it."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from gradlint.finding import Finding, Location
from gradlint.output.style import shown_place

from ..reporting import in_words

if TYPE_CHECKING:
    from ..recording import Happening

CONTEXT = 2  #: lines of source around the one that is meant
OPEN = 3  #: findings of one rule that are shown before the rest is folded


@dataclass(frozen=True, slots=True)
class Line:
    """A line of source, in three parts, of which the middle one is meant."""

    number: str
    before: str
    marked: str
    after: str


@dataclass(frozen=True, slots=True)
class Told:
    """A place of a finding's story."""

    message: str
    folder: str  #: with a separator at its end
    file: str  #: with row and column
    excerpt: tuple[Line, ...]  #: empty where the source is not at hand


@dataclass(frozen=True, slots=True)
class Card:
    """A finding."""

    anchor: str
    severity: str
    code: str
    name: str
    times: str
    message: str
    places: tuple[Told, ...]
    remedy: str
    first: str


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one rule."""

    code: str
    name: str
    shown: tuple[Card, ...]
    folded: tuple[Card, ...]


def anchor(index: int) -> str:
    """What a finding is linked to by; its index is that of the list of all."""
    return f"finding-{index + 1}"


def groups(findings: Sequence[Finding], seen: Mapping[int, Happening], cwd: Path) -> list[Group]:
    """The findings by rule, in the order in which they were first seen.

    Args:
        findings: in that order.
        seen: where a timeline shows each first, by index.
        cwd: the folder that paths are told relative to.
    """
    by_rule: dict[tuple[str, str], list[Card]] = {}
    for index, finding in enumerate(findings):
        shown = card(index, finding, cwd, seen.get(index))
        by_rule.setdefault((finding.code, finding.name), []).append(shown)
    return [Group(code, name, tuple(cards[:OPEN]), tuple(cards[OPEN:])) for (code, name), cards in by_rule.items()]


def sentence(text: str) -> str:
    """A message with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def card(index: int, finding: Finding, cwd: Path, first: Happening | None = None) -> Card:
    """A finding; ``first`` is where a timeline shows it first."""
    seen = [f"seen {finding.count:,} times"] if finding.count > 1 else []
    seen += [f"on {in_words(finding.ranks)}"] if finding.ranks else []
    seen += [f"in {finding.library}"] if finding.library else []
    moment = "" if first is None else f"event {first.number + 1:,}, {first.seconds:.2f} s in"
    return Card(
        anchor=anchor(index),
        severity=finding.severity.value,
        code=finding.code,
        name=finding.name,
        times=" ".join(seen),
        message=sentence(finding.message),
        places=(
            _told(finding.location, "", cwd),
            *(_told(other.location, other.message, cwd, near=finding.location) for other in finding.related),
        ),
        remedy=sentence(finding.remedy) if finding.remedy else "",
        first=f"First shown in the timeline at {moment}." if moment else "",
    )


def _told(place: Location, message: str, cwd: Path, near: Location | None = None) -> Told:
    """A place; its folder is not told again where it lies in the same file as one that was."""
    whole = shown_place(place, cwd)
    file = PurePath(place.filename).name
    start = whole.rfind(file + ":")
    folder = "" if near is not None and near.filename == place.filename else whole[:start]
    return Told(message, folder, whole[start:], _excerpt(place))


def _excerpt(place: Location) -> tuple[Line, ...]:
    """The source around a place, with the place marked and what all its lines are indented by left out."""
    end = max(place.end_row, place.row)
    rows = range(max(1, place.row - CONTEXT), end + CONTEXT + 1)
    source = {row: linecache.getline(place.filename, row).rstrip("\r\n") for row in rows}
    lines = {row: line for row, line in source.items() if line.strip() or place.row <= row <= end}
    if not lines.get(place.row):
        return ()
    indent = _indent(list(lines.values()))
    width = len(str(max(lines)))
    told = []
    for row, line in lines.items():
        start = stop = len(line)
        if place.row <= row <= end:
            start = place.column - 1 if row == place.row else len(line) - len(line.lstrip())
            stop = place.end_column - 1 if row == end and place.end_column else len(line)
        start, stop = max(start, indent), max(stop, indent)
        told.append(Line(f"{row:>{width}}", line[indent:start], line[start:stop], line[stop:]))
    return tuple(told)


def _indent(lines: Sequence[str]) -> int:
    """How many characters all lines are indented by."""
    first = next(line for line in lines if line.strip())
    dedented = next(line for line in textwrap.dedent("\n".join(lines)).split("\n") if line.strip())
    return len(first) - len(dedented)
