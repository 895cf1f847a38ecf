"""Reads of ``.grad``, as the watched functions show them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import GradOfTensorRead, Tensor
from gradlint.facts import known

from ..frames import calling_frame, site_of

if TYPE_CHECKING:
    from ..judging import Judge


class GradientReads:
    """Reports reads of ``.grad`` in the user's own code where no backward pass leaves a gradient."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def before(self) -> dict[Any, Callable[..., None]]:
        """Nothing needs to be known before the functions run."""
        return {}

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function."""
        descriptor: Any = torch.Tensor.grad
        return {descriptor.__get__: self._read}

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        tensor = args[0]
        if tensor.grad_fn is None or result is not None:
            return
        frame = calling_frame(sys._getframe(1))
        if frame is not None:
            view = Tensor(
                requires_grad=known(tensor.requires_grad),
                is_leaf=known(tensor.is_leaf),
                retains_grad=known(tensor.retains_grad),
            )
            site = site_of(frame)
            self._judge.send(GradOfTensorRead(site=site, tensor=view))
