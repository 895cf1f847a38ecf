"""Attributes, items and parameters of modules, and the names of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_layers import names_parameter
from gradlint.static.knowledge.torch_table import PARAMETER_NAMES, STATISTICS, may_freeze
from gradlint.static.knowledge.torch_training import METHODS_OF_MODULES
from gradlint.static.python.collections import Collections
from gradlint.static.python.domain import Index, Items
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Asked, AttributeOf, Text, fresh
from gradlint.static.state.values import (
    NONE,
    Bound,
    Choice,
    Const,
    Instance,
    Mapping,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.module_methods import ModuleMethods
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import LeftStatistics
from gradlint.static.torch.ownership import Grouping, Ownership
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.shapes import Shapes, is_wide
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


class ParameterLists:
    """Any one of the parameters that a module or an optimizer holds stands for all."""

    _collections: Collections
    _modules: Modules
    _tensors: Tensors

    def iterate(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items:
        """Iterating over parameters."""
        never = self._collections.never
        if not obj.groups:
            return Items([], never)
        parameter: Value = self._tensors.parameter(obj.groups, w, obj.made_at, obj.device)
        if any(isinstance(whole, Ref) and whole.id in self._modules.parts for whole in obj.args):
            parameter = self._tensors.selection(parameter, w)  # the whole model may have others
        if obj.attrs.get("named"):
            name = new_unknown("name", "name")
            parameter = w.new(Sequence([name, parameter], [None, None], None, None, False))
        return Items([parameter], never)

    def item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """One of a list of parameters, or several."""
        items = self.iterate(owner, obj, w, ctx, site)
        if not items.known:
            return NONE
        some = self._tensors.selection(items.known[0], w)
        single = isinstance(index, (Const, Unknown))
        return some if single else w.new(Sequence([], [], some))

    def combined(self, symbol: str, left: Value, right: Value, w: World) -> Value | None:
        """The parameters of two lists."""
        groups = self._modules.groups_in(left, w) | self._modules.groups_in(right, w)
        return w.new(Instance(role=roles.PARAMETERS, device=None, groups=groups)) if symbol == "+" else None

    def iterate_groups(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items:
        """Iterating over the parameter groups of an optimizer."""
        return Items([self._group(obj, w)], self._collections.never)

    def group(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``param_groups[0]``."""
        return self._group(obj, w)

    def _group(self, obj: Instance, w: World) -> Value:
        parameters = w.new(Instance(role=roles.PARAMETERS, device=None, groups=obj.groups))
        return w.new(Mapping({Const("params"): parameters}, new_unknown("option")))


MAX_APART = 24  #: layers and parameters that a loop comes to one by one


class ParameterNames:
    """Tells parameters apart by their names.

    Those of one layer share a history, and stand for each other under the names that each of them may have.
    """

    _tensors: Tensors
    _modules: Modules
    _module_methods: ModuleMethods

    def apart(self, value: Value, node: cst.For, w: World) -> list[Value] | None:
        """The names and parameters that a loop comes to, where it may freeze some of them; None to take all as one."""
        obj = w.get(w.resolve(value), Instance)
        if obj is None or obj.role is not roles.PARAMETERS or not obj.attrs.get("named") or not obj.args:
            return None
        module = obj.args[0]
        if not isinstance(module, Ref) or not may_freeze(cst.Module([]).code_for_node(node.body)):
            return None
        found: dict[frozenset[int], Value] = {}
        for name, groups in self._of(module, w):
            found.setdefault(groups, name)
        if len(found) > MAX_APART or frozenset[int]().union(*found) != obj.groups:
            return None
        if all(isinstance(name, Unknown) for name in found.values()):
            return None
        pairs: list[Value] = []
        for groups, name in found.items():
            parameter = self._tensors.parameter(groups, w, obj.made_at, obj.device)
            pairs.append(w.new(Sequence([name, parameter], [None, None], None, None, False)))
        return pairs

    def _of(self, top: Ref, w: World) -> Iterator[tuple[Value, frozenset[int]]]:
        """The names of the parameters of a module and those below it, in order, with their groups."""
        paths = self._module_methods.names(top, [], w)
        for ref in self._in_order(top, w, set()):
            obj = w.get(ref, Instance)
            path = paths.get(ref)
            if obj is None:
                continue
            prefix = None if path is None else f"{path.value}." * bool(path.value)
            if obj.groups:
                yield self._of_layer(obj, prefix), obj.groups
            for attribute, value in obj.attrs.items():
                tensor = w.get(w.resolve(value), Tensor)
                if tensor is not None and tensor.is_parameter and tensor.groups:
                    known = prefix is not None and not attribute.startswith("<")
                    yield (
                        Const(f"{prefix}{attribute}") if known else new_unknown("name", "name"),
                        tensor.groups,
                    )

    def _of_layer(self, obj: Instance, prefix: str | None) -> Value:
        own = PARAMETER_NAMES.get(obj.name, ()) if obj.cls is None else ()
        if prefix is None:
            return new_unknown("name", "name")
        if not own:
            return Unknown(Text(fresh(), prefix), "name")
        names = tuple(Const(f"{prefix}{name}") for name in own)
        return names[0] if len(names) == 1 else Choice(("names", fresh()), names)

    def _in_order(self, ref: Ref, w: World, seen: set[int]) -> Iterator[Ref]:
        """A module and those below it, each before its own parts."""
        obj = w.get(ref, Instance)
        if obj is None or ref.id in seen:
            return
        seen.add(ref.id)
        yield ref
        for child in self._modules.children(obj, w):
            yield from self._in_order(child, w, seen)
