"""Parameters that were seen frozen, and which of them require grad again."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from .living import Marked

if TYPE_CHECKING:
    import weakref

    import torch

FEW = 4  #: of them are looked at in each turn, however few there are
TURNS = 16  #: in which all are looked at, however many there are


class Frozen:
    """Parameters that were seen frozen."""

    def __init__(self) -> None:
        self._known = Marked()
        self._order: list[weakref.ref[torch.Tensor]] = []

    def add(self, parameters: Iterable[torch.Tensor]) -> None:
        """Those of them that are frozen are known from now on."""
        new = [one for one in parameters if not one.requires_grad and one not in self]
        if not new:
            return
        for one in new:
            self._known.add(one)
        self._order = self._known.references()

    def __contains__(self, parameter: torch.Tensor) -> bool:
        return parameter in self._known

    def forget(self, tensors: Iterable[torch.Tensor]) -> None:
        """They become others."""
        for tensor in tensors:
            self._known.discard(tensor)
        self._order = self._known.references()

    def thawed(self, turn: int, others_than: Container[int]) -> list[torch.Tensor]:
        """Some of those that have a gradient now; within a few turns, all of them.

        Args:
            turn: counts up.
            others_than: the ids of those that are not asked for.
        """
        count = len(self._order)
        if not count:
            return []
        some = FEW + count // TURNS
        first = turn % -(-count // some) * some
        found = []
        for reference in self._order[first : first + some]:
            one = reference()
            if one is not None and one.requires_grad and one.grad is not None and id(one) not in others_than:
                found.append(one)
        return found
