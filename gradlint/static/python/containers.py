"""Python's own containers: their methods, how they are filled, and comprehensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from gradlint.finding import Site
from gradlint.static.knowledge import roles
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.budget import Budget
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.collections import MAX_KNOWN, Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Domain, Index
from gradlint.static.python.execution import Execution
from gradlint.static.python.reflection import Records
from gradlint.static.python.streams import Streams
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import ItemOf, Text, Truth, fresh
from gradlint.static.state.provenance import dict_of, key_of
from gradlint.static.state.values import (
    NONE,
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
from gradlint.static.text.nodes import Place, formatted

if TYPE_CHECKING:
    from gradlint.finding import Site


_KEEPING = frozenset(["append", "add", "appendleft", "extend", "insert", "copy", "__iter__", "count", "index"])
"""Methods of lists that take none of the items away."""
_ENDING_ALIKE = frozenset(["copy", "__iter__", "count", "index"])
"""Those that leave the last item where it is."""
_STRING_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "replace",
        "title",
        "capitalize",
        "find",
        "count",
        "isdigit",
        "removeprefix",
    ]
)


class Containers:
    """Calls methods of lists, dicts and strings."""

    _domain: Domain
    _choices: Choices
    _dicts: DictObjects
    _collections: Collections
    _records: Records
    _filling: Filling

    def of_list(
        self, receiver: Ref, obj: Sequence, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of a list."""
        collections = self._collections
        if obj.fields and (record := self._records.tuple_method(obj, name, args, w)) is not None:
            return record
        if name not in _KEEPING and obj.held:
            w.write(receiver.id).held = frozenset()
        if name in ("append", "add", "appendleft"):
            value = args.get(0) or NONE
            self._filling.append(receiver, value, w, ctx, site, certain=name != "appendleft")
            return NONE
        if name == "extend":
            self._filling.extend(receiver, args.get(0) or NONE, w, ctx, site)
            return NONE
        if name == "insert":
            self._filling.append(receiver, args.get(1) or NONE, w, ctx, site, certain=False)
            return NONE
        if name == "clear":
            w.write(receiver.id).empty()
            return NONE
        if name not in _ENDING_ALIKE and obj.closed_by is not None:
            w.write(receiver.id).end_with(None)
        if name in ("pop", "popleft"):
            if obj.tail is None and obj.items and not args.positional:
                new = w.write(receiver.id)
                at = 0 if name == "popleft" else len(new.items) - 1
                new.sites.pop(at)
                return w.resolve(new.items.pop(at))
            return collections.element(receiver, w, ctx)
        if name in ("copy", "__iter__"):
            return w.new(Sequence(list(obj.items), list(obj.sites), obj.tail, obj.tail_site, own=obj.own))
        if name in ("sort", "reverse", "remove"):
            return NONE
        return new_unknown("list method")

    def remove(self, receiver: Ref, index: Index, w: World) -> None:
        """``del receiver[index]``."""
        obj = w.find(receiver.id)
        if isinstance(obj, Sequence):
            new: Sequence = w.write(receiver.id)
            new.held = frozenset()
            position = index.value if isinstance(index, Const) else index
            if obj.tail is None and isinstance(position, int) and -len(obj.items) <= position < len(obj.items):
                del new.items[position], new.sites[position]
            elif isinstance(index, slice) or len(obj.items) == 1:
                new.empty()
            new.end_with(None)
        elif isinstance(obj, Mapping) and isinstance(index, (Const, Unknown)):
            w.write(receiver.id).items.pop(index, None)
        elif (held := self._dicts.held(receiver, w, "__delitem__")) is not None:
            self.remove(held, index, w)
        elif isinstance(obj, Instance):
            self._domain.items.remove(receiver, index, w)

    def of_dict(
        self, receiver: Ref, obj: Mapping, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of a dict."""
        if name == "items":
            pairs: list[Value] = [
                w.new(Sequence([k, v], [None, None], None, None, False)) for k, v in obj.items.items()
            ]
            tail: Value | None = None
            if obj.tail is not None:
                key = new_unknown("key")
                tail = w.new(Sequence([key, obj.tail], [None, None], None, None, False))
            return w.new(Sequence(pairs, [None] * len(pairs), tail))
        if name == "values":
            return w.new(Sequence(list(obj.items.values()), [None] * len(obj.items), obj.tail))
        if name == "keys":
            tail = new_unknown("key") if obj.tail is not None else None
            return w.new(Sequence(list(obj.items), [None] * len(obj.items), tail))
        if name in ("get", "pop", "setdefault", "__getitem__"):
            return self._dict_get(receiver, obj, name, args, w, ctx, site)
        if name == "__setitem__":
            index = w.resolve(args.get(0) or NONE)
            self._filling.set_item(receiver, index, w.resolve(args.get(1) or NONE), w, ctx, site)
            return NONE
        if name == "update":
            if args.positional:
                self._filling.update(receiver, args.positional[0], w, ctx)
            for key_name, value in args.keywords.items():
                self._filling.put(receiver, Const(key_name), value, w)
            return NONE
        if name == "copy":
            copied: Mapping = obj.copy()
            copied.factory = None
            return w.new(copied)
        if name == "clear":
            new = w.write(receiver.id)
            new.items, new.tail = {}, None
        return new_unknown("dict method")

    def _dict_get(
        self, receiver: Ref, obj: Mapping, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        key = w.resolve(args.get(0) or NONE)
        default = w.resolve(args.get(1, "default") or NONE)
        if isinstance(key, Const):
            if key in obj.items:
                value = obj.items[key]
                if name == "pop":
                    w.write(receiver.id).items.pop(key)
                return w.resolve(value)
            if name == "setdefault":
                value = default if obj.tail is None else self._choices.either(obj.tail, default, w)
                self._filling.put(receiver, key, value, w)
                return value
            if obj.tail is None and all(type(each) is Const for each in obj.items):
                return default
        if name == "setdefault" and not obj.items and obj.tail is None:
            w.write(receiver.id).tail = default  # one value stands for all keys that are not known
            return default
        value = self._collections.get_item(receiver, key if isinstance(key, (Const, Unknown)) else None, w, ctx, site)
        if name == "__getitem__" or default == NONE:
            return value
        value = self._choices.either(value, default, w)
        return self._choices.by_key(value, obj.items, key, w, default) if obj.tail is None else value

    def _constants(self, value: Value, w: World) -> Value:
        """A tuple of constants as a constant."""
        row = w.get(value, Sequence)
        items = [w.resolve(item) for item in row.items] if row is not None and not row.mutable else []
        whole = row is not None and row.tail is None and all(isinstance(item, Const) for item in items)
        return Const(tuple(item.value for item in items if isinstance(item, Const))) if items and whole else value

    def of_string(self, receiver: Const, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a method of a string."""
        values = [w.resolve(a) for a in args.positional]
        if name in ("startswith", "endswith"):
            values = [self._constants(value, w) for value in values]
        if isinstance(receiver.value, str) and all(isinstance(v, Const) for v in values) and not args.keywords:
            if name in _STRING_METHODS:
                try:
                    return Const(getattr(receiver.value, name)(*(v.value for v in values if isinstance(v, Const))))
                except (TypeError, ValueError):
                    return Unknown(Text(fresh()))
            if name == "split" and len(values) <= 1:
                parts: list[Value] = [Const(p) for p in receiver.value.split(*(v.value for v in values))]  # type: ignore[union-attr]
                return w.new(Sequence(parts, [None] * len(parts)))
        if name == "format" and isinstance(receiver.value, str):
            named = {key: w.resolve(value) for key, value in args.keywords.items()}
            if not args.open and all(isinstance(v, Const) for v in (*values, *named.values())):
                given = [v.value for v in values if isinstance(v, Const)]
                by_name = {key: v.value for key, v in named.items() if isinstance(v, Const)}
                text = formatted(receiver.value, given, by_name)
                if text is not None:
                    return Const(text)
            return Unknown(Text(fresh(), receiver.value.partition("{")[0]))
        return Unknown(Text(fresh()))


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
        if isinstance(index, Const) and (holder := dict_of(owner, *self._domain.names.parts)) is not None:
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
                and (0 if new.tail is not None else -len(new.items)) <= index.value < len(new.items)
            ):
                new.items[index.value] = value
                new.sites[index.value] = site
            else:
                new.tail = value if new.tail is None else self._choices.either(new.tail, value, w)
                new.tail_site = new.tail_site or site
                new.end_with(value if index == Const(-1) else None)
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
            w.store(ItemOf(owner.key, key_of(index)), value)

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
        w.assumed.drop(Truth(ref))  # it may have been empty
        new: Sequence = w.write(ref.id)
        new.repeats = new.repeats or w.age(ref) < ctx.iteration
        counted = certain and ctx.peeled < w.age(ref) and ref.id not in self._collections.standing
        if counted and new.tail is None and len(new.items) < MAX_KNOWN and not new.loses:
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


