"""Attributes: reads and writes ``owner.name`` for every kind of value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import canonical
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.imports import Imports
from gradlint.static.python.late import LateAttributes
from gradlint.static.state.computed import computed
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import AttributeOf, fresh
from gradlint.static.state.provenance import dict_of
from gradlint.static.state.values import (
    ESCAPED,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Namespace,
    Ref,
    Sequence,
    Super,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site

_READING = frozenset(["items", "keys", "values", "copy", "get"])
"""Methods of a dict that do not change it."""

_CONTAINER_METHODS = frozenset(
    [
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "clear",
        "copy",
        "items",
        "keys",
        "values",
        "get",
        "update",
        "setdefault",
        "sort",
        "reverse",
        "index",
        "count",
        "add",
        "discard",
        "popitem",
        "popleft",
        "appendleft",
        "union",
        "split",
        "join",
        "format",
        "strip",
        "lower",
        "upper",
        "startswith",
        "endswith",
        "find",
    ]
)


class Attributes:
    """Reads and writes attributes."""

    _domain: Domain
    _execution: Execution
    _definitions: Definitions
    _imports: Imports
    _choices: Choices
    _calls: Calls
    _late: LateAttributes

    def get(self, owner: Value, name: str, w: World, ctx: Context, site: Site) -> Value:
        """The value of ``owner.name``."""
        owner = self._choices.used(w.resolve(owner), w)
        if isinstance(owner, Unknown):
            return self._of_unknown(owner, name, w, ctx, site)
        if isinstance(owner, Ref):
            return self._of_object(owner, name, w, ctx, site)
        if isinstance(owner, External):
            if owner.name.startswith("builtins.") and name.startswith("__"):
                return Unknown(AttributeOf(owner, name), name)
            return External(canonical(f"{owner.name}.{name}"))
        if isinstance(owner, Namespace):
            return self._imports.member(owner.module, name, w, ctx)
        if isinstance(owner, Class):
            return self._of_class(owner, name, w, ctx)
        if isinstance(owner, Super):
            return self._of_super(owner, name, w, ctx, site)
        if isinstance(owner, Choice):
            results = []
            for alternative in owner.alternatives:
                world = w.copy()
                results.append((world, self.get(alternative, name, world, ctx, site)))
            return joined(results, w)
        if isinstance(owner, Const):
            return Bound(owner, name)
        if isinstance(owner, Function) and name == "__name__":
            return Const(owner.unit.name)
        if isinstance(owner, Bound) and owner.function is None:
            return Unknown(AttributeOf(AttributeOf(owner.receiver, owner.name), name), name)
        return Unknown(AttributeOf(owner, name), name)

    def _of_unknown(self, owner: Unknown, name: str, w: World, ctx: Context, site: Site) -> Value:
        attribute = Unknown(computed(AttributeOf(owner.key, name)), name, owner.deps)
        special = self._domain.attributes.get_of_unknown(owner, name, w, ctx, site)
        if special is not None:
            return special
        value = w.resolve(attribute)
        part = self._domain.attributes.part_of_unknown(value, w) if isinstance(value, Unknown) else None
        return value if part is None else part

    def _of_object(self, owner: Ref, name: str, w: World, ctx: Context, site: Site) -> Value:
        obj = w.find(owner.id)
        if isinstance(obj, Sequence):
            if name in obj.fields[: len(obj.items)]:
                return obj.items[obj.fields.index(name)]
            if obj.tail is not None and not obj.mutable and name not in _CONTAINER_METHODS:
                return w.resolve(obj.tail)  # of a named tuple
            return Bound(owner, name)
        if isinstance(obj, Mapping):
            key = Const(name)
            if name not in _CONTAINER_METHODS and key in obj.items:
                return obj.items[key]
            return Bound(owner, name)
        if isinstance(obj, Instance):
            return self._of_instance(owner, obj, name, w, ctx, site)
        known = self._domain.attributes.get(owner, obj, name, w, ctx, site) if obj is not None else None
        return Unknown(AttributeOf(owner, name), name) if known is None else known

    def lacks(self, owner: Value, name: str, w: World) -> bool:
        """Whether an object of a class of the project is known to have no attribute of a name, whatever has run."""
        obj = w.get(owner, Instance)
        if obj is None or obj.cls is None or obj.role is not roles.PLAIN or name in obj.attrs or name.startswith("__"):
            return False
        if any(other.startswith("<") for other in obj.attrs):  # it may have been given others
            return False
        if not self._definitions.is_whole(obj.cls):
            return False
        if self._definitions.attribute(obj.cls, name, w) is not None:
            return False
        own = [method for here in self._definitions.mro(obj.cls) for method in here.unit.methods.values()]
        return not any(name in method.words and name in method.assigned_attributes for method in own)

    def listed(self, value: Value, w: World) -> Ref | None:
        """The attributes as they are now, where a value is the ``__dict__`` of an object of a class of the project."""
        owner = dict_of(value)
        obj = w.get(owner, Instance) if owner is not None else None
        if obj is None or obj.cls is None or obj.role is not roles.PLAIN:
            return None
        return w.new(Mapping({Const(name): held for name, held in obj.attrs.items() if name != ESCAPED}))

    def dict_method(
        self, receiver: Unknown, owner: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of the ``__dict__`` of an object."""
        listed = self.listed(receiver, w) if name in _READING else None
        obj = w.get(listed, Mapping) if listed is not None else None
        if listed is not None and obj is not None:
            return self._execution.dict_method(listed, obj, name, args, w, ctx, site)
        values = args.get(0) if name == "update" else None
        if name == "update" and not args.positional and not args.open:
            values = w.new(Mapping({Const(key): value for key, value in args.keywords.items()}))
        self.updated(owner, None if values is None else w.resolve(values), w, ctx, site)
        return new_unknown("dict method")

    def updated(self, owner: Ref, values: Value | None, w: World, ctx: Context, site: Site) -> None:
        """``vars(self).update(values)``: where it is not known which these are, all that is set may be among them."""
        obj, given = w.get(owner, Instance), w.get(values, Mapping) if values is not None else None
        if given is not None and given.tail is None and all(isinstance(key, Const) for key in given.items):
            for key, value in given.items.items():
                self.set(owner, str(key.value) if isinstance(key, Const) else "", value, w, ctx, site)
        elif obj is not None:
            new: Instance = w.write(owner.id)
            for name in [name for name, value in obj.attrs.items() if isinstance(w.resolve(value), Const)]:
                new.attrs[name] = Unknown(AttributeOf(owner, name, fresh()), name)

    def _of_instance(self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> Value:
        value = obj.attrs.get(name)
        if value is not None:
            return w.resolve(value)
        if obj.cls is not None:
            found = self._definitions.attribute(obj.cls, name, w)
            if found is not None:
                return self._bind(found, owner, obj.cls, w, ctx, site)
        known = self._domain.attributes.get(owner, obj, name, w, ctx, site)
        if known is not None:
            return known
        if obj.cls is not None:
            late = self._late.get(owner, obj.cls, name, w, ctx)
            if late is not None:
                return late
            other = self._definitions.attribute(obj.cls, "__getattr__", w)
            if isinstance(other, Function) and obj.role.delegates:
                given = Arguments([Const(name)])
                return joined(self._calls.function(other, given, w, ctx, site, owner), w)
        return w.resolve(Unknown(AttributeOf(owner, name), name))

    def _bind(self, found: Value, owner: Value, cls: Class, w: World, ctx: Context, site: Site) -> Value:
        if not isinstance(found, Function):
            return found
        if found.kind == "property":
            return joined(self._calls.function(found, Arguments(), w, ctx, site, owner), w)
        if found.kind == "static":
            return found
        return Bound(cls if found.kind == "class" else owner, found.unit.name, found)

    def _of_class(self, owner: Class, name: str, w: World, ctx: Context) -> Value:
        found = self._definitions.attribute(owner, name, w)
        if isinstance(found, Function) and found.kind == "class":
            return Bound(owner, name, found)
        if found is not None:
            return found
        if name == "__name__":
            return Const(owner.unit.name)
        if name == "apply" and self._definitions.role(owner) is roles.FUNCTION:
            return Bound(owner, "apply")
        return Unknown(AttributeOf(owner, name), name)

    def _of_super(self, owner: Super, name: str, w: World, ctx: Context, site: Site) -> Value:
        receiver = owner.receiver
        cls = receiver if isinstance(receiver, Class) else getattr(w.get(receiver, Instance), "cls", None)
        if isinstance(cls, Class):
            found = self._definitions.attribute(cls, name, w, after=owner.cls)
            if found is not None:
                return self._bind(found, receiver, cls, w, ctx, site)
        return Bound(owner, name)

    def set(self, owner: Value, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        """Assign ``owner.name = value``."""
        owner = w.resolve(owner)
        if isinstance(owner, Ref):
            obj = w.find(owner.id)
            setter = self._setter(obj, name, w) if isinstance(obj, Instance) else None
            if setter is not None:
                joined(self._calls.function(setter, Arguments([value]), w, ctx, site, owner), w)
            elif isinstance(obj, Mapping):
                w.write(owner.id).items[Const(name)] = value
            elif obj is not None and not isinstance(obj, Sequence):
                self._domain.attributes.set(owner, obj, name, value, w, ctx, site)
        elif isinstance(owner, Unknown):
            if self._domain.attributes.set_of_unknown(owner, name, value, w, ctx, site):
                return
            w.remember(AttributeOf(owner.key, name), value)
            self._domain.escapes.kept(owner, w.resolve(value), w)
        elif isinstance(owner, Namespace):
            frame = w.modules.get(owner.module)
            if frame is not None:
                w.write(frame).vars[name] = value
        elif isinstance(owner, Class):
            w.write(owner.scope).vars[name] = value
        elif isinstance(owner, Choice):
            for alternative in owner.alternatives:
                current = self.get(alternative, name, w, ctx, site)
                self.set(alternative, name, self._choices.either(current, value, w), w, ctx, site)

    def _setter(self, obj: Instance, name: str, w: World) -> Function | None:
        if obj.cls is None:
            return None
        found = self._definitions.attribute(obj.cls, f"{name}.setter", w)
        return found if isinstance(found, Function) else None
