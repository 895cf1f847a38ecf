"""Where memory was last written in place, as far as the watched functions show it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..tensors import memory_of
from .saved import saved_by

if TYPE_CHECKING:
    from ..frames import FrameSite


MANY = 256  #: parameters written since the last pass


class Behind:
    """A parameter that was written behind autograd's back: what was saved of it for backward is another one now."""

    __slots__ = ("_born", "_memory", "_parameter", "site")

    def __init__(self, parameter: torch.Tensor, site: FrameSite) -> None:
        self.site = site
        self._parameter = weakref.ref(parameter)
        self._memory = memory_of(parameter)
        self._born: int = torch._C._autograd._get_sequence_nr()  # nodes of later graphs have higher numbers

    def is_needed_by(self, node: Any) -> bool:
        """Whether a node of a graph was there before the write, and has saved what was written."""
        if self._parameter() is None or node._sequence_nr() >= self._born:
            return False
        return any(memory_of(tensor) == self._memory for tensor in saved_by(node))


class Writes:
    """Where memory was last written in place by the user's own code, as far as the watched functions show it."""

    def __init__(self) -> None:
        self._sites: dict[int, tuple[FrameSite, tuple[int, ...]]] = {}
        self.behind: list[Behind] = []  #: parameters that were written through ``.data``, since the last pass
        self.observers: list[Callable[[torch.Tensor, str, FrameSite], None]] = []
        """Told of tensors that are written, how that is spelled, and where."""

    def add(self, tensor: torch.Tensor, site: FrameSite) -> None:
        """The memory of ``tensor`` is written at ``site``."""
        self._sites[memory_of(tensor)] = site, tuple(tensor.shape)

    def add_behind(self, parameter: torch.Tensor, site: FrameSite) -> None:
        """``parameter`` is written through ``.data`` at ``site``."""
        if len(self.behind) < MANY:
            self.behind.append(Behind(parameter, site))

    def tell(self, tensor: torch.Tensor, how: str, site: FrameSite) -> None:
        """``tensor`` itself is written, or another one that is a view of its memory."""
        for observer in self.observers:
            observer(tensor, how, site)

    def of(self, tensor: torch.Tensor) -> FrameSite | None:
        """Where the memory of ``tensor`` was written, if it was."""
        entry = self._sites.get(memory_of(tensor))
        return None if entry is None else entry[0]

    def of_shape(self, shape: tuple[int, ...]) -> FrameSite | None:
        """Where a tensor of this shape was written, if only one place can be meant."""
        sites = {site for site, other in self._sites.values() if other == shape}
        return sites.pop() if len(sites) == 1 else None

    def forget(self) -> None:
        """A backward pass is over: memory may be used for something else."""
        self._sites.clear()
        self.behind.clear()
