"""Saving: what is pickled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known, unknown
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.provenance import key_of
from gradlint.static.state.values import NONE, Choice, Instance, Mapping, Object, Sequence, Value
from gradlint.static.state.world import World
from gradlint.static.torch.loading import OWN, SAVED
from gradlint.static.torch.state_dicts import StateDicts

if TYPE_CHECKING:
    from gradlint.finding import Site


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
