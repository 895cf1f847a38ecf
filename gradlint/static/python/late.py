"""Attributes that methods set, or fill, which have not run."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from gradlint.static.knowledge.torch_table import is_called_without_grad
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.progress import Progress
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import join, joined
from gradlint.static.state.values import Class, Const, Function, Group, Instance, Mapping, Object, Ref, Sequence, Value
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import FunctionUnit, reached_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradlint.static.text.units import Unit

_READ = attrgetter("read_attributes")
_MAX_FILLING = 6  #: methods that fill what another one reads


class LateAttributes:
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
        """What an attribute would be if a method that sets it had run; None if none sets it."""
        for here in self._definitions.mro(cls):
            for method in here.unit.methods.values():
                if name not in method.assigned_attributes or (method, name) in self._running or ctx.calls(method):
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
        fillers = self._fillers(owner, cls, method, w)
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

    def _fillers(self, owner: Ref, cls: Class, method: FunctionUnit, w: World) -> list[FunctionUnit]:
        """The methods that fill what is empty and what ``method`` reads, by themselves or through others."""
        obj = w.get(owner, Instance)
        methods = self._definitions.methods(cls)
        own = reached_from(methods, [method.name]) | {"__init__"}
        read = frozenset[str]().union(*(methods[name].words for name in own & methods.keys() - {"__init__"}))
        empty = {name for name, value in obj.attrs.items() if name in read and _is_empty(value, w)} if obj else set()
        filling = {name for name in methods.keys() - own if empty & methods[name].filled_attributes} if empty else set()
        if not filling:
            return []
        # only what a method calls on its own object: ``self.net.train()`` is a call of another one's
        reached = {name: reached_from(methods, [name], _READ) for name in methods.keys() - own}
        leading = {name for name in reached if filling & reached[name]}
        outer = {name for name in leading if not any(name in reached[other] for other in leading - {name})}
        return [methods[name] for name in sorted(outer or leading)]

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
        if obj is not None and is_called_without_grad(obj.role, method.name):
            return False
        return None if method in self._progress.unrecorded or method.name in ("forward", "__call__") else True


def _is_empty(value: Value, w: World) -> bool:
    """Whether a value is what an attribute begins with that is filled later: an empty list or dict, a number, None.

    So is a list or dict of empty ones.
    """
    value = w.resolve(value)
    obj = w.get(value, Object)
    if isinstance(obj, (Sequence, Mapping)):
        held = obj.items.values() if isinstance(obj, Mapping) else obj.items
        return obj.tail is None and all(_holds_nothing(w.get(w.resolve(each), Object)) for each in held)
    return isinstance(value, Const) and not isinstance(value.value, (str, bool))


def _holds_nothing(obj: Object | None) -> bool:
    return isinstance(obj, (Sequence, Mapping)) and not obj.items and obj.tail is None
