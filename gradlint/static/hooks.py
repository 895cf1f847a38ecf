"""Forward hooks: functions that are called with what a module was given and gives."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from gradlint.static.context import Arguments, Context
from gradlint.static.joining import reduce_results
from gradlint.static.ops import Op
from gradlint.static.outcome import Results
from gradlint.static.values import NONE, Bound, Function, Instance, Lambda, Partial, Ref, Sequence, Unknown, Value
from gradlint.static.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.interpreter import Interpreter

_OF_MODULE, _INSIDE = "<forward hooks>", "<forward hooks inside>"
_MODULE, _HOOK = "<module>", "<hook>"
_OUTPUT = Op(activation="clears", saves="other")
_MAX_HOOKS = 4  #: of one module that are called
_MAX_ENDS = 3


class Hooks:
    """Remembers the forward hooks of modules, and calls them."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

    def registered(self, receiver: Value, args: Arguments, w: World, site: Site) -> Value:
        """``module.register_forward_hook(hook)``; a part of a module whose inside is not known is called with it."""
        hook = w.resolve(args.get(0, "hook") or NONE)
        module, slot = (receiver, _OF_MODULE) if isinstance(receiver, Ref) else (_owner(receiver), _INSIDE)
        obj = w.get(module, Instance) if module is not None else None
        if obj is None or not isinstance(module, Ref) or not isinstance(hook, (Function, Bound, Lambda, Partial)):
            return Unknown(("hook", site))
        hooks = [*self._hooks(obj, slot, w), hook]
        w.write(module.id).attrs[slot] = w.new(Sequence(hooks, [None] * len(hooks)))
        return w.new(Instance(kind="hook", attrs={_MODULE: module, _HOOK: hook}), (site, hook, "hook"))

    def removed(self, handle: Instance, w: World) -> None:
        """``handle.remove()``; of several that are not told apart, all are."""
        module, hook = w.resolve(handle.attrs[_MODULE]), w.resolve(handle.attrs[_HOOK])
        modules = [module] if w.get(module, Instance) is not None else [Ref(key) for key in list(w.heap)]
        for each in modules:
            obj = w.get(each, Instance)
            for slot in (_OF_MODULE, _INSIDE) if obj is not None else ():
                if obj is not None and slot in obj.attrs and isinstance(each, Ref):
                    kept = [other for other in self._hooks(obj, slot, w) if isinstance(module, Ref) and other != hook]
                    w.write(each.id).attrs[slot] = w.new(Sequence(kept, [None] * len(kept)))

    def called(self, module: Ref, args: Arguments, results: Results, ctx: Context, site: Site) -> Results:
        """A module was called: its hooks are, in the order in which they were registered."""
        ends: Results = []
        for world, value in results:
            obj = world.get(module, Instance)
            inside = self._hooks(obj, _INSIDE, world) if obj is not None else []
            whole = self._hooks(obj, _OF_MODULE, world) if obj is not None else []
            if not inside and not whole:
                ends.append((world, value))
                continue
            with self.m.flow.partly():
                some = [(world, value)]
                for hook in [*inside, *whole][:_MAX_HOOKS]:
                    some = self._each(hook, module, args, some, hook in whole, ctx.at(site, "hook"), site)
            ends += some
        return ends

    def _each(
        self, hook: Value, module: Ref, args: Arguments, ends: Results, whole: bool, ctx: Context, site: Site
    ) -> Results:
        results: Results = []
        for world, value in ends:
            inputs, output = list(args.positional), value
            if not whole:  # what a part is given, and gives, is not what the model does
                inputs = [Unknown(("input", site))]
                groups = self.m.modules.groups(module, world)
                output = self.m.tensors.apply(_OUTPUT, args, world, ctx, site, parameters=groups)
            given = world.new(Sequence(inputs, [None] * len(inputs), mutable=False))
            for end, returned in self.m.calls.call(hook, Arguments([module, given, output]), world, ctx, site):
                results.append((end, returned if whole and end.resolve(returned) != NONE else value))
        return reduce_results(results, _MAX_ENDS)

    def _hooks(self, obj: Instance, slot: str, w: World) -> list[Value]:
        held = w.get(w.resolve(obj.attrs.get(slot, NONE)), Sequence)
        return [] if held is None else [w.resolve(hook) for hook in held.items]


def _owner(part: Value) -> Ref | None:
    """The object that an unknown value is read from, as attribute or item of a part of it."""
    key: Hashable = part.key if isinstance(part, Unknown) else None
    while isinstance(key, tuple) and len(key) == 3 and key[0] in ("attribute", "item"):
        key = key[1]
    return key if isinstance(key, Ref) else None


__all__ = ["Hooks"]
