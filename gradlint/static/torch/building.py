"""What the domain of torch answers where Python builds objects: modules, optimizers, and functions of autograd."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.values import Class, Instance, Ref, Super, Value
from gradlint.static.state.world import World
from gradlint.static.torch.behaviours import Behaviours
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.methods import Methods
from gradlint.static.torch.module_building import ModuleBuilding
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.trainers import Trainers

if TYPE_CHECKING:
    from gradlint.finding import Site


class TorchBuilding:
    """The project's functions of autograd, and the building of its modules and optimizers."""

    _definitions: Definitions
    _calls: Calls
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
        return self._modules.opaque(w, cls.unit.name, site, True, place=place)

    def begun(self, ref: Ref, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        self._module_building.prepare(ref, cls, args, w, ctx, site)
        obj = w.get(ref, Instance)
        if obj is not None and obj.role is roles.MODULE:
            self._construction.made(ref, w, ctx)

    def done(self, ref: Ref, w: World, ctx: Context) -> None:
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
