"""Several processes for one analysis.  Files that no import connects are analysed apart, whatever their number is."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import TYPE_CHECKING

from gradlint.consulted import Consulted
from gradlint.parts import Outcome, Part, analyze_part

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext  # type: ignore[attr-defined, unused-ignore]  # not on Windows

    from gradlint.rule import Rule
    from gradlint.static.text.project import Project

MANY = 24  #: files, below which a process of its own does not pay


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
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Outcome]:
    """What :func:`~gradlint.parts.analyze_part` finds in each part, by at most so many processes.

    Where processes cannot be forked there is only one.

    Args:
        jobs: how many processes to use at most.
        project: where the files lie.
        parts: what to analyse.
        rules: the rules to check.
        progress: called with the number of parts done and their total, as far as this process has to do with them.
    """
    shares = _shares(min(jobs, len(parts)) if hasattr(os, "fork") else 1, project, parts)
    found: dict[Part, Outcome] = {}
    with _helping(project, shares[1:], rules) as helpers:
        for done, part in enumerate(shares[0] if shares else ()):
            progress(done, len(shares[0]))
            found[part] = analyze_part(project, part, rules)
        for helper, share in zip_longest(helpers, shares[1:]):
            outcome = helper.outcome() if helper else None
            if outcome is None:  # it was killed or could not be started, for want of memory perhaps
                found.update({part: analyze_part(project, part, rules) for part in share})
                continue
            results, consulted = outcome
            project.disk.consulted.take_over(consulted)
            found.update(zip(share, results, strict=True))
    return [found[part] for part in parts]


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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until each ignores it
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


class _Helper:
    """A process that analyses its share.

    Args:
        context: how it is made.
        life: the ends of a pipe that is open for writing as long as this process lives.
        work: what it analyses.
    """

    def __init__(self, context: ForkContext, life: tuple[int, int], work: _Work) -> None:
        self._receiver, sender = context.Pipe(duplex=False)
        with sender:
            self._process = context.Process(target=_run, args=(life, sender, work), daemon=True)
            self._process.start()

    def outcome(self) -> tuple[list[Outcome], Consulted] | None:
        """What it found and what it asked of the disk; None if it ended without a word."""
        try:
            outcome: tuple[list[Outcome], Consulted] | None = self._receiver.recv()
        except EOFError:
            outcome = None
        self._process.join()
        return outcome


def _run(life: tuple[int, int], sender: Connection, work: _Work) -> None:
    """Work until the process ends that this one was made by."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts the run interrupts that process
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.close(life[1])
    threading.Thread(target=_end_with, args=(life[0],), daemon=True).start()
    _work(sender, *work)


def _end_with(life: int) -> None:
    """End this process when nobody holds the other end of a pipe any more."""
    os.read(life, 1)
    os._exit(1)


def _work(sender: Connection, project: Project, share: Sequence[Part], rules: Sequence[type[Rule]]) -> None:
    outcomes = [analyze_part(project, part, rules) for part in share]
    with suppress(BrokenPipeError):  # nobody waits for it any more
        sender.send((outcomes, project.disk.consulted))
