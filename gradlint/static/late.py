"""Attributes that methods set which have not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.context import Arguments, Context
from gradlint.static.values import Class, Function, Group, Instance, Ref, Value
from gradlint.static.world import World

if TYPE_CHECKING:
    from gradlint.static.interpreter import Interpreter
    from gradlint.static.units import Unit


class LateAttributes:
    """Runs methods aside, to learn what they would set."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self._running: set[tuple[Unit, str]] = set()

    @property
    def running(self) -> bool:
        """Whether a method runs aside now: when it will run in earnest, if ever, is not known."""
        return bool(self._running)

    def get(self, owner: Ref, cls: Class, name: str, w: World, ctx: Context) -> Value | None:
        """What an attribute would be if a method that sets it had run; None if none sets it."""
        for here in self.m.definitions.mro(cls):
            for method in here.unit.methods.values():
                if name not in method.assigned_attributes or (method, name) in self._running or ctx.calls(method):
                    continue
                function = self.m.definitions.attribute(cls, method.name, w)
                if not isinstance(function, Function) or function.unit is not method:
                    continue
                value = self._aside(owner, function, name, w, ctx)
                if value is not None:
                    return value
        return None

    def _aside(self, owner: Ref, function: Function, name: str, w: World, ctx: Context) -> Value | None:
        self._running.add((function.unit, name))
        was_called = function.unit in self.m.called
        muted, self.m.witness.muted = self.m.witness.muted, True
        scratch = w.copy()
        try:
            results = self.m.calls.function(function, Arguments(open=True), scratch, ctx, ctx.unit.here, owner)
            if not results:
                return None
            self.m.calls.joined(results, scratch)
        finally:
            self.m.witness.muted = muted
            self._running.discard((function.unit, name))
            if not was_called:
                self.m.called.discard(function.unit)
        obj = scratch.get(owner, Instance)
        value = obj.attrs.get(name) if obj is not None else None
        if value is None:
            return None
        value = scratch.resolve(value)
        made = [key for key, late in scratch.heap.items() if isinstance(late, Group) and w.find(key) is None]
        w.adopt(scratch.heap)
        self.m.escapes.doubt(made, [], w)
        new = w.write(owner.id)
        for other, late in obj.attrs.items() if obj is not None else ():
            # One run gives them all: an optimizer holds the parameters of the model that was set beside it.
            new.attrs.setdefault(other, scratch.resolve(late))
        new.attrs[name] = value
        return value
