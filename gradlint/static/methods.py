"""Methods by name: of tensors, modules, optimizers, containers, strings, and of objects that are unknown."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Literal

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.context import Arguments, Context
from gradlint.static.ops import Op
from gradlint.static.tensors import from_module
from gradlint.static.torch_table import METHODS
from gradlint.static.values import (
    NONE,
    Class,
    Const,
    External,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Segment,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.world import World, fresh

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.interpreter import Interpreter

_OPTIMIZER_NAME = re.compile(
    r"(^|_)(opt|optim|optimi[sz]er|optimi[sz]ers)(_|\d|$|[A-Z])|optimi[sz]er|optim\b|^opt[A-Z_]?|[a-z]Opt(im)?"
)
_SCALE = Op(saves="other", size="keeps", activation="keeps")
_MODULE_ONLY = frozenset(
    [
        "parameters",
        "named_parameters",
        "modules",
        "named_modules",
        "children",
        "named_children",
        "state_dict",
        "load_state_dict",
        "requires_grad_",
        "half",
        "double",
        "bfloat16",
    ]
)
_ARRAY_IN_PLACE = frozenset(["fill", "itemset", "partition", "put", "sort"])
_PARAMETER_METHODS = frozenset(
    ["parameters", "named_parameters", "load_state_dict", "state_dict", "requires_grad_", "apply", "register_parameter"]
)


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
            "register_full_backward_hook",
            "get_submodule",
            "get_parameter",
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

    def call(self, receiver: Value, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``receiver.name(...)`` where the method is not of the project."""
        if name == "cuda":
            self.m.devices.moved(args, w, ctx, site)
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
        if isinstance(receiver, Const):
            return self.m.containers.of_string(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Unknown):
            return self._unknown(receiver, name, args, w, ctx, site)
        if isinstance(receiver, Class) and name == "apply":
            return self.m.externals.applied(receiver, args, w, ctx, site)
        return self.m.unknown_call(receiver, args, w, ctx, site)

    # --- tensors

    def _tensor(
        self, receiver: Ref, tensor: Tensor, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        tensors = self.m.tensors
        if name == "backward":
            self.backward(receiver, args, w, ctx, site)
            return NONE
        if name in ("requires_grad_", "requires_grad"):
            flag = w.resolve(args.get(0, "requires_grad") or Const(True))
            tensors.asked(receiver, flag, False, w, ctx, site)
            tensors.require_grad(receiver, bool(flag.value) if isinstance(flag, Const) else None, w, site)
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
            return receiver
        if name in ("numpy", "__array__"):
            force = w.resolve(args.keywords.get("force", Const(False)))
            if force != Const(True):
                self.converted(receiver, f".{name}()", w, ctx, site, role="receiver")
            if not tensors.requires_grad(receiver, w):
                self.m.evaluation.measured([receiver], True, w, ctx)
            array = w.new(Instance(name="numpy.ndarray", kind="array", made_at=site))
            self.m.memory.share(array, receiver, w)
            return self.m.cuts.note(array, [receiver], "numpy", w, site)
        op = METHODS.get(name)
        if op is None:
            if name in ("size", "dim", "numel", "stride", "element_size", "is_contiguous", "data_ptr", "get_device"):
                return Unknown((name, receiver))
            if tensor.structured:
                return tensors.view(receiver, w, site)
            return self.m.unknown_call(receiver, args, w, ctx, site)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        if name in ("log", "log_"):
            self.m.legacy.logarithm(receiver, w, ctx, site)
        if op.inplace:
            tensors.in_place(name, receiver, list(args), w, ctx, site)
            return receiver
        if name in ("argmax", "max", "topk", "sort") and op.result == "pair_by_dim":
            pair = tensors.apply(op, given, w, ctx, site)
            self.m.shapes.applied(name, op, given, pair, w)
            return pair
        if name == "item":
            self.m.witness.send(events.NumberTaken(site=site, tensor=tensors.view_of(receiver, w)), w, ctx)
        result = tensors.apply(op, given, w, ctx, site)
        self.m.shapes.applied(name, op, given, result, w)
        self.m.cuts.rounded(name, result, w, site)
        if op.detaches or name in ("cpu", "cuda", "to", "contiguous", "float", "double", "half", "type"):
            self._same_storage(receiver, tensor, result, op, w)
        return result

    def _same_storage(self, receiver: Ref, tensor: Tensor, result: Value, op: Op, w: World) -> None:
        """A conversion that may return the tensor itself keeps what it is a part of."""
        if isinstance(result, Ref) and w.get(result, Tensor) is not None:
            new: Tensor = w.write(result.id)
            new.structured = tensor.structured
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
        which: int = 0,
        role: str = "",
    ) -> None:
        """Tell the rules that a value (one of several at the same place) was turned into a numpy array."""
        value = w.resolve(value)
        if w.get(value, Tensor) is None:
            return
        grad_enabled: Fact[bool] = unknown() if w.grad is None else known(w.grad)
        view = self.m.tensors.view_of(value, w, kept_at=kept_at)
        event = events.ConvertedToNumpy(site=site, tensor=view, how=how, grad_enabled=grad_enabled, role=role)
        self.m.witness.send(event, w, ctx, alternative=which)

    def backward(self, root: Value, args: Arguments, w: World, ctx: Context, site: Site, certain: bool = True) -> None:
        """A backward pass from ``root``: gradients are added, graphs are freed."""
        root = w.resolve(root)
        if isinstance(root, Unknown):
            root = self.m.tensors.from_unknown(root, w, open=True)
        if not isinstance(root, Ref):
            return
        tensor = w.get(root, Tensor)
        if tensor is None:
            return
        given = known(bool(args.positional) or "gradient" in args.keywords)
        asked = events.BackwardAsked(site=site, root=self.m.tensors.view_of(root, w), gradient_given=given)
        self.m.witness.send(asked, w, ctx)
        self.m.tensors.prove(root, w)
        retain = _flag(w.resolve(args.keywords.get("retain_graph", NONE)), w)
        create = _flag(w.resolve(args.keywords.get("create_graph", Const(False))), w)
        if "retain_graph" not in args.keywords:
            retain = create
        view = self.m.tensors.view_of(root, w)
        touches = self._reached(w.find(root.id), w, certain)
        if not touches:
            self.m.doubt([key for key, obj in w.heap.items() if isinstance(obj, Group)], [], w)
        for key, reached in touches.items():
            group = w.find(key) if isinstance(key, int) else None
            if isinstance(group, Group) and isinstance(key, int):
                w.write(key).prepared = True if reached or group.prepared else None
        self.m.witness.send(
            events.Backward(
                site=site,
                root=view,
                touches=touches,
                retain_graph=_fact(retain),
                create_graph=_fact(create),
                gradient_given=given,
            ),
            w,
            ctx,
        )
        self.m.memory.walked(tensor, w, ctx, site)
        self.m.evaluation.trained(root, w)
        self.free(tensor, retain, w, site)

    def free(self, tensor: Tensor, retain: bool | None, w: World, site: Site) -> None:
        """Free the graph of a tensor, unless it is retained."""
        if retain:
            return
        for key in tensor.segments | tensor.reaches:
            segment = w.find(key)
            if isinstance(segment, Segment) and not segment.freed:
                new = w.write(key)
                new.freed = True if retain is False else None
                new.freed_at = site

    def _reached(self, tensor: Object | None, w: World, certain: bool) -> dict[Hashable, Literal[True] | None]:
        """The parameter groups a backward pass adds to: known ones, and presumably those of opaque optimizers."""
        assert isinstance(tensor, Tensor)
        touches: dict[Hashable, Literal[True] | None] = {}
        for key in sorted(tensor.deps):
            group = w.find(key)
            if isinstance(group, Group) and group.requires_grad is not False:
                touches[key] = True if certain else None
        if tensor.open:
            for key in sorted(w.heap):
                group = w.find(key)
                if not isinstance(group, Group) or key in touches or group.requires_grad is False:
                    continue
                if group.opaque or group.tokens:
                    touches[key] = True if certain and group.opaque else None
        return touches

    # --- modules, optimizers and other instances

    def _super(self, receiver: Super, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        obj = w.get(receiver.receiver, Instance)
        if obj is None or not isinstance(receiver.receiver, Ref):
            return Unknown(("super", fresh()))
        if name == "__init__":
            return self._super_init(receiver.receiver, obj, args, w, ctx, site)
        if name == "forward" and obj.layer is not None:
            return self.m.tensors.apply(obj.layer.op, args, w, ctx, site, parameters=obj.groups)
        return self._instance(receiver.receiver, obj, name, args, w, ctx, site)

    def _super_init(self, receiver: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``super().__init__(...)`` of an optimizer takes the parameters; of ``nn.Sequential`` the layers."""
        new = w.write(receiver.id)
        if obj.kind == "optimizer":
            new.groups |= self.m.modules.groups_in(args.get(0, "params") or NONE, w)
        elif obj.layer is not None and obj.layer.container:
            self.m.modules.fill(receiver, obj.layer, args, w, ctx, site)
        return NONE

    def _instance(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        if obj.kind in ("module", "lightning", "loss"):
            return self._module(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "optimizer":
            return self._optimizer(receiver, obj, name, args, w, ctx, site)
        if obj.kind == "scaler":
            return self._scaler(obj, name, args, w, ctx, site)
        if obj.kind == "accelerate":
            return self._accelerate(name, args, w, ctx, site)
        if obj.kind == "scheduler":
            self._scheduler(obj, name, args, w, site)
            return Unknown(("result of known", fresh()))
        if obj.kind in ("loader", "gradmode", "param_groups", "device"):
            return Unknown(("result of known", fresh()))
        if obj.kind == "array":
            if name in _ARRAY_IN_PLACE:
                self.m.memory.array_changed(receiver, w, ctx, site)
            return (
                w.new(Instance(name="numpy.ndarray", kind="array"))
                if name not in ("item", "tolist")
                else Unknown(("number", fresh()))
            )
        if name in ("backward", "step", "zero_grad") or obj.cls is not None:
            return self._unknown(Unknown(("instance", receiver), obj.name, obj.groups), name, args, w, ctx, site)
        return self.m.unknown_call(receiver, args, w, ctx, site)

    def _module(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        modules = self.m.modules
        if name in _PARAMETER_METHODS:
            self.m.construction.kept(receiver, w)
        if name in ("parameters", "named_parameters"):
            named = {"named": Const(True)} if name.startswith("named") else {}
            return w.new(Instance(kind="parameters", groups=modules.groups(receiver, w), attrs=dict(named)))
        if name in ("train", "eval"):
            mode = Const(False) if name == "eval" else w.resolve(args.get(0, "mode") or Const(True))
            self.m.evaluation.switched(receiver, mode, w, ctx, site)
            return receiver
        if name in ("to", "cuda", "cpu"):
            self._move(receiver, name, args, w)
            return receiver
        if name in ("half", "float", "double", "bfloat16", "type", "share_memory", "compile"):
            return receiver
        if name in ("modules", "children", "named_modules", "named_children"):
            return self._submodules(receiver, obj, name, w, ctx)
        if name == "apply":
            function = args.get(0, "fn")
            for ref in self._representatives(list(modules.walk(receiver, w)), w):
                if function is not None:
                    self.m.calls.joined(self.m.calls.call(function, Arguments([ref]), w, ctx.at(ref.id), site), w)
            return receiver
        if name == "zero_grad":
            self.clear(modules.groups(receiver, w), obj.opaque, w, ctx, site)
            return NONE
        if name in ("requires_grad_", "freeze", "unfreeze"):
            flag_value = w.resolve(args.get(0, "requires_grad") or Const(name != "freeze"))
            for key in modules.groups(receiver, w):
                w.write(key).requires_grad = bool(flag_value.value) if isinstance(flag_value, Const) else None
            return receiver
        return self._module_rest(receiver, obj, name, args, w, ctx, site)

    def _module_rest(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        if name in ("add_module", "register_module", "register_parameter", "register_buffer"):
            key, value = w.resolve(args.get(0, "name") or NONE), args.get(1, "module") or args.get(1, "param")
            value = value or args.get(1, "tensor") or NONE
            label = str(key.value) if isinstance(key, Const) else f"<{fresh()}>"
            w.write(receiver.id).attrs[label] = value
            self.m.construction.attribute_set(receiver, obj, label, w.resolve(value), w, ctx, site)
            return NONE
        container = obj.layer.container if obj.layer is not None else ""
        if container and name in ("append", "extend", "insert"):
            return self._grow(receiver, obj, name, args, w, ctx, site)
        if container and name in ("items", "values", "keys"):
            pairs = [(Const(k), v) for k, v in obj.attrs.items() if not k.startswith("<")]
            return self.m.containers.of_dict(receiver, Mapping(dict(pairs)), name, args, w, ctx, site)
        if name in ("forward", "__call__"):
            return self.m.calls.joined(self.m.modules.call(receiver, args, w, ctx, site), w)
        if name == "state_dict":
            tensor = Tensor(requires_grad=False, is_leaf=True, device=obj.device, made_at=site, open=False)
            return w.new(Mapping({}, w.new(tensor)))
        if name == "manual_backward":
            self.backward(args.get(0) or NONE, Arguments([], args.keywords), w, ctx, site)
            return NONE
        if name == "optimizers":
            return self.m.configured_optimizers(receiver, obj, w, ctx, site)
        if name in self.MODULE_METHODS:
            return Unknown(("module method", fresh()))
        if obj.opaque or obj.cls is not None:
            return self._unknown(Unknown(("instance", receiver), obj.name, obj.groups), name, args, w, ctx, site)
        return self.m.unknown_call(receiver, args, w, ctx, site)

    def _grow(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        new = w.write(receiver.id)
        if name == "append":
            added = [args.get(0) or NONE]
        elif name == "insert":
            added = [args.get(1) or NONE]
        else:
            items = self.m.python.iterate(args.get(0) or NONE, w, ctx, site)
            added = items.known if items.known is not None else [items.element(w, ctx)]
        for value in added:
            self.m.construction.kept(w.resolve(value), w)
            if ctx.peeled and len(new.attrs) > 3:
                new.attrs["<more>"] = Const(True)
                return receiver
            new.attrs[str(len(new.attrs))] = value
            if ctx.peeled:
                new.attrs["<more>"] = Const(True)
        return receiver

    def _move(self, receiver: Ref, name: str, args: Arguments, w: World) -> None:
        from gradlint.static.tensors import device_of

        device: str | None = {"cuda": "cuda", "cpu": "cpu"}.get(name)
        if name == "to":
            given = args.get(0, "device")
            if given is None or getattr(w.resolve(given), "name", "").startswith("torch."):
                return
            device = device_of(w.resolve(given), w)
        for ref in self.m.modules.walk(receiver, w):
            module = w.write(ref.id)
            module.device = device
            for value in module.attrs.values():
                value = w.resolve(value)
                tensor = w.get(value, Tensor)
                if tensor is not None and tensor.is_parameter and isinstance(value, Ref):
                    w.write(value.id).device = device

    def _representatives(self, refs: list[Ref], w: World) -> list[Ref]:
        """At most one module for each class of layer, when there are many."""
        if len(refs) <= 8:
            return refs
        seen, out = set(), []
        for ref in refs:
            obj = w.find(ref.id)
            name = (obj.name, bool(obj.groups)) if isinstance(obj, Instance) else ("", False)
            if name not in seen:
                seen.add(name)
                out.append(ref)
        return out

    def _submodules(self, receiver: Ref, obj: Instance, name: str, w: World, ctx: Context) -> Value:
        modules = self.m.modules
        refs = list(modules.walk(receiver, w)) if name.endswith("modules") else list(modules.children(obj, w))
        opaque = any(getattr(w.find(ref.id), "opaque", False) for ref in refs)
        values: list[Value] = list(self._representatives(refs, w))
        if opaque or obj.opaque:
            values.append(Unknown(("module", fresh()), "module"))
        if name.startswith("named"):
            values = [
                w.new(Sequence([Unknown(("name", fresh()), "name"), v], [None, None], None, None, False))
                for v in values
            ]
        return w.new(Sequence(values, [None] * len(values)))

    # --- optimizers

    def clear(self, groups: frozenset[int], opaque: bool, w: World, ctx: Context, site: Site) -> None:
        """``zero_grad()``: clears what its owner holds; an opaque owner may hold what others hold as well."""
        self.m.witness.cleared(groups, "zero_grad", w, ctx, site)
        others = {
            key
            for key, obj in w.heap.items()
            if isinstance(obj, Group) and key not in groups and (opaque or obj.opaque) and obj.tokens
        }
        if others:
            self.m.witness.cleared(others, "zero_grad", w, ctx, site, certain=False)

    def _optimizer(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        if name == "zero_grad":
            # An opaque optimizer clears its own parameters; only the model behind it is not known.
            self.m.witness.cleared(obj.groups, "zero_grad", w, ctx, site)
            return NONE
        if name == "step":
            self._first_step(receiver, obj, w, ctx, site)
            closure = args.get(0, "closure")
            if closure is None or closure == NONE:
                self._apply(obj, w, ctx, site)
                return NONE
            result: Value = NONE
            # LBFGS calls its closure several times, and updates the parameters after each.
            for number in range(2 if obj.name.endswith("LBFGS") else 1):
                here = ctx.at(site, number)
                result = self.m.calls.joined(self.m.calls.call(closure, Arguments(), w, here, site), w)
                self._apply(obj, w, here, site)
            return result
        if name == "add_param_group":
            groups = self.m.modules.groups_in(args.get(0, "param_group") or NONE, w)
            w.write(receiver.id).groups |= groups
            self.m.construction.handed_over(groups, w)
            return NONE
        if obj.cls is not None or name in ("first_step", "second_step"):
            return self.m.unknown_call(receiver, args, w, ctx, site)
        return Unknown(("optimizer method", fresh()))

    def _apply(self, obj: Instance, w: World, ctx: Context, site: Site) -> None:
        self.m.witness.step(obj.groups, obj.name, w, ctx, site)
        self.m.tensors.outdate(obj.groups, w, site)

    def _first_step(self, optimizer: Value, obj: Instance, w: World, ctx: Context, site: Site) -> None:
        """An optimizer steps: the first time, a scheduler of it should not have moved on before."""
        if not isinstance(optimizer, Ref):
            return
        if obj.stepped is False:
            self.m.witness.send(events.FirstStep(site=site, scheduled_at=obj.scheduled_at), w, ctx)
        w.write(optimizer.id).stepped = True

    def _scheduler(self, obj: Instance, name: str, args: Arguments, w: World, site: Site) -> None:
        optimizer = w.resolve(obj.args[0]) if obj.args else NONE
        target = w.get(optimizer, Instance)
        if name != "step" or args.positional or obj.name.endswith("ReduceLROnPlateau"):
            return
        if isinstance(optimizer, Ref) and target is not None and target.stepped is False:
            w.write(optimizer.id).scheduled_at = site

    def _scaler(self, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if name == "scale":
            value = w.resolve(args.get(0) or NONE)
            if isinstance(value, Unknown):
                return value
            return self.m.tensors.apply(_SCALE, Arguments([value]), w, ctx, site)
        if name == "step":
            self.stepped(args.get(0, "optimizer") or NONE, w, ctx, site)
        return NONE

    def stepped(self, optimizer: Value, w: World, ctx: Context, site: Site) -> None:
        """A step of an optimizer that someone else makes."""
        optimizer = w.resolve(optimizer)
        if isinstance(optimizer, Unknown):
            optimizer = self._opaque_optimizer(optimizer, w, site)
        obj = w.get(optimizer, Instance)
        if obj is not None and obj.kind == "optimizer":
            self._first_step(optimizer, obj, w, ctx, site)
            self._apply(obj, w, ctx, site)

    def _accelerate(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if name in ("prepare", "setup"):
            if len(args.positional) == 1:
                return args.positional[0]
            return w.new(Sequence(list(args.positional), [None] * len(args.positional), None, None, False))
        if name in (
            "prepare_model",
            "prepare_optimizer",
            "prepare_data_loader",
            "setup_module",
            "setup_optimizers",
            "unwrap_model",
            "setup_dataloaders",
        ):
            return args.get(0) or NONE
        if name == "backward":
            self.backward(args.get(0) or NONE, Arguments([], args.keywords), w, ctx, site)
            return NONE
        if name in ("gather", "gather_for_metrics", "reduce", "pad_across_processes"):
            return w.resolve(args.get(0) or NONE)
        return Unknown(("accelerate", fresh()))

    def _opaque_optimizer(self, value: Unknown, w: World, site: Site) -> Ref:
        place = ("optimizer", value.key)
        groups = value.deps or frozenset([w.new(Group(None, opaque=True, made_at=site), (place, "group")).id])
        ref = w.new(
            Instance(kind="optimizer", name=value.hint or "optimizer", groups=groups, opaque=True, stepped=None), place
        )
        w.bound[value.key] = ref
        return ref

    # --- unknown receivers

    def _unknown(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if name == "backward":
            if args.positional and w.get(w.resolve(args.positional[0]), Tensor) is not None:
                self.backward(args.positional[0], Arguments(), w, ctx, site, certain=False)
                return NONE
            if not args.positional:
                self.backward(receiver, args, w, ctx, site)
            return NONE
        if name == "step":
            if looks_like_optimizer(receiver) and len(args.positional) <= 1:
                optimizer = self._opaque_optimizer(receiver, w, site)
                return self.call(optimizer, name, args, w, ctx, site)
            if args.positional and looks_like_optimizer(w.resolve(args.positional[0])):
                self.stepped(args.positional[0], w, ctx, site)
                return NONE
            return self.m.unknown_call(receiver, args, w, ctx, site)
        if name == "zero_grad":
            if looks_like_optimizer(receiver):
                optimizer = self._opaque_optimizer(receiver, w, site)
                return self.call(optimizer, name, args, w, ctx, site)
            self.clear(receiver.deps, True, w, ctx, site)
            return NONE
        if name == "scale" and args.positional and w.get(w.resolve(args.positional[0]), Tensor) is not None:
            return self.m.tensors.apply(_SCALE, Arguments([args.positional[0]]), w, ctx, site)
        if name in _MODULE_ONLY and not (name == "requires_grad_" and not receiver.deps):
            opaque = self.m.modules.opaque(w, receiver.hint, site, None, receiver.deps, ("module", receiver.key))
            w.bound[receiver.key] = opaque
            obj = w.get(opaque, Instance)
            assert obj is not None
            return self._module(opaque, obj, name, args, w, ctx, site)
        if name == "requires_grad_":
            tensor = self.m.tensors.from_unknown(receiver, w)
            return self.call(tensor, name, args, w, ctx, site)
        if name == "retain_grad":
            self.m.tensors.from_unknown(receiver, w, retains=True)
            return NONE
        if name in ("train", "eval", "to", "cuda", "cpu", "detach", "clone", "float", "view", "reshape"):
            return self._unknown_conversion(receiver, name, args, w, ctx, site)
        if name in METHODS and METHODS[name].result == "tensor" and from_module(receiver):
            return self.call(self.m.tensors.settled(receiver, w), name, args, w, ctx, site)
        if name in METHODS and (receiver.deps or self.m.is_tensor_method(name)):
            return self._assumed_tensor(receiver, name, args, w, ctx, site)
        return self.m.unknown_call(receiver, args, w, ctx, site, method=name)

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
        if name == "numpy":
            return self.call(self.m.tensors.from_unknown(receiver, w, structured=True), name, args, w, ctx, site)
        if op.inplace or op.result not in ("tensor", "pair", "pair_by_dim"):
            if op.result in ("number", "array"):
                how = "number" if op.result == "number" else "numpy"
                return self.m.cuts.note(Unknown(("number", fresh())), [receiver], how, w, site)
            return Unknown(("result" if carried(receiver) else "number", fresh()), deps=receiver.deps)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        value = self.m.tensors.apply(op, given, w, ctx, site)
        if isinstance(value, Ref) and w.get(value, Tensor) is not None:
            new: Tensor = w.write(value.id)
            new.structured = True
            if name in ("to", "cuda", "cpu") and new.requires_grad is None and not carried(receiver):
                new.open = False
        return value


def looks_like_optimizer(value: Value) -> bool:
    """Whether an unknown value has the name of an optimizer.  A name may create a subject; it proves nothing."""
    return isinstance(value, Unknown) and bool(value.hint) and _OPTIMIZER_NAME.search(value.hint) is not None


def carried(value: Unknown) -> bool:
    """Whether an unknown value may carry a graph."""
    from gradlint.static.tensors import carries_graph

    return carries_graph(value)


def _flag(value: Value, w: World) -> bool | None:
    return bool(value.value) if isinstance(value, Const) else None


def _fact(value: bool | None) -> Fact[bool]:
    return unknown() if value is None else known(value)


__all__ = ["External", "Methods", "looks_like_optimizer"]
