"""Averages over a batch: losses that are divided by the number of samples, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from gradlint.static.knowledge.ops import Op
from gradlint.static.state.values import Tensor


def average_of(op: Op, tensors: Iterable[Tensor | None], over_dim: bool = False) -> str:
    """What the result of an operation is of an average, or of a product: see ``Tensor.average``.

    Args:
        op: the operation.
        tensors: what it is given.
        over_dim: it reduces a dimension, and not all of them.
    """
    given = [tensor.average for tensor in tensors if tensor is not None]
    if op.activation == "averages":
        return "mean" if given[:1] != ["product"] and not over_dim else ""
    if op.activation == "keeps":
        return given[0] if given else ""
    if op.activation == "scales":
        return "product"
    return "mean" if op.activation == "combines" and op.size == "broadcast" and "mean" in given else ""


__all__ = ["average_of"]
