"""Room for work that calls deeply and makes many objects that stay."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_RECURSION = 6_000  #: calls in one another, for what walks along a tree of the depth that is accepted
_FRAMES = 1 << 17  #: words of memory for the frames of these calls, none of which is touched before a call needs it
_YOUNG = 3_000_000
"""Objects that an act makes before garbage is looked for: of what is let go of meanwhile, little refers to itself."""
_BETWEEN = 50_000  #: the same before and after: what an act leaves behind does


def with_room(act: Callable[[], T]) -> T:
    """What a function returns that may call thousands deep; all limits are as before then."""
    limit, thresholds = sys.getrecursionlimit(), gc.get_threshold()
    sys.setrecursionlimit(max(limit, _RECURSION))
    look_for_garbage_seldom(_YOUNG)
    try:
        return _in_one_piece(act)
    finally:
        sys.setrecursionlimit(limit)
        gc.set_threshold(*thresholds)


def look_for_garbage_seldom(young: int = _BETWEEN) -> None:
    """Leave what is made alone for long, if a collector is at work at all.

    To look through trees of source again and again takes a twentieth of the time, and finds next to nothing.

    Args:
        young: the objects to be made, and not let go of, before it is at work.
    """
    first, *others = gc.get_threshold()
    gc.set_threshold(max(first, young) if first else 0, *others)


def _in_one_piece(act: Callable[[], T]) -> T:
    """Call a function whose calls have their frames next to one another.

    CPython asks the system for 16 KiB whenever frames need more, and gives them back as soon as the calls have returned
    that needed them: a loop that stands just before that depth asks with each call, for a sixth of all CPU time.  What
    the first frame does not fit into is asked for with it, and kept for as long as that frame.
    """
    return act()


_in_one_piece.__code__ = _in_one_piece.__code__.replace(co_stacksize=_FRAMES)
