"""Methods of Python's own containers and strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.python.choices import Choices
from gradlint.static.python.collections import Collections
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Domain
from gradlint.static.python.filling import Filling
from gradlint.static.python.records import Records
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Text, fresh
from gradlint.static.state.values import NONE, Const, Instance, Mapping, Ref, Sequence, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.text.nodes import formatted

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.python.domain import Index

_KEEPING = frozenset(["append", "add", "appendleft", "extend", "insert", "copy", "__iter__", "count", "index"])
"""Methods of lists that take none of the items away."""
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
        if name in ("pop", "remove", "reverse", "sort", "appendleft") and obj.closed_by is not None:
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
            if obj.tail is None:
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
