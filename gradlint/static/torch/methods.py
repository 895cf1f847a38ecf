"""Methods by name: of tensors, modules, optimizers, containers, strings, and of objects that are unknown."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge.guesses import MODULE_NAME
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import (
    ARRAY_METHODS,
    CONVERTING,
    EXPECTING_METHODS,
    METHODS,
    MODULE_METHODS,
    NEEDLESS,
    TELLING_METHODS,
    looks_like_handler,
)
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
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
from gradlint.static.torch.library_objects import class_of, is_itself
from gradlint.static.torch.tensors import device_of

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.drive.interpreter import Interpreter
    from gradlint.static.state.ledger import Ledger

_RECOGNISED = MODULE_METHODS | {"requires_grad_", "half", "double", "bfloat16"}
"""Methods that say of an unknown value that it is a module."""
_BACKWARD_HOOKS = frozenset(
    ["register_backward_hook", "register_full_backward_hook", "register_full_backward_pre_hook"]
)
_ARRAY_TO_ARRAY = frozenset(["astype", "copy", "flatten", "ravel", "reshape", "squeeze", "swapaxes", "transpose"])
_ARRAY_IN_PLACE = frozenset(["fill", "itemset", "partition", "put", "sort"])


class Methods:
    """Calls of methods that are not of the project."""

    MODULE_METHODS = frozenset(
        [
            "parameters",
            "named_parameters",
            "modules",
            "named_modules",
            "children",
            "named_children",
            "buffers",
            "named_buffers",
            "state_dict",
            "load_state_dict",
            "train",
            "eval",
            "to",
            "cuda",
            "cpu",
            "half",
            "float",
            "double",
            "bfloat16",
            "type",
            "apply",
            "zero_grad",
            "requires_grad_",
            "register_buffer",
            "register_parameter",
            "add_module",
            "register_module",
            "register_forward_hook",
            "share_memory",
            "forward",
            "register_forward_pre_hook",
            *_BACKWARD_HOOKS,
            "get_submodule",
            "get_parameter",
            "pop",
            "append",
            "extend",
            "insert",
            "items",
            "keys",
            "values",
            "manual_backward",
            "optimizers",
            "lr_schedulers",
            "log",
            "log_dict",
            "save_hyperparameters",
            "freeze",
            "unfreeze",
            "compile",
            "toggle_optimizer",
            "untoggle_optimizer",
            "clip_gradients",
            "no_sync",
            "__init__",
            "__call__",
            "_get_name",
            "extra_repr",
            "save_pretrained",
            "gradient_checkpointing_enable",
        ]
    )
    KINDS = frozenset(
        [
            "optimizer",
            "scheduler",
            "scaler",
            "loader",
            "gradmode",
            "exitstack",
            "array",
            "parameters",
            "param_groups",
            "accelerate",
            "engine",
            "device",
            "trainer",
        ]
    )

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self._clearing: Ledger[Hashable, None] = machine.ledgers.open()
        """The keys of unknown values that were told to clear gradients: those that can also step are optimizers."""

    def call(self, receiver: Value, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``receiver.name(...)`` where the method is not of the project."""
        if name == "cuda":
            self.m.devices.moved(args, w, ctx, site)
        if name in _BACKWARD_HOOKS:
            w.bound[HOOKED] = Const(True)
        if name in CONVERTING and isinstance(receiver, (Ref, Unknown)):
            self.m.changes.converted(receiver, w, ctx)
        if isinstance(receiver, Super):
            return self._super(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Ref):
            obj = w.find(receiver.id)
            if isinstance(obj, Tensor):
                return self._tensor(receiver, obj, name, args, w, ctx, site)
            if isinstance(obj, Sequence):
                return self.m.containers.of_list(receiver, obj, name, args, w, ctx, site)
            if isinstance(obj, Mapping):
                return self.m.containers.of_dict(receiver, obj, name, args, w, ctx, site)
            if isinstance(obj, Instance):
                return self._instance(receiver, obj, name, args, w, ctx, site)
        if receiver == NONE:
            w.raised = True
            return Unknown((NOTHING, fresh()))
        if isinstance(receiver, Const):
            return self.m.containers.of_string(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Unknown):
            return self.unknown(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Class) and name == "apply":
            return self.m.functions.applied(receiver, args, w, ctx, site)
        return self.m.escapes.call(receiver, args, w, ctx, site)

    # --- tensors

    def _tensor(
        self, receiver: Ref, tensor: Tensor, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        tensors = self.m.tensors
        if name == "backward":
            self.m.passes.backward(receiver, args, w, ctx, site)
            return NONE
        if name in ("requires_grad_", "requires_grad"):
            flag = w.resolve(args.get(0, "requires_grad") or Const(True))
            self.m.changes.asked(receiver, flag, False, w, ctx, site)
            self.m.changes.require_grad(receiver, bool(flag.value) if isinstance(flag, Const) else None, w, site)
            return receiver
        if name in ("retain_grad", "register_hook", "register_post_accumulate_grad_hook"):
            self.m.witness.read(tensor.groups or tensor.deps, w, ctx, site)
            if name == "retain_grad":
                w.write(receiver.id).retains = True
            return NONE
        if name == "detach_":
            new = w.write(receiver.id)
            new.requires_grad, new.deps, new.segments, new.groups = False, frozenset(), frozenset(), frozenset()
            new.is_leaf, new.open, new.reaches = True, False, frozenset()
            new.cut, new.vague = self.m.cuts.lost([receiver], "detach", w, site), False
            if isinstance(w.find(new.part_of or 0), Tensor):
                whole: Tensor = w.write(new.part_of)
                whole.requires_grad, whole.segments, whole.reaches, whole.open = None, frozenset(), frozenset(), True
            return receiver
        if name in ("numpy", "__array__"):
            self.m.uses.escaped([receiver], w)
            force = w.resolve(args.keywords.get("force", Const(False)))
            if force != Const(True):
                self.converted(receiver, f".{name}()", w, ctx, site, role="receiver")
            self.m.evaluation.measured([receiver], True, w, ctx)
            array = w.new(Instance(name="numpy.ndarray", kind="array", made_at=site))
            self.m.memory.share(array, receiver, w)
            return self.m.cuts.note(array, [receiver], "numpy", w, site)
        op = METHODS.get(name)
        if op is None:
            if name in ("size", "dim", "numel", "stride", "element_size", "is_contiguous", "data_ptr", "get_device"):
                return Unknown((name, receiver))
            if tensor.structured and name == "apply":  # no tensor has it: a module, or a batch of graphs, is itself
                self.m.escapes.call(receiver, args, w, ctx, site)
                return receiver
            if tensor.structured:
                return tensors.view(receiver, w, site)
            return self.m.escapes.call(receiver, args, w, ctx, site)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        if name in ("log", "log_"):
            self.m.legacy.logarithm(receiver, w, ctx, site)
        if op.inplace:
            self.m.changes.in_place(name, receiver, [] if op.likens else list(args), w, ctx, site)
            return receiver
        if name in ("argmax", "max", "topk", "sort") and op.result == "pair_by_dim":
            pair = self.m.operations.apply(op, given, w, ctx, site)
            if w.get(pair, Sequence) is not None:
                self.m.placement.proven(pair, w)
            self.m.shapes.applied(name, op, given, pair, w)
            tensors.suppose(pair, [receiver], w)
            return pair
        if name == "item":
            view = tensors.view_of(receiver, w)
            if tensor.size == "samples":
                view = replace(view, scalar=unknown())  # who takes one number is likely to have one sample
            self.m.witness.send(events.NumberTaken(site=site, tensor=view), w, ctx)
        if op.device in ("to", "cpu") and op.result == "tensor" and self._stays(tensor, op, given, w):
            return receiver
        result = self.m.operations.apply(op, given, w, ctx, site)
        if name not in ARRAY_METHODS:
            self.m.placement.proven(result, w)
        self.m.shapes.applied(name, op, given, result, w)
        self.m.cuts.rounded(name, result, w, site)
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

    def converted(
        self,
        value: Value,
        how: str,
        w: World,
        ctx: Context,
        site: Site,
        kept_at: Site | None = None,
        which: Hashable = 0,
        role: str = "",
        within: bool = False,
    ) -> None:
        """Tell the rules that a value was turned into a numpy array.

        Args:
            value: what is converted, or a part of that.
            how: the function, as findings spell it.
            w: the world.
            ctx: where.
            site: the place.
            kept_at: where the value was put into the list that is converted.
            which: which of several values at the same place.
            role: what it is to the call.
            within: it is held by a list or tuple that was kept at ``kept_at``.
        """
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is None:
            return
        grad_enabled: Fact[bool] = unknown() if w.grad is None else known(w.grad)
        view = self.m.placement.certain(self.m.tensors.view_of(value, w, kept_at=kept_at), value, role == "receiver", w)
        is_tensor = role == "receiver" or not tensor.structured
        if self.m.tensors.is_weight(value, w) or (is_tensor and self.m.tensors.is_output(value, w)):
            view = replace(view, requires_grad=known(True))
        event = events.ConvertedToNumpy(
            site=site, tensor=view, how=how, grad_enabled=grad_enabled, role=role, within=within
        )
        self.m.witness.send(event, w, ctx, alternative=which)
        if w.grad and not view.requires_grad.known:
            self.m.proofs.suspected(value, event, w)

    # --- modules, optimizers and other instances

    def _super(self, receiver: Super, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        obj = w.get(receiver.receiver, Instance)
        if obj is None or not isinstance(receiver.receiver, Ref):
            return Unknown(("super", fresh()))
        if name == "__init__":
            return self._super_init(receiver.receiver, obj, args, w, ctx, site)
        if name == "forward" and (obj.layer is not None or obj.loss is not None):
            return joined(self.m.modules.inherited(receiver.receiver, obj, args, w, ctx, site), w)
        return self._instance(receiver.receiver, obj, name, args, w, ctx, site)

    def _super_init(self, receiver: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``super().__init__(...)`` of an optimizer takes the parameters; of ``nn.Sequential`` the layers."""
        if obj.kind == "optimizer":
            self.m.optimizers.initialized(receiver, args, w)
        elif obj.layer is not None and obj.layer.container:
            self.m.layers.fill(receiver, obj.layer, args, w, ctx, site)
        elif obj.kind == "dict":
            self.m.dicts.initialized(receiver, args, w, ctx, site)
        return NONE

    def _instance(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        if obj.kind in ("module", "lightning", "loss"):
            return self.m.module_methods.module(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "optimizer":
            return self.m.optimizers.optimizer(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "scaler":
            return self.m.stepping.scaler_method(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "accelerate":
            return self.m.optimizers.accelerate(name, args, w, ctx, site)
        if obj.kind == "scheduler":
            self.m.optimizers.scheduler(obj, name, args, w, site)
            return Unknown(("result of known", fresh()))
        if obj.kind == "distribution":
            return self.m.distributions.method(receiver, obj, name, args, w, ctx, site)
        if (held := self.m.dicts.held(receiver, w)) is not None:
            return self.call(held, name, args, w, ctx, site)
        if obj.kind == "hook" and name == "remove":
            self.m.hooks.removed(obj, w)
            return NONE
        if obj.kind == "exitstack":
            if name in ("enter_context", "enter_async_context"):
                self.m.managers.entered(args.get(0, "cm") or NONE, w)
            elif name in ("close", "aclose"):
                w.grad = obj.grad
            return self.m.escapes.call(receiver, args, w, ctx, site, method=name)
        if obj.kind == "ctx":
            return self.m.functions.noted(receiver, name, args, w, ctx, site)
        if obj.kind in ("loader", "gradmode", "param_groups", "device"):
            return Unknown(("result of known", fresh()))
        if obj.kind == "array":
            if name in _ARRAY_IN_PLACE:
                self.m.memory.array_changed(receiver, w, ctx, site)
            return (
                w.new(Instance(name="numpy.ndarray", kind="array"))
                if name not in ("item", "tolist")
                else Unknown((FIGURE, fresh()))
            )
        if name in EXPECTING_METHODS and obj.cls is not None and self.m.definitions.is_test(obj.cls):
            return w.new(Instance(name=name, kind="expecting"))
        if obj.cls is not None:
            self.m.trainers.called(receiver, obj, name, w, ctx, site)
        if name in ("backward", "step", "zero_grad") or obj.cls is not None:
            return self.unknown(Unknown(("instance", receiver), obj.name, obj.groups), name, args, w, ctx, site)
        return self.m.escapes.call(receiver, args, w, ctx, site)

    # --- optimizers

    # --- unknown receivers

    def unknown(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a method of something unknown: its name may tell what it is."""
        if made_of_none(receiver):
            return receiver
        if w.grad is not True:
            self.m.unrecorded_names.add(name)
        cls = class_of(receiver)
        if cls is not None:
            given = self.m.calls.call(External(f"{cls}.{name}"), args, w, ctx, site)
            return receiver if is_itself(name) else joined(given, w)
        if name == "register_forward_hook":
            return self.m.hooks.registered(receiver, args, w, site)
        if name == "register_step_post_hook":
            return self.call(self.m.optimizers.opaque_optimizer(receiver, w, site), name, args, w, ctx, site)
        if (owner := dict_of(receiver)) is not None:
            return self.m.attributes.dict_method(receiver, owner, name, args, w, ctx, site)
        if name in ("values", "items") and (owner := dict_of(receiver, "_modules")) is not None:
            obj = w.get(owner, Instance)
            if obj is not None and not obj.opaque:
                return self.m.module_methods.registered(owner, obj, name, w, ctx)
        if self.m.stepping.looks_like_scaler(receiver, name):
            scaler = self.m.stepping.scaler(Arguments(), receiver.hint, w, ("scaler", receiver.key))
            w.bound[receiver.key] = scaler
            return self.call(scaler, name, args, w, ctx, site)
        if looks_like_handler(receiver.hint, name) and args.positional:
            handler = w.bound[receiver.key] = w.new(Instance(name=receiver.hint, kind="accelerate"))
            return self.call(handler, name, args, w, ctx, site)
        if name == "backward":
            if args.positional and w.get(w.resolve(args.positional[0]), Tensor) is not None:
                self.m.passes.backward(args.positional[0], Arguments(), w, ctx, site, certain=False)
                return NONE
            if not args.positional:
                self.m.passes.backward(receiver, args, w, ctx, site)
            return NONE
        if name == "step":
            is_one = looks_like_optimizer(receiver) or (receiver.key in self._clearing and not list(args))
            if is_one and len(args.positional) <= 1:
                optimizer = self.m.optimizers.opaque_optimizer(receiver, w, site)
                self.m.passes.reached_before(self.m.optimizers.groups_of(optimizer, w, site), w, ctx)
                return self.call(optimizer, name, args, w, ctx, site)
            if args.positional and looks_like_optimizer(w.resolve(args.positional[0])):
                self.m.optimizers.stepped(args.positional[0], w, ctx, site)
                return NONE
            return self.m.escapes.call(receiver, args, w, ctx, site)
        if name == "zero_grad":
            if looks_like_optimizer(receiver):
                optimizer = self.m.optimizers.opaque_optimizer(receiver, w, site)
                return self.call(optimizer, name, args, w, ctx, site)
            self._clearing[receiver.key] = None
            self.m.optimizers.clear(receiver.deps, True, w, ctx, site)
            return NONE
        if name in _RECOGNISED and not (name == "requires_grad_" and not receiver.deps):
            opaque = self.m.modules.taken_for_one(receiver, w, site)
            obj = w.get(opaque, Instance)
            assert obj is not None
            return self.m.module_methods.module(opaque, obj, name, args, w, ctx, site)
        if name == "apply" and len(args.positional) == 1 and not args.keywords:
            function = w.resolve(args.positional[0])
            if isinstance(function, (Function, Lambda, Bound, Partial)):  # if it is no module, it is much like one
                some = Unknown(("module", fresh()), "module")
                self.m.module_methods.applied(function, some, w, ctx, site)
        if name == "append" and len(args.positional) == 1 and self._is_computed(args.positional[0], w):
            values = w.bound[receiver.key] = w.new(Sequence())
            return self.call(values, name, args, w, ctx, site)
        if name == "requires_grad_":
            tensor = self.m.tensors.from_unknown(receiver, w)
            self.m.modules.taken_for_tensor(receiver, tensor)
            return self.call(tensor, name, args, w, ctx, site)
        if name == "retain_grad":
            self.m.tensors.from_unknown(receiver, w, retains=True)
            return NONE
        if is_numpys(receiver) and name in _ARRAY_TO_ARRAY:
            return Unknown(("number", fresh(), NUMPYS), receiver.hint)
        if name in ("train", "eval", "to", "cuda", "cpu", "detach", "clone", "float", "view", "reshape"):
            return self._unknown_conversion(receiver, name, args, w, ctx, site)
        if name in METHODS and METHODS[name].result == "tensor" and from_module(receiver):
            return self.call(self.m.tensors.settled(receiver, w), name, args, w, ctx, site)
        changes = name in METHODS and METHODS[name].inplace
        if changes and self.m.tensors.gradient_of(args, w):  # what keeps gradients is a tensor, as a momentum is
            return self.call(self.m.tensors.from_unknown(receiver, w), name, args, w, ctx, site)
        if name in METHODS and (receiver.deps or name in TELLING_METHODS):
            return self._assumed_tensor(receiver, name, args, w, ctx, site)
        if name in ("items", "values") and self.m.library_models.is_part(receiver, w):
            return Unknown(("item", receiver.key, (name, fresh())), "module", receiver.deps)
        if name in ("items", "values") and looks_like_optimizer(receiver):
            return Unknown(("item", receiver.key, (name, fresh())), receiver.hint, receiver.deps)
        result = self.m.escapes.call(receiver, args, w, ctx, site, method=name)
        return receiver if changes and self.m.tensors.deps(result, w) <= receiver.deps else result

    def _is_computed(self, value: Value, w: World) -> bool:
        """Whether a value is a tensor that may require grad, and no parameter: what appends it keeps it in a list."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and not tensor.is_parameter and tensor.requires_grad is not False

    def _weight(self, receiver: Unknown, w: World, ctx: Context, site: Site) -> Value | None:
        """The parameter that is read off something with the name of a module: ``decoder.embed.weight``."""
        if not looks_like_parameter(receiver) or not any(map(MODULE_NAME.search, ways_of(receiver))):
            return None
        assert isinstance(receiver.key, tuple)  # of an attribute
        layer = self.m.modules.taken_for_one(Unknown(receiver.key[1], deps=receiver.deps), w, site)
        return self.m.attributes.get(layer, receiver.hint, w, ctx, site)

    def _unknown_conversion(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """``x.to(device)`` of a tensor, a module or a batch: unknown, but it says where the result is."""
        if name in ("train", "eval"):
            module = self.m.evaluation.bind(receiver, name, len(list(args)), w, site)
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
            return self.call(self.m.tensors.from_unknown(receiver, w, structured=True), name, args, w, ctx, site)
        if op.inplace or op.result not in ("tensor", "pair", "pair_by_dim"):
            if op.result in ("number", "array"):
                how = "number" if op.result == "number" else "numpy"
                kind = FIGURE if op.result == "number" else "number"
                return self.m.cuts.note(Unknown((kind, fresh())), [receiver], how, w, site)
            return Unknown(("result" if carried(receiver) else "number", fresh()), deps=receiver.deps)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        value = self.m.operations.apply(op, given, w, ctx, site)
        if name not in ARRAY_METHODS:
            self.m.placement.proven(value, w)
        if isinstance(value, Ref) and w.get(value, Tensor) is not None:
            new: Tensor = w.write(value.id)
            new.structured = True
            if name in ("to", "cuda", "cpu"):
                self.m.modules.moved(receiver, value, w)
                new.open = new.open and (new.requires_grad is not None or carried(receiver))
        return value


def carried(value: Unknown) -> bool:
    """Whether an unknown value may carry a graph."""
    from gradlint.static.state.provenance import carries_graph

    return carries_graph(value)
