"""What happened in a loop, event by event, as rows of a chart: one for each place, and one for each finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from gradlint.finding import Finding

from .cards import anchor
from .charts import Cell, Row, Rows, Tick, cell
from .places import Name, Places

if TYPE_CHECKING:
    from ..recording import Happening

LANES = 14
FOUND = 10  #: findings with a row of their own
LEAST, MOST = 6, 26  #: pixels that an event takes

LEGEND = {"forward": "forward call", "backward": "backward pass", "grad": "autograd.grad", "step": "optimizer step"}


def timeline(happenings: Sequence[Happening], findings: Sequence[Finding], places: Places) -> Rows | None:
    """The rows; None where nothing happened."""
    if not happenings:
        return None
    gap = next((column for column, left_out in enumerate(_left_out(happenings)) if left_out), None)
    columns = len(happenings) + (gap is not None)
    at = [column + (gap is not None and column >= gap) for column in range(len(happenings))]
    lanes: dict[tuple[str, Name], list[Cell]] = {}
    found: defaultdict[int, list[Cell]] = defaultdict(list)
    for column, happening in zip(at, happenings, strict=True):
        seen = sorted(index for index in happening.findings if index < len(findings))
        title = f"event {happening.number + 1:,}, {happening.seconds:.3f} s"
        codes = "".join(f"\n{code}" for code in sorted({findings[index].code for index in seen}))
        style = "found" if seen else happening.kind
        lane = lanes.setdefault((happening.kind, places.name(happening.site)), [])
        lane.append(cell(column, columns, style, title + codes))
        for index in seen:
            found[index].append(cell(column, columns, "bad", title))
    gap_cell = None
    note = "Each column is one event, each row one place in the source or one finding."
    if gap is not None:
        left_out = _left_out(happenings)[gap]
        gap_cell = Cell(round(100 * gap / columns, 3), round(100 / columns, 3), "gap", "")
        note += f" At the gap {left_out:,} events are left out."
    if len(lanes) > LANES:
        note += f" {len(lanes) - LANES} more places are not shown."
    if len(found) > FOUND:
        note += f" {len(found) - FOUND} more findings have no row."
    kinds = [kind for kind in LEGEND if any(happening.kind == kind for happening in happenings)]
    return Rows(
        note=note,
        legend=(*((kind, LEGEND[kind]) for kind in kinds), *([("bad", "a finding")] if found else [])),
        rows=(*_finding_rows(found, findings, places), *_lane_rows(lanes)),
        ticks=tuple(_ticks(happenings, gap, columns)),
        x_name="event",
        least=LEAST * columns,
        most=MOST * columns,
        gap=gap_cell,
    )


def _left_out(happenings: Sequence[Happening]) -> list[int]:
    """How many events are left out before each."""
    numbers = [happenings[0].number - 1, *(happening.number for happening in happenings)]
    return [after - before - 1 for before, after in pairwise(numbers)]


def _lane_rows(lanes: dict[tuple[str, Name], list[Cell]]) -> Iterator[Row]:
    for (kind, name), cells in list(lanes.items())[:LANES]:
        yield Row(name, tuple(cells), label=kind, style=kind)


def _finding_rows(found: dict[int, list[Cell]], findings: Sequence[Finding], places: Places) -> Iterator[Row]:
    """A finding stands once beside its row, however often it was seen."""
    for index, cells in sorted(found.items())[:FOUND]:
        middle = cells[0].width / 2
        yield Row(
            places.name(findings[index].location),
            tuple(cells),
            label=findings[index].code,
            style="bad",
            anchor=anchor(index),
            run=(round(cells[0].x + middle, 3), round(cells[-1].x + middle, 3)) if len(cells) > 1 else None,
        )


def _ticks(happenings: Sequence[Happening], gap: int | None, columns: int) -> Iterator[Tick]:
    first, last = happenings[0], happenings[-1]
    yield Tick(0, _moment(first), "start")
    if gap is not None:
        at = 100 * (gap + 0.5) / columns
        yield Tick(round(at, 2), f"{_moment(happenings[gap - 1])} … {_moment(happenings[gap])}")
    if last is not first:
        yield Tick(100, _moment(last), "end")


def _moment(happening: Happening) -> str:
    return f"{happening.number + 1:,} ({happening.seconds:.2f} s)"
