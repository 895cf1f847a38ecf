"""What the iterations of a loop are given, and which of many objects each of them takes by that."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from gradlint.static.state.computed import computed
from gradlint.static.state.joining import join_groups, parameters_apart, parameters_of_many
from gradlint.static.state.origins import ElementOf, New
from gradlint.static.state.provenance import is_any
from gradlint.static.state.values import Choice, Const, Group, Sequence, Unknown, Value
from gradlint.static.state.world import World


class Counting:
    """Knows the values that loops have given their iterations."""

    def __init__(self) -> None:
        self._counting: dict[Hashable, tuple[dict[int, Group], int]] = {}
        """By what a loop is given in an iteration: the parameters that it has not touched yet, and its number."""

    def trim(self) -> None:
        """An entry point is done, which may have ended within loops."""
        self._counting.clear()

    def left(self, untouched: dict[int, Group]) -> None:
        """A loop was left, whose first iteration has met parameters like this."""
        self._counting = {key: run for key, run in self._counting.items() if run[0] is not untouched}

    def counts(self, index: Unknown) -> bool:
        """Whether a loop that runs was given a value in this iteration."""
        return index.key in self._counting

    def taken(self, index: Unknown, item: Choice, w: World, *, apart: bool) -> None:
        """An iteration takes one of many modules by what it was given, another one each time.

        Args:
            index: what the iteration was given.
            item: one of them.
            w: the world.
            apart: whether they are known to be different ones.
        """
        untouched, number = self._counting[index.key]
        if ("taken", index.key, item.alternatives) not in w.bound:
            w.bound["taken", index.key, item.alternatives] = Const(True)
            self.another(parameters_apart(item, w) if apart else parameters_of_many(item, w), untouched, w, number)

    def given(self, element: Value, untouched: dict[int, Group], w: World, number: int) -> None:
        """An iteration is given an item: what it takes by that is none of what earlier ones took."""
        self.another(parameters_of_many(element, w), untouched, w, number)
        row = w.get(element, Sequence)
        for value in row.items if row is not None and not row.mutable else [element]:
            if isinstance(value, Unknown):
                self._counting[value.key] = untouched, number

    def another(self, parameters: Iterable[int], untouched: dict[int, Group], w: World, number: int) -> None:
        """An iteration comes to another one of many modules: nothing that an earlier one did has happened to it.

        Args:
            parameters: those of all of them.
            untouched: the same as the first iteration has met them.
            w: the world.
            number: the number of the iteration.
        """
        for key in parameters:
            group, known = w.find(key), untouched.get(key)
            if not isinstance(group, Group):
                continue
            if number == 0:
                untouched[key] = group if known is None else join_groups(known, group)
            elif known is not None and group is not known:
                w.new(known.copy(), key=key)


def counted(value: Value, number: int, is_later: bool, w: World) -> Value:
    """What a loop is given in an iteration, of that ``number``: what it counts from zero is the same on all ways.

    After its first iteration, it is not zero.
    """
    value = w.resolve(value)
    if isinstance(value, Unknown):
        if not is_any(value, "counted"):
            return value
        key = New("counted on", number) if is_later else computed(ElementOf(number, New("counted", number)))
        return Unknown(key, value.hint)
    obj = w.get(value, Sequence)
    if obj is None or obj.mutable or not obj.items:
        return value
    items = [counted(item, number, is_later, w) for item in obj.items]
    return w.new(Sequence(items, list(obj.sites), obj.tail, obj.tail_site, False, obj.fields))
