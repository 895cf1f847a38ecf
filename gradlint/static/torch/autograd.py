"""``torch.autograd`` by its functions: backward passes, derivatives, and what switches the recording on and off."""

from __future__ import annotations

from dataclasses import replace

from gradlint import events
from gradlint.facts import known
from gradlint.finding import Site
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_training import GRAD_MODES
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.managers import Managers
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.values import (
    NONE,
    Bound,
    Const,
    Cut,
    Function,
    Instance,
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
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.proofs import Proofs
from gradlint.static.torch.tensors import Tensors


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
