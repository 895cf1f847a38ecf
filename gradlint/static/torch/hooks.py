"""Forward hooks: functions that are called with what a module was given and gives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.progress import Wholeness
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.origins import Written
from gradlint.static.state.provenance import owner_of
from gradlint.static.state.reducing import reduce_results
from gradlint.static.state.values import (
    NONE,
    Bound,
    Frame,
    Function,
    Hook,
    Instance,
    Lambda,
    Mapping,
    Object,
    Partial,
    Ref,
    Sequence,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.layer_containers import stands_for_others
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations

if TYPE_CHECKING:
    from gradlint.finding import Site

_MODULE, _HOOK = "<module>", "<hook>"
_OUTPUT = Op(activation="clears", saves="other")
_MAX_HOOKS = 4  #: of one module that are called
_MAX_ENDS = 3
_FILLED = re.compile(r"\b(\w+)(?:\.(\w+)(?=\s*=(?!=))|(?:\.(\w+))?(?=(?:\[[^\]\n]*\])+\s*=(?!=)|\.append\())")
"""A variable of which an attribute is bound, or that gets another item, by itself or in an attribute."""


class Hooks:
    """Remembers the forward hooks of modules, and calls them."""

    _whole: Wholeness
    _calls: Calls
    _definitions: Definitions
    _modules: Modules
    _operations: Operations
    _witness: Witness

    def registered(self, receiver: Value, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``module.register_forward_hook(hook)``; a part of a module whose inside is not known is called with it."""
        if isinstance(receiver, Ref):
            self._pile("register_forward_hook", receiver, w, ctx, site)
        function = w.resolve(args.get(0, "hook") or NONE)
        module = receiver if isinstance(receiver, Ref) else owner_of(receiver)
        obj = w.get(module, Instance) if module is not None else None
        if obj is None or module is None or args.keywords or not self._is_callable(function, w):
            return Unknown(Written("hook", site))
        hook = Hook(function, inside=module != receiver)
        new: Instance = w.write(module.id)
        new.hooks = (*[other for other in obj.hooks if other != hook], hook)
        key = ("handle", module, function)  # of one that is registered again and again
        if key not in w.bound:
            w.bound[key] = w.new(Instance(role=roles.HOOK, attrs={_MODULE: module, _HOOK: function}), key)
        return w.bound[key]

    def handed(self, args: Arguments, w: World) -> None:
        """A hook runs whenever a pass comes by, which is not followed: what it keeps is there at some time."""
        function = w.resolve(args.get(0, "hook") or NONE)
        while isinstance(function, Partial):
            function = w.resolve(function.function)
        if isinstance(function, Bound) and isinstance(receiver := w.resolve(function.receiver), Ref):
            obj = w.get(receiver, Instance)
            method = self._definitions.attribute(obj.cls, function.name, w) if obj is not None and obj.cls else None
            for name in sorted(method.unit.filled_attributes) if isinstance(method, Function) else ():
                self._keeps(receiver, name, w)
        elif isinstance(function, Function):
            for variable, bound, filled in sorted(set(_FILLED.findall(function.unit.text))):
                owner = self._around(function, variable, w)
                if isinstance(owner, Ref):
                    self._keeps(owner, bound or filled, w)

    def _keeps(self, owner: Ref, name: str, w: World) -> None:
        """A hook puts something into an attribute, or into what that holds; without one, into the object itself."""
        obj = w.get(owner, Instance)
        kept = w.resolve(obj.attrs.get(name, NONE)) if obj is not None and name else owner
        several = w.get(kept, Object)
        if isinstance(several, (Sequence, Mapping)) and isinstance(kept, Ref):
            if several.tail is None:
                w.write(kept.id).tail = new_unknown("kept", name)
        elif kept == NONE and obj is not None and obj.cls is not None:
            w.write(owner.id).attrs[name] = new_unknown("kept", name)

    def _around(self, function: Function, variable: str, w: World) -> Value:
        """What a variable around a function stands for."""
        frame = w.find(function.frame)
        while isinstance(frame, Frame) and variable not in frame.vars:
            frame = w.find(frame.parent) if frame.parent is not None else None
        return w.resolve(frame.vars[variable]) if isinstance(frame, Frame) else NONE

    def watched(self, receiver: Ref, method: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """A hook that is called before a forward pass, or by a backward pass, which are not followed there."""
        self._pile(method, receiver, w, ctx, site)
        function = w.resolve(args.get(0, "hook") or NONE)
        return w.new(Instance(role=roles.HOOK, attrs={_MODULE: receiver, _HOOK: function}))

    def _pile(self, method: str, module: Ref, w: World, ctx: Context, site: Site) -> None:
        """Another hook is registered: tell whether one is there that was registered at this place before."""
        obj = w.get(module, Instance)
        if obj is None or not self._witness.listened(events.HookRegistered):
            return
        piled = site in obj.hooked_at and not stands_for_others(module, w)
        self._witness.send(events.HookRegistered(site=site, method=method, piled=known(piled)), w, ctx)
        w.write(module.id).hooked_at |= {site}

    def may_be_removed(self, w: World, of: Ref | None = None) -> None:
        """Something is removed that may be a hook of a module, of any if it is not known which."""
        for module in [of] if of is not None else [Ref(key) for key, _ in w.all(Instance)]:
            obj = w.get(module, Instance)
            if obj is not None and obj.hooked_at:
                for site in obj.hooked_at:
                    self._witness.withdraw(events.HookRegistered, site)
                w.write(module.id).hooked_at = frozenset()

    def _is_callable(self, function: Value, w: World) -> bool:
        """Whether a value is a function of the project, or an object of a class that is called as one."""
        if isinstance(function, (Function, Bound, Lambda, Partial)):
            return True
        obj = w.get(function, Instance)
        if obj is None or obj.cls is None or obj.role is not roles.PLAIN:
            return False
        return isinstance(self._definitions.attribute(obj.cls, "__call__", w), Function)

    def method(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        """Call a method of what removes a hook."""
        if name != "remove":
            return None
        self.removed(obj, w)
        return NONE

    def removed(self, handle: Instance, w: World) -> None:
        """``handle.remove()``; one that stands for several removes what any of them may."""
        module, function = w.resolve(handle.attrs[_MODULE]), w.resolve(handle.attrs[_HOOK])
        one = module if isinstance(module, Ref) and w.get(module, Instance) is not None else None
        self.may_be_removed(w, None if one is None or stands_for_others(one, w) else one)
        for each in [module] if w.get(module, Instance) is not None else [Ref(key) for key, _ in w.all(Instance)]:
            obj = w.get(each, Instance)
            if obj is not None and obj.hooks and isinstance(each, Ref):
                kept = [hook for hook in obj.hooks if each == module and hook.function != function]
                w.write(each.id).hooks = tuple(kept)

    def forgotten(self, module: Ref, w: World) -> None:
        """The hooks of a module are taken in hand by the program: which there are from now on is not known."""
        self.may_be_removed(w)
        obj = w.get(module, Instance)
        if obj is not None and obj.hooks:
            w.write(module.id).hooks = ()

    def called(self, module: Ref, args: Arguments, results: Results, ctx: Context, site: Site) -> Results:
        """A module was called: its hooks are, in the order in which they were registered."""
        ends: Results = []
        for world, value in results:
            obj = world.get(module, Instance)
            some = [(world, value)]
            if obj is not None and obj.hooks:
                with self._whole.partly():
                    for hook in obj.hooks[:_MAX_HOOKS]:
                        some = self._each(hook, module, args, some, ctx.at(site, "hook"), site)
            ends += some
        return ends

    def _each(self, hook: Hook, module: Ref, args: Arguments, ends: Results, ctx: Context, site: Site) -> Results:
        results: Results = []
        for world, value in ends:
            inputs, output = list(args.positional), value
            if hook.inside:  # what a part is given, and gives, is not what the model does
                inputs = [Unknown(Written("input", site))]
                groups = self._modules.groups(module, world)
                output = self._operations.apply(_OUTPUT, args, world, ctx, site, parameters=groups)
            given = world.new(Sequence(inputs, [None] * len(inputs), mutable=False))
            for end, returned in self._calls.call(hook.function, Arguments([module, given, output]), world, ctx, site):
                results.append((end, value if hook.inside or end.resolve(returned) == NONE else returned))
        return reduce_results(results, _MAX_ENDS)


__all__ = ["Hooks"]
