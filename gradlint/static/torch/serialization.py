"""Saving and loading: what is pickled, and where a file that is unpickled comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge.torch_table import DOWNLOADS
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.provenance import key_of
from gradlint.static.state.values import (
    NONE,
    Choice,
    Const,
    External,
    Instance,
    Mapping,
    Object,
    Sequence,
    Unknown,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.torch.state_dicts import StateDicts

if TYPE_CHECKING:
    from gradlint.finding import Site

FOREIGN = "foreign path"  #: the start of the key of an unknown path that comes from elsewhere
_OWN = "own path"
_ARGUMENTS = "sys.argv"


class Serialization:
    """Watches ``torch.save`` and ``torch.load``."""

    _witness: Witness
    _state_dicts: StateDicts

    def called(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``name(...)``, by canonical name."""
        if name == "torch.save":
            self._state_dicts.saved(args.get(0, "obj") or NONE, w, ctx, site)
            module = self._holds_module(args.get(0, "obj") or NONE, w)
            w.assumed[_OWN, key_of(w.resolve(args.get(1, "f") or NONE))] = True
            self._witness.send(events.Saved(site=site, module=known(True) if module else unknown()), w, ctx)
        elif name == "torch.load":
            asked = w.resolve(args.get(3, "weights_only") or NONE)
            flag: Fact[bool] = known(bool(asked.value)) if isinstance(asked, Const) and asked != NONE else unknown()
            foreign = known(True) if self._is_foreign(args.get(0, "f") or NONE, w) else unknown()
            self._witness.send(events.Loaded(site=site, weights_only=flag, foreign=foreign), w, ctx)
        elif name in DOWNLOADS and DOWNLOADS[name] < len(args.positional):
            w.assumed[FOREIGN, key_of(w.resolve(args.positional[DOWNLOADS[name]]))] = True

    def _holds_module(self, value: Value, w: World) -> bool:
        value = w.resolve(value)
        if isinstance(value, Choice):
            return all(self._holds_module(alternative, w) for alternative in value.alternatives)
        obj = w.get(value, Object)
        if isinstance(obj, Instance):
            return obj.kind in ("module", "lightning")
        parts: list[Value] = []
        if isinstance(obj, Mapping):
            parts = list(obj.items.values())
        elif isinstance(obj, Sequence):
            parts = list(obj.items)
        return any(
            (i := w.get(w.resolve(p), Instance)) is not None and i.kind in ("module", "lightning") for p in parts
        )

    def _is_foreign(self, path: Value, w: World) -> bool:
        path = w.resolve(path)
        if (_OWN, key_of(path)) in w.assumed:
            return False
        if (FOREIGN, key_of(path)) in w.assumed or path == External(_ARGUMENTS):
            return True
        key = path.key if isinstance(path, Unknown) else ()
        while isinstance(key, tuple) and len(key) > 1 and key[0] in ("attribute", "item"):
            key = key[1]
        if not isinstance(key, tuple) or not key:
            return key == _ARGUMENTS
        return key[0] == FOREIGN or (key[0] == "param" and len(key) > 2 and key[2] == "argv")
