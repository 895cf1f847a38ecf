"""One layer in several places of a container, because a list that holds it was multiplied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known, unknown
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context
from gradlint.static.state.values import REPEATED, Const, Instance, Ref, Sequence, Value
from gradlint.static.state.world import World
from gradlint.static.text.units import NodeSite
from gradlint.static.torch.modules import Modules
from gradlint.surroundings import is_chosen, says_shared

if TYPE_CHECKING:
    from gradlint.finding import Site


class Repetition:
    """Knows layers that stand in a list several times, and tells of containers that are given such lists."""

    _modules: Modules
    _witness: Witness

    def multiplied(self, left: Value, right: Value, w: World) -> None:
        """``[layer] * number``."""
        if not self._witness.listened(events.LayersHeld):
            return
        for side in (left, right):
            sequence = w.get(side, Sequence)
            for value in sequence.parts() if sequence is not None else ():
                layer = w.resolve(value)
                if isinstance(layer, Ref) and self._trains(layer, w):
                    w.write(layer.id).attrs[REPEATED] = Const(True)

    def held(
        self, container: Instance, values: Iterable[Value], more: bool, w: World, ctx: Context, site: Site
    ) -> None:
        """A container was built of these layers, and of others that are not known where there are more."""
        if not self._witness.listened(events.LayersHeld):
            return
        layers = Counter(w.resolve(value) for value in values)
        several = [layer for layer, count in layers.items() if more or count > 1]
        repeated = next((found for one in several if (found := self._repeated(one, w)) is not None), None)
        event = events.LayersHeld(
            site=site,
            container=container.name.replace("torch.nn", "nn") or "a container",
            layer="" if repeated is None else _name(repeated),
            repeated=known(repeated is not None),
            chosen=unknown() if repeated is None else known(_is_meant(site)),
            built_at=None if repeated is None else repeated.made_at,
        )
        self._witness.send(event, w, ctx)

    def _repeated(self, layer: Value, w: World) -> Instance | None:
        obj = w.get(layer, Instance)
        return obj if obj is not None and REPEATED in obj.attrs else None

    def _trains(self, layer: Ref, w: World) -> bool:
        """Whether a value is a layer that is known to have parameters."""
        obj = w.get(layer, Instance)
        return obj is not None and obj.role.is_module and not obj.opaque and bool(self._modules.groups(layer, w))


def _is_meant(site: Site) -> bool:
    """Whether the text around a place tells that a layer is shared on purpose, or only if that is chosen."""
    if not isinstance(site, NodeSite):
        return False
    place = site.locate()
    lines = site.unit.module.source.lines(place.cell)
    return is_chosen(lines, place.row) or says_shared(lines, place.row, place.end_row)


def _name(layer: Instance) -> str:
    return layer.cls.unit.name if layer.cls is not None else layer.name.replace("torch.nn", "nn")
