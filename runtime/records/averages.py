"""Whether a backward pass begins at an average over a batch, as its graph tells."""

from __future__ import annotations

import re
from typing import Any, Final

_NUMBER: Final = re.compile(r"Backward\d*$")
_KEEPING: Final = frozenset(
    ["Alias", "Clone", "Squeeze", "ToCopy", "UnsafeView", "Unsqueeze", "View"]
)  #: what gives the same value, in whatever shape or type
_SCALING: Final = frozenset(["Div", "Mul"])
_MEAN = 1  #: of the ways in which losses reduce what they have computed
DEEP: Final = 100  #: nodes that are looked at


def begins_at_average(node: Any, unscaled: str) -> bool:
    """Whether what a node gives is an average, as it is, or a sum with one among its terms.

    Args:
        node: of the graph; None where there is none.
        unscaled: what is noted in the metadata of a node whose factor is divided out again before the step.
    """
    nodes = [node]
    for _ in range(DEEP):
        if not nodes:
            return False
        here = nodes.pop()
        if here is None:
            continue
        name = _NUMBER.sub("", here.name())
        below = [child for child, _ in here.next_functions]
        if getattr(here, "_saved_reduction", None) == _MEAN:
            return True
        if here.name() == "MeanBackward0" and not _is_scaled(below[0]):
            return True
        if name in _KEEPING or unscaled in here.metadata:
            nodes += below[:1]
        elif name in ("Add", "Sub") and getattr(here, "_saved_alpha", 1) == 1:
            nodes += below if name == "Add" else below[:1]
    return False


def _is_scaled(node: Any) -> bool:
    return node is not None and _NUMBER.sub("", node.name()) in _SCALING


__all__ = ["begins_at_average"]
