"""Skip connections that add what the first operation of their branch has overwritten.

To the program there is one tensor, by two names.  Which one a sum takes is read in its source, once for each pair of
places; whether the operation has changed anything is looked at where that matters, and where a place is new.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import torch

from gradlint.events import SkipOverwritten

from ..frames import FrameSite, calling_frame, is_foreign, site_of, user_site
from ..naming import adds_old_name, is_whole_statement
from ..tensors import holds_values
from ..torch_functions import DROPOUTS, OVERWRITES, SUMS, UNMOVED

if TYPE_CHECKING:
    from ..calls import SwapCall
    from ..judging import Judge

MANY: Final = 256  #: tensors that were overwritten, above which those that are gone are forgotten
FRAMES: Final = 8  #: of the user's own, from the operation outwards, in any of which the sum may be


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """A tensor was overwritten."""

    tensor: weakref.ref[torch.Tensor]
    way: tuple[tuple[int, FrameSite], ...]  #: to the operation: the ids of frames, and where each of them was
    moved: bool | None  #: its values are others than before; None where nobody has looked

    @property
    def site(self) -> FrameSite:
        return self.way[0][1]


class Residuals:
    """Reports operations in place on what is added, by its old name, to what they lead to."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._changes: dict[int, _Change] = {}  # by the ids of tensors
        self._overwrites = False  #: the operation that runs
        self._moved: bool | None = None  #: it changes values
        self._seen: set[FrameSite] = set()
        self._suspected: set[FrameSite] = set()
        self._told: set[FrameSite] = set()

    def tensors_swapped(self, _: SwapCall) -> None:
        """Nothing is known of tensors that could change."""
        self._changes.clear()

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a function."""
        found: dict[Any, Callable[..., None]] = {
            function: self._beginning(function, place) for function, place in OVERWRITES.items()
        }
        for name in SUMS.split():
            found |= {getattr(owner, name): self._summed for owner in (torch, torch.Tensor) if hasattr(owner, name)}
        return found

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function."""
        return dict.fromkeys(OVERWRITES, self._ended)

    # --- overwriting

    def _beginning(self, function: Any, place: int | None) -> Callable[..., None]:
        """What to do before a function that overwrites its argument: always, or if it is told to at a position."""

        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            self._moved, self._overwrites = None, bool(args) and isinstance(args[0], torch.Tensor)
            if place is not None:
                told = kwargs.get("inplace", args[place] if len(args) > place else False)
                self._overwrites = self._overwrites and bool(told)
            if self._overwrites:
                self._look(function, args, kwargs)

        return handle

    def _look(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look at values that relu may leave as they are, where a place is new or suspected."""
        if function in DROPOUTS:
            trains = kwargs.get("training", args[2] if len(args) > 2 else True)
            self._moved = bool(trains) and kwargs.get("p", args[1] if len(args) > 1 else 0.5) != 0.0
            return
        self._moved = True
        if function in UNMOVED:
            site = user_site(3)
            new = site not in self._seen
            self._seen.add(site)
            self._moved = _has_negatives(args[0]) if new or site in self._suspected else None

    def _ended(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if self._overwrites and args[0] is result:
            self._overwritten(result, self._moved)

    def _overwritten(self, tensor: torch.Tensor, moved: bool | None) -> None:
        self._changes.pop(id(tensor), None)
        way: list[tuple[int, FrameSite]] = []
        frame: FrameType | None = sys._getframe(2) if moved is not False else None
        while frame is not None and len(way) < FRAMES:
            if not is_foreign(frame.f_code.co_filename):
                way.append((id(frame), site_of(frame)))
            frame = frame.f_back
        if not way or way[0][1] in self._told:
            return
        if len(self._changes) > MANY:
            self._changes = {key: one for key, one in self._changes.items() if one.tensor() is not None}
        self._changes[id(tensor)] = _Change(weakref.ref(tensor), tuple(way), moved)

    # --- adding

    def _summed(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if len(args) < 2 or not self._changes or not isinstance(args[1], torch.Tensor):
            return
        for position in (0, 1):
            change = self._changes.get(id(args[position]))
            if change is not None and change.tensor() is args[position]:
                self._meets(change, position)

    def _meets(self, change: _Change, position: int) -> None:
        """What was overwritten is one side of a sum."""
        frame = calling_frame(sys._getframe(3))
        here = next((site for key, site in change.way if frame is not None and key == id(frame)), None)
        if frame is None or here is None or here.code is not frame.f_code or change.site in self._told:
            return
        added = site_of(frame)
        if is_whole_statement(change.site) or not adds_old_name(here, added, position):
            return
        self._suspected.add(change.site)
        if change.moved:
            self._told.add(change.site)
            self._judge.send(SkipOverwritten(site=change.site, added_at=added))


def _has_negatives(tensor: torch.Tensor) -> bool | None:
    """Whether a tensor has values below zero; None where they are not read."""
    if not holds_values(tensor) or torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state():
        return None
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    return bool((tensor.detach() < 0).any())
