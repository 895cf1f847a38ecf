"""Parameters that an optimizer owns and no gradient ever reaches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from gradlint.events import NeverReached, Step

from .bundles import Bundle
from .followed import OptimizerSteps

if TYPE_CHECKING:
    import torch
    from torch.optim import Optimizer

    from ..calls import StepCall
    from ..judging import Judge
    from ..records.modules import KnownModules

PATIENCE = 5  #: steps, without which nothing is said of gradients that were never there


class Owners(Protocol):
    """Who knows optimizers that own what is not trained any more."""

    def explains(self, optimizer: Optimizer, unreached: list[torch.Tensor]) -> bool:
        """Whether this tells, now or later, why the steps of an optimizer have nothing to apply."""
        ...

    def lost(self, optimizer: Optimizer, unreached: list[torch.Tensor]) -> set[int]:
        """The ids of those parameters of an optimizer that lack their gradients for the reason that this tells."""
        ...


class Unreached:
    """Reports, at the end, parameters that have never had a gradient in all the steps of their optimizer."""

    def __init__(self, judge: Judge, modules: KnownModules, owners: Owners | None) -> None:
        self._judge = judge
        self._modules = modules
        self._owners = owners
        self._suspects: dict[int, tuple[OptimizerSteps, dict[int, str]]] = {}  # by the ids of optimizers
        """The steps, and the names of parameters by their ids."""

    def reached(self, bundle: Bundle) -> None:
        """A bundle has gradients for the first time."""
        keys = [id(parameter()) for parameter in bundle.parameters]
        for _, names in self._suspects.values():
            for key in keys:
                names.pop(key, None)

    def count(self, call: StepCall, steps: OptimizerSteps, bundles: Iterable[Bundle]) -> None:
        """After several steps: which gradients have never been there?"""
        steps.count += 1
        steps.site = call.site
        if steps.count == PATIENCE:
            self._suspect(call.optimizer, steps, bundles)

    def finish(self) -> None:
        """The guard ends: a loss that sets in late, or an expert that is seldom asked, has come by now."""
        for steps, names in self._suspects.values():
            self._tell(steps, tuple(names.values()))
        self._suspects = {}

    def _suspect(self, optimizer: Optimizer, steps: OptimizerSteps, bundles: Iterable[Bundle]) -> None:
        """Remember the names now: at the end, the model may be gone."""
        found = unreached(bundles)
        lost = set() if self._owners is None or not found else self._owners.lost(optimizer, found)
        # A sharded parameter may have no elements on this rank: nothing is missing there.
        trainable = [one for one in found if one.requires_grad and one.numel() and id(one) not in lost]
        names = dict(zip(map(id, trainable), self._modules.names(trainable), strict=True))
        self._suspects[id(optimizer)] = steps, names

    def _tell(self, steps: OptimizerSteps, names: tuple[str, ...]) -> None:
        if steps.unprepared and self._judge.checks(Step):
            return  # each of its steps was told to be in vain
        if names and steps.site is not None:
            self._judge.send(NeverReached(site=steps.site, parameters=names, steps=steps.count))


def unreached(bundles: Iterable[Bundle]) -> list[torch.Tensor]:
    """The parameters that have never had a gradient."""
    found = [parameter() for one in bundles if not one.reached for parameter in one.parameters]
    return [parameter for parameter in found if parameter is not None]
