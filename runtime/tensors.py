"""Tensors inside arguments and results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.utils._python_dispatch import _disable_current_modes

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def tensors_in(value: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """The tensors in arguments or outputs: nested in containers a few levels deep, not in objects."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part, depth - 1)
    elif depth and isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part, depth - 1)


def given_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """The tensors in the arguments of a call."""
    if len(args) == 1 and not kwargs and isinstance(args[0], torch.Tensor):
        return args
    return tuple(tensors_in((args, kwargs)))


def inside_backward() -> bool:
    """Whether this thread is executing part of a backward pass (a hook, a recomputed forward)."""
    return bool(torch._C._current_graph_task_id() != -1)


def holds_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor has numbers that can be read one by one.

    It is dense, neither meta, fake nor wrapped, and has not given its memory back.
    """
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_meta:
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None and is_functorch_wrapped_tensor(tensor):
        return False
    return has_memory(tensor)


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor is there: who is short of it gives it back, and reading it ends the program."""
    return tensor.untyped_storage().nbytes() > 0 or not tensor.numel()


def memory_of(tensor: torch.Tensor) -> int:
    """A number that tensors share which look at the same memory; those without values have only a storage."""
    storage = tensor.untyped_storage()
    return storage.data_ptr() if holds_values(tensor) else int(storage._cdata)


def unseen_by_modes() -> AbstractContextManager[object]:
    """What runs in it is seen by no dispatch mode of the user's."""
    if torch._C._len_torch_dispatch_stack() or _len_torch_dispatch_stack_pre_dispatch():
        return _disable_current_modes()
    return contextlib.nullcontext()
