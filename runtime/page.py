"""The report as one HTML page: it needs no network, no script and no other file."""

from __future__ import annotations

import linecache
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.finding import Finding, Location, Site
from gradlint.output.style import shown_path, shown_place

from .charts import COLOURS, Mark, cells, curves
from .reporting import ALONE, World, in_short, in_words

if TYPE_CHECKING:
    from .recording import Happening, Recording

LANES = 14
LAYERS = 60
COLUMNS = 100  #: of gradient norms
CONTEXT = 2  #: lines of source around the one that is meant

STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1c2128; --faint: #667080; --line: #dde2e8; --card: #f6f8fa;
  --error: #c4262e; --warning: #9a6700; --style: #0e6f8c; --mark: #ffe08a; --accent: #2f6fdb; --c1: #1a7f37;
  --c2: #8250df; --c3: #bc4c00; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --ink: #e3e8ee; --faint: #98a4b3; --line: #303844;
  --card: #1a2029; --error: #ff7b72; --warning: #e3b341; --style: #56c7e6; --mark: #5c4a12; --accent: #6ea8ff;
  --c1: #56d364; --c2: #c297ff; --c3: #ffa657; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 70rem; padding: 2rem 1.5rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem; margin: 0 } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem }
p { margin: .4rem 0; color: var(--faint) }
dl { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1.2rem 0 0 }
dl div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1rem }
dt { color: var(--faint); font-size: .85rem } dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums }
article { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--edge);
  border-radius: 8px; padding: .9rem 1.1rem; margin: .9rem 0 }
article.error { --edge: var(--error) } article.warning { --edge: var(--warning) } article.style { --edge: var(--style) }
h3 { margin: 0; font-size: 1rem; font-weight: 600 } h3 b { color: var(--edge) }
h3 span { color: var(--faint); font-weight: 400 }
article p { margin: .7rem 0 .2rem; font-size: .92rem } article p.help { color: var(--ink) }
pre { margin: .2rem 0; padding: .5rem .7rem; overflow-x: auto; background: var(--page); border: 1px solid var(--line);
  border-radius: 6px; font: 13px/1.5 ui-monospace, monospace; tab-size: 4 }
