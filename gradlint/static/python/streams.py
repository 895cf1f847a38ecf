"""Iterators: what they draw from comes to its end once, and then gives nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.static.knowledge import roles
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context
from gradlint.static.state.values import Const, Instance, Mapping, Object, Ref, Sequence, Stream, Tensor, Value
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
