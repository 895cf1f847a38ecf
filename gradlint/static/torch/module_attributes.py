"""Attributes and items of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge.torch_layers import names_parameter
from gradlint.static.knowledge.torch_table import STATISTICS
from gradlint.static.knowledge.torch_training import METHODS_OF_MODULES
from gradlint.static.python.domain import Index, Items
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Asked, AttributeOf
from gradlint.static.state.values import (
    Bound,
    Const,
    Instance,
    Ref,
    Unknown,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.grouping import Grouping
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.ownership import Ownership
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.shapes import Shapes, is_wide
from gradlint.static.torch.statistics import LeftStatistics
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class ModuleAttributes:
    """Reads and writes what torch gives to modules."""

    _witness: Witness
    _tensors: Tensors
    _ownership: Ownership
    _plain: PlainTensors
    _shapes: Shapes
    _hooks: Hooks
    _left_statistics: LeftStatistics
    _grouping: Grouping
    _construction: Construction
    _layers: LayerContainers

    def initialized(self, owner: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``nn.Sequential.__init__(*layers)`` ran, or that of another container."""
        if obj.layer is not None and obj.layer.container:
            self._layers.fill(owner, obj.layer, args, w, ctx, site)

    def attribute(self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """An attribute that torch gives to a module; None if it gives none."""
        if name in STATISTICS:
            self._left_statistics.read(w)
        if name == "_forward_hooks":
            self._hooks.forgotten(owner, w)
        if name in ("_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            self._hooks.may_be_removed(w)
        if name == "training":
            if obj.training is None:
                return Unknown(Asked("training", owner), "training")
            return Const(obj.training, asked=obj.mode_asked)
        if names_parameter(name) and obj.groups and (obj.layer is not None or obj.opaque):
            parameter = self._tensors.parameter(self._grouping.rest(obj, w), w, obj.made_at, obj.device)
            if is_wide(obj):
                w.write(parameter.id).size = "many"
            self._shapes.of_parameter(name, parameter, obj.attrs.get("<width>"), obj.attrs.get("<depth>"), w)
            w.write(owner.id).attrs[name] = parameter
            return parameter
        if name == "module" and (obj.opaque or obj.cls is None):
            return owner
        if name == "device":
            return Const(obj.device) if obj.device == "cuda" else Unknown(Asked("device", owner), "device")
        if name in METHODS_OF_MODULES:
            return Bound(owner, name)
        if obj.opaque:
            return w.resolve(Unknown(AttributeOf(owner, name), name, obj.groups))
        return None

    def setting(self, owner: Ref, obj: Instance, name: str, value: Value, w: World, ctx: Context, site: Site) -> bool:
        """An attribute of a module is about to be set: whether that is done by this, as of its mode."""
        if name == "requires_grad" and not (obj.opaque and obj.made_at is None):
            own = ctx.receiver == owner and not (obj.layer is not None and obj.groups and value == Const(False))
            self._witness.send(events.ModuleRequiresGradSet(site=site, module=obj.name, own=own), w, ctx)
        if name == "training":
            obj.training = value.value if isinstance(value, Const) else None
            obj.mode_at = site
            return True
        self._ownership.placed(owner, value, w, site)
        if not self._construction.builds(owner, ctx):
            self._plain.set_again(obj, name, value, w)
        return False

    def was_set(self, owner: Ref, obj: Instance, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        """An attribute of a module was set."""
        self._construction.attribute_set(owner, obj, name, value, w, ctx, site)

    def item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value | None:
        """An item of a container of modules."""
        container = obj.layer is not None and obj.layer.container
        return self._layers.get_item(obj, index, w, site) if container else None

    def iterate(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items | None:
        """What a loop over a container of modules gives."""
        return self._layers.iterate(obj, w)
