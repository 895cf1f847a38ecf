"""Several processes for one analysis.  Files that no import connects are analysed apart, whatever their number is."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.consulted import Consulted

if TYPE_CHECKING:
    from gradlint.rule import Rule
    from gradlint.static.analysis import Analysis
    from gradlint.static.project import Project

MANY = 24  #: files, below which a process of its own does not pay


def jobs_for(files: int) -> int:
    """How many processes to use where nobody says: one for each CPU at hand, and one for a few files."""
    if files < MANY:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def analyze_by(
    jobs: int,
    project: Project,
    targets: Sequence[Path],
    rules: Sequence[type[Rule]],
    beside: Sequence[Path] = (),
) -> Analysis:
    """What :func:`~gradlint.static.analysis.analyze` finds, by at most so many processes.

    Where processes cannot be forked, or where files that are not checked import some that are, there is only one.
    """
    from gradlint.static.analysis import analyze

    shares = _shares(jobs, project, targets) if jobs > 1 and "fork" in multiprocessing.get_all_start_methods() else []
    if len(shares) < 2:
        return analyze(project, targets, rules, beside)
    context = multiprocessing.get_context("fork")
    others = [[*beside, *sorted(set(targets).difference(share))] for share in shares]
    helpers = [
        _Helper(context, project, share, rules, rest) for share, rest in zip(shares[1:], others[1:], strict=True)
    ]
    found = [analyze(project, shares[0], rules, others[0])]
    for helper, share, rest in zip(helpers, shares[1:], others[1:], strict=True):
        outcome = helper.outcome()
        if outcome is None:  # it was killed, for want of memory perhaps
            found.append(analyze(project, share, rules, rest))
            continue
        result, consulted = outcome
        project.disk.consulted.take_over(consulted)
        found.append(result)
    first, *rest_found = found
    for each in rest_found:
        first.findings += each.findings
        first.notes += each.notes
        first.crashes += each.crashes
    first.findings.sort(key=lambda finding: finding.sort_key)
    return first


def _shares(jobs: int, project: Project, targets: Sequence[Path]) -> list[list[Path]]:
    """The targets, split where no import connects them, into parts of about the same size."""
    if project.importers_of(targets):
        return []
    shares: list[list[Path]] = [[] for _ in range(jobs)]
    sizes = [0] * jobs
    groups = [(sum(map(project.size, group)), group) for group in project.components(targets)]
    for size, group in sorted(groups, key=lambda pair: (-pair[0], pair[1])):
        smallest = sizes.index(min(sizes))
        shares[smallest] += group
        sizes[smallest] += size
    place = {path: number for number, path in enumerate(targets)}
    return [sorted(share, key=place.__getitem__) for share in shares if share]


class _Helper:
    """A process that analyses its share."""

    def __init__(
        self,
        context: ForkContext,
        project: Project,
        share: Sequence[Path],
        rules: Sequence[type[Rule]],
        beside: Sequence[Path],
    ) -> None:
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(sender, project, share, rules, beside), daemon=True)
        self._process.start()
        sender.close()

    def outcome(self) -> tuple[Analysis, Consulted] | None:
        """What it found and what it asked of the disk; None if it ended without a word."""
        try:
            outcome: tuple[Analysis, Consulted] | None = self._receiver.recv()
        except EOFError:
            outcome = None
        self._process.join()
        return outcome


def _work(
    sender: Connection, project: Project, share: Sequence[Path], rules: Sequence[type[Rule]], beside: Sequence[Path]
) -> None:
    from gradlint.static.analysis import analyze

    sender.send((analyze(project, share, rules, beside), project.disk.consulted))
