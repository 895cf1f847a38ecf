"""Hooks that pile up on a module, because a place registers one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlint.events import HookRegistered
from gradlint.facts import known as fact

if TYPE_CHECKING:
    from weakref import ref

    from ..calls import HookCall
    from ..frames import FrameSite
    from ..judging import Judge

_FEW = 2  #: hooks that are no pile yet: a place may well be come to twice


class PiledHooks:
    """Reports places that register hooks on a module that has those they registered before."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: dict[tuple[FrameSite, int], list[tuple[ref[Any], int]]] = {}
        """By a place and the id of a module: the dicts of hooks, and the keys of those that it registered."""

    def hook_registered(self, call: HookCall) -> None:
        """A place has registered a hook on a module."""
        key = call.site, id(call.module)
        there = [each for each in self._known.get(key, ()) if _is_there(*each)]
        self._judge.send(HookRegistered(site=call.site, method=call.method, piled=fact(len(there) >= _FEW)))
        self._known[key] = [*there[-_FEW:], (call.handle.hooks_dict_ref, call.handle.id)]


def _is_there(hooks: ref[Any], key: int) -> bool:
    """Whether a hook was not removed, and its module lives."""
    held = hooks()
    return held is not None and key in held