MAX_CLAUSES = 3  #: of comprehensions in one another, whose second iterations are executed, too


class Comprehensions:
    """Executes the clauses of comprehensions."""

    _budget: Budget
    _domain: Domain
    _execution: Execution
    _collections: Collections
    _conditions: Conditions
    _filling: Filling
    _streams: Streams

    def __init__(self) -> None:
        self._clauses = 0  #: in one another

    def evaluate(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp, w: World, ctx: Context
    ) -> Value:
        """The list or dict that a comprehension builds; that of a set or generator is taken for a list."""
        is_dict = isinstance(node, cst.DictComp)
        ref = w.new(Mapping() if is_dict else Sequence(mutable=True, repeats=True))
        self._generate(node, node.for_in, ref, w, ctx, exact=True)
        return ref

    def _generate(self, node: Any, clause: cst.CompFor, ref: Ref, w: World, ctx: Context, exact: bool) -> None:
        self._clauses += 1
        try:
            self._run_clause(node, clause, ref, w, ctx, exact)
        finally:
            self._clauses -= 1

    def _run_clause(self, node: Any, clause: cst.CompFor, ref: Ref, w: World, ctx: Context, exact: bool) -> None:
        iterable = self._execution.evaluate(clause.iter, w, ctx)
        items = self._collections.iterate(iterable, w, ctx, ctx.site(clause.iter))
        lazy = isinstance(node, cst.GeneratorExp)
        if not lazy:
            self._streams.asked(iterable, "this comprehension", w, ctx, ctx.site(clause.iter))
        rounds: list[tuple[Value | None, Context]]
        if items.known is not None:
            rounds = [(value, ctx.at(id(clause), n)) for n, value in enumerate(items.known)]
        else:
            exact = False
            often = 2 if self._clauses <= MAX_CLAUSES else 1
            rounds = [(None, ctx.at(id(clause), n, peeled=True)) for n in range(often)]
        for value, here in rounds:
            if self._clauses > MAX_CLAUSES:  # each multiplies the others
                self._budget.tick()
            if value is None:
                value = items.element(w, here)
            self._execution.bind(clause.target, value, w, here, clause.target)
            certain = exact and not self._domain.items.several(value, w)
            skipped = False
            for condition in clause.ifs:
                test = w.resolve(self._execution.evaluate(condition.test, w, here))
                truth, _key, _flipped = self._conditions.truth(test, w)
                skipped = skipped or truth is False
                if truth is None:
                    self._conditions.refine_parameter(condition.test, True, w, here)
                certain = certain and truth is True
            if skipped:
                continue
            if clause.inner_for_in is not None:
                self._generate(node, clause.inner_for_in, ref, w, here, certain)
                continue
            self._collect(node, ref, w, here, certain)
        if not lazy:
            self._streams.drained(iterable, w, ctx.site(clause.iter))
        elif clause is node.for_in:
            self._streams.opened(ref, w, (iterable,))

    def _collect(self, node: Any, ref: Ref, w: World, ctx: Context, certain: bool) -> None:
        within = ctx._replace(iteration=fresh())  # what is called there keeps things as it does in a loop
        if isinstance(node, cst.DictComp):
            key = w.resolve(self._execution.evaluate(node.key, w, within))
            value = self._execution.evaluate(node.value, w, within)
            self._filling.set_item(ref, key, value, w, ctx, ctx.site(node.value))
            return
        value = self._execution.evaluate(node.elt, w, within)
        self._filling.append(ref, value, w, ctx, ctx.site(node.elt), certain)
