"""What the objects of torch and of libraries do where a program uses them: one declaration for each role."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.roles import Role
from gradlint.static.knowledge.torch_table import STATISTICS
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Index, Items
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.joining import joined
from gradlint.static.state.values import Bound, Const, External, Function, Instance, Ref, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.torch.autograd import Functional, GradModes
from gradlint.static.torch.batches import Batches
from gradlint.static.torch.conversions import Arrays
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.distributions import Distributions
from gradlint.static.torch.effects import Effects
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.module_attributes import ModuleAttributes, ParameterLists
from gradlint.static.torch.module_calls import ModuleCalls
from gradlint.static.torch.module_methods import ModuleMethods
from gradlint.static.torch.norms import LeftStatistics
from gradlint.static.torch.optimizers import Optimizers, Scalers

if TYPE_CHECKING:
    from gradlint.finding import Site


class Behaviour(NamedTuple):
    """What an object does; a field that is None, or that gives None, leaves the answer to what holds for any object."""

    method: Callable[[Ref, Instance, str, Arguments, World, Context, Site], Value | None] | None = None
    """Call a method that is not of the project."""
    initialized: Callable[[Ref, Instance, Arguments, World, Context, Site], None] | None = None
    """``super().__init__(…)`` of a class of the project."""
    called: Callable[[Ref, Instance, Arguments, World, Context, Site], Results | None] | None = None
    """Call the object itself."""
    attribute: Callable[[Ref, Instance, str, World, Context, Site], Value | None] | None = None
    """Read an attribute that nobody has set."""
    setting: Callable[[Ref, Instance, str, Value, World, Context, Site], bool] | None = None
    """An attribute is about to be set: whether that is done by this."""
    was_set: Callable[[Ref, Instance, str, Value, World, Context, Site], None] | None = None
    """An attribute was set."""
    item: Callable[[Value, Instance, Index, World, Context, Site], Value | None] | None = None
    """Read an item."""
    iterate: Callable[[Value, Instance, World, Context, Site], Items | None] | None = None
    """What a loop over it gives."""
    element: Callable[[Value], Value | None] | None = None
    """Any one of what a loop over it gives, where that is not known."""
    combined: Callable[[str, Value, Value, World], Value | None] | None = None
    """``left + right``, where either is such an object."""


_NOTHING: Final = Behaviour()


class Behaviours:
    """Asks an object's role what it does."""

    _definitions: Definitions
    _dicts: DictObjects
    _calls: Calls
    _effects: Effects
    _hooks: Hooks
    _batches: Batches
    _optimizers: Optimizers
    _scalers: Scalers
    _module_attributes: ModuleAttributes
    _distributions: Distributions
    _left_statistics: LeftStatistics
    _module_calls: ModuleCalls
    _functions: CustomFunctions
    _module_methods: ModuleMethods
    _functional: Functional
    _grad_modes: GradModes
    _arrays: Arrays
    _parameter_lists: ParameterLists

    def __init__(self) -> None:
        module = Behaviour(
            method=self._module_methods.module,
            initialized=self._module_attributes.initialized,
            called=lambda owner, obj, a, w, c, s: self._module_calls.call(owner, a, w, c, s),
            attribute=self._module_attributes.attribute,
            setting=self._module_attributes.setting,
            was_set=self._module_attributes.was_set,
            item=self._module_attributes.item,
            iterate=self._module_attributes.iterate,
        )
        lists = self._parameter_lists
        self.of: dict[Role, Behaviour] = {
            roles.MODULE: module,
            roles.HOSTED: module,
            roles.LOSS: module,
            roles.OPTIMIZER: Behaviour(
                method=self._optimizers.optimizer,
                initialized=self._optimizers.initialized,
                attribute=self._optimizers.attribute,
                setting=self._optimizers.setting,
            ),
            roles.SCHEDULER: Behaviour(
                method=self._optimizers.scheduler, attribute=self._optimizers.attribute_of_scheduler
            ),
            roles.SCALER: Behaviour(method=self._scalers.method),
            roles.HANDLER: Behaviour(method=self._optimizers.handler),
            roles.PARAMETERS: Behaviour(item=lists.item, iterate=lists.iterate, combined=lists.combined),
            roles.PARAM_GROUPS: Behaviour(method=_known, item=lists.group, iterate=lists.iterate_groups),
            roles.GRAD_MODE: Behaviour(method=_known, called=self._grad_modes.called),
            roles.EXIT_STACK: Behaviour(method=self._grad_modes.of_stack),
            roles.HOOK: Behaviour(method=self._hooks.method),
            roles.CTX: Behaviour(method=self._functions.noted),
            roles.FUNCTION: Behaviour(called=self._functions.called),
            roles.TRANSFORMED: Behaviour(called=self._functional.over),
            roles.DISTRIBUTION: Behaviour(method=self._distributions.method, attribute=self._distributions.attribute),
            roles.ARRAY: Behaviour(method=self._arrays.method, item=self._arrays.item, combined=self._arrays.combined),
            roles.LOADER: Behaviour(method=_known, element=self._batches.of_loader),
            roles.DATASET: Behaviour(item=self._batches.item, element=self._batches.of_dataset),
            roles.DICT: Behaviour(method=self._of_dict, initialized=self._fill_dict, setting=self._forget_items),
        }
        """What objects of a role do, where they do anything of their own."""

    # --- what is asked

    def method(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        """Call a method that is not of the project; None if nothing is known of it."""
        method = self.of.get(obj.role, _NOTHING).method
        return method(owner, obj, name, args, w, ctx, site) if method is not None else None

    def initialized(self, owner: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``super().__init__(…)`` of an optimizer takes the parameters; of ``nn.Sequential`` the layers."""
        initialized = self.of.get(obj.role, _NOTHING).initialized
        if initialized is not None:
            initialized(owner, obj, args, w, ctx, site)

    def called(self, owner: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Results | None:
        """Call an object; None if nothing is known of that."""
        called = self.of.get(obj.role, _NOTHING).called
        return called(owner, obj, args, w, ctx, site) if called is not None else None

    def attribute(self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """An attribute that torch gives to a known object; None if it gives none."""
        if name == "__class__" and (obj.cls is not None or obj.layer is not None or not obj.role.is_module):
            return obj.cls or External(obj.name)
        attribute = self.of.get(obj.role, _NOTHING).attribute
        found = attribute(owner, obj, name, w, ctx, site) if attribute is not None else None
        if found is not None or obj.role.is_module:
            return found
        return Bound(owner, name) if obj.role.only_methods and obj.cls is None else None

    def set_attribute(self, owner: Ref, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        """``object.name = value``."""
        obj: Instance = w.write(owner.id)
        value = w.resolve(value)
        behaviour = self.of.get(obj.role, _NOTHING)
        if name in STATISTICS:
            self._left_statistics.read(w)
        if behaviour.setting is not None and behaviour.setting(owner, obj, name, value, w, ctx, site):
            return
        obj.attrs[name] = value
        obj.optional -= {name}
        if obj.opaque:
            for inside in [key for key in obj.attrs if key.startswith(f"{name}.")]:
                del obj.attrs[inside]
        if name not in obj.buffers:
            obj.set_at[name] = site
        if behaviour.was_set is not None:
            behaviour.was_set(owner, obj, name, value, w, ctx, site)

    def item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``module[0]``, ``module_dict["head"]``, ``param_groups[0]``."""
        item = self.of.get(obj.role, _NOTHING).item
        found = item(owner, obj, index, w, ctx, site) if item is not None else None
        if found is not None:
            return found
        if obj.cls is not None and isinstance(owner, Ref):
            method = self._definitions.attribute(obj.cls, "__getitem__", w)
            if isinstance(method, Function):
                given = index if isinstance(index, (Const, Unknown, Ref)) else new_unknown("index")
                results = self._calls.function(method, Arguments([given]), w, ctx, site, owner)
                return joined(results, w)
        return new_unknown("item", "", obj.groups)

    def iterate(self, value: Value, obj: Instance, w: World, ctx: Context, site: Site) -> Items | None:
        """Iterating over modules, parameters and optimizers' groups."""
        iterate = self.of.get(obj.role, _NOTHING).iterate
        return iterate(value, obj, w, ctx, site) if iterate is not None else None

    def element(self, value: Value, obj: Instance) -> Value | None:
        """Any one of what iterating over an object gives; None if nothing is known of that."""
        element = self.of.get(obj.role, _NOTHING).element
        return element(value) if element is not None else None

    def combined(self, symbol: str, left: Value, right: Value, w: World) -> Value | None:
        """``left + right``, or another operator between them; None if no object tells what that gives."""
        for obj in (w.get(left, Instance), w.get(right, Instance)):
            combined = self.of.get(obj.role, _NOTHING).combined if obj is not None else None
            if combined is not None:
                return combined(symbol, left, right, w)
        return None

    # --- objects of classes that derive from dict

    def _of_dict(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        held = self._dicts.held(owner, w)
        return self._effects.method(held, name, args, w, ctx, site) if held is not None else None

    def _fill_dict(self, owner: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        self._dicts.initialized(owner, args, w, ctx, site)

    def _forget_items(
        self, owner: Ref, obj: Instance, name: str, value: Value, w: World, ctx: Context, site: Site
    ) -> bool:
        if name == "__dict__":
            self._dicts.forgotten(owner, w)
        return False


def _known(owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
    """A method that touches nothing."""
    return new_unknown("result of known")
