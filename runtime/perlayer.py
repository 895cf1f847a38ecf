"""Norms of layers from those of their parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping


def layers(norms: Mapping[str, float]) -> dict[str, float]:
    """For each layer the norm of its parameters together; a parameter of the model itself is a layer of its own.

    Args:
        norms: by the name of the parameter.
    """
    together: dict[str, list[float]] = {}
    for name, norm in norms.items():
        together.setdefault(name.rpartition(".")[0] or name, []).append(norm)
    return {layer: math.hypot(*parts) for layer, parts in together.items()}
