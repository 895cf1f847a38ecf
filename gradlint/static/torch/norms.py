"""Normalisation layers that are frozen, and move their running statistics all the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_libraries import keeps_statistics
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context, Results
from gradlint.static.state.ledger import Ledger, Ledgers
from gradlint.static.state.values import Group, Instance, Ref
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

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
        if not tracks_statistics(layer):
            return False
        groups = [w.find(key) for key in layer.groups]
        return bool(groups) and all(
            isinstance(group, Group) and group.requires_grad is False and group.requires_grad_set and not group.fed
            for group in groups
        )

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
