"""Records: objects of data classes and named tuples, copied with other values or turned into dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.state.cloning import clone
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.values import NONE, Const, Instance, Mapping, Ref, Sequence, Value
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site


class Records:
    """Knows what the functions and methods for records return; nothing where it is not known what they are given."""

    _definitions: Definitions
    _calls: Calls

    def replaced(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """``dataclasses.replace(record, **changes)``: a new one is built of what the other holds now."""
        obj = w.get(w.resolve(args.get(0, "obj") or NONE), Instance)
        if obj is None or obj.cls is None or not self._definitions.is_record(obj):
            return None
        fields = self._definitions.annotated_fields(obj.cls)
        held = {} if args.open else {name: obj.attrs[name] for name in fields if name in obj.attrs}
        given = Arguments([], {**held, **args.keywords}, args.open)
        return joined(self._calls.instantiate(obj.cls, given, w, ctx, site), w)

    def as_dict(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """``dataclasses.asdict(record)``: copies of what it holds, and dicts in the place of records."""
        obj = w.get(w.resolve(args.get(0, "obj") or NONE), Instance)
        if obj is None or obj.cls is None or not self._definitions.is_record(obj):
            return None
        items: dict[Value, Value] = {}
        for name in self._definitions.annotated_fields(obj.cls):
            if name in obj.attrs:
                inner = self.as_dict(Arguments([obj.attrs[name]]), w, ctx, site)
                items[Const(name)] = clone(obj.attrs[name], w) if inner is None else inner
        return w.new(Mapping(items))

    def tuple_method(self, row: Sequence, name: str, args: Arguments, w: World) -> Ref | None:
        """Call a method of a named tuple, of which all fields are known."""
        if len(row.fields) != len(row.items) or row.tail is not None or args.open:
            return None
        if name == "_replace":
            values = [args.keywords.get(*pair) for pair in zip(row.fields, row.items, strict=True)]
            return w.new(Sequence(values, list(row.sites), None, None, False, row.fields))
        if name == "_asdict":
            return w.new(Mapping({Const(field): item for field, item in zip(row.fields, row.items, strict=True)}))
        return None
