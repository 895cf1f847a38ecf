"""Parameters that were seen frozen, and which of them require grad again."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

FEW = 4  #: of them are looked at in each turn, however few there are
TURNS = 16  #: in which all are looked at, however many there are
SPARE = 64  #: that may be gone before those that are gone are forgotten


class Frozen:
    """Parameters that were seen frozen, held weakly; looked up by id, because tensors compare elementwise."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[torch.Tensor]] = {}
        self._order: list[weakref.ref[torch.Tensor]] = []
        self._most = SPARE

    def add(self, parameters: Iterable[torch.Tensor]) -> None:
        """Those of them that are frozen are known from now on."""
        new = [one for one in parameters if not one.requires_grad and one not in self]
        if not new:
            return
        if len(self._known) + len(new) > self._most:
            self._known = {key: one for key, one in self._known.items() if one() is not None}
            self._most = 2 * (len(self._known) + len(new)) + SPARE
        self._known.update((id(one), weakref.ref(one)) for one in new)
        self._order = list(self._known.values())

    def __contains__(self, parameter: torch.Tensor) -> bool:
        reference = self._known.get(id(parameter))
        return reference is not None and reference() is parameter

    def forget(self, tensors: Iterable[torch.Tensor]) -> None:
        """They become others."""
        for tensor in tensors:
            self._known.pop(id(tensor), None)
        self._order = list(self._known.values())

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
