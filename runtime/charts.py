"""Charts as inline SVG: no script, colours by class, so that a page can be read in dark and in light."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 1000  #: user units; the page scales them
ROW = 22
COLOURS = 4  #: of curves, as the classes c0 to c3
LABEL = 260  #: the part of the width that names rows


@dataclass(frozen=True, slots=True)
class Mark:
    """A cell of a :func:`lanes` or :func:`heat` chart."""

    column: int
    row: int
    title: str
    style: str  #: class names
    weight: float = 1.0  #: opacity, from 0 to 1
    flag: str = ""  #: what is written above it


def cells(rows: Sequence[str], columns: int, marks: Sequence[Mark], gap: int | None = None) -> str:
    """A grid of cells, with named rows.

    Args:
        rows: their names.
        columns: how many.
        marks: the cells that are drawn.
        gap: the column before which columns are left out.
    """
    flags = sorted({mark.flag for mark in marks if mark.flag})
    top = 8 if not flags else 14 + 15 * len(flags)
    width = min(26.0, (WIDTH - LABEL - 10) / max(columns, 1))
    height = top + ROW * len(rows) + 6
    parts = [_svg(height)]
    for index, name in enumerate(rows):
        y = top + ROW * index
        shown = name if len(name) <= 38 else f"…{name[-37:]}"
        parts.append(
            f'<text class="label" x="{LABEL - 10}" y="{y + 15}">{escape(shown)}<title>{escape(name)}</title></text>'
        )
        parts.append(f'<line class="rule" x1="{LABEL}" x2="{WIDTH}" y1="{y + ROW}" y2="{y + ROW}"/>')
    if gap is not None:
        x = LABEL + gap * width
        parts.append(f'<line class="gap" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - 6}"/>')
    told: dict[str, float] = {}
    for mark in marks:
        x, y = LABEL + mark.column * width, top + ROW * mark.row
        parts.append(
            f'<rect class="{mark.style}" x="{x + width * 0.08:.1f}" y="{y + 3}" width="{width * 0.84:.1f}" '
            f'height="{ROW - 6}" rx="2" fill-opacity="{mark.weight:.2f}"><title>{escape(mark.title)}</title></rect>'
        )
        if mark.flag:
            parts.append(f'<path class="flag" d="M{x + width / 2:.1f} {y + 3} l-4 -7 h8 z"/>')
            if x - told.get(mark.flag, -WIDTH) > 12 * len(mark.flag):
                told[mark.flag] = x
                above = 12 + 15 * flags.index(mark.flag)
                left = min(x, WIDTH - 9 * len(mark.flag))
                parts.append(f'<text class="flagged" x="{left:.1f}" y="{above}">{escape(mark.flag)}</text>')
    return _framed(parts)


def curves(series: Mapping[str, Sequence[tuple[int, float]]], x_name: str, floor: float | None = None) -> str:
    """Lines over one axis; values that are not finite are marked at the top.

    Args:
        series: by name: points, in order.
        x_name: what their first numbers count.
        floor: a value to begin the other axis with, where it is not to begin with the least.
    """
    points = [point for line in series.values() for point in line]
    finite = [y for _, y in points if math.isfinite(y)]
    if not points:
        return ""
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    low = low if floor is None else min(low, floor)
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    left, right, top, bottom = 70, WIDTH - 15, 15, 200

    def place(x: int, y: float) -> tuple[float, float]:
        across = (x - first) / ((last - first) or 1)
        up = (y - low) / ((high - low) or 1)
        return left + across * (right - left), bottom - up * (bottom - top)

    parts = [_svg(240)]
    for value in (low, (low + high) / 2, high):
        y = place(first, value)[1]
        parts.append(f'<line class="rule" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="label" x="{left - 8}" y="{y + 4:.1f}">{value:.3g}</text>')
    parts.append(f'<text class="axis" x="{left}" y="225">{escape(x_name)} {first}</text>')
    parts.append(f'<text class="label" x="{right}" y="225">{last}</text>')
    for index, (name, line) in enumerate(series.items()):
        drawn = [place(x, y) for x, y in line if math.isfinite(y)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
        parts.append(
            f'<polyline class="curve c{index % COLOURS}" points="{path}"><title>{escape(name)}</title></polyline>'
        )
        for x, y in line:
            if not math.isfinite(y):
                parts.append(
                    f'<circle class="bad" cx="{place(x, low)[0]:.1f}" cy="{top}" r="4"><title>{y}</title></circle>'
                )
    return _framed(parts)


def _framed(parts: list[str]) -> str:
    """A drawing that keeps its size where the page is narrow, and can be scrolled there."""
    return f'<div class="chart" tabindex="0">{"".join(parts)}</svg></div>'


def _svg(height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
