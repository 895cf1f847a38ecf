"""Watching functions of torch: one function mode, on the first steps of each optimizer and then on a random sample.

While compiled code is about, there is no mode: it would cost a second compilation.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.overrides import TorchFunctionMode

from ..records.writes import Writes
from ..roster import Resting
from ..sampling import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..calls import BackwardCall, ForwardCall, StepCall, SwapCall
    from ..frames import FrameSite

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_ASKS = torch.overrides.handle_torch_function.__code__

FIRST = 4  #: steps of each optimizer, all of which are watched
MOST = 32  #: steps that are watched because they are among the first ones of optimizers beside the first one
EVERY = 100  #: of the later steps, one in so many is watched

Handler = Callable[[tuple[Any, ...], dict[str, Any], Any], None]
Handlers = dict[Any, list[Handler]]


class Follower(Protocol):
    """Something that is told of calls of functions."""

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a function: it is given the arguments and None."""
        ...

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function: it is given the arguments and the result."""
        ...


class WatchedFunctions(Resting):
    """Tells what follows functions of each call of one: before it, where it may raise, or after it."""

    RESTS_FROM = ("backward_ended", "forward_ended")  # after a step that is not watched

    def __init__(
        self,
        writes: Writes,
        failed: Callable[[str, Exception], None],
        followers: Sequence[Follower],
    ) -> None:
        before: Handlers = {}
        after: Handlers = {}
        for follower in followers:
            for function, handler in follower.before().items():
                before.setdefault(function, []).append(handler)
            for function, handler in follower.after().items():
                after.setdefault(function, []).append(handler)
        self._forgetting = [one.tensors_swapped for one in followers if hasattr(one, "tensors_swapped")]
        self._writes = writes
        self._mode = _Mode(before, after, failed)
        self._steps = 0
        self._young: dict[int, int] = {}  # steps of optimizers that have made few, by their ids
        self._seen: set[int] = set()  # ids of optimizers
        self._left = MOST
        self._next = 0
        self._stepped = False
        self._watching = False
        self._choose()

    def backward_ended(self, call: BackwardCall) -> None:
        if not call.retain:
            self._writes.forget()
            if not self._watching and not self._stepped:
                self.rest()

    def step_ended(self, call: StepCall) -> None:
        self._steps += 1
        if self._left:
            self._count(id(call.optimizer))
        if FIRST <= self._steps < self._next - 1 and not (self._watching or self._young):
            return  # neither this step nor the next one is watched
        self._stepped = True
        if call.within is None:
            self._choose()
        else:
            self.wake()

    def forward_ended(self, call: ForwardCall) -> None:
        if self._stepped:
            self._choose()

    def tensors_swapped(self, call: SwapCall) -> None:
        """Let those that remember tensors know."""
        for forget in self._forgetting:
            forget(call)

    def finish(self, _: FrameSite) -> None:
        """Watch no more."""
        self._mode.dead = True
        _take_out(self._mode)

    def insist(self) -> None:
        """Watch until the next step."""
        if not self._mode.dead and not _compiled_code_is_about():
            _put_in(self._mode)
            self._watching = True
            self.wake()

    def watch_between(self, begins: bool) -> None:
        """Watch from here, where compiled code has ended, until told otherwise."""
        if begins and not self._mode.dead:
            _put_in(self._mode)
        elif not begins:
            _take_out(self._mode)

    def _count(self, optimizer: int) -> None:
        """One more step of an optimizer: others may begin later, or step less often, than the first one."""
        if optimizer not in self._seen:
            self._seen.add(optimizer)
            self._young[optimizer] = 0
        if optimizer in self._young:
            self._young[optimizer] += 1
            if self._young[optimizer] >= FIRST:
                del self._young[optimizer]
        if self._young and self._steps >= FIRST:
            self._left -= 1
            if not self._left:
                self._young = {}

    def _choose(self) -> None:
        """Whether to watch the step that begins."""
        self._stepped = False
        if self._steps < FIRST or self._young:
            watch = True
        else:
            if self._steps >= self._next:
                self._next = self._steps + 1 + SAMPLE.randrange(2 * EVERY - 1)
            watch = self._steps + 1 == self._next
        watch = watch and not _compiled_code_is_about()
        if watch:
            _put_in(self._mode)
            self.wake()
        elif self._watching:
            _take_out(self._mode)
        self._watching = watch


class _Mode(TorchFunctionMode):
    """Sees every function of torch that this thread calls, and lets it run."""

    def __init__(self, before: Handlers, after: Handlers, failed: Callable[[str, Exception], None]) -> None:
        self._before = before
        self._after = after
        self._failed = failed
        self.dead = False

    def __torch_function__(
        self, func: Any, types: Any, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call ``func``, and tell its handlers before and after."""
        given = kwargs or {}
        if torch.compiler.is_compiling() or self.dead:
            return func(*args, **given)
        if (handlers := self._before.get(func)) is not None:
            self._tell(handlers, args, given, None)
        result = _itself(func, sys._getframe(1))(*args, **given)
        if (handlers := self._after.get(func)) is not None:
            self._tell(handlers, args, given, result)
        return result

    def _tell(self, handlers: list[Handler], args: Iterable[Any], kwargs: dict[str, Any], result: Any) -> None:
        with torch._C.DisableTorchFunction():
            for handler in handlers:
                try:
                    handler(tuple(args), kwargs, result)
                except Exception as error:  # noqa: BLE001  the user's call goes on
                    self.dead = True
                    self._failed("the watch over functions", error)


def _itself(func: Any, asking: FrameType) -> Any:
    """What to call for a function of torch that has asked the mode.

    The program may have put one of its own in its place: that one has called it, and is not to be called again.
    """
    caller = asking.f_back
    if asking.f_code is not _ASKS or caller is None or getattr(func, "__code__", None) is caller.f_code:
        return func
    if getattr(func, "__code__", caller.f_code).co_filename.startswith(_TORCH):
        return func  # one that torch itself has wrapped
    return next((one for one in gc.get_referrers(caller.f_code) if isinstance(one, FunctionType)), func)


def _stack() -> list[Any]:
    return [torch._C._get_function_stack_at(index) for index in range(torch._C._len_torch_function_stack())]


def _put_in(mode: _Mode) -> None:
    if not any(other is mode for other in _stack()):
        torch._C._push_on_torch_function_stack(mode)


def _take_out(mode: _Mode) -> None:
    """Remove the mode, wherever it is: the user's own modes may have come and not gone since."""
    stack = _stack()
    if any(other is mode for other in stack):
        for _ in stack:
            torch._C._pop_torch_function_stack()
        for other in stack:
            if other is not mode:
                torch._C._push_on_torch_function_stack(other)


def _compiled_code_is_about() -> bool:
    frames = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(frames, "cached_backends", None) or {}
    return any(backend is not None for backend in backends.values())
