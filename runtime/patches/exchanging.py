"""Collectives, and messages to one process, as they are asked for through ``torch.distributed``.

Each checks what it is given with one of two functions, whoever holds the collective itself under whatever name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed

from ..calls import ExchangeCall, Watcher

Watching = Callable[[], tuple[Watcher, ...]]
Build = Callable[[Any], Any]
_CHECKS = ("_check_single_tensor", "_check_tensor_list")
_NORM = "SyncBatchNorm"  #: how functions of classes begin that synchronise batch norm


def of_exchanges(watching: Watching, in_forward: Callable[[], bool]) -> Iterator[tuple[Any, str, Build]]:
    """Owners, the names of their attributes, and what makes the replacement from what is there.

    Args:
        watching: the guards of the current thread.
        in_forward: whether a module is being called in it.
    """
    if torch.distributed.is_available():
        owner = torch.distributed.distributed_c10d
        for name in _CHECKS:
            if hasattr(owner, name):
                yield owner, name, _checking(watching, in_forward)


def _checking(watching: Watching, in_forward: Callable[[], bool]) -> Build:
    def build(before: Callable[..., None]) -> Callable[..., None]:
        def check(given: Any, *args: Any, **kwargs: Any) -> None:
            before(given, *args, **kwargs)
            guards = () if torch.compiler.is_compiling() else watching()
            if guards:
                tensors = (given,) if isinstance(given, torch.Tensor) else tuple(given)
                call = ExchangeCall(sys._getframe(1).f_code.co_name, tensors, in_forward(), _is_for_a_norm())
                for guard in guards:
                    guard.tell("values_exchanged", call, raising=False, deliver=False)

        return check

    return build


def _is_for_a_norm() -> bool:
    """Whether a collective is called by synchronised batch norm."""
    frame = sys._getframe(2)
    for _ in range(4):  # the collective, and what torch wraps it in
        if frame.f_code.co_qualname.startswith(_NORM):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False
