"""Several processes for one analysis.  Files that no import connects are analysed apart, whatever their number is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gradlint.consulted import Consulted
from gradlint.parts import Outcome, Part, analyze_part

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext

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
    shares = _shares(jobs if hasattr(os, "fork") else 1, project, parts)
    context = _forking() if len(shares) > 1 else None
    helpers = [_Helper(context, project, share, rules) for share in shares[1:]] if context else []
    found: dict[Part, Outcome] = {}
    for done, part in enumerate(shares[0] if shares else ()):
        progress(done, len(shares[0]))
        found[part] = analyze_part(project, part, rules)
    for helper, share in zip(helpers, shares[1:], strict=True):
        outcome = helper.outcome()
        if outcome is None:  # it was killed, for want of memory perhaps
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


def _forking() -> ForkContext:
    import multiprocessing  # costs a twentieth of the check of one file, which needs none of it

    return multiprocessing.get_context("fork")


class _Helper:
    """A process that analyses its share."""

    def __init__(
        self, context: ForkContext, project: Project, share: Sequence[Part], rules: Sequence[type[Rule]]
    ) -> None:
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(sender, project, share, rules), daemon=True)
        self._process.start()
        sender.close()

    def outcome(self) -> tuple[list[Outcome], Consulted] | None:
        """What it found and what it asked of the disk; None if it ended without a word."""
        try:
            outcome: tuple[list[Outcome], Consulted] | None = self._receiver.recv()
        except EOFError:
            outcome = None
        self._process.join()
        return outcome


def _work(sender: Connection, project: Project, share: Sequence[Part], rules: Sequence[type[Rule]]) -> None:
    sender.send(([analyze_part(project, part, rules) for part in share], project.disk.consulted))
