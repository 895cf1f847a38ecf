"""Values saved for backward, compared bit by bit with what backward finds: exact, and opt-in.

Of every tensor an operation saves, the content is read, and read again where backward uses it: the bytes of a small
one, a checksum of any other.  On a device, sums stay there until the pass is over.

Hooks on saved tensors switch PyTorch's own in-place check off, so the version is compared here too, and the same error
raised.  Where ``torch.func`` forbids such hooks, they are taken away, and put back afterwards.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from gradlint.events import SavedTensorChanged, Tensor
from gradlint.facts import FALSE, known

from ..calls import BackwardCall, HooksCall, StepCall
from ..frames import FrameSite, user_site
from ..judging import Judge
from ..records.checksums import Content, is_readable, reader
from ..records.saved import Comparing, Saved
from ..records.writes import Writes
from ..sampling import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

#: Operations that change what they save, on purpose and out of sight: running statistics, reserved memory.
_CHANGES_WHAT_IT_SAVES = ("BatchNorm", "Rnn")


class _Clock:
    """Counts the steps that any guard has seen."""

    now = 0


class _Hooks(threading.local):
    """The hooks of one thread, and the witnesses they serve."""

    def __init__(self) -> None:
        self.sinks: tuple[SavedTensors, ...] = ()
        self.references: tuple[weakref.ref[Comparing], ...] = ()
        self.pushed = False
        self.call: tuple[int, int, int] | None = None  # of the operation that has saved something last
        self.site: FrameSite | None = None  # and where the user's program was


_hooks = _Hooks()
_hooks_of_torch: Any = torch._C._autograd

_OWN = (torch.Tensor, torch.nn.Parameter)  # what is done with others, their class is told
_function_modes: Callable[[], int] = torch._C._len_torch_function_stack
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_latest_node: Callable[[], int] = torch._C._autograd._get_sequence_nr


def _pack(tensor: torch.Tensor) -> Saved:
    if type(tensor) not in _OWN or _function_modes() or _dispatch_modes():
        with _unseen():
            return _save(tensor)
    return _save(tensor)


def _unpack(saved: Saved) -> torch.Tensor:
    if type(saved.tensor) not in _OWN or _function_modes() or _dispatch_modes():
        with _unseen():
            return _checked(saved)
    return _checked(saved)


def _unseen() -> AbstractContextManager[object]:
    """Hooks run in the middle of the user's operations, where the user's own modes must not see theirs."""
    if _dispatch_modes():
        return _disable_current_modes()
    return torch._C.DisableTorchFunction()


def _save(tensor: torch.Tensor) -> Saved:
    saved = Saved()
    saved.tensor = detached = tensor.detach()
    saved.version = -1 if tensor.is_inference() else tensor._version
    whole = tensor if tensor._base is None else tensor._base
    saved.is_parameter = type(whole) is not torch.Tensor and isinstance(whole, torch.nn.Parameter)
    saved.sinks = sinks = _hooks.references
    saved.saved_at = _Clock.now
    saved.site = _site_of_operation(sys._getframe(2))
    saved.content = None
    if sinks and is_readable(detached):
        try:
            saved.now = now = reader(detached)
            saved.content = now()
        except Exception as error:  # noqa: BLE001  the user's operation goes on
            _give_up(_hooks.sinks, error)
    return saved


def _site_of_operation(frame: FrameType) -> FrameSite:
    """Where the user's program is, looked for once for all that one operation saves: it makes but one node."""
    call = _latest_node(), id(frame), frame.f_lasti
    site = _hooks.site
    if site is None or _hooks.call != call:
        site = _hooks.site = user_site(3)
        _hooks.call = call
    return site


def _checked(saved: Saved) -> torch.Tensor:
    tensor = saved.tensor
    if saved.version >= 0 and tensor._version != saved.version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; "
            f"expected version {saved.version} instead. Hint: it was saved for backward at {saved.site.locate()}."
        )
    if saved.content is not None:
        sinks = [sink for reference in saved.sinks if (sink := reference()) is not None and sink.active]
        try:
            now = saved.now() if sinks else None
            if now is not None and (isinstance(now, torch.Tensor) or now != saved.content):
                for sink in sinks:
                    sink.compare(saved, now)
        except Exception as error:  # noqa: BLE001  the user's backward pass goes on
            _give_up(sinks, error)
    return tensor


def _give_up(sinks: Iterable[Comparing], error: Exception) -> None:
    for sink in sinks:
        sink.give_up(error)


