"""State dicts: their tensors share the memory of the parameters; and what is saved."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from gradlint import events
from gradlint.facts import known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.provenance import key_of
from gradlint.static.state.values import (
    NONE,
    Choice,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Value,
    each_of,
)
from gradlint.static.state.world import World
from gradlint.static.text.units import NodeSite
from gradlint.static.torch.batches import OWN, SAVED, Loading
from gradlint.static.torch.layer_containers import stands_for_others
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import LeftStatistics
from gradlint.surroundings import is_chosen

if TYPE_CHECKING:
    from gradlint.finding import Site


_DEEP = 3  #: dicts and lists in one another, in which a state dict is looked for


class StateDicts:
    """Knows what becomes of the parameters whose memory a state dict shares, and tells of its use after that."""

    _modules: Modules
    _left_statistics: LeftStatistics
    _loading: Loading
    _witness: Witness

    def taken(self, module: Ref, tensor: Tensor, w: World, site: Site) -> Value:
        """``module.state_dict()``, of which one tensor stands for all."""
        listened = self._witness.listened(events.StateDictReused, events.WeightsTaken)
        views = self._modules.groups(module, w) | self._buffers(module, w) if listened else frozenset[int]()
        return w.new(Mapping({}, w.new(tensor), views=views, taken_at=site))

    def _buffers(self, module: Ref, w: World) -> frozenset[int]:
        """The buffers of a module and of those below it, as far as they are known."""
        held = [obj for ref in self._modules.walk(module, w) if isinstance(obj := w.find(ref.id), Instance)]
        values = (w.resolve(obj.attrs[name]) for obj in held for name in obj.buffers if name in obj.attrs)
        return frozenset(value.id for value in values if isinstance(value, Ref))

    def stepped(self, groups: frozenset[int], w: World, site: Site) -> None:
        """An optimizer of these parameters made a step; one of which nothing is known is presumed to have others."""
        if self._witness.listened(events.StateDictReused):
            self._changed(self._witness.presumed(groups, w), w, site)

    def _changed(self, groups: Container[object], w: World, site: Site) -> None:
        """Parameters were changed."""
        for key, obj in w.all(Mapping):
            if obj.outdated_at is None and any(view in groups for view in obj.views):
                w.write(key).outdated_at = site

    def loaded(self, module: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``module.load_state_dict(state)``: other state dicts of the module are those of the loaded state now."""
        groups = self._modules.groups(module, w)
        given = w.resolve(args.get(0, "state_dict") or NONE)
        for key in groups if self._loading.is_from_file(given) else ():
            w.write(key).loaded = True
        self._given(module, groups, given, w, ctx, site)
        for each in each_of(given):
            state = w.get(w.resolve(each), Mapping)
            if state is not None:
                buffers = frozenset(key for key in state.views if not isinstance(w.find(key), Group))
                self._used("load", state, bool(groups) and groups == state.views - buffers, w, ctx, site)
        if not any(self._views(each, w) & groups for each in each_of(given)):
            self._changed(groups, w, site)

    def _given(self, module: Ref, groups: frozenset[int], given: Value, w: World, ctx: Context, site: Site) -> None:
        """``module.load_state_dict(other.state_dict())``."""
        state, obj = w.get(given, Mapping), w.get(module, Instance)
        if state is None or obj is None or not state.views or not _is_argument(state.taken_at, site):
            return
        own = groups | self._buffers(module, w) == state.views and _is_one(module, obj, w)
        self._witness.send(events.WeightsTaken(site=site, by="load", own=known(own), built_at=obj.made_at), w, ctx)

    def paired(self, values: list[Value], w: World, ctx: Context, site: Site) -> None:
        """``zip(target.parameters(), source.parameters())``."""
        if not self._witness.listened(events.WeightsTaken, events.StatisticsLeft):
            return
        held = [w.get(w.resolve(value), Instance) for value in values]
        whole = [obj.args[0] for obj in held if obj is not None and obj.role is roles.PARAMETERS and obj.args]
        modules = [w.resolve(value) for value in whole]
        if len(modules) < 2 or not isinstance(modules[0], Ref):
            return
        self._left_statistics.paired(modules)
        own = modules.count(modules[0]) == len(modules) and not stands_for_others(modules[0], w)
        obj = w.get(modules[0], Instance)
        built_at = obj.made_at if obj is not None else None
        self._witness.send(events.WeightsTaken(site=site, by="pairs", own=known(own), built_at=built_at), w, ctx)

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


def _is_one(module: Ref, obj: Instance, w: World) -> bool:
    """Whether a module is all there is with its parameters, as far as those tell which one it is."""
    if stands_for_others(module, w):
        return False
    others = (other for key, other in w.having(roles.MODULE) if key != module.id)
    return not (obj.opaque and any(other.opaque and other.groups == obj.groups for other in others))


def _is_argument(taken_at: Site | None, site: Site) -> bool:
    """Whether a state dict is taken, of what bears another name, by the first argument of the call that is given it."""
    call, taken = (each.node if isinstance(each, NodeSite) else None for each in (site, taken_at))
    if not isinstance(call, cst.Call) or not isinstance(taken, cst.Call) or not call.args:
        return False
    if not isinstance(call.func, cst.Attribute) or not isinstance(taken.func, cst.Attribute):
        return False
    return call.args[0].value is taken and not call.func.value.deep_equals(taken.func.value)


def _is_chosen(site: Site) -> bool:
    """Whether what stands at a place is done on a condition."""
    if not isinstance(site, NodeSite):
        return False
    place = site.locate()
    return is_chosen(site.unit.module.source.lines(place.cell), place.row)


class Saving:
    """Watches ``torch.save``."""

    _witness: Witness
    _state_dicts: StateDicts

    def called(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``name(...)``, by canonical name."""
        if name != "torch.save":
            return
        saved, path = args.get(0, "obj") or NONE, key_of(w.resolve(args.get(1, "f") or NONE))
        self._state_dicts.saved(saved, w, ctx, site)
        module = self._holds_module(saved, w)
        w.assumed[OWN, path] = True
        w.bound[SAVED, path] = w.resolve(saved) if module else NONE
        self._witness.send(events.Saved(site=site, module=known(True) if module else unknown()), w, ctx)

    def _holds_module(self, value: Value, w: World) -> bool:
        value = w.resolve(value)
        if isinstance(value, Choice):
            return all(self._holds_module(alternative, w) for alternative in value.alternatives)
        obj = w.get(value, Object)
        if isinstance(obj, Instance):
            return obj.role.is_model
        parts: list[Value] = []
        if isinstance(obj, Mapping):
            parts = list(obj.items.values())
        elif isinstance(obj, Sequence):
            parts = list(obj.items)
        return any((i := w.get(w.resolve(p), Instance)) is not None and i.role.is_model for p in parts)
