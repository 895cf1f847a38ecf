"""State dicts: the tensors in one share the memory of the parameters, and change with them."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import NONE, Mapping, Object, Ref, Sequence, Tensor, Value, each_of
from gradlint.static.state.world import World
from gradlint.static.text.units import NodeSite
from gradlint.static.torch.modules import Modules
from gradlint.surroundings import is_chosen

if TYPE_CHECKING:
    from gradlint.finding import Site

_DEEP = 3  #: dicts and lists in one another, in which a state dict is looked for


class StateDicts:
    """Knows what becomes of the parameters whose memory a state dict shares, and tells of its use after that."""

    _modules: Modules
    _witness: Witness

    def taken(self, module: Ref, tensor: Tensor, w: World, site: Site) -> Value:
        """``module.state_dict()``, of which one tensor stands for all."""
        listened = self._witness.listened(events.StateDictReused)
        views = self._modules.groups(module, w) if listened else frozenset[int]()
        return w.new(Mapping({}, w.new(tensor), views=views, taken_at=site))

    def changed(self, groups: Container[object], w: World, site: Site) -> None:
        """Parameters were changed."""
        if not self._witness.listened(events.StateDictReused):
            return
        for key, obj in list(w.heap.items()):
            if isinstance(obj, Mapping) and obj.outdated_at is None and any(view in groups for view in obj.views):
                w.write(key).outdated_at = site

    def loaded(self, module: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``module.load_state_dict(state)``: other state dicts of the module are those of the loaded state now."""
        groups = self._modules.groups(module, w)
        given = w.resolve(args.get(0, "state_dict") or NONE)
        for each in each_of(given):
            state = w.get(w.resolve(each), Mapping)
            if state is not None:
                self._used("load", state, bool(groups) and groups == state.views, w, ctx, site)
        if not any(self._views(each, w) & groups for each in each_of(given)):
            self.changed(groups, w, site)

    def saved(self, value: Value, w: World, ctx: Context, site: Site) -> None:
        """Something is written to a file."""
        for state in self._within(value, w, _DEEP) if self._witness.listened(events.StateDictReused) else ():
            self._used("save", state, False, w, ctx, site)

    def _used(self, by: str, state: Mapping, own: bool, w: World, ctx: Context, site: Site) -> None:
        if not state.views or state.outdated_at is None or state.taken_at is None:
            return
        event = events.StateDictReused(
            site=state.taken_at,
            by=by,
            used_at=site,
            own=known(own),
            chosen=known(_is_chosen(state.taken_at)),
            changed_at=state.outdated_at,
        )
        self._witness.send(event, w, ctx)

    def _views(self, value: Value, w: World) -> frozenset[int]:
        state = w.get(w.resolve(value), Mapping)
        return state.views if state is not None else frozenset()

    def _within(self, value: Value, w: World, depth: int) -> Iterator[Mapping]:
        for each in each_of(w.resolve(value)):
            obj = w.get(w.resolve(each), Object)
            if isinstance(obj, Mapping) and obj.views:
                yield obj
            elif isinstance(obj, (Mapping, Sequence)) and depth:
                for part in obj.parts():
                    yield from self._within(part, w, depth - 1)


def _is_chosen(site: Site) -> bool:
    """Whether what stands at a place is done on a condition."""
    if not isinstance(site, NodeSite):
        return False
    place = site.locate()
    return is_chosen(site.unit.module.source.lines(place.cell), place.row)
