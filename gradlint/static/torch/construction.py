"""The building of modules: what runs ``Module.__init__``, what is set before it, and what is never registered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import libcst as cst

from gradlint import events
from gradlint.facts import known
from gradlint.static.knowledge.torch_table import MODULE, MODULE_CHANGES
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.execution import Execution
from gradlint.static.python.expressions import Expressions
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import held
from gradlint.static.state.context import Context
from gradlint.static.state.joining import MAX_ALTERNATIVES
from gradlint.static.state.values import (
    Class,
    External,
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
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.plain_tensors import PlainTensors

if TYPE_CHECKING:
    from gradlint.finding import Site

_BUILDERS = ("__init__", "__post_init__", "__new__")
_PARAMETERS = frozenset(
    ["weight", "bias", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_ih_l0", "weight_hh_l0"]
)
_OWN_LISTS = ("parameters", "named_parameters", "_apply")


class Construction:
    """Watches modules of the project while they are built."""

    _execution: Execution
    _witness: Witness
    _definitions: Definitions
    _expressions: Expressions
    _modules: Modules
    _plain: PlainTensors

    def __init__(self) -> None:
        self._read_out: Counter[int] = Counter()
        """How often the parameter groups of layers were read out of a container, and not put back."""
        self._had_in_turn: set[int] = set()
        """Those of layers that a loop over a list had in turn."""

    # --- Module.__init__

    def initialized(self, ref: Value, w: World, ctx: Context, site: Site, certain: bool = True) -> None:
        """``Module.__init__`` ran for a module, or may have run."""
        obj = w.get(ref, Instance)
        if isinstance(ref, Ref) and obj is not None and obj.role.is_model:
            touches: dict[Hashable, Literal[True] | None] = {ref.id: True if certain else None}
            self._witness.send(events.SuperInit(site=site, touches=touches), w, ctx)

    def named(self, named: Value, receiver: Value, owner: Class, w: World, ctx: Context, site: Site) -> None:
        """``super(Class, self)``: tell whether ``self`` is one."""
        obj = w.get(receiver, Instance)
        if not isinstance(named, Class) or obj is None or obj.cls is None or not obj.role.is_model:
            return
        fits = named.unit.name == owner.unit.name or named in self._definitions.mro(obj.cls)
        event = events.SuperCalled(site=site, named=named.unit.name, within=owner.unit.name, fits=known(fits))
        self._witness.send(event, w, ctx)

    # --- attributes

    def builds(self, ref: Ref, ctx: Context) -> bool:
        """Whether execution stands inside the ``__init__`` of this object."""
        here: Context | None = ctx
        while here is not None:
            if here.receiver == ref and here.function is not None and here.function.unit.name in _BUILDERS:
                return True
            here = here.parent
        return False

    def attribute_set(
        self,
        ref: Ref,
        obj: Instance,
        name: str,
        value: Value,
        w: World,
        ctx: Context,
        site: Site,
        registers: bool = False,
    ) -> None:
        """``module.name = value``, or a registration under that name."""
        self.kept(value, w)
        if self.builds(ref, ctx) and name in obj.set_at:
            self._plain.set(ref, obj, name, value, w, site)
        if obj.cls is None or not (registers or self._is_layer(value, w)) or not self.builds(ref, ctx):
            return
        if self._definitions.attribute(obj.cls, "__setattr__", w) is not None:
            return
        event = events.SetsLayer(
            site=site,
            touches={ref.id: True},
            module=obj.cls.unit.name,
            attribute=name,
            direct=known(obj.cls.bases == (External(MODULE),)),
        )
        self._witness.send(event, w, ctx)

    def _is_layer(self, value: Value, w: World) -> bool:
        for each in each_of(value):
            obj = w.get(w.resolve(each), Object)
            parameter = isinstance(obj, Tensor) and obj.is_parameter is True
            if not parameter and not (isinstance(obj, Instance) and obj.role.is_module):
                return False
        return True

    # --- layers built in the forward pass

    def in_forward(self, ctx: Context) -> bool:
        """Whether execution stands in the forward pass of a module, and not in the building of another one there."""
        here: Context | None = ctx
        while here is not None:
            if here.function is not None and here.receiver is not None:
                if here.function.unit.name in _BUILDERS:
                    return False
                if here.function.unit.name == "forward":
                    return here.in_forward
            here = here.parent
        return False

    def made(self, ref: Ref, w: World, ctx: Context) -> None:
        """A layer or module was built."""
        if self.in_forward(ctx):
            w.write(ref.id).in_forward = True

    def kept(self, value: Value, w: World) -> None:
        """A layer is kept by a module, or its parameters are someone's business: it is not built for one call."""
        for each in each_of(w.resolve(value)):
            one = w.resolve(each)
            obj = w.get(one, Instance)
            if obj is not None and isinstance(one, Ref) and obj.in_forward:
                w.write(one.id).in_forward = False
                for child in list(self._modules.children(obj, w)):
                    self.kept(child, w)

    def held(self, value: Value, container: Instance, w: World) -> None:
        """A layer is put into a container, which may be built for one call itself."""
        if not container.in_forward:
            self.kept(value, w)

    def applied(self, ref: Ref, obj: Instance, w: World, ctx: Context) -> None:
        """A module was called: tell of it if it was built in this forward pass."""
        if not obj.in_forward or obj.made_at is None:
            return
        event = events.LayerBuilt(
            site=obj.made_at,
            layer=obj.name.replace("torch.nn", "nn"),
            parameters=known(self._has_built(ref, obj, w)),
            chosen=known(not obj.attrs.keys().isdisjoint(_PARAMETERS)),
        )
        self._witness.send(event, w, ctx)
        if event.parameters.is_true:
            self.kept(ref, w)

    def _has_built(self, ref: Ref, obj: Instance, w: World) -> bool:
        """Whether a module built in this forward pass has parameters: of a container, what was built with it."""
        if obj.layer is None or not obj.layer.container:
            return obj.in_forward and bool(self._modules.groups(ref, w))
        children = ((child, w.get(child, Instance)) for child in self._modules.children(obj, w))
        return any(inner is not None and self._has_built(child, inner, w) for child, inner in children)

    # --- forward, called by name

    def forward_called(self, receiver: Value, by: str, w: World, ctx: Context, site: Site) -> None:
        """``receiver.forward(…)``, where the source spells the receiver as ``by``."""
        obj = w.get(receiver, Instance)
        if obj is None or not obj.role.is_module or by == "self":
            return
        here: Context | None = ctx
        while here is not None:
            if here.receiver == receiver:
                return
            here = here.parent
        if obj.cls is not None:
            defined = [self._definitions.attribute(obj.cls, name, w) is not None for name in ("forward", "__call__")]
            if defined != [True, False]:
                return
        elif obj.layer is None and obj.loss is None and "." not in obj.name and obj.mode_at is None:
            return  # what has parameters need be no module; what has a mode is one
        name = obj.name.replace("torch.nn", "nn") or by or "a module"
        self._witness.send(events.ForwardInvoked(site=site, module=name), w, ctx)

    # --- what was built

    def built(self, ref: Ref, w: World, ctx: Context) -> None:
        """A module was built: tell what it holds without having registered it."""
        obj = w.get(ref, Instance)
        if obj is None or obj.cls is None or not obj.role.is_model:
            return
        if any(self._definitions.attribute(obj.cls, name, w) is not None for name in _OWN_LISTS):
            return
        registered = self._modules.groups(ref, w)
        self._plain.built(ref, obj, registered, w, ctx)
        for name, value in list(obj.attrs.items()):
            value = w.resolve(value)
            container = w.get(value, Object)
            if isinstance(container, (Sequence, Mapping)) and not name.startswith("<"):
                self._container(ref, obj, name, container, registered, w, ctx)

    def _container(
        self,
        ref: Ref,
        obj: Instance,
        name: str,
        container: Sequence | Mapping,
        registered: frozenset[int],
        w: World,
        ctx: Context,
    ) -> None:
        assert obj.cls is not None
        alone = isinstance(container, Sequence) and container.tail is None and not container.repeats
        if alone and len(container.items) < 2:
            return  # ``self.teacher = [teacher]`` hides a module on purpose
        kind = "dict" if isinstance(container, Mapping) else "list" if container.mutable else "tuple"
        for value, put_at in held(container, w):
            groups = self._own_groups(value, ref, w)
            if not groups <= registered and any(self._read_out[key] > 0 for key in groups):
                continue  # registered one by one, it may be
            site = self._told_at(obj, name, put_at, w)
            if groups and site is not None:
                event = events.ModuleBuilt(
                    site=site,
                    module=obj.cls.unit.name,
                    attribute=name,
                    container=kind,
                    registered=known(groups <= registered),
                )
                self._witness.send(event, w, ctx, alternative=name)
                return

    def _told_at(self, obj: Instance, name: str, put_at: Site | None, w: World) -> Site | None:
        """Where a class keeps what it does not register: what fills a list for several classes is not wrong itself."""
        kept_at = obj.set_at.get(name)
        unit = getattr(put_at, "unit", None)
        if obj.cls is None or kept_at is None or unit is None:
            return put_at or kept_at
        own = any(unit.class_unit is cls.unit for cls in self._definitions.mro(obj.cls))
        return put_at if own else kept_at

    def read_out(self, container: Sequence | Mapping, w: World, ctx: Context, *, in_turn: bool = False) -> None:
        """Any one of what a container holds was read: which of its layers get registered is not followed then.

        It is where a loop has few of them in turn. The forward pass reads them to apply them.
        """
        if ctx.in_forward:
            return
        layers = [w.resolve(one) for value, _ in held(container, w) for one in each_of(value)]
        keys = [key for layer in layers for key in self._layers_of(layer, w)]
        known = all(isinstance(w.get(layer, Object), (Instance, Tensor)) for layer in layers)
        if in_turn and known and len(set(layers)) <= MAX_ALTERNATIVES:
            self._had_in_turn.update(keys)
        else:
            self._read_out.update(keys)

    def let_go(self, given: Iterable[Value], w: World) -> None:
        """Code that cannot be followed was given values: it may register the layers that a loop had in turn."""
        if self._had_in_turn:
            layers = (key for value in given for key in self._layers_of(w.resolve(value), w))
            self._read_out.update(key for key in layers if key in self._had_in_turn)

    def _layers_of(self, value: Value, w: World) -> Iterator[int]:
        """The parameters of the layers, and the parameters, among some values."""
        for each in each_of(value):
            each = w.resolve(each)
            obj = w.get(each, Object)
            if isinstance(obj, Instance) and obj.role.is_module and isinstance(each, Ref):
                yield from self._modules.groups(each, w)
            elif isinstance(obj, Tensor) and obj.is_parameter:
                yield from obj.groups

    def puts_back(self, target: cst.CSTNode, value: cst.CSTNode, w: World, ctx: Context) -> bool:
        """Whether this is ``layers[i] = layers[i].to(device)``, where any layer of a list is changed in place."""
        if type(target) is not cst.Subscript or type(value) is not cst.Call or type(value.func) is not cst.Attribute:
            return False
        if value.func.attr.value not in MODULE_CHANGES or not value.func.value.deep_equals(target):
            return False
        if not isinstance(target.value, (cst.Name, cst.Attribute)):
            return False
        container = w.get(w.resolve(self._execution.evaluate(target.value, w, ctx)), Sequence)
        if container is None or not isinstance(self._expressions.index(target, w, ctx), Unknown):
            return False
        layers = [layer for layer, _ in held(container, w)]
        if not all(self._is_layer(layer, w) for layer in layers):
            return False
        if not ctx.in_forward:
            self._read_out.subtract(key for layer in layers for key in self._modules.groups_in(layer, w))
        return True

    def _own_groups(self, value: Value, owner: Ref, w: World) -> frozenset[int]:
        """The parameters of a layer, or the parameter, that was made since the building of ``owner`` began."""
        found: set[int] = set()
        for each in each_of(value):
            each = w.resolve(each)
            obj = w.get(each, Object)
            if not isinstance(each, Ref) or each.id < owner.id:
                return frozenset()
            if isinstance(obj, Tensor) and obj.is_parameter:
                found |= obj.groups
            elif isinstance(obj, Tensor) and _is_moved(obj, owner):
                found |= obj.deps
            elif isinstance(obj, Instance) and obj.role.is_module and not obj.opaque:
                found |= self._modules.groups(each, w)
            else:
                return frozenset()
        # What was only found to be a layer, by ``isinstance``, was not made here.
        return frozenset() if any(getattr(w.find(key), "opaque", False) for key in found) else frozenset(found)

    # --- what makes it right elsewhere

    def handed_over(self, groups: frozenset[int], w: World) -> None:
        """An optimizer was given parameters: those that a module keeps in a container were not forgotten."""
        if not groups or not self._witness.listened(events.ModuleBuilt, events.TensorKept):
            return
        for key, obj in w.all(Instance, imported=True):
            if obj.cls is not None and obj.role.is_model:
                self._excuse(Ref(key), obj, groups, w)

    def _excuse(self, ref: Ref, obj: Instance, groups: frozenset[int], w: World) -> None:
        for name, value in obj.attrs.items():
            container = w.get(w.resolve(value), Object)
            if isinstance(container, Tensor) and (container.groups or container.deps) & groups and name in obj.set_at:
                self._witness.withdraw(events.TensorKept, obj.set_at[name])
            if not isinstance(container, (Sequence, Mapping)):
                continue
            for item, put_at in held(container, w):
                site = self._told_at(obj, name, put_at, w)
                if site is not None and self._own_groups(item, ref, w) & groups:
                    self._witness.withdraw(events.ModuleBuilt, site)


def _is_moved(tensor: Tensor, owner: Ref) -> bool:
    """Whether a tensor was computed from nothing but what was made since the building of ``owner`` began.

    Such as a parameter that was moved, which is not even a leaf.
    """
    made = not tensor.groups and min(tensor.deps, default=0) > owner.id
    return made and tensor.requires_grad is True and not tensor.open
