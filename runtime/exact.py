"""Values saved for backward, compared bit by bit with what backward finds: exact, and opt-in.

Every tensor an operation saves gets a checksum, taken again where backward uses it: the sum of its bits read as
64-bit integers, which unlike a XOR has no constant it confuses with zero (it is blind to a permutation).  Sums stay on
their device until the pass is over.

Hooks on saved tensors switch PyTorch's own in-place check off, so the version is compared here too, and the same error
raised.  ``torch.func.grad`` refuses to work under such hooks, which is one reason why this is opt-in.
"""

from __future__ import annotations

import random
import threading
import weakref
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from gradlint.events import SavedTensorChanged, Tensor
from gradlint.facts import FALSE, known

from .datawrites import Writes
from .frames import FrameSite, user_site
from .interception import BackwardCall, StepCall
from .judging import Judge

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
#: Bytes of an element, of types that can be read as 64-bit integers without further ado.
_PLAIN = {torch.float64: 8, torch.int64: 8, torch.float32: 4, torch.int32: 4, torch.float16: 2, torch.bfloat16: 2}
#: Operations that change what they save, on purpose and out of sight: running statistics, reserved memory.
_CHANGES_WHAT_IT_SAVES = ("BatchNorm", "Rnn")


class Saved:
    """A tensor saved for backward: detached, because the tensor itself would keep its own graph alive for good."""

    __slots__ = ("checksum", "is_parameter", "sinks", "site", "steps", "tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()
        self.version = -1 if tensor.is_inference() else tensor._version
        self.is_parameter = type(tensor) is not torch.Tensor and isinstance(tensor, torch.nn.Parameter)
        self.sinks = _hooks.references
        self.steps = [sink.steps for sink in _hooks.sinks]
        self.site = user_site(3)
        self.checksum = checksum(self.tensor) if self.sinks else None


class _Hooks(threading.local):
    """The hooks of one thread, and the witnesses they serve."""

    def __init__(self) -> None:
        self.sinks: tuple[SavedTensors, ...] = ()
        self.references: tuple[weakref.ref[SavedTensors], ...] = ()
        self.pushed = False


_hooks = _Hooks()
_hooks_of_torch: Any = torch._C._autograd


def _pack(tensor: torch.Tensor) -> Saved:
    with _unseen():
        return Saved(tensor)


def _unpack(saved: Saved) -> torch.Tensor:
    with _unseen():
        return _checked(saved)


def _unseen() -> AbstractContextManager[object]:
    """Hooks run in the middle of the user's operations, where the user's own modes must not see theirs."""
    if torch._C._len_torch_dispatch_stack():
        return _disable_current_modes()
    return torch._C.DisableTorchFunction()


def _checked(saved: Saved) -> torch.Tensor:
    tensor = saved.tensor
    if saved.version >= 0 and tensor._version != saved.version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; "
            f"expected version {saved.version} instead. Hint: it was saved for backward at {saved.site.locate()}."
        )
    if saved.checksum is not None:
        for index, reference in enumerate(saved.sinks):
            sink = reference()
            if sink is not None and sink.active:
                sink.compare(saved, index)
    return tensor


class _Comparison(NamedTuple):
    """A saved tensor that backward uses; its checksums are read when the pass is over."""

    saved: Saved
    operation: str
    steps: int
    before: torch.Tensor
    now: torch.Tensor


