"""What values are to a regression: both witnesses tell predictions and targets apart by the same rules.

An output of a module is a prediction, and so is what is picked of it.  A target of reinforcement learning is the sum of
what is given, such as a reward, and of a later prediction that is discounted, or is the best of several.
"""

from __future__ import annotations

from typing import Final

OUTPUT: Final = "output"  #: what a module returned, or some of it
BEST: Final = "best"  #: the largest, or smallest, of several outputs
DISCOUNTED: Final = "discounted"  #: an output that is multiplied by what is given
TARGET: Final = "target"  #: what is given, and a discounted or best output
ERROR: Final = "error"  #: the difference between a target and a prediction

PREDICTIONS: Final = frozenset([OUTPUT, BEST, DISCOUNTED])


def meet(one: str | None, other: str | None) -> bool:
    """Whether one of two values is a prediction and the other a target."""
    return TARGET in (one, other) and one != other and {one, other} - {TARGET} <= PREDICTIONS


def combined(symbol: str, one: str | None, other: str | None) -> str:
    """What ``one symbol other`` is to a regression.

    Args:
        symbol: ``+``, ``-``, ``*`` or ``/``; others give what is nothing to one.
        one: what the first value is; None if it is given, and has no graph, empty if it is something else.
        other: the same of the second value.
    """
    if symbol not in ("+", "-", "*", "/") or "" in (one, other):
        return ""
    if one is not None and other is not None:
        if symbol == "-":
            return ERROR if meet(one, other) else ""
        return DISCOUNTED if symbol == "+" and ERROR not in (one, other) else ""
    role = one or other or ""
    if symbol == "*" or (symbol == "/" and one):
        return DISCOUNTED if role in PREDICTIONS else role
    is_target = role in (DISCOUNTED, BEST, TARGET) and (symbol == "+" or (symbol == "-" and one is not None))
    return TARGET if is_target else ""
