"""Loading: where a file that is unpickled comes from, and what it turns out to hold."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge.torch_table import DOWNLOADS
from gradlint.static.report.witness import Witness
from gradlint.static.state.cloning import clone
from gradlint.static.state.contents import reachable
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.ledger import Ledger, Ledgers
from gradlint.static.state.origins import AttributeOf, ItemOf, New, Parameter, Result, fresh
from gradlint.static.state.provenance import key_of
from gradlint.static.state.values import NONE, Const, External, Instance, Ref, Tensor, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.torch.placement import device_of

if TYPE_CHECKING:
    from gradlint.finding import Site

FOREIGN = "foreign path"  #: the start of the key of an unknown path that comes from elsewhere
OWN = "own path"
"""With the key of a path: what a world has assumed once the program saved something there."""
SAVED = "saved"
"""With the key of a path: what a world is bound to once a module was saved there."""
_ARGUMENTS = "sys.argv"
_UNPICKLED = "unpickled"


@dataclass(frozen=True, slots=True)
class _Load:
    """A call of ``torch.load``."""

    site: Site
    weights_only: Fact[bool]
    ctx: Context


class Loading:
    """Watches ``torch.load``, and what becomes of what it gives."""

    _ledgers: Ledgers
    _witness: Witness

    def __init__(self) -> None:
        self._loads: Ledger[Hashable, _Load] = self._ledgers.open()
        """By the key of what they gave."""

    def downloaded(self, name: str, args: Arguments, w: World) -> None:
        """``name(...)``, by canonical name: it may write a file that comes from elsewhere."""
        if name in DOWNLOADS and DOWNLOADS[name] < len(args.positional):
            w.assumed[FOREIGN, key_of(w.resolve(args.positional[DOWNLOADS[name]]))] = True

    def load(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``torch.load(...)``: of what was saved there, a copy."""
        path = args.get(0, "f") or NONE
        asked = w.resolve(args.get(3, "weights_only") or NONE)
        flag: Fact[bool] = known(bool(asked.value)) if isinstance(asked, Const) and asked != NONE else unknown()
        foreign = known(True) if self._is_foreign(path, w) else unknown()
        self._witness.send(events.Loaded(site=site, weights_only=flag, foreign=foreign), w, ctx)
        saved = w.bound.get((SAVED, key_of(w.resolve(path))), NONE)
        if isinstance(saved, Ref):
            return self._copy(saved, args, w)
        loaded = Unknown(Result(fresh()))
        self._loads[loaded.key] = _Load(site, flag, ctx)
        return loaded

    def _copy(self, saved: Ref, args: Arguments, w: World) -> Value:
        """What is read from a file that ``saved`` was put into: it is where that was, if nothing is told of that."""
        since = fresh()
        copy, told = clone(saved, w), w.resolve(args.get(1, "map_location") or NONE)
        if told != NONE or args.open:
            device = device_of(told, w) if told != NONE else None
            for key in reachable([copy], w):
                if key > since and isinstance(w.find(key), (Instance, Tensor)):
                    w.write(key).device = device
        return copy

    def unpickled(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``pickle.load(...)`` and its like."""
        return new_unknown("unpickled")

    def may_be_frozen(self, value: Unknown) -> bool:
        """Whether something unknown was unpickled, by whoever and however it was made."""
        key: Hashable = value.key
        while isinstance(key, (AttributeOf, ItemOf)):
            key = key.owner
        return isinstance(key, New) and key.what == "unpickled"

    def is_module(self, value: Unknown, w: World) -> None:
        """Something unknown turns out to be a module: where it came out of a file, that holds one."""
        key: Hashable = value.key
        while isinstance(key, ItemOf):
            key = key.owner
        load = self._loads.get(key)
        if load is not None:
            self._witness.send(events.ModuleLoaded(site=load.site, weights_only=load.weights_only), w, load.ctx)

    def _is_foreign(self, path: Value, w: World) -> bool:
        path = w.resolve(path)
        if (OWN, key_of(path)) in w.assumed:
            return False
        if (FOREIGN, key_of(path)) in w.assumed or path == External(_ARGUMENTS):
            return True
        key: Hashable = path.key if isinstance(path, Unknown) else None
        is_attribute = isinstance(key, AttributeOf)
        while isinstance(key, (AttributeOf, ItemOf)):
            key = key.owner
        match key:
            case Parameter(_, name):
                return name == "argv"
            case New(what):
                return what == "foreign path" or (is_attribute and what == "options")
        return key == _ARGUMENTS
