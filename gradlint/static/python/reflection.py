"""What code asks of objects: attributes by name, of what kind they are, and the fields of records."""

from __future__ import annotations

import builtins
import collections.abc
import numbers
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.finding import Site
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.binding import Imports
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Dispatch
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.state.comparisons import computed
from gradlint.static.state.contents import clone
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import (
    Asked,
    AttributeOf,
    HasAttribute,
    IsInstance,
    Result,
    fresh,
)
from gradlint.static.state.provenance import beginning
from gradlint.static.state.values import (
    NONE,
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
    new_unknown,
)
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site


Handler = Callable[[Arguments, World, Context, "Site"], Value | None]


_STANDARD = (builtins, collections, collections.abc, numbers)  #: modules of classes that say what a value is like


class Reflection:
    """Answers getattr, isinstance and the like."""

    _domain: Domain
    _definitions: Definitions
    _imports: Imports
    _dispatch: Dispatch
    _attributes: Attributes
    _calls: Calls

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {
            "builtins.vars": self._vars,
            "builtins.getattr": self._getattr,
            "builtins.setattr": self._setattr,
            "builtins.hasattr": self._hasattr,
            "builtins.isinstance": self._isinstance,
            "builtins.type": self._type,
            "builtins.type.__call__": self._build,
        }

    def _build(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """``type.__call__(cls, …)``: an object of a class, whatever its metaclass does beside that."""
        cls = w.resolve(args.get(0) or NONE)
        if not isinstance(cls, Class):
            return None
        return joined(self._calls.instantiate(cls, replace(args, positional=args.positional[1:]), w, ctx, site), w)

    def _vars(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """The ``__dict__`` of an object."""
        if not args.positional:
            return Unknown(Result(fresh()))
        return self._attributes.get(args.positional[0], "__dict__", w, ctx, site)

    def _getattr(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        owner, name = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        if isinstance(owner, Choice) and args.get(2) is not None:
            ways = [(w.copy(), [value, *args.positional[1:]]) for value in owner.alternatives]
            results = [(way, self._getattr(replace(args, positional=given), way, ctx, site)) for way, given in ways]
            return joined(results, w)
        if isinstance(name, Const) and isinstance(name.value, str):
            value = w.resolve(self._attributes.get(owner, name.value, w, ctx, site))
            default = args.get(2)
            if not isinstance(value, Unknown) or default is None:
                return value
            # What a wrapper holds, if it is one, is what it wraps.
            usual = w.resolve(default) == owner or self._attributes.lacks(owner, name.value, w)
            return w.resolve(default) if usual else value
        if isinstance(name, Unknown) and self._domain.names.begins_part(beginning(name)):
            parameter = self._some_parameter(owner, name, w)
            if parameter is not None:
                return parameter
        if isinstance(owner, External):
            some = self._domain.names.any_of(owner.name)
            return External(some) if some else new_unknown("getattr")
        if isinstance(owner, Namespace):
            return self._imports.any_member(owner, w, ctx)
        return self._dispatch.attribute(owner, name, w)

    def _some_parameter(self, owner: Value, name: Unknown, w: World) -> Value | None:
        """The parameter that a layer, or what is not known, keeps under a name of which the beginning says so."""
        obj = w.get(owner, Instance)
        if isinstance(owner, Unknown):
            return w.resolve(Unknown(computed(AttributeOf(owner.key, name.key)), "", owner.deps))
        if obj is None or obj.layer is None or obj.cls is not None or not obj.groups:
            return None
        return self._domain.values.some_part(obj, w)

    def _setattr(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        owner, name = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        label = str(name.value) if isinstance(name, Const) else f"<{fresh()}>"
        value = w.resolve(args.get(2) or NONE)
        if not isinstance(name, Const):
            self._perhaps_set(owner, value, w)
        self._attributes.set(owner, label, value, w, ctx, site)
        return NONE

    def _perhaps_set(self, owner: Value, value: Value, w: World) -> None:
        """A tensor was put into one of the attributes of an object: those that hold tensors may be it from now on."""
        obj = w.get(owner, Instance)
        if obj is None or not isinstance(owner, Ref) or w.get(value, Tensor) is None:
            return
        for name, held in obj.attrs.items():
            tensor = w.get(w.resolve(held), Tensor)
            if tensor is not None and not tensor.is_parameter:  # torch refuses a tensor in the place of a parameter
                w.write(owner.id).attrs[name] = Unknown(AttributeOf(owner, name, fresh()), name)

    def _hasattr(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        owner, name = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        obj = w.get(owner, Instance)
        if obj is not None and isinstance(name, Const):
            if name.value in obj.attrs:
                return Const(True)
            if obj.layer is not None and name.value in ("weight", "bias"):
                return Const(bool(obj.groups))
            if obj.cls is not None and self._definitions.attribute(obj.cls, str(name.value), w) is not None:
                return Const(True)
            if self._attributes.lacks(owner, str(name.value), w):
                return Const(False)
        held = w.get(owner, Object)
        if held is not None and isinstance(name, Const) and self._domain.values.has(held, str(name.value)):
            return Const(True)
        return Unknown(HasAttribute(owner, name))

    def _isinstance(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        subject, kind = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        sequence = w.get(kind, Sequence)
        return self.is_instance(subject, [w.resolve(k) for k in sequence.items] if sequence is not None else [kind], w)

    def is_instance(self, subject: Value, kinds: list[Value], w: World) -> Value:
        """Whether a value is an object of one of these classes, or what stands for that."""
        answers = [self._is_a(subject, k, w) for k in kinds]
        if True in answers:
            return Const(True)
        if None in answers:
            return Unknown(IsInstance(subject, tuple(kinds)))
        return Const(False)

    def _is_a(self, subject: Value, kind: Value, w: World) -> bool | None:
        obj = w.get(subject, Object)
        name = kind.name if isinstance(kind, External) else ""
        standard = _standard(name)
        if isinstance(subject, Const) and standard is not None:
            return isinstance(subject.value, standard)
        asked = name and (obj is not None or isinstance(subject, Const))
        known = self._domain.values.is_a(obj, name, standard) if asked else None
        if known is not None:
            return known
        if isinstance(obj, Instance):
            if isinstance(kind, Class):
                return obj.cls is not None and kind in self._definitions.mro(obj.cls)
            if obj.layer is not None and name:
                return obj.name == name
            if obj.cls is not None and name:
                return name in self._definitions.external_bases(obj.cls)
            return None
        if isinstance(obj, Tensor):
            plain = isinstance(kind, Class) and self._is_plain(kind)
            return False if plain and not (obj.structured or obj.supposed) else None
        if isinstance(obj, Sequence):
            if standard is Iterable:
                return True
            if name in ("builtins.list", "builtins.tuple"):
                return (name == "builtins.list") is obj.mutable
            return False if name in ("builtins.dict", "builtins.str") else None
        if isinstance(obj, Mapping):
            return standard is collections.OrderedDict or (standard is not None and issubclass(dict, standard))
        return None

    def _is_plain(self, cls: Class) -> bool:
        """Whether no tensor is of a class: all of its bases are of the project."""
        bases = [base for here in self._definitions.mro(cls) for base in here.bases]
        return all(isinstance(base, Class) or base == External("builtins.object") for base in bases)

    def _type(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(0) or NONE)
        obj = w.get(value, Object)
        if isinstance(obj, Instance):
            return obj.cls or External(obj.name)
        if obj is not None and (known := self._domain.values.type_of(obj)) is not None:
            return known
        if isinstance(obj, Sequence) and not obj.fields:
            return External("builtins.list" if obj.mutable else "builtins.tuple")
        return Unknown(Asked("type", value))


def _standard(name: str) -> type | None:
    """A class of the standard library by its name; under ``typing`` stand those of ``collections.abc`` once more."""
    module, _, own = name.rpartition(".")
    places = [one for one in _STANDARD if one.__name__ == module] or ([collections.abc] if module == "typing" else [])
    found = getattr(places[0], own, None) if places else None
    return found if isinstance(found, type) else None


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


__all__ = ["Handler", "Records", "Reflection"]
