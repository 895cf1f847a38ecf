"""Optimizers whose parameters are frozen, or no longer those of the model.

A parameter that takes its place in a model whose others an optimizer has owned before is expected to get an owner.  Of
what happened before the guard, the end result tells: the optimizer holds parameters that no gradient reaches and no
module has any more, while a model is trained whose parameters no optimizer holds.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from gradlint.events import OptimizerChecked
from gradlint.facts import TRUE, unknown

if TYPE_CHECKING:
    from ..calls import BuildCall, PlaceCall, StepCall, SwapCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..recording import Recording
    from ..records.modules import KnownModules

PATIENCE = 3  #: steps, in which parameters that were placed get an owner


class _Owner:
    """An optimizer, and what it was seen to do."""

    __slots__ = ("built_at", "frozen", "kind", "looked", "optimizer", "stepped_at", "steps", "told")

    def __init__(self, optimizer: Optimizer, built_at: FrameSite | None) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.kind = type(optimizer).__name__
        self.built_at = built_at
        self.stepped_at: FrameSite | None = None  # for the last time
        self.steps = 0
        self.frozen = True  # at each step so far
        self.looked = 0  # how often it was asked why a step had nothing to apply
        self.told = False


@dataclass(slots=True, eq=False)
class _Placed:
    """Parameters that took their place beside others, which an optimizer owned already."""

    site: FrameSite
    module: weakref.ref[nn.Module]
    parameters: list[weakref.ref[nn.Parameter]]
    owner: _Owner
    steps: int = 0  #: of the owner since
    versions: dict[int, int] = field(default_factory=dict)  #: by the ids of the parameters, at the first of them

    def look(self) -> None:
        """The owner steps once more."""
        self.steps += 1
        if self.steps == 1:
            self.versions = {id(parameter): parameter._version for parameter in _alive(self.parameters)}


class Ownership:
    """Reports optimizers that do not own the parameters that are trained."""

    def __init__(
        self, judge: Judge, modules: KnownModules, recording: Recording, optimizers: Iterable[Optimizer]
    ) -> None:
        self._judge = judge
        self._modules = modules
        self._recording = recording
        self._owners = {id(optimizer): _Owner(optimizer, None) for optimizer in optimizers}
        self._placed: list[_Placed] = []

    # --- what is told by the interception --------------------------------------------------------------------

    def optimizer_built(self, call: BuildCall) -> None:
        self._owners = {key: owner for key, owner in self._owners.items() if owner.optimizer() is not None}
        self._owners[id(call.optimizer)] = _Owner(call.optimizer, call.site)

    def part_placed(self, call: PlaceCall) -> None:
        if not self._owners:
            return
        beside = {id(parameter) for parameter in call.module.parameters()}
        part = [call.part] if isinstance(call.part, nn.Parameter) else list(call.part.parameters())
        for owner in self._owners.values() if beside and part else ():
            optimizer = owner.optimizer()
            owned = set() if optimizer is None else {id(parameter) for parameter in _parameters(optimizer)}
            new = [parameter for parameter in part if id(parameter) not in owned]
            if new and not owned.isdisjoint(beside):
                references = [weakref.ref(parameter) for parameter in new]
                self._placed.append(_Placed(call.site, weakref.ref(call.module), references, owner))

    def step_begins(self, call: StepCall) -> None:
        owner = self._owner(call.optimizer)
        owner.stepped_at = call.site
        owner.steps += 1
        if owner.frozen:
            owner.frozen = not call.closure and _are_frozen(call.optimizer)
            if owner.frozen and owner.steps >= PATIENCE and not self._others(owner):
                self._tell_frozen(owner)
        if self._placed:
            for placed in self._placed:
                if placed.owner is owner:
                    placed.look()
            self._decide([placed for placed in self._placed if placed.steps >= PATIENCE])

    def tensors_swapped(self, call: SwapCall) -> None:
        """Ask nothing of parameters that become others."""
        swapped = set(map(id, call.tensors))
        for placed in self._placed:
            placed.parameters = [one for one in placed.parameters if id(one()) not in swapped]

    def finish(self, _: FrameSite) -> None:
        """The guard ends: what was frozen until now does not thaw any more."""
        self._decide([placed for placed in self._placed if placed.steps])
        for owner in self._owners.values():
            if owner.frozen and owner.steps > 1:
                self._tell_frozen(owner)

    # --- what the history of gradients asks -------------------------------------------------------------------

    def explains(self, optimizer: Optimizer, unreached: list[torch.Tensor]) -> bool:
        """Whether this tells, now or later, why the steps of an optimizer have nothing to apply."""
        owner = self._owner(optimizer)
        if owner.told or owner.frozen:
            return True
        owner.looked += 1
        return owner.looked <= PATIENCE and bool(self.lost(optimizer, unreached))

    def lost(self, optimizer: Optimizer, unreached: list[torch.Tensor]) -> set[int]:
        """The ids of those parameters of an optimizer that lack their gradients for the reason that this tells."""
        owner = self._owner(optimizer)
        if not unreached or gc.get_freeze_count():
            return set()
        registered = [vars(module).get("_parameters", {}) for module in _living(nn.Module)]
        held = {id(parameter) for parameters in registered for parameter in parameters.values()}
        orphans = [p for p in unreached if isinstance(p, nn.Parameter) and p.requires_grad and id(p) not in held]
        walked_at = self._recording.walked_at
        if orphans and walked_at is not None and not owner.told and self._are_replaced(optimizer, orphans):
            self._tell(owner, trained_at=walked_at)
        return {id(orphan) for orphan in orphans} if owner.told else set()

    def _are_replaced(self, optimizer: Optimizer, orphans: list[nn.Parameter]) -> bool:
        """Whether others are trained in place of those that are lost, and nobody owns them."""
        owned = {id(parameter) for other in _living(Optimizer) for parameter in _parameters(other)}
        mine = {id(parameter) for parameter in _parameters(optimizer)}
        shapes = Counter(tuple(orphan.shape) for orphan in orphans)
        all_lost = len(mine) == len(orphans)
        for module in self._modules:
            parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
            missed = [one for one in parameters if one.grad is not None and id(one) not in owned]
            # A part was replaced of a model that it owns otherwise; or it owns nothing of a copy that looks the same.
            is_part = any(id(parameter) in mine for parameter in parameters)
            looks_the_same = all_lost and not shapes - Counter(tuple(parameter.shape) for parameter in missed)
            if missed and (is_part or looks_the_same):
                return True
        return False

    # --- telling ---------------------------------------------------------------------------------------------

    def _owner(self, optimizer: Optimizer) -> _Owner:
        owner = self._owners.get(id(optimizer))
        if owner is None or owner.optimizer() is not optimizer:
            owner = self._owners[id(optimizer)] = _Owner(optimizer, None)
        return owner

    def _others(self, owner: _Owner) -> bool:
        """Whether anything else is, or may be, trained by an optimizer."""
        return any(other.optimizer() is not None for other in self._owners.values() if other is not owner)

    def _decide(self, placed: list[_Placed]) -> None:
        if not placed:
            return
        self._placed = [one for one in self._placed if one not in placed]
        owned = {id(parameter) for optimizer in _living(Optimizer) for parameter in _parameters(optimizer)}
        for one in placed:
            module = one.module()
            inside = set() if module is None else {id(parameter) for parameter in module.parameters()}
            missed = [parameter for parameter in _alive(one.parameters) if id(parameter) in inside - owned]
            # Those that somebody moves by hand need no optimizer.
            if any(p.requires_grad and p.grad is not None and p._version == one.versions.get(id(p)) for p in missed):
                self._tell(one.owner, misses_at=one.site)

    def _tell_frozen(self, owner: _Owner) -> None:
        self._tell(owner, frozen=True)

    def _tell(
        self,
        owner: _Owner,
        frozen: bool = False,
        misses_at: FrameSite | None = None,
        trained_at: FrameSite | None = None,
    ) -> None:
        site = owner.built_at or owner.stepped_at
        if owner.told or site is None:
            return
        owner.told = True
        self._judge.send(
            OptimizerChecked(
                site=site,
                optimizer=owner.kind,
                frozen=TRUE if frozen else unknown(),
                misses_at=misses_at,
                trained_at=trained_at,
                stepped_at=owner.stepped_at if owner.built_at is not None else None,
            )
        )


def _parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _are_frozen(optimizer: Optimizer) -> bool:
    """Whether a step of an optimizer moves nothing, because nothing requires grad."""
    return all(one.grad is None and not one.requires_grad for one in _parameters(optimizer))


def _alive(references: list[weakref.ref[nn.Parameter]]) -> list[nn.Parameter]:
    return [parameter for reference in references if (parameter := reference()) is not None]


def _living(kind: type) -> Iterator[Any]:
    """All objects of a class and its subclasses.  This looks at everything there is: on suspicion only."""
    return (thing for thing in gc.get_objects() if issubclass(type(thing), kind))
