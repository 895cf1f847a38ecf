"""Iterators of parameters that are handed on when they have come to their end."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gradlint.events import ParametersDrawn
from gradlint.facts import known as fact

if TYPE_CHECKING:
    from ..calls import DrawCall
    from ..judging import Judge

_DEEP = 8  #: iterators over one another


class DrawnParameters:
    """Reports what clips gradients, or optimizes, the parameters of an iterator that has none left."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def parameters_drawn(self, call: DrawCall) -> None:
        if any(map(_has_ended, _iterators(call.given))):
            self._judge.send(ParametersDrawn(site=call.site, by=call.by, used_up=fact(True)))


def _iterators(given: Any) -> list[Any]:
    """What is given, if it is an iterator, or the iterators in the groups of parameters that are given."""
    options = given if isinstance(given, (list, tuple)) else []
    held = [given, *(group.get("params") for group in options if isinstance(group, dict))]
    return [each for each in held if isinstance(each, Iterator)]


def _has_ended(iterator: Any) -> bool:
    """Whether an iterator is known to have come to its end, without asking it for more."""
    for _ in range(_DEEP):
        if isinstance(iterator, types.GeneratorType):
            return iterator.gi_frame is None
        if not isinstance(iterator, (filter, map)):
            return False
        iterator = iterator.__reduce__()[1][-1]  # what it takes its items from
    return False
