"""``torch.func``: modules called with other parameters, stacked models, and functions that others are turned to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.python.calls import Calls
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.joining import joined
from gradlint.static.state.values import (
    NONE,
    Bound,
    External,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Partial,
    Ref,
    Sequence,
    Tensor,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


_DERIVE = Op(saves="", copies=True)


class Functional:
    """Calls what ``torch.func`` is given."""

    _calls: Calls
    _tensors: Tensors
    _modules: Modules
    _graphs: Graphs
    _operations: Operations
    _escapes: Escapes

    def called(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``functional_call(module, parameters, args)``: the module's forward pass with other parameters."""
        module = w.resolve(args.get(0, "module") or NONE)
        others = self._dicts(w.resolve(args.get(1, "parameter_and_buffer_dicts") or NONE), w)
        given = w.resolve(args.get(2, "args") or NONE)
        values = w.get(given, Sequence)
        obj = w.get(module, Instance)
        if not isinstance(module, Ref) or obj is None or obj.in_forward or others is None:
            return self._escapes.call(External("torch.func.functional_call"), args, w, ctx, site)
        call = Arguments([given] if values is None or values.mutable else list(values.items))
        own = self._modules.groups(module, w)
        result = joined(self._calls.call(module, call, w, ctx, site), w)
        parameters = [value for other in others for value in other]
        for value in self._tensors.tensors_in([result], w):
            if isinstance(value, Ref):
                self._graphs.replanted(value, own, parameters, w)
        return result

    def _dicts(self, given: Value, w: World) -> list[list[Value]] | None:
        """What is in a dict, or in each of several, but for those that hold buffers only; None if that is not known."""
        several = w.get(given, Sequence)
        if several is not None and several.tail is not None:
            return None
        found = []
        for part in several.items if several is not None else [given]:
            other = w.get(w.resolve(part), Mapping)
            if other is None:
                return None
            tail = [other.tail] if other.tail is not None else []
            found.append([w.resolve(value) for value in (*other.items.values(), *tail)])
        carrying = [part for part in found if {self._tensors.requires_grad(value, w) for value in part} - {False}]
        return carrying or found

    def stacked(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``stack_module_state(models)``: new leaves, which require grad as the parameters of the models do."""
        groups = self._modules.groups_in(args.get(0, "models") or NONE, w)
        answers = {self._tensors.group_grad(key, w) for key in groups}
        group = Group(answers.pop() if len(answers) == 1 else None, made_at=site)
        parameters = self._tensors.parameter([w.new(group).id], w, site)
        buffers = w.new(Tensor(requires_grad=False, is_leaf=True, is_parameter=False, open=False, made_at=site))
        pair = [w.new(Mapping({}, tail)) for tail in (parameters, buffers)]
        return w.new(Sequence([*pair], [None, None], mutable=False))

    def transformed(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``vmap(function)``, ``jacrev(function)``: a function that calls the one it is given."""
        function = w.resolve(args.get(0, "func") or NONE)
        inner = w.get(function, Instance)
        callable_here = isinstance(function, (Function, Lambda, Bound, Partial))
        if not callable_here and (inner is None or inner.role not in (roles.MODULE, roles.TRANSFORMED)):
            return self._escapes.call(External(name), args, w, ctx, site)
        return w.new(Instance(name=name, role=roles.TRANSFORMED, args=(function, *args.keywords.values())))

    def over(self, owner: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call a function that one was transformed to."""
        results = self._calls.call(obj.args[0], args, w, ctx, site)
        if obj.name == "torch.func.vmap":
            for world, value in results:
                for part in self._tensors.tensors_in([value], world):
                    if isinstance(part, Ref) and world.get(part, Tensor) is not None:
                        new: Tensor = world.write(part.id)
                        new.size, new.shape = None, None  # what it gives for each part stands for one of many
            return results
        return [(world, self._derived(obj, value, args, world, ctx, site)) for world, value in results]

    def _derived(self, obj: Instance, value: Value, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """The derivatives of ``value``: they require grad if that does, and not because of what it was computed for."""
        options = len(obj.args) > 1
        given = w.resolve(args.get(0) or NONE)
        derivative = self._operations.apply(_DERIVE, Arguments([value]), w, ctx, site)
        tensor = w.get(derivative, Tensor)
        if options or tensor is None or isinstance(w.get(value, Sequence), Sequence):
            return new_unknown("derivatives")
        if any(self._tensors.requires_grad(part, w) for part in self._tensors.tensors_in([given], w)):
            derivative = new_unknown("derivatives")
        if isinstance(w.get(given, Mapping), Mapping):
            derivative = w.new(Mapping({}, derivative))
        elif isinstance(w.get(given, Sequence), Sequence):
            derivative = w.new(Sequence(tail=derivative, mutable=False))
        if obj.name == "torch.func.grad_and_value":
            return w.new(Sequence([derivative, value], [None, None], mutable=False))
        return derivative


__all__ = ["Functional"]
