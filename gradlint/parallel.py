"""Several processes for one analysis.  Files that no import connects are analysed apart, whatever their number is."""

from __future__ import annotations

import math
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import TYPE_CHECKING

from gradlint.interruption import Ending, call_off
from gradlint.parts import Outcome, Part, analyze_part

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext  # type: ignore[attr-defined, unused-ignore]  # not on Windows
    from pathlib import Path

    from gradlint.consulted import Consulted
    from gradlint.rule import Rule
    from gradlint.static.drive.effort import Watch
    from gradlint.static.text.project import Project

MANY = 24  #: files, below which a process of its own does not pay
GRACE = 5.0  #: seconds that processes have to tell what they know, where a run is interrupted
_LOOK = 0.2  #: seconds between two looks at how far they are

_STOP = signal.SIGINT  #: lets a process come to an end, and tell what it knows
_HELD_BACK: tuple[signal.Signals, ...] = (_STOP,)
if sys.platform != "win32":
    _STOP = signal.SIGUSR1
    _HELD_BACK = (signal.SIGINT, signal.SIGALRM, _STOP)

Progress = Callable[["Path | None", int, float], None]
"""Told which file is followed, if any is by this process, in how many there is still something to follow, and which
share of what this process has to do is done."""


def jobs_for(files: int) -> int:
    """How many processes to use where nobody says: one for each CPU at hand, and one for a few files."""
    if files < MANY:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def analyze_by(
    jobs: int,
    project: Project,
    parts: Sequence[Part],
    rules: Sequence[type[Rule]],
    progress: Progress = lambda _path, _files, _share: None,
) -> list[Outcome]:
    """What :func:`~gradlint.parts.analyze_part` finds in each part, by at most so many processes.

    Where processes cannot be forked there is only one.  Where the user interrupts it or the time is up, parts that are
    not analysed to their end have an outcome that says so.

    Args:
        jobs: how many processes to use at most.
        project: where the files lie.
        parts: what to analyse.
        rules: the rules to check.
        progress: told how far it is.
    """
    shares = _shares(min(jobs, len(parts)) if hasattr(os, "fork") else 1, project, parts)
    found: dict[Part, Outcome] = {}
    with _helping(project, shares[1:], rules) as helpers:
        meter = _Meter(project, shares[0] if shares else (), helpers, progress)
        ending = _ended(found, _analyzed(project, shares[0] if shares else (), rules, meter.begin))
        waiting = list(zip_longest(helpers, shares[1:]))
        if ending is None:
            ending = _ended(found, _collected(project, waiting, rules, meter.waits))
        if ending is not None:
            for outcome in _collect_in_haste(project, helpers, found):
                outcome.ending = ending  # not the signal that has told it
    return [found.get(part) or Outcome(ending=ending) for part in parts]


_Found = Iterable[tuple["Part", "Outcome"]]


def _ended(found: dict[Part, Outcome], outcomes: _Found) -> Ending | None:
    """Take what is found, and return what has ended the run meanwhile, if anything has."""
    try:
        for part, outcome in outcomes:
            found[part] = outcome
            if outcome.ending is not None and outcome.ending.is_of_the_run:
                return outcome.ending
    except KeyboardInterrupt as error:
        call_off()
        return Ending.by(error)
    return None


def _analyzed(
    project: Project, share: Sequence[Part], rules: Sequence[type[Rule]], begin: Callable[[Part], Watch]
) -> _Found:
    for part in share:
        yield part, analyze_part(project, part, rules, begin(part))


def _collected(
    project: Project,
    waiting: Sequence[tuple[_Helper | None, Sequence[Part]]],
    rules: Sequence[type[Rule]],
    waits: Callable[[], None],
) -> _Found:
    """What helpers have found in their shares, and what is found in those of helpers that could not be had."""
    for helper, share in waiting:
        outcomes = helper.outcomes(project, waits) if helper is not None else None
        if outcomes is not None:
            yield from outcomes
            continue
        for part in share:
            yield part, _alone(project, part, rules)


def _alone(project: Project, part: Part, rules: Sequence[type[Rule]]) -> Outcome:
    """What is found in a part of which the process that analysed it has died: by another one, which does only that.

    Where that is killed, too, for want of memory perhaps, it costs no other part.
    """
    with _helping(project, [[part]], rules) as helpers:
        for helper in helpers:
            for _part, outcome in helper.outcomes(project) or ():
                return outcome
            if helper.was_killed:
                return Outcome(ending=Ending.KILLED)
    return analyze_part(project, part, rules)


def _collect_in_haste(project: Project, helpers: Sequence[_Helper], found: dict[Part, Outcome]) -> Iterator[Outcome]:
    """Tell helpers to come to an end, and take what they know; whoever is interrupted once more waits no longer.

    Returns:
        What they did not bring to its end.
    """
    until = time.monotonic() + GRACE
    with suppress(KeyboardInterrupt):
        for helper in helpers:
            helper.stop()
        for helper in helpers:
            for part, outcome in helper.outcomes(project, until=until) or ():
                found[part] = outcome
                if outcome.ending is not None and outcome.ending.is_of_the_run:
                    yield outcome


