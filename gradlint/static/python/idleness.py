"""Functions that turn out to do no more than carry data about: in the end they are called by their headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint.static.state.contents import reachable
from gradlint.static.state.values import Object, Unknown, Value
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.static.python.domain import Domain
    from gradlint.static.state.context import Results
    from gradlint.static.text.definition_units import FunctionUnit

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
        self._calls: Counter[FunctionUnit] = Counter()  #: costly ones that were given nothing of the domain's
        self._steps: Counter[FunctionUnit] = Counter()  #: statements executed for these
        self._busy: set[FunctionUnit] = set()  #: functions of which one of these has made or changed something

    def carries_data(self, unit: FunctionUnit, given: Iterable[Value], w: World) -> bool:
        """Whether a call of a function that has been costly is given nothing of the domain's."""
        if unit not in self._costly or unit in self._busy:
            return False
        values = [w.resolve(value) for value in given]
        if any(isinstance(value, Unknown) and value.deps for value in values):
            return False
        return not any(self._concerns(w.find(key)) for key in reachable(values, w))

    def is_idle(self, unit: FunctionUnit) -> bool:
        """Whether a function need not be followed where it is given nothing of the domain's."""
        return self._calls[unit] >= ENOUGH and self._steps[unit] >= LONG and unit not in self._busy

    def ended(self, unit: FunctionUnit, steps: int, since: int, results: Results, *, data: bool) -> None:
        """A call has ended.

        Args:
            unit: the function.
            steps: the statements that were executed for it.
            since: the number at which it began.
            results: the worlds it has left, with what it returned.
            data: it was given nothing of the domain's.
        """
        if steps < COSTLY:
            return
        self._costly.add(unit)
        if not data:
            return
        if any(obj.stamp > since and self._concerns(obj) for world, _ in results for obj in world.heap.values()):
            self._busy.add(unit)
            return
        self._calls[unit] += 1
        self._steps[unit] += steps

    def _concerns(self, obj: Object | None) -> bool:
        return obj is not None and self._domain.escapes.concerned(obj)
