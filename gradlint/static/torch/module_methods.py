"""Methods of modules: parameters, modes, devices, submodules."""

from __future__ import annotations

from collections import Counter
from functools import partial, reduce
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import MODE_METHOD_NAME
from gradlint.static.knowledge.torch_table import CONFIGURED, HOOKING, HOSTED_BACKWARD, METHODS_OF_MODULES
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.containers import Containers
from gradlint.static.python.streams import Streams
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import StandsFor, fresh
from gradlint.static.state.values import (
    CHOSEN,
    NONE,
    Const,
    Instance,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.effects import Effects
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.layer_containers import LayerContainers, is_open
from gradlint.static.torch.module_calls import ModuleCalls
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import LeftStatistics
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers, zeroes
from gradlint.static.torch.ownership import Ownership, UnownedParameters
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.placement import device_of
from gradlint.static.torch.state_dicts import StateDicts

if TYPE_CHECKING:
    from gradlint.finding import Site

_PARAMETER_METHODS = frozenset(
    ["parameters", "named_parameters", "load_state_dict", "state_dict", "requires_grad_", "apply", "register_parameter"]
)


class ModuleMethods:
    """Calls methods of modules."""

    _effects: Effects
    _choices: Choices
    _calls: Calls
    _containers: Containers
    _streams: Streams
    _state_dicts: StateDicts
    _modules: Modules
    _ownership: Ownership
    _unowned: UnownedParameters
    _evaluation: Evaluation
    _operations: Operations
    _hooks: Hooks
    _left_statistics: LeftStatistics
    _construction: Construction
    _escapes: Escapes
    _passes: Passes
    _layers: LayerContainers
    _optimizers: Optimizers
    _module_calls: ModuleCalls

    def module(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method that torch gives to modules."""
        modules = self._modules
        if name in ("buffers", "named_buffers", "state_dict", "apply"):
            self._left_statistics.asked(receiver, w)
        if name in _PARAMETER_METHODS:
            self._construction.kept(receiver, w)
        if name in ("parameters", "named_parameters"):
            named = {"named": Const(True)} if name.startswith("named") else {}
            if not modules.groups(receiver, w):
                modules.presume_parts(receiver, w, site)
            groups, device = modules.groups(receiver, w), self._device(receiver, w)
            whole = () if args.positional or args.keywords or args.open else (receiver,)
            given = Instance(role=roles.PARAMETERS, groups=groups, attrs=dict(named), device=device, args=whole)
            return self._streams.opened(w.new(given), w, site=site)
        if name in ("train", "eval"):
            mode = Const(False) if name == "eval" else w.resolve(args.get(0, "mode") or Const(True))
            self._evaluation.switched(receiver, mode, w, ctx, site)
            return receiver
        if name in ("to", "cuda", "cpu"):
            self._move(receiver, name, args, w)
            return receiver
        if name in ("half", "float", "double", "bfloat16", "type", "share_memory", "compile"):
            return receiver
        if name in ("modules", "children", "named_modules", "named_children"):
            return self._submodules(receiver, obj, name, w, ctx)
        if name == "apply":
            self._apply(receiver, obj, args, w, ctx, site)
            return receiver
        if name == "zero_grad":
            certain = receiver.id not in modules.parts
            groups, zeroed = modules.groups(receiver, w), zeroes(args, w)
            self._optimizers.clear(groups, obj.opaque, w, ctx, site, certain=certain, zeroed=zeroed)
            return NONE
        if name in ("requires_grad_", "freeze", "unfreeze"):
            flag_value = w.resolve(args.get(0, "requires_grad") or Const(name != "freeze"))
            for key in modules.groups(receiver, w):
                flag = bool(flag_value.value) if isinstance(flag_value, Const) else None
                group = self._unowned.told_to_train(key, flag, w, site)
                some = receiver.id in modules.parts  # the whole model may have others
                group.requires_grad = None if some and group.requires_grad is not flag else flag
            return receiver
        return self._module_rest(receiver, obj, name, args, w, ctx, site)

    def _module_rest(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        if name in ("add_module", "register_module", "register_parameter", "register_buffer"):
            key, value = w.resolve(args.get(0, "name") or NONE), args.get(1, "module") or args.get(1, "param")
            value = value or args.get(1, "tensor") or NONE
            label = str(key.value) if isinstance(key, Const) else f"<{fresh()}>"
            if obj.layer is not None and obj.layer.container == "dict":
                self._layers.set_item(receiver, obj, key if isinstance(key, Const) else None, value, w, site)
                return NONE
            self._ownership.placed(receiver, w.resolve(value), w, site)
            new: Instance = w.write(receiver.id)
            new.attrs[label] = value
            if name == "register_buffer":
                new.buffers |= {label}
            self._construction.attribute_set(receiver, obj, label, w.resolve(value), w, ctx, site, registers=True)
            return NONE
        container = obj.layer.container if obj.layer is not None else ""
        if container and name in ("append", "extend", "insert"):
            self._layers.grow(receiver, name, args, w, ctx, site)
            return receiver
        if container == "dict" and obj.layer is not None and name == "update":
            self._layers.update(receiver, obj.layer, w.resolve(args.get(0, "modules") or NONE), w, site)
            return NONE
        if container and name in ("items", "values", "keys"):
            return self._containers.of_dict(receiver, self._layers.named(obj, w), name, args, w, ctx, site)
        if container and name == "pop":
            index = w.resolve(args.get(0, "key") or Const(-1))
            popped = self._effects.item(receiver, obj, index, w, ctx, site)
            self._layers.remove(receiver, index, w)
            return popped
        if name in ("forward", "__call__"):
            return joined(self._module_calls.call(receiver, args, w, ctx, site), w)
        if name == "_conv_forward" and obj.layer is not None:  # with weights that it is given
            return self._operations.apply(obj.layer.op, args, w, ctx, site)
        if name == "register_forward_hook":
            return self._hooks.registered(receiver, args, w, ctx, site)
        if name in HOOKING:
            return self._hooks.watched(receiver, name, args, w, ctx, site)
        if name == "state_dict":
            tensor = Tensor(requires_grad=False, is_leaf=True, device=obj.device, made_at=site, open=False)
            return self._state_dicts.taken(receiver, tensor, w, site)
        if name in HOSTED_BACKWARD:
            loss = args.get(0, "loss") or new_unknown("loss")
            self._passes.backward(loss, Arguments([], args.keywords), w, ctx, site)
            return NONE
        if name in CONFIGURED:
            return self._optimizers.configured(receiver, obj, w, ctx, site)
        if name == "load_state_dict":
            self._state_dicts.loaded(receiver, args, w, ctx, site)
            self._left_statistics.loaded(receiver, w)
        if name in METHODS_OF_MODULES:
            return new_unknown("module method")
        if obj.opaque or obj.cls is not None:
            if MODE_METHOD_NAME.search(name):
                self._evaluation.may_switch(receiver, w, ctx, site)
            return self._effects.method_of_unknown(
                Unknown(StandsFor(receiver), obj.name, obj.groups), name, args, w, ctx, site
            )
        return self._escapes.call(receiver, args, w, ctx, site)

    def _device(self, receiver: Ref, w: World) -> str | None:
        """Where the parameters of a module are, if they are known to have been moved to the same device."""
        held = (w.get(ref, Instance) for ref in self._modules.walk(receiver, w))
        devices = {obj.device for obj in held if obj is not None and obj.groups}
        return devices.pop() if devices in ({"cuda"}, {CHOSEN}) else None

    def _move(self, receiver: Ref, name: str, args: Arguments, w: World) -> None:
        device: str | None = {"cuda": "cuda", "cpu": "cpu"}.get(name)
        if name == "to":
            given = args.get(0, "device")
            if given is None or getattr(w.resolve(given), "name", "").startswith("torch."):
                return
            device = device_of(w.resolve(given), w)
        for ref in self._modules.walk(receiver, w):
            module = w.write(ref.id)
            module.device = device
            for attribute, value in module.attrs.items():
                value = w.resolve(value)
                tensor = w.get(value, Tensor)
                registered = tensor is not None and (tensor.is_parameter or attribute in module.buffers)
                if registered and isinstance(value, Ref):
                    w.write(value.id).device = device

    def _apply(self, receiver: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``module.apply(function)``: a function is called with a module and all modules below it."""
        function = args.get(0, "fn")
        if function is None:
            return
        given: list[Value] = list(self._representatives(list(self._modules.walk(receiver, w)), w))
        if obj.opaque or self._is_abstract(obj, w):
            given.append(new_unknown("module", "module"))
        for module in given:
            self.applied(function, module, w, ctx, site)

    def applied(self, function: Value, module: Value, w: World, ctx: Context, site: Site) -> None:
        """A function is called with one of several modules."""
        here = ctx.at(module.id if isinstance(module, Ref) else "others")
        joined(self._calls.call(function, Arguments([module]), w, here, site), w)

    def _is_abstract(self, obj: Instance, w: World) -> bool:
        """Whether a module has no modules below it, so that it is for subclasses to have some."""
        return obj.cls is not None and obj.layer is None and not any(self._modules.children(obj, w))

    def _representatives(self, refs: list[Ref], w: World) -> list[Ref]:
        """At most one module for each class of layer, when there are many."""
        if len(refs) <= 8:
            return refs
        of_kind: dict[tuple[str, bool], Ref] = {}
        for ref in refs:
            of_kind.setdefault(_kind(ref, w), ref)
        return list(of_kind.values())

    def registered(self, receiver: Ref, obj: Instance, name: str, w: World, ctx: Context) -> Value:
        """``module._modules.values()`` or ``items()``: a loop over them goes the way of one over a container."""
        items = self._layers.iterate(obj, w) if name == "values" else None
        if items is not None and items.known is not None:
            return w.new(Sequence(items.known, [None] * len(items.known)))
        return self._submodules(receiver, obj, "children" if name == "values" else "named_children", w, ctx)

    def _submodules(self, receiver: Ref, obj: Instance, name: str, w: World, ctx: Context) -> Value:
        modules = self._modules
        below = name.endswith("modules")
        refs = list(modules.walk(receiver, w)) if below else list(modules.children(obj, w))
        held = [module for ref in refs if isinstance(module := w.find(ref.id), Instance)] if below else []
        chosen = self._representatives(refs, w) if below else refs
        values: list[Value] = [*chosen]
        others = self._is_abstract(obj, w) or any(self._holds_others(module, w) for module in (obj, *held))
        if others:
            inside = frozenset[int]().union(*(module.groups for module in (obj, *held) if module.opaque))
            values.append(new_unknown("module", "module", inside))
        if name.startswith("named"):
            names = self.names(receiver, refs if len(chosen) < len(refs) else [], w)
            pairs = [[names.get(value) or new_unknown("name", "name"), value] for value in values]
            values = [w.new(Sequence(pair, [None, None], mutable=False)) for pair in pairs]
        if others and not below:  # which of them comes first is not known
            return w.new(Sequence(tail=reduce(partial(self._choices.either, w=w), values)))
        return w.new(Sequence(values, [None] * len(values)))

    def names(self, top: Ref, alike: list[Ref], w: World) -> dict[Value, Const]:
        """What a module calls each one below it, but for those with several names, or that stand for some alike."""
        kinds = Counter(_kind(ref, w) for ref in alike)
        held = [
            (ref, "" if is_open(obj) or attribute.startswith("<") else attribute, w.resolve(each))
            for ref in self._modules.walk(top, w)
            if isinstance(obj := w.find(ref.id), Instance)
            for attribute, value in obj.attrs.items()
            for each in each_of(w.resolve(value))
        ]
        times: Counter[Value] = Counter(one for _, _, one in held if isinstance(one, Ref))
        paths: dict[Value, str] = {top: ""}
        for ref, attribute, one in held:
            if attribute and ref in paths and times[one] == 1:
                paths[one] = f"{paths[ref]}.{attribute}".lstrip(".")
        return {ref: Const(path) for ref, path in paths.items() if kinds[_kind(ref, w)] < 2}

    def _holds_others(self, module: Instance, w: World) -> bool:
        """Whether a module holds others that are not known: one that is given by its class holds what that builds."""
        if module.layer is None or not module.layer.container:
            return module.opaque and module.cls is None and module.layer is None
        return self._layers.holds_unknown(module, w)


def _kind(ref: Value, w: World) -> tuple[str, bool]:
    """What makes modules alike: the class of layer, and whether they have parameters."""
    obj = w.get(ref, Instance)
    return ("", False) if obj is None else (obj.name, bool(obj.groups))
