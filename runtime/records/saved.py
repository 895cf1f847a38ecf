"""Tensors that were saved for backward while their values are compared."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

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
