"""Where values that carry no graph lost it, as far as it was seen."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import Tensor
from gradlint.facts import known

if TYPE_CHECKING:
    from ..frames import FrameSite

_Places = dict[int, tuple[weakref.ref[torch.Tensor], "FrameSite"]]  # by the ids of tensors

MANY = 256  #: tensors, above which those that are gone are forgotten


class GraphBreaks:
    """Remembers where a root of a backward pass lost its graph."""

    def __init__(self) -> None:
        self._without_grad: _Places = {}
        self._asked: _Places = {}

    def made_without_grad(self, tensor: torch.Tensor, site: FrameSite) -> None:
        """The tensor was made where gradients were disabled."""
        _remember(self._without_grad, tensor, site)

    def asked_for_grad(self, tensor: torch.Tensor, site: FrameSite) -> None:
        """The tensor was told to require grad, which gives it no graph."""
        _remember(self._asked, tensor, site)

    def without_grad(self, tensor: Any) -> FrameSite | None:
        """Where the tensor was made without gradients, if it was."""
        return _site(self._without_grad, tensor)

    def forget(self, tensor: torch.Tensor) -> None:
        """The tensor becomes another one."""
        self._without_grad.pop(id(tensor), None)
        self._asked.pop(id(tensor), None)

    def described(self, root: Any, view: Tensor) -> Tensor:
        """``view`` of ``root``, with what is known about how it lost its graph."""
        if not isinstance(root, torch.Tensor) or root.grad_fn is not None:
            return view
        without, asked = _site(self._without_grad, root), _site(self._asked, root)
        if without is not None or root.is_inference():
            view = replace(view, cut=known("no_grad"), cut_at=without)
        return replace(view, asked_at=asked)


def _remember(known_tensors: _Places, tensor: torch.Tensor, site: FrameSite) -> None:
    if len(known_tensors) > MANY:
        for key in [key for key, (reference, _) in known_tensors.items() if reference() is None]:
            del known_tensors[key]
    known_tensors[id(tensor)] = weakref.ref(tensor), site


def _site(known_tensors: _Places, tensor: Any) -> FrameSite | None:
    entry = known_tensors.get(id(tensor))
    return entry[1] if entry is not None and entry[0]() is tensor else None
