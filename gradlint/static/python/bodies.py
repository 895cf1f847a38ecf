"""The bodies of files and classes: their statements and definitions, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gradlint.source import SourceError
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.flow import Flow
from gradlint.static.python.names import Names
from gradlint.static.python.progress import Progress, Wholeness
from gradlint.static.state.context import Context, Outcome
from gradlint.static.state.joining import join
from gradlint.static.state.values import new_unknown
from gradlint.static.state.world import World
from gradlint.static.text.chains import assigned_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.units import StatementUnit, Unit


class Bodies:
    """Executes units, which are parsed for that."""

    _progress: Progress
    _whole: Wholeness
    _definitions: Definitions
    _names: Names
    _flow: Flow

    def unit(self, unit: Unit, w: World, ctx: Context) -> None:
        """Execute one unit in place."""
        ends = self.units([unit], [w], ctx).normal
        if ends:
            end = ends[0]
            for other in ends[1:]:
                end = join(end, other)
            w.become(end)

    def units(self, units: list[Unit], worlds: list[World], ctx: Context) -> Outcome:
        """Execute units one after the other, as :meth:`Flow.block` does statements."""
        out = Outcome(list(worlds))
        for unit in units:
            if isinstance(unit, StatementUnit) and unit.is_text:
                continue
            here = replace(ctx, unit=unit)
            reached, out.normal = out.normal, []
            if isinstance(unit, StatementUnit):
                if not unit.is_readable:
                    out.normal = [self._bound(assigned_in(unit.text), world, here) for world in reached]
                    continue
                self._flow.statements(unit.node, reached, here, out)
                if self._whole.holds:
                    self._progress.settle()
                continue
            for world in reached:
                if isinstance(unit, (FunctionUnit, ClassUnit)):
                    try:
                        self._definitions.define(unit, world, here)
                    except SourceError:
                        self._bound([unit.name], world, here)
                out.normal.append(world)
        return out

    def _bound(self, names: Iterable[str], w: World, ctx: Context) -> World:
        """Where a unit that cannot be parsed has bound its names."""
        for name in names:
            self._names.assign(name, new_unknown("unreadable", name), w, ctx)
        return w
