"""Custom ``autograd.Function`` classes: how they are defined, and whether they are applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import libcst as cst

from gradlint import events
from gradlint.facts import known
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.progress import Progress
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.values import (
    NONE,
    Class,
    Const,
    Function,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.operations import Operations

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.text.definition_units import ClassUnit

_APPLIED = Op(activation="unknown", saves="other")
_MARKED = "non_differentiable"
"""The attribute of a context that holds what was marked by its method ``mark_non_differentiable``."""


@dataclass(frozen=True, slots=True)
class _Signature:
    """What the forward of a function takes besides its context."""

    names: tuple[str, ...]
    required: int


@dataclass(frozen=True, slots=True)
class _Output:
    """What is known of one of the values that a forward returns."""

    differentiable: bool | None  #: whether it requires grad where an input does
    integral: bool | None = None
    constant: Const | None = None  #: it is no tensor but this


@dataclass(frozen=True, slots=True)
class _Outputs:
    """What a forward returns: a tensor, or a tuple of which the length is known."""

    several: bool
    each: tuple[_Output, ...]


class CustomFunctions:
    """Executes the forward and the backward of custom functions to learn what they return and keep."""

    _progress: Progress
    _witness: Witness
    _definitions: Definitions
    _calls: Calls
    _operations: Operations
    _escapes: Escapes

    def __init__(self) -> None:
        self._outputs: dict[ClassUnit, _Outputs | None] = {}

    # --- their use

    def applied(self, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``MyFunction.apply(...)``: an operation whose backward the user wrote."""
        forward = self._own(cls, "forward", w)
        if forward is not None:
            self._progress.called.add(forward.unit)
        result = self._operations.apply(_APPLIED, args, w, ctx, site)
        tensor = w.get(result, Tensor)
        if forward is None or tensor is None:
            return result
        outputs = self._learnt(cls, forward, w, ctx)
        if outputs is None or (not outputs.several and outputs.each[0].differentiable is not False):
            return result
        given = [self._output(output, tensor, w, site) for output in outputs.each]
        return w.new(Sequence(given, [None] * len(given), mutable=False)) if outputs.several else given[0]

    def _output(self, output: _Output, result: Tensor, w: World, site: Site) -> Value:
        """One of the values that an application returns; ``result`` is what it returns where nothing is known of it."""
        if output.constant is not None:
            return output.constant
        if output.differentiable is False:
            mere = replace(_data(), device=result.device, integral=output.integral, activation="none", made_at=site)
            return w.new(mere)
        new: Tensor = result.copy()
        if output.differentiable is None and new.requires_grad:
            new.requires_grad, new.is_leaf, new.doubtful = None, None, new.segments
        new.structured = output.differentiable is None
        return w.new(new)

    def called(self, owner: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Results | None:
        """Call an instance, which torch has deprecated."""
        if obj.cls is None:
            return None
        self.used(obj.cls, "instance", w, ctx, site)
        return [(w, self.applied(obj.cls, args, w, ctx, site))]

    def noted(
        self, context: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """A method of the context is called."""
        if name != "mark_non_differentiable":
            return self._escapes.call(context, args, w, ctx, site)
        given = list(args)
        w.write(context.id).attrs[_MARKED] = w.new(Sequence(given, [None] * len(given), mutable=False))
        return NONE

    def used(self, cls: Class, how: Literal["instance", "forward"], w: World, ctx: Context, site: Site) -> None:
        """An instance was called, or ``forward`` by name."""
        self._witness.send(events.FunctionUsed(site=site, function=cls.unit.name, how=how), w, ctx)

    def forward_called(self, receiver: Value, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``receiver.forward(…)``: of a function it builds no node of the graph.

        Functions that hand their own context on, and tests that bring one, mean what they write; in the forward pass of
        a module, nothing but ``apply`` is meant.
        """
        obj = w.get(receiver, Instance)
        cls = obj.cls if obj is not None else receiver
        if not isinstance(cls, Class) or self._definitions.role(cls) is not roles.FUNCTION:
            return
        here: Context | None = ctx
        while here is not None:
            if here.owner is not None and self._definitions.role(here.owner) is roles.FUNCTION:
                return
            here = here.parent
        first = w.resolve(args.get(0) or NONE)
        given = w.get(first, Instance)
        own = given is not None and (given.role is roles.CTX or not ctx.in_forward)
        if not own and not (isinstance(first, Unknown) and first.hint in ("ctx", "context")):
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
        given: list[Value] = [trial.new(Instance(name="ctx", role=roles.CTX)), trial.new(_data())]
        wanted: set[int] = set()
        for world, value in self._call(backward, cls, given, trial, ctx):
            wanted |= self._gradients(cls, backward, signature, value, world, ctx)
        self._keeps(cls, forward, context_set, signature, wanted, w, ctx)

    def _own(self, cls: Class, name: str, w: World) -> Function | None:
        found = self._definitions.attribute(cls, name, w)
        return found if isinstance(found, Function) else None

    def _defined(self, cls: Class, method: Function, w: World, ctx: Context) -> None:
        event = events.FunctionDefined(
            site=method.unit.site(method.unit.node.name),
            function=cls.unit.name,
            method=method.unit.name,
            static=known(method.kind != ""),
        )
        self._witness.send(event, w, ctx)

    def _call(self, method: Function, cls: Class, values: list[Value], w: World, ctx: Context) -> Results:
        receiver = cls if method.kind == "class" else None
        with self._progress.unseen_but_for(method.unit):
            return self._calls.function(method, Arguments(values, open=True), w, ctx, method.unit.here, receiver)

    # --- what backward returns

    def _gradients(
        self, cls: Class, backward: Function, signature: _Signature, value: Value, w: World, ctx: Context
    ) -> set[int]:
        """Tell how many gradients are returned; the positions of those that are not ``None``, if none are missing."""
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
        self._witness.send(event, w, ctx)
        if len(items) < signature.required:
            return set()  # of which inputs these were to be the gradients is not known
        return {position for position, item in enumerate(items) if item != NONE}

    def _returned_at(self, backward: Function, value: Object | None) -> Site:
        returns = list(_returns(backward.unit.node.body))
        if len(returns) == 1:
            return backward.unit.site(returns[0])
        if isinstance(value, Sequence) and value.sites and value.sites[0] is not None:
            return value.sites[0]
        return backward.unit.site(backward.unit.node.name)

    # --- what forward returns

    def _learnt(self, cls: Class, forward: Function, w: World, ctx: Context) -> _Outputs | None:
        """What the forward of a class returns for tensors, whatever they are; None where that is not known."""
        unit = cls.unit
        if unit not in self._outputs:
            self._outputs[unit] = None  # of one that applies itself
            try:
                with self._progress.uncalled():
                    self._outputs[unit] = self._returned(cls, forward, w.copy(), ctx)
            except BaseException:
                del self._outputs[unit]
                raise
        return self._outputs[unit]

    def _returned(self, cls: Class, forward: Function, w: World, ctx: Context) -> _Outputs | None:
        context_set = self._own(cls, "setup_context", w)
        signature = _signature(forward, own_context=context_set is None)
        if signature is None:
            return None
        w.grad = False
        context = w.new(Instance(name="ctx", role=roles.CTX))
        inputs: list[Value] = [w.new(_data()) for _ in signature.names]
        ends = self._forward(cls, forward, context_set, context, inputs, w, ctx)
        found = {self._described(value, context, inputs, world) for world, value in ends}
        return _agreed([outputs for outputs in found if outputs is not None]) if None not in found else None

    def _described(self, value: Value, context: Ref, inputs: list[Value], w: World) -> _Outputs | None:
        value = w.resolve(value)
        obj = w.get(value, Object)
        several = isinstance(obj, Sequence)
        if not isinstance(obj, (Sequence, Tensor)) or (isinstance(obj, Sequence) and obj.tail is not None):
            return None
        of = w.get(context, Instance)
        marks = w.get(w.resolve(of.attrs.get(_MARKED, NONE)), Sequence) if of is not None else None
        marked = [w.resolve(item) for item in marks.items] if marks is not None else []
        items = [w.resolve(item) for item in obj.items] if isinstance(obj, Sequence) else [value]
        each = []
        for item in items:
            tensor = w.get(item, Tensor)
            if isinstance(item, Const):
                each.append(_Output(None, constant=item))
            elif tensor is None or (item in inputs and item not in marked):
                each.append(_Output(None))
            else:
                each.append(_Output(item not in marked and not tensor.integral, tensor.integral))
        return _Outputs(several, tuple(each))

    def _forward(
        self,
        cls: Class,
        forward: Function,
        context_set: Function | None,
        context: Ref,
        inputs: list[Value],
        w: World,
        ctx: Context,
    ) -> Results:
        """Execute a forward, and what sets its context where that is a method of its own."""
        if context_set is None:
            return self._call(forward, cls, [context, *inputs], w, ctx)
        ends: Results = []
        for world, output in self._call(forward, cls, inputs, w, ctx):
            given = world.new(Sequence(list(inputs), [None] * len(inputs), None, None, False))
            results = self._call(context_set, cls, [context, given, output], world, ctx)
            ends += [(end, output) for end, _ in results]
        return ends

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
        context = w.new(Instance(name="ctx", role=roles.CTX))
        inputs: list[Value] = [
            w.new(_data()) if position in wanted else new_unknown("input", name)
            for position, name in enumerate(signature.names)
        ]
        ends = self._forward(cls, forward, context_set, context, inputs, w, ctx)
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
            self._witness.send(events.KeptOnContext(site=site, attribute=name, role=role), w, ctx)


def _agreed(found: list[_Outputs]) -> _Outputs | None:
    """What several ways to return have in common."""
    if len({(outputs.several, len(outputs.each)) for outputs in found}) != 1:
        return None
    each = [kinds[0] if len(set(kinds)) == 1 else _Output(None) for kinds in zip(*(o.each for o in found), strict=True)]
    return _Outputs(found[0].several, tuple(each))


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