pre i { color: var(--faint); font-style: normal; user-select: none }
pre mark { background: var(--mark); color: inherit; border-radius: 2px }
.chart { overflow-x: auto; padding: 2px 0 } code { overflow-wrap: anywhere }
svg { width: 100%; min-width: 46rem; height: auto; display: block; font: 12px system-ui, sans-serif; overflow: visible }
svg text { fill: var(--faint) } .label { text-anchor: end } .rule { stroke: var(--line) }
.gap { stroke: var(--faint); stroke-dasharray: 3 3 }
.forward { fill: var(--accent) } .backward { fill: var(--c2) } .grad { fill: var(--c3) } .step { fill: var(--c1) }
.heat { fill: var(--accent) } .bad, .flag { fill: var(--error) } svg .flagged { fill: var(--error); font-weight: 600 }
.curve { fill: none; stroke-width: 2; stroke: var(--accent) }
.c1 { stroke: var(--c1) } .c2 { stroke: var(--c2) } .c3 { stroke: var(--c3) }
.key { color: var(--accent) } .key.c1 { color: var(--c1) } .key.c2 { color: var(--c2) } .key.c3 { color: var(--c3) }
@media (max-width: 40rem) { body { padding: 1.2rem .9rem 3rem } article { padding: .7rem .8rem } }
@media print { svg { min-width: 0 } body { max-width: none } article { break-inside: avoid } }
"""


def as_page(findings: Sequence[Finding], recording: Recording, cwd: Path, world: World = ALONE) -> str:
    """The whole page.

    Args:
        findings: in the order in which they were first seen, as the recording counts them, before those of other ranks.
        recording: what happened.
        cwd: the folder that paths are told relative to.
        world: the processes the findings come from; what happened is told of one.
    """
    body = [
        f"<header><h1>gradlint: {escape(in_short(findings, world))}</h1>{_ranks(world)}{_figures(recording)}</header>",
        "<main>",
        *_findings(findings, recording, cwd),
        *_timeline(findings, recording, cwd),
        *_losses(recording, cwd),
        *_norms(recording, cwd),
        *_resources(recording),
        "</main>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>gradlint report</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _ranks(world: World) -> str:
    if world.size == 1:
        return ""
    notes = [*world.notes, f"the figures and charts are those of rank {world.rank}"]
    return "".join(f"<p>{escape(_sentence(note))}</p>" for note in notes)


def _figures(recording: Recording) -> str:
    counts = recording.counts
    figures = {
        "forward calls": counts["forward"],
        "backward passes": counts["backward"],
        "calls of autograd.grad": counts["grad"],
        "optimizer steps": counts["step"],
    }
    told = [(name, f"{count:,}") for name, count in figures.items() if count or name != "calls of autograd.grad"]
    told.append(("watched", f"{recording.seconds:,.1f} s"))
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in told) + "</dl>"


# --- findings ------------------------------------------------------------------------------------------------------


def _findings(findings: Sequence[Finding], recording: Recording, cwd: Path) -> list[str]:
    if not findings:
        return ["<h2>Findings</h2><p>None. What the guard looks for did not happen while it watched.</p>"]
    seen = {index: happening for happening in reversed(recording.happenings) for index in happening.findings}
    cards = [_card(finding, seen.get(index), cwd) for index, finding in enumerate(findings)]
    return ["<h2>Findings</h2>", *cards]


def _card(finding: Finding, first: Happening | None, cwd: Path) -> str:
    seen = [f"seen {finding.count:,} times"] if finding.count > 1 else []
    seen += [f"on {in_words(finding.ranks)}"] if finding.ranks else []
    times = f" <span>{' '.join(seen)}</span>" if seen else ""
    parts = [
        f'<article class="{finding.severity.value}" id="{escape(finding.code)}">',
        f"<h3><b>{escape(finding.code)}</b> {escape(finding.name)}{times}</h3>",
        f'<p class="help">{escape(_sentence(finding.message))}</p>',
        _place(finding.location, "", cwd),
    ]
    parts += [_place(other.location, other.message, cwd) for other in finding.related]
    if finding.remedy:
        parts.append(f'<p class="help"><b>What to do:</b> {escape(_sentence(finding.remedy))}</p>')
    if first is not None:
        parts.append(f"<p>First shown in the timeline at event {first.number + 1}, {first.seconds:.2f} s in.</p>")
    return "".join(parts) + "</article>"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _place(place: Location, message: str, cwd: Path) -> str:
    said = f"{escape(message)}: " if message else ""
    return f"<p>{said}<code>{escape(shown_place(place, cwd))}</code></p>{_excerpt(place)}"


def _excerpt(place: Location) -> str:
    """The source around a place, with the place marked; empty where the source is not at hand."""
    end = max(place.end_row, place.row)
    rows = range(max(1, place.row - CONTEXT), end + CONTEXT + 1)
    lines = {row: linecache.getline(place.filename, row) for row in rows}
    lines = {row: line.rstrip("\r\n") for row, line in lines.items() if line.strip() or place.row <= row <= end}
    if not lines.get(place.row):
        return ""
    width = len(str(max(lines)))
    told = []
    for row, line in lines.items():
        shown = escape(line)
        if place.row <= row <= end:
            start = place.column - 1 if row == place.row else len(line) - len(line.lstrip())
            stop = place.end_column - 1 if row == end and place.end_column else len(line)
            shown = f"{escape(line[:start])}<mark>{escape(line[start:stop])}</mark>{escape(line[stop:])}"
        told.append(f"<i>{row:>{width}}  </i>{shown}")
    return "<pre>" + "\n".join(told) + "</pre>"


# --- charts --------------------------------------------------------------------------------------------------------


def _timeline(findings: Sequence[Finding], recording: Recording, cwd: Path) -> list[str]:
    happenings = recording.happenings
    if not happenings:
        return []
    names = [f"{happening.kind}  {_at(happening.site, cwd)}" for happening in happenings]
    lanes = {name: row for row, name in enumerate(dict.fromkeys(names))}
    marks, gap = [], None
    for column, happening in enumerate(happenings):
        if column and happening.number != happenings[column - 1].number + 1:
            gap = column
        row = lanes[names[column]]
        if row >= LANES:
            continue
        codes = " ".join(sorted({findings[index].code for index in happening.findings if index < len(findings)}))
        title = (
            f"event {happening.number + 1}, {happening.seconds:.3f} s: {happening.kind} at {_at(happening.site, cwd)}"
        )
        marks.append(
            Mark(column, row, f"{title}\n{codes}" if codes else title, "bad" if codes else happening.kind, flag=codes)
        )
    note = "Each column is one event, each row one place in the source; what was found is marked in red."
    if gap is not None:
        left_out = happenings[gap].number - happenings[gap - 1].number - 1
        note += f" At the dashed line {left_out:,} events are left out."
    if len(lanes) > LANES:
        note += f" {len(lanes) - LANES} more places are not shown."
    return [f"<h2>Timeline</h2><p>{note}</p>", cells(list(lanes)[:LANES], len(happenings), marks, gap)]


def _at(site: Site, cwd: Path) -> str:
    where = site.locate()
    return f"{shown_path(where.filename, cwd)}:{where.row}"


def _losses(recording: Recording, cwd: Path) -> list[str]:
    losses = {_at(site, cwd): line for site, line in recording.losses.items() if len(line) > 1}
    if not losses:
        return []
    chart = curves(losses, "backward pass")
    legend = ", ".join(
        f'<span class="key c{index % COLOURS}">●</span> <code>{escape(name)}</code>'
        for index, name in enumerate(losses)
    )
    return [f"<h2>Loss</h2><p>What backward() was called on, at {legend}.</p>", chart]


def _resources(recording: Recording) -> list[str]:
    graphs, memory = recording.graphs.points, recording.memory.points
    parts = []
    if len(graphs) > 1:
        note = "Outputs of models whose graph is still alive after a step. A line that rises says that graphs pile up."
        parts += ["<h2>Live graphs</h2>", f"<p>{note}</p>", curves({"live graphs": graphs}, "step", floor=0)]
    if len(memory) > 1:
        of = "tensors take on the device" if recording.on_device else "the process takes, after a step"
        megabytes = [(step, used / 2**20) for step, used in memory]
        parts += ["<h2>Memory</h2>", f"<p>MiB that {of}.</p>", curves({"memory": megabytes}, "step", floor=0)]
    return parts


def _norms(recording: Recording, cwd: Path) -> list[str]:
    charts = [_norms_after(_at(site, cwd), series.points) for site, series in recording.norms.items()]
    return ["<h2>Gradient norm of each layer</h2>", *charts] if any(charts) else []


def _norms_after(place: str, measured: Sequence[tuple[int, dict[str, float]]]) -> str:
    by_layer = [(step, _layers(norms)) for step, norms in measured][-COLUMNS:]
    names = list(dict.fromkeys(name for _, layers in by_layer for name in layers))
    values = [math.log10(v) for _, layers in by_layer for v in layers.values() if 0 < v < math.inf]
    if not names:
        return ""
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    marks = []
    for column, (step, layers) in enumerate(by_layer):
        for row, name in enumerate(names[:LAYERS]):
            if name in layers:
                norm = layers[name]
                finite = math.isfinite(norm)
                weight = _weight(norm, low, high) if finite else 1.0
                marks.append(Mark(column, row, f"{name}, step {step}: {norm:.3g}", "heat" if finite else "bad", weight))
    note = f"After <code>{escape(place)}</code>, at the steps of the optimizer that were measured, "
    note += f"{by_layer[0][0]} to {by_layer[-1][0]}: from {10**low:.1e} (pale) to {10**high:.1e} (strong), "
    note += "on a logarithmic scale."
    if len(names) > LAYERS:
        note += f" {len(names) - LAYERS} more layers are not shown."
    return f"<p>{note}</p>{cells(names[:LAYERS], len(by_layer), marks)}"


def _weight(norm: float, low: float, high: float) -> float:
    if norm <= 0:
        return 0.03
    return 0.12 + 0.88 * ((math.log10(norm) - low) / (high - low) if high > low else 1.0)


def _layers(norms: dict[str, float]) -> dict[str, float]:
    """The norms of layers: of their parameters together."""
    squares: dict[str, float] = {}
    for name, norm in norms.items():
        layer = name.rpartition(".")[0] or name
        squares[layer] = squares.get(layer, 0.0) + norm * norm
    return {layer: math.sqrt(square) if math.isfinite(square) else square for layer, square in squares.items()}
