"""Custom ``autograd.Function`` classes: how they are defined, and whether they are applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import libcst as cst

from gradlint import events
from gradlint.facts import known
from gradlint.static.context import Arguments, Context
from gradlint.static.values import (
    NONE,
    Class,
    Function,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.world import World, fresh

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.interpreter import Interpreter
    from gradlint.static.outcome import Results


@dataclass(frozen=True, slots=True)
class _Signature:
    """What the forward of a function takes besides its context."""

    names: tuple[str, ...]
    required: int


class CustomFunctions:
    """Executes the forward and the backward of custom functions to learn what they return and keep."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

    # --- their use

    def used(self, cls: Class, how: Literal["instance", "forward"], w: World, ctx: Context, site: Site) -> None:
        """An instance was called, or ``forward`` by name."""
        self.m.witness.send(events.FunctionUsed(site=site, function=cls.unit.name, how=how), w, ctx)

    def forward_called(self, receiver: Value, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``receiver.forward(…)``: of a function it builds no node of the graph.

        Functions that hand their own context on, and tests that bring one, mean what they write.
        """
        obj = w.get(receiver, Instance)
        cls = obj.cls if obj is not None else receiver
        if not isinstance(cls, Class) or self.m.definitions.kind(cls) != "function":
            return
        here: Context | None = ctx
        while here is not None:
            if here.owner is not None and self.m.definitions.kind(here.owner) == "function":
                return
            here = here.parent
        first = w.resolve(args.get(0) or NONE)
        if w.get(first, Instance) is None and not (isinstance(first, Unknown) and first.hint in ("ctx", "context")):
            self.used(cls, "forward", w, ctx, site)

    # --- their definition

    def examine(self, cls: Class, w: World, ctx: Context) -> None:
        """Tell what is known of a class that derives from ``autograd.Function``."""
        forward, backward = self._own(cls, "forward", w), self._own(cls, "backward", w)
        methods = [m for m in (forward, backward) if m is not None and m.owner == cls]
        if methods:
            self._defined(cls, next((m for m in methods if m.kind == ""), methods[0]), w, ctx)
        if forward is None or backward is None or cls not in (forward.owner, backward.owner):
            return
        context_set = self._own(cls, "setup_context", w)
        signature = _signature(forward, own_context=context_set is None)
        if signature is None:
            return
        w.grad = False
        trial = w.copy()
        given: list[Value] = [trial.new(Instance(name="ctx", kind="ctx")), trial.new(_data())]
        wanted: set[int] = set()
        for world, value in self._call(backward, cls, given, trial, ctx):
            wanted |= self._gradients(cls, backward, signature, value, world, ctx)
        self._keeps(cls, forward, context_set, signature, wanted, w, ctx)

    def _own(self, cls: Class, name: str, w: World) -> Function | None:
        found = self.m.definitions.attribute(cls, name, w)
        return found if isinstance(found, Function) else None

    def _defined(self, cls: Class, method: Function, w: World, ctx: Context) -> None:
        event = events.FunctionDefined(
            site=method.unit.site(method.unit.node.name),
            function=cls.unit.name,
            method=method.unit.name,
            static=known(method.kind != ""),
        )
        self.m.witness.send(event, w, ctx)

    def _call(self, method: Function, cls: Class, values: list[Value], w: World, ctx: Context) -> Results:
        muted, self.m.witness.muted = self.m.witness.muted, True
        was_called = method.unit in self.m.called
        try:
            site = method.unit.here
            receiver = cls if method.kind == "class" else None
            return self.m.calls.function(method, Arguments(values, open=True), w, ctx, site, receiver)
        finally:
            self.m.witness.muted = muted
            if not was_called:
                self.m.called.discard(method.unit)

    # --- what backward returns

    def _gradients(
        self, cls: Class, backward: Function, signature: _Signature, value: Value, w: World, ctx: Context
    ) -> set[int]:
        """Tell how many gradients are returned; the positions of those that are not ``None``."""
        value = w.resolve(value)
        obj = w.get(value, Object)
        items: list[Value] | None = None
        if isinstance(obj, Sequence) and obj.tail is None:
            items = [w.resolve(item) for item in obj.items]
        elif isinstance(obj, Tensor):
            items = [value]
        if items is None:
            return set()
        used = len(items)
        while used and items[used - 1] == NONE:
            used -= 1
        event = events.GradientsReturned(
            site=self._returned_at(backward, obj),
            function=cls.unit.name,
            required=signature.required,
            inputs=len(signature.names),
            given=known(len(items)),
            used=known(used),
        )
        self.m.witness.send(event, w, ctx)
        return {position for position, item in enumerate(items) if item != NONE}

    def _returned_at(self, backward: Function, value: Object | None) -> Site:
        returns = list(_returns(backward.unit.node.body))
        if len(returns) == 1:
            return backward.unit.site(returns[0])
        if isinstance(value, Sequence) and value.sites and value.sites[0] is not None:
            return value.sites[0]
        return backward.unit.site(backward.unit.node.name)

    # --- what forward keeps

    def _keeps(
        self,
        cls: Class,
        forward: Function,
        context_set: Function | None,
        signature: _Signature,
        wanted: set[int],
        w: World,
        ctx: Context,
    ) -> None:
        context = w.new(Instance(name="ctx", kind="ctx"))
        inputs: list[Value] = [
            w.new(_data()) if position in wanted else Unknown(("input", fresh()), name)
            for position, name in enumerate(signature.names)
        ]
        if context_set is None:
            ends = self._call(forward, cls, [context, *inputs], w, ctx)
        else:
            ends = []
            for world, output in self._call(forward, cls, inputs, w, ctx):
                given = world.new(Sequence(list(inputs), [None] * len(inputs), None, None, False))
                results = self._call(context_set, cls, [context, given, output], world, ctx)
                ends += [(end, output) for end, _ in results]
        for world, output in ends:
            self._kept(context, {v.id for v in inputs if isinstance(v, Ref)}, output, world, ctx)

    def _kept(self, context: Ref, inputs: set[int], output: Value, w: World, ctx: Context) -> None:
        obj = w.get(context, Instance)
        if obj is None:
            return
        outputs = {v.id for v in _tensors(output, w)}
        for name, value in obj.attrs.items():
            site = obj.set_at.get(name)
            found = {v.id for v in _tensors(value, w)}
            if site is None or not found:
                continue
            role = "input" if found & inputs else "output" if found & outputs else ""
            self.m.witness.send(events.KeptOnContext(site=site, attribute=name, role=role), w, ctx)


def _data() -> Tensor:
    """A tensor as a function sees it: without its graph."""
    return Tensor(requires_grad=False, is_leaf=True, is_parameter=False, open=False)


def _tensors(value: Value, w: World) -> Iterator[Ref]:
    value = w.resolve(value)
    obj = w.get(value, Object)
    if isinstance(obj, Tensor) and isinstance(value, Ref):
        yield value
    elif isinstance(obj, (Sequence, Mapping)):
        for item in obj.items.values() if isinstance(obj, Mapping) else obj.items:
            inner = w.resolve(item)
            if isinstance(inner, Ref) and w.get(inner, Tensor) is not None:
                yield inner


def _signature(forward: Function, own_context: bool) -> _Signature | None:
    """The inputs of a forward; None where it takes any number of them."""
    params = forward.unit.node.params
    if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params:
        return None
    every = [*params.posonly_params, *params.params]
    skipped = (1 if forward.kind == "class" else 0) + (1 if own_context else 0)
    taken = every[skipped:]
    return _Signature(tuple(p.name.value for p in taken), sum(p.default is None for p in taken))


def _returns(node: cst.CSTNode) -> Iterator[cst.Return]:
    for child in node.children:
        if isinstance(child, cst.Return):
            yield child
        elif not isinstance(child, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            yield from _returns(child)
