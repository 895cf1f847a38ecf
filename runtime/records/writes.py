"""Where memory was last written in place, as far as the watched functions show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..tensors import memory_of

if TYPE_CHECKING:
    import torch

    from ..frames import FrameSite


class Writes:
    """Where memory was last written in place by the user's own code, as far as the watched functions show it."""

    def __init__(self) -> None:
        self._sites: dict[int, tuple[FrameSite, tuple[int, ...]]] = {}
        self.observers: list[Callable[[torch.Tensor, str, FrameSite], None]] = []
        """Told of tensors that are written, how that is spelled, and where."""

    def add(self, tensor: torch.Tensor, site: FrameSite) -> None:
        """The memory of ``tensor`` is written at ``site``."""
        self._sites[memory_of(tensor)] = site, tuple(tensor.shape)

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
