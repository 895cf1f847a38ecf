"""Calls of modules and losses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Layer, Loss, Op
from gradlint.static.knowledge.torch_layers import OLD_REDUCTIONS
from gradlint.static.knowledge.torch_libraries import heads
from gradlint.static.knowledge.torch_training import PACKED_FIELDS
from gradlint.static.python.budget import Budget
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results, variant
from gradlint.static.state.values import (
    CHOSEN,
    HOOKED,
    NONE,
    Const,
    Function,
    Group,
    Instance,
    Object,
    Ref,
    Sequence,
    Tensor,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.estimates import Estimates
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.library_models import LibraryModels
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import FrozenNorms, LeftStatistics
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.overwriting import Overwriting
from gradlint.static.torch.placement import DevicePlacement
from gradlint.static.torch.shapes import Broadcasts, Shapes, is_wide
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Inputs, Uses

if TYPE_CHECKING:
    from gradlint.finding import Site


class ModuleCalls:
    """Applies layers, follows the forward passes of the project, and tells the rules of losses."""

    _budget: Budget
    _inputs: Inputs
    _witness: Witness
    _definitions: Definitions
    _calls: Calls
    _tensors: Tensors
    _modules: Modules
    _breaks: GraphBreaks
    _evaluation: Evaluation
    _uses: Uses
    _shapes: Shapes
    _placement: DevicePlacement
    _operations: Operations
    _hooks: Hooks
    _construction: Construction
    _layers: LayerContainers
    _library_models: LibraryModels
    _overwriting: Overwriting
    _estimates: Estimates
    _norms: FrozenNorms
    _left_statistics: LeftStatistics
    _broadcasts: Broadcasts

    def call(self, callee: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """``module(...)``, ``criterion(...)``."""
        grad, passes = w.grad, self._evaluation.passes
        results = self._hooks.called(callee, args, self._call(callee, args, w, ctx, site), ctx, site)
        self._estimates.returned(callee, results, ctx)
        self._norms.called(callee, results, ctx, site)
        self._left_statistics.called(callee, results, ctx, site)
        if passes == self._evaluation.passes:  # a model that adapts itself needs gradients in evaluation, too
            self._evaluation.called(callee, args, results, grad, ctx, site)
        return results

    def replicated(self, args: Arguments, w: World) -> list[Value]:
        """What ``data_parallel`` gives to the module: one input, or those of a tuple."""
        inputs = w.resolve(args.get(1, "inputs") or new_unknown("inputs"))
        several = w.get(inputs, Sequence)
        if several is None or several.mutable or several.tail is not None:
            return [inputs]
        return list(several.items)

    def _call(self, callee: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        obj = w.get(callee, Instance)
        assert obj is not None
        if obj.role is not roles.LOSS and (groups := self._modules.groups(callee, w)):
            self._inputs.fed(args, w)
            if self._trains(groups, w):
                self._fed(obj.name, args, w, ctx, site)
        self._construction.applied(callee, obj, w, ctx)
        if obj.cls is not None:
            forward = self._definitions.attribute(obj.cls, "forward", w)
            if forward is None:
                forward = self._definitions.attribute(obj.cls, "__call__", w)
            if isinstance(forward, Function):
                if ctx.in_forward and self._budget.hurries(forward.unit):
                    return [(w, self._library_models.output(callee, obj, args, w, ctx, site))]
                return self._calls.function(forward, args, w, ctx, site, callee)
        return self.inherited(callee, obj, args, w, ctx, site)

    def inherited(self, callee: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """The ``forward`` that a module has from torch, or from a library."""
        if obj.loss is not None:
            return [(w, self.loss(obj.loss.name, obj.loss, obj, args, w, ctx, site))]
        layer = obj.layer
        if layer is not None and layer.container == "sequential":
            return self._layers.call(callee, obj, args, w, ctx, site)
        if layer is not None and layer.container == "wrapper":
            return self._calls.call(obj.attrs.get("module", NONE), args, w, ctx, site)
        if layer is not None:
            return [(w, self._layer(obj, layer, args, w, ctx, site))]
        value = self._library_models.output(callee, obj, args, w, ctx, site)
        for head in (obj.attrs[name] for name in heads(obj.name) if name in obj.attrs):
            if w.get(w.resolve(head), Instance) is not None:
                return self._calls.call(head, Arguments([value]), w, ctx.at(site, "head"), site)
        return [(w, value)]

    def _layer(self, obj: Instance, layer: Layer, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if layer.dropout and obj.in_forward and obj.mode_at is None:
            probability = obj.attrs.get("p")
            self._witness.send(
                events.DropoutCalled(
                    site=site,
                    function=obj.name.replace("torch.nn", "nn"),
                    training_given=known(False),
                    in_module=known(True),
                    mode_checked=known(w.module_checked),
                    inert=known(probability in (Const(0), Const(0.0))),
                    module=self._modules.spelled(w, ctx),
                ),
                w,
                ctx,
            )
        op = layer.op
        if "<inplace>" in obj.attrs and bool(args.positional) and (not layer.dropout or obj.training is True):
            name = obj.name.rpartition(".")[2]
            value = self._overwriting.applied(name, op, args, w, ctx, site, parameters=obj.groups, device=obj.device)
        else:
            value = self._operations.apply(op, args, w, ctx, site, parameters=obj.groups, device=obj.device)
        if obj.device not in ("cpu", "cuda", CHOSEN) and isinstance(value, Ref):
            tensor = w.get(value, Tensor)
            if tensor is not None and tensor.device != "cuda" and obj.groups:
                w.write(value.id).device = None
        if obj.groups and obj.device == "cpu":
            self._placement.elsewhere(value, w)
        if is_wide(obj) and isinstance(value, Ref):
            w.write(value.id).size = "many"
        self._shapes.passed(obj, op, args, value, w)
        if w.grad and self._tensors.is_given(obj.groups, w):
            several = w.get(value, Sequence)
            self._outright([value] if several is None else [*several.items, several.tail or NONE], w)
        if layer.returns == "tensor" or not isinstance(value, Ref):
            return value
        if layer.returns == "lstm":
            states = [self._tensors.view(value, w, site) for _ in range(2)]
            other: Value = w.new(Sequence(states, [None, None], None, None, False))
        else:
            other = self._tensors.view(value, w, site)
            if isinstance(other, Ref):
                w.write(other.id).structured = True
        given = w.get(w.resolve(args.get(0, "input") or NONE), Sequence)
        packed = layer.returns in ("recurrent", "lstm") and given is not None and given.fields == PACKED_FIELDS
        first = self._operations.packed(value, w, site) if packed else value
        return w.new(Sequence([first, other], [None, None], None, None, False))

    def _outright(self, values: Iterable[Value], w: World) -> None:
        """These are what a layer that is given returned."""
        for value in values:
            if isinstance(value, Ref) and w.get(value, Tensor) is not None:
                new: Tensor = w.write(value.id)
                new.presumed = new.whole_output = new.requires_grad is None

    def _fed(self, name: str, given: Iterable[Value], w: World, ctx: Context, site: Site) -> None:
        """Tell the rules of inputs and targets that are leaves, or views of them, and require grad."""
        if not self._witness.listened(events.InputFed) or HOOKED in w.bound:
            return
        fed: set[int] = set()
        for value in given:
            tensor = w.get(w.resolve(value), Tensor)
            if tensor is None or tensor.is_parameter is not False:
                continue
            if tensor.base is not None and tensor.requires_grad is False:  # a view made without gradients
                continue
            leaf = self._leaf_behind(tensor, w)
            if not isinstance(leaf, Tensor) or leaf.is_parameter is not False or not leaf.is_leaf:
                continue
            if self._tensors.requires_grad(value, w) and (leaf is tensor or tensor.deps <= leaf.groups):
                fed |= leaf.groups
        if fed:
            touches = dict.fromkeys(sorted(fed), True)
            self._witness.send(events.InputFed(site=site, touches=touches, module=name), w, ctx)  # type: ignore[arg-type]

    def _leaf_behind(self, tensor: Tensor, w: World) -> Object | None:
        """The leaf that a tensor is, is a view of, or is a copy of on another device."""
        moved = w.find(tensor.moved_of) if tensor.moved_of is not None else None
        if isinstance(moved, Tensor) and not tensor.is_leaf:
            return self._leaf_behind(moved, w)
        return tensor if tensor.is_leaf or tensor.base is None else w.find(self._tensors.root(tensor.base, w))

    def _trains(self, groups: Iterable[int], w: World) -> bool:
        """Whether parameters of a module may require grad: if not, its input must for a backward pass."""
        found = (w.find(key) for key in groups)
        return any(isinstance(group, Group) and group.requires_grad is not False for group in found)

    def _is_output(self, value: Value, w: World) -> bool:
        """Whether a value was computed from parameters, as predictions are."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and tensor.is_leaf is False and self._tensors.requires_grad(value, w) is True

    def loss(
        self, name: str, loss: Loss, obj: Instance | None, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a loss: tell the rules what it was given, and give its value."""
        prediction = args.get(loss.input, "input")
        target = args.get(loss.target, "target") if loss.target >= 0 else None
        tensors = self._tensors
        for value in (prediction, target):
            tensors.must_be_tensor(value, w)
        event = events.LossCalled(
            site=site,
            loss=name,
            input=tensors.nearly(prediction, w) if prediction is not None else events.Tensor(),
            target=tensors.view_of(target, w) if target is not None else events.Tensor(),
            log_target=_flag("log_target", obj, args, w),
        )
        idle = prediction is not None and self._tensors.is_constant(prediction, w)
        self._witness.send(event, w, ctx, alternative=name, variant=variant(w, ctx), idle=idle)
        self._uses.judged(name, prediction, target, w, site)
        self._broadcasts.judged(loss, args, w, ctx, site)
        if target is not None and prediction is not None and self._is_output(prediction, w):
            self._fed(name, [target], w, ctx, site)
        if w.grad is False and prediction is not None:
            self._evaluation.measured([prediction], False, w, ctx)
        reduction: Value | None = args.keywords.get("reduction")
        if obj is not None:
            reduction = obj.attrs.get("reduction", reduction)
        size = "one" if reduction is None or reduction in (Const("mean"), Const("sum")) else "unknown"
        if reduction == Const("none"):
            size = "many"
        if prediction is None and args.open:
            args = args.behind(new_unknown("args"))
        value = self._operations.apply(Op(saves="other", size=size), args, w, ctx, site)  # type: ignore[arg-type]
        if isinstance(value, Ref) and reduction in (None, Const("mean")) and not _is_summed(obj, args):
            w.write(value.id).average = "mean"
        self._breaks.loss(value, prediction, target, w)
        self._estimates.judged(loss, args, value, w, site)
        return value


def _is_summed(obj: Instance | None, args: Arguments) -> bool:
    """Whether a loss may be told to sum, as it was once told."""
    given = args.keywords if obj is None else obj.attrs
    return args.open or not given.keys().isdisjoint(OLD_REDUCTIONS)


def _flag(name: str, obj: Instance | None, args: Arguments, w: World) -> Fact[bool]:
    """Whether a flag is set that a loss is given, or was built with; it is not where nothing says so."""
    given = args.keywords.get(name) if obj is None else obj.attrs.get(name)
    value = w.resolve(given) if given is not None else Const(False)
    return known(bool(value.value)) if isinstance(value, Const) and not args.open else unknown()
