"""What happens where objects are built: modules and layers of torch, optimizers, and functions of autograd."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Layer
from gradlint.static.knowledge.torch_layers import LAYERS, LOSSES, OVERWRITES
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import (
    NONE,
    Class,
    Const,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Super,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.text.reach import Reach
from gradlint.static.text.triggers import Feature
from gradlint.static.torch.behaviours import Behaviours
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.library_models import UNRECORDED, Trainers
from gradlint.static.torch.methods import Methods
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import UNTRACKED
from gradlint.static.torch.placement import device_of
from gradlint.static.torch.shapes import Shapes

if TYPE_CHECKING:
    from gradlint.finding import Site


class TorchBuilding:
    """The project's functions of autograd, and the building of its modules and optimizers."""

    _definitions: Definitions
    _calls: Calls
    _reach: Reach
    _modules: Modules
    _construction: Construction
    _module_building: ModuleBuilding
    _trainers: Trainers
    _behaviours: Behaviours
    _methods: Methods
    _functions: CustomFunctions

    def within(self, cls: Class, w: World, ctx: Context) -> None:
        if self._definitions.role(cls) is roles.FUNCTION:
            self._functions.examine(cls, w.copy(), ctx)

    def super_called(self, receiver: Super, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """``super().__init__(...)``: the next ``__init__`` of the project, or that of torch."""
        obj = w.get(receiver.receiver, Instance)
        if obj is None or obj.cls is None:
            return [(w, self._methods.call(receiver, "__init__", args, w, ctx, site))]
        function, foreign = self._definitions.initializer(obj.cls, w, after=receiver.cls)
        if foreign or function is None:
            self._construction.initialized(receiver.receiver, w, ctx, site)
        if function is None:
            self._trainers.initialized(receiver.receiver, args, w)
            return [(w, self._methods.call(receiver, "__init__", args, w, ctx, site))]
        return self._calls.function(function, args, w, ctx, site, receiver.receiver)

    def opaque(self, cls: Class, w: World, place: Hashable) -> Value:
        site = place[0] if isinstance(place, tuple) else None
        methods = self._definitions.methods(cls)
        applied = [methods[name] for name in methods.mentioned_by("forward") if name in methods]
        unrecorded = any(self._reach.scope(each.module).mentions(each) & Feature.GRAD_MODE for each in applied)
        ref = self._modules.opaque(w, cls.unit.name, site, True, place=place)
        if unrecorded:
            w.write(ref.id).attrs[UNRECORDED] = Const(True)
        return ref

    def started(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        self._module_building.prepare(ref, cls, args, w, ctx, site)
        obj = w.get(ref, Instance)
        if obj is not None and obj.role is roles.MODULE:
            self._construction.made(ref, w, ctx)

    def done(self, ref: Ref, w: World, ctx: Context) -> None:
        w.write(ref.id).born = fresh()
        self._construction.built(ref, w, ctx)

    def is_trainable(self, ref: Ref, w: World) -> bool:
        return bool(self._modules.groups(ref, w))

    def initialized(self, ref: Value, w: World, ctx: Context, site: Site) -> None:
        self._construction.initialized(ref, w, ctx, site)

    def filled(self, ref: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        obj = w.get(ref, Instance)
        if obj is not None and obj.role is not roles.OPTIMIZER:
            self._construction.initialized(ref, w, ctx, site)
            self._trainers.initialized(ref, args, w)
            obj = w.get(ref, Instance)
        if obj is not None:
            self._behaviours.initialized(ref, obj, args, w, ctx, site)


class ModuleBuilding:
    """Makes instances of classes of ``torch.nn``, and what instances of the project inherit from them."""

    _definitions: Definitions
    _shapes: Shapes
    _construction: Construction
    _layers: LayerContainers

    def layer(self, name: str, layer: Layer, args: Arguments, w: World, ctx: Context, site: Site) -> Ref:
        """An instance of a class of ``torch.nn``."""
        obj = Instance(name=name, role=roles.MODULE, layer=layer, made_at=site)
        place = (site, ctx.key, name, *self._shape(args, w))
        if self._has_parameters(layer, args, w):
            obj.groups = frozenset([w.new(Group(True, made_at=site), (place, "group")).id])
        inplace = args.get(OVERWRITES[name], "inplace") if name in OVERWRITES else None
        if inplace is not None and w.resolve(inplace) == Const(True):
            obj.attrs["<inplace>"] = Const(True)
        if layer.tracks is not None and w.resolve(args.get(*layer.tracks) or Const(True)) != Const(True):
            obj.attrs[UNTRACKED] = Const(True)
        obj.mode_dependent = self._drops(layer, args, w)
        width = self._shapes.width(name, args, w)
        if width is not None:
            obj.attrs["<width>"] = Const(width)
        depth = self._shapes.depth(name, args, w)
        if depth is not None:
            obj.attrs["<depth>"] = Const(depth)
        ref = w.new(obj, place)
        self._construction.made(ref, w, ctx)
        if layer.container:
            self._layers.fill(ref, layer, args, w, ctx, site)
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

    def prepare(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """Before ``__init__``: what an instance inherits from a layer or loss of torch."""
        for base in self._definitions.external_bases(cls):
            layer, loss = LAYERS.get(base), LOSSES.get(base)
            obj = w.write(ref.id)
            if loss is not None and obj.loss is None:
                obj.loss = loss
            elif layer is not None and obj.layer is None:
                obj.layer = layer
                if layer.parameters:
                    obj.groups = frozenset([w.new(Group(True, made_at=site), ((site, ctx.key, base), "group")).id])
