"""What was executed, what waits to be, and whether all worlds have come there; what is idle or takes too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import reachable
from gradlint.static.state.context import Context, Results
from gradlint.static.state.values import Function, Object, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.nodes import children

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.python.budget import Budget
    from gradlint.static.python.domain import Domain
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project
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
        self.in_mode: set[Unit] = set()  #: functions that were called where the mode of a module had been asked for
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

    def calls(self, unit: Unit, *, recorded: bool, in_mode: bool) -> None:
        """A function is called, be it followed or not: whether gradients are enabled, and a mode was asked for."""
        if not recorded:
            self.unrecorded.add(unit)
        if in_mode:
            self.in_mode.add(unit)

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


_MAX_WAITING = 16  #: functions that wait to be called, of an entry point


class Waiting(NamedTuple):
    """A function, and the world in which the one around it has ended."""

    function: Function
    world: World
    ctx: Context
    returned: bool  #: it is what the function around it returned
    handed: bool = False  #: a library was given it, in this world: it calls it as gradients are enabled here


class Nested:
    """Keeps functions that somebody else is given, and that nothing at hand calls, until their entry point is done.

    These are callbacks, and functions that are defined within others.
    """

    _progress: Progress
    _witness: Witness

    def __init__(self) -> None:
        self._defined: dict[int, list[Function]] = {}  #: by the frame of the function around them
        self._waiting: dict[FunctionUnit, Waiting] = {}

    def defined(self, function: Function) -> None:
        """A function was defined while another one runs."""
        if not self._witness.muted:
            self._defined.setdefault(function.frame, []).append(function)

    def left(self, results: Results, ctx: Context) -> None:
        """The function around them has ended."""
        for function in self._defined.pop(ctx.frame, ()) if results else ():
            unit = function.unit
            if unit not in self._progress.called and unit not in self._waiting and len(self._waiting) < _MAX_WAITING:
                returned = any(world.resolve(value) == function for world, value in results)
                self._waiting[unit] = Waiting(function, results[0][0].copy(), ctx, returned)

    def handed(self, function: Function, w: World, ctx: Context) -> None:
        """A library is given a function, which it may call from now on."""
        unit = function.unit
        waiting = self._waiting.get(unit)
        if self._witness.muted or unit in self._progress.called or (waiting is not None and waiting.handed):
            return
        if waiting is not None or len(self._waiting) < _MAX_WAITING:
            self._waiting[unit] = Waiting(function, w.copy(), ctx, returned=False, handed=True)

    def take(self) -> list[Waiting]:
        """Those that nothing has called by now."""
        found = [waiting for unit, waiting in self._waiting.items() if unit not in self._progress.called]
        self.clear()
        return found

    def clear(self) -> None:
        """An entry point begins, or is done."""
        self._defined.clear()
        self._waiting.clear()


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


_DEFINITIONS = frozenset([cst.FunctionDef, cst.ClassDef])
_STATEMENTS = _DEFINITIONS | {
    cst.SimpleStatementLine,
    cst.SimpleStatementSuite,
    cst.If,
    cst.For,
    cst.While,
    cst.With,
    cst.Try,
    cst.TryStar,
    cst.Match,
}
_HOLDERS = frozenset(
    [cst.IndentedBlock, cst.Else, cst.Finally, cst.ExceptHandler, cst.ExceptStarHandler, cst.MatchCase]
)


class Coverage:
    """Knows what was not executed of the functions that were."""

    def __init__(self) -> None:
        self._entered: dict[FunctionUnit, None] = {}  #: since the last entry point was done, in order
        self._met: set[int] = set()  #: ids of nodes
        self._missed: dict[FunctionUnit, frozenset[int]] = {}  #: by their places among the statements of the function
        self.meets: Callable[[int], None] = self._met.add  #: a statement, by the id of its node, is executed

    def enters(self, unit: FunctionUnit) -> None:
        """The body of a function is executed, which is parsed for that."""
        if not isinstance(unit.parent, FunctionUnit):
            self._entered[unit] = None

    def settle(self, *, whole: bool = True) -> None:
        """An entry point is done, be it to its end (whole) or not; trees may be let go of after this."""
        for unit in self._entered:
            before = self._missed.get(unit)
            if before or (before is None and whole):
                missed = frozenset(place for place, node in _numbered(unit) if id(node) not in self._met)
                self._missed[unit] = missed if before is None else before & missed
        self._entered.clear()
        self._met.clear()

    def missed(self, unit: FunctionUnit) -> Iterator[cst.CSTNode]:
        """The outermost statements of a function that were not executed; none if nothing of it was."""
        places = self._missed.get(unit)
        if places:
            missed = {id(node) for place, node in _numbered(unit) if place in places}
            yield from _statements(unit.node.body, missed.__contains__)

    def functions(self) -> Iterator[FunctionUnit]:
        """The functions, and methods, of which something was not executed."""
        return (unit for unit, places in self._missed.items() if places)


def _numbered(unit: FunctionUnit) -> Iterator[tuple[int, cst.CSTNode]]:
    return enumerate(_statements(unit.node.body))


def _statements(node: cst.CSTNode, ends: Callable[[int], bool] | None = None) -> Iterator[cst.CSTNode]:
    """The statements below a node, but for those of functions and classes that are defined there.

    Args:
        node: where they stand.
        ends: which of them are wanted, by their ids, without what stands in them; all if not given.
    """
    for child in children(node):
        kind = type(child)
        wanted = kind in _STATEMENTS and (ends is None or ends(id(child)))
        if wanted:
            yield child
        if kind in _HOLDERS or (kind in _STATEMENTS and kind not in _DEFINITIONS and not (wanted and ends)):
            yield from _statements(child, ends)


COSTLY = 100  #: statements that a call has executed, those of other calls in it included, which is looked at
ENOUGH = 8  #: such calls of a function that made and changed nothing of the domain's, until it is known to be idle
LONG = 4_000  #: statements that they have executed together


class Idleness:
    """Learns which functions are idle: none of their calls has made or changed an object of the domain.

    Containers of arrays that convert, stack and split what they hold are of this kind: hundreds of statements for each
    call, and nothing in them that a rule is about.
    """

    _domain: Domain

    def __init__(self) -> None:
        self._costly: set[FunctionUnit] = set()
        self._calls: Counter[tuple[FunctionUnit, bool]] = Counter()
        """Costly ones that were given nothing of the domain's, by whether gradients may have been enabled."""
        self._steps: Counter[tuple[FunctionUnit, bool]] = Counter()  #: statements executed for these
        self._busy: set[FunctionUnit] = set()  #: functions of which one of these has made or changed something

    def carries_data(self, unit: FunctionUnit, given: Iterable[Value], w: World) -> bool:
        """Whether a function that has been costly is given nothing of the domain's, nor has such things around it."""
        if unit not in self._costly or unit in self._busy:
            return False
        values = [w.resolve(value) for value in given]
        if any(isinstance(value, Unknown) and value.deps for value in values):
            return False
        return not any(self._concerns(w.find(key)) for key in reachable(values, w))

    def is_idle(self, unit: FunctionUnit, w: World) -> bool:
        """Whether a function need not be followed where it is given nothing of the domain's.

        What was never called but where gradients are disabled may do more where they are not.
        """
        key = unit, w.grad is not False
        return self._calls[key] >= ENOUGH and self._steps[key] >= LONG and unit not in self._busy

    def ended(
        self, unit: FunctionUnit, steps: int, since: int, results: Results, *, data: bool, recorded: bool
    ) -> None:
        """A call has ended.

        Args:
            unit: the function.
            steps: the statements that were executed for it.
            since: the number at which it began.
            results: the worlds it has left, with what it returned.
            data: it was given nothing of the domain's.
            recorded: gradients may have been enabled.
        """
        if steps < COSTLY:
            return
        self._costly.add(unit)
        if not data:
            return
        if any(obj.stamp > since and self._concerns(obj) for world, _ in results for obj in world.heap.values()):
            self._busy.add(unit)
            return
        self._calls[unit, recorded] += 1
        self._steps[unit, recorded] += steps

    def _concerns(self, obj: Object | None) -> bool:
        return obj is not None and self._domain.escapes.concerned(obj)


