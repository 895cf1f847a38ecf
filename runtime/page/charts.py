"""The geometry of a report's charts: what is drawn where, in percent of the width, so that a page can stretch it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from .places import Name

COLOURS = 4  #: of curves, as the classes c0 to c3
HEIGHT = 180  #: of curves, in pixels
TICKS = 5  #: of an axis, about


@dataclass(frozen=True, slots=True)
class Tick:
    """A number beside an axis."""

    at: float  #: percent from the left, or pixels from the top
    text: str
    anchor: str = "middle"  #: start, middle or end


@dataclass(frozen=True, slots=True)
class Cell:
    """A mark in the row of a chart."""

    x: float  #: percent
    width: float  #: percent
    style: str  #: class names
    title: str
    weight: float = 1.0  #: opacity, from 0 to 1


@dataclass(frozen=True, slots=True)
class Row:
    """A named row of cells."""

    name: Name
    cells: tuple[Cell, ...]
    label: str = ""  #: before the name, and never cut short
    style: str = ""  #: class names
    anchor: str = ""  #: what the label leads to
    run: tuple[float, float] | None = None  #: a line between cells, in percent


@dataclass(frozen=True, slots=True)
class Rows:
    """A chart of rows."""

    note: str
    legend: tuple[tuple[str, str], ...]  #: class names and words
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    x_name: str
    least: int  #: pixels of width below which it is scrolled
    most: int = 0  #: pixels of width beyond which it is not stretched; 0 for none
    gap: Cell | None = None  #: a column of what is left out

    @property
    def longest(self) -> int:
        """Characters that the longest name takes, with its label and what stands between."""
        return max(len(self.x_name), *(len(str(row.name)) + (10 if row.label else 0) for row in self.rows)) + 1


@dataclass(frozen=True, slots=True)
class Curve:
    """A line: its points, over a width of 1000 and a height of :data:`HEIGHT`."""

    name: str
    style: str
    points: str


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of values that are not finite, in percent of the width."""

    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over one axis, with its numbers."""

    curves: tuple[Curve, ...]
    bands: tuple[Band, ...]
    left: tuple[Tick, ...]
    below: tuple[Tick, ...]
    x_name: str


def cell(column: int, columns: int, style: str, title: str, weight: float = 1.0) -> Cell:
    """The cell of a column, counted from 0, among ``columns`` of equal width."""
    width = 100 / columns
    return Cell(round(column * width, 3), round(width, 3), style, title, round(weight, 2))


def column_ticks(names: Sequence[str]) -> list[Tick]:
    """Names below some of the columns of equal width: the first, the last, and a few between."""
    last = len(names) - 1
    if last <= 0:
        return [Tick(50, name) for name in names]
    chosen = sorted({round(index * last / TICKS) for index in range(TICKS + 1)})
    return [_tick(100 * (column + 0.5) / len(names), names[column]) for column in chosen]


def _tick(at: float, text: str) -> Tick:
    if at < 10 or at > 90:  # near an end the text would leave the chart
        return Tick(0 if at < 10 else 100, text, "start" if at < 10 else "end")
    return Tick(round(at, 2), text)


def curves(series: Mapping[str, Sequence[tuple[int, float]]], x_name: str, floor: float | None = None) -> Chart | None:
    """Lines over one axis; None without points.

    Args:
        series: by name: points, in order.
        x_name: what their first numbers count.
        floor: a value to begin the other axis with, where it is not to begin with the least.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        return None
    finite = [y for _, y in points if math.isfinite(y)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    low = low if floor is None else min(low, floor)
    if low == high:
        low, high = low - abs(low) / 2 - 0.5 * (not low), high + abs(high) / 2 + 0.5 * (not low)
    first, last = min(x for x, _ in points), max(x for x, _ in points)

    def across(x: int) -> float:
        return (x - first) / ((last - first) or 1)

    def down(y: float) -> float:
        return HEIGHT * (1 - (y / 2 - low / 2) / (high / 2 - low / 2))  # halves: the whole span may overflow

    drawn = []
    for index, (name, line) in enumerate(series.items()):
        path = " ".join(f"{1000 * across(x):.1f},{down(y):.1f}" for x, y in line if math.isfinite(y))
        drawn.append(Curve(name, f"c{index % COLOURS}", path))
    bands = [band for line in series.values() for band in _bands(line, across)]
    left = [Tick(round(down(value), 1), f"{value:.4g}") for value in ticks(low, high)]
    below = [_tick(100 * across(round(x)), f"{round(x):,}") for x in _whole_ticks(first, last)]
    return Chart(tuple(drawn), tuple(bands), tuple(left), tuple(below), x_name)


def _bands(line: Sequence[tuple[int, float]], across: object) -> Iterator[Band]:
    assert callable(across)
    for broken, run in groupby(line, key=lambda point: not math.isfinite(point[1])):
        if not broken:
            continue
        there = list(run)
        start, end = 100 * across(there[0][0]), 100 * across(there[-1][0])
        kinds = ", ".join(sorted({f"{y}" for _, y in there}))
        many = f" to {there[-1][0]:,}" if len(there) > 1 else ""
        yield Band(round(start, 2), round(end - start, 2), f"{kinds} at {there[0][0]:,}{many}")


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from ``low`` to ``high``, about :data:`TICKS` of them."""
    rough = high / TICKS - low / TICKS
    if not rough > 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    begin, end = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(begin, end + 1)]


def _whole_ticks(first: int, last: int) -> list[int]:
    between = {round(value) for value in ticks(first, last)} if last > first else set()
    margin = 0.15 * (last - first)
    return sorted({first, last} | {x for x in between if first + margin < x < last - margin})