@dataclass(slots=True, eq=False)
class _Comparison:
    """A saved tensor that backward uses, and is or may be another one; sums on a device are read after the pass."""

    saved: Saved
    operation: str
    now: Content


class SavedTensors:
    """Compares what was saved with what is used, on every step or on a random sample of steps.

    Args:
        judge: where changes are reported.
        fraction: of the steps, those to watch; 1 for all.
        writes: where memory was seen to be written.
        failed: told what has failed, and how.
    """

    def __init__(self, judge: Judge, fraction: float, writes: Writes, failed: Callable[[str, Exception], None]) -> None:
        self._judge = judge
        self._failed = failed
        self._writes = writes
        self._period = max(1, round(1 / fraction))
        self._countdown = SAMPLE.randrange(self._period)  # a fixed offset could alias with the loop
        self._compared: list[_Comparison] = []
        self._stepped = False
        self._last_step: FrameSite | None = None
        self._stepped_at = 0  # by the clock
        self.active = True
        self._watch(self._countdown == 0)

    def compare(self, saved: Saved, now: Content) -> None:
        """Backward is about to use ``saved``, which is another one now, or may be."""
        operation = torch._C._current_autograd_node()
        name = operation.name() if operation is not None else ""
        if not any(part in name for part in _CHANGES_WHAT_IT_SAVES):
            self._compared.append(_Comparison(saved, name, now))

    def backward_ended(self, call: BackwardCall) -> None:
        compared, self._compared = self._compared, []
        if compared:
            for comparison in _different(compared):
                self._report(comparison, call)
        if self._stepped:
            self._next_step()

    def step_ended(self, call: StepCall) -> None:
        _Clock.now += 1
        self._stepped_at = _Clock.now
        self._last_step = call.site
        self._stepped = True
        if call.within is None:
            self._next_step()

    def hooks_disabled(self, _: HooksCall) -> None:
        """Nothing may be on saved tensors for a while, as under ``torch.func.grad``."""
        _withdraw()

    def hooks_enabled(self, _: HooksCall) -> None:
        self._watch(self.active and self._countdown == 0)

    def finish(self, _: FrameSite) -> None:
        """The guard ends.  Graphs that outlive it can still be walked."""
        self.active = False
        self._watch(False)

    def give_up(self, error: Exception) -> None:
        """Something has failed in the hooks: compare no more."""
        self.active = False
        self._failed("the comparison of saved tensors", error)

    def _report(self, comparison: _Comparison, call: BackwardCall) -> None:
        saved = comparison.saved
        by_step = saved.is_parameter and self._stepped_at > saved.saved_at
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
            self._watch(self.active and self._countdown == 0)

    def _watch(self, watching: bool) -> None:
        others = tuple(sink for sink in _hooks.sinks if sink is not self)
        _hooks.sinks = (*others, self) if watching else others
        _hooks.references = tuple(weakref.ref(sink) for sink in _hooks.sinks)
        top = _hooks_of_torch._top_saved_tensors_default_hooks(False)
        allowed = _hooks_of_torch._saved_tensors_hooks_is_enabled()
        if _hooks.sinks and not _hooks.pushed and top is None and allowed:
            _hooks_of_torch._push_saved_tensors_default_hooks(_pack, _unpack)
            _hooks.pushed = True
        elif not _hooks.sinks:
            _withdraw()
        if not _hooks.sinks:
            _hooks.call = _hooks.site = None


def _withdraw() -> None:
    """Take the hooks from this thread, unless somebody has put others upon them."""
    top = _hooks_of_torch._top_saved_tensors_default_hooks(True)
    if _hooks.pushed and top is not None and top[0] is _pack:
        _hooks_of_torch._pop_saved_tensors_default_hooks()
        _hooks.pushed = False


def _different(compared: list[_Comparison]) -> Iterator[_Comparison]:
    """Those whose contents differ; each device is waited for once."""
    by_device: dict[torch.device, list[tuple[_Comparison, torch.Tensor, torch.Tensor]]] = {}
    for one in compared:
        before, now = one.saved.content, one.now
        if isinstance(before, torch.Tensor) and isinstance(now, torch.Tensor):
            by_device.setdefault(now.device, []).append((one, before, now))
        else:
            yield one
    for there in by_device.values():
        differs = torch.stack([before for _, before, _ in there]) != torch.stack([now for _, _, now in there])
        for index in differs.nonzero().flatten().tolist():
            yield there[index][0]
