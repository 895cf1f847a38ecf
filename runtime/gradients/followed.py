"""All the gradients that are followed, in bundles of equal history, and which of them each optimizer owns.

Parameters are held weakly and looked up by id, because tensors compare elementwise.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..cohorts import Cohorts
from ..records.living import Living
from .bundles import Bundle, Change, Found

if TYPE_CHECKING:
    import torch
    from torch.optim import Optimizer

    from ..frames import FrameSite

Kind = TypeVar("Kind")


class OptimizerSteps:
    """The steps of one optimizer so far."""

    __slots__ = ("bundles", "count", "ended_at", "optimizer", "parameters", "site", "unprepared")

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.parameters: list[weakref.ref[torch.Tensor]] = []  # those it had when it was last seen
        self.bundles: list[Bundle] = []  # of their gradients
        self.count = 0
        self.site: FrameSite | None = None  # of the last one
        self.ended_at = 0  # by the clock of the history
        self.unprepared = True  # so far, no backward pass was there for any of them


class Followed:
    """The bundles of gradients that are followed; those that begin to differ are parted, and stay so.

    Args:
        cohorts: follow the bundles through the protocols.
    """

    def __init__(self, cohorts: Cohorts[Bundle]) -> None:
        self._cohorts = cohorts
        self.bundles: list[Bundle] = []
        self.looked: list[tuple[Bundle, Change, Found]] = []  #: last
        self._homes: dict[int, tuple[weakref.ref[torch.Tensor], Bundle]] = {}  # of parameters, by their id
        self._steps: Living[OptimizerSteps] = Living(operator.attrgetter("optimizer"))

    def home(self, parameter: torch.Tensor) -> Bundle | None:
        """The bundle that a parameter is in; None if it is not followed."""
        reference, bundle = self._homes.get(id(parameter), (None, None))
        return bundle if reference is not None and reference() is parameter else None

    def add(self, parameters: Sequence[torch.Tensor]) -> Bundle:
        """Follow parameters that are not followed yet, and to which nothing has happened."""
        bundle = Bundle(parameters)
        self._cohorts.add(bundle)
        self._settle_in(bundle)
        return bundle

    def of_optimizer(self, optimizer: Optimizer) -> OptimizerSteps:
        """The steps of an optimizer so far."""
        steps = self._steps.get(id(optimizer))
        if steps is None or steps.optimizer() is not optimizer:
            steps = OptimizerSteps(optimizer)
            self._steps.put(optimizer, steps)
        return steps

    def owned_by(self, optimizer: Optimizer) -> list[Bundle] | None:
        """The gradients an optimizer owns; None if its parameters are others than when it was last seen."""
        steps = self.of_optimizer(optimizer)
        known = [parameter() for parameter in steps.parameters]
        given = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        same = len(known) == len(given) and all(map(operator.is_, known, given))
        return steps.bundles if same else None

    def look(self, bundles: Iterable[Bundle]) -> list[tuple[Bundle, Change, Found]]:
        """What became of these gradients; bundles in which it differs are parted."""
        looked: list[tuple[Bundle, Change, Found]] = []
        for bundle in tuple(bundles):
            grads = bundle.now()
            change = bundle.change(grads)
            if change is not None:
                looked.append((bundle, change, grads))
            else:
                looked += [(part, kind, part.now()) for kind, part in self.part(bundle, bundle.changes(grads))]
        self.looked = looked
        return looked

    def part(self, bundle: Bundle, kinds: Sequence[Kind]) -> list[tuple[Kind, Bundle]]:
        """Part a bundle by the kinds its gradients are of."""
        if not kinds:
            return []
        groups: dict[Kind, list[int]] = {}
        for index, kind in enumerate(kinds):
            groups.setdefault(kind, []).append(index)
        parts = bundle.split(list(groups.values()))
        for part in parts[1:]:
            self._settle_in(part)
            self._cohorts.add_like(part, bundle)
            for steps in self._steps.values():
                if bundle in steps.bundles:
                    steps.bundles.append(part)
        return list(zip(groups, parts, strict=True))

    def parted(self, owned: Mapping[int, torch.Tensor]) -> list[Bundle]:
        """The gradients of those of these parameters that are followed already, parted from all others."""
        bundles: list[Bundle] = []
        for bundle in dict.fromkeys(home for one in owned.values() if (home := self.home(one)) is not None):
            kinds = [id(parameter()) in owned for parameter in bundle.parameters]
            bundles += [part for is_owned, part in self.part(bundle, kinds) if is_owned]
        return bundles

    def forget(self, tensors: Container[int]) -> None:
        """Forget parameters that become others, and those whose gradients do; the next step shows them anew."""
        for bundle in self.bundles:
            bundle.forget(tensors)
        self.forget_dead()
        for steps in self._steps.values():
            steps.parameters = []

    def forget_dead(self) -> None:
        """Forget parameters that the bundles have forgotten."""
        if sum(len(bundle.parameters) for bundle in self.bundles) == len(self._homes):
            return
        empty = [bundle for bundle in self.bundles if not bundle.parameters]
        bundles, self.bundles, self._homes = self.bundles, [], {}
        for bundle in bundles:
            if bundle.parameters:
                self._settle_in(bundle)
        for steps in self._steps.values():
            steps.bundles = [bundle for bundle in steps.bundles if bundle.parameters]
        self._cohorts.drop(empty)

    def _settle_in(self, bundle: Bundle) -> None:
        self.bundles.append(bundle)
        for reference in bundle.parameters:
            self._homes[id(reference())] = reference, bundle
