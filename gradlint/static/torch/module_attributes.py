"""Attributes and items of modules, optimizers and the other objects that torch makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_layers import names_parameter
from gradlint.static.knowledge.torch_table import STATISTICS
from gradlint.static.knowledge.torch_training import METHODS_OF_MODULES
from gradlint.static.python.calls import Calls
from gradlint.static.python.collections import Collections
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Index, Items
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import Asked, AttributeOf, Batch, fresh
from gradlint.static.state.values import (
    NONE,
    Bound,
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Ref,
    Sequence,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.grouping import Grouping
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.ownership import Ownership
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.shapes import Shapes, is_wide
from gradlint.static.torch.statistics import LeftStatistics
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class ModuleAttributes:
    """Reads and writes what torch gives to its objects."""

    _witness: Witness
    _definitions: Definitions
    _dicts: DictObjects
    _calls: Calls
    _collections: Collections
    _tensors: Tensors
    _modules: Modules
    _ownership: Ownership
    _plain: PlainTensors
    _shapes: Shapes
    _hooks: Hooks
    _left_statistics: LeftStatistics
    _grouping: Grouping
    _construction: Construction
    _layers: LayerContainers

    def attribute(self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """An attribute that torch gives to a module, optimizer or other known object; None if it gives none."""
        if obj.role.is_module:
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
        if name == "__class__":
            return obj.cls or External(obj.name)
        if obj.role is roles.OPTIMIZER and name == "param_groups":
            return w.new(Instance(role=roles.PARAM_GROUPS, groups=obj.groups))
        if obj.role is roles.OPTIMIZER and name == "base_optimizer":
            return owner
        if obj.role is roles.SCHEDULER and name == "optimizer" and obj.args:
            return w.resolve(obj.args[0])
        if obj.role.only_methods and obj.cls is None:
            return Bound(owner, name)
        if obj.role is roles.OPTIMIZER and name in (
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
        if name == "requires_grad" and obj.role.is_module and not (obj.opaque and obj.made_at is None):
            own = ctx.receiver == owner and not (obj.layer is not None and obj.groups and value == Const(False))
            self._witness.send(events.ModuleRequiresGradSet(site=site, module=obj.name, own=own), w, ctx)
        if name == "training" and obj.role.is_module:
            obj.training = value.value if isinstance(value, Const) else None
            obj.mode_at = site
            return
        if name in STATISTICS:
            self._left_statistics.read(w)
        if obj.role is roles.DICT and name == "__dict__":
            self._dicts.forgotten(owner, w)
        if obj.role is roles.OPTIMIZER and name == "param_groups":
            obj.groups |= self._modules.groups_in(value, w)
            return
        if obj.role.is_module:
            self._ownership.placed(owner, value, w, site)
            if not self._construction.builds(owner, ctx):
                self._plain.set_again(obj, name, value, w)
        obj.attrs[name] = value
        obj.optional -= {name}
        if obj.opaque:
            for inside in [key for key in obj.attrs if key.startswith(f"{name}.")]:
                del obj.attrs[inside]
        if name not in obj.buffers:
            obj.set_at[name] = site
        if obj.role.is_module:
            self._construction.attribute_set(owner, obj, name, value, w, ctx, site)

    def iterate(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items | None:
        """Iterating over modules, parameters and optimizers' groups."""
        never = self._collections.never
        if obj.role is roles.PARAMETERS:
            groups = obj.groups
            if not groups:
                return Items([], never)
            parameter: Value = self._tensors.parameter(groups, w, obj.made_at, obj.device)
            if any(isinstance(whole, Ref) and whole.id in self._modules.parts for whole in obj.args):
                parameter = self._tensors.picked(parameter, w)  # the whole model may have others
            if obj.attrs.get("named"):
                name = new_unknown("name", "name")
                parameter = w.new(Sequence([name, parameter], [None, None], None, None, False))
            return Items([parameter], never)
        if obj.role is roles.PARAM_GROUPS:
            parameters = w.new(Instance(role=roles.PARAMETERS, device=None, groups=obj.groups))
            return Items([w.new(Mapping({Const("params"): parameters}, new_unknown("option")))], never)
        return self._layers.iterate(obj, w)

    def iterated(self, value: Value, obj: Instance, w: World, ctx: Context) -> Value | None:
        """One item of an instance of a project's class, by its ``__getitem__`` or ``__iter__``; unknown data."""
        return Unknown(Batch(fresh()), "batch") if obj.role is roles.DATASET else None

    def get_item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``module[0]``, ``module_dict["head"]``, ``param_groups[0]``."""
        if obj.role is roles.PARAM_GROUPS:
            parameters = w.new(Instance(role=roles.PARAMETERS, device=None, groups=obj.groups))
            return w.new(Mapping({Const("params"): parameters}, new_unknown("option")))
        if obj.role is roles.PARAMETERS:
            items = self.iterate(owner, obj, w, ctx, site)
            if items is None or not items.known:
                return NONE
            some = self._tensors.picked(items.known[0], w)
            single = isinstance(index, (Const, Unknown))
            return some if single else w.new(Sequence([], [], some))
        if obj.layer is not None and obj.layer.container:
            held = self._layers.get_item(obj, index, w, site)
            if held is not None:
                return held
        if obj.cls is not None and isinstance(owner, Ref):
            method = self._definitions.attribute(obj.cls, "__getitem__", w)
            if isinstance(method, Function) and obj.role is not roles.DATASET:
                given = index if isinstance(index, (Const, Unknown, Ref)) else new_unknown("index")
                results = self._calls.function(method, Arguments([given]), w, ctx, site, owner)
                return joined(results, w)
        return new_unknown("item", "", obj.groups)
