"""Values that carry no graph: made where gradients were disabled, or told to require grad afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import RequiresGradSet, Tensor
from gradlint.facts import known

from ..calls import ForwardCall
from ..frames import FrameSite, calling_frame, site_of
from ..judging import Judge
from ..records.graph_breaks import GraphBreaks
from ..torch_functions import LOSSES, OTHER_LOSSES

if TYPE_CHECKING:
    from ..calls import SwapCall


class LostGraphs:
    """Notes where values lose their graphs, and reports what is told to require grad."""

    def __init__(self, judge: Judge, breaks: GraphBreaks) -> None:
        self._judge = judge
        self._breaks = breaks

    def evaluated(self, call: ForwardCall) -> None:
        """A model was called; its outputs have no graph where gradients were disabled."""
        if not torch.is_grad_enabled() and any(one.requires_grad for one in call.module.parameters()):
            for tensor in call.tensors:
                self._breaks.made_without_grad(tensor, call.site)

    def tensors_swapped(self, call: SwapCall) -> None:
        """Forget tensors that become others."""
        for tensor in call.tensors:
            self._breaks.forget(tensor)

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a function that may raise."""
        return {
            torch.Tensor.requires_grad_: self._told(assigned=False),
            torch.Tensor.requires_grad.__set__: self._told(assigned=True),  # type: ignore[attr-defined]  # a descriptor
        }

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do with the result of a function."""
        return {torch.tensor: self._made, **dict.fromkeys((*LOSSES, *OTHER_LOSSES), self._lost)}

    def _told(self, *, assigned: bool) -> Callable[..., None]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            tensor = args[0]
            value = bool(args[1]) if len(args) > 1 else bool(kwargs.get("requires_grad", True))
            site = _here()
            if site is None or isinstance(tensor, torch.nn.Parameter):
                return
            view = Tensor(requires_grad=known(tensor.requires_grad), is_leaf=known(tensor.is_leaf))
            self._judge.send(RequiresGradSet(site=site, tensor=view, value=known(value), assigned=assigned))
            if value and tensor.is_leaf:
                self._breaks.asked_for_grad(tensor, site)

        return handle

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        site = _here() if kwargs.get("requires_grad") else None
        if site is not None:
            self._breaks.asked_for_grad(result, site)

    def _lost(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        given = args[0] if args else kwargs.get("input")
        if isinstance(result, torch.Tensor) and not result.requires_grad:
            site = self._breaks.without_grad(given) if torch.is_grad_enabled() else _here()
            if site is not None:
                self._breaks.made_without_grad(result, site)


def _here() -> FrameSite | None:
    frame = calling_frame(sys._getframe(1))
    return None if frame is None else site_of(frame)
