"""What iterations are given: iterators that come to their end once, and which of many objects one takes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.static.knowledge import roles
from gradlint.static.report.witness import Witness
from gradlint.static.state.comparisons import computed
from gradlint.static.state.context import Context
from gradlint.static.state.joining import join_groups, parameters_apart, parameters_of_many
from gradlint.static.state.origins import ElementOf, New
from gradlint.static.state.provenance import is_any
from gradlint.static.state.values import (
    Choice,
    Const,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Stream,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site


class Streams:
    """Knows which values are iterators over parameters, and tells of those that are used up."""

    _witness: Witness

    def opened(self, value: Value, w: World, sources: tuple[Value, ...] = (), site: Site | None = None) -> Value:
        """A value is an iterator over parameters, or takes its items from one.

        Args:
            value: what stands for the iterator, which was made just now.
            w: the world it was made in.
            sources: the iterators that it takes its items from, if there are any.
            site: the expression that makes it.
        """
        if not isinstance(value, Ref) or not self._witness.listened(events.ParametersDrawn):
            return value
        inner = frozenset[int]().union(*(self._streams(source, w) for source in sources))
        if inner or self._gives(value, w):
            w.write(value.id).streams = inner | {w.new(Stream(opened_at=site)).id}
        return value

    def over(self, value: Value, sources: tuple[Value, ...], w: World) -> Value:
        """A value is an iterator if one of those is that it takes its items from."""
        return self.opened(value, w, sources) if any(self._streams(each, w) for each in sources) else value

    def asked(self, value: Value, by: str, w: World, ctx: Context, site: Site, number: int = 0) -> None:
        """All items of a value are about to be used, one of several with a number."""
        value = w.resolve(value)
        if not self._witness.listened(events.ParametersDrawn):
            return
        streams = [each for key in sorted(self._streams(value, w)) if isinstance(each := w.find(key), Stream)]
        if not streams and not self._gives(value, w):
            return
        used_up_at = next((each.used_up_at for each in streams if each.used_up_at is not None), None)
        event = events.ParametersDrawn(
            site=site,
            by=by,
            used_up=known(used_up_at is not None),
            used_up_at=used_up_at,
            opened_at=streams[-1].opened_at if streams else None,  # its own is the youngest
        )
        self._witness.send(event, w, ctx, alternative=number or None)

    def drained(self, value: Value, w: World, site: Site) -> None:
        """All items of a value were used."""
        for key in self._streams(value, w):
            stream = w.find(key)
            if isinstance(stream, Stream) and stream.used_up_at is None:
                w.write(key).used_up_at = site

    def used(self, value: Value, by: str, w: World, ctx: Context, site: Site, grouped_by: str = "") -> None:
        """Something goes through all items of a value at once, or of those that dicts in it have under a key."""
        groups = w.get(w.resolve(value), Sequence) if grouped_by else None
        dicts = [w.get(w.resolve(part), Mapping) for part in groups.items] if groups is not None else []
        inner = [each.items.get(Const(grouped_by)) for each in dicts if each is not None]
        for number, one in enumerate([value, *(each for each in inner if each is not None)]):
            self.asked(one, by.rpartition(".")[2], w, ctx, site, number)
            self.drained(one, w, site)

    def lost(self, value: Value, w: World) -> None:
        """A value is one of any number of others like it: what happens to one happens to none of the others."""
        value = w.resolve(value)
        if isinstance(value, Ref) and self._streams(value, w):
            w.write(value.id).streams = frozenset()

    def _streams(self, value: Value, w: World) -> frozenset[int]:
        obj = w.get(w.resolve(value), Object)
        return obj.streams if isinstance(obj, (Instance, Sequence)) else frozenset()

    def _gives(self, value: Value, w: World) -> bool:
        """Whether what a value gives one by one is parameters, or stands beside parameters."""
        obj = w.get(value, Object)
        if isinstance(obj, Instance):
            return obj.role is roles.PARAMETERS
        return isinstance(obj, Sequence) and any(self._is_parameter(part, w) for part in obj.parts())

    def _is_parameter(self, value: Value, w: World, depth: int = 2) -> bool:
        obj = w.get(w.resolve(value), Object)
        if isinstance(obj, Tensor):
            return obj.is_parameter is True
        within = obj.items if isinstance(obj, Sequence) and depth and not obj.mutable else []
        return any(self._is_parameter(part, w, depth - 1) for part in within)


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
