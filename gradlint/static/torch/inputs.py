"""Inputs: what modules with parameters are given."""

from __future__ import annotations

from collections.abc import Iterable

from gradlint.static.state.values import NONE, Tensor, Value
from gradlint.static.state.world import World


class Inputs:
    """Knows the leaves that are inputs of models."""

    def __init__(self) -> None:
        self.groups: set[int] = set()  #: groups of leaves that a module with parameters is given

    def fed(self, given: Iterable[Value], w: World) -> None:
        """A module with parameters, or what looks like one, is called: what it is given first is its input.

        So is what that was computed from, as noise that was added to it.
        """
        tensor = w.get(w.resolve(next(iter(given), NONE)), Tensor)
        if tensor is not None and not tensor.is_parameter:
            self.groups |= tensor.groups or tensor.deps
