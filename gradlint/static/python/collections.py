"""Python's own containers: lists, tuples, dicts, strings; iteration, unpacking, indexing."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial, reduce
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Domain, Index, Items
from gradlint.static.python.streams import Counting
from gradlint.static.report.witness import Witness
from gradlint.static.state.comparisons import computed
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.joining import MAX_ALTERNATIVES, acts, joined
from gradlint.static.state.origins import ElementOf, ItemOf, Length, New, fresh
from gradlint.static.state.provenance import dict_of, each_optimizer, is_any, key_of, known_by
from gradlint.static.state.values import (
    NONE,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Instance,
    Mapping,
    Namespace,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site

MAX_UNROLLED = 12
MAX_KNOWN = 64  #: items of a list or dict that are told apart, where they are added one by one


class Collections:
    """Knows the containers of the language."""

    _counting: Counting
    _domain: Domain
    _ledgers: Ledgers
    _witness: Witness
    _choices: Choices
    _dicts: DictObjects
    _calls: Calls
    _definitions: Definitions
    _attributes: Attributes

    def __init__(self) -> None:
        self._chosen: Ledger[Hashable, int] = self._ledgers.open()
        """By items and the index of a loop, which of them that is."""
        self.standing: Ledger[int, None] = self._ledgers.open()
        """What a dict made for a key that is not known: one list stands for those of all keys."""

    def dict_in(self, value: Value, w: World, method: str = "keys") -> Value:
        """The dict that stands for a value where it is used as one by this method; what is none stands for itself."""
        return self._attributes.listed(value, w) or self._dicts.held(value, w, method) or value

    # --- iteration

    def iterate(self, value: Value, w: World, ctx: Context, site: Site) -> Items:
        """What iterating over ``value`` gives."""
        value = w.resolve(value)
        value = self.dict_in(value, w, "__iter__")
        obj = w.get(value, Object)
        if isinstance(obj, Sequence) and obj.tail is None and len(obj.items) <= MAX_UNROLLED:
            return Items([w.resolve(item) for item in obj.items], self.never)
        if isinstance(obj, Mapping) and obj.tail is None and 0 < len(obj.items) <= MAX_UNROLLED:
            return Items(list(obj.items), self.never)
        if isinstance(obj, Instance):
            special = self._domain.items.iterate(value, obj, w, ctx, site)
            if special is not None:
                return special
        if isinstance(value, Choice):
            parameters = self._parameters(value, w, ctx, site)
            if parameters is not None:
                return Items([parameters], self.never)
        if isinstance(value, Const) and isinstance(value.value, str) and len(value.value) <= MAX_UNROLLED:
            return Items([Const(letter) for letter in value.value], self.never)
        if isinstance(obj, Sequence):
            self._domain.items.read_out(obj, w, ctx, in_turn=True)
        optimizer = each_optimizer(value, w)
        if optimizer is not None:
            return Items([optimizer], self.never)
        return Items(None, lambda world, here: self.element(value, world, here))

    def leading(self, value: Value, w: World) -> tuple[list[Value], Value]:
        """The objects of the project that a list begins with, and what stands for the rest: any number of others.

        These are asked in turn, as callbacks are: that one of them does something is known though others come after it.
        So are the numbers that a range begins with, where these are told apart.
        """
        row = w.get(w.resolve(value), Sequence)
        if row is None or row.tail is None or not 0 < len(row.items) <= MAX_UNROLLED:
            return [], value
        items = [w.resolve(item) for item in row.items]
        if not all(acts(item, w) or (type(item) is Const and not row.mutable) for item in items):
            return [], value
        rest: Sequence = row.copy()
        rest.items, rest.sites = [], []
        return items, w.new(rest)

    def _parameters(self, choice: Choice, w: World, ctx: Context, site: Site) -> Value | None:
        """What stands for the parameters of one of a few modules; None if that is not what a choice is between."""
        held = [w.get(w.resolve(value), Instance) for value in choice.alternatives]
        if not all(obj is not None and obj.role is roles.PARAMETERS for obj in held):
            return None
        items = [item for value in choice.alternatives for item in self.iterate(value, w, ctx, site).known or ()]
        if len(items) < len(held):
            return None
        return self._domain.items.selection(reduce(partial(self._choices.either, w=w), items), w)

    def never(self, w: World, ctx: Context) -> Value:
        """Stands for the element of what is known item by item."""
        return Unknown(ElementOf(fresh()))

    def element(self, value: Value, w: World, ctx: Context) -> Value:
        """Any one of the values that iterating over ``value`` gives."""
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(obj, Sequence):
            parts = [*obj.items, *([obj.tail] if obj.tail is not None else [])]
            if not parts:
                return Unknown(ElementOf(fresh()))
            if obj.clears and obj.tail is not None:
                self._witness.cleared(obj.clears, "call", w, ctx, ctx.unit.here, certain=False)
            several = list(dict.fromkeys(one for part in parts for one in each_of(w.resolve(part))))
            if self._are_mixed(several, w):
                return self._domain.escapes.any_of(several, w)
            joined = parts[0]
            for part in parts[1:]:
                joined = self._choices.either(joined, part, w)
            if obj.tail is None and isinstance(joined, Ref) and joined not in parts and w.get(joined, Tensor):
                w.write(joined.id).stands_for = tuple(part.id for part in parts if isinstance(part, Ref))
            return self._domain.items.one_of(self.renew(joined, w), obj.own, w)
        if isinstance(obj, Mapping):
            return new_unknown("key")
        known = self._domain.items.element(value, obj, w, ctx) if obj is not None else None
        if known is not None:
            return known
        if isinstance(value, Choice):
            joined = self.element(value.alternatives[0], w, ctx)
            for other in value.alternatives[1:]:
                joined = self._choices.either(joined, self.element(other, w, ctx), w)
            return joined
        hint = ""
        if isinstance(value, Unknown):
            return Unknown(computed(ElementOf(fresh(), value.key)), hint, value.deps)
        return Unknown(ElementOf(fresh()), hint)

    def _are_mixed(self, values: list[Value], w: World) -> bool:
        """Whether objects of several classes are made at several places: what they do depends on which come first.

        Of those that one place makes, as by names in a configuration, any may be the one.
        """
        called = [value.receiver if isinstance(value, Bound) else value for value in values]
        found = [w.get(value, Instance) for value in called if isinstance(value, Ref) and acts(value, w)]
        classes = {obj.cls.unit for obj in found if obj is not None and obj.cls is not None}
        return len(classes) > 1 and len({obj.made_at for obj in found if obj is not None}) > 1

    def renew(self, value: Value, w: World) -> Value:
        """A value like this one, but another one: the next element of an unknown number of them."""
        if isinstance(value, Choice):  # whatever another of them has turned out to be
            return Choice(fresh(), value.alternatives)
        value = w.resolve(value)
        if isinstance(value, Unknown):
            another = self._domain.items.another(value)
            return another or Unknown(computed(ElementOf(fresh(), value.key)), value.hint, value.deps)
        obj = w.get(value, Sequence)
        if obj is not None and not obj.mutable:
            items = [self.renew(item, w) for item in obj.items]
            return w.new(Sequence(items, list(obj.sites), obj.tail, obj.tail_site, False, obj.fields))
        return value

    def unpack(self, value: Value, count: int, starred: list[bool], w: World, ctx: Context) -> list[Value]:
        """The values for ``count`` targets."""
        value = self._choices.used(w.resolve(value), w)
        items = self.iterate(value, w, ctx, ctx.unit.here).known
        if items is None:
            obj = w.get(value, Sequence)
            items = [w.resolve(item) for item in obj.items] if obj is not None else None
            if items is not None and len(items) < count:
                items = None
        if items is not None and True not in starred and len(items) >= count:
            return items[:count]
        if items is not None and starred.count(True) == 1 and len(items) >= count - 1:
            at = starred.index(True)
            after = count - at - 1
            end = len(items) - after
            middle = items[at:end]
            return [*items[:at], w.new(Sequence(middle, [None] * len(middle))), *items[end:]]
        if isinstance(value, Choice):
            columns = [self.unpack(v, count, starred, w, ctx) for v in value.alternatives]
            out = columns[0]
            for other in columns[1:]:
                out = [self._choices.either(x, y, w) for x, y in zip(out, other, strict=False)]
            return out
        if isinstance(value, Unknown):
            return [w.resolve(Unknown(computed(ItemOf(value.key, Const(n))), "", value.deps)) for n in range(count)]
        return [self.element(value, w, ctx) for _ in range(count)]

    # --- indexing

    def get_item(self, owner: Value, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``owner[index]``."""
        owner = self._choices.used(w.resolve(owner), w)
        obj = w.get(owner, Object)
        if isinstance(obj, Sequence):
            return self._sequence_item(obj, index, w, ctx)
        if isinstance(obj, Mapping):
            made = self._made(owner, obj, index, w, ctx, site)
            return made if made is not None else self._mapping_item(obj, index, w, ctx)
        if isinstance(obj, Instance) and (held := self._dicts.held(owner, w, "__getitem__")) is not None:
            missed = self._missed(owner, held, index, w, ctx, site)
            return missed if missed is not None else self.get_item(held, index, w, ctx, site)
        known = self._domain.items.get(owner, obj, index, w, ctx, site) if obj is not None else None
        if known is not None:
            return known
        if isinstance(owner, Choice):
            value = self.get_item(owner.alternatives[0], index, w, ctx, site)
            for other in owner.alternatives[1:]:
                value = self._choices.either(value, self.get_item(other, index, w, ctx, site), w)
            return value
        if isinstance(owner, Const) and isinstance(owner.value, (str, bytes)):
            return new_unknown("character")
        if owner == NONE:
            w.raised = True
            return new_unknown("nothing")
        if isinstance(owner, External):
            return self._member(owner, index, w, ctx, site)
        named = isinstance(owner, Namespace) or (
            isinstance(owner, Class) and self._definitions.role(owner) is roles.ENUM
        )
        if named and isinstance(index, Const) and isinstance(index.value, str):
            return self._attributes.get(owner, index.value, w, ctx, site)
        if isinstance(index, Const) and isinstance(index.value, str):
            holder = dict_of(owner, "__dict__", *self._domain.names.parts)
            if holder is not None:
                return self._attributes.get(holder, index.value, w, ctx, site)
        if isinstance(owner, Unknown) and isinstance(index, (Const, Unknown)):
            place = ItemOf(owner.key, key_of(index))
            if (stored := w.stored(place)) is not None:
                return stored
            item = Unknown(computed(place), "", owner.deps)
            name = index.value if isinstance(index, Const) and isinstance(index.value, str) else ""
            return known_by(known_by(item, name), owner.hint)
        if isinstance(owner, Unknown):
            return Unknown(computed(ItemOf(owner.key, New("slice", fresh()))), "", owner.deps)
        return new_unknown("item")

    def _member(self, owner: External, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """A subscripted type, which is the type; or ``namespace.__dict__[name]``, what bears the name."""
        if self._domain.names.holds_strings(owner.name):
            return Unknown(ItemOf(owner.name, key_of(index) if isinstance(index, (Const, Unknown)) else fresh()))
        namespace, _, last = owner.name.rpartition(".")
        if last != "__dict__":
            return owner
        if isinstance(index, Const) and isinstance(index.value, str):
            return self._attributes.get(External(namespace), index.value, w, ctx, site)
        some = self._domain.names.any_of(namespace)
        return External(some) if some else new_unknown("member")

    def _sequence_item(self, obj: Sequence, index: Index, w: World, ctx: Context) -> Value:
        if index is None:
            return self._some(obj, w)
        if isinstance(index, slice):
            if obj.tail is None:
                try:
                    items, sites = obj.items[index], obj.sites[index]
                except (TypeError, ValueError):
                    return new_unknown("slice")
                return w.new(Sequence(items, sites, None, None, obj.mutable))
            some = self._domain.items.selection(obj.tail, w)
            return w.new(Sequence(list(obj.items), list(obj.sites), some, obj.tail_site, obj.mutable, own=obj.own))
        if isinstance(index, Const) and isinstance(index.value, int) and obj.tail is None:
            if -len(obj.items) <= index.value < len(obj.items):
                return w.resolve(obj.items[index.value])
            return new_unknown("item")
        if index == Const(-1) and obj.ending is not None:
            return w.resolve(obj.ending)
        parts = [*obj.items, *([obj.tail] if obj.tail is not None else [])]
        if not parts:
            return new_unknown("item")
        self._domain.items.read_out(obj, w, ctx)
        return self._at(index, parts, w)

    def _some(self, obj: Sequence, w: World) -> Value:
        """A slice of which the bounds are not known: any number of the items."""
        parts = [*obj.items, *([obj.tail] if obj.tail is not None else [])]
        tail = self._one_of(parts, w) if parts else None
        site = next(iter(obj.sites), obj.tail_site)
        return w.new(Sequence([], [], tail, site, obj.mutable, own=obj.own))

    def _at(self, index: Index, parts: list[Value], w: World) -> Value:
        """An item at a place that is not known; a loop that counts the places comes to another one each time."""
        value = self._one_of(parts, w)
        some = parts[0] if len(parts) == 1 else value
        if type(some) is not Choice or type(index) is not Unknown or not self._counting.counts(index):
            return value
        if any(w.get(one, Instance) is None for one in some.alternatives):
            return value
        place = tuple(parts), index.key
        if place not in self._chosen:
            self._chosen[place] = fresh()
        self._counting.taken(index, some, w, apart=len(parts) > 1)
        return w.resolve(Choice(self._chosen[place], some.alternatives))

    def _one_of(self, parts: list[Value], w: World) -> Value:
        """An item at a place that is not known; of a few lists it is one itself, which may yet grow."""
        lists = [w.get(part, Sequence) for part in parts]
        if 1 < len(parts) <= MAX_ALTERNATIVES and all(obj is not None and obj.mutable for obj in lists):
            return Choice(fresh(), tuple(parts))
        joined = parts[0]
        for part in parts[1:]:
            joined = self._choices.either(joined, part, w)
        return self._domain.items.selection(joined, w)

    def _made(self, owner: Value, obj: Mapping, index: Index, w: World, ctx: Context, site: Site) -> Value | None:
        """What a ``defaultdict`` makes for a key that is not there; one value stands for all unknown keys."""
        if obj.factory is None or obj.tail is not None or not isinstance(owner, Ref):
            return None
        if not isinstance(index, (Const, Unknown)) or index in obj.items or (isinstance(index, Unknown) and obj.items):
            return None
        made = joined(self._calls.call(obj.factory, Arguments(), w, ctx, site), w)
        new: Mapping = w.write(owner.id)
        if isinstance(index, Const):
            new.items[index] = made
        else:
            new.tail = made
            if isinstance(made, Ref):
                self.standing[made.id] = None
        return made

    def _missed(self, owner: Value, held: Ref, index: Index, w: World, ctx: Context, site: Site) -> Value | None:
        """What ``__missing__`` of a class derived from dict gives for a key that is not there."""
        items, missing = w.get(held, Mapping), self._dicts.own(owner, w, "__missing__")
        if items is None or missing is None or items.tail is not None or not isinstance(index, Const):
            return None
        if index in items.items or not all(isinstance(key, Const) for key in items.items):
            return None
        return joined(self._calls.function(missing, Arguments([index]), w, ctx, site, owner), w)

    def _mapping_item(self, obj: Mapping, index: Index, w: World, ctx: Context) -> Value:
        if isinstance(index, (Const, External)) and index in obj.items:
            return w.resolve(obj.items[index])
        if isinstance(index, Unknown) and index in obj.items:
            return w.resolve(obj.items[index])
        named = isinstance(index, Const)
        parts = [v for k, v in obj.items.items() if not named or is_any(k, "name")]
        parts += [obj.tail] if obj.tail is not None else []
        if not parts:
            return new_unknown("item")
        if named and len(parts) == 1:
            return self._domain.items.selection(parts[0], w)
        self._domain.items.read_out(obj, w, ctx)
        value = self._at(index, parts, w)
        if type(index) is not Unknown or obj.tail is not None:
            return value
        return self._choices.by_key(value, obj.items, index, w)

    # --- lists

    def operate(self, symbol: str, left: Value, right: Value, w: World, ctx: Context) -> Value:
        """Operators on lists, tuples and instances."""
        known = self._domain.operators.combined(symbol, left, right, w)
        if known is not None:
            return known
        a, b = w.get(left, Sequence), w.get(right, Sequence)
        if symbol == "+" and a is not None and b is not None:
            new = Sequence([*a.items], [*a.sites], a.tail, a.tail_site, a.mutable)
            ref = w.new(new)
            if new.tail is None:
                new.items += b.items
                new.sites += b.sites
                new.tail, new.tail_site = b.tail, b.tail_site
            else:
                for value in [*b.items, *([b.tail] if b.tail else [])]:
                    new.tail = self._choices.either(new.tail, value, w)
            new.end_with(b.ending if b.tail is not None else b.items[-1] if b.items else a.ending)
            return ref
        sequence = a or b
        count = right if a is not None else left
        if symbol == "*" and sequence is not None:
            if isinstance(count, Const) and isinstance(count.value, int) and len(sequence.items) * count.value <= 32:
                items = sequence.items * count.value
                return w.new(Sequence(items, [None] * len(items), sequence.tail, None, sequence.mutable))
            tail = self.element(left if a is not None else right, w, ctx)
            return w.new(Sequence([], [], tail, None, sequence.mutable))
        return new_unknown("operate")

    # --- questions

    def contains(self, container: Value, item: Value, w: World) -> bool | None:
        """``item in container``, when it is known."""
        container = self._dicts.held(container, w, "__contains__") or container
        obj = w.get(container, Object)
        if isinstance(container, Choice):
            answers = {self.contains(each, item, w) for each in container.alternatives}
            return answers.pop() if len(answers) == 1 else None
        if not isinstance(item, (Const, External)):
            return None
        if isinstance(container, Const) and isinstance(container.value, str) and isinstance(item, Const):
            return isinstance(item.value, str) and item.value in container.value
        if isinstance(obj, Sequence):
            if item in obj.items:
                return True
            closed = obj.tail is None and all(isinstance(v, (Const, External)) for v in obj.items)
            return False if closed else None
        if isinstance(obj, Mapping):
            if item in obj.items:
                return True
            closed = obj.tail is None and all(isinstance(v, (Const, External)) for v in obj.items)
            return False if closed else None
        return None

    def truth(self, value: Ref, w: World) -> bool | None:
        """Whether an object is true, when it is known."""
        obj = w.find(value.id)
        if isinstance(obj, (Sequence, Mapping)):
            if obj.items or (isinstance(obj, Sequence) and obj.ending is not None):
                return True
            return False if obj.tail is None else None
        if isinstance(obj, Tensor):
            return None
        if isinstance(obj, Instance):
            return True if obj.role.is_true else None
        return None

    def length(self, value: Value, w: World) -> Value:
        """``len(value)``."""
        value = self._dicts.held(value, w, "__len__") or value
        obj = w.get(value, Object)
        if isinstance(obj, (Sequence, Mapping)) and obj.tail is None:
            return Const(len(obj.items))
        if isinstance(value, Const) and isinstance(value.value, (str, bytes)):
            return Const(len(value.value))
        return Unknown(computed(Length(value.key if isinstance(value, Unknown) else value)))
