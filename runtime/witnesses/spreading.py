"""Losses and differences that compare a column with a row, each with each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from gradlint.events import BothSpread

from ..frames import FrameSite, user_site
from ..records.walks import Mark, Walks
from ..torch_functions import REGRESSIONS, SUBTRACTS

if TYPE_CHECKING:
    from ..calls import BackwardCall, SwapCall
    from ..judging import Judge

MANY: Final = 64  #: differences that wait for a backward pass
_MADE_COLUMNS: Final = "Unsqueeze"  #: how the nodes of what was made a column on purpose begin


class _Difference(Mark):
    """A difference that may reach a backward pass."""

    __slots__ = ("event",)

    def __init__(self, event: BothSpread) -> None:
        super().__init__()
        self.event = event


class SpreadComparisons:
    """Reports what is compared each with each."""

    def __init__(self, judge: Judge, walks: Walks) -> None:
        self._judge = judge
        self._walks = walks
        self._waiting: deque[_Difference] = deque(maxlen=MANY)
        self._told: set[FrameSite] = set()

    def backward_ended(self, _: BackwardCall) -> None:
        for difference in [one for one in self._waiting if one.walked]:
            self._waiting.remove(difference)
            if difference.event.site not in self._told:
                self._told.add(difference.event.site)  # type: ignore[arg-type]
                self._judge.send(difference.event)

    def tensors_swapped(self, _: SwapCall) -> None:
        """Nothing is known of tensors that could change."""

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a loss."""
        return {function: self._lost(loss) for function, loss in REGRESSIONS.items()}

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do with a difference."""
        return dict.fromkeys(SUBTRACTS, self._subtracted)

    def _lost(self, loss: str) -> Callable[..., None]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            given = args[0] if args else kwargs.get("input")
            target = args[1] if len(args) > 1 else kwargs.get("target")
            shapes = _spread(given, target)
            if shapes:
                self._judge.send(BothSpread(site=user_site(4), loss=loss, shapes=shapes))

        return handle

    def _subtracted(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        other = args[1] if len(args) > 1 else kwargs.get("other")
        shapes = _spread(args[0] if args else None, other)
        if not shapes or result.grad_fn is None:
            return
        pair: tuple[Any, Any] = (args[0], other)
        column, row = pair if len(shapes[0]) > len(shapes[1]) else pair[::-1]
        made_so = column.grad_fn is None or column.grad_fn.name().startswith(_MADE_COLUMNS)
        if made_so or row.requires_grad:
            return
        site = user_site(3)
        if site not in self._told:
            difference = _Difference(BothSpread(site=site, shapes=shapes))
            self._waiting.append(difference)
            self._walks.put(difference, [result.grad_fn])


def _spread(one: Any, other: Any) -> tuple[tuple[int, ...], ...]:
    """The shapes of two tensors, if one is a column ``(n, 1)`` and the other a row ``(n,)``."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return ()
    if one.dim() == other.dim():
        return ()
    column, row = (one.shape, other.shape) if one.dim() > other.dim() else (other.shape, one.shape)
    if len(column) != len(row) + 1 or not row or column[-1] != 1 or column[-2] != row[-1] or row[-1] == 1:
        return ()
    return tuple(one.shape), tuple(other.shape)
