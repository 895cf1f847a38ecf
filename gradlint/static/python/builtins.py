"""Calls of Python's own functions: builtins, itertools, functools, collections, copy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.collections import Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.containers import Filling
from gradlint.static.python.domain import Domain
from gradlint.static.python.reflection import Handler, Records, Reflection
from gradlint.static.python.streams import Streams
from gradlint.static.state.contents import clone
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import Among, AttributeOf, CopyOf, OptionAmong, Result, fresh
from gradlint.static.state.values import (
    NONE,
    Const,
    External,
    Instance,
    Mapping,
    Namespace,
    Object,
    Partial,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site

_DRAINING = [
    *("builtins.list", "builtins.tuple", "builtins.set", "builtins.sorted", "builtins.sum", "builtins.max"),
    *("builtins.min", "builtins.dict", "collections.OrderedDict", "collections.deque"),
]
"""Functions that go through all items of what they are given."""

_NAMED_TUPLE = "collections.namedtuple()"  #: what collections.namedtuple returns


PARSER = "argparse.ArgumentParser"
_UNLIKE = frozenset(["action", "nargs"])  #: arguments with which an option is something else than one of its choices


class Options:
    """Knows the choices that options have: in a world in which a parser was given them."""

    _collections: Collections

    def declared(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``parser.add_argument("--model", choices=["a", "b"], default="a")``."""
        names = [str(name.value) for name in map(w.resolve, args.positional) if isinstance(name, Const)]
        given = args.keywords.get("choices")
        if given is None or not names or args.open or not _UNLIKE.isdisjoint(args.keywords):
            return NONE
        known = self._collections.iterate(given, w, ctx, site).known or []
        choices = tuple(choice.value for choice in known if isinstance(choice, Const))
        if choices and len(choices) == len(known) and self._is_one(names, choices, args, w):
            w.assumed[OptionAmong(_attribute(names, args, w), choices)] = True
        return NONE

    def _is_one(self, names: list[str], choices: tuple[object, ...], args: Arguments, w: World) -> bool:
        """Whether an option is sure to be one of its choices, also where it is not given."""
        if not names[0].startswith("-") or w.resolve(args.keywords.get("required", NONE)) == Const(True):
            return True
        default = w.resolve(args.keywords.get("default", NONE))
        return isinstance(default, Const) and default.value in choices

    def parsed(self, _args: Arguments, w: World, _ctx: Context, _site: Site) -> Value:
        """``parser.parse_args()``."""
        options = new_unknown("options", "options")
        for condition in list(w.assumed):
            if isinstance(condition, OptionAmong):
                w.assumed[Among(AttributeOf(options.key, condition.name), condition.values)] = True
        return options

    def parsed_some(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``parser.parse_known_args()``: the options, and what is left."""
        rest = new_unknown("options", "rest")
        return w.new(Sequence([self.parsed(args, w, ctx, site), rest], [None] * 2, None, None, False))


def _attribute(names: list[str], args: Arguments, w: World) -> str:
    """The attribute that holds an option: named as told, or as its first long name, or as its first."""
    told = w.resolve(args.keywords.get("dest", NONE))
    if isinstance(told, Const) and isinstance(told.value, str):
        return told.value
    first = next((name for name in names if name.startswith("--")), names[0])
    return first.lstrip("-").replace("-", "_")


class BuiltinCalls:
    """Knows what the functions of the language and its library return."""

    _domain: Domain
    _choices: Choices
    _calls: Calls
    _collections: Collections
    _conditions: Conditions
    _options: Options
    _records: Records
    _reflection: Reflection
    _filling: Filling
    _streams: Streams

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {
            **self._reflection.handlers,
            "builtins.range": self._range,
            "builtins.enumerate": self._enumerate,
            "builtins.zip": self._zip,
            "itertools.zip_longest": self._zip,
            "builtins.list": self._list,
            "builtins.tuple": self._list,
            "builtins.set": self._list,
            "builtins.sorted": self._list,
            "builtins.reversed": self._reversed,
            "builtins.iter": self._first,
            "builtins.next": self._next,
            "builtins.filter": self._filter,
            "builtins.map": self._map,
            "functools.reduce": self._reduce,
            "itertools.chain": self._chain,
            "itertools.chain.from_iterable": self._chain_items,
            "itertools.cycle": self._cycle,
            "itertools.islice": self._islice,
            "collections.deque": self._list,
            "builtins.dict": self._dict,
            "collections.OrderedDict": self._dict,
            "collections.defaultdict": lambda a, w, c, s: w.new(Mapping(factory=w.resolve(a.get(0) or NONE))),
            "argparse.Namespace": lambda a, w, c, s: w.new(Instance(name="argparse.Namespace", attrs=dict(a.keywords))),
            f"{PARSER}.add_argument": self._options.declared,
            f"{PARSER}.parse_args": self._options.parsed,
            f"{PARSER}.parse_known_args": self._options.parsed_some,
            "types.SimpleNamespace": lambda a, w, c, s: w.new(Instance(name="namespace", attrs=dict(a.keywords))),
            "builtins.sum": self._sum,
            "builtins.max": partial(self._extreme, max),
            "builtins.min": partial(self._extreme, min),
            "builtins.len": lambda a, w, c, s: self._collections.length(w.resolve(a.get(0) or NONE), w),
            "builtins.bool": self._bool,
            "builtins.int": self._convert,
            "builtins.float": self._convert,
            "builtins.str": self._convert,
            "functools.partial": self._partial,
            "functools.wraps": lambda a, w, c, s: w.new(Instance(role=roles.DECORATOR)),
            "builtins.globals": lambda a, w, c, s: Namespace(c.module, "globals()"),
            "dataclasses.field": self._field,
            "dataclasses.replace": self._records.replaced,
            "dataclasses.asdict": self._records.as_dict,
            "copy.deepcopy": self._deepcopy,
            "copy.copy": self._shallow,
            "copy.replace": self._records.replaced,
            "collections.namedtuple": self._namedtuple,
            "enum.auto": self._unique,
            "builtins.object": self._unique,
            _NAMED_TUPLE: self._named,
        }
        for name in _DRAINING:
            self.handlers[name] = partial(self._draining, name, self.handlers[name])

    def _draining(
        self, name: str, handler: Handler, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        """What a function gives that goes through all items of its last argument, or of the only one."""
        given = w.resolve(args.positional[-1]) if args.positional and not args.open else NONE
        self._streams.used(given, name, w, ctx, site)
        return handler(args, w, ctx, site)

    def _cycle(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``cycle(iterable)``: what it is given, again and again."""
        given = w.resolve(args.get(0) or NONE)
        obj = w.get(given, Object)
        if not isinstance(obj, (Instance, Sequence)) or not obj.streams:
            return given
        again: Instance | Sequence = obj.copy()
        again.streams = frozenset()
        return w.new(again)

    def _first(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return w.resolve(args.get(0) or NONE)

    def _islice(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """``islice(iterable, stop)``: as good as all of it, unless it is told to be one item at most."""
        given = [w.resolve(value) for value in args.positional]
        figures = [value.value for value in given[1:] if isinstance(value, Const) and _is_bound(value.value)]
        if not 1 <= len(figures) == len(given) - 1 <= 3 or figures[2:] == [0]:
            return given[0] if given else None
        row = w.get(given[0], Sequence)
        if row is not None and row.tail is None:
            chosen = list(islice(zip(row.items, row.sites, strict=True), *figures))
            return w.new(Sequence([item for item, _ in chosen], [where for _, where in chosen]))
        several = len(range(*slice(*figures).indices(2**31))) > 1
        return given[0] if several else None

    def _unique(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Something that is equal to nothing else: a member of an enumeration, a sentinel."""
        return External(f"a mark, {fresh()}")

    def _range(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        values = [w.resolve(a) for a in args.positional]
        if all(isinstance(v, Const) and isinstance(v.value, int) for v in values) and 1 <= len(values) <= 3:
            try:
                numbers = range(*(v.value for v in values if isinstance(v, Const)))
            except (TypeError, ValueError):
                return new_unknown("range")
            if len(numbers) <= 4:
                return w.new(Sequence([Const(n) for n in numbers], [None] * len(numbers), None, None, False))
            if ctx.yields is not None:  # what a generator gives first is told apart
                others = new_unknown("range")
                return w.new(Sequence([Const(n) for n in numbers[:2]], [None] * 2, others, None, False))
        from_zero = len(values) == 1 or values[:1] == [Const(0)]
        return w.new(Sequence([], [], new_unknown("counted" if from_zero else "range"), None, False))

    def _items(self, value: Value, w: World, ctx: Context, site: Site) -> tuple[list[Value] | None, Value]:
        items = self._collections.iterate(value, w, ctx, site)
        return items.known, (items.element(w, ctx) if items.known is None else NONE)

    def _enumerate(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        if known_items is not None:
            several = [bool(self._domain.items.several(v, w)) for v in known_items]
            numbers = [new_unknown("index", "i") if any(several) else Const(n) for n in range(len(known_items))]
            pairs: list[Value] = [
                w.new(Sequence([n, v], [None, None], None, None, False))
                for n, v in zip(numbers, known_items, strict=True)
            ]
            return self._streams.over(w.new(Sequence(pairs, [None] * len(pairs))), tuple(args.positional), w)
        from_zero = w.resolve(args.get(1, "start") or Const(0)) == Const(0)
        index = new_unknown("counted" if from_zero else "index", "i")
        pair = w.new(Sequence([index, element], [None, None], None, None, False))
        return self._streams.over(w.new(Sequence([], [], pair)), tuple(args.positional), w)

    def _as_long(self, columns: list[list[Value]], w: World) -> list[list[Value]]:
        """Columns of a ``zip``: some of the parameters where they stand beside things that are counted."""
        several = [any(self._domain.items.several(value, w) for value in column) for column in columns]
        if all(several) or not any(several):
            return columns
        return [[self._domain.items.selection(value, w) for value in column] for column in columns]

    def _transposed(self, rows: list[Value], w: World) -> Value | None:
        """``zip(*rows)`` of any number of tuples that are as long as one another: a list for each of their places."""
        columns: list[list[Value]] = []
        for row in (w.get(w.resolve(row), Sequence) for row in rows):
            if row is None or row.mutable or row.tail is not None or len(row.items) != len((columns or [row.items])[0]):
                return None
            columns.append(row.items)
        kept = [w.new(Sequence(tail=self._any(list(column), w))) for column in zip(*columns, strict=True)]
        return w.new(Sequence(list(kept), [None] * len(kept))) if kept else None

    def _zip(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        self._domain.items.paired(args.positional, w, ctx, site)
        return self._streams.over(self._zipped(args, w, ctx, site), tuple(args.positional), w)

    def _zipped(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if args.unpacked:
            transposed = self._transposed([*args.positional, *args.unpacked], w)
            if transposed is not None:
                return transposed
        columns = [self._items(value, w, ctx, site) for value in args.positional]
        known_columns = [c for c, _ in columns if c is not None]
        if known_columns and len(known_columns) == len(columns):
            known_columns = self._as_long(known_columns, w)
            rows: list[Value] = [
                w.new(Sequence(list(row), [None] * len(row), None, None, False))
                for row in zip(*known_columns, strict=False)
            ]
            return w.new(Sequence(rows, [None] * len(rows)))
        length = min((len(c) for c in known_columns), default=None)
        if length is not None and length <= 4:
            rows = []
            for n in range(length):
                row = [c[n] if c is not None else element for c, element in columns]
                rows.append(w.new(Sequence(row, [None] * len(row), None, None, False)))
            return w.new(Sequence(rows, [None] * len(rows)))
        row = [self._any(c, w) if c else element for c, element in columns]
        return w.new(Sequence([], [], w.new(Sequence(row, [None] * len(row), None, None, False))))

    def _any(self, values: list[Value], w: World) -> Value:
        joined = values[0]
        for value in values[1:]:
            joined = self._choices.either(joined, value, w)
        return joined

    def _list(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        loses = "maxlen" in args.keywords or len(args.positional) > 1
        if not args.positional:
            return w.new(Sequence(loses=loses))
        value = w.resolve(args.positional[0])
        obj = w.get(value, Object)
        if isinstance(obj, Instance) and obj.role is roles.PARAMETERS:
            listed: Instance = obj.copy()
            listed.streams = frozenset()
            return w.new(listed) if obj.streams else value
        if isinstance(obj, Sequence):
            return w.new(Sequence(list(obj.items), list(obj.sites), obj.tail, obj.tail_site, own=obj.own, loses=loses))
        known_items, element = self._items(value, w, ctx, site)
        if known_items is not None:
            return w.new(Sequence(list(known_items), [None] * len(known_items), loses=loses))
        return w.new(Sequence([], [], element, loses=loses))

    def _reversed(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        ref = self._list(args, w, ctx, site)
        obj = w.get(ref, Sequence)
        if obj is not None and obj.tail is None and isinstance(ref, Ref):
            new = w.write(ref.id)
            new.items.reverse()
            new.sites.reverse()
        return ref

    def _next(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        if known_items is None:
            return element
        return self._domain.items.selection(known_items[0], w) if known_items else new_unknown("next")

    def _filter(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(1) or NONE)
        obj = w.get(value, Instance)
        if obj is not None and obj.role is roles.PARAMETERS:
            kept = frozenset(g for g in obj.groups if getattr(w.find(g), "requires_grad", None) is not False)
            chosen = w.new(Instance(role=roles.PARAMETERS, device=None, groups=kept))
            return self._streams.opened(chosen, w, (value,), site)
        return value

    def _map(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return self._streams.over(self._mapped(args, w, ctx, site), tuple(args.positional[1:]), w)

    def _mapped(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        function = args.get(0) or NONE
        known_items, element = self._items(args.get(1) or NONE, w, ctx, site)
        values = known_items if known_items is not None else [element]
        out = []
        for number, value in enumerate(values):
            here = ctx.at(site, number)
            out.append(joined(self._calls.call(function, Arguments([value]), w, here, site), w))
        if known_items is not None:
            return w.new(Sequence(out, [None] * len(out)))
        return w.new(Sequence([], [], out[0], own=self._domain.items.made_since(out[0], ctx.iteration, w)))

    def _reduce(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``reduce(function, items, first)``: of any number of items, one stands for all."""
        function, first = args.get(0) or NONE, args.get(2, "initial")
        known_items, element = self._items(args.get(1) or NONE, w, ctx, site)
        values = known_items if known_items is not None else [element]
        if first is None and known_items is None:
            values = [element, element]
        if first is not None:
            values = [first, *values]
        if not values:
            return Unknown(Result(fresh()))
        result = values[0]
        for number, value in enumerate(values[1:]):
            here = ctx.at(site, number)
            result = joined(self._calls.call(function, Arguments([result, value]), w, here, site), w)
        return result

    def _chain(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        instances = [w.get(w.resolve(a), Instance) for a in args.positional]
        if instances and all(i is not None and i.role is roles.PARAMETERS for i in instances):
            groups = frozenset().union(*(i.groups for i in instances if i is not None))
            chained = w.new(Instance(role=roles.PARAMETERS, device=None, groups=groups))
            return self._streams.opened(chained, w, site=site)
        new = w.new(Sequence())
        for value in args.positional:
            self._filling.extend(new, value, w, ctx, site)
        return new

    def _chain_items(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        return self._chain(Arguments(known_items if known_items is not None else [element]), w, ctx, site)

    def _dict(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        ref = w.new(Mapping())
        if args.positional:
            source = self._collections.dict_in(w.resolve(args.positional[0]), w)
            if w.get(source, Mapping) is not None:
                self._filling.update(ref, source, w, ctx)
            else:
                self._fill(ref, source, w, ctx, site)
        for name, value in args.keywords.items():
            w.write(ref.id).items[Const(name)] = value
        if args.open:
            w.write(ref.id).tail = new_unknown("kwargs")
        return ref

    def _field(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        factory = args.keywords.get("default_factory")
        if factory is not None:
            return Partial(External("dataclasses.field"), (w.resolve(factory),), ())
        return args.keywords.get("default") or new_unknown("field")

    def _fill(self, ref: Ref, source: Value, w: World, ctx: Context, site: Site) -> None:
        """Put pairs of a key and a value into a dict."""
        items = self._collections.iterate(source, w, ctx, site)
        pairs = items.known if items.known is not None else [items.element(w, ctx)]
        for item in pairs:
            pair = w.get(w.resolve(item), Sequence)
            known = pair is not None and len(pair.items) == 2
            new: Mapping = w.write(ref.id)
            if pair is not None and known and items.known is not None:
                new.items[w.resolve(pair.items[0])] = pair.items[1]
            else:
                new.tail = pair.items[1] if pair is not None and known else new_unknown("item")

    def _sum(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        values = known_items if known_items is not None else [element]
        return self._domain.operators.total(values, known_items is not None, w, ctx, site)

    def _extreme(
        self, pick: Callable[[list[float]], float], args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        """``max(numbers)``, ``min(a, b)``, ``max(losses)``: one of them, and which one where they are known."""
        if args.open or not args.positional or "default" in args.keywords:
            return None
        given = w.new(Sequence(list(args.positional))) if len(args.positional) > 1 else args.positional[0]
        items = self._items(given, w, ctx, site)[0] or []
        values = [value.value for value in map(w.resolve, items) if isinstance(value, Const)]
        numbers = [value for value in values if isinstance(value, (int, float))]
        if items and len(numbers) == len(items):
            return Unknown(Result(fresh())) if "key" in args.keywords else Const(pick(numbers))
        one = self._collections.element(given, w, ctx)
        return one if w.get(one, Tensor) is not None else None

    def _bool(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(0) or NONE)
        truth, _key, _flipped = self._conditions.truth(value, w)
        return Const(truth) if truth is not None else value

    def _convert(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return self._domain.values.number(w.resolve(args.get(0) or NONE), w, ctx, site)

    def _partial(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if not args.positional:
            return new_unknown("partial")
        return Partial(w.resolve(args.positional[0]), tuple(args.positional[1:]), tuple(args.keywords.items()))

    def _namedtuple(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        names = w.resolve(args.get(1, "field_names") or NONE)
        fields: tuple[str, ...] = ()
        sequence = w.get(names, Sequence)
        if isinstance(names, Const) and isinstance(names.value, str):
            fields = tuple(names.value.replace(",", " ").split())
        elif sequence is not None:
            fields = tuple(str(v.value) for v in sequence.items if isinstance(v, Const))
        names_given: list[Value] = [Const(name) for name in fields]
        defaults = w.get(w.resolve(args.keywords.get("defaults", NONE)), Sequence)
        last = [] if defaults is None or defaults.tail is not None else defaults.items
        usual = tuple(zip(fields[max(0, len(fields) - len(last)) :], last, strict=False))
        return Partial(External(_NAMED_TUPLE), (w.new(Sequence(names_given, [None] * len(fields))),), usual)

    def _named(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Build a named tuple; the first argument is the list of its fields."""
        names = w.get(args.positional[0], Sequence)
        fields = [str(name.value) for name in names.items if isinstance(name, Const)] if names is not None else []
        items: list[Value] = []
        for position, name in enumerate(fields, start=1):
            given = args.get(position) or args.get(-1, name)  # there may be a usual value beside what is given
            items.append(given if given is not None else new_unknown("field", name))
        return w.new(Sequence(items, [None] * len(items), None, None, False, tuple(fields)))

    def _deepcopy(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        original = w.resolve(args.get(0) or NONE)
        copy = clone(original, w) if not isinstance(original, Unknown) else self._copy(original, w)
        self._domain.values.copied(original, copy, w, site)
        return copy

    def _shallow(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``copy(value)``: another list, dict or object, which holds the same values; an array is copied with them."""
        original = w.resolve(args.get(0) or NONE)
        obj = w.get(original, Object)
        own = isinstance(obj, Instance) and (obj.cls is not None or obj.role is roles.ARRAY)
        if obj is not None and (own or isinstance(obj, (Sequence, Mapping))):
            return w.new(obj.copy())
        return original

    def _copy(self, original: Unknown, w: World) -> Unknown:
        """Something unknown that is another one than its original: a module has parameters and a mode of its own."""
        copies = [clone(Ref(key), w) for key in sorted(original.deps)]
        deps = frozenset(group.id for group in copies if isinstance(group, Ref))
        return Unknown(CopyOf(fresh(), original.key), original.hint, deps)


def _is_bound(value: object) -> bool:
    return value is None or (isinstance(value, int) and value >= 0)
