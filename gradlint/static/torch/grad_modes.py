"""What switches the recording of gradients on and off, as context manager, decorator or call."""

from __future__ import annotations

from dataclasses import replace

from gradlint.finding import Site
from gradlint.static.knowledge.torch_training import GRAD_MODES
from gradlint.static.python.conditions import Conditions
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import Const, Function, Instance, Value
from gradlint.static.state.world import World


class GradModes:
    """Makes the managers of gradient modes."""

    _conditions: Conditions

    def manager(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call one of the modes by its name; a function that is decorated by one runs in it."""
        mode = GRAD_MODES[name]
        first = args.get(0)
        if first is not None and isinstance(w.resolve(first), Function) and mode != "argument":
            function = w.resolve(first)
            assert isinstance(function, Function)
            return replace(function, grad=mode == "on")
        grad: bool | None = mode == "on"
        if mode == "argument" or (args.positional and name.endswith("inference_mode")):
            value = w.resolve(args.get(0, "mode") or Const(True))
            grad = answer = self._conditions.truth_in(value, w)
            if name.endswith("inference_mode"):
                grad = None if answer is None else not answer
        return w.new(Instance(name=name, kind="gradmode", grad=grad))

    def exit_stack(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """A stack of context managers; once it is closed, the gradient mode is what it is now."""
        return w.new(Instance(name="contextlib.ExitStack", kind="exitstack", grad=w.grad, made_at=site))

    def set(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``torch.set_grad_enabled``, which has its effect by being called."""
        manager = self.manager("torch.set_grad_enabled", args, w, ctx, site)
        obj = w.get(manager, Instance)
        if obj is not None:
            w.grad = obj.grad
        return manager
