"""Models that libraries build, and what their trainers call of the classes that are derived from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import (
    BY_HAND,
    CALLBACK_BASES,
    RUN_OF,
    TRAINER_STEPS,
    TRAINING_STEPS,
    classifies_many,
    depends_on_mode,
    gives_tensors,
    has_parameters,
    heads,
    is_called_with_grad,
    is_called_without_grad,
)
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import AttributeOf, Result, fresh
from gradlint.static.state.provenance import part_of_library_model
from gradlint.static.state.values import (
    NONE,
    Class,
    Const,
    Function,
    Instance,
    Mapping,
    Ref,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.ownership import inside
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.placement import DevicePlacement
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradlint.finding import Site


_OPAQUE = Op(activation="clears", saves="other")
UNRECORDED = "<unrecorded>"
"""Beside the attributes of a module: its forward pass may disable gradients."""

_MANY = "<many>"
"""An attribute of a model that gives many numbers for each sample, as long as nothing in it is replaced."""


class LibraryModels:
    """Builds and calls models of which only the outside is known, and parts of them."""

    _tensors: Tensors
    _modules: Modules
    _graphs: Graphs
    _placement: DevicePlacement
    _operations: Operations

    def built(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Ref:
        """A model that a library builds: its inside is not known, but for what the torch table tells of its kind."""
        ref = self._modules.opaque(w, name, site, True, place=(site, ctx.key, name))
        new: Instance = w.write(ref.id)
        if depends_on_mode(name, args.keywords) and not args.open:
            new.mode_dependent, new.training = True, True
        if classifies_many(name, args.keywords) and not args.open:
            new.attrs[_MANY] = Const(True)
        return ref

    def output(self, ref: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """What a model of which the inside is not known gives."""
        if UNRECORDED in obj.attrs:
            return Unknown(Result(fresh()), deps=self._modules.groups(ref, w))
        value = self._operations.apply(_OPAQUE, args, w, ctx, site, parameters=self._modules.groups(ref, w))
        tensor = w.get(value, Tensor)
        if tensor is not None and isinstance(value, Ref):
            new: Tensor = w.write(value.id)
            new.structured, new.activation, new.integral = True, None, None
            new.device_if_tensor, new.device = None, self._placement.device_of(obj, args, w)
            new.on_device_as_one = new.device is not None
            new.open = True
            new.presumed = new.whole_output = new.requires_grad is None and w.grad is True
            new.doubtful |= self._perhaps_unused(args, w) & new.segments
            if _MANY in obj.attrs and self._is_as_built(ref, obj, w):
                new.size, new.structured = "many", False
        return value

    def _perhaps_unused(self, args: Arguments, w: World) -> frozenset[int]:
        """The graphs behind what such a model is given beside its input: it need not use that, or may detach it."""
        behind = [self._graphs.of_known(value, w) for value in args]
        return frozenset[int]().union(*behind[1:]) - behind[0] if args.positional else frozenset[int]()

    def _is_as_built(self, ref: Ref, obj: Instance, w: World) -> bool:
        """Whether no part of a library's model was replaced."""
        return obj.attrs.keys() <= {_MANY} and not any(inside(key)[0] == ref for key in w.bound)

    def is_part(self, value: Unknown, w: World) -> bool:
        """Whether an unknown value is a module of a library's model: ``resnet.layer4``, ``vgg.features[0]``."""
        return part_of_library_model(value, w) is not None

    def part_called(self, part: Unknown, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """What a module of a library's model gives when it is called by itself; None if the value is no such module."""
        found = part_of_library_model(part, w)
        if found is None or args.open or not heads(found[0].name):
            return None
        owner, name = found
        whole = isinstance(part.key, AttributeOf) and has_parameters(owner.name, name)
        op = _OPAQUE if whole else replace(_OPAQUE, saves="")  # a layer inside may have no parameters
        value = self._operations.apply(op, args, w, ctx, site, parameters=owner.groups if whole else frozenset())
        tensor = w.get(value, Tensor)
        if tensor is not None and isinstance(value, Ref):
            new: Tensor = w.write(value.id)
            new.activation = new.integral = new.device = new.device_if_tensor = None
            new.structured = not gives_tensors(owner.name)
            new.open, new.from_unknown, new.deps = True, True, new.deps | owner.groups
            frozen = all(self._tensors.group_grad(key, w) is False for key in owner.groups)
            if new.requires_grad is False and w.grad is not False and not whole and not frozen:
                new.requires_grad = new.is_leaf = None
        return value


class Trainers:
    """Calls what those who run the loop for the user call."""

    _definitions: Definitions
    _calls: Calls
    _modules: Modules
    _evaluation: Evaluation
    _retention: GraphRetention
    _uses: Uses
    _passes: Passes

    def initialized(self, ref: Value, args: Arguments, w: World) -> None:
        """The ``__init__`` of the library ran on an object: it keeps the model it is given."""
        obj = w.get(ref, Instance)
        if obj is None or obj.cls is None or obj.role is not roles.PLAIN or self._library(obj.cls) is None:
            return
        model = args.get(0, "model")
        if model is not None and isinstance(ref, Ref):
            w.write(ref.id).attrs["model"] = model

    def called(self, receiver: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> None:
        """A method of the library was called: it calls one of the class for each batch, with the model it keeps."""
        library = self._library(obj.cls) if obj.cls is not None and obj.role is roles.PLAIN else None
        step = TRAINER_STEPS[library].get(name) if library is not None else None
        model = obj.attrs.get("model")
        if obj.cls is None or step is None or model is None or isinstance(w.resolve(model), Unknown):
            return
        method = self._definitions.attribute(obj.cls, step, w)
        if isinstance(method, Function):
            given = Arguments([model, new_unknown("inputs", "inputs")])
            trial = w.copy()
            trial.grad = True
            results = self._calls.function(method, given, trial, ctx.at("step", site), site, receiver)
            for world, value in results:
                self._evaluation.escaped([value], world)
                self._uses.escaped([value], world)
                self._retention.escaped([value], world)

    def started(self, receiver: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> None:
        """A process or thread that is an object of the project is started: its method runs, on what is there now."""
        bodies = RUN_OF.get(name)
        if bodies is None or obj.cls is None:
            return
        for base in self._definitions.external_bases(obj.cls):
            method = self._definitions.attribute(obj.cls, bodies[base], w) if base in bodies else None
            if isinstance(method, Function):
                apart = w.copy()
                apart.grad = True
                self._calls.function(method, Arguments(), apart, ctx.at("started", site), site, receiver)

    def returned(
        self, receiver: Value | None, method: str, results: Iterable[tuple[World, Value]], ctx: Context, site: Site
    ) -> None:
        """A method has returned: the framework walks the graph of the loss that a step of training returns."""
        for world, value in results:
            obj = world.get(receiver, Instance) if receiver is not None else None
            if (
                obj is None
                or obj.role is not roles.HOSTED
                or method not in TRAINING_STEPS
                or self._is_manual(obj, world)
            ):
                continue
            mapping = world.get(world.resolve(value), Mapping)
            loss = value if mapping is None else mapping.items.get(Const("loss"), NONE)
            self._passes.by_framework(loss, world, ctx, site)

    def _is_manual(self, obj: Instance, w: World) -> bool:
        """Whether a module whose loop a library runs may make the backward passes itself."""
        cls = obj.cls
        return any(
            option in obj.attrs or (cls is not None and self._definitions.attribute(cls, option, w) is not None)
            for option in BY_HAND
        )

    def hooked(self, method: Function, cls: Class, w: World) -> Arguments:
        """What a method is given that nothing in the project calls: a callback gets the trainer, and its model."""
        name = method.unit.name
        if not name.startswith("on_") or CALLBACK_BASES.isdisjoint(self._definitions.external_bases(cls)):
            return Arguments(open=True)
        if is_called_without_grad(roles.HOSTED, name):
            w.grad = False
        elif not is_called_with_grad(name):
            w.grad = None
        trainer, model = new_unknown("trainer", "trainer"), new_unknown("model", "model")
        opaque = self._modules.taken_for_one(model, w, method.unit.here)
        return Arguments([trainer, opaque], {}, open=True)

    def _library(self, cls: Class) -> str | None:
        return next((base for base in self._definitions.external_bases(cls) if base in TRAINER_STEPS), None)


__all__ = ["LibraryModels", "Trainers"]
