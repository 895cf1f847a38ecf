"""Trainers of libraries: the methods of classes derived from them, or from their callbacks, that they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import (
    BY_HAND,
    CALLBACK_BASES,
    TRAINER_STEPS,
    TRAINING_STEPS,
    is_called_with_grad,
    is_called_without_grad,
)
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import (
    NONE,
    Class,
    Const,
    Function,
    Instance,
    Mapping,
    Ref,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradlint.finding import Site


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


__all__ = ["Trainers"]
