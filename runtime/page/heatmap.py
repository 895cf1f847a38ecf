"""Gradient norms of layers over the steps of an optimizer, as rows of a chart: the darker, the greater."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..perlayer import layers
from .charts import Cell, Row, Rows, cell, column_ticks
from .places import Name

LAYERS = 60
COLUMNS = 100
LEAST, TICK = 5, 40  #: pixels that a measurement takes, and a number below


@dataclass(frozen=True, slots=True)
class Heat:
    """A chart of rows, with the ends of its scale."""

    after: Name  #: the backward pass
    low: str
    high: str
    rows: Rows


def heat(after: Name, measured: Sequence[tuple[int, Mapping[str, float]]]) -> Heat | None:
    """The norms of layers after one backward pass, by step; None where none was measured."""
    by_layer = [(step, layers(norms)) for step, norms in measured][-COLUMNS:]
    names = list(dict.fromkeys(name for _, norms in by_layer for name in norms))
    if not names:
        return None
    values = [norm for _, norms in by_layer for norm in norms.values()]
    logarithms = [math.log10(norm) for norm in values if 0 < norm < math.inf]
    low, high = (min(logarithms), max(logarithms)) if logarithms else (0.0, 0.0)
    legend = [("zero", "0")] if 0.0 in values else []
    legend += [("bad", "not finite")] if not all(map(math.isfinite, values)) else []
    more = f" {len(names) - LAYERS} more layers are not shown." if len(names) > LAYERS else ""
    ticks = column_ticks([f"{step:,}" for step, _ in by_layer])
    rows = Rows(
        note=f"at the steps of the optimizer that were measured.{more}",
        legend=tuple(legend),
        rows=tuple(Row(_name(name), _cells(name, by_layer, low, high)) for name in names[:LAYERS]),
        ticks=tuple(ticks),
        x_name="step of the optimizer",
        least=max(LEAST * len(by_layer), TICK * len(ticks)),
    )
    return Heat(after, f"{10**low:.2g}", f"{10**high:.2g}", rows)


def _cells(name: str, by_layer: Sequence[tuple[int, dict[str, float]]], low: float, high: float) -> tuple[Cell, ...]:
    cells = []
    for column, (step, norms) in enumerate(by_layer):
        if name in norms:
            norm = norms[name]
            title = f"step {step:,}: {norm:.3g}"
            if not math.isfinite(norm):
                cells.append(cell(column, len(by_layer), "bad", title))
            elif not norm:
                cells.append(cell(column, len(by_layer), "zero", title))
            else:
                weight = (math.log10(norm) - low) / (high - low) if high > low else 1.0
                cells.append(cell(column, len(by_layer), "heat", title, 0.12 + 0.88 * weight))
    return tuple(cells)


def _name(layer: str) -> Name:
    """Layers differ in the ends of their names."""
    head, dot, tail = layer.rpartition(".")
    return Name(head, dot + tail, layer)
