"""Modules, losses and optimizers: what they hold, what they do when called, what their attributes are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.static.knowledge.ops import Layer, Loss, Op
from gradlint.static.knowledge.torch_table import (
    LAYERS,
    LOSSES,
    PACKED_FIELDS,
    heads,
    names_parameter,
)
from gradlint.static.python.domain import Index, Items
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.outcome import Results
from gradlint.static.state.provenance import looks_like_module
from gradlint.static.state.values import (
    HOOKED,
    NONE,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Frame,
    Function,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
)
from gradlint.static.state.variants import variant
from gradlint.static.state.world import World, fresh
from gradlint.static.text.chains import chains_in
from gradlint.static.torch.memory import overwriting
from gradlint.static.torch.tensors import device_of

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.drive.interpreter import Interpreter
    from gradlint.static.state.ledger import Ledger

MODULES = ("module", "lightning", "loss")
MOVED = "moved"
"""With the key of an unknown value: what a world is bound to once that was moved to a device."""


class Modules:
    """Knows ``torch.nn`` objects and the project's subclasses of them."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self._taken: Ledger[int, Unknown] = machine.ledgers.open()
        """By what is taken for a tensor, what it was before: the same, if it is a module after all."""

    # --- building

    def layer(self, name: str, layer: Layer, args: Arguments, w: World, ctx: Context, site: Site) -> Ref:
        """An instance of a class of ``torch.nn``."""
        obj = Instance(name=name, kind="module", layer=layer, made_at=site)
        place = (site, ctx.key, name, *self._shape(args, w))
        if self._has_parameters(layer, args, w):
            obj.groups = frozenset([w.new(Group(True, made_at=site), (place, "group")).id])
        inplace = w.resolve(args.keywords.get("inplace", NONE))
        if inplace == Const(True):
            obj.attrs["<inplace>"] = inplace
        obj.mode_dependent = self._drops(layer, args, w)
        width = self.m.shapes.width(name, args, w)
        if width is not None:
            obj.attrs["<width>"] = Const(width)
        depth = self.m.shapes.depth(name, args, w)
        if depth is not None:
            obj.attrs["<depth>"] = Const(depth)
        ref = w.new(obj, place)
        self.m.construction.made(ref, w, ctx)
        if layer.container:
            self.m.layers.fill(ref, layer, args, w, ctx, site)
        elif layer.dropout:
            probability = args.get(0, "p")
            obj.attrs["p"] = probability if probability is not None else Const(0.5)
        device = args.keywords.get("device")
        if device is not None:
            obj.device = device_of(w.resolve(device), w)
        return ref

    def _has_parameters(self, layer: Layer, args: Arguments, w: World) -> bool:
        said = w.resolve((args.get(*layer.affine) if layer.affine is not None else None) or NONE)
        return bool(said.value) if isinstance(said, Const) and said != NONE else layer.parameters

    def _drops(self, layer: Layer, args: Arguments, w: World) -> bool:
        """Whether a layer is given a probability, which may be computed, of a dropout inside, and drops anywhere."""
        probability = args.get(*layer.drops) if layer.drops is not None else None
        if probability is None or w.resolve(probability) in (NONE, Const(0), Const(0.0)):
            return False
        number = w.resolve(args.get(*layer.between) or Const(1)) if layer.between is not None else Const(2)
        return isinstance(number, Const) and isinstance(number.value, int) and number.value > 1

    def _shape(self, args: Arguments, w: World) -> Iterator[Hashable]:
        """What tells containers of one place apart: which modules they hold."""
        for value in args.positional:
            obj = w.get(w.resolve(value), Object)
            if isinstance(obj, Instance):
                yield obj.cls.unit if obj.cls is not None else obj.name
            elif isinstance(obj, (Sequence, Mapping)):
                items = obj.items.values() if isinstance(obj, Mapping) else obj.items
                yield tuple(self._shape(Arguments(list(items)), w))

    def opaque(
        self,
        w: World,
        name: str,
        site: Site | None,
        requires_grad: bool | None,
        groups: Iterable[int] = (),
        place: Hashable = None,
    ) -> Ref:
        """A module whose inside is not known, with one parameter group unless it is given some."""
        own = None if place is None else (place, "group")
        members = frozenset(groups) or frozenset([w.new(Group(requires_grad, opaque=True, made_at=site), own).id])
        module = Instance(
            name=name, kind="module", groups=members, opaque=True, training=None, device=None, made_at=site
        )
        return w.new(module, place)

    def taken_for_one(self, value: Unknown, w: World, site: Site) -> Ref:
        """The opaque module that stands from now on for what can only be one."""
        part = self.m.library_models.part_of(value, w)
        name = value.hint if part is None else f"{part[0].name}.{part[1]}"
        opaque = self.opaque(w, name, site, None, value.deps, ("module", value.key))
        w.bound[value.key] = opaque
        return opaque

    def presume_parts(self, ref: Ref, w: World, site: Site) -> None:
        """A module is asked for its parameters, of which none are known: it holds what it calls and is not known."""
        for here in list(self.walk(ref, w)):
            obj = w.get(here, Instance)
            if obj is None or obj.cls is None:
                continue
            called = self._called(obj.cls)
            for value in [w.resolve(value) for name, value in obj.attrs.items() if name in called]:
                if isinstance(value, Unknown) and looks_like_module(value):
                    self.taken_for_one(value, w, site)

    def _called(self, cls: Class) -> frozenset[str]:
        """The attributes of its objects that a class calls: ``self.encoder(x)``."""
        texts = (method.text for method in self.m.definitions.methods(cls).values())
        chains = (chain for text in texts for chain in chains_in(text) if chain.called and len(chain.parts) == 2)
        return frozenset(chain.parts[1] for chain in chains if chain.parts[0] == "self")

    def may_be_one(self, ref: Ref, w: World) -> bool:
        """Whether what was taken for a tensor, as it was moved to a device or told to require grad, may be a module."""
        tensor = w.get(ref, Tensor)
        return tensor is not None and not tensor.is_parameter and (tensor.structured or ref.id in self._taken)

    def recognised(self, ref: Ref, w: World, site: Site) -> None:
        """What was taken for a tensor is a module, if it may be one."""
        tensor = w.get(ref, Tensor)
        if tensor is None or not self.may_be_one(ref, w):
            return
        frozen = tensor.requires_grad is False and not tensor.structured
        fresh_group = Group(False if frozen else None, opaque=True, made_at=site, told=frozen)
        groups = tensor.deps or [w.new(fresh_group).id]
        module = Instance(kind="module", opaque=True, training=None, device=tensor.device, made_at=tensor.made_at)
        module.groups = frozenset(groups)
        w.new(module, key=ref.id)
        before = self._taken.get(ref.id)
        if before is not None and isinstance(w.resolve(before), Unknown) and looks_like_module(before):
            w.bound[before.key] = ref

    def taken_for_tensor(self, before: Unknown, tensor: Ref) -> None:
        """Something unknown that may be a module was moved to a device, or told to require grad."""
        self._taken[tensor.id] = before

    def moved(self, before: Unknown, result: Ref, w: World) -> None:
        """Something unknown that may be a module was moved to a device, which gave ``result``."""
        self.taken_for_tensor(before, result)
        w.bound[MOVED, before.key] = result

    def called_for(self, callee: Value, w: World, site: Site) -> Value:
        """What is called: what was taken for a tensor, or was moved to a device, is a module then."""
        moved = w.bound.get((MOVED, callee.key)) if isinstance(callee, Unknown) else callee
        if not isinstance(moved, Ref):
            return callee
        before, tensor = self._taken.get(moved.id), w.get(moved, Tensor)
        told = tensor is not None and tensor.requires_grad is False and not tensor.structured  # no tensor is called
        if before is None or not (told or looks_like_module(before)):
            return callee
        self.recognised(moved, w, site)
        return w.resolve(callee)

    def prepare(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """Before ``__init__``: what an instance inherits from a layer or loss of torch."""
        for base in self.m.definitions.external_bases(cls):
            layer, loss = LAYERS.get(base), LOSSES.get(base)
            obj = w.write(ref.id)
            if loss is not None and obj.loss is None:
                obj.loss = loss
            elif layer is not None and obj.layer is None:
                obj.layer = layer
                if layer.parameters:
                    obj.groups = frozenset([w.new(Group(True, made_at=site), ((site, ctx.key, base), "group")).id])

    # --- what they hold

    def children(self, obj: Instance, w: World) -> Iterator[Ref]:
        """The modules registered directly on a module."""
        for value in obj.attrs.values():
            value = w.resolve(value)
            for one in each_of(value):
                one = w.resolve(one)
                child = w.get(one, Instance)
                if isinstance(one, Ref) and child is not None and child.kind in MODULES:
                    yield one

    def walk(self, ref: Ref, w: World) -> Iterator[Ref]:
        """A module and all modules below it, each once."""
        seen = {ref.id}
        queue = [ref]
        while queue:
            here = queue.pop(0)
            yield here
            obj = w.find(here.id)
            if isinstance(obj, Instance):
                for child in self.children(obj, w):
                    if child.id not in seen:
                        seen.add(child.id)
                        queue.append(child)

    def groups(self, ref: Ref, w: World) -> frozenset[int]:
        """The parameter groups of a module and of all modules below it."""
        found: set[int] = set()
        for here in self.walk(ref, w):
            obj = w.find(here.id)
            if isinstance(obj, Instance):
                found |= obj.groups
                holds_modules = obj.layer is not None and obj.layer.container
                for value in obj.attrs.values():
                    value = w.resolve(value)
                    tensor = w.get(value, Tensor)
                    if tensor is not None and tensor.is_parameter:
                        found |= tensor.groups
                    elif isinstance(value, Unknown) and holds_modules:
                        found |= value.deps  # a layer taken out of an unknown module
        return frozenset(found)

    def groups_in(self, value: Value, w: World, depth: int = 4) -> frozenset[int]:
        """The parameter groups in what an optimizer is given: parameters, lists of them, dicts with "params"."""
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(obj, Tensor):
            return obj.groups or obj.deps
        if isinstance(obj, Instance):
            if obj.kind in MODULES and isinstance(value, Ref):
                return self.groups(value, w)
            return obj.groups
        if isinstance(obj, (Sequence, Mapping)) and depth:
            parts = list(obj.items.values()) if isinstance(obj, Mapping) else list(obj.items)
            parts += [obj.tail] if obj.tail is not None else []
            return frozenset().union(*(self.groups_in(part, w, depth - 1) for part in parts))
        if isinstance(value, Choice) and depth:
            return frozenset().union(*(self.groups_in(one, w, depth - 1) for one in value.alternatives))
        if isinstance(value, Unknown):
            if value.deps:
                return value.deps
            key = ("parameters", value.key)
            if key not in w.bound:
                w.bound[key] = w.new(
                    Instance(kind="parameters", device=None, groups=frozenset([w.new(Group(None, opaque=True)).id]))
                )
            return self.groups_in(w.bound[key], w)
        return frozenset()

    def parted(self, layer: Value, usual: str, halves: tuple[str, ...], args: Arguments, w: World) -> None:
        """A parameter of a layer, the usual one if no other is named, is computed from others from now on."""
        obj, name = w.get(layer, Instance), w.resolve(args.get(1, "name") or Const(usual))
        if not isinstance(layer, Ref) or obj is None or obj.layer is None or not obj.groups or name != Const(usual):
            return
        for half in halves:
            parameter = self.m.tensors.parameter(obj.groups, w, obj.made_at, obj.device)
            w.write(layer.id).attrs[half] = parameter

    # --- attributes

    def attribute(self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """An attribute that torch gives to a module, optimizer or other known object; None if it gives none."""
        if obj.kind in MODULES:
            if name == "_forward_hooks":
                self.m.hooks.forgotten(owner, w)
            if name == "training":
                if obj.training is None:
                    return Unknown(("training", owner), "training")
                return Const(obj.training, asked=obj.mode_asked)
            if names_parameter(name) and obj.groups and (obj.layer is not None or obj.opaque):
                parameter = self.m.tensors.parameter(self.m.grouping.rest(obj, w), w, obj.made_at, obj.device)
                if _is_wide(obj):
                    w.write(parameter.id).size = "many"
                self.m.shapes.of_parameter(name, parameter, obj.attrs.get("<width>"), obj.attrs.get("<depth>"), w)
                w.write(owner.id).attrs[name] = parameter
                return parameter
            if name == "module" and (obj.opaque or obj.cls is None):
                return owner
            if name == "device":
                return Const(obj.device) if obj.device == "cuda" else Unknown(("device", owner), "device")
            if name in self.m.methods.MODULE_METHODS:
                return Bound(owner, name)
            if obj.opaque:
                return w.resolve(Unknown(("attribute", owner, name), name, obj.groups))
            return None
        if name == "__class__":
            return obj.cls or External(obj.name)
        if obj.kind == "optimizer" and name == "param_groups":
            return w.new(Instance(kind="param_groups", groups=obj.groups))
        if obj.kind == "optimizer" and name == "base_optimizer":
            return owner
        if obj.kind == "scheduler" and name == "optimizer" and obj.args:
            return w.resolve(obj.args[0])
        if obj.kind in self.m.methods.KINDS and obj.cls is None:
            return Bound(owner, name)
        if obj.kind == "optimizer" and name in (
            "step",
            "zero_grad",
            "state_dict",
            "load_state_dict",
            "add_param_group",
            "register_step_post_hook",
        ):
            return Bound(owner, name)
        return None

    def set_attribute(self, owner: Ref, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        """``object.name = value``."""
        obj = w.write(owner.id)
        value = w.resolve(value)
        if name == "requires_grad" and obj.kind in MODULES and not (obj.opaque and obj.made_at is None):
            own = ctx.receiver == owner and not (obj.layer is not None and obj.groups and value == Const(False))
            self.m.witness.send(events.ModuleRequiresGradSet(site=site, module=obj.name, own=own), w, ctx)
        if name == "training" and obj.kind in MODULES:
            obj.training = value.value if isinstance(value, Const) else None
            obj.mode_at = site
            return
        if obj.kind == "dict" and name == "__dict__":
            self.m.dicts.forgotten(owner, w)
        if obj.kind == "optimizer" and name == "param_groups":
            obj.groups |= self.groups_in(value, w)
            return
        if obj.kind in MODULES:
            self.m.ownership.placed(owner, value, w, site)
            if not self.m.construction.builds(owner, ctx):
                self.m.plain.set_again(obj, name, value, w)
        obj.attrs[name] = value
        obj.optional -= {name}
        if obj.opaque:
            for inside in [key for key in obj.attrs if key.startswith(f"{name}.")]:
                del obj.attrs[inside]
        if name not in obj.buffers:
            obj.set_at[name] = site
        if obj.kind in MODULES:
            self.m.construction.attribute_set(owner, obj, name, value, w, ctx, site)

    # --- containers and iteration

    def spelled(self, w: World, ctx: Context) -> str:
        """How the method that is being executed spells its own module: ``self``; empty where there is none."""
        function = ctx.function
        if function is None or function.unit.class_unit is None or function.kind:
            return ""
        params = function.unit.node.params
        first = next(iter((*params.posonly_params, *params.params)), None)
        frame = w.get(Ref(ctx.frame), Frame)
        if first is None or frame is None:
            return ""
        value = frame.vars.get(first.name.value)
        obj = w.get(w.resolve(value), Instance) if value is not None else None
        return first.name.value if obj is not None and obj.kind in MODULES else ""

    def iterate(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items | None:
        """Iterating over modules, parameters and optimizers' groups."""
        never = self.m.collections.never
        if obj.kind == "parameters":
            groups = obj.groups
            if not groups:
                return Items([], never)
            parameter: Value = self.m.tensors.parameter(groups, w, obj.made_at, obj.device)
            if obj.attrs.get("named"):
                name = Unknown(("name", fresh()), "name")
                parameter = w.new(Sequence([name, parameter], [None, None], None, None, False))
            return Items([parameter], never)
        if obj.kind == "param_groups":
            parameters = w.new(Instance(kind="parameters", device=None, groups=obj.groups))
            return Items([w.new(Mapping({Const("params"): parameters}, Unknown(("option", fresh()))))], never)
        return self.m.layers.iterate(obj, w)

    def iterated(self, value: Value, obj: Instance, w: World, ctx: Context) -> Value | None:
        """One item of an instance of a project's class, by its ``__getitem__`` or ``__iter__``; unknown data."""
        return Unknown(("batch", fresh()), "batch") if obj.kind == "dataset" else None

    def get_item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``module[0]``, ``module_dict["head"]``, ``param_groups[0]``."""
        if obj.kind == "param_groups":
            parameters = w.new(Instance(kind="parameters", device=None, groups=obj.groups))
            return w.new(Mapping({Const("params"): parameters}, Unknown(("option", fresh()))))
        if obj.kind == "parameters":
            items = self.iterate(owner, obj, w, ctx, site)
            if items is None or not items.known:
                return NONE
            some = self.m.tensors.picked(items.known[0], w)
            single = isinstance(index, (Const, Unknown))
            return some if single else w.new(Sequence([], [], some))
        if obj.layer is not None and obj.layer.container:
            held = self.m.layers.get_item(obj, index, w, site)
            if held is not None:
                return held
        if obj.cls is not None and isinstance(owner, Ref):
            method = self.m.definitions.attribute(obj.cls, "__getitem__", w)
            if isinstance(method, Function) and obj.kind != "dataset":
                given = index if isinstance(index, (Const, Unknown, Ref)) else Unknown(("index", fresh()))
                results = self.m.calls.function(method, Arguments([given]), w, ctx, site, owner)
                return joined(results, w)
        return Unknown(("item", fresh()), "", obj.groups)

    # --- calling

    def call(self, callee: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """``module(...)``, ``criterion(...)``."""
        grad, passes = w.grad, self.m.evaluation.passes
        results = self.m.hooks.called(callee, args, self._call(callee, args, w, ctx, site), ctx, site)
        if passes == self.m.evaluation.passes:  # a model that adapts itself needs gradients in evaluation, too
            self.m.evaluation.called(callee, args, results, grad, ctx, site)
        return results

    def _call(self, callee: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        obj = w.get(callee, Instance)
        assert obj is not None
        if obj.kind != "loss" and self.groups(callee, w):
            self.m.changes.fed(args, w)
            if self._trains(callee, w):
                self._fed(obj.name, args, w, ctx, site)
        self.m.construction.applied(callee, obj, w, ctx)
        if obj.cls is not None:
            forward = self.m.definitions.attribute(obj.cls, "forward", w)
            if forward is None:
                forward = self.m.definitions.attribute(obj.cls, "__call__", w)
            if isinstance(forward, Function):
                if ctx.in_forward and self.m.budget.hurries(forward.unit):
                    return [(w, self.m.library_models.output(callee, obj, args, w, ctx, site))]
                return self.m.calls.function(forward, args, w, ctx, site, callee)
        return self.inherited(callee, obj, args, w, ctx, site)

    def inherited(self, callee: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """The ``forward`` that a module has from torch, or from a library."""
        if obj.loss is not None:
            return [(w, self.loss(obj.loss.name, obj.loss, obj, args, w, ctx, site))]
        layer = obj.layer
        if layer is not None and layer.container == "sequential":
            return self.m.layers.call(callee, obj, args, w, ctx, site)
        if layer is not None and layer.container == "wrapper":
            return self.m.calls.call(obj.attrs.get("module", NONE), args, w, ctx, site)
        if layer is not None:
            return [(w, self._layer(obj, layer, args, w, ctx, site))]
        value = self.m.library_models.output(callee, obj, args, w, ctx, site)
        for head in (obj.attrs[name] for name in heads(obj.name) if name in obj.attrs):
            if w.get(w.resolve(head), Instance) is not None:
                return self.m.calls.call(head, Arguments([value]), w, ctx.at(site, "head"), site)
        return [(w, value)]

    def _layer(self, obj: Instance, layer: Layer, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if layer.dropout and obj.in_forward and obj.mode_at is None:
            probability = obj.attrs.get("p")
            self.m.witness.send(
                events.DropoutCalled(
                    site=site,
                    function=obj.name.replace("torch.nn", "nn"),
                    training_given=known(False),
                    in_module=known(True),
                    mode_checked=known(w.module_checked),
                    inert=known(probability in (Const(0), Const(0.0))),
                    module=self.spelled(w, ctx),
                ),
                w,
                ctx,
            )
        op = layer.op
        overwrites = "<inplace>" in obj.attrs and bool(args.positional) and (not layer.dropout or obj.training is True)
        if overwrites:
            self.m.changes.in_place(f"{obj.name.rpartition('.')[2].lower()}_", args.positional[0], [], w, ctx, site)
            op = overwriting(op)
        value = self.m.operations.apply(op, args, w, ctx, site, parameters=obj.groups, device=obj.device)
        if overwrites:
            self.m.memory.alias(value, args.positional[0], w)
        if obj.device != "cpu" and obj.device != "cuda" and isinstance(value, Ref):
            tensor = w.get(value, Tensor)
            if tensor is not None and tensor.device != "cuda" and obj.groups:
                w.write(value.id).device = None
        if obj.groups and obj.device == "cpu":
            self.m.placement.elsewhere(value, w)
        if _is_wide(obj) and isinstance(value, Ref):
            w.write(value.id).size = "many"
        self.m.shapes.passed(obj, op, args, value, w)
        if w.grad and self.m.tensors.is_given(obj.groups, w):
            several = w.get(value, Sequence)
            self._outright([value] if several is None else [*several.items, several.tail or NONE], w)
        if layer.returns == "tensor" or not isinstance(value, Ref):
            return value
        if layer.returns == "lstm":
            states = [self.m.tensors.view(value, w, site) for _ in range(2)]
            other: Value = w.new(Sequence(states, [None, None], None, None, False))
        else:
            other = self.m.tensors.view(value, w, site)
            if isinstance(other, Ref):
                w.write(other.id).structured = True
        given = w.get(w.resolve(args.get(0, "input") or NONE), Sequence)
        packed = layer.returns in ("recurrent", "lstm") and given is not None and given.fields == PACKED_FIELDS
        first = self.m.operations.packed(value, w, site) if packed else value
        return w.new(Sequence([first, other], [None, None], None, None, False))

    def _outright(self, values: Iterable[Value], w: World) -> None:
        """These are what a layer that is given returned."""
        for value in values:
            if isinstance(value, Ref) and w.get(value, Tensor) is not None:
                new: Tensor = w.write(value.id)
                new.presumed = new.outright = new.requires_grad is None

    def _fed(self, name: str, given: Iterable[Value], w: World, ctx: Context, site: Site) -> None:
        """Tell the rules of inputs and targets that are leaves, or views of them, and require grad."""
        if not self.m.witness.listened(events.InputFed) or HOOKED in w.bound:
            return
        fed: set[int] = set()
        for value in given:
            tensor = w.get(w.resolve(value), Tensor)
            if tensor is None or tensor.is_parameter is not False:
                continue
            if tensor.base is not None and tensor.requires_grad is False:  # a view made without gradients
                continue
            leaf = self._leaf_behind(tensor, w)
            if not isinstance(leaf, Tensor) or leaf.is_parameter is not False or not leaf.is_leaf:
                continue
            if self.m.tensors.requires_grad(value, w) and (leaf is tensor or tensor.deps <= leaf.groups):
                fed |= leaf.groups
        if fed:
            touches = dict.fromkeys(sorted(fed), True)
            self.m.witness.send(events.InputFed(site=site, touches=touches, module=name), w, ctx)  # type: ignore[arg-type]

    def _leaf_behind(self, tensor: Tensor, w: World) -> Object | None:
        """The leaf that a tensor is, is a view of, or is a copy of on another device."""
        moved = w.find(tensor.moved_of) if tensor.moved_of is not None else None
        if isinstance(moved, Tensor) and not tensor.is_leaf:
            return self._leaf_behind(moved, w)
        return tensor if tensor.is_leaf or tensor.base is None else w.find(self.m.memory.root(tensor.base, w))

    def _trains(self, ref: Ref, w: World) -> bool:
        """Whether a module has parameters that may require grad: if not, its input must for a backward pass."""
        groups = [w.find(key) for key in self.groups(ref, w)]
        return any(isinstance(group, Group) and group.requires_grad is not False for group in groups)

    def _is_output(self, value: Value, w: World) -> bool:
        """Whether a value was computed from parameters, as predictions are."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and tensor.is_leaf is False and self.m.tensors.requires_grad(value, w) is True

    def loss(
        self, name: str, loss: Loss, obj: Instance | None, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a loss: tell the rules what it was given, and give its value."""
        prediction = args.get(loss.input, "input")
        target = args.get(loss.target, "target") if loss.target >= 0 else None
        tensors = self.m.tensors
        for value in (prediction, target):
            tensors.must_be_tensor(value, w)
        event = events.LossCalled(
            site=site,
            loss=name,
            input=tensors.nearly(prediction, w) if prediction is not None else events.Tensor(),
            target=tensors.view_of(target, w) if target is not None else events.Tensor(),
        )
        self.m.witness.send(event, w, ctx, alternative=name, variant=variant(w, ctx))
        self.m.uses.judged(name, prediction, target, w, site)
        if target is not None and prediction is not None and self._is_output(prediction, w):
            self._fed(name, [target], w, ctx, site)
        if w.grad is False and prediction is not None:
            self.m.evaluation.measured([prediction], False, w, ctx)
        reduction: Value | None = args.keywords.get("reduction")
        if obj is not None:
            reduction = obj.attrs.get("reduction", reduction)
        size = "one" if reduction is None or reduction in (Const("mean"), Const("sum")) else "unknown"
        if reduction == Const("none"):
            size = "many"
        if prediction is None and args.open:
            args = args.behind(Unknown(("args", fresh())))
        value = self.m.operations.apply(Op(saves="other", size=size), args, w, ctx, site)  # type: ignore[arg-type]
        self.m.cuts.loss(value, prediction, target, w)
        return value


def _is_wide(layer: Instance) -> bool:
    """Whether a layer is known to return, and to have biases for, more than one feature."""
    width = layer.attrs.get("<width>")
    return isinstance(width, Const) and width.value > 1
