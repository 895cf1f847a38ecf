"""The report as one HTML page: it needs no network, no script and no other file.

What it looks like stands in ``page.html``, ``parts.html`` and ``page.css``; what it shows, here and in the modules of
its parts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlint.finding import Finding, Site

from ..reporting import ALONE, World, in_short
from .cards import card, groups, sentence
from .charts import COLOURS, HEIGHT, Chart, curves
from .heatmap import Heat, heat
from .places import Places
from .timeline import timeline

if TYPE_CHECKING:
    from jinja2 import Template

    from ..recording import Recording


def as_page(
    findings: Sequence[Finding],
    recording: Recording,
    cwd: Path,
    world: World = ALONE,
    in_libraries: Sequence[Finding] = (),
) -> str:
    """The whole page.

    Args:
        findings: in the order in which they were first seen, as the recording counts them, before those of other ranks.
        recording: what happened.
        cwd: the folder that paths are told relative to.
        world: the processes the findings come from; what happened is told of one.
        in_libraries: findings in code of installed packages, which are folded.

    Raises:
        ModuleNotFoundError: jinja2 is not installed, though PyTorch needs it, too.
    """
    happenings = recording.happenings
    seen = {index: happening for happening in reversed(happenings) for index in happening.findings}
    losses = {site: line for site, line in recording.losses.items() if len(line) > 1}
    sites: list[Site] = [happening.site for happening in happenings]
    places = Places([*sites, *losses, *recording.norms, *(finding.location for finding in findings)], cwd)
    return _template().render(
        headline=in_short(findings, world),
        notes=_notes(world),
        figures=_figures(recording),
        groups=groups(findings, seen, cwd),
        in_libraries=[card(index, finding, cwd) for index, finding in enumerate(in_libraries, start=len(findings))],
        timeline=timeline(happenings, findings, places),
        losses=_losses({places.name(site): line for site, line in losses.items()}),
        norms=_norms(recording, places),
        resources=list(_resources(recording)),
        height=HEIGHT,
    )


@functools.cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(prose=_prose, breakable=_breakable)
    return environment.get_template("page.html")


def _prose(text: str) -> Any:
    """A message, with what stands in backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  it is escaped


def _breakable(path: str) -> Any:
    """A path that may be broken after each of its folders."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([/\\])", r"\1<wbr>", str(escape(path))))  # noqa: S704  it is escaped


def _notes(world: World) -> list[str]:
    if world.size == 1:
        return []
    return [sentence(note) for note in (*world.notes, f"the figures and charts are those of rank {world.rank}")]


def _figures(recording: Recording) -> list[tuple[str, str]]:
    counts = recording.counts
    figures = {
        "forward calls": counts["forward"],
        "backward passes": counts["backward"],
        "calls of autograd.grad": counts["grad"],
        "optimizer steps": counts["step"],
    }
    told = [(name, f"{count:,}") for name, count in figures.items() if count or name != "calls of autograd.grad"]
    return [*told, ("watched", f"{recording.seconds:,.1f} s")]


def _losses(losses: dict[Any, list[tuple[int, float]]]) -> dict[str, object] | None:
    chart = curves({name.full: line for name, line in losses.items()}, "backward pass")
    if chart is None:
        return None
    return {"chart": chart, "legend": [(f"c{index % COLOURS}", name) for index, name in enumerate(losses)]}


def _norms(recording: Recording, places: Places) -> list[Heat]:
    charts = (heat(places.name(site), series.points) for site, series in recording.norms.items())
    return [chart for chart in charts if chart is not None]


def _resources(recording: Recording) -> Iterator[tuple[str, str, Chart | None]]:
    graphs, memory = recording.graphs.points, recording.memory.points
    if len(graphs) > 1:
        note = "Outputs of models whose graph is still alive after a step. A line that rises says that graphs pile up."
        yield "Live graphs", note, curves({"live graphs": graphs}, "step", floor=0)
    if len(memory) > 1:
        of = "tensors take on the device" if recording.on_device else "the process takes, after a step"
        megabytes = [(step, used / 2**20) for step, used in memory]
        yield "Memory", f"MiB that {of}.", curves({"memory": megabytes}, "step", floor=0)