TRIES = 1  #: how often something is followed once more because it took too many steps
OFTEN = 2  #: entry points of one package that took too long with others followed, until none of them are
WORTHWHILE = 2_000  #: statements after which it is worth looking for what has taken most of them


class Patience:
    """Decides what is worth another try, and with how much less to follow."""

    _project: Project
    _budget: Budget

    def __init__(self) -> None:
        self._tops: dict[Path, Path] = {}
        self._too_long: Counter[Path] = Counter()

    def far(self, home: Module, *, near: bool) -> Callable[[Module], bool] | None:
        """Which files are not followed from one; None if all are.

        Args:
            home: the file.
            near: it took too long with all of them.
        """
        near = near or self._too_long[self._top(home)] >= OFTEN
        return self.elsewhere(home) if near else None

    def elsewhere(self, home: Module) -> Callable[[Module], bool]:
        """Whether a file belongs to another package than one that is followed."""
        return partial(self.apart, home)

    def apart(self, one: Module, other: Module) -> bool:
        """Whether two files belong to different packages."""
        return self._top(one) != self._top(other)

    def is_worth_another(self, home: Module, *, all_followed: bool, learns: bool = True) -> bool:
        """Whether something that took too many steps is worth another try, with less to follow.

        Args:
            home: the file it stands in.
            all_followed: other packages were followed, too.
            learns: what has taken most of the steps is too costly for others as well; not where it had but a few.
        """
        long = learns and self._budget.spent > WORTHWHILE
        if all_followed and long:
            self._too_long[self._top(home)] += 1
            self._budget.shun(self.elsewhere(home))
        blamed = long and self._budget.blame()
        return blamed or all_followed

    def _top(self, module: Module) -> Path:
        """The folder of the outermost package that a file is in; of a script, its own folder."""
        folder = module.path.parent
        known = self._tops.get(folder)
        if known is None:
            known = folder
            is_package = self._project.is_package
            while is_package(known) and is_package(known.parent):
                known = known.parent
            self._tops[folder] = known
        return known
