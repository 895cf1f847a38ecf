"""Methods by name: of tensors, modules, optimizers, containers, strings, and of objects that are unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

from gradlint import events
from gradlint.facts import unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_functions import TENSOR_HOOKS
from gradlint.static.knowledge.torch_table import (
    ARRAY_METHODS,
    BACKWARD_HOOKS,
    EXPECTING_METHODS,
    HOOKING,
    METHODS,
    NDARRAY,
    NEEDLESS,
    RENAMING,
)
from gradlint.static.python.containers import Containers
from gradlint.static.python.definitions import Definitions
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import Asked, Measure, StandsFor
from gradlint.static.state.values import (
    HOOKED,
    NONE,
    Class,
    Const,
    Instance,
    Mapping,
    Ref,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.behaviours import Behaviours
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.conversions import Conversions
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.data_reads import DataReads
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.estimates import Estimates
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.library_models import Trainers
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.module_calls import ModuleCalls
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.overwriting import Overwriting
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.placement import DevicePlacement, Devices, device_of
from gradlint.static.torch.shapes import Shapes
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.unknown_methods import UnknownMethods
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from gradlint.finding import Site


_MEASURES: Final[dict[str, Measure]] = {name: name for name in get_args(Measure)}

TensorMethod = Callable[[Ref, str, Arguments, World, Context, "Site"], Value]


class Methods:
    """Calls of methods that are not of the project."""

    _witness: Witness
    _definitions: Definitions
    _containers: Containers
    _tensors: Tensors
    _breaks: GraphBreaks
    _evaluation: Evaluation
    _graphs: Graphs
    _legacy: Legacy
    _memory: Memory
    _uses: Uses
    _shapes: Shapes
    _estimates: Estimates
    _placement: DevicePlacement
    _operations: Operations
    _escapes: Escapes
    _passes: Passes
    _devices: Devices
    _changes: Changes
    _data_reads: DataReads
    _hooks: Hooks
    _overwriting: Overwriting
    _module_calls: ModuleCalls
    _trainers: Trainers
    _conversions: Conversions
    _behaviours: Behaviours
    _functions: CustomFunctions
    _unknown_methods: UnknownMethods

    def __init__(self) -> None:
        self._of_tensors: dict[str, TensorMethod] = {
            "__array__": self._numpy,
            "backward": self._backward,
            "detach_": self._detach_in_place,
            "numpy": self._numpy,
            "register_hook": self._register_hook,
            "register_post_accumulate_grad_hook": self._register_hook,
            "requires_grad": self._require_grad,
            "requires_grad_": self._require_grad,
            "retain_grad": self._retain_grad,
        }
        """Methods of tensors that do more than to compute something."""

    def call(self, receiver: Value, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``receiver.name(...)`` where the method is not of the project."""
        if name == "cuda":
            self._devices.moved(args, w, ctx, site)
        if name in BACKWARD_HOOKS:
            w.bound[HOOKED] = Const(True)
        if name in BACKWARD_HOOKS or name in TENSOR_HOOKS or (name in HOOKING and isinstance(receiver, Unknown)):
            self._hooks.handed(args, w)
        self._data_reads.called(receiver, name, w, ctx)
        if isinstance(receiver, Super):
            return self._super(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Ref):
            obj = w.find(receiver.id)
            if isinstance(obj, Tensor):
                return self._tensor(receiver, obj, name, args, w, ctx, site)
            if isinstance(obj, Sequence):
                return self._containers.of_list(receiver, obj, name, args, w, ctx, site)
            if isinstance(obj, Mapping):
                return self._containers.of_dict(receiver, obj, name, args, w, ctx, site)
            if isinstance(obj, Instance):
                return self._instance(receiver, obj, name, args, w, ctx, site)
        if receiver == NONE:  # this raises; or it is another thing than None, of which nothing is known
            w.raised = True
            return self._unknown_methods.call(new_unknown("nothing"), name, args, w, ctx, site)
        if isinstance(receiver, Const):
            return self._containers.of_string(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Unknown):
            return self._unknown_methods.call(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Class) and name == "apply":
            return self._functions.applied(receiver, args, w, ctx, site)
        return self._escapes.call(receiver, args, w, ctx, site)

    # --- tensors

    def _tensor(
        self, receiver: Ref, tensor: Tensor, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        if name in self._of_tensors:
            return self._of_tensors[name](receiver, name, args, w, ctx, site)
        if (known := self._shapes.measured(name, tensor)) is not None:
            return Const(known)
        op = METHODS.get(name)
        if op is None:
            return self._no_operation(receiver, tensor, name, args, w, ctx, site)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        if name in ("log", "log_"):
            self._legacy.logarithm(receiver, w, ctx, site)
        if name in RENAMING and not tensor.groups and tensor.data_of is None and not tensor.is_gradient:
            return self._overwriting.applied(name.removesuffix("_"), op, given, w, ctx, site)
        if op.inplace:
            self._changes.in_place(name, receiver, [] if op.likens else list(args), w, ctx, site)
            return receiver
        if name in ("argmax", "max", "topk", "sort") and op.result == "pair_by_dim":
            pair = self._operations.apply(op, given, w, ctx, site)
            if w.get(pair, Sequence) is not None:
                self._placement.proven(pair, w)
            self._shapes.applied(name, op, given, pair, w)
            self._estimates.applied(name, op, given, pair, w, site)
            self._tensors.suppose(pair, [receiver], w)
            return pair
        if name == "item":
            view = self._tensors.view_of(receiver, w)
            if tensor.size == "samples":
                view = replace(view, scalar=unknown())  # who takes one number is likely to have one sample
            self._witness.send(events.NumberTaken(site=site, tensor=view), w, ctx)
        if op.device in ("to", "cpu") and op.result == "tensor" and self._stays(tensor, op, given, w):
            return receiver
        result = self._operations.apply(op, given, w, ctx, site)
        if name not in ARRAY_METHODS:
            self._placement.proven(result, w)
        self._shapes.applied(name, op, given, result, w)
        self._estimates.applied(name, op, given, result, w, site)
        self._breaks.computed(name, given, result, w, site)
        if op.detaches or name in ("cpu", "cuda", "to", "contiguous", "float", "double", "half", "type"):
            self._same_storage(name, receiver, tensor, result, op, w)
        self._tensors.suppose(result, [receiver], w)
        self._data_reads.became(receiver, name, result)
        self._legacy.computed(name, given.positional, result, w, site)
        return result

    def _no_operation(
        self, receiver: Ref, tensor: Tensor, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """A method that computes no tensor, or that tensors do not have."""
        if name in _MEASURES:
            return Unknown(Asked(_MEASURES[name], receiver))
        if tensor.structured and name == "apply":  # no tensor has it: a module, or a batch of graphs, is itself
            self._escapes.call(receiver, args, w, ctx, site)
            return receiver
        if tensor.structured:
            return self._tensors.view(receiver, w, site)
        return self._escapes.call(receiver, args, w, ctx, site)

    def _backward(self, receiver: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        self._passes.backward(receiver, args, w, ctx, site)
        return NONE

    def _require_grad(self, receiver: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        flag = w.resolve(args.get(0, "requires_grad") or Const(True))
        self._changes.asked(receiver, flag, False, w, ctx, site)
        self._changes.require_grad(receiver, bool(flag.value) if isinstance(flag, Const) else None, w, site)
        return receiver

    def _register_hook(self, receiver: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        tensor = w.get(receiver, Tensor)
        if tensor is not None:
            self._witness.read(tensor.groups or tensor.deps, w, ctx, site)
            for key in tensor.groups:
                w.write(key).hooked = True
        return NONE

    def _retain_grad(self, receiver: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        self._register_hook(receiver, name, args, w, ctx, site)
        w.write(receiver.id).retains = True
        return NONE

    def _detach_in_place(self, receiver: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        new = w.write(receiver.id)
        new.requires_grad, new.deps, new.segments, new.groups = False, frozenset(), frozenset(), frozenset()
        new.is_leaf, new.open, new.reaches = True, False, frozenset()
        new.cut, new.from_unknown = self._breaks.lost([receiver], "detach", w, site), False
        if isinstance(w.find(new.part_of or 0), Tensor):
            whole: Tensor = w.write(new.part_of)
            whole.requires_grad, whole.segments, whole.reaches, whole.open = None, frozenset(), frozenset(), True
        return receiver

    def _numpy(self, receiver: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        self._uses.escaped([receiver], w)
        force = w.resolve(args.keywords.get("force", Const(False)))
        if force != Const(True):
            self._conversions.converted(receiver, f".{name}()", w, ctx, site, role="receiver")
        self._evaluation.converted([receiver], w, ctx)
        array = w.new(Instance(name=NDARRAY, role=roles.ARRAY, made_at=site))
        self._memory.share(array, receiver, w)
        return self._graphs.reduced(self._breaks.note(array, [receiver], "numpy", w, site), [receiver], w)

    def _stays(self, tensor: Tensor, op: Op, given: Arguments, w: World) -> bool:
        """Whether a leaf that requires grad is only told to be where it is: then it is itself what is returned."""
        if tensor.device != "cpu" or not tensor.groups or tensor.is_parameter is not False or given.open:
            return False
        if op.device == "cpu":
            return True
        names = given.keywords.keys()
        if len(given.positional) + len(names) != 2 or not names <= {"device"}:
            return False
        told = w.resolve(given.keywords.get("device", given.positional[-1]))
        return w.get(told, Tensor) is None and device_of(told, w) == "cpu"  # a tensor also tells of which type to be

    def _same_storage(self, name: str, receiver: Ref, tensor: Tensor, result: Value, op: Op, w: World) -> None:
        """A conversion that may return the tensor itself keeps what it is a part of."""
        if isinstance(result, Ref) and w.get(result, Tensor) is not None:
            new: Tensor = w.write(result.id)
            new.structured = tensor.structured
            new.moved_of = receiver.id if op.device in ("to", "cpu", "cuda") else None
            if tensor.is_parameter and name in NEEDLESS:
                new.is_parameter = None
            if tensor.is_leaf and new.is_leaf is False and not (tensor.device == "cpu" and new.device == "cuda"):
                new.is_leaf = None
            if tensor.is_gradient:
                new.is_gradient = True
            new.gradient_of = tensor.gradient_of
            if tensor.integral and new.integral is None:
                new.integral = True

    # --- modules, optimizers and other instances

    def _super(self, receiver: Super, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        obj = w.get(receiver.receiver, Instance)
        if obj is None or not isinstance(receiver.receiver, Ref):
            return new_unknown("super")
        if name == "__init__":
            self._behaviours.initialized(receiver.receiver, obj, args, w, ctx, site)
            return NONE
        if name == "forward" and (obj.layer is not None or obj.loss is not None):
            return joined(self._module_calls.inherited(receiver.receiver, obj, args, w, ctx, site), w)
        return self._instance(receiver.receiver, obj, name, args, w, ctx, site)

    def _instance(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        known = self._behaviours.method(receiver, obj, name, args, w, ctx, site)
        if known is not None:
            return known
        if name in EXPECTING_METHODS and obj.cls is not None and self._definitions.is_test(obj.cls):
            return w.new(Instance(name=name, role=roles.EXPECTING))
        if obj.cls is not None:
            self._trainers.called(receiver, obj, name, w, ctx, site)
            self._trainers.started(receiver, obj, name, w, ctx, site)
        if name in ("backward", "step", "zero_grad") or obj.cls is not None:
            return self._unknown_methods.call(
                Unknown(StandsFor(receiver), obj.name, obj.groups), name, args, w, ctx, site
            )
        return self._escapes.call(receiver, args, w, ctx, site)
