"""What the domain of torch answers to the execution of Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.static.knowledge.ops import Op
from gradlint.static.python.domain import Domain, Index
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import join_tensors
from gradlint.static.state.outcome import Results
from gradlint.static.state.provenance import is_number
from gradlint.static.state.values import (
    NONE,
    Bound,
    Choice,
    Class,
    Const,
    Function,
    Instance,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World, fresh
from gradlint.static.text.slices import Place, place_of

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Site
    from gradlint.static.drive.interpreter import Interpreter

_CALLED = ("module", "lightning", "loss")
"""The kinds of objects that are called as modules are."""


class _Values:
    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self.settled = machine.tensors.settled
        self.annotated = machine.kinds.annotated
        self.checked = machine.kinds.checked
        self.one_that = machine.tensors.one_that
        self.copied = machine.ownership.copied

    def either(self, a: Value, b: Value, w: World) -> Value | None:
        left, right = w.get(a, Tensor), w.get(b, Tensor)
        if left is not None and right is not None:
            joined = join_tensors(left, right)
            answer = self.m.tensors.requires_grad(a, w)
            joined.requires_grad = answer if answer is self.m.tensors.requires_grad(b, w) else None
            return w.new(joined)
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            deps = self.m.tensors.deps(a, w) | self.m.tensors.deps(b, w)
            return self.m.cuts.joined(Unknown(("join", fresh()), deps=deps), a, b, w)
        return None

    def decided(self, choice: Choice, taken: Value, w: World) -> None:
        """A module is this one of those that a table of classes might have given: there are no others in this world."""
        module = w.get(taken, Instance)
        if module is None or module.kind != "module" or module.made_at is None:
            return
        own = self.m.modules.groups(taken, w) if isinstance(taken, Ref) else frozenset()
        for value in choice.alternatives:
            other = w.get(value, Instance)
            if other is None or other.made_at != module.made_at:
                continue
            if other.cls == module.cls and not (other.opaque and module.opaque):
                continue
            for key in self.m.modules.groups(value, w) - own if isinstance(value, Ref) else ():
                w.write(key).tokens = {}

    def number(self, value: Value, w: World, ctx: Context, site: Site) -> Value:
        if isinstance(value, Const) or (isinstance(value, Unknown) and not self.m.cuts.carries(value, w, True)):
            return value
        self.m.evaluation.measured([value], False, w, ctx)
        self.m.uses.escaped([value], w)
        return self.m.cuts.note(self.m.tensors.figure([value], w), [value], "number", w, site)

    def shown(self, value: Value, w: World) -> None:
        self.m.uses.escaped([value], w)

    def some_part(self, obj: Instance, w: World) -> Value:
        return self.m.tensors.picked(self.m.tensors.parameter(obj.groups, w, obj.made_at, obj.device), w)


class _Attributes:
    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

    def get(self, owner: Ref, obj: Object, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        if isinstance(obj, Tensor):
            return self.m.changes.attribute(owner, obj, name, w, ctx, site)
        if not isinstance(obj, Instance):
            return None
        if obj.kind == "distribution":
            return self.m.distributions.attribute(owner, obj, name, w, ctx, site)
        return self.m.modules.attribute(owner, obj, name, w, ctx, site)

    def get_of_unknown(self, owner: Unknown, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        if name in ("data", "grad"):
            return self.m.changes.attribute_of_unknown(owner, name, w, ctx, site)
        groups = (
            w.resolve(Unknown(("attribute", owner.key, name), name, owner.deps)) if name == "param_groups" else None
        )
        if groups is not None and not isinstance(groups, Ref):  # only optimizers have them
            return self.m.attributes.get(self.m.optimizers.opaque_optimizer(owner, w, site), name, w, ctx, site)
        return None

    def part_of_unknown(self, value: Unknown, w: World) -> Value | None:
        return self.m.grouping.parameter_inside(value, w)

    def set(self, owner: Ref, obj: Object, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        if isinstance(obj, Tensor):
            self.m.changes.set_attribute(owner, name, value, w, ctx, site)
        elif isinstance(obj, Instance):
            self.m.modules.set_attribute(owner, name, value, w, ctx, site)

    def set_of_unknown(self, owner: Unknown, name: str, value: Value, w: World, ctx: Context, site: Site) -> bool:
        special = name in ("data", "grad", "_grad", "requires_grad")
        return special and self.m.changes.set_attribute_of_unknown(owner, name, value, w, ctx, site)


class _Items:
    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self.iterate = machine.modules.iterate
        self.set_in = machine.layers.set_item
        self.remove = machine.layers.remove
        self.read_out = machine.construction.read_out
        self.collected = machine.keeping.collected
        self.several = machine.tensors.several
        self.picked = machine.tensors.picked
        self.another = machine.batches.another
        self.made_since = machine.graphs.made_since
        self.one_of = machine.graphs.one_of

    def element(self, value: Value, obj: Object, w: World, ctx: Context) -> Value | None:
        if isinstance(obj, Tensor):
            return self.m.tensors.view(value, w)
        if isinstance(obj, Instance):
            if obj.kind == "loader" and isinstance(value, Ref):
                return self.m.batches.batch(value)
            if obj.cls is not None:
                return self.m.modules.iterated(value, obj, w, ctx)
        return None

    def get(self, owner: Value, obj: Object, index: Index, w: World, ctx: Context, site: Site) -> Value | None:
        if isinstance(obj, Instance):
            if obj.kind == "array" and isinstance(index, Const) and self.m.memory.shares(owner):
                return self.m.memory.part(owner, obj, w)
            return self.m.modules.get_item(owner, obj, index, w, ctx, site)
        if not isinstance(obj, Tensor):
            return None
        if self.m.legacy.indexed(obj, index, w, ctx, site):
            return self.m.cuts.note(self.m.tensors.figure([owner], w), [owner], "number", w, site)
        name = index.value if isinstance(index, Const) and isinstance(index.value, str) else ""
        part = self.m.tensors.view(owner, w, site, name)
        self.m.shapes.taken(obj, index, part, w)
        self.m.legacy.part(obj, index, part, w)
        return part

    def set(
        self,
        owner: Value,
        obj: Object | None,
        index: Index,
        value: Value,
        w: World,
        ctx: Context,
        site: Site,
        *,
        place: Place | None,
    ) -> bool:
        if isinstance(obj, Tensor):
            how = "[:]=" if index in (slice(None), Const(...)) else "[]="
            self.m.changes.in_place(how, owner, [value], w, ctx, site)
            return True
        if not self.m.memory.shares(owner):
            return False
        self.m.memory.array_changed(owner, w, ctx, site, at=place)
        return True

    def subscripted(self, part: Value, owner: Value, parts: Iterable[Index], node: cst.Subscript, w: World) -> None:
        parts = list(parts)
        if isinstance(part, Unknown):
            self.m.memory.sliced(part, owner, node, w)
        elif isinstance(part, Ref) and w.get(owner, Tensor) is not None:
            if len(parts) > 1:
                self.m.tensors.taken_from(owner, part, w)
            if not all(map(_is_basic, parts)):
                self.m.memory.copied(part, w)

    def alike(self, one: Value, other: Value, w: World) -> bool:
        if self.m.memory.shares(one) or self.m.memory.shares(other):
            return False
        return self.m.cuts.of(one, w) == self.m.cuts.of(other, w)


class _Calls:
    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self.prepared = machine.modules.called_for
        self.recognised = machine.modules.recognised
        self.named = machine.construction.named
        self.method = machine.methods.call
        self.part = machine.library_models.part_called
        self.external = machine.externals.call
        self.returned = machine.trainers.returned

    def forward(self, receiver: Value, by: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        self.m.construction.forward_called(receiver, by, w, ctx, site)
        self.m.functions.forward_called(receiver, args, w, ctx, site)

    def instance(
        self, callee: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Results | None:
        if obj.kind in _CALLED:
            return self.m.modules.call(callee, args, w, ctx, site)
        if obj.kind == "function" and obj.cls is not None:
            self.m.functions.used(obj.cls, "instance", w, ctx, site)
            return [(w, self.m.functions.applied(obj.cls, args, w, ctx, site))]
        if obj.cls is None and obj.kind == "transformed":
            return self.m.functional.over(obj, args, w, ctx, site)
        if obj.cls is None and obj.kind == "gradmode" and obj.grad is not None:
            within = _in_mode(w.resolve(args.get(0) or NONE), obj.grad)
            return None if within is None else [(w, within)]
        return None

    def followed(
        self, callee: Bound, args: Arguments, w: World, ctx: Context, site: Site, act: Callable[[], Results]
    ) -> Results:
        grad, passes = w.grad, self.m.evaluation.passes
        with self.m.optimizers.own_step(callee, w, ctx, site):
            results = act()
        if passes == self.m.evaluation.passes:
            self.m.evaluation.method_called(callee, args, results, grad, ctx, site)
        return results


class _Building:
    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self.super_called = machine.construction.called

    def opaque(self, cls: Class, w: World, place: Hashable) -> Value:
        site = place[0] if isinstance(place, tuple) else None
        return self.m.modules.opaque(w, cls.unit.name, site, True, place=place)

    def begun(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        self.m.modules.prepare(ref, cls, args, w, ctx, site)
        obj = w.get(ref, Instance)
        if obj is not None and obj.kind == "module":
            self.m.construction.made(ref, w, ctx)

    def done(self, ref: Ref, w: World, ctx: Context) -> None:
        self.m.construction.built(ref, w, ctx)

    def is_trainable(self, ref: Ref, w: World) -> bool:
        return bool(self.m.modules.groups(ref, w))

    def initialized(self, ref: Value, w: World, ctx: Context, site: Site) -> None:
        self.m.construction.initialized(ref, w, ctx, site)

    def filled(self, ref: Ref, kind: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        if kind == "optimizer":
            self.m.optimizers.initialized(ref, args, w)
            return
        self.m.construction.initialized(ref, w, ctx, site)
        self.m.trainers.initialized(ref, args, w)
        obj = w.get(ref, Instance)
        if obj is not None and obj.layer is not None and obj.layer.container:
            self.m.layers.fill(ref, obj.layer, args, w, ctx, site)


class _Operators:
    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self.arithmetic = machine.operations.arithmetic
        self.compare = machine.operations.compare
        self.spelled = machine.legacy.multiplied

    def combined(self, symbol: str, left: Value, right: Value, w: World) -> Value | None:
        kinds = {obj.kind for value in (left, right) if (obj := w.get(value, Instance)) is not None}
        if symbol == "+" and "parameters" in kinds:
            groups = self.m.modules.groups_in(left, w) | self.m.modules.groups_in(right, w)
            return w.new(Instance(kind="parameters", device=None, groups=groups))
        if "array" in kinds and not any(w.get(value, Sequence) for value in (left, right)):
            array = w.new(Instance(name="numpy.ndarray", kind="array"))
            return self.m.cuts.inherit(array, [left, right], w)
        return None

    def total(self, values: list[Value], known: bool, w: World, ctx: Context, site: Site) -> Value:
        tensors = self.m.tensors.tensors_in(values, w)
        if any(w.get(v, Tensor) is not None for v in tensors):
            if len(values) == 1 and known:
                return w.resolve(values[0])
            total = Op(saves="", size="broadcast", activation="combines")
            return self.m.operations.apply(total, Arguments(list(tensors)), w, ctx, site)
        deps: frozenset[int] = frozenset().union(*(v.deps for v in tensors if isinstance(v, Unknown)))
        return Unknown(("sum", fresh(), *(v.key for v in tensors if isinstance(v, Unknown))), deps=deps)


class _Mutations:
    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self.statement = machine.discards.statement
        self.summed = machine.keeping.summed
        self.totalled = machine.keeping.totalled
        self.puts_back = machine.construction.puts_back

    def augmented_item(
        self, symbol: str, owner: Value, value: Value, node: cst.AugAssign, w: World, ctx: Context
    ) -> bool:
        if w.get(owner, Tensor) is not None:
            self.m.changes.in_place("[]" + symbol + "=", owner, [value], w, ctx, ctx.site(node))
            return True
        if not self.m.memory.shares(owner):
            return False
        place = place_of(node.target)
        self.m.memory.array_changed(owner, w, ctx, ctx.site(node), amended=True, at=place)
        return True

    def augmented(self, symbol: str, current: Value, value: Value, node: cst.AugAssign, w: World, ctx: Context) -> bool:
        if symbol in ("+", "-"):
            self.m.keeping.summed(node.target, current, value, w, ctx, ctx.site(node))
        if w.get(current, Tensor) is not None:
            self.m.changes.in_place(symbol + "=", current, [value], w, ctx, ctx.site(node))
            return True
        if not self.m.memory.is_array(current, w):
            return False
        self.m.memory.array_changed(current, w, ctx, ctx.site(node), amended=True)
        return True


class _Branches:
    def __init__(self, machine: Interpreter) -> None:
        self.asked_by = machine.modes.asked_by
        self.settled_by = machine.modes.settled_by
        self.chosen = machine.modes.chosen
        self.combined = machine.modes.combined
        self.returned = machine.modes.returned
        self.branched = machine.modes.branched
        self.is_periodic = machine.stepping.is_periodic
        self.left = machine.stepping.left
        self.apart = machine.parameter_names.apart


def fill(domain: Domain, machine: Interpreter) -> None:
    """Let the domain be that of torch."""
    domain.values = _Values(machine)
    domain.attributes = _Attributes(machine)
    domain.items = _Items(machine)
    domain.calls = _Calls(machine)
    domain.building = _Building(machine)
    domain.operators = _Operators(machine)
    domain.mutations = _Mutations(machine)
    domain.escapes = machine.escapes
    domain.branches = _Branches(machine)


def _in_mode(function: Value, grad: bool) -> Value | None:
    """A function that runs with gradients enabled or not: ``torch.enable_grad()(closure)``."""
    if isinstance(function, Bound) and function.function is not None:
        return replace(function, function=replace(function.function, grad=grad))
    return replace(function, grad=grad) if isinstance(function, Function) else None


def _is_basic(part: Index) -> bool:
    """Whether a part of a subscript takes a view of a tensor: numbers and slices do, masks, lists and tensors copy."""
    if isinstance(part, Const):
        return not isinstance(part.value, bool)
    return part is None or isinstance(part, slice) or (isinstance(part, Unknown) and is_number(part))
