"""Values that carry no graph: made where gradients were disabled, or told to require grad afterwards."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own idiom

from gradlint.events import RequiresGradSet, Tensor
from gradlint.facts import known

from .activations import LOSSES
from .frames import FrameSite, calling_frame, site_of
from .interception import ForwardCall
from .judging import Judge

if TYPE_CHECKING:
    from .replacements import SwapCall

OTHER_LOSSES = (
    *(F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.ctc_loss),
    *(F.gaussian_nll_loss, F.poisson_nll_loss, F.cosine_embedding_loss, F.hinge_embedding_loss),
    *(F.margin_ranking_loss, F.triplet_margin_loss, F.soft_margin_loss, F.multi_margin_loss),
    *(F.multilabel_margin_loss, F.multilabel_soft_margin_loss),
)
"""Losses that no activation belongs before."""

MANY = 256  #: tensors, above which those that are gone are forgotten


class Cuts:
    """Remembers where a root of a backward pass lost its graph, as far as it was seen."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._without_grad: dict[int, tuple[weakref.ref[torch.Tensor], FrameSite]] = {}
        self._asked: dict[int, tuple[weakref.ref[torch.Tensor], FrameSite]] = {}

    def evaluated(self, call: ForwardCall) -> None:
        """A model was called; its outputs have no graph where gradients were disabled."""
        if not torch.is_grad_enabled() and any(one.requires_grad for one in call.module.parameters()):
            for tensor in call.tensors:
                _remember(self._without_grad, tensor, call.site)

    def tensors_swapped(self, call: SwapCall) -> None:
        """Forget tensors that become others."""
        for tensor in call.tensors:
            self._without_grad.pop(id(tensor), None)
            self._asked.pop(id(tensor), None)

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a function that may raise."""
        return {
            torch.Tensor.requires_grad_: self._told(assigned=False),
            torch.Tensor.requires_grad.__set__: self._told(assigned=True),  # type: ignore[attr-defined]  # a descriptor
        }

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do with the result of a function."""
        return {torch.tensor: self._made, **dict.fromkeys((*LOSSES, *OTHER_LOSSES), self._lost)}

    def described(self, root: Any, view: Tensor) -> Tensor:
        """``view`` of ``root``, with what is known about how it lost its graph."""
        if not isinstance(root, torch.Tensor) or root.grad_fn is not None:
            return view
        without, asked = _site(self._without_grad, root), _site(self._asked, root)
        if without is not None or root.is_inference():
            view = replace(view, cut=known("no_grad"), cut_at=without)
        return replace(view, asked_at=asked)

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
                _remember(self._asked, tensor, site)

        return handle

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        site = _here() if kwargs.get("requires_grad") else None
        if site is not None:
            _remember(self._asked, result, site)

    def _lost(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        given = args[0] if args else kwargs.get("input")
        if isinstance(result, torch.Tensor) and not result.requires_grad:
            site = _site(self._without_grad, given) if torch.is_grad_enabled() else _here()
            if site is not None:
                _remember(self._without_grad, result, site)


def _here() -> FrameSite | None:
    frame = calling_frame(sys._getframe(1))
    return None if frame is None else site_of(frame)


def _remember(
    known_tensors: dict[int, tuple[weakref.ref[torch.Tensor], FrameSite]], tensor: torch.Tensor, site: FrameSite
) -> None:
    if len(known_tensors) > MANY:
        for key in [key for key, (reference, _) in known_tensors.items() if reference() is None]:
            del known_tensors[key]
    known_tensors[id(tensor)] = weakref.ref(tensor), site


def _site(known_tensors: dict[int, tuple[weakref.ref[torch.Tensor], FrameSite]], tensor: Any) -> FrameSite | None:
    entry = known_tensors.get(id(tensor))
    return entry[1] if entry is not None and entry[0]() is tensor else None
