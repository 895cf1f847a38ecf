"""A guard that begins and ends when a trainer says so."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from gradlint.finding import Finding
from gradlint.runtime import OnFinding
from gradlint.runtime.session import Guard


class GuardOfTrainer:
    """One guard at a time, from :meth:`begin` to :meth:`end`.

    Between trainings it holds no guard, so that what has it as an attribute can be copied and pickled.
    """

    def __init__(
        self,
        on_finding: OnFinding = "warn",
        select: str | Iterable[str] | None = None,
        ignore: str | Iterable[str] | None = None,
        exact: bool | float = False,
        logger: Any = None,
        include_libraries: bool = False,
    ) -> None:
        self._options: dict[str, Any] = {
            "select": select,
            "ignore": ignore,
            "exact": exact,
            "on_finding": on_finding,
            "logger": logger,
            "include_libraries": include_libraries,
        }
        Guard(**self._options)  # a mistake in the options shows here, not hours later
        self._guard: Guard | None = None
        self._findings: list[Finding] = []
        self._at_the_end: Any = None

    @property
    def findings(self) -> list[Finding]:
        """What was found in the training under way, or else in the last one."""
        return self._findings if self._guard is None else self._guard.findings

    def begin(self, *watched: Any) -> None:
        """Start to watch.  A training that never ended, because it raised, ends here."""
        self.end()
        guard = self._guard = Guard(*watched, **self._options)
        guard.__enter__()
        self._at_the_end = weakref.finalize(self, _leave, guard)

    def end(self, error: BaseException | None = None) -> None:
        """Stop watching, if that is not done yet.

        Args:
            error: what the training ended with.
        """
        guard, self._guard = self._guard, None
        if guard is None:
            return
        self._at_the_end.detach()
        self._at_the_end = None
        try:
            guard.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        finally:
            self._findings = guard.findings


def _leave(guard: Guard) -> None:
    if guard.active:
        guard.__exit__(None, None, None)
