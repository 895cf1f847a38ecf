"""Modules, losses and optimizers: what they hold, what they do when called, what their attributes are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_layers import WRAPPED
from gradlint.static.python.definitions import Definitions
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.origins import AttributeOf, ElementOf, ItemOf
from gradlint.static.state.provenance import looks_like_module, part_of_library_model, ways_into
from gradlint.static.state.values import (
    NONE,
    Choice,
    Class,
    Const,
    Frame,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.chains import chains_in
from gradlint.static.torch.batches import Loading
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

MOVED = "moved"
"""With the key of an unknown value: what a world is bound to once that was moved to a device."""


class Modules:
    """Knows ``torch.nn`` objects and the project's subclasses of them."""

    _ledgers: Ledgers
    _definitions: Definitions
    _tensors: Tensors
    _loading: Loading

    def __init__(self) -> None:
        self._taken: Ledger[int, Unknown] = self._ledgers.open()
        """By what is taken for a tensor, what it was before: the same, if it is a module after all."""
        self.parts: Ledger[int, None] = self._ledgers.open()
        """Modules that are some of the parts of an opaque one, and hold some of its parameters."""

    def opaque(
        self,
        w: World,
        name: str,
        site: Site | None,
        requires_grad: bool | None,
        groups: Iterable[int] = (),
        place: Hashable = None,
    ) -> Ref:
        """A module whose inside is not known, with one parameter group unless it is given some."""
        own = None if place is None else (place, "group")
        members = frozenset(groups) or frozenset([w.new(Group(requires_grad, opaque=True, made_at=site), own).id])
        module = Instance(
            name=name, role=roles.MODULE, groups=members, opaque=True, training=None, device=None, made_at=site
        )
        return w.new(module, place)

    def taken_for_one(self, value: Unknown, w: World, site: Site) -> Ref:
        """The opaque module that stands from now on for what can only be one."""
        part = part_of_library_model(value, w)
        name = value.hint if part is None else f"{part[0].name}.{part[1]}"
        given = w.get(w.bound.get(("parameters", value.key), NONE), Instance)
        groups = value.deps or (given.groups if given is not None else ())  # it was handed to an optimizer as it is
        opaque = self.opaque(w, name, site, None, groups, ("module", value.key))
        if self.is_part(value):
            self.parts[opaque.id] = None
        obj = w.get(opaque, Instance)
        for key in obj.groups if obj is not None and self._loading.may_be_frozen(value) else ():
            w.write(key).requires_grad_set = True
        for key in obj.groups if obj is not None and self._loading.is_from_file(value) else ():
            w.write(key).loaded = True
        w.bound[value.key] = opaque
        return opaque

    def is_part(self, value: Unknown) -> bool:
        """Whether something unknown is a part of an opaque module: ``model.decoder``, not what that was wrapped in."""
        return bool(value.deps) and any(map(_is_within, ways_into(value.key) or (value.key,)))

    def presume_parts(self, ref: Ref, w: World, site: Site) -> None:
        """A module is asked for its parameters, of which none are known: it holds what it calls and is not known.

        So does a container: what is put into one can only be a module.
        """
        for here in list(self.walk(ref, w)):
            obj = w.get(here, Instance)
            if obj is None:
                continue
            contains = obj.layer is not None and obj.layer.of_modules
            called = self._called(obj.cls) if obj.cls is not None else ()
            for value in [w.resolve(value) for name, value in obj.attrs.items() if contains or name in called]:
                if isinstance(value, Unknown) and (contains or looks_like_module(value)):
                    self.taken_for_one(value, w, site)

    def _called(self, cls: Class) -> frozenset[str]:
        """The attributes of its objects that a class calls: ``self.encoder(x)``."""
        texts = (method.text for method in self._definitions.methods(cls).values())
        chains = (chain for text in texts for chain in chains_in(text) if chain.called and len(chain.parts) == 2)
        return frozenset(chain.parts[1] for chain in chains if chain.parts[0] == "self")

    def may_be_one(self, ref: Ref, w: World) -> bool:
        """Whether what was taken for a tensor, as it was moved to a device or told to require grad, may be a module."""
        tensor = w.get(ref, Tensor)
        return tensor is not None and not tensor.is_parameter and (tensor.structured or ref.id in self._taken)

    def recognised(self, ref: Ref, w: World, site: Site) -> None:
        """What was taken for a tensor is a module, if it may be one."""
        tensor = w.get(ref, Tensor)
        if tensor is None or not self.may_be_one(ref, w):
            return
        before = self._taken.get(ref.id)
        frozen = tensor.requires_grad is False and not tensor.structured
        set_so = frozen or (before is not None and self._loading.may_be_frozen(before))
        fresh_group = Group(False if frozen else None, opaque=True, made_at=site, requires_grad_set=set_so)
        fresh_group.loaded = before is not None and self._loading.is_from_file(before)
        groups = tensor.deps or [w.new(fresh_group).id]
        module = Instance(role=roles.MODULE, opaque=True, training=None, device=tensor.device, made_at=tensor.made_at)
        module.groups = frozenset(groups)
        w.new(module, key=ref.id)
        if before is not None:
            self._loading.is_module(before, w)
        if before is not None and isinstance(w.resolve(before), Unknown) and looks_like_module(before):
            w.bound[before.key] = ref

    def taken_for_tensor(self, before: Unknown, tensor: Ref) -> None:
        """Something unknown that may be a module was moved to a device, or told to require grad."""
        self._taken[tensor.id] = before

    def moved(self, before: Unknown, result: Ref, w: World) -> None:
        """Something unknown that may be a module was moved to a device, which gave ``result``."""
        self.taken_for_tensor(before, result)
        w.bound[MOVED, before.key] = result

    def called_for(self, callee: Value, w: World, site: Site) -> Value:
        """What is called: what was taken for a tensor, or was moved to a device, is a module then."""
        if isinstance(callee, Unknown):
            self._loading.is_module(callee, w)
            if callee.key not in w.bound and (MOVED, callee.key) not in w.bound and self._loading.is_whole(callee):
                return self.taken_for_one(callee, w, site)
        moved = w.bound.get((MOVED, callee.key)) if isinstance(callee, Unknown) else callee
        if not isinstance(moved, Ref):
            return callee
        before, tensor = self._taken.get(moved.id), w.get(moved, Tensor)
        told = tensor is not None and tensor.requires_grad is False and not tensor.structured  # no tensor is called
        if before is None or not (told or looks_like_module(before)):
            return callee
        self.recognised(moved, w, site)
        return w.resolve(callee)

    def children(self, obj: Instance, w: World) -> Iterator[Ref]:
        """The modules registered directly on a module."""
        for value in obj.attrs.values():
            if type(value) is Const:
                continue
            value = w.resolve(value)
            kind = type(value)
            if kind is not Ref and kind is not Choice:
                continue
            for one in each_of(value):
                one = w.resolve(one)
                child = w.get(one, Instance)
                if isinstance(one, Ref) and child is not None and child.role.is_module:
                    yield one

    def walk(self, ref: Ref, w: World) -> Iterator[Ref]:
        """A module and all modules below it, each once."""
        seen = {ref.id}
        queue = [ref]
        for here in queue:  # which grows meanwhile
            yield here
            obj = w.find(here.id)
            if isinstance(obj, Instance):
                for child in self.children(obj, w):
                    if child.id not in seen:
                        seen.add(child.id)
                        queue.append(child)

    def groups(self, ref: Ref, w: World) -> frozenset[int]:
        """The parameter groups of a module and of all modules below it."""
        whole = w.find(ref.id)
        if isinstance(whole, Instance) and _holds_nothing(whole):
            return whole.groups
        found: set[int] = set()
        for here in self.walk(ref, w):
            obj = w.find(here.id)
            if isinstance(obj, Instance):
                found |= obj.groups
                holds_modules = obj.layer is not None and obj.layer.container
                for value in obj.attrs.values():
                    if type(value) is Const:
                        continue
                    value = w.resolve(value)
                    tensor = w.get(value, Tensor)
                    if tensor is not None and tensor.is_parameter:
                        found |= tensor.groups
                    elif isinstance(value, Unknown) and holds_modules:
                        found |= value.deps  # a layer taken out of an unknown module
        return frozenset(found)

    def groups_in(self, value: Value, w: World, depth: int = 4) -> frozenset[int]:
        """The parameter groups in what an optimizer is given: parameters, lists of them, dicts with "params"."""
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(obj, Tensor):
            return obj.groups or obj.deps
        if isinstance(obj, Instance):
            if obj.role.is_module and isinstance(value, Ref):
                return self.groups(value, w)
            return obj.groups
        if isinstance(obj, (Sequence, Mapping)) and depth:
            parts = list(obj.items.values()) if isinstance(obj, Mapping) else list(obj.items)
            parts += [obj.tail] if obj.tail is not None else []
            return frozenset().union(*(self.groups_in(part, w, depth - 1) for part in parts))
        if isinstance(value, Choice) and depth:
            return frozenset().union(*(self.groups_in(one, w, depth - 1) for one in value.alternatives))
        if isinstance(value, Unknown):
            if value.deps:
                return value.deps
            key = ("parameters", value.key)
            if key not in w.bound:
                w.bound[key] = w.new(
                    Instance(role=roles.PARAMETERS, device=None, groups=frozenset([w.new(Group(None, opaque=True)).id]))
                )
            return self.groups_in(w.bound[key], w)
        return frozenset()

    def parted(self, layer: Value, usual: str, halves: tuple[str, ...] | None, args: Arguments, w: World) -> None:
        """A parameter of a layer, the usual one if no other is named, is computed from others from now on.

        Where there are none it becomes a parameter again.
        """
        obj, name = w.get(layer, Instance), w.resolve(args.get(1, "name") or Const(usual))
        if not isinstance(layer, Ref) or obj is None or obj.layer is None or not obj.groups or name != Const(usual):
            return
        attrs = w.write(layer.id).attrs
        if halves is None:
            attrs.pop(usual, None)
            return
        for half in halves:
            attrs[half] = self._tensors.parameter(obj.groups, w, obj.made_at, obj.device)
        attrs[usual] = new_unknown("parted", usual, obj.groups)  # computed anew where it is needed

    def spelled(self, w: World, ctx: Context) -> str:
        """How the method that is being executed spells its own module: ``self``; empty where there is none."""
        function = ctx.function
        if function is None or function.unit.class_unit is None or function.kind:
            return ""
        params = function.unit.node.params
        first = next(iter((*params.posonly_params, *params.params)), None)
        frame = w.get(Ref(ctx.frame), Frame)
        if first is None or frame is None:
            return ""
        value = frame.vars.get(first.name.value)
        obj = w.get(w.resolve(value), Instance) if value is not None else None
        return first.name.value if obj is not None and obj.role.is_module else ""


def _holds_nothing(obj: Instance) -> bool:
    """Whether what a module holds are constants alone, as in most layers: their sizes and the like."""
    return all(type(value) is Const for value in obj.attrs.values())


def _is_within(key: Hashable) -> bool:
    """Whether this is the key of an attribute or item of something, other than of what only wraps it."""
    while isinstance(key, AttributeOf) and key.name in WRAPPED:
        key = key.owner
    match key:
        case AttributeOf() | ItemOf():
            return True
        case ElementOf(_, of):
            return of is not None
    return False
