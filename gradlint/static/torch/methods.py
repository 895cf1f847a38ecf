"""Methods by name: of tensors, modules, optimizers, containers, strings, and of objects that are unknown."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import unknown
from gradlint.static.knowledge.guesses import MODULE_NAME
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import (
    ARRAY_METHODS,
    BACKWARD_HOOKS,
    CONVERTING,
    EXPECTING_METHODS,
    METHODS,
    MODULE_METHODS,
    NEEDLESS,
    TELLING_METHODS,
    looks_like_handler,
)
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.calls import Calls
from gradlint.static.python.containers import Containers
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.managers import Managers
from gradlint.static.python.progress import Progress
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.ledger import Ledgers
from gradlint.static.state.provenance import (
    FIGURE,
    NOTHING,
    NUMPYS,
    dict_of,
    from_module,
    is_numpys,
    looks_like_parameter,
    made_of_none,
    ways_of,
)
from gradlint.static.state.subject_names import looks_like_optimizer
from gradlint.static.state.values import (
    HOOKED,
    NONE,
    Bound,
    Class,
    Const,
    External,
    Function,
    Instance,
    Lambda,
    Mapping,
    Partial,
    Ref,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World, fresh
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.conversions import Conversions
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.cuts import Cuts
from gradlint.static.torch.devices import Devices
from gradlint.static.torch.distributions import Distributions
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.library_models import LibraryModels
from gradlint.static.torch.library_objects import class_of, is_itself
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.module_calls import ModuleCalls
from gradlint.static.torch.module_methods import ModuleMethods
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.placement import Placement
from gradlint.static.torch.scalers import Scalers
from gradlint.static.torch.shapes import Shapes
from gradlint.static.torch.tensors import Tensors, device_of
from gradlint.static.torch.trainers import Trainers
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.ledger import Ledger

_RECOGNISED = MODULE_METHODS | {"requires_grad_", "half", "double", "bfloat16"}
"""Methods that say of an unknown value that it is a module."""
_ARRAY_TO_ARRAY = frozenset(["astype", "copy", "flatten", "ravel", "reshape", "squeeze", "swapaxes", "transpose"])
_ARRAY_IN_PLACE = frozenset(["fill", "itemset", "partition", "put", "sort"])


class Methods:
    """Calls of methods that are not of the project."""

    _ledgers: Ledgers
    _progress: Progress
    _witness: Witness
    _definitions: Definitions
    _dicts: DictObjects
    _calls: Calls
    _attributes: Attributes
    _containers: Containers
    _managers: Managers
    _tensors: Tensors
    _modules: Modules
    _cuts: Cuts
    _evaluation: Evaluation
    _legacy: Legacy
    _memory: Memory
    _uses: Uses
    _shapes: Shapes
    _placement: Placement
    _operations: Operations
    _hooks: Hooks
    _escapes: Escapes
    _passes: Passes
    _layers: LayerContainers
    _devices: Devices
    _optimizers: Optimizers
    _scalers: Scalers
    _library_models: LibraryModels
    _changes: Changes
    _distributions: Distributions
    _module_calls: ModuleCalls
    _trainers: Trainers
    _functions: CustomFunctions
    _module_methods: ModuleMethods
    _conversions: Conversions

    def __init__(self) -> None:
        self._clearing: Ledger[Hashable, None] = self._ledgers.open()
        """The keys of unknown values that were told to clear gradients: those that can also step are optimizers."""

    def call(self, receiver: Value, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``receiver.name(...)`` where the method is not of the project."""
        if name == "cuda":
            self._devices.moved(args, w, ctx, site)
        if name in BACKWARD_HOOKS:
            w.bound[HOOKED] = Const(True)
        if name in CONVERTING and isinstance(receiver, (Ref, Unknown)):
            self._changes.converted(receiver, w, ctx)
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
        if receiver == NONE:
            w.raised = True
            return Unknown((NOTHING, fresh()))
        if isinstance(receiver, Const):
            return self._containers.of_string(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Unknown):
            return self.unknown(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Class) and name == "apply":
            return self._functions.applied(receiver, args, w, ctx, site)
        return self._escapes.call(receiver, args, w, ctx, site)

    # --- tensors

    def _tensor(
        self, receiver: Ref, tensor: Tensor, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        tensors = self._tensors
        if name == "backward":
            self._passes.backward(receiver, args, w, ctx, site)
            return NONE
        if name in ("requires_grad_", "requires_grad"):
            flag = w.resolve(args.get(0, "requires_grad") or Const(True))
            self._changes.asked(receiver, flag, False, w, ctx, site)
            self._changes.require_grad(receiver, bool(flag.value) if isinstance(flag, Const) else None, w, site)
            return receiver
        if name in ("retain_grad", "register_hook", "register_post_accumulate_grad_hook"):
            self._witness.read(tensor.groups or tensor.deps, w, ctx, site)
            if name == "retain_grad":
                w.write(receiver.id).retains = True
            return NONE
        if name == "detach_":
            new = w.write(receiver.id)
            new.requires_grad, new.deps, new.segments, new.groups = False, frozenset(), frozenset(), frozenset()
            new.is_leaf, new.open, new.reaches = True, False, frozenset()
            new.cut, new.vague = self._cuts.lost([receiver], "detach", w, site), False
            if isinstance(w.find(new.part_of or 0), Tensor):
                whole: Tensor = w.write(new.part_of)
                whole.requires_grad, whole.segments, whole.reaches, whole.open = None, frozenset(), frozenset(), True
            return receiver
        if name in ("numpy", "__array__"):
            self._uses.escaped([receiver], w)
            force = w.resolve(args.keywords.get("force", Const(False)))
            if force != Const(True):
                self._conversions.converted(receiver, f".{name}()", w, ctx, site, role="receiver")
            self._evaluation.measured([receiver], True, w, ctx)
            array = w.new(Instance(name="numpy.ndarray", kind="array", made_at=site))
            self._memory.share(array, receiver, w)
            return self._cuts.note(array, [receiver], "numpy", w, site)
        op = METHODS.get(name)
        if op is None:
            if name in ("size", "dim", "numel", "stride", "element_size", "is_contiguous", "data_ptr", "get_device"):
                return Unknown((name, receiver))
            if tensor.structured and name == "apply":  # no tensor has it: a module, or a batch of graphs, is itself
                self._escapes.call(receiver, args, w, ctx, site)
                return receiver
            if tensor.structured:
                return tensors.view(receiver, w, site)
            return self._escapes.call(receiver, args, w, ctx, site)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        if name in ("log", "log_"):
            self._legacy.logarithm(receiver, w, ctx, site)
        if op.inplace:
            self._changes.in_place(name, receiver, [] if op.likens else list(args), w, ctx, site)
            return receiver
        if name in ("argmax", "max", "topk", "sort") and op.result == "pair_by_dim":
            pair = self._operations.apply(op, given, w, ctx, site)
            if w.get(pair, Sequence) is not None:
                self._placement.proven(pair, w)
            self._shapes.applied(name, op, given, pair, w)
            tensors.suppose(pair, [receiver], w)
            return pair
        if name == "item":
            view = tensors.view_of(receiver, w)
            if tensor.size == "samples":
                view = replace(view, scalar=unknown())  # who takes one number is likely to have one sample
            self._witness.send(events.NumberTaken(site=site, tensor=view), w, ctx)
        if op.device in ("to", "cpu") and op.result == "tensor" and self._stays(tensor, op, given, w):
            return receiver
        result = self._operations.apply(op, given, w, ctx, site)
        if name not in ARRAY_METHODS:
            self._placement.proven(result, w)
        self._shapes.applied(name, op, given, result, w)
        self._cuts.rounded(name, result, w, site)
        if op.detaches or name in ("cpu", "cuda", "to", "contiguous", "float", "double", "half", "type"):
            self._same_storage(name, receiver, tensor, result, op, w)
        tensors.suppose(result, [receiver], w)
        return result

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
            return Unknown(("super", fresh()))
        if name == "__init__":
            return self._super_init(receiver.receiver, obj, args, w, ctx, site)
        if name == "forward" and (obj.layer is not None or obj.loss is not None):
            return joined(self._module_calls.inherited(receiver.receiver, obj, args, w, ctx, site), w)
        return self._instance(receiver.receiver, obj, name, args, w, ctx, site)

    def _super_init(self, receiver: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``super().__init__(...)`` of an optimizer takes the parameters; of ``nn.Sequential`` the layers."""
        if obj.kind == "optimizer":
            self._optimizers.initialized(receiver, args, w)
        elif obj.layer is not None and obj.layer.container:
            self._layers.fill(receiver, obj.layer, args, w, ctx, site)
        elif obj.kind == "dict":
            self._dicts.initialized(receiver, args, w, ctx, site)
        return NONE

    def _instance(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        if obj.kind in ("module", "lightning", "loss"):
            return self._module_methods.module(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "optimizer":
            return self._optimizers.optimizer(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "scaler":
            return self._scalers.method(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "accelerate":
            return self._optimizers.accelerate(name, args, w, ctx, site)
        if obj.kind == "scheduler":
            self._optimizers.scheduler(obj, name, args, w, site)
            return Unknown(("result of known", fresh()))
        if obj.kind == "distribution":
            return self._distributions.method(receiver, obj, name, args, w, ctx, site)
        if (held := self._dicts.held(receiver, w)) is not None:
            return self.call(held, name, args, w, ctx, site)
        if obj.kind == "hook" and name == "remove":
            self._hooks.removed(obj, w)
            return NONE
        if obj.kind == "exitstack":
            if name in ("enter_context", "enter_async_context"):
                self._managers.entered(args.get(0, "cm") or NONE, w)
            elif name in ("close", "aclose"):
                w.grad = obj.grad
            return self._escapes.call(receiver, args, w, ctx, site, method=name)
        if obj.kind == "ctx":
            return self._functions.noted(receiver, name, args, w, ctx, site)
        if obj.kind in ("loader", "gradmode", "param_groups", "device"):
            return Unknown(("result of known", fresh()))
        if obj.kind == "array":
            if name in _ARRAY_IN_PLACE:
                self._memory.array_changed(receiver, w, ctx, site)
            return (
                w.new(Instance(name="numpy.ndarray", kind="array"))
                if name not in ("item", "tolist")
                else Unknown((FIGURE, fresh()))
            )
        if name in EXPECTING_METHODS and obj.cls is not None and self._definitions.is_test(obj.cls):
            return w.new(Instance(name=name, kind="expecting"))
        if obj.cls is not None:
            self._trainers.called(receiver, obj, name, w, ctx, site)
        if name in ("backward", "step", "zero_grad") or obj.cls is not None:
            return self.unknown(Unknown(("instance", receiver), obj.name, obj.groups), name, args, w, ctx, site)
        return self._escapes.call(receiver, args, w, ctx, site)

    # --- optimizers

    # --- unknown receivers

    def unknown(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a method of something unknown: its name may tell what it is."""
        if made_of_none(receiver):
            return receiver
        if w.grad is not True:
            self._progress.unrecorded_names.add(name)
        cls = class_of(receiver)
        if cls is not None:
            given = self._calls.call(External(f"{cls}.{name}"), args, w, ctx, site)
            return receiver if is_itself(name) else joined(given, w)
        if name == "register_forward_hook":
            return self._hooks.registered(receiver, args, w, site)
        if name == "register_step_post_hook":
            return self.call(self._optimizers.opaque_optimizer(receiver, w, site), name, args, w, ctx, site)
        if (owner := dict_of(receiver)) is not None:
            return self._attributes.dict_method(receiver, owner, name, args, w, ctx, site)
        if name in ("values", "items") and (owner := dict_of(receiver, "_modules")) is not None:
            obj = w.get(owner, Instance)
            if obj is not None and not obj.opaque:
                return self._module_methods.registered(owner, obj, name, w, ctx)
        if self._scalers.looks_like_one(receiver, name):
            scaler = self._scalers.made(Arguments(), receiver.hint, w, ("scaler", receiver.key))
            w.bound[receiver.key] = scaler
            return self.call(scaler, name, args, w, ctx, site)
        if looks_like_handler(receiver.hint, name) and args.positional:
            handler = w.bound[receiver.key] = w.new(Instance(name=receiver.hint, kind="accelerate"))
            return self.call(handler, name, args, w, ctx, site)
        if name == "backward":
            if args.positional and w.get(w.resolve(args.positional[0]), Tensor) is not None:
                self._passes.backward(args.positional[0], Arguments(), w, ctx, site, certain=False)
                return NONE
            if not args.positional:
                self._passes.backward(receiver, args, w, ctx, site)
            return NONE
        if name == "step":
            is_one = looks_like_optimizer(receiver) or (receiver.key in self._clearing and not list(args))
            if is_one and len(args.positional) <= 1:
                optimizer = self._optimizers.opaque_optimizer(receiver, w, site)
                self._passes.reached_before(self._optimizers.groups_of(optimizer, w, site), w, ctx)
                return self.call(optimizer, name, args, w, ctx, site)
            if args.positional and looks_like_optimizer(w.resolve(args.positional[0])):
                self._optimizers.stepped(args.positional[0], w, ctx, site)
                return NONE
            return self._escapes.call(receiver, args, w, ctx, site)
        if name == "zero_grad":
            if looks_like_optimizer(receiver):
                optimizer = self._optimizers.opaque_optimizer(receiver, w, site)
                return self.call(optimizer, name, args, w, ctx, site)
            self._clearing[receiver.key] = None
            self._optimizers.clear(receiver.deps, True, w, ctx, site)
            return NONE
        if name in _RECOGNISED and not (name == "requires_grad_" and not receiver.deps):
            opaque = self._modules.taken_for_one(receiver, w, site)
            obj = w.get(opaque, Instance)
            assert obj is not None
            return self._module_methods.module(opaque, obj, name, args, w, ctx, site)
        if name == "apply" and len(args.positional) == 1 and not args.keywords:
            function = w.resolve(args.positional[0])
            if isinstance(function, (Function, Lambda, Bound, Partial)):  # if it is no module, it is much like one
                some = Unknown(("module", fresh()), "module")
                self._module_methods.applied(function, some, w, ctx, site)
        if name == "append" and len(args.positional) == 1 and self._is_computed(args.positional[0], w):
            values = w.bound[receiver.key] = w.new(Sequence())
            return self.call(values, name, args, w, ctx, site)
        if name == "requires_grad_":
            tensor = self._tensors.from_unknown(receiver, w)
            self._modules.taken_for_tensor(receiver, tensor)
            return self.call(tensor, name, args, w, ctx, site)
        if name == "retain_grad":
            self._tensors.from_unknown(receiver, w, retains=True)
            return NONE
        if is_numpys(receiver) and name in _ARRAY_TO_ARRAY:
            return Unknown(("number", fresh(), NUMPYS), receiver.hint)
        if name in ("train", "eval", "to", "cuda", "cpu", "detach", "clone", "float", "view", "reshape"):
            return self._unknown_conversion(receiver, name, args, w, ctx, site)
        if name in METHODS and METHODS[name].result == "tensor" and from_module(receiver):
            return self.call(self._tensors.settled(receiver, w), name, args, w, ctx, site)
        changes = name in METHODS and METHODS[name].inplace
        if changes and self._tensors.gradient_of(args, w):  # what keeps gradients is a tensor, as a momentum is
            return self.call(self._tensors.from_unknown(receiver, w), name, args, w, ctx, site)
        if name in METHODS and (receiver.deps or name in TELLING_METHODS):
            return self._assumed_tensor(receiver, name, args, w, ctx, site)
        if name in ("items", "values") and self._library_models.is_part(receiver, w):
            return Unknown(("item", receiver.key, (name, fresh())), "module", receiver.deps)
        if name in ("items", "values") and looks_like_optimizer(receiver):
            return Unknown(("item", receiver.key, (name, fresh())), receiver.hint, receiver.deps)
        result = self._escapes.call(receiver, args, w, ctx, site, method=name)
        return receiver if changes and self._tensors.deps(result, w) <= receiver.deps else result

    def _is_computed(self, value: Value, w: World) -> bool:
        """Whether a value is a tensor that may require grad, and no parameter: what appends it keeps it in a list."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and not tensor.is_parameter and tensor.requires_grad is not False

    def _weight(self, receiver: Unknown, w: World, ctx: Context, site: Site) -> Value | None:
        """The parameter that is read off something with the name of a module: ``decoder.embed.weight``."""
        if not looks_like_parameter(receiver) or not any(map(MODULE_NAME.search, ways_of(receiver))):
            return None
        assert isinstance(receiver.key, tuple)  # of an attribute
        layer = self._modules.taken_for_one(Unknown(receiver.key[1], deps=receiver.deps), w, site)
        return self._attributes.get(layer, receiver.hint, w, ctx, site)

    def _unknown_conversion(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """``x.to(device)`` of a tensor, a module or a batch: unknown, but it says where the result is."""
        if name in ("train", "eval"):
            module = self._evaluation.bind(receiver, name, len(list(args)), w, site)
            return receiver if module is None else self.call(module, name, args, w, ctx, site)
        return self._assumed_tensor(receiver, name, args, w, ctx, site)

    def _assumed_tensor(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """A method that only tensors (or things like them) have: the result is what it would be of a tensor."""
        op = METHODS[name]
        weight = self._weight(receiver, w, ctx, site) if name in CONVERTING else None
        if weight is not None:
            return self.call(weight, name, args, w, ctx, site)
        if name == "numpy":
            return self.call(self._tensors.from_unknown(receiver, w, structured=True), name, args, w, ctx, site)
        if op.inplace or op.result not in ("tensor", "pair", "pair_by_dim"):
            if op.result in ("number", "array"):
                how = "number" if op.result == "number" else "numpy"
                kind = FIGURE if op.result == "number" else "number"
                return self._cuts.note(Unknown((kind, fresh())), [receiver], how, w, site)
            return Unknown(("result" if carried(receiver) else "number", fresh()), deps=receiver.deps)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        value = self._operations.apply(op, given, w, ctx, site)
        if name not in ARRAY_METHODS:
            self._placement.proven(value, w)
        if isinstance(value, Ref) and w.get(value, Tensor) is not None:
            new: Tensor = w.write(value.id)
            new.structured = True
            if name in ("to", "cuda", "cpu"):
                self._modules.moved(receiver, value, w)
                new.open = new.open and (new.requires_grad is not None or carried(receiver))
        return value


def carried(value: Unknown) -> bool:
    """Whether an unknown value may carry a graph."""
    from gradlint.static.state.provenance import carries_graph

    return carries_graph(value)
