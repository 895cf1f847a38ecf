"""``torch.autograd`` and ``torch.func``: backward passes, derivatives, grad modes, and functions of modules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.finding import Site
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_training import GRAD_MODES
from gradlint.static.python.budget import Budget
from gradlint.static.python.calls import Calls
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.managers import Managers
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.joining import joined
from gradlint.static.state.values import (
    NONE,
    Bound,
    Const,
    Cut,
    External,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Partial,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.proofs import Proofs
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class Derivatives:
    """Derives by the functions of torch.autograd."""

    _witness: Witness
    _tensors: Tensors
    _graphs: Graphs
    _proofs: Proofs
    _evaluation: Evaluation
    _retention: GraphRetention
    _memory: Memory
    _plain: PlainTensors
    _operations: Operations
    _passes: Passes
    _budget: Budget

    def backward(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``torch.autograd.backward``: a pass from several roots at once."""
        roots = w.resolve(args.get(0, "tensors") or new_unknown("tensors"))
        sequence = w.get(roots, Sequence)
        gradients = args.get(1, "grad_tensors")
        given = [gradients] if gradients is not None and w.resolve(gradients) != NONE else []
        self._passes.jointly(
            sequence.items if sequence is not None else [roots], Arguments(given, args.keywords), w, ctx, site
        )
        return NONE

    def grad(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``torch.autograd.grad``: returns gradients, adds to none, and frees the graph unless told otherwise."""
        self._evaluation.passes += 1
        inputs = self._tensors.tensors_in([args.get(1, "inputs") or NONE], w)
        groups: frozenset[int] = frozenset()
        for value in inputs:
            tensor = w.get(value, Tensor)
            if tensor is not None:
                groups |= tensor.groups or tensor.deps
        ends = [tensor for value in inputs if (tensor := w.get(value, Tensor)) is not None]
        instance = w.get(w.resolve(args.get(1, "inputs") or NONE), Instance)
        if instance is not None:
            groups |= instance.groups
            ends.append(Tensor(groups=instance.groups))
        self._witness.read(groups, w, ctx, site)
        self._plain.trained_by_hand(inputs, w)
        create = w.resolve(args.get(4, "create_graph") or Const(False))
        retain_given = args.get(3, "retain_graph")
        retain = w.resolve(retain_given if retain_given is not None and w.resolve(retain_given) != NONE else create)
        flag = bool(retain.value) if isinstance(retain, Const) else None
        outputs = self._tensors.tensors_in([args.get(0, "outputs") or NONE], w)
        roots = [(value, root) for value in outputs if (root := w.get(value, Tensor)) is not None]
        for number, (value, root) in enumerate(roots):
            view = self._tensors.view_of(value, w)
            self._proofs.differentiated(value, w, ctx, site)
            self._retention.walks(value, w)
            if flag and retain_given is not None and create == Const(False):
                self._budget.order_matters()  # another iteration may walk the graph
                self._retention.retained(value, w, ctx, site)
            event = events.Backward(site=site, root=view, accumulates=False, retain_graph=known(bool(flag)))
            self._witness.send(event, w, ctx, alternative=number)
            self._evaluation.trained(value, w)
            self._memory.walked(root, w, ctx, site)
        for _, root in roots:  # all are walked in one pass
            self._passes.free(root, flag, w, site, ends or None)
        result = self._operations.apply(Op(activation="none"), Arguments(list(inputs)), w, ctx, site)
        if isinstance(result, Ref) and w.get(result, Tensor) is not None:
            new: Tensor = w.write(result.id)
            new.gradient_of = groups
            if create == Const(False):
                new.requires_grad, new.deps, new.segments, new.open = False, frozenset(), frozenset(), False
                new.reaches = frozenset()
                new.cut = Cut("gradient", site, any(self._tensors.presumed(value, w) for value in outputs))
            else:
                new.requires_grad = True if self._graphs.passes_weights(ends, outputs, w) else None
                if not new.segments:  # the operations that computed the gradient made some
                    new.segments = frozenset([w.new(Segment()).id])
                    new.doubtful = frozenset() if new.requires_grad else new.segments
                for value in outputs:  # the gradient depends on all that the derived value depends on
                    new.deps |= self._tensors.deps(value, w)
                    self._retention.derived(result, w.resolve(value), w)
                    derived = w.get(w.resolve(value), Tensor)
                    new.open = new.open or derived is None or derived.open
        return w.new(Sequence([], [], result, site, False))


class GradModes:
    """Makes the managers of gradient modes."""

    _conditions: Conditions
    _managers: Managers
    _escapes: Escapes

    def called(self, owner: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Results | None:
        """A function that runs with gradients enabled or not: ``torch.enable_grad()(closure)``."""
        function = w.resolve(args.get(0) or NONE)
        if obj.grad is None:
            return None
        if isinstance(function, Bound) and function.function is not None:
            return [(w, replace(function, function=replace(function.function, grad=obj.grad)))]
        return [(w, replace(function, grad=obj.grad))] if isinstance(function, Function) else None

    def of_stack(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of a stack of context managers."""
        if name in ("enter_context", "enter_async_context"):
            self._managers.entered(args.get(0, "cm") or NONE, w)
        elif name in ("close", "aclose"):
            w.grad = obj.grad
        return self._escapes.call(owner, args, w, ctx, site, method=name)

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
        return w.new(Instance(name=name, role=roles.GRAD_MODE, grad=grad))

    def exit_stack(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """A stack of context managers; once it is closed, the gradient mode is what it is now."""
        return w.new(Instance(name="contextlib.ExitStack", role=roles.EXIT_STACK, grad=w.grad, made_at=site))

    def set(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``torch.set_grad_enabled``, which has its effect by being called."""
        manager = self.manager("torch.set_grad_enabled", args, w, ctx, site)
        obj = w.get(manager, Instance)
        if obj is not None:
            w.grad = obj.grad
        return manager


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


__all__ = ["Derivatives", "Functional", "GradModes"]
