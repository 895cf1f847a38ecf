"""Containers are filled: items are set, appended and taken over from others."""

from __future__ import annotations

from gradlint.finding import Site
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_layers import PARTS_OF_MODULES
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.collections import MAX_KNOWN, Collections
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Domain, Index
from gradlint.static.python.streams import Streams
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import ItemOf
from gradlint.static.state.provenance import dict_of, key_of
from gradlint.static.state.values import (
    Choice,
    Const,
    External,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import Place


class Filling:
    """Puts values into lists and dicts."""

    _domain: Domain
    _choices: Choices
    _dicts: DictObjects
    _calls: Calls
    _attributes: Attributes
    _collections: Collections
    _streams: Streams

    def set_item(
        self, owner: Value, index: Index, value: Value, w: World, ctx: Context, site: Site, place: Place | None = None
    ) -> None:
        """``owner[index] = value``; ``place`` is the part of an array that the index takes."""
        owner = w.resolve(owner)
        obj = w.get(owner, Object)
        assert owner is not None
        if (updated := dict_of(owner)) is not None:
            given = w.new(Mapping({index: value})) if isinstance(index, Const) else None
            self._attributes.updated(updated, given, w, ctx, site)
        if isinstance(index, Const) and (holder := dict_of(owner, *PARTS_OF_MODULES)) is not None:
            self._attributes.set(holder, str(index.value), value, w, ctx, site)
        if self._domain.items.set(owner, obj, index, value, w, ctx, site, place=place):
            return
        if isinstance(obj, Sequence) and isinstance(owner, Ref):
            new = w.write(owner.id)
            new.held = frozenset()
            if isinstance(index, slice):
                self._set_slice(owner, index, value, w, ctx, site)
            elif (
                isinstance(index, Const)
                and isinstance(index.value, int)
                and -len(new.items) <= index.value < len(new.items)
            ):
                new.items[index.value] = value
                new.sites[index.value] = site
            else:
                new.tail = value if new.tail is None else self._choices.either(new.tail, value, w)
                new.tail_site = new.tail_site or site
        elif isinstance(obj, Mapping) and isinstance(owner, Ref):
            told_apart = isinstance(index, (Const, External)) or (isinstance(index, Unknown) and not ctx.peeled)
            self.put(owner, index if told_apart and not isinstance(index, slice) else None, value, w)
        elif (held := self._dicts.held(owner, w, "__setitem__")) is not None:
            self.set_item(held, index, value, w, ctx, site)
        elif (own := self._dicts.own(owner, w, "__setitem__")) is not None and isinstance(index, (Const, Unknown, Ref)):
            joined(self._calls.function(own, Arguments([index, value]), w, ctx, site, owner), w)
        elif isinstance(obj, Instance) and isinstance(owner, Ref):
            self._domain.items.set_in(owner, obj, index, value, w, site)
        elif isinstance(owner, Unknown) and isinstance(index, (Const, Unknown)):
            w.remember(ItemOf(owner.key, key_of(index)), value)

    def _set_slice(self, owner: Ref, index: slice, value: Value, w: World, ctx: Context, site: Site) -> None:
        """``owner[:] = value`` for a list: all that it held is gone; of another slice, some may be."""
        if index == slice(None):
            w.write(owner.id).empty()
            self.extend(owner, value, w, ctx, site)
        else:
            self.append(
                owner, self._collections.iterate(value, w, ctx, site).element(w, ctx), w, ctx, site, certain=False
            )

    def put(self, ref: Ref, key: Value | None, value: Value, w: World) -> None:
        """Put a value into a dict; if the key is not known, or there are very many, to what stands for the others."""
        new: Mapping = w.write(ref.id)
        new.views = frozenset()
        if key is not None and (len(new.items) < MAX_KNOWN or key in new.items):
            new.items[key] = value
        else:
            self._streams.lost(value, w)
            new.tail = value if new.tail is None else self._choices.either(new.tail, value, w)

    def update(self, ref: Ref, other: Value, w: World, ctx: Context) -> None:
        """``ref.update(other)`` for a dict."""
        source = w.get(self._collections.dict_in(w.resolve(other), w), Mapping)
        new = w.write(ref.id)
        if source is None:
            new.tail = new_unknown("item") if new.tail is None else new.tail
            return
        for key, value in source.items.items():
            self.put(ref, key, value, w)
        if source.tail is not None:
            self.put(ref, None, source.tail, w)

    def append(
        self, ref: Value, value: Value, w: World, ctx: Context, site: Site, certain: bool = True, kept: bool = True
    ) -> None:
        """Add an item; if a loop that may run any number of times does so, to what comes after the known ones.

        What a generator yields is not kept by that.
        """
        if not isinstance(ref, Ref):
            return
        if kept:
            self._domain.items.collected(ref, value, w, ctx, site)
        new: Sequence = w.write(ref.id)
        new.repeats = new.repeats or w.age(ref) < ctx.iteration
        certain = certain and ctx.peeled < w.age(ref) and ref.id not in self._collections.standing
        if certain and new.tail is None and len(new.items) < MAX_KNOWN and not new.loses:
            new.items.append(value)
            new.sites.append(site)
            return
        self._streams.lost(value, w)
        new.own |= self._domain.items.made_since(value, ctx.iteration, w)
        if new.tail is None or not self.is_another(new.tail, value, w):
            new.tail = value if new.tail is None else self._choices.either(new.tail, value, w, repeated=True)
        new.end_with(value if certain else None)
        new.tail_site = new.tail_site or site
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is not None and tensor.requires_grad and not new.loses:
            new.held |= tensor.segments - tensor.doubtful

    def is_another(self, tail: Value, value: Value, w: World) -> bool:
        """Whether a value is one more of those that a loop makes at one place.

        One array stands for all; of modules, two do.
        """
        obj = w.get(w.resolve(value), Instance)
        tail = w.resolve(tail)
        if obj is not None and obj.role is roles.ARRAY:
            return self._is_same_array(tail, value, w)
        if obj is None or obj.role is not roles.MODULE or obj.made_at is None or not isinstance(tail, Choice):
            return False
        others = (w.get(w.resolve(other), Instance) for other in tail.alternatives)
        return sum(other is not None and other.made_at == obj.made_at for other in others) > 1

    def _is_same_array(self, one: Value, other: Value, w: World) -> bool:
        """Whether two arrays were made at one place, of their own memory, and nothing tells them apart."""
        a, b = w.get(w.resolve(one), Instance), w.get(w.resolve(other), Instance)
        if a is None or b is None or (a.name, a.role, a.made_at) != (b.name, b.role, b.made_at):
            return False
        return self._domain.items.alike(one, other, w)

    def extend(self, ref: Value, value: Value, w: World, ctx: Context, site: Site) -> None:
        """Add all items of another iterable."""
        items = self._collections.iterate(value, w, ctx, site)
        if items.known is not None:
            for item in items.known:
                self.append(ref, item, w, ctx, site)
        else:
            self.append(ref, items.element(w, ctx), w, ctx, site, certain=False)
