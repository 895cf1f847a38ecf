"""What a report shows besides findings: the loop's events, the loss and gradient norms, in bounded memory."""

from __future__ import annotations

import math
import mmap
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from gradlint.events import GradientsMeasured
from gradlint.finding import Site

if TYPE_CHECKING:
    from .calls import BackwardCall, ForwardCall, StepCall
    from .frames import FrameSite

_STATM = "/proc/self/statm"

Kind = Literal["forward", "backward", "grad", "step"]
_Noted = tuple[int, float, Kind, "FrameSite"]  # number, seconds, kind, site
T = TypeVar("T")

PAUSE = 0.2  #: seconds between two looks at graphs and memory
FIRST, LAST = 60, 60  #: events kept from the beginning, and up to now
POINTS = 400  #: of a series, at most


@dataclass(slots=True)
class Happening:
    """One event of the loop."""

    number: int  #: among all events, from 0
    seconds: float  #: since the guard began
    kind: Kind
    site: FrameSite
    findings: set[int]  #: indices of what was seen at it


class Series(Generic[T]):
    """Points in order; when there are too many, every second one is dropped, and every second one from then on."""

    def __init__(self) -> None:
        self.points: list[tuple[int, T]] = []
        self._stride = 1
        self._seen = 0

    def wants(self) -> bool:
        """Whether the next point is to be kept; to be asked once for each."""
        self._seen += 1
        return (self._seen - 1) % self._stride == 0

    def add(self, x: int, y: T) -> None:
        """Keep a point."""
        self.points.append((x, y))
        if len(self.points) > POINTS:
            self.points = self.points[::2]
            self._stride *= 2


class Recording:
    """A witness that reports nothing and remembers what happened."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.seconds = 0.0  #: until the latest event
        self.counts: dict[Kind, int] = {"forward": 0, "backward": 0, "grad": 0, "step": 0}
        self._first: list[_Noted] = []
        self._latest: deque[_Noted] = deque(maxlen=LAST)
        self._found: dict[int, set[int]] = {}  # indices of what was seen, by the number of the event
        self.norms: dict[Site, Series[dict[str, float]]] = {}  #: by backward pass
        self._number = 0  # of the next event
        self._losses: dict[FrameSite, Series[Any]] = {}
        self._loss: tuple[FrameSite | None, Series[Any]] = None, Series()  # the latest of them, and where it is taken
        self.on_norms: Callable[[GradientsMeasured], None] | None = None  #: told of gradient norms, too
        self.graphs_alive: Callable[[], int] | None = None  #: how many graphs are alive
        self.graphs: Series[int] = Series()  #: outputs of models whose graph is alive, after a step
        self.memory: Series[int] = Series()  #: bytes, after a step
        self.on_device = False  #: it is that of tensors on a CUDA device
        self._measured_at = -math.inf
        self.walked_at: FrameSite | None = None  #: where the last backward pass was made that accumulates

    def forward_ended(self, call: ForwardCall) -> None:
        self._happened("forward", call.site)

    def backward_begins(self, call: BackwardCall) -> None:
        if not call.accumulates:
            self._happened("grad", call.site)
            return
        self._happened("backward", call.site)
        self.walked_at = call.site
        if len(call.roots) == 1:
            self._take_loss(call.roots[0], call.site)

    def step_begins(self, call: StepCall) -> None:
        self._happened("step", call.site)

    def step_ended(self, call: StepCall) -> None:
        if self.seconds - self._measured_at >= PAUSE and call.within is None:
            self._look()

    def finish(self, _: FrameSite) -> None:
        """The guard ends: what is left after the last step."""
        if self.counts["step"]:
            self._look()

    def found(self, index: int) -> None:
        """A finding was seen, for the first time or again, at the event under way."""
        if not self._number:
            return
        if len(self._found) > 2 * (FIRST + LAST):
            self._found = {one.number: one.findings for one in self.happenings if one.findings}
        self._found.setdefault(self._number - 1, set()).add(index)

    def measured(self, event: GradientsMeasured) -> None:
        """Gradient norms arrived."""
        if self.on_norms is not None:
            self.on_norms(event)
        series = self.norms.get(event.site)
        if series is None:
            series = self.norms[event.site] = Series()
        if series.wants():
            series.add(event.step, {name: values[-1] for name, values in event.norms.items() if values})

    @property
    def happenings(self) -> list[Happening]:
        """The first events and the latest ones, in order."""
        return [
            Happening(number, seconds, kind, site, self._found.get(number, set()))
            for number, seconds, kind, site in (*self._first, *self._latest)
        ]

    @property
    def losses(self) -> dict[FrameSite, list[tuple[int, float]]]:
        """By backward pass: its roots as numbers, by their ordinal.  Waits for a device that has them."""
        return {
            site: [(x, float(value)) for x, value in series.points]
            for site, series in self._losses.items()
            if series.points
        }

    def _happened(self, kind: Kind, site: FrameSite) -> None:
        number = self._number
        self._number = number + 1
        self.counts[kind] += 1
        self.seconds = seconds = time.perf_counter() - self.begun
        (self._first if number < FIRST else self._latest).append((number, seconds, kind, site))

    def _look(self) -> None:
        """Count graphs and memory: not so often that it costs anything."""
        self._measured_at = self.seconds
        step = self.counts["step"]
        if self.graphs_alive is not None and self.graphs.wants():
            self.graphs.add(step, self.graphs_alive())
        if self.memory.wants() and (used := memory_used()) is not None:
            self.memory.add(step, used)
            self.on_device = torch.cuda.is_initialized()

    def _take_loss(self, root: Any, site: FrameSite) -> None:
        last, series = self._loss
        if last is not site:
            series = self._losses.setdefault(site, Series())
            self._loss = site, series
        if not (series.wants() and _readable(root)):
            return
        if root.is_cpu:
            value = root.item()
        else:
            with torch.no_grad():
                value = root.detach().clone()  # a device is not waited for
        series.add(self.counts["backward"], value)


def _readable(root: Any) -> bool:
    """Whether a root is a number, and to read it is possible and seen by no mode of the user's."""
    if type(root) is not torch.Tensor or root.numel() != 1 or not root.is_floating_point():
        return False
    if not root.is_cpu and (root.is_meta or (root.is_cuda and torch.cuda.is_current_stream_capturing())):
        return False
    return not torch._C._len_torch_dispatch_stack() and not is_functorch_wrapped_tensor(root)


def memory_used() -> int | None:
    """Bytes that tensors take on the current CUDA device, or the process in main memory; None where nothing tells.

    A device is not waited for.
    """
    if torch.cuda.is_initialized():
        return int(torch.cuda.memory_allocated())
    try:
        file = os.open(_STATM, os.O_RDONLY)
        try:
            pages = int(os.read(file, 256).split()[1])
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return None
    return pages * mmap.PAGESIZE
