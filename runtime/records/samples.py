"""A few elements of each of many tensors, as numbers that others can be sent; a device is not waited for."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import torch

MANY = 4096  #: numbers, as many as there are tensors apart
MOST, LEAST = 32, 4  #: of a tensor


class Arriving:
    """Numbers on their way from a device; those in main memory are there.

    Args:
        values: in one dimension.
    """

    __slots__ = ("_ready", "_values")

    def __init__(self, values: torch.Tensor) -> None:
        self._values, self._ready = values, None
        if values.is_cuda:
            there: Any = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values = there.copy_(values, non_blocking=True)
            self._ready = torch.cuda.Event()
            self._ready.record(torch.cuda.current_stream(values.device))

    @property
    def arrived(self) -> bool:
        """Whether they are there."""
        return self._ready is None or bool(self._ready.query())

    def wait(self) -> torch.Tensor:
        """The numbers, once they are there."""
        if self._ready is not None:
            self._ready.synchronize()
        return self._values.cpu()


def sample(tensors: Sequence[torch.Tensor]) -> tuple[list[Arriving], list[int]]:
    """Elements at even distances, in single precision.

    Returns:
        The numbers, in parts that are each on a device, and how many of them each tensor has given.
    """
    most = max(LEAST, min(MOST, MANY // max(1, len(tensors))))
    parts = [_few(tensor.detach(), most) for tensor in tensors]
    runs: list[list[torch.Tensor]] = []
    for part in parts:
        if not runs or runs[-1][-1].device != part.device:
            runs.append([])
        runs[-1].append(part)
    return [Arriving(torch.cat(run)) for run in runs], [part.numel() for part in parts]


def _few(tensor: torch.Tensor, most: int) -> torch.Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    flat = tensor.flatten()
    return flat[:: max(1, -(-flat.numel() // most))].to(torch.float32, copy=True)


def written(values: torch.Tensor) -> str:
    """Numbers as a text."""
    return base64.b64encode(values.numpy().tobytes()).decode()


def read(text: str) -> torch.Tensor:
    """The numbers of such a text."""
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32)
