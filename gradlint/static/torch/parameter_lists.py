"""``model.parameters()`` and ``optimizer.param_groups``: what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.python.collections import Collections
from gradlint.static.python.domain import Index, Items
from gradlint.static.state.context import Context
from gradlint.static.state.values import NONE, Const, Instance, Mapping, Ref, Sequence, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


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
            parameter = self._tensors.picked(parameter, w)  # the whole model may have others
        if obj.attrs.get("named"):
            name = new_unknown("name", "name")
            parameter = w.new(Sequence([name, parameter], [None, None], None, None, False))
        return Items([parameter], never)

    def item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """One of a list of parameters, or several."""
        items = self.iterate(owner, obj, w, ctx, site)
        if not items.known:
            return NONE
        some = self._tensors.picked(items.known[0], w)
        single = isinstance(index, (Const, Unknown))
        return some if single else w.new(Sequence([], [], some))

    def iterate_groups(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items:
        """Iterating over the parameter groups of an optimizer."""
        return Items([self._group(obj, w)], self._collections.never)

    def group(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``param_groups[0]``."""
        return self._group(obj, w)

    def _group(self, obj: Instance, w: World) -> Value:
        parameters = w.new(Instance(role=roles.PARAMETERS, device=None, groups=obj.groups))
        return w.new(Mapping({Const("params"): parameters}, new_unknown("option")))
