"""How far an entry point is followed: the steps it may take, and what is kept apart meanwhile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from gradlint.static.text.triggers import walks_in

if TYPE_CHECKING:
    from gradlint.static.text.definition_units import FunctionUnit
    from gradlint.static.text.files import Module
    from gradlint.static.text.reach import Reach
    from gradlint.static.text.units import Unit

MAX_WORLDS = 6  #: kept apart at one point of the program
MAX_STEPS = 30_000  #: statements executed for one entry point at most
LONG = 4  #: the same for each line of the file it stands in, where that is more
CLOSE = 1_000  #: statements executed for one entry point with every distinction kept
BESIDE = 2_000  #: statements executed for what is followed beside an entry point, as functions that it hands on
ORDERLY = ((CLOSE, (MAX_WORLDS, 5)), (4 * CLOSE, (3, 3)), (math.inf, (1, 2)))
"""Where the order of events counts: up to so many statements, the worlds that are kept apart and the iterations."""
UNORDERED = ((CLOSE // 4, (2, 2)), (math.inf, (1, 1)))
"""The same where no rule about an order of events may report anything."""


ASIDE = (1, 1)
"""The same in functions that have to do neither with modules nor with gradients."""

OFTEN = 24  #: executions of a function that stands aside, once half of the steps is spent
ROUNDS = 12  #: executions of a function that leads back to itself, where these are few
ALL_ROUNDS = 120  #: executions of all such functions together, but for the first ones of each
FIRST_ROUNDS = 3
FEW_CIRCULAR = 10  #: such functions, of which each may be executed as often as any
REPEATS = 8  #: executions of one function for a definition that is followed briefly
REPEATS_ASIDE = 4  #: the same of a function that has to do neither with modules nor with gradients
SHARE_ASIDE = 8  #: a function that stands aside is too costly if its calls take one in so many of the steps
PARTS = (2, 4, 8)  #: the same of others: the larger part, or else a smaller one


class Stage(NamedTuple):
    """How much less is followed of an entry point that has taken a number of steps."""

    steps: int
    parts: tuple[int, ...]  #: what has taken such a part of them is followed no more
    aside: int  #: the same of what stands aside
    training: bool  #: also where backward passes were made in it


NARROWING = (
    Stage(3_000, PARTS[:1], 4, training=False),
    Stage(6_000, PARTS[:1], 4, training=False),
    Stage(10_000, PARTS[:1], 4, training=False),
    Stage(15_000, PARTS[:2], SHARE_ASIDE, training=True),
    Stage(21_000, PARTS, SHARE_ASIDE, training=True),
    Stage(27_000, PARTS, SHARE_ASIDE, training=True),
)
ALIKE = 6  #: modules of one class that are looked into, and forward passes of them, where an entry point is hurried


class Running(NamedTuple):
    """A function that is being executed, and what had been counted when it was entered."""

    unit: FunctionUnit
    steps: int
    passes: int
    own: int


class BudgetExceededError(Exception):
    """An entry point took more steps than it may."""


class OrderMattersError(Exception):
    """An entry point that was not followed closely has come to a backward pass."""


class Budget:
    """Counts the steps of an entry point, and keeps it within bounds: the longer it takes, the less is followed."""

    _reach: Reach

    def __init__(self) -> None:
        self.steps = 0
        self.ordered = True  #: loops and branches are followed closely
        self.aside = False  #: nothing is executed that has to do with modules, gradients or their order
        self.hurried = False  #: of modules that are alike, a few are enough
        self.spent = 0  #: the steps of what was last followed apart
        self._opaque: set[Unit] = set()  #: functions that have turned out to be too costly to follow
        self._long: set[Unit] = (
            set()
        )  #: those that took most of an entry point, which is too much for one of another file
        self._left: set[Unit] = set()  #: those of them that are not followed any more in this one either
        self._home: Module | None = None
        self._shares: Counter[FunctionUnit] = Counter()  #: the steps that their calls took, but for own ones in them
        self._running: list[Running] = []  #: those executed, the innermost last
        self._own_steps = 0  #: those of what belongs to what is executed, where something else has called it
        self._passes = 0  #: backward passes so far
        self._training: set[Unit] = set()  #: functions in which some were made
        self._own: Callable[[Unit], bool] | None = None
        self._also_own: set[Unit] = set()
        self._far: Callable[[Module], bool] | None = None
        self._shunned: set[Unit] = set()  #: functions that are too costly to follow from other packages
        self._elsewhere: Callable[[Module], bool] = _nowhere
        self._limit = MAX_STEPS
        self._narrowed = 0  #: how often less was followed
        self._mark = MAX_STEPS  #: the steps after which it is, or which are too many
        self._briefly = False
        self._times: Counter[tuple[Unit, bool]] = Counter()
        self._often: Counter[Unit] = Counter()
        self._alike: Counter[Unit] = Counter()
        self._kinds: set[Hashable] = set()  #: functions, with the classes of the modules they were given
        self._circular: set[Unit] = set()  #: functions that were entered again before they had returned
        self._rounds: Counter[Unit] = Counter()  #: executions of these
        self._walks: dict[Unit, bool] = {}
        self._last_shares: Counter[FunctionUnit] = Counter()
        self._last_own: Callable[[Unit], bool] = _everything

    def tick(self) -> None:
        """Count a step."""
        self.steps += 1
        if self.steps > self._mark:
            if self.steps > self._limit:
                raise BudgetExceededError
            self._narrow()
            self._bound(self._limit)

    def _bound(self, limit: int) -> None:
        """Set how many steps may be taken, and when less is to be followed."""
        self._limit = self._mark = limit
        if self._own is not None and self._narrowed < len(NARROWING):
            self._mark = min(limit, NARROWING[self._narrowed].steps)

    @contextmanager
    def within(self, aside: bool) -> Iterator[None]:
        """A function is executed; what calls one that does not stand aside does not either, whatever it looks like."""
        before, self.aside = self.aside, aside
        try:
            yield
        finally:
            self.aside = self.aside and before

    @contextmanager
    def apart(
        self,
        steps: int | None = None,
        *,
        briefly: bool = False,
        hurried: bool = False,
        far: Callable[[Module], bool] | None = None,
        elsewhere: Callable[[Module], bool] | None = None,
        own: Callable[[Unit], bool] | None = None,
        home: Module | None = None,
    ) -> Iterator[None]:
        """What is executed meanwhile has steps of its own.

        Args:
            steps: how many; None for as many as any entry point may take.
            briefly: of each function, a few executions are enough.
            hurried: it has taken too many steps before; of modules that are alike, a few are enough.
            far: whether the functions and classes of a file are not to be followed; none if not given.
            elsewhere: whether a file belongs to another package than what is executed; as before if not given.
            own: whether a function belongs to what is executed, and is to be followed whatever it takes; if not given,
                that is so of all.
            home: the file that it stands in, which may be long; as before if not given.
        """
        before = self.steps, self._briefly, self.hurried, self._far, self._elsewhere, self._home, self._left
        bounds = self._own, self._also_own, self._narrowed, self._limit, self._mark
        counted = self._times, self._often, self._alike, self._kinds, self._shares, self._running, self._rounds
        own_steps, self._own_steps = self._own_steps, 0
        self.steps, self._briefly, self.hurried, self._far = 0, briefly, hurried, far
        self._elsewhere, self._home = elsewhere or self._elsewhere, home or self._home
        self._left = set() if home is not None else self._left
        also: set[Unit] = set()
        self._also_own = also
        self._own = None if own is None else lambda unit: own(unit) or unit in also
        self._narrowed = 0
        most = MAX_STEPS if home is None else max(MAX_STEPS, LONG * home.source.text.count("\n"))
        self._bound(most if steps is None else min(steps, most))
        self._times, self._often, self._alike, self._kinds = Counter(), Counter(), Counter(), set()
        self._shares, self._running, self._rounds = Counter(), [], Counter()
        try:
            yield
        finally:
            self.spent = self.steps
            self.steps, self._briefly, self.hurried, self._far, self._elsewhere, self._home, self._left = before
            self._last_shares, self._last_own = self._shares, self._own or _everything
            self._own, self._also_own, self._narrowed, self._limit, self._mark = bounds
            self._times, self._often, self._alike, self._kinds, self._shares, self._running, self._rounds = counted
            self._own_steps = own_steps

    def owns(self, *units: Unit) -> None:
        """Functions belong to what is executed, too: to be followed whatever they take."""
        self._also_own.update(units)

    def enters(self, unit: FunctionUnit) -> None:
        """A function is called, and executed."""
        self._running.append(Running(unit, self.steps, self._passes, self._own_steps))

    def leaves(self) -> int:
        """The innermost of those is over: it has its share of the steps since then, which are returned.

        What is executed for an entry point's own sake is no share of what calls it, as decorators do.
        """
        unit, before, passes, own = self._running.pop()
        steps = self.steps - before
        self._shares[unit] += steps - (self._own_steps - own)
        if self._own is not None and self._own(unit):
            self._own_steps = own + steps
        if self._passes > passes:
            self._training.add(unit)
        return steps

    def is_opaque(self, unit: Unit) -> bool:
        """Whether a function or class is too costly to follow where something else calls it, or too far away."""
        if unit in self._opaque or (unit in self._shunned and self._elsewhere(unit.module)):
            return True
        if unit in self._long and (unit in self._left or unit.module is not self._home):
            return True
        return self._far is not None and self._far(unit.module)

    def shun(self, elsewhere: Callable[[Module], bool]) -> None:
        """What was last followed took too many steps: calls into other packages that took most of them are no more.

        Args:
            elsewhere: whether a file belongs to another package than what was followed.
        """
        costly = (unit for unit, steps in self._last_shares.items() if steps > self.spent // 2)
        self._shunned.update(unit for unit in costly if elsewhere(unit.module))

    def blame(self) -> bool:
        """What was last followed took too many steps: do not follow any more what has taken most of them.

        Returns:
            Whether there was any.
        """
        shares = {unit: steps for unit, steps in self._last_shares.items() if not self._last_own(unit)}
        blamed = self._largest(shares, self.spent, PARTS, SHARE_ASIDE)
        self._opaque |= blamed
        return bool(blamed)

    def _narrow(self) -> None:
        """So many steps were taken that what has taken most of them is not worth following any more.

        What is being executed goes on.  What trains is followed a while longer: the order of events depends on it.
        """
        stage = NARROWING[self._narrowed]
        self._narrowed += 1
        self.hurried = True
        if stage.parts is PARTS:
            self._far = self._elsewhere
        own, spared = self._own or _everything, () if stage.training else self._training
        running = dict(self._since_entered(own))
        shares = self._shares + Counter(running)
        shares = Counter({unit: steps for unit, steps in shares.items() if not own(unit) and unit not in spared})
        largest = self._largest(shares, self.steps, stage.parts, stage.aside, running)
        self._long |= largest
        self._left |= largest

    def _since_entered(self, own: Callable[[Unit], bool]) -> Iterator[tuple[FunctionUnit, int]]:
        """The functions that are being executed, and their shares since they were first entered; those last."""
        within = self._own_steps  # by the end of what is executed now
        for unit, before, _, mark in reversed(self._running):
            yield unit, self.steps - before - (within - mark)
            if own(unit):
                within = mark + self.steps - before

    def _largest(
        self, shares: Mapping[FunctionUnit, int], of: int, parts: Iterable[int], aside: int, but: Container[Unit] = ()
    ) -> set[FunctionUnit]:
        """The functions that took most of some steps.

        Functions that have to do neither with modules nor with gradients come first; of the others (but for some) the
        innermost that took the larger part.
        """
        standing_aside = self._reach.stands_aside
        found = {unit for unit, steps in shares.items() if steps > of // aside and standing_aside(unit)}
        for part in () if found else parts:
            numbered = enumerate(shares.items())
            large = [(n, number, unit) for number, (unit, n) in numbered if n > of // part and unit not in but]
            if large:
                return {min(large)[2]}
        return found

    def tires(
        self,
        unit: Unit,
        aside: Callable[[], bool],
        kinds: Callable[[], tuple[Hashable, ...]] | None = None,
        recorded: bool = True,
    ) -> bool:
        """Whether a function that is called, or a class that is built, was often enough.

        Args:
            unit: the function or class.
            aside: whether it has to do neither with modules nor with gradients; asked rarely.
            kinds: of which classes the modules are that it is given; with others than before, it may do something else.
            recorded: whether gradients may be enabled; without them, it does something else.
        """
        if not self._briefly:
            return False
        self._times[unit, recorded] += 1
        times = self._times[unit, recorded]
        if kinds is not None and self._is_new(unit, kinds()):
            return False
        return times > REPEATS or (times > REPEATS_ASIDE and aside())

    def wearies(self, unit: Unit) -> bool:
        """Whether a function that stands aside was executed often, and half of the steps is spent.

        What reads or prepares data, item by item, would use up what is left of them.
        """
        self._often[unit] += 1
        return self._often[unit] > OFTEN and self.steps > self._limit // 2 and not self._briefly

    def leads_back(self, unit: Unit, around: Iterable[Unit]) -> None:
        """A function is called that is being executed already, and these are executed for it: so they are, too.

        Where there are few, a function counts only if it is called again itself.
        """
        self._circular.update(around if len(self._circular) >= FEW_CIRCULAR else (unit,))

    def circles(self, unit: Unit) -> bool:
        """Whether a function that leads back to itself was executed often enough.

        Functions that all call one another have more ways through them than can be followed: where there are many, once
        each is enough as soon as that has taken long.
        """
        if unit not in self._circular:
            return False
        self._rounds[unit] += 1
        if len(self._circular) > FEW_CIRCULAR and self.steps > 2 * CLOSE:
            return self._rounds[unit] > 1
        return self._rounds[unit] > max(FIRST_ROUNDS, min(ROUNDS, ALL_ROUNDS // len(self._circular)))

    def hurries(self, unit: Unit) -> bool:
        """Whether another module of a class, or another forward pass of one, need not be looked into."""
        if not self.hurried:
            return False
        self._alike[unit] += 1
        return self._alike[unit] > ALIKE

    def _is_new(self, unit: Unit, kinds: tuple[Hashable, ...]) -> bool:
        known = len(self._kinds)
        if kinds:
            self._kinds.add((unit, kinds))
        return len(self._kinds) > known

    def affords(self, act: Callable[[], None], steps: int) -> bool:
        """Do something that may not take more than some steps; whether it has come to its end.

        Raises:
            BudgetExceededError: the entry point as a whole takes too many.
        """
        limit = self._limit
        self._bound(min(limit, self.steps + steps))
        try:
            act()
        except BudgetExceededError:
            if self.steps > limit:
                raise
            return False
        else:
            return True
        finally:
            self._bound(limit)

    @contextmanager
    def assured(self, steps: int) -> Iterator[None]:
        """What is executed meanwhile may take some steps even where fewer are left."""
        before = self._limit
        self._bound(max(before, self.steps + steps))
        try:
            yield
        finally:
            self._bound(before)

    def order_matters(self) -> None:
        """A backward pass begins: what comes before and after it, and in which iteration, is what many rules are about.

        Raises:
            OrderMattersError: loops and branches have not been followed closely so far.
        """
        self._passes += 1
        if not self.ordered:
            raise OrderMattersError

    def begins(self, unit: FunctionUnit) -> None:
        """A function is entered; OrderMattersError if it calls for backward passes, which might be missed."""
        if not self.ordered:
            walks = self._walks.get(unit)
            if walks is None:
                walks = self._walks[unit] = walks_in(unit.text)
            if walks:
                raise OrderMattersError

    def worlds(self) -> int:
        """How many worlds may be kept apart, the fewer the longer the entry point has run."""
        return self._pace[0]

    def iterations(self) -> int:
        """How many iterations of a loop may be executed, the fewer the longer the entry point has run."""
        return self._pace[1]

    @property
    def _pace(self) -> tuple[int, int]:
        if self.aside:
            return ASIDE
        return next(pace for steps, pace in (ORDERLY if self.ordered else UNORDERED) if self.steps < steps)


def _everything(_unit: Unit) -> bool:
    """All belongs to what is executed."""
    return True


def _nowhere(_module: Module) -> bool:
    """Nothing belongs to another package."""
    return False
