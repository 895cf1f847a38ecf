"""What ends a run, or the analysis of a part, before its time: Ctrl-C, a time limit, a want of memory."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType

_AGAIN = 1.0  #: seconds until an interruption that a destructor has swallowed is repeated


class TimeIsUpError(KeyboardInterrupt):
    """The time that a run may take is up: it ends as if the user had interrupted it."""


class Ending(Enum):
    """Why an analysis did not come to its end."""

    INTERRUPTED = "interrupted"
    OUT_OF_TIME = "the time is up"
    OUT_OF_MEMORY = "out of memory"
    KILLED = "a process was killed, for want of memory perhaps"

    @property
    def is_of_the_run(self) -> bool:
        """Whether it ends the whole run, not the analysis of one part only."""
        return self in (Ending.INTERRUPTED, Ending.OUT_OF_TIME)

    @classmethod
    def by(cls, error: BaseException) -> Ending:
        """That which a :class:`KeyboardInterrupt` or a :class:`MemoryError` brings about."""
        if isinstance(error, TimeIsUpError):
            return cls.OUT_OF_TIME
        return cls.INTERRUPTED if isinstance(error, KeyboardInterrupt) else cls.OUT_OF_MEMORY


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise :class:`TimeIsUpError` in the main thread when so many seconds are over, and again until it is met.

    Args:
        seconds: None for no limit, as in any other thread.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    begin = _by_thread
    if sys.platform != "win32" and hasattr(signal, "setitimer"):
        begin = _by_alarm
    with begin(seconds):
        yield


def call_off() -> None:
    """The interruption that was raised last has been met: no other is to be raised for a time that is up."""
    if sys.platform != "win32" and signal.getsignal(signal.SIGALRM) is _ring:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _ring(_number: int, _frame: FrameType | None) -> None:
    raise TimeIsUpError


if sys.platform != "win32":

    @contextmanager
    def _by_alarm(seconds: float) -> Iterator[None]:
        before, left = signal.signal(signal.SIGALRM, _ring), signal.getitimer(signal.ITIMER_REAL)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # it may ring at the last moment
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, *left)


@contextmanager
def _by_thread(seconds: float) -> Iterator[None]:
    import _thread

    is_up = threading.Event()

    def interrupt() -> None:
        is_up.set()
        _thread.interrupt_main()

    def met(_number: int, _frame: FrameType | None) -> None:
        if is_up.is_set():
            is_up.clear()
            raise TimeIsUpError
        raise KeyboardInterrupt

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    before = signal.signal(signal.SIGINT, met)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
