"""The objects whose methods are executed because nothing calls them: how they are built, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import TEST_SETUPS
from gradlint.static.knowledge.torch_table import is_test as names_test
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.progress import Progress, Wholeness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import join, joined
from gradlint.static.state.origins import AttributeOf
from gradlint.static.state.values import (
    NONE,
    Class,
    Frame,
    Function,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.project import Project
from gradlint.static.torch.modules import Modules


class Receivers:
    """Makes the objects that methods are called on."""

    _progress: Progress
    _project: Project
    _whole: Wholeness
    _definitions: Definitions
    _calls: Calls
    _modules: Modules

    def __init__(self) -> None:
        self.costly: set[ClassUnit] = set()  #: classes that took too long to build, or to set up for a test

    def built(self, unit: ClassUnit, cls: Class, world: World, ctx: Context) -> list[tuple[World, Ref]]:
        """The ways an object may have been built: apart where it has a model of its own or one that it was given.

        Raises:
            BudgetExceededError: that takes too long; ``unit`` is among the ``costly`` then.
        """
        self.costly.add(unit)
        results = self._calls.instantiate(cls, Arguments(open=True), world, ctx, unit.here)
        self.costly.discard(unit)
        built = [(w, value, obj) for w, value in results if isinstance(value, Ref) and (obj := w.get(value, Instance))]
        own = frozenset[str]().union(*(_models(obj, world) for world, _, obj in built))
        ends: dict[frozenset[str], tuple[World, Ref]] = {}
        for world, value, obj in built:
            given = frozenset(name for name in own if isinstance(world.resolve(obj.attrs.get(name, NONE)), Unknown))
            known = ends.get(given)
            ends[given] = (world, value) if known is None else (join(known[0], world), value)
        return list(ends.values())

    def unknown(self, unit: ClassUnit, cls: Class, w: World) -> Ref:
        """An object of a class that takes too long to build, or to set up: nothing is known of it but its methods.

        What they read may be anything, be it set by one of them, or a list that the class has until one is set.
        """
        here, role, place = unit.here, self._definitions.role(cls), (unit.here, "unknown")
        own = [w.new(Group(None, opaque=True, made_at=here), (place, "group")).id] if role.is_model else []
        known = role is not roles.PLAIN
        obj = Instance(cls=cls, name=unit.name, role=role, made_at=here, groups=frozenset(own), opaque=known)
        ref = w.new(obj, place)
        for each in self._definitions.mro(cls):
            scope = w.get(Ref(each.scope), Frame)
            held = scope.vars.items() if scope is not None else ()
            names = {name for name, value in held if isinstance(w.get(value, Object), (Sequence, Mapping))}
            for name in names.union(*(method.assigned_attributes for method in each.unit.methods.values())):
                obj.attrs.setdefault(name, Unknown(AttributeOf(ref, name), name))
        return ref

    def unsettled(self, method: FunctionUnit, instance: Ref, end: World) -> World:
        """Whoever called a method may have brought its object into another state than that in which it was built.

        Not known are the mode and the device of the models it holds, whether they are trained, and the gradient mode.
        Where nothing in the files at hand freezes any, those that it builds itself are trained.
        """
        w = end.copy()
        freezes = self._project.may_freeze(method.module)
        w.grad = None if method in self._progress.unrecorded else w.grad
        obj = w.get(instance, Instance)
        for value in [instance, *map(w.resolve, obj.attrs.values())] if obj is not None else ():
            held = w.get(value, Instance)
            if held is None or not held.role.is_model or not isinstance(value, Ref):
                continue
            for ref in self._modules.walk(value, w):
                part: Instance = w.write(ref.id)
                part.training, part.device = None, None
            for key in self._modules.groups(value, w):
                group: Group = w.write(key)
                if freezes or group.opaque:
                    group.requires_grad, group.requires_grad_set = None, True
        return w

    def is_test(self, method: FunctionUnit, cls: Class) -> bool:
        """Whether a framework calls a method as a test, on an object of its own."""
        return names_test(method.name) and self._definitions.is_test(cls)

    def prepared(self, cls: Class, ends: list[tuple[World, Ref]], ctx: Context) -> list[tuple[World, Ref]]:
        """The ways an object may be there where a test begins: what the framework calls before has run.

        Raises:
            BudgetExceededError: that takes too long; the unit of ``cls`` is among the ``costly`` then.
        """
        prepared = []
        self.costly.add(cls.unit)
        for before, instance in ends:
            world = before.copy()
            for name in TEST_SETUPS:
                function = self._definitions.attribute(cls, name, world)
                if isinstance(function, Function):
                    receiver = cls if function.kind == "class" else instance
                    here, site = ctx.at("before", function.unit), function.unit.here
                    with self._whole.partly(len(ends) == 1):
                        results = self._calls.function(function, Arguments(), world, here, site, receiver)
                    joined(results, world)
            prepared.append((world, instance))
        self.costly.discard(cls.unit)
        return prepared


def _models(obj: Instance, w: World) -> Iterator[str]:
    """The attributes that hold models of the project, or losses."""
    for name, value in obj.attrs.items():
        held = w.get(w.resolve(value), Instance)
        if held is not None and ((held.role is roles.MODULE and held.cls is not None) or held.loss is not None):
            yield name
