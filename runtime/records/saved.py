"""Tensors that were saved for backward: what a node holds, and what is compared of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .checksums import Content

if TYPE_CHECKING:
    import torch

    from ..frames import FrameSite


class Comparing(Protocol):
    """Who compares what was saved with what is used."""

    active: bool

    def compare(self, saved: Saved, now: Content) -> None:
        """Backward is about to use ``saved``, which is another one now, or may be."""
        ...

    def give_up(self, error: Exception) -> None:
        """Something has failed: compare no more."""
        ...


class Saved:
    """A tensor saved for backward: detached, because the tensor itself would keep its own graph alive for good."""

    __slots__ = ("content", "is_parameter", "now", "saved_at", "sinks", "site", "tensor", "version")

    tensor: torch.Tensor
    version: int  #: -1 for a tensor that does not count its changes
    is_parameter: bool
    sinks: tuple[weakref.ref[Comparing], ...]
    saved_at: int  #: by the clock
    site: FrameSite
    now: Callable[[], Content | None]  #: what it holds; None where its memory has been given back
    content: Content | None  #: what it held when it was saved; None where that cannot be read


def saved_by(node: Any) -> Iterator[torch.Tensor]:
    """What a node has saved.  What hooks of the user's have packed is left packed: unpacking may compute it again."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            try:
                value = getattr(node, name)
            except RuntimeError:  # it was freed
                continue
            for saved in value if isinstance(value, tuple) else (value,):
                held = held_by(saved)
                if held is not None:
                    yield held


def held_by(saved: Any) -> torch.Tensor | None:
    """What is behind an attribute ``_raw_saved_…`` of a node; None where hooks of the user's have packed it."""
    data = saved.data
    if isinstance(data, Saved):
        return data.tensor
    return data if saved.unpack_hook is None else None
