"""Calls: follows functions, methods and classes of the project with their real arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as AbstractSequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.python.binding import Binding
from gradlint.static.python.budget import Budget
from gradlint.static.python.choices import Choices, Decisions, Dispatch
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.progress import Coverage, Idleness, Nested, Progress, Wholeness
from gradlint.static.python.streams import Streams
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import forget
from gradlint.static.state.context import MAX_EXITS, Arguments, Context, Outcome, Results
from gradlint.static.state.joining import join_results, joined
from gradlint.static.state.origins import AnotherThan, Parameter, fresh
from gradlint.static.state.reducing import reduce_results
from gradlint.static.state.values import (
    NONE,
    OPEN,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Frame,
    Function,
    Group,
    Instance,
    Lambda,
    Partial,
    Ref,
    Sequence,
    Super,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.reach import Reach
from gradlint.static.text.units import Unit

if TYPE_CHECKING:
    from gradlint.finding import Site

MAX_DEPTH = 28
_MUCH = 200  #: a call that makes so many objects and unknown values is cleaned up after
_PIECE = 200  #: statements of a body, after which that may be done meanwhile
_SHARE = 8  #: it is where as many objects were made as one in so many that there were
MAX_RECURSION = 2


class Calls:
    """Binds arguments and executes bodies."""

    _budget: Budget
    _coverage: Coverage
    _domain: Domain
    _execution: Execution
    _idleness: Idleness
    _progress: Progress
    _reach: Reach
    _whole: Wholeness
    _witness: Witness
    _nested: Nested
    _definitions: Definitions
    _dispatch: Dispatch
    _choices: Choices
    _decisions: Decisions
    _dicts: DictObjects
    _binding: Binding
    _streams: Streams

    def __init__(self) -> None:
        self._trainable: set[Unit] = set()  #: classes of modules that turned out to have parameters

    # --- from syntax

    def call_node(self, node: cst.Call, w: World, ctx: Context) -> Results:
        """Evaluate a call expression."""
        site = ctx.site(node)
        if type(node.func) is cst.Attribute:
            if type(node.func.value) is not cst.IfExp:
                return self._method_node(node, node.func, self._execution.evaluate(node.func.value, w, ctx), w, ctx)
            ways = self._execution.alternatives(node.func.value, w, ctx)
            results = [end for world, value in ways for end in self._method_node(node, node.func, value, world, ctx)]
            return reduce_results(results, MAX_EXITS)
        if type(node.func) is cst.Name and node.func.value == "super":
            return [(w, self._super(node, w, ctx))]
        callee = w.resolve(self._execution.evaluate(node.func, w, ctx))
        args = self._binding.arguments(node, w, ctx)
        return self.call(callee, args, w, ctx, site)

    def _method_node(self, node: cst.Call, func: cst.Attribute, receiver: Value, w: World, ctx: Context) -> Results:
        """Evaluate the call of a method, the receiver of which is known already."""
        site, name = ctx.site(node), func.attr.value
        args = self._binding.arguments(node, w, ctx)
        receiver = w.resolve(receiver)
        if name == "forward":
            by = func.value.value if isinstance(func.value, cst.Name) else ""
            self._domain.calls.forward(receiver, by, args, w, ctx, site)
        return self.method(receiver, name, args, w, ctx, site)

    def _super(self, node: cst.Call, w: World, ctx: Context) -> Value:
        here: Context | None = ctx
        while here is not None and here.owner is None:
            here = here.parent
        if here is None or here.receiver is None or here.owner is None:
            return new_unknown("super")
        owner = here.owner
        if len(node.args) == 2:
            named = w.resolve(self._execution.evaluate(node.args[0].value, w, ctx))
            self._domain.calls.named(named, here.receiver, owner, w, ctx, ctx.site(node))
            if isinstance(named, Class):
                owner = named
            elif isinstance(named, External) and named.name in self._domain.names.roots:
                return new_unknown("super")  # what comes after that: not its __init__
        return Super(owner, here.receiver)

    # --- by value

    def method(self, receiver: Value, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call ``receiver.name(...)``."""
        receiver = self._choices.used(receiver, w)
        if isinstance(receiver, Choice):
            with self._whole.partly():
                return self._each(receiver, w, lambda value, world: self.method(value, name, args, world, ctx, site))
        if isinstance(receiver, (Unknown, Const)):
            attribute = w.resolve(self._execution.get_attribute(receiver, name, w, ctx, site))
            if isinstance(attribute, (Unknown, Bound)):
                return [(w, self._domain.calls.method(receiver, name, args, w, ctx, site))]
            return self.call(attribute, args, w, ctx, site)
        if isinstance(receiver, Super) and name == "__init__":
            return self._domain.building.super_called(receiver, args, w, ctx, site)
        if isinstance(receiver, Ref):
            self._domain.calls.recognised(receiver, name, w, site)
        attribute = w.resolve(self._execution.get_attribute(receiver, name, w, ctx, site))
        attribute = self._domain.calls.prepared(attribute, w, site)
        if isinstance(attribute, Unknown) and isinstance(receiver, (Ref, Super)):
            part = self._domain.calls.part(attribute, args, w, ctx, site)
            return [(w, part or self._domain.calls.method(receiver, name, args, w, ctx, site))]
        return self.call(attribute, args, w, ctx, site)

    def call(self, callee: Value, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call any value."""
        callee = self._domain.calls.prepared(w.resolve(callee), w, site)
        if isinstance(callee, Function):
            return self.function(callee, args, w, ctx, site)
        if isinstance(callee, Bound) and callee.function is not None:
            act = partial(self.function, callee.function, args, w, ctx, site, callee.receiver)
            return self._domain.calls.followed(callee, args, w, ctx, site, act)
        with self._whole.partly():  # who calls functions in turn may do so several times
            return self._indirect(callee, args, w, ctx, site)

    def _indirect(self, callee: Value, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call a value that is no function of the project."""
        if isinstance(callee, Choice):
            return self._each(callee, w, lambda value, world: self.call(value, args, world, ctx, site))
        if isinstance(callee, Bound):
            return [(w, self._domain.calls.method(callee.receiver, callee.name, args, w, ctx, site))]
        if isinstance(callee, Class):
            made = self._definitions.made_by_metaclass(callee, args, w, ctx, site)
            return self.instantiate(callee, args, w, ctx, site) if made is None else made
        if isinstance(callee, Lambda):
            return self._lambda(callee, args, w, ctx, site)
        if isinstance(callee, Partial):
            merged = replace(args.behind(*callee.args), keywords={**dict(callee.kwargs), **args.keywords})
            before, w.module_checked = w.module_checked, w.module_checked or callee.checked
            results = self.call(callee.function, merged, w, ctx, site)
            for world, _ in results:
                world.module_checked = before
            return results
        if isinstance(callee, External):
            return self._domain.calls.external(callee.name, args, w, ctx, site)
        if isinstance(callee, Ref):
            return self._instance(callee, args, w, ctx, site)
        if isinstance(callee, Unknown):
            return self._unknown(callee, args, w, ctx, site)
        return [(w, self._domain.escapes.call(callee, args, w, ctx, site))]

    def _unknown(self, callee: Unknown, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call a value of which nothing is known, or that may be a few methods: each of these, or something else.

        Whatever it is, it is when it is called again.
        """
        part = self._domain.calls.part(callee, args, w, ctx, site)
        if part is not None:
            return [(w, part)]
        results: Results = []
        for receiver, method in self._dispatch.methods(callee, args, w, ctx.unit.module):
            world = w.copy()
            world.bound[callee.key] = Bound(receiver, method.unit.name, method)
            results += self.function(method, args, world, ctx, site, receiver)
        if results:
            w.bound[callee.key] = Unknown(AnotherThan(callee.key), callee.hint, callee.deps)
        results.append((w, self._domain.escapes.call(callee, args, w, ctx, site)))
        return reduce_results(results, MAX_EXITS)

    def _each(self, choice: Choice, w: World, act: Callable[[Value, World], Results]) -> Results:
        results: Results = []
        for alternative, world in w.alternatives(choice):
            self._domain.values.decided(choice, alternative, world)
            results += act(alternative, world)
        return reduce_results(results, MAX_EXITS)

    def _instance(self, callee: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        obj = w.get(callee, Instance)
        if obj is None:
            return [(w, self._domain.escapes.call(callee, args, w, ctx, site))]
        known = self._domain.calls.instance(callee, obj, args, w, ctx, site)
        if known is not None:
            return known
        if obj.cls is not None:
            method = self._definitions.attribute(obj.cls, "__call__", w)
            if isinstance(method, Function):
                return self.function(method, args, w, ctx, site, callee)
        if obj.role is roles.DECORATOR:
            return [(w, args.get(0) or NONE)]
        return [(w, self._domain.escapes.call(callee, args, w, ctx, site))]

    # --- bodies

    def function(
        self, fn: Function, args: Arguments, w: World, ctx: Context, site: Site, receiver: Value | None = None
    ) -> Results:
        """Execute the body of a function of the project."""
        unit, own = fn.unit, _is_followed_for_itself(fn.unit, ctx)
        if not (too_costly := self._budget.is_opaque(unit) and not own):  # else it is followed by itself
            self._progress.enters(unit)
        self._progress.calls(unit, recorded=w.grad is True, in_mode=w.module_checked)
        if fn.kind == "context":
            bound = [receiver, *args.positional] if receiver is not None else args.positional
            return [(w, Partial(fn, tuple(bound), tuple(args.keywords.items())))]
        if receiver is None and fn.owner is not None and fn.kind == "" and args.positional:
            # Called through the class: ``Base.__init__(self, …)``.
            first = w.resolve(args.positional[0])
            if w.get(first, Instance) is not None:
                receiver, args = first, replace(args, positional=args.positional[1:])
        if isinstance(receiver, Ref) and self._is_to_be_replaced(fn, receiver, w):
            return [(w, self._domain.escapes.call(receiver, args, w, ctx, site, method=unit.name))]
        if receiver is not None and fn.kind != "static":
            args = args.behind(receiver)
        forward, entered = self._is_forward(fn, receiver, w), ctx.calls(unit)
        far = ctx.depth >= MAX_DEPTH or entered >= MAX_RECURSION
        if entered and not forward:
            self._budget.leads_back(unit, ctx.since(unit))
        far = far or self._budget.circles(unit)
        data = self._idleness.carries_data(unit, (fn, *args), w)
        if too_costly or (data and self._idleness.is_idle(unit, w) and not own):
            return [(w, self._by_header(fn, args, w, ctx, site))]
        if far or self._tires(unit, args, w, forward) or not unit.is_readable:
            return [(w, self._domain.escapes.call(fn, args, w, ctx, site))]
        here = self._entered(fn, receiver, forward, w, ctx, site)
        self._binding.bind(fn, args, w, here)
        before, within, asked = w.grad, w.within, w.device_checked
        if fn.grad is not None:
            w.grad = fn.grad
        since = fresh()
        self._budget.enters(unit)
        try:
            results = self._generator(unit, w, here) if unit.is_generator else self.body(unit, w, here)
        finally:
            steps = self._budget.leaves()
        self._idleness.ended(unit, steps, since, results, data=data, recorded=before is not False)
        outside = self._binding.around(fn, here)
        for world, value in results:
            self._domain.values.annotated(value, unit.node.returns, world, outside, returned=True)
            world.within, world.device_checked = within, asked
            if fn.grad is not None:
                world.grad = before
        if fresh() - since > _MUCH:
            for world, value in results:
                self._clean(world, value, since)
        return results

    def _by_header(self, fn: Function, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a function of which only the header is looked at: it gives what that says, and may do anything else."""
        value = self._domain.escapes.call(fn, args, w, ctx, site)
        if fn.unit.is_readable:
            here = ctx._replace(module=fn.unit.module, unit=fn.unit, frame=fn.frame, function=None, parent=None)
            self._domain.values.annotated(value, fn.unit.node.returns, w, here, returned=True)
        return w.resolve(value)

    def _entered(
        self, fn: Function, receiver: Value | None, forward: bool, w: World, ctx: Context, site: Site
    ) -> Context:
        """Where the body of a function is executed: in a frame of its own."""
        unit = fn.unit
        frame = w.new(Frame({}, fn.frame))
        key = ctx.at(site, *self._kind_of(receiver, fn, w)).key
        depth, in_forward = ctx.depth + 1, ctx.in_forward or forward
        around = (ctx.peeled, ctx.iteration, ctx.loop, ctx.around, ctx.phase)
        here = (unit.module, unit, frame.id, key, depth, ctx)
        return Context(*here, fn, fn.owner, receiver, in_forward, *around, called_at=site)

    def _tires(self, unit: FunctionUnit, args: Arguments, w: World, forward: bool) -> bool:
        if unit.name == "__init__":
            return False
        if self._reach.stands_aside(unit) and self._budget.wearies(unit):
            return True
        kinds = partial(self._kinds_in, args, w)
        return self._budget.tires(
            unit, lambda: not forward and self._reach.stands_aside(unit), kinds, w.grad is not False
        )

    def _is_to_be_replaced(self, fn: Function, receiver: Ref, w: World) -> bool:
        """Whether a method does nothing, of an object of a class that nothing builds: a subclass may do more."""
        obj = w.get(receiver, Instance)
        if obj is None or obj.cls is None or OPEN not in obj.attrs or fn.unit.name.startswith("__"):
            return False
        if not fn.unit.constructs & {"abstract", "empty"}:
            return False
        return self._definitions.attribute(obj.cls, fn.unit.name, w) == fn

    def _kinds_in(self, args: Arguments, w: World) -> tuple[Hashable, ...]:
        """Of which classes the modules are that a function is given."""
        modules = (w.get(w.resolve(value), Instance) for value in args)
        return tuple(
            obj.cls.unit if obj.cls is not None else obj.name
            for obj in modules
            if obj is not None and obj.role.is_module
        )

    def _kind_of(self, receiver: Value | None, fn: Function, w: World) -> Iterator[Hashable]:
        """What tells calls of an inherited method on objects of different classes apart: they are different moments."""
        obj = w.get(receiver, Instance) if receiver is not None else None
        if obj is not None and obj.cls is not None and fn.owner is not None and obj.cls.unit is not fn.owner.unit:
            yield obj.cls.unit

    def _clean(self, world: World, result: Value, since: int) -> None:
        """Drop what a call left behind, except parameter groups: whether their gradients are read is told later."""
        kept = world.new(Sequence([result]))
        for key, obj in forget(world, [kept.id], since):
            if not isinstance(obj, Group):
                del world.heap[key]
        world.heap.pop(kept.id, None)

    def body(self, unit: FunctionUnit, w: World, here: Context) -> Results:
        """Execute the body of a function, whose arguments are bound."""
        self._budget.begins(unit)
        body = unit.node.body.body
        if not self._witness.muted:
            self._coverage.enters(unit)
        with self._budget.within(self._reach.stands_aside(unit)):
            out = self._in_pieces(body, w, here)
        results = out.returns + [(world, NONE) for world in out.normal]
        if "def" in unit.constructs:
            self._nested.left(results, here)
        else:
            for world, _ in results:
                world.heap.pop(here.frame, None)
        if not results and "abstract" in unit.constructs:
            return [(w, new_unknown("abstract"))]
        return reduce_results(results, MAX_EXITS)

    def _in_pieces(self, body: AbstractSequence[cst.CSTNode], w: World, here: Context) -> Outcome:
        """Execute statements; where there are many, what some have left behind is dropped before the next ones are."""
        since, kept = fresh(), len(w.heap)
        out = Outcome([w])
        for start in range(0, len(body), _PIECE):
            piece = self._execution.block(body[start : start + _PIECE], out.normal, here)
            out.normal = piece.normal
            out.absorb(piece)
            if len(out.normal) == 1 and start + _PIECE < len(body):
                world = out.normal[0]
                if len(world.heap) > kept + max(kept // _SHARE, _MUCH):
                    self._clean(world, Ref(here.frame), since)
                    kept = len(world.heap)
        return out

    def _generator(self, unit: FunctionUnit, w: World, here: Context) -> Results:
        yields = w.new(Sequence())
        w.write(here.frame).vars["<yields>"] = yields  # it goes where the frame goes
        with self._witness.clearing() as cleared:
            results = self.body(unit, w, here._replace(yields=yields))
        if not results:
            return results
        world, _ = join_results(results)
        given: Sequence = world.write(yields.id)
        if cleared:  # on the way to the next value, which may be any
            for value in given.items:
                given.tail = value if given.tail is None else self._choices.either(given.tail, value, world)
            given.items, given.sites, given.clears = [], [], frozenset(cleared)
        return [(world, self._streams.opened(yields, world))]

    def _is_forward(self, fn: Function, receiver: Value | None, w: World) -> bool:
        return receiver is not None and self._domain.calls.is_forward(receiver, fn.unit.name, w)

    def _lambda(self, fn: Lambda, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        self._progress.applied.add(fn.site)
        if ctx.depth >= MAX_DEPTH:
            return [(w, new_unknown("lambda"))]
        variables: dict[str, Value] = {}
        params = fn.node.params
        for position, param in enumerate((*params.posonly_params, *params.params, *params.kwonly_params)):
            name = param.name.value
            given = args.get(position, name)
            if given is None and param.default is not None and not args.open:
                given = self._execution.evaluate(param.default, w, ctx)
            variables[name] = given or Unknown(Parameter(fn.site, name, fresh()), name)
        if isinstance(params.star_arg, cst.Param):
            variables[params.star_arg.name.value] = new_unknown("args")
        if params.star_kwarg is not None:
            variables[params.star_kwarg.name.value] = new_unknown("kwargs")
        frame = w.new(Frame(variables, fn.frame))
        outer = (fn.unit.module, fn.unit, frame.id, ctx.at(site).key, ctx.depth + 1, ctx)
        here = Context(*outer, in_forward=ctx.in_forward, peeled=ctx.peeled, phase=ctx.phase)
        return self._execution.value(fn.node.body, w, here)

    # --- classes

    def instantiate(self, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Build an instance of a class of the project."""
        role = self._definitions.role(cls)
        self._progress.built.add(cls.unit)
        self._progress.met.add(cls.unit)
        if role is roles.NAMED_TUPLE:
            return [(w, self._named_tuple(cls, args, w, ctx))]
        opaque = self._budget.is_opaque(cls.unit) and not _is_followed_for_itself(cls.unit, ctx)
        if opaque and role is roles.MODULE:
            return [(w, self._domain.building.opaque(cls, w, (site, ctx.key, cls.unit)))]
        if opaque or self._budget.tires(cls.unit, lambda: False):
            return [(w, self._domain.escapes.call(cls, args, w, ctx, site))]
        if role is roles.MODULE and self._budget.hurries(cls.unit) and cls.unit in self._trainable:
            return [(w, self._domain.building.opaque(cls, w, (site, ctx.key, cls.unit)))]
        ref = w.new(Instance(cls=cls, name=cls.unit.name, role=role, made_at=site), (site, ctx.key, cls.unit))
        self._domain.building.started(ref, cls, args, w, ctx, site)
        if role is roles.DICT:
            self._dicts.started(ref, cls, (site, ctx.key, cls.unit), w)
        if role is roles.MODULE:
            self._decisions.built(cls.unit, site)
        results = self._initialize(ref, cls, args, w, ctx, site)
        if self._budget.hurried and all(self._domain.building.is_trainable(ref, world) for world, _ in results):
            self._trainable.add(cls.unit)
        for world, _ in results:
            self._domain.building.done(ref, world, ctx)
        return results

    def _initialize(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        init = self._definitions.attribute(cls, "__init__", w)
        function, foreign = self._definitions.initializer(cls, w)
        if function is None and self._definitions.role(cls).is_model:
            init = None
        if isinstance(init, Function):
            if foreign:
                self._domain.building.initialized(ref, w, ctx, site)
            return [(world, ref) for world, _ in self.function(init, args, w, ctx, site, ref)]
        if self._definitions.role(cls) is roles.DICT:
            self._dicts.initialized(ref, args, w, ctx, site)
            return [(w, ref)]
        role = self._definitions.role(cls)
        if role is roles.OPTIMIZER or not self._definitions.is_dataclass(cls):
            self._domain.building.filled(ref, args, w, ctx, site)
            return [(w, ref)]
        self._fill(ref, cls, args, w, ctx, site)
        after = self._definitions.attribute(cls, "__post_init__", w)
        if isinstance(after, Function):
            return [(world, ref) for world, _ in self.function(after, Arguments(), w, ctx, site, ref)]
        return [(w, ref)]

    def _fill(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        fields = self._definitions.annotated_fields(cls)
        for position, (name, (field, here)) in enumerate(fields.items()):
            given = args.get(position, name)
            if given is None and args.open:
                given = new_unknown("field", name)
                self._domain.values.annotated(given, field.annotation, w, here)
            elif given is None:
                given = self._definitions.attribute(cls, name, w)
                if isinstance(given, Partial) and given.function == External("dataclasses.field"):
                    made = self.call(given.args[0], Arguments(), w, ctx.at(site, name), site)
                    given = joined(made, w)
            if given is not None:
                w.write(ref.id).attrs[name] = given

    def _named_tuple(self, cls: Class, args: Arguments, w: World, ctx: Context) -> Value:
        names = self._definitions.annotated_fields(cls)
        items: list[Value] = []
        for position, name in enumerate(names):
            given = args.get(position, name) or self._definitions.attribute(cls, name, w)
            items.append(given or new_unknown("field", name))
        return w.new(Sequence(items, [None] * len(items), None, None, False, tuple(names)))


def _is_followed_for_itself(unit: FunctionUnit | ClassUnit, ctx: Context) -> bool:
    """Whether a function is an entry point, a class one, or a method that one: not a statement calls it."""
    return ctx.depth == 0 and ctx.unit in (unit, unit.class_unit)
