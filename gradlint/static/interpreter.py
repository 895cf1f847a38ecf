"""The abstract interpreter: ties its parts together, and keeps execution within bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.attributes import Attributes
from gradlint.static.builtin_calls import BuiltinCalls
from gradlint.static.calls import Calls
from gradlint.static.changes import Changes
from gradlint.static.construction import Construction
from gradlint.static.containers import Containers
from gradlint.static.context import Arguments, Context
from gradlint.static.custom_functions import CustomFunctions
from gradlint.static.cuts import Cuts
from gradlint.static.definitions import Definitions
from gradlint.static.devices import Devices
from gradlint.static.discards import Discards
from gradlint.static.evaluation import Evaluation
from gradlint.static.expressions import Expressions
from gradlint.static.externals import Externals
from gradlint.static.flow import MAX_WORLDS, Flow, Outcome
from gradlint.static.graphs import Graphs
from gradlint.static.joining import MAX_ALTERNATIVES, join, join_tensors
from gradlint.static.legacy import Legacy
from gradlint.static.memory import Memory
from gradlint.static.methods import Methods
from gradlint.static.modes import Modes
from gradlint.static.module_methods import ModuleMethods
from gradlint.static.modules import Modules
from gradlint.static.names import Imports, Names
from gradlint.static.nodes import children
from gradlint.static.optimizers import Optimizers
from gradlint.static.ownership import Ownership
from gradlint.static.passes import Passes
from gradlint.static.plain_tensors import PlainTensors
from gradlint.static.python import Python
from gradlint.static.registrations import Registrations
from gradlint.static.sameness import forget
from gradlint.static.serialization import Serialization
from gradlint.static.shapes import Shapes
from gradlint.static.stepping import Stepping
from gradlint.static.tensors import Tensors
from gradlint.static.torch_table import METHODS
from gradlint.static.triggers import walks_in
from gradlint.static.units import ClassUnit, FunctionUnit, StatementUnit, Unit
from gradlint.static.uses import Uses
from gradlint.static.values import (
    Bound,
    Choice,
    Class,
    Const,
    Frame,
    Function,
    Group,
    Instance,
    Mapping,
    Namespace,
    Object,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.witness import Witness
from gradlint.static.world import World, fresh

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.project import Project
    from gradlint.static.reach import Reach
    from gradlint.static.units import Module

MAX_STEPS = 30_000  #: statements executed for one entry point at most
CLOSE = 2_000  #: statements executed for one entry point with every distinction kept
ORDERLY = ((CLOSE, (MAX_WORLDS, 5)), (4 * CLOSE, (3, 3)), (math.inf, (1, 2)))
"""Where the order of events counts: up to so many statements, the worlds that are kept apart and the iterations."""
UNORDERED = ((CLOSE // 8, (2, 2)), (math.inf, (1, 1)))
"""The same where no rule about an order of events may report anything."""
_TENSOR_METHODS = frozenset(
    [
        "softmax",
        "log_softmax",
        "sigmoid",
        "argmax",
        "unsqueeze",
        "squeeze",
        "view",
        "permute",
        "transpose",
        "contiguous",
        "detach",
        "item",
        "numpy",
        "sum",
        "mean",
        "backward",
        "cuda",
        "cpu",
        "long",
        "float",
        "size",
        "clamp",
        "masked_fill",
        "expand_as",
        "expand",
        "chunk",
        "topk",
        "matmul",
        "bmm",
    ]
)


class BudgetExceededError(Exception):
    """An entry point took more steps than it may."""


class OrderMattersError(Exception):
    """An entry point that was not followed closely has come to a backward pass."""


class Interpreter:
    """Executes the modules of a project abstractly and lets a witness watch."""

    def __init__(self, project: Project, witness: Witness, reach: Reach) -> None:
        self.project = project
        self.witness = witness
        self.names = Names(self)
        self.imports = Imports(self)
        self.registrations = Registrations(project, reach)
        self.definitions = Definitions(self)
        self.expressions = Expressions(self)
        self.modes = Modes(self)
        self.flow = Flow(self)
        self.attributes = Attributes(self)
        self.python = Python(self)
        self.calls = Calls(self)
        self.tensors = Tensors(self)
        self.changes = Changes(self)
        self.graphs = Graphs(self)
        self.evaluation = Evaluation(self)
        self.uses = Uses(self)
        self.stepping = Stepping(self)
        self.ownership = Ownership(self)
        self.cuts = Cuts(self)
        self.devices = Devices(self)
        self.discards = Discards(self)
        self.shapes = Shapes(self)
        self.memory = Memory(self)
        self.modules = Modules(self)
        self.construction = Construction(self)
        self.functions = CustomFunctions(self)
        self.legacy = Legacy(self)
        self.plain = PlainTensors(self)
        self.serialization = Serialization(self)
        self.methods = Methods(self)
        self.passes = Passes(self)
        self.optimizers = Optimizers(self)
        self.module_methods = ModuleMethods(self)
        self.externals = Externals(self)
        self.builtins = BuiltinCalls(self)
        self.containers = Containers(self)
        self.called: set[Unit] = set()  #: functions that were executed
        self.built: set[Unit] = set()  #: classes that were instantiated
        self.class_kinds: dict[Unit, str] = {}
        self.seen_classes: dict[Unit, Class] = {}
        self.given_up: list[Module] = []  #: modules whose bodies are too long to follow
        self.steps = 0
        self._limit = MAX_STEPS
        self.ordered = True  #: loops and branches are followed closely
        self.shared: dict[int, Object] = {}  #: the objects that imported modules made
        self._images: dict[Module, World | None] = {}
        self._nested: dict[int, FunctionUnit | ClassUnit] = {}
        self._features: dict[Unit, frozenset[str]] = {}
        self._walks: dict[Unit, bool] = {}
        self._late: set[tuple[Unit, str]] = set()
        self._evaluate = self.expressions.evaluate

    def tick(self) -> None:
        """Count a step."""
        self.steps += 1
        if self.steps > self._limit:
            raise BudgetExceededError

    @contextmanager
    def budget(self) -> Iterator[None]:
        """What is executed meanwhile has a budget of its own."""
        before = self.steps, self._limit
        self.steps, self._limit = 0, MAX_STEPS
        try:
            yield
        finally:
            self.steps, self._limit = before

    def affords(self, act: Callable[[], None], steps: int) -> bool:
        """Do something that may not take more than some steps; whether it has come to its end.

        Raises:
            BudgetExceededError: the entry point as a whole takes too many.
        """
        limit = self._limit
        self._limit = min(limit, self.steps + steps)
        try:
            act()
        except BudgetExceededError:
            if self.steps > limit:
                raise
            return False
        else:
            return True
        finally:
            self._limit = limit

    def order_matters(self) -> None:
        """A backward pass begins: what comes before and after it, and in which iteration, is what many rules are about.

        Raises:
            OrderMattersError: loops and branches have not been followed closely so far.
        """
        if not self.ordered:
            raise OrderMattersError

    def begins(self, unit: FunctionUnit) -> None:
        """A function is entered; OrderMattersError if it calls for backward passes, which might be missed."""
        if not self.ordered:
            walks = self._walks.get(unit)
            if walks is None:
                walks = self._walks[unit] = walks_in(unit.text)
            if walks:
                raise OrderMattersError

    def allowed_worlds(self) -> int:
        """How many worlds may be kept apart, the fewer the longer the entry point has run."""
        return self._pace[0]

    def allowed_iterations(self) -> int:
        """How many iterations of a loop may be executed, the fewer the longer the entry point has run."""
        return self._pace[1]

    @property
    def _pace(self) -> tuple[int, int]:
        return next(pace for steps, pace in (ORDERLY if self.ordered else UNORDERED) if self.steps < steps)

    def eval(self, node: cst.CSTNode, w: World, ctx: Context) -> Value:
        """The value of an expression."""
        return self._evaluate(node, w, ctx)

    def is_unknown(self, value: Value) -> bool:
        """Whether nothing is known of a value."""
        return isinstance(value, Unknown)

    def is_tensor_method(self, name: str) -> bool:
        """Whether a method name says that its receiver is a tensor."""
        return name in _TENSOR_METHODS and name in METHODS

    # --- units

    def nested(self, node: cst.FunctionDef | cst.ClassDef, parent: Unit) -> FunctionUnit | ClassUnit:
        """The unit of a definition inside another one."""
        unit = self._nested.get(id(node))
        if unit is None:
            kind = FunctionUnit if isinstance(node, cst.FunctionDef) else ClassUnit
            unit = self._nested[id(node)] = kind.from_node(node, parent)  # type: ignore[arg-type]
        return unit

    def execute_unit(self, unit: Unit, w: World, ctx: Context) -> None:
        """Execute one unit in place."""
        ends = self.run_units([unit], [w], ctx).normal
        if ends:
            end = ends[0]
            for other in ends[1:]:
                end = join(end, other)
            w.become(end)

    def run_units(self, units: list[Unit], worlds: list[World], ctx: Context) -> Outcome:
        """Execute units one after the other, as :meth:`Flow.block` does statements."""
        out = Outcome(list(worlds))
        for unit in units:
            here = replace(ctx, unit=unit)
            reached, out.normal = out.normal, []
            if isinstance(unit, StatementUnit):
                self.flow.statements(unit.node, reached, here, out)
                continue
            for world in reached:
                if isinstance(unit, (FunctionUnit, ClassUnit)):
                    self.definitions.define(unit, world, here)
                out.normal.append(world)
        return out

    def _features_of(self, unit: FunctionUnit) -> frozenset[str]:
        known = self._features.get(unit)
        if known is None:
            found: set[str] = set()
            _scan(unit.node.body, found)
            body = [s for s in unit.node.body.body if not _is_docstring(s)]
            if len(body) == 1 and _raises(body[0]):
                found.add("abstract")
            known = self._features[unit] = frozenset(found)
        return known

    def is_generator(self, unit: FunctionUnit) -> bool:
        """Whether a function contains ``yield``."""
        return "yield" in unit.words and "yield" in self._features_of(unit)

    def captures(self, unit: FunctionUnit) -> bool:
        """Whether a function defines others, which may outlive its call."""
        return "def" in self._features_of(unit)

    def has_loop(self, unit: FunctionUnit) -> bool:
        """Whether a function contains a loop."""
        return "loop" in self._features_of(unit)

    def is_abstract(self, unit: FunctionUnit) -> bool:
        """Whether a function does nothing but raise."""
        return "abstract" in self._features_of(unit)

    # --- modules of the project

    def enter_module(self, module: Module, w: World) -> int | None:
        """Import a module of the project; None while it is being imported already (a cycle)."""
        frame = w.modules.get(module)
        if frame is not None:
            return frame
        if module not in self._images:
            self._images[module] = None
            ordered, self.ordered = self.ordered, self.ordered or walks_in(module.source.text)
            try:
                with self.budget(), self.witness.apart():  # executed once, for all that import it
                    self._images[module] = self._execute_module(module)
            except BaseException:
                del self._images[module]  # it may be reached again with less on the stack
                raise
            finally:
                self.ordered = ordered
        image = self._images[module]
        if image is None:
            return None
        for other, key in image.modules.items():
            w.modules.setdefault(other, key)
        for name, value in image.bound.items():
            w.bound.setdefault(name, value)
        return w.modules[module]

    def _execute_module(self, module: Module) -> World:
        w = World(self.shared)
        frame = w.new(Frame({"__name__": Const(module.name or module.path.stem)}))
        w.modules[module] = frame.id
        if not module.units:  # a folder without __init__.py, or an empty file
            self.shared.update(w.heap)
            return w
        ctx = Context(module, module.units[0], frame.id)
        ctx = ctx.at("module", module)
        try:
            ends = self.run_units(list(module.units), [w], ctx).normal
        except BudgetExceededError:
            self.witness.forget()
            self.given_up.append(module)
            w, ends = self._definitions_of(module, ctx), []
        image = ends[0] if ends else w
        for other in ends[1:]:
            image = join(image, other)
        image.token = object()
        kept = [frame.id, *(key for key in image.heap if key in self.shared)]  # registries of other files, too
        dropped = [key for key, _ in forget(image, kept, 0)]
        # Inputs that are still at hand may yet be looked at, if the module ever looks at a gradient.
        done = dropped if "grad" in module.words else list(image.heap)
        self.witness.inputs_done(done, image, ctx)
        for key in dropped:
            del image.heap[key]
        self.shared.update(image.heap)
        return image

    def _definitions_of(self, module: Module, ctx: Context) -> World:
        """A module of which only what it defines and imports is known: its body is too long to follow."""
        w = World(self.shared)
        w.new(Frame({"__name__": Const(module.name or module.path.stem)}), key=ctx.frame)
        w.modules[module] = ctx.frame
        for unit in module.units:
            if isinstance(unit, (FunctionUnit, ClassUnit)) or unit.is_import:
                trial = w.copy()
                with self.budget():
                    if self.affords(partial(self.execute_unit, unit, trial, ctx), MAX_STEPS // 10):
                        w.become(trial)
        return w

    def any_member(self, owner: Namespace, w: World, ctx: Context) -> Value:
        """``getattr(module, name)`` with an unknown name: one of its classes or functions, if they are few."""
        units = [unit for unit in owner.module.units if isinstance(unit, (FunctionUnit, ClassUnit))]
        values = [self.imports.member(owner.module, unit.name, w, ctx) for unit in units]
        if 0 < len(values) <= MAX_ALTERNATIVES:
            return Choice(("member", owner.module.path), tuple(values)) if len(values) > 1 else values[0]
        return Unknown(("member", fresh()))

    # --- what cannot be followed

    def unknown_call(
        self, callee: Value, args: Arguments, w: World, ctx: Context, site: Site, method: str = ""
    ) -> Value:
        """Call something that cannot be followed: it may do anything to the objects it is given."""
        w.unfollowed = w.unfollowed or not ctx.in_forward
        given = list(args)
        self.memory.used([w.resolve(value) for value in given], w, ctx, site)
        self.graphs.escaped(given, w)
        self.uses.escaped(given, w)
        if isinstance(callee, Ref):
            given.append(callee)
        deps: set[int] = set(callee.deps) if isinstance(callee, Unknown) else set()
        touched: set[int] = set()
        inputs: set[int] = set()
        for value in given:
            self._escape(w.resolve(value), w, deps, touched, inputs, 3)
            self.construction.initialized(w.resolve(value), w, ctx, site, certain=False)
        self.doubt(deps | touched, [w.resolve(value) for value in given], w)
        live = {g for g in touched if getattr(w.find(g), "tokens", None)}
        if live:
            self.witness.cleared(live, "call", w, ctx, site, certain=False)
        if inputs:
            self.witness.read(inputs, w, ctx, site)
        result = Unknown(("call", fresh()), method, frozenset(deps))
        result = self.cuts.forward(method or getattr(callee, "hint", ""), result, args, w, site)
        self.graphs.called(result, [*args, callee], w)
        return result

    def doubt(self, groups: Iterable[int], values: Iterable[Value], w: World) -> None:
        """What cannot be followed may have made backward passes and steps with these."""
        for key in groups:
            group = w.find(key)
            if isinstance(group, Group) and group.prepared is False:
                w.write(key).prepared = None
        for value in values:
            obj = w.get(value, Instance)
            if obj is not None and obj.kind == "optimizer" and isinstance(value, Ref):
                w.write(value.id).stepped = None

    def _escape(self, value: Value, w: World, deps: set[int], touched: set[int], inputs: set[int], depth: int) -> None:
        obj = w.get(value, Object)
        if isinstance(value, Unknown):
            deps |= value.deps
        elif isinstance(obj, Tensor):
            deps |= obj.deps
            if obj.retains is False and obj.requires_grad is not False and isinstance(value, Ref):
                w.write(value.id).retains = None
            if not obj.is_parameter:
                inputs |= obj.groups
            else:
                touched |= obj.groups
        elif isinstance(obj, Instance) and isinstance(value, Ref):
            if obj.kind == "scaler":
                w.write(value.id).attrs["<escaped>"] = Const(True)
            if obj.kind in ("module", "lightning", "loss"):
                groups = self.modules.groups(value, w)
                deps |= groups
                touched |= groups
            else:
                touched |= obj.groups
            if depth and obj.kind not in ("loss",):
                for attr in list(obj.attrs.values()):
                    inner = w.get(w.resolve(attr), Instance)
                    if inner is not None and inner.kind in ("optimizer", "module", "lightning") and depth > 1:
                        self._escape(w.resolve(attr), w, deps, touched, inputs, depth - 2)
        elif isinstance(obj, (Sequence, Mapping)) and depth and isinstance(value, Ref):
            parts = list(obj.items.values()) if isinstance(obj, Mapping) else list(obj.items)
            parts += [obj.tail] if obj.tail is not None else []
            for part in parts:
                self._escape(w.resolve(part), w, deps, touched, inputs, depth - 1)
            if obj.tail is None and (isinstance(obj, Mapping) or obj.mutable):
                w.write(value.id).tail = None
        elif isinstance(value, Bound):
            self._escape(w.resolve(value.receiver), w, deps, touched, inputs, depth - 1 if depth else 0)

    # --- joining and copying values

    def join_values(self, a: Value, b: Value, w: World) -> Value:
        """A value that is one of two, in the same world."""
        a, b = w.resolve(a), w.resolve(b)
        if a == b:
            return a
        left, right = w.get(a, Object), w.get(b, Object)
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            joined = join_tensors(left, right)
            joined.requires_grad = (
                answer if (answer := self.tensors.requires_grad(a, w)) is self.tensors.requires_grad(b, w) else None
            )
            return w.new(joined)
        if isinstance(left, Sequence) and isinstance(right, Sequence) and len(left.items) == len(right.items):
            items = [self.join_values(x, y, w) for x, y in zip(left.items, right.items, strict=False)]
            tail = left.tail if right.tail is None else right.tail
            if left.tail is not None and right.tail is not None:
                tail = self.join_values(left.tail, right.tail, w)
            return w.new(Sequence(items, list(left.sites), tail, left.tail_site, left.mutable, left.fields))
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            deps = self.tensors.deps(a, w) | self.tensors.deps(b, w)
            return self.cuts.joined(Unknown(("join", fresh()), deps=deps), a, b, w)
        flat = [
            *(a.alternatives if isinstance(a, Choice) else (a,)),
            *(b.alternatives if isinstance(b, Choice) else (b,)),
        ]
        alternatives = tuple(dict.fromkeys(flat))
        if len(alternatives) <= MAX_ALTERNATIVES:
            return Choice(fresh(), alternatives)
        return Unknown(("join", fresh()))

    def clone(self, value: Value, w: World) -> Value:
        """``copy.deepcopy(value)``: new objects, new parameter groups."""
        memo: dict[int, int] = {}

        def copy(value: Value) -> Value:
            value = w.resolve(value)
            if not isinstance(value, Ref):
                return value
            if value.id in memo:
                return Ref(memo[value.id])
            obj = w.find(value.id)
            if obj is None or isinstance(obj, (Frame, Segment)):
                return value
            new = obj.copy()
            ref = w.new(new)
            memo[value.id] = ref.id
            if isinstance(new, Group):
                new.tokens, new.prepared = {}, False
            if isinstance(new, (Instance, Tensor)):
                new.groups = frozenset(group(g) for g in new.groups)
            if isinstance(new, Tensor):
                new.deps = new.groups or new.deps
                new.tokens = {}
            if isinstance(new, Instance):
                new.attrs = {name: copy(v) for name, v in new.attrs.items()}
            elif isinstance(new, Sequence):
                new.items = [copy(v) for v in new.items]
                new.tail = copy(new.tail) if new.tail is not None else None
            elif isinstance(new, Mapping):
                new.items = {k: copy(v) for k, v in new.items.items()}
                new.tail = copy(new.tail) if new.tail is not None else None
            return ref

        def group(key: int) -> int:
            ref = copy(Ref(key))
            assert isinstance(ref, Ref)
            return ref.id

        return copy(value)

    # --- attributes that other methods set, and Lightning's optimizers

    def late_attribute(self, owner: Ref, cls: Class, name: str, w: World, ctx: Context) -> Value | None:
        """An attribute that a method which has not run would set: what it would be."""
        for here in self.definitions.mro(cls):
            for method in here.unit.methods.values():
                if name not in method.assigned_attributes or (method, name) in self._late or ctx.calls(method):
                    continue
                function = self.definitions.attribute(cls, method.name, w)
                if not isinstance(function, Function) or function.unit is not method:
                    continue
                value = self._scratch(owner, function, name, w, ctx)
                if value is not None:
                    return value
        return None

    def _scratch(self, owner: Ref, function: Function, name: str, w: World, ctx: Context) -> Value | None:
        self._late.add((function.unit, name))
        was_called = function.unit in self.called
        muted, self.witness.muted = self.witness.muted, True
        scratch = w.copy()
        try:
            results = self.calls.function(
                function, Arguments(open=True), scratch, ctx, ctx.unit.site(ctx.unit.node), owner
            )
            if not results:
                return None
            self.calls.joined(results, scratch)
        finally:
            self.witness.muted = muted
            self._late.discard((function.unit, name))
            if not was_called:
                self.called.discard(function.unit)
        obj = scratch.get(owner, Instance)
        value = obj.attrs.get(name) if obj is not None else None
        if value is None:
            return None
        value = scratch.resolve(value)
        w.adopt(scratch.heap)
        new = w.write(owner.id)
        for other, late in obj.attrs.items() if obj is not None else ():
            # One run gives them all: an optimizer holds the parameters of the model that was set beside it.
            new.attrs.setdefault(other, scratch.resolve(late))
        new.attrs[name] = value
        return value

    def configured_optimizers(self, receiver: Ref, obj: Instance, w: World, ctx: Context, site: Site) -> Value:
        """``self.optimizers()`` of a Lightning module: what ``configure_optimizers`` returns."""
        method = self.definitions.attribute(obj.cls, "configure_optimizers", w) if obj.cls is not None else None
        if not isinstance(method, Function):
            return Unknown(("optimizers", fresh()), "optimizers")
        value = self.calls.joined(self.calls.function(method, Arguments(), w, ctx, site, receiver), w)
        found = self._optimizers_in(value, w)
        if len(found) == 1:
            return found[0]
        return w.new(Sequence(found, [None] * len(found))) if found else Unknown(("optimizers", fresh()), "optimizers")

    def _optimizers_in(self, value: Value, w: World) -> list[Value]:
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(obj, Instance):
            return [value] if obj.kind == "optimizer" else []
        if isinstance(obj, Sequence):
            return [o for item in obj.items for o in self._optimizers_in(item, w)]
        if isinstance(obj, Mapping):
            return [
                o for key in (Const("optimizer"),) if key in obj.items for o in self._optimizers_in(obj.items[key], w)
            ]
        return []


def _is_docstring(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _raises(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Raise) or (
        isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Raise)
    )


def _scan(node: cst.CSTNode, found: set[str]) -> None:
    """What kinds of constructs a body contains, not looking into nested definitions for ``yield``."""
    for child in children(node):
        construct = _CONSTRUCTS.get(type(child))
        if construct is not None:
            found.add(construct)
        if construct != "def":
            _scan(child, found)


_CONSTRUCTS: dict[type, str] = {
    **dict.fromkeys([cst.Yield, cst.From], "yield"),
    **dict.fromkeys([cst.For, cst.While, cst.CompFor], "loop"),
    **dict.fromkeys([cst.FunctionDef, cst.Lambda, cst.ClassDef], "def"),
}