class SavedTensors:
    """Compares what was saved with what is used, on every step or on a random sample of steps.

    Args:
        judge: where changes are reported.
        fraction: of the steps, those to watch; 1 for all.
        writes: where memory was seen to be written.
    """

    def __init__(self, judge: Judge, fraction: float, writes: Writes) -> None:
        self._judge = judge
        self._writes = writes
        self._period = max(1, round(1 / fraction))
        self._countdown = random.randrange(self._period)  # noqa: S311  a sample; a fixed offset could alias with the loop
        self._compared: list[_Comparison] = []
        self._stepped = False
        self._last_step: FrameSite | None = None
        self.steps = 0
        self.active = True
        self._watch(self._countdown == 0)

    def compare(self, saved: Saved, index: int) -> None:
        """Backward is about to use ``saved``."""
        operation = torch._C._current_autograd_node()
        name = operation.name() if operation is not None else ""
        if any(part in name for part in _CHANGES_WHAT_IT_SAVES):
            return
        now = checksum(saved.tensor)
        if now is not None and saved.checksum is not None:
            self._compared.append(_Comparison(saved, name, saved.steps[index], saved.checksum, now))

    def backward_ended(self, call: BackwardCall) -> None:
        compared, self._compared = self._compared, []
        if compared:
            for comparison in _different(compared):
                self._report(comparison, call)
        if self._stepped:
            self._next_step()

    def step_ended(self, call: StepCall) -> None:
        self.steps += 1
        self._last_step = call.site
        self._stepped = True
        if call.within is None:
            self._next_step()

    def finish(self, _: FrameSite) -> None:
        """The guard ends.  Graphs that outlive it can still be walked."""
        self.active = False
        self._watch(False)

    def _report(self, comparison: _Comparison, call: BackwardCall) -> None:
        saved = comparison.saved
        by_step = saved.is_parameter and comparison.steps != self.steps
        tensor = Tensor(is_parameter=known(saved.is_parameter), device=known(saved.tensor.device.type))
        self._judge.send(
            SavedTensorChanged(
                site=call.site,
                tensor=tensor,
                operation=comparison.operation,
                noticed=FALSE,
                saved_at=saved.site,
                changed_at=self._writes.of(saved.tensor),
                stepped_at=self._last_step if by_step else None,
            )
        )

    def _next_step(self) -> None:
        self._stepped = False
        if self._period > 1:
            self._countdown -= 1
            if self._countdown < 0:
                self._countdown += self._period
            self._watch(self._countdown == 0)

    def _watch(self, watching: bool) -> None:
        others = tuple(sink for sink in _hooks.sinks if sink is not self)
        _hooks.sinks = (*others, self) if watching else others
        _hooks.references = tuple(weakref.ref(sink) for sink in _hooks.sinks)
        top = _hooks_of_torch._top_saved_tensors_default_hooks(False)
        if _hooks.sinks and not _hooks.pushed and top is None:
            _hooks_of_torch._push_saved_tensors_default_hooks(_pack, _unpack)
            _hooks.pushed = True
        elif not _hooks.sinks and _hooks.pushed and top is not None and top[0] is _pack:
            _hooks_of_torch._pop_saved_tensors_default_hooks()
            _hooks.pushed = False


def checksum(tensor: torch.Tensor) -> torch.Tensor | None:
    """The sum of the bits, left on the device; None where there are none to read (sparse, fake, quantized, …)."""
    if type(tensor) is not torch.Tensor:
        return None
    words = _words(tensor)
    if words is not None:
        return words.sum()
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return None
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


def _words(tensor: torch.Tensor) -> torch.Tensor | None:
    """An ordinary tensor as 64-bit integers where it lies; None where that takes more than reading it so."""
    size = _PLAIN.get(tensor.dtype)
    if size is None or tensor.layout is not torch.strided:
        return None
    per_word = 8 // size
    if tensor.storage_offset() % per_word:
        return None
    if tensor.is_contiguous():
        return None if tensor.numel() % per_word else tensor.view(-1).view(torch.int64)
    strides = tensor.stride()
    if strides[-1] != 1 and strides[0] == 1:
        tensor = tensor.movedim(0, -1)
        strides = tensor.stride()
    if strides[-1] != 1 or 0 in strides or any(stride % per_word for stride in strides[:-1]):
        return None
    return None if tensor.shape[-1] % per_word else tensor.view(torch.int64)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in one dimension, in the order in which they lie in memory where that is possible."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension] > 1:
            return _flat(tensor.narrow(dimension, 0, 1))
    if not tensor.is_contiguous():
        strides = tensor.stride()
        tensor = tensor.permute(sorted(range(len(strides)), key=strides.__getitem__, reverse=True)).contiguous()
    return tensor.view(-1)


def _different(compared: list[_Comparison]) -> Iterator[_Comparison]:
    """Those whose checksums differ; each device is waited for once."""
    by_device: dict[torch.device, list[_Comparison]] = {}
    for comparison in compared:
        by_device.setdefault(comparison.now.device, []).append(comparison)
    for there in by_device.values():
        differs = torch.stack([one.before for one in there]) != torch.stack([one.now for one in there])
        for index in differs.nonzero().flatten().tolist():
            yield there[index]
