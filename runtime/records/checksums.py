"""What tensors hold, in little: the bytes themselves where they are few, the sum of their bits where they are many.

As wide as the layout allows, the bits are read as integers where they lie.  Unlike a XOR, a sum has no constant that it
confuses with zero; it is blind to a permutation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

Content = torch.Tensor | int | bytes  # a sum, left on its device if that is to be waited for, or the bytes
Reading = Callable[[torch.Tensor], torch.Tensor | None]

MANY = 4096  #: layouts, above which all are forgotten: shapes may change from step to step
FEW = 4096  #: elements, of which each is read by itself where they do not fill 64 bits
SMALL = 4096  #: bytes in main memory, up to which a copy takes less time than a sum

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
#: Types that can be read as integers without further ado.
_PLAIN = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8}
    | {torch.uint8, torch.bool}
)


class _Layout(NamedTuple):
    """How tensors that look at their memory in the same way are read."""

    width: int  #: of an element, in bytes
    extent: int  #: bytes from the first element to the end of the last one
    stretch: type[ctypes.Array[Any]] | None  #: an array of those bytes; None where elements lie apart
    reading: Reading  #: a view as integers, to be summed; None where it takes more than a view


_layouts: dict[tuple[object, ...], _Layout] = {}  # by what they have in common


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether a tensor has bits of its own to read: it is not sparse, nested, wrapped, nor without a memory."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and not (tensor.is_meta or tensor.is_nested or tensor.is_quantized)
        and (torch._C._functorch.peek_interpreter_stack() is None or not is_functorch_wrapped_tensor(tensor))
    )


def reader(tensor: torch.Tensor) -> Callable[[], Content | None]:
    """What reads the content of a readable tensor, now and again: equal contents are equal, others hardly ever are.

    Returns:
        The content at the time of the call; None where the memory has been given back.
    """
    offset = int(tensor.storage_offset())
    key = tensor.dtype, tensor.shape, tensor.stride(), offset & 7
    layout = _layouts.get(key)
    if layout is None:
        if len(_layouts) >= MANY:
            _layouts.clear()
        layout = _layouts[key] = _layout_of(tensor)
    memory, start, here = tensor.untyped_storage(), offset * layout.width, tensor.is_cpu
    end = start + layout.extent
    if here and layout.stretch is not None and layout.extent <= SMALL:
        return partial(_copied, memory, start, end, layout.stretch)
    return partial(_summed, memory, end, tensor, layout.reading(tensor), here)


def _copied(memory: torch.UntypedStorage, start: int, end: int, stretch: type[ctypes.Array[Any]]) -> bytes | None:
    """The bytes of one stretch of memory."""
    if memory.nbytes() < end:
        return None
    return bytes(stretch.from_address(memory.data_ptr() + start))


def _summed(
    memory: torch.UntypedStorage, end: int, tensor: torch.Tensor, words: torch.Tensor | None, here: bool
) -> torch.Tensor | int | None:
    """The sum of the bits of a tensor, or of its view as integers; a number if it is ``here``, in main memory."""
    if memory.nbytes() < end:
        return None
    total = _sum(tensor) if words is None else words.sum()
    return int(total.item()) if here else total


def _layout_of(tensor: torch.Tensor) -> _Layout:
    width, dense = tensor.element_size(), _is_dense(tensor)
    if dense or not tensor.numel():
        extent = tensor.numel()
    else:
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        extent = 1 + sum((length - 1) * stride for length, stride in steps)
    extent *= width
    stretch = ctypes.c_char * extent if dense and extent else None
    return _Layout(width, extent, stretch, _reading_of(tensor))


def _reading_of(tensor: torch.Tensor) -> Reading:
    if tensor.dtype not in _PLAIN:
        return _not_at_once
    per_word = 8 // tensor.element_size()
    count, strides = tensor.numel(), tensor.stride()
    if count % per_word or tensor.storage_offset() % per_word or not count:
        return _by_element if count <= FEW and 0 not in strides else _not_at_once
    if not strides:
        return _by_element
    if _can_widen(tensor):
        return _by_word
    if tensor.is_contiguous():
        return _flattened
    if _is_dense(tensor):
        return _in_order_of_memory
    if strides[0] == 1 and _can_widen(tensor.movedim(0, -1)):
        return _along_the_first
    return _not_at_once


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill one stretch of memory, in whatever order."""
    filled = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1 and stride != filled:
            return False
        filled *= length
    return True


def _can_widen(tensor: torch.Tensor) -> bool:
    """Whether the elements of the last dimension lie side by side, and fill whole words."""
    per_word = 8 // tensor.element_size()
    *others, last = tensor.stride()
    return (
        last == 1 and tensor.shape[-1] % per_word == 0 and all(stride and stride % per_word == 0 for stride in others)
    )


def _by_word(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int64)


def _by_element(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(_INTEGERS[tensor.element_size()])


def _flattened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(-1).view(torch.int64)


def _in_order_of_memory(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.int64)


def _along_the_first(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.movedim(0, -1).view(torch.int64)


def _not_at_once(_: torch.Tensor) -> None:
    return None


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of the bits of whatever is readable."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    flat = _flat(tensor)
    size = flat.element_size()
    if flat.dtype is torch.bool:
        flat = flat.view(torch.int8)
    count, rest = divmod(flat.numel(), 8 // size)
    if flat.storage_offset() % (8 // size):
        return flat.view(_INTEGERS[size]).sum()
    total = flat[: flat.numel() - rest].view(torch.int64).sum() if count else flat.new_zeros((), dtype=torch.int64)
    return total + flat[flat.numel() - rest :].view(_INTEGERS[size]).sum() if rest else total


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in one dimension, in the order in which they lie in memory where that is possible."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension] > 1:
            return _flat(tensor.narrow(dimension, 0, 1))
    if not tensor.is_contiguous():
        strides = tensor.stride()
        tensor = tensor.permute(sorted(range(len(strides)), key=strides.__getitem__, reverse=True)).contiguous()
    return tensor.view(-1)
