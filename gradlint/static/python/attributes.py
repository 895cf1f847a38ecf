"""Attributes: read and written for every kind of value, and those that methods set which have not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import CLASS_NAME
from gradlint.static.python.binding import Imports
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.progress import Progress
from gradlint.static.state.comparisons import computed
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import join, joined
from gradlint.static.state.origins import AttributeOf, fresh
from gradlint.static.state.provenance import dict_of
from gradlint.static.state.values import (
    Bound,
    Choice,
    Class,
    Const,
    External,
    Function,
    Group,
    Instance,
    Mapping,
    Namespace,
    Object,
    Partial,
    Ref,
    Sequence,
    Super,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import FunctionUnit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradlint.finding import Site
    from gradlint.static.text.units import Unit


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

UNBUILT = "<unbuilt>"
"""Beside the attributes of an object, the ``__init__`` of which was not followed: it may have others."""


class Attributes:
    """Reads and writes attributes."""

    _domain: Domain
    _execution: Execution
    _definitions: Definitions
    _imports: Imports
    _choices: Choices
    _calls: Calls
    _late: DeferredAttributes

    def get(self, owner: Value, name: str, w: World, ctx: Context, site: Site) -> Value:
        """The value of ``owner.name``."""
        owner = self._choices.used(w.resolve(owner), w)
        if isinstance(owner, Unknown):
            return self._of_unknown(owner, name, w, ctx, site)
        if isinstance(owner, Ref):
            return self._of_object(owner, name, w, ctx, site)
        if isinstance(owner, External):
            if name == "__name__" and CLASS_NAME.match(last := owner.name.rpartition(".")[2]):
                return Const(last)
            if owner.name.startswith("builtins.") and name.startswith("__"):
                return Unknown(AttributeOf(owner, name), name)
            return External(self._domain.names.canonical(f"{owner.name}.{name}"))
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
        place = AttributeOf(owner.key, name)
        special = self._domain.attributes.get_of_unknown(owner, name, w, ctx, site)
        if special is not None:
            return special
        value = w.stored(place) or w.resolve(Unknown(computed(place), name, owner.deps))
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
            method = name in _CONTAINER_METHODS or hasattr(dict, name)
            return Bound(owner, name) if method else w.resolve(Unknown(AttributeOf(owner, name), name))
        if isinstance(obj, Instance):
            return self._of_instance(owner, obj, name, w, ctx, site)
        known = self._domain.attributes.get(owner, obj, name, w, ctx, site) if obj is not None else None
        return Unknown(AttributeOf(owner, name), name) if known is None else known

    def lacks(self, owner: Value, name: str, w: World) -> bool:
        """Whether an object of a class of the project is known to have no attribute of a name, whatever has run.

        What ``__init__`` alone sets, and has not set on this way, is never there.
        """
        obj = w.get(owner, Instance)
        if obj is None or obj.cls is None or name in obj.attrs or name.startswith("__"):
            return False
        if any(other.startswith("<") for other in obj.attrs):  # it may have been given others
            return False
        if self._definitions.attribute(obj.cls, name, w) is not None:
            return False
        own = [method for here in self._definitions.mro(obj.cls) for method in here.unit.methods.values()]
        setting = {method.name for method in own if name in method.words and name in method.assigned_attributes}
        if setting and not (obj.born and setting == {"__init__"}):
            return False
        return self._definitions.is_whole(obj.cls, module=obj.role is roles.MODULE and bool(setting))

    def listed(self, value: Value, w: World) -> Ref | None:
        """The attributes as they are now, where a value is the ``__dict__`` of an object of a class of the project."""
        owner = dict_of(value)
        obj = w.get(owner, Instance) if owner is not None else None
        if obj is None or obj.cls is None or obj.role is not roles.PLAIN:
            return None
        return w.new(Mapping({Const(name): held for name, held in obj.attrs.items() if not name.startswith("<")}))

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
        if name == "__call__" and isinstance(receiver, Class):  # in a metaclass
            return Partial(External("builtins.type.__call__"), (receiver,), ())
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
            w.store(AttributeOf(owner.key, name), value)
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


_MAX_FILLING = 6  #: methods that fill what another one reads


class DeferredAttributes:
    """Runs methods aside, to learn what they would set."""

    _domain: Domain
    _progress: Progress
    _definitions: Definitions
    _calls: Calls

    def __init__(self) -> None:
        self._running: set[tuple[Unit, str]] = set()
        self._inherited: set[tuple[FunctionUnit, ...]] = set()
        """Methods, each with those that fill what it reads, that were looked at on an object of some class."""

    @property
    def running(self) -> bool:
        """Whether a method runs aside now: when it will run in earnest, if ever, is not known."""
        return bool(self._running)

    def get(self, owner: Ref, cls: Class, name: str, w: World, ctx: Context) -> Value | None:
        """What an attribute would be if a method that sets it had run; None if none sets it.

        What has built the object, and has not set it on this way, does so no more.
        """
        obj = w.get(owner, Instance)
        built = obj is not None and obj.born
        for here in self._definitions.mro(cls):
            for method in here.unit.methods.values():
                if name not in method.assigned_attributes or (built and method.name == "__init__"):
                    continue
                if (method, name) in self._running or ctx.calls(method):
                    continue
                function = self._definitions.attribute(cls, method.name, w)
                if not isinstance(function, Function) or function.unit is not method:
                    continue
                value = self._aside(owner, function, name, w, ctx)
                if value is not None:
                    return value
        return None

    def _aside(self, owner: Ref, function: Function, name: str, w: World, ctx: Context) -> Value | None:
        self._running.add((function.unit, name))
        scratch = w.copy()
        try:
            with self._progress.unseen_but_for(function.unit):
                results = self._calls.function(function, Arguments(open=True), scratch, ctx, ctx.unit.here, owner)
            if not results:
                return None
            joined(results, scratch)
        finally:
            self._running.discard((function.unit, name))
        obj = scratch.get(owner, Instance)
        value = obj.attrs.get(name) if obj is not None else None
        if value is None:
            return None
        value = scratch.resolve(value)
        made = [key for key, late in scratch.all(Group) if w.find(key) is None]
        w.adopt(scratch.heap)
        self._domain.escapes.doubt(made, [], w)
        new = w.write(owner.id)
        for other, late in obj.attrs.items() if obj is not None else ():
            # One run gives them all: an optimizer holds the parameters of the model that was set beside it.
            new.attrs.setdefault(other, scratch.resolve(late))
        new.attrs[name] = value
        return value

    # --- what is empty when the object is built

    def filled(self, owner: Ref, cls: Class, method: FunctionUnit, w: World, ctx: Context) -> World | None:
        """The world once other methods have filled what a method reads and the object was built without.

        None where there is no such thing, or the class has inherited all of it, as another one has that came before.
        Which of those methods ran, how often and in which order is not known.
        """
        fillers = self._fillers(owner, cls, method, w, ctx)
        if not fillers or len(fillers) > _MAX_FILLING:
            return None
        inherited = not any(each.class_unit is cls.unit for each in (method, *fillers))
        if inherited and (method, *fillers) in self._inherited:
            return None
        self._inherited.add((method, *fillers))
        with self._progress.unseen():
            world = self._after(owner, cls, fillers, w, ctx)
            if world is not None and len(fillers) > 1:  # some may change what others have put there
                world = self._after(owner, cls, fillers, world, ctx)
        if world is not None:
            world.grad = w.grad
        return world

    def _fillers(self, owner: Ref, cls: Class, method: FunctionUnit, w: World, ctx: Context) -> list[FunctionUnit]:
        """The methods that fill what is empty and what ``method`` reads, by themselves or through others."""
        obj = w.get(owner, Instance)
        methods = self._definitions.methods(cls)
        own = methods.mentioned_by(method.name) | {"__init__"}
        read = frozenset[str]().union(*(methods[name].words for name in own & methods.keys() - {"__init__"}))
        held = obj.attrs.items() if obj is not None else ()
        empty = {name for name, value in held if name in read and self._is_empty(value, w, ctx, method.here)}
        filling = {name for name in methods.keys() - own if empty & methods[name].filled_attributes} if empty else set()
        if not filling:
            return []
        # only what a method calls on its own object: ``self.net.train()`` is a call of another one's
        reached = {name: methods.called_by(name) for name in methods.keys() - own}
        leading = {name for name in reached if filling & reached[name]}
        outer = {name for name in leading if not any(name in reached[other] for other in leading - {name})}
        return [methods[name] for name in sorted(outer or leading)]

    def _is_empty(self, value: Value, w: World, ctx: Context, site: Site) -> bool:
        """Whether a value is what an attribute begins with that is filled later: an empty list or dict, a number, None.

        So is a list or dict of empty ones, and a container of a library that holds nothing.
        """
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(obj, (Sequence, Mapping)):
            held = obj.items.values() if isinstance(obj, Mapping) else obj.items
            return obj.tail is None and all(_holds_nothing(w.get(w.resolve(each), Object)) for each in held)
        if isinstance(obj, Instance):
            items = self._domain.items.iterate(value, obj, w, ctx, site) if obj.role.is_module else None
            return items is not None and items.known == []
        return isinstance(value, Const) and not isinstance(value.value, (str, bool))

    def _after(self, owner: Ref, cls: Class, methods: Iterable[FunctionUnit], w: World, ctx: Context) -> World | None:
        """The world after one of some methods has run."""
        end: World | None = None
        for method in methods:
            function = self._definitions.attribute(cls, method.name, w)
            if not isinstance(function, Function) or function.unit is not method:
                continue
            scratch = w.copy()
            scratch.grad = self._mode(method, owner, w)
            here = ctx.at("filling", method)
            results = self._calls.function(function, Arguments(open=True), scratch, here, method.here, owner)
            if results:
                self._domain.calls.returned(owner, method.name, results, here, method.here)
                joined(results, scratch)
                end = scratch if end is None else join(end, scratch)
        return end

    def _mode(self, method: FunctionUnit, owner: Ref, w: World) -> bool | None:
        """Whether gradients are enabled where a method is called that fills attributes."""
        obj = w.get(owner, Instance)
        if obj is not None and self._domain.calls.without_grad(obj, method.name):
            return False
        return None if method in self._progress.unrecorded or method.name in ("forward", "__call__") else True


def _holds_nothing(obj: Object | None) -> bool:
    return isinstance(obj, (Sequence, Mapping)) and not obj.items and obj.tail is None
