"""What is spent on definitions that nothing calls, in proportion to their code, and what is still to be followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.static.python.budget import Budget, BudgetExceededError
from gradlint.static.text.definition_units import ClassUnit, DefinitionUnit, FunctionUnit
from gradlint.static.text.triggers import Feature
from gradlint.static.text.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from gradlint.static.python.progress import Progress
    from gradlint.static.report.witness import Witness
    from gradlint.static.text.files import Module
    from gradlint.static.text.reach import Reach


PER_LINE = 4  #: statements executed for a line of a file
PER_FILE = 500  #: the same for a file, however short
PER_OWN_LINE = 4  #: statements executed for a line of a definition, where its file has used up what it has
PER_DEFINITION = 300  #: the same for a definition, however short
PER_LED_LINE = 1  #: statements executed for a line of a definition that only leads to what may be reported
PER_LED = 200  #: the same for such a definition, however short
AGAIN = 16_000  #: statements executed for functions of a file that are followed once more, beside those for its lines
CALLERS = 8_000  #: statements executed for all that lead to the files that are checked, beside those for their lines
CALLER = 2_000  #: the same for one of them, where the others have used that up
LED_CLOSELY = 8_000  #: statements executed where the order of events counts, for what has no word of training in it
_TRAINING = Feature.BACKWARD | Feature.STEP | Feature.OPTIMIZER | Feature.LOSS


class Effort:
    """Keeps the time for a file in proportion to its size.

    Where events have an order, an entry point is followed to its end; who calls what with which values may be all that
    tells a mistake.

    Args:
        reach: what names lead to.
        begins: whether what any rule there is listens to may begin in a text with some features, given those near by.
    """

    def __init__(self, reach: Reach, begins: Callable[[Feature, Feature], bool]) -> None:
        self._reach = reach
        self._may_begin = begins
        self._left: dict[Module, int] = {}
        self._checked: frozenset[Module] = frozenset()
        self._left_to_callers = 0
        self._trained: set[Unit] = set()  #: functions that train, and were followed as far as others lead to them
        self._familiar: set[Unit] = set()  #: what was executed, or built, or named where that was

    def is_due(self, unit: DefinitionUnit) -> bool:
        """Whether a definition is worth following.

        A function has to do more than to give other values to what is familiar, as variants of a model do.
        """
        if not self.steps(unit):
            return False
        named = self._named(unit)
        if isinstance(unit, ClassUnit) or not named or not self._familiar.issuperset(named):
            return True
        return bool(self._mentioned(unit) & ~Feature.TRAINABLE)

    def steps(self, unit: DefinitionUnit) -> int:
        """The statements that may be executed for a definition.

        What it leads to is followed by itself as well: where nothing may be reported of the definition's own text, it
        is executed for the models that a loop trains near by, for the mode in which it calls something, and for the
        values that it hands on.
        """
        own = PER_DEFINITION + PER_OWN_LINE * _lines(unit.text)
        mentioned = self._mentioned(unit)
        if self._may_begin(mentioned, mentioned) or self._may_begin(mentioned, self._reach.near(unit)):
            return max(own, self._left_of(unit.module))
        near = self._reach.near(unit)
        if near & Feature.BACKWARD or mentioned & Feature.GRAD_MODE:
            return own
        return PER_LED + PER_LED_LINE * _lines(unit.text) if self._may_begin(near, near) else 0

    def steps_closely(self, start: Module | DefinitionUnit) -> int | None:
        """The statements that may be executed where the order of events counts; None if it is any number.

        What leads to backward passes without a word of training itself is mostly the inside of a library, unless it is
        the first function that calls another one of its file that makes them, as ``main`` does ``train``.
        """
        if not isinstance(start, (FunctionUnit, ClassUnit)) or self._mentioned(start) & _TRAINING:
            return None
        if isinstance(start, ClassUnit) or self._trained.issuperset(trained := self._trains(start)):
            return LED_CLOSELY
        self._trained |= trained
        return None

    def _trains(self, start: FunctionUnit) -> set[Unit]:
        """The functions of its file that a function names and that make backward passes."""
        named = (unit for unit in self._named(start) if isinstance(unit, FunctionUnit) and unit.module is start.module)
        return {unit for unit in named if self._mentioned(unit) & Feature.BACKWARD}

    def spent(self, unit: DefinitionUnit, steps: int, met: AbstractSet[Unit]) -> None:
        """A definition was followed for so many steps, and these functions and classes were met."""
        self._left[unit.module] = self._left_of(unit.module) - steps
        self._familiar |= met
        if isinstance(unit, FunctionUnit):
            self._familiar |= self._named(unit)

    # --- what leads to the files that are checked

    def plan(self, targets: Iterable[Module]) -> None:
        """These files are checked; others are followed for what they do with them, in proportion to their size."""
        self._checked = frozenset(targets)
        self._left_to_callers = CALLERS + sum(PER_LINE * _lines(module.source.text) for module in self._checked)

    def followed(self, module: Module, steps: int) -> None:
        """So many statements were executed for an entry point of a file, not those that importing it takes."""
        if self.only_leads(module):
            self._left_to_callers -= steps

    def only_leads(self, module: Module) -> bool:
        """Whether a file is followed for what it does with those that are checked, and is none of them."""
        return module not in self._checked

    def bounded(self, module: Module, steps: int | None) -> int | None:
        """So many statements, or as many as may be executed for what only leads to the files that are checked."""
        if not self.only_leads(module):
            return steps
        most = max(CALLER, self._left_to_callers)
        return most if steps is None else min(most, steps)

    def again(self, module: Module) -> int:
        """The statements that may be executed for all functions of a file that are followed once more."""
        return AGAIN + PER_LINE * _lines(module.source.text)

    def _mentioned(self, unit: Unit) -> Feature:
        return self._reach.scope(unit.module).mentions(unit)

    def _left_of(self, module: Module) -> int:
        left = self._left.get(module)
        return PER_FILE + PER_LINE * _lines(module.source.text) if left is None else left

    def _named(self, unit: Unit) -> set[Unit]:
        leads = self._reach.scope(unit.module).leads_to(unit)
        return {other for other in leads if isinstance(other, (FunctionUnit, ClassUnit))}


class Shares:
    """What each method of a class may take: what is left of the steps for all, and where that is little, its own."""

    def __init__(self, budget: Budget, progress: Progress, witness: Witness, *, again: bool) -> None:
        self._budget, self._progress, self._witness, self._again = budget, progress, witness, again
        self._done: set[Unit] = set()  #: what methods executed first that came to their end
        self._exceeded = False
        self.are_short = False  #: for a method that is inherited, too little was left

    @contextmanager
    def of(self, method: FunctionUnit, *, inherited: bool = False) -> Iterator[None]:
        """A method is executed; where that takes too long, the others are none the less.

        One that is inherited is followed where it stands as well: it has what is left here, and no more.
        """
        before = set(self._progress.entered)
        own = 0 if inherited else PER_DEFINITION + PER_OWN_LINE * _lines(method.text)
        try:
            with self._budget.assured(own):
                yield
        except BudgetExceededError:
            self._exceeded = self._exceeded or not inherited
            self.are_short = self.are_short or inherited
            self._progress.give_up(again=self._again)
        else:
            self._progress.settle()
            self._witness.finish()
            self._done |= self._progress.entered - before

    def end(self) -> None:
        """The class was followed: BudgetExceededError if some method took too long, and is to be followed again."""
        if self._exceeded:
            self._progress.entered -= self._done
            raise BudgetExceededError


def _lines(text: str) -> int:
    return text.count("\n") + 1


Watch = Callable[[Path, int, float], None]
"""Told which file is followed, how many files there is still something to follow in, and which share is done."""


class Agenda:
    """Counts the entry points of each file.

    Args:
        watch: told of each that begins.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._left: Counter[Path] = Counter()
        self._total = 0
        self._done = 0

    def plan(self, files: Iterable[Path]) -> None:
        """Something is to be followed in each of these files, as often as it is named."""
        before = self._left.total()
        self._left.update(files)
        self._total += self._left.total() - before

    def begin(self, file: Path) -> None:
        """Something that was planned in a file begins."""
        self._watch(file, len(self._left), self._done / self._total if self._total else 0.0)
        self._done += 1
        self._left[file] -= 1
        if self._left[file] <= 0:
            del self._left[file]
