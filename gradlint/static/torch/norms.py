"""Running statistics: of layers that are frozen, and of copies that follow the parameters of another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_libraries import keeps_statistics
from gradlint.static.knowledge.torch_table import PARAMETER_NAMES
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers, Results
from gradlint.static.state.values import LEFT, NONE, Const, Group, Instance, Ref, Value
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


_ALONE = "frozen alone"  #: with a parameter: what a world is bound to in which that was frozen by itself

UNTRACKED = "<untracked>"
"""An attribute of a layer that keeps no statistics, though others of its class do."""


def tracks_statistics(layer: Instance) -> bool:
    """Whether a layer is known to keep running statistics."""
    tracks = keeps_statistics(layer.name) if layer.layer is None else layer.layer.tracks is not None
    return tracks and layer.cls is None and UNTRACKED not in layer.attrs


class FrozenNorms:
    """Watches layers that keep statistics: what they are called in, and whether they are frozen for good."""

    _ledgers: Ledgers
    _witness: Witness
    _modules: Modules
    _tensors: Tensors

    def __init__(self) -> None:
        self._drifting: Ledger[int, frozenset[int]] = self._ledgers.open()
        """Of frozen layers that have moved their statistics: the parameters of the model that was called."""

    def called(self, ref: Ref, results: Results, ctx: Context, site: Site) -> None:
        """A module was called: those in it that are frozen, beside others that are trained, may have moved."""
        if ctx.in_forward or not self._witness.listened(events.NormDrifts):
            return
        for w, _ in results:
            obj = w.get(ref, Instance)
            if obj is None or obj.role is not roles.MODULE or w.grad is False:
                continue
            groups = self._modules.groups(ref, w)
            if not any(self._tensors.group_grad(key, w) for key in groups):
                continue
            for here in self._modules.walk(ref, w):
                layer = w.get(here, Instance)
                if layer is not None and layer.training is True and self._is_frozen(layer, w):
                    w.write(here.id).drifts_at = site
                    self._drifting[here.id] = groups

    def _is_frozen(self, layer: Instance, w: World) -> bool:
        """Whether it keeps statistics, and its parameters were frozen before any gradient has reached them."""
        named = [layer.attrs.get(name) for name in PARAMETER_NAMES.get(layer.name, ())]
        alone = [(_ALONE, parameter) in w.bound for parameter in named]
        if not tracks_statistics(layer) or (any(alone) and not all(alone)):
            return False
        groups = [w.find(key) for key in layer.groups]
        return bool(groups) and all(
            isinstance(group, Group) and group.requires_grad is False and group.requires_grad_set and not group.fed
            for group in groups
        )

    def frozen_alone(self, parameter: Ref, w: World) -> None:
        """A parameter is frozen, and not the layer that has it: the others of that layer may be trained."""
        w.bound[_ALONE, parameter] = Const(True)

    def stepped(self, stepped: frozenset[int], w: World, ctx: Context) -> None:
        """An optimizer has made a step: a model of which it steps some parameters was called to train."""
        for key, groups in sorted(self._drifting.items()):
            layer = w.find(key)
            if isinstance(layer, Instance) and layer.drifts_at is not None and groups & stepped:
                event = events.NormDrifts(site=layer.drifts_at, layer=layer.name.rpartition(".")[2])
                self._witness.send(event, w, ctx, alternative=layer.drifts_at)

    def thawed(self, groups: Iterable[int], w: World) -> None:
        """Parameters may require grad from now on: they were not frozen for good, as those of a discriminator."""
        told = set(groups) if self._drifting else set[int]()
        for _, layer in w.all(Instance, imported=True) if told else ():
            if layer.drifts_at is not None and layer.groups & told:
                self._witness.withdraw(events.NormDrifts, layer.drifts_at)


_READ = "read"


class LeftStatistics:
    """Watches models whose parameters are written in pairs with those of others, and the mode they are called in."""

    _ledgers: Ledgers
    _witness: Witness
    _modules: Modules

    def __init__(self) -> None:
        self._pairs: Ledger[tuple[int, int], None] = self._ledgers.open()
        """Two modules whose parameters are gone through together."""
        self._kept_up: Ledger[int, None] = self._ledgers.open()
        """Layers whose statistics follow, or may, in any world."""
        self._moved: Ledger[int, None] = self._ledgers.open()  #: those of them that were called in training mode

    def paired(self, modules: list[Value]) -> None:
        """The parameters of these modules are gone through together."""
        refs = [module for module in modules if isinstance(module, Ref)]
        if self._witness.listened(events.StatisticsLeft):
            self._pairs |= {(one.id, other.id): None for one in refs for other in refs if one != other}

    def written(self, groups: frozenset[int], w: World, site: Site) -> None:
        """Parameters are changed by hand: those of a copy, if it is gone through together with another one."""
        for one, other in list(self._pairs) if groups else ():
            own = self._modules.groups(Ref(one), w)
            if not groups <= own or own & self._modules.groups(Ref(other), w):
                continue
            theirs = list(self._layers(Ref(other), w))
            if any(layer.training is False for _, layer in theirs) or not any(key in self._moved for key, _ in theirs):
                continue  # its own statistics stay, too, or are still those that it was made with
            for key, _ in self._layers(Ref(one), w):
                w.bound.setdefault((LEFT, key), Const(site))

    def called(self, ref: Ref, results: Results, ctx: Context, site: Site) -> None:
        """A module was called: in training mode its statistics follow by themselves, in the other they are used."""
        if ctx.in_forward or not self._witness.listened(events.StatisticsLeft):
            return
        for w, _ in results:
            layers = list(self._layers(ref, w))
            moved = {key: None for key, layer in layers if layer.training is not False}
            self._moved |= moved
            self._kept_up |= moved
            left = [(layer, w.bound.get((LEFT, key))) for key, layer in layers if key not in self._kept_up]
            layer, since = next(((one, at) for one, at in left if isinstance(at, Const)), (None, None))
            if layer is not None and isinstance(since, Const) and (LEFT, _READ) not in w.bound:
                name = layer.name.rpartition(".")[2]
                event = events.StatisticsLeft(site=site, layer=name, followed_at=since.value)
                self._witness.send(event, w, ctx, alternative=since.value)

    def loaded(self, ref: Ref, w: World) -> None:
        """A module is given a state dict: again and again, if its parameters were changed by hand before."""
        self._kept_up |= {key: None for key, _ in self._layers(ref, w) if (LEFT, key) in w.bound}

    def asked(self, ref: Ref, w: World) -> None:
        """The buffers of a module are asked for, or it is handed to code that is not known: they may be changed."""
        self._kept_up |= {key: None for key, _ in self._layers(ref, w)}

    def estimated(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``update_bn(loader, model)``: statistics are estimated anew."""
        for value in map(w.resolve, args):
            if isinstance(value, Ref) and w.get(value, Instance) is not None:
                self.asked(value, w)
        return NONE

    def read(self, w: World) -> None:
        """The statistics of some layer are asked for by name: of others, too, perhaps."""
        w.bound[LEFT, _READ] = Const(True)

    def _layers(self, ref: Ref, w: World) -> Iterator[tuple[int, Instance]]:
        for here in self._modules.walk(ref, w):
            layer = w.get(here, Instance)
            if layer is not None and tracks_statistics(layer):
                yield here.id, layer