class _Meter:
    """Adds up how far the processes are.

    Args:
        project: where the files lie.
        share: what this process analyses.
        helpers: the others.
        progress: whom to tell.
    """

    def __init__(self, project: Project, share: Sequence[Part], helpers: Sequence[_Helper], progress: Progress) -> None:
        self._sizes = {part: sum(map(project.size, part.targets)) for part in share}
        self._total = sum(self._sizes.values()) or 1
        self._helpers = helpers
        self._progress = progress
        self._done = self._left = 0

    def begin(self, part: Part) -> Watch:
        """A part begins, after all that come before it; told is how far it is."""
        before = list(self._sizes)[: list(self._sizes).index(part)]
        done = sum(self._sizes[one] for one in before)
        later = sum(len(one.targets) for one in self._sizes) - sum(len(one.targets) for one in (*before, part))

        def watch(path: Path, files: int, share: float) -> None:
            self._progress(path, later + files + self._elsewhere, (done + share * self._sizes[part]) / self._total)

        return watch

    def waits(self) -> None:
        """This process has done its share, and waits for the others."""
        self._progress(None, self._elsewhere, 1.0)

    @property
    def _elsewhere(self) -> int:
        return sum(helper.files_left for helper in self._helpers)


def _shares(jobs: int, project: Project, parts: Sequence[Part]) -> list[list[Part]]:
    """The parts, split into shares of about the same size."""
    shares: list[list[Part]] = [[] for _ in range(jobs)]
    sizes = [0] * jobs
    by_size = [(sum(map(project.size, (*part.targets, *part.callers))), part) for part in parts]
    for size, part in sorted(by_size, key=lambda pair: (-pair[0], pair[1].targets)):
        smallest = sizes.index(min(sizes))
        shares[smallest].append(part)
        sizes[smallest] += size
    return [share for share in shares if share]


@contextmanager
def _helping(
    project: Project, shares: Sequence[Sequence[Part]], rules: Sequence[type[Rule]]
) -> Iterator[list[_Helper]]:
    """Processes, one for each share as long as there is room for more; they end when this one does, however that is."""
    if not shares or sys.platform == "win32":  # where no process can be forked
        yield []
        return
    import multiprocessing  # costs a twentieth of the check of one file, which needs none of it

    context = multiprocessing.get_context("fork")
    life = os.pipe()
    helpers: list[_Helper] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)  # until each is ready for them
    try:
        with suppress(OSError):
            for share in shares:
                helpers += [_Helper(context, life, (project, share, rules))]  # those that were made before one fails
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield helpers
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for end in life:
            os.close(end)


_Work = tuple["Project", Sequence[Part], Sequence[type["Rule"]]]
_Outcomes = tuple[list[tuple[Part, Outcome]], "Consulted"]


class _Helper:
    """A process that analyses its share.

    Args:
        context: how it is made.
        life: the ends of a pipe that is open for writing as long as this process lives.
        work: what it analyses.
    """

    def __init__(self, context: ForkContext, life: tuple[int, int], work: _Work) -> None:
        self._receiver, sender = context.Pipe(duplex=False)
        self._left = memoryview(mmap.mmap(-1, 4)).cast("i")  # one number, which both processes see
        self._left[0] = sum(len(part.targets) for part in work[1])
        with sender:
            self._process = context.Process(target=_run, args=(life, sender, self._left, work), daemon=True)
            self._process.start()
        self._has_told = False

    @property
    def files_left(self) -> int:
        """The files in which it has still something to follow."""
        return self._left[0]

    @property
    def was_killed(self) -> bool:
        """Whether a signal has ended it."""
        return (self._process.exitcode or 0) < 0

    def stop(self) -> None:
        """Let it come to an end, and tell what it knows."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, _STOP)

    def outcomes(
        self, project: Project, waits: Callable[[], None] = lambda: None, until: float = math.inf
    ) -> list[tuple[Part, Outcome]] | None:
        """What it has found; None if it ended without a word, or has told it already.

        Args:
            project: is told what it asked of the disk.
            waits: called now and then.
            until: the time, by the monotonic clock, after which it is not waited for.
        """
        told: _Outcomes | None = None
        while not self._has_told and not self._receiver.poll(_LOOK):
            waits()
            if time.monotonic() > until:
                return None
        with suppress(EOFError, OSError):  # it was killed, before it told anything or meanwhile
            told = None if self._has_told else self._receiver.recv()
        self._has_told = True
        self._process.join()
        if told is None:
            return None
        project.disk.consulted.take_over(told[1])
        return told[0]


def _run(life: tuple[int, int], sender: Connection, left: memoryview[int], work: _Work) -> None:
    """Work until the process ends that this one was made by."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts the run interrupts that process
    if sys.platform != "win32":
        signal.signal(_STOP, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)
    os.close(life[1])
    threading.Thread(target=_end_with, args=(life[0],), daemon=True).start()
    with suppress(KeyboardInterrupt):  # there is nothing to tell
        _work(sender, left, *work)


def _end_with(life: int) -> None:
    """End this process when nobody holds the other end of a pipe any more."""
    os.read(life, 1)
    os._exit(1)


def _work(
    sender: Connection, left: memoryview[int], project: Project, share: Sequence[Part], rules: Sequence[type[Rule]]
) -> None:
    outcomes: dict[Part, Outcome] = {}
    later = left[0]

    def begin(part: Part) -> Watch:
        nonlocal later
        later -= len(part.targets)

        def watch(_path: Path, files: int, _share: float) -> None:
            left[0] = later + files

        return watch

    _ended(outcomes, _analyzed(project, share, rules, begin))
    left[0] = 0
    if sys.platform != "win32":
        signal.signal(_STOP, signal.SIG_IGN)
    with suppress(BrokenPipeError):  # nobody waits for it any more
        sender.send((list(outcomes.items()), project.disk.consulted))
