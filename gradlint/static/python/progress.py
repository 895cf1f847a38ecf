"""What was executed so far, and whether all worlds have come there: only then what was reported stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.python.coverage import Coverage
    from gradlint.static.report.witness import Witness
    from gradlint.static.text.units import Unit


class Progress:
    """Knows what was executed, and what of that is to be executed again where an entry point is given up."""

    def __init__(self, witness: Witness, coverage: Coverage) -> None:
        self._witness = witness
        self._coverage = coverage
        self.called: set[Unit] = set()  #: functions that were executed
        self.applied: set[Site] = set()  #: lambdas that were executed
        self.unsettled: set[Unit] = set()  #: those of them that were not executed before the last :meth:`settle`
        self.entered: set[Unit] = set()  #: those of them that the present entry point was the first to execute
        self.unrecorded: set[Unit] = set()  #: functions that were called where gradients may not be enabled
        self.unrecorded_names: set[str] = set()  #: methods of unknown objects that were called there
        self.built: set[Unit] = set()  #: classes that were instantiated
        self.met: set[Unit] = set()  #: the functions and classes of both kinds since it was last cleared

    def enters(self, unit: Unit) -> None:
        """A function is executed."""
        self.met.add(unit)
        if unit not in self.called:
            self.called.add(unit)
            self.unsettled.add(unit)
            self.entered.add(unit)

    def begin(self) -> None:
        """An entry point begins."""
        self.settle()
        self.met.clear()
        self.entered.clear()

    def start_again(self) -> None:
        """The entry point is followed once more, from its beginning."""
        self.called -= self.entered

    def settle(self) -> None:
        """All worlds have come so far: what was reported stands, and what was executed need not be again."""
        self._witness.settle()
        self.unsettled.clear()

    def give_up(self, *, again: bool = False) -> None:
        """The entry point takes too long: functions that it was about to follow are followed by themselves."""
        self._witness.give_up(again=again)
        self._coverage.settle(whole=False)  # what it did not come to is not to be tried again
        self.called -= self.unsettled
        self.unsettled.clear()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is executed meanwhile, for all that import it, is settled by itself."""
        unsettled, self.unsettled = self.unsettled, set()
        entered, self.entered = self.entered, set()
        try:
            yield
        finally:
            self.unsettled |= unsettled
            self.entered = entered

    @contextmanager
    def unseen(self, *, built: bool = False) -> Iterator[None]:
        """What is executed meanwhile is executed to learn from it: nothing is reported, and it does not count.

        Args:
            built: classes that are instantiated do not count either.
        """
        called, classes, muted = self.called, self.built, self._witness.muted
        self.called, self._witness.muted = set(called), True
        if built:
            self.built = set(classes)
        try:
            yield
        finally:
            self.called, self.built, self._witness.muted = called, classes, muted

    @contextmanager
    def unseen_but_for(self, unit: Unit) -> Iterator[None]:
        """The same of one function: what it calls counts as called."""
        was_called, muted = unit in self.called, self._witness.muted
        self._witness.muted = True
        try:
            yield
        finally:
            self._witness.muted = muted
            if not was_called:
                self.called.discard(unit)

    @contextmanager
    def uncalled(self) -> Iterator[None]:
        """What is executed meanwhile for the first time is to be executed again by itself."""
        unsettled = set(self.unsettled)
        try:
            yield
        finally:
            entered = self.unsettled - unsettled
            self.called -= entered
            self.unsettled -= entered


class Wholeness:
    """Knows whether other worlds will come to what is being executed."""

    def __init__(self) -> None:
        self.holds = True  #: no others will

    def partly(self, whole: bool = False) -> _Partly:
        """What is executed meanwhile is executed for other worlds as well, unless these are the whole."""
        return _Partly(self, whole)


class _Partly:
    """A context manager; one by ``contextlib`` takes a fortieth of a check more."""

    __slots__ = ("_before", "_whole", "_wholeness")

    def __init__(self, wholeness: Wholeness, whole: bool) -> None:
        self._wholeness = wholeness
        self._whole = whole

    def __enter__(self) -> None:
        wholeness = self._wholeness
        self._before = wholeness.holds
        wholeness.holds = wholeness.holds and self._whole

    def __exit__(self, *_: object) -> None:
        self._wholeness.holds = self._before
