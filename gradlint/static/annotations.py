"""What annotations tell of values of which nothing else is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.context import Arguments, Context
from gradlint.static.torch_table import LAYERS, LOSSES, MODULE_BASES, OPTIMIZERS, SCALERS, SCHEDULERS
from gradlint.static.values import Class, External, Function, Instance, Ref, Unknown, Value
from gradlint.static.world import World, fresh

if TYPE_CHECKING:
    from gradlint.static.interpreter import Interpreter

_OPTIMIZER = "torch.optim.Optimizer"


class Annotations:
    """Takes a value for what it is annotated with: the module, loss or optimizer that a caller is asked for."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self._building: set[Class] = set()

    def described(self, value: Value, annotation: cst.Annotation | None, w: World, ctx: Context) -> Value:
        """A value, or what stands for it if nothing is known but its annotation.

        One that may be None as well says nothing: what is done where it is None counts as much.
        """
        value = w.resolve(value)
        if annotation is None or not isinstance(value, Unknown):
            return value
        kind = self._meant(annotation.annotation, w, ctx)
        if isinstance(kind, External):
            self._external(value, kind.name, annotation, w, ctx)
        elif isinstance(kind, Class):
            self._built(value, kind, annotation, w, ctx)
        return w.resolve(value)

    def _meant(self, node: cst.BaseExpression, w: World, ctx: Context) -> Value | None:
        """The class that an annotation names; None where it does not name one, or may name None."""
        if isinstance(node, cst.SimpleString):
            text = node.evaluated_value
            try:
                node = cst.parse_expression(text if isinstance(text, str) else "")
            except (cst.ParserSyntaxError, cst.CSTValidationError):
                return None
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        return w.resolve(self.m.eval(node, w, ctx)) if isinstance(root, cst.Name) else None

    def _external(self, value: Unknown, name: str, node: cst.Annotation, w: World, ctx: Context) -> None:
        site = ctx.site(node)
        if name == _OPTIMIZER or name in OPTIMIZERS:
            self.m.optimizers.opaque_optimizer(value, w, site)
        elif name in LOSSES:
            attrs: dict[str, Value] = {"reduction": Unknown(("reduction", fresh()))}
            loss = Instance(name=name, kind="loss", loss=LOSSES[name], attrs=attrs, made_at=site)
            w.bound[value.key] = w.new(loss, ("loss", value.key))
        elif name in SCALERS:
            w.bound[value.key] = self.m.stepping.scaler(Arguments(), name, w, ("scaler", value.key))
        elif name in SCHEDULERS:
            w.bound[value.key] = w.new(Instance(name=name, kind="scheduler"), ("scheduler", value.key))
        elif name in MODULE_BASES or name in LAYERS:
            w.bound[value.key] = self.m.modules.opaque(w, value.hint, site, None, value.deps, ("module", value.key))

    def _built(self, value: Unknown, kind: Class, node: cst.Annotation, w: World, ctx: Context) -> None:
        """An object of a class of the project is what its ``__init__`` makes of arguments that are not known."""
        if self.m.definitions.kind(kind) in ("module", "lightning"):
            forward = self.m.definitions.attribute(kind, "forward", w)
            if not isinstance(forward, Function) or "abstract" in forward.unit.constructs:
                self._external(value, "torch.nn.Module", node, w, ctx)
                return
        elif not self.m.definitions.is_dataclass(kind):
            return
        if kind in self._building:
            return
        trial = w.copy()
        called, built, muted = self.m.called, self.m.built, self.m.witness.muted
        self.m.called, self.m.built, self.m.witness.muted = set(called), set(built), True
        self._building.add(kind)
        try:
            site = ctx.site(node)
            results = self.m.calls.instantiate(kind, Arguments(open=True), trial, ctx.at("annotation", value.key), site)
            instance = self.m.calls.joined(results, trial) if results else None
        finally:
            self._building.discard(kind)
            self.m.called, self.m.built, self.m.witness.muted = called, built, muted
        if not isinstance(instance, Ref):
            return
        w.become(trial)
        for ref in self.m.modules.walk(instance, w):  # nobody knows what has become of it since
            if w.get(ref, Instance) is not None:
                new = w.write(ref.id)
                new.training = new.device = None
                new.opaque = True
        for key in self.m.modules.groups(instance, w):
            group = w.write(key)
            group.requires_grad, group.opaque = None, True
        w.bound[value.key] = instance
