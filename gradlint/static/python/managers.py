"""``with``: what context managers do before and after what stands in them, however that is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.python.binding import Binding
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.flow import Flow
from gradlint.static.python.progress import Progress, Wholeness
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Outcome
from gradlint.static.state.joining import join, joined
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import NONE, Choice, Class, Frame, Function, Instance, Partial, Value, each_of
from gradlint.static.state.world import World

if TYPE_CHECKING:
    import libcst as cst


_Inside = Callable[[World, Value], list[World]]
"""Executes what stands in a ``with``, with what the manager gives, in a world that goes on where that ends.

Returned are the other worlds in which it is left, which the manager has to come to as well.
"""
_Manage = Callable[[_Inside, World, Context], list[World]]
"""Executes what a manager does before and after that; returned are the worlds in which the statement ends."""


class Managers:
    """Executes ``with`` statements."""

    _domain: Domain
    _execution: Execution
    _progress: Progress
    _whole: Wholeness
    _witness: Witness
    _definitions: Definitions
    _calls: Calls
    _flow: Flow
    _binding: Binding

    def run(self, node: cst.With, w: World, ctx: Context) -> Outcome:
        """A whole statement."""
        return self._items(list(node.items), node, w, ctx)

    def _items(self, items: list[cst.WithItem], node: cst.With, w: World, ctx: Context) -> Outcome:
        if not items:
            return self._flow.block(node.body.body, [w], ctx)
        before = w.grad
        manager = w.resolve(self._execution.evaluate(items[0].item, w, ctx))
        if not isinstance(manager, Choice):
            return self._within(manager, before, items, node, w, ctx)
        out = Outcome()
        for alternative, world in w.alternatives(manager):
            with self._whole.partly():
                branch = self._within(alternative, before, items, node, world, ctx)
            out.normal += branch.normal
            out.absorb(branch)
        return out

    def _within(
        self, manager: Value, before: bool | None, items: list[cst.WithItem], node: cst.With, w: World, ctx: Context
    ) -> Outcome:
        def body(world: World, value: Value) -> Outcome:
            target = items[0].asname
            if target is not None:
                self._flow.bind(target.name, value, world, ctx, target.name)
            return self._items(items[1:], node, world, ctx)

        obj = w.get(manager, Instance)
        role = obj.role if obj is not None else roles.PLAIN
        if (
            isinstance(manager, Partial)
            and isinstance(manager.function, Function)
            and manager.function.kind == "context"
        ):
            out = self._around(partial(self._generator, manager.function, manager), body, w, ctx)
        elif obj is not None and obj.cls is not None:
            out = self._around(partial(self._object, manager, obj.cls), body, w, ctx)
        elif role is roles.EXPECTING:
            out = self._raising(manager, body, w)
        else:
            if obj is not None and role is roles.GRAD_MODE:
                w.grad = obj.grad
            out = body(w, manager)
        exits = out.exits
        for world in [*out.normal, *exits] if role.sets_grad_mode else exits:
            world.grad = before
        if obj is not None:
            for world in [*out.normal, *exits]:
                self._domain.escapes.left(obj, world)
        return out

    def entered(self, manager: Value, w: World) -> None:
        """A stack of managers enters one more: the gradient mode is what that sets, until the stack is left."""
        manager = w.resolve(manager)
        modes = {self._mode(w.resolve(alternative), w) for alternative in each_of(manager)}
        w.grad = modes.pop() if len(modes) == 1 else None

    def _mode(self, manager: Value, w: World) -> bool | None:
        """The gradient mode inside of a manager, which is not known of those that the project writes itself."""
        obj = w.get(manager, Instance)
        if obj is not None and obj.role is roles.GRAD_MODE:
            return obj.grad
        return None if isinstance(manager, Partial) or (obj is not None and obj.cls is not None) else w.grad

    def _raising(self, manager: Value, body: Callable[[World, Value], Outcome], w: World) -> Outcome:
        """Run a body that is meant to raise: nothing is told of it, and how far it comes is not known."""
        before = w.copy()
        muted, self._witness.muted = self._witness.muted, True
        try:
            out = body(w, manager)
        finally:
            self._witness.muted = muted
        out.normal = [reduce(join, out.normal, before)]
        return out

    # --- those of the project

    def _around(self, manage: _Manage, body: Callable[[World, Value], Outcome], w: World, ctx: Context) -> Outcome:
        """Run a body inside of code that runs before it, and after each way out of it."""
        out = Outcome()
        left: dict[tuple[str, int], World | None] = {}  #: by what marks the worlds that go on for one that was left

        def inside(world: World, value: Value) -> list[World]:
            result = body(world.copy(), value)
            out.absorb(result)
            exits = result.exits
            if result.normal:  # what a branch in it has decided is known behind it, too
                goes_on, *others = self._flow.fewer(result.normal)
                world.become(goes_on)
                out.normal += others
                return [*others, *exits]
            first = exits[0] if exits else None
            if first is not None:
                world.become(first.copy())
            mark = ("left", fresh())
            left[mark], world.assumed[mark] = first, True
            return exits[1:]

        with self._whole.partly():  # a generator may yield at several places
            ends = manage(inside, w, ctx)
        gone: dict[tuple[str, int], list[World]] = {}
        for end in ends:
            marks = [mark for mark in left if end.assumed.drop(mark)]
            if marks:
                gone.setdefault(marks[0], []).append(end)
            else:
                out.normal.append(end)
        for mark, worlds in gone.items():
            _go_on(left[mark], worlds)
        return out

    def _object(self, manager: Value, cls: Class, inside: _Inside, w: World, ctx: Context) -> list[World]:
        """An object with ``__enter__`` and ``__exit__``."""
        enter = self._definitions.attribute(cls, "__enter__", w)
        leave = self._definitions.attribute(cls, "__exit__", w)
        site = ctx.unit.here
        value: Value = manager
        if isinstance(enter, Function):
            value = joined(self._calls.function(enter, Arguments(), w, ctx, site, manager), w)
        others = inside(w, value)
        if not isinstance(leave, Function):
            return [w]

        def left(world: World) -> list[World]:
            nothing = Arguments([NONE, NONE, NONE])
            return [end for end, _ in self._calls.function(leave, nothing, world, ctx, site, manager)]

        for other in others:
            _go_on(other, left(other.copy()))
        return left(w)

    def _generator(self, fn: Function, manager: Partial, inside: _Inside, w: World, ctx: Context) -> list[World]:
        """A function that yields once, executed once more for each other way out of the body."""
        unit = fn.unit
        frame = w.new(Frame({}, fn.frame))
        others: list[World] = []
        here = Context(
            unit.module,
            unit,
            frame.id,
            ctx.at("with", unit).key,
            ctx.depth + 1,
            ctx,
            fn,
            fn.owner,
            manager.args[0] if fn.owner is not None and manager.args else None,
            ctx.in_forward,
            ctx.peeled,
            phase=ctx.phase,
            on_yield=lambda world, value: others.extend(inside(world, value)),
        )
        self._progress.enters(unit)
        self._binding.bind(fn, Arguments(list(manager.args), dict(manager.kwargs)), w, here)
        start = w.copy()
        ends = [world for world, _ in self._calls.body(unit, w, here)]
        for other in others:
            resumed = here._replace(on_yield=_becoming(other))
            _go_on(other, [world for world, _ in self._calls.body(unit, start.copy(), resumed)])
        return ends


def _becoming(other: World) -> Callable[[World, Value], None]:
    return lambda world, value: world.become(other.copy())


def _go_on(world: World | None, ends: list[World]) -> None:
    """Let a world be what became of it."""
    if world is not None and ends:
        world.become(reduce(join, ends))


__all__ = ["Managers"]
