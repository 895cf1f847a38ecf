"""Which parameters share a history: those of a layer, until one of them goes a way of its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import holds_parameters, names_parameter
from gradlint.static.state.origins import AttributeOf, ItemOf
from gradlint.static.state.values import Const, Group, Instance, Mapping, Object, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.static.state.world import World


class Grouping:
    """Takes parameters out of the groups of their layers."""

    _tensors: Tensors

    def others(self, groups: frozenset[int], opaque: bool, w: World) -> set[int]:
        """The groups that may hold the same parameters, where it is not known what these or those hold.

        A deep copy holds none of its original's, nor that any of the copy's.
        """
        apart = groups | self.strangers(groups, w)
        return {key for key, obj in w.all(Group) if key not in apart and (opaque or obj.opaque) and obj.gradients_used}

    def strangers(self, groups: AbstractSet[int], w: World) -> frozenset[int]:
        """The groups of deep copies of what these belong to, and of what these were copied from."""
        members = [group for key in groups if isinstance(group := w.find(key), Group)]
        copies = (k for k, obj in w.all(Group) if obj.copied and obj.beside & groups)
        return frozenset(copies).union(*(group.beside for group in members if group.copied))

    def parameter_inside(self, value: Unknown, w: World) -> Ref | None:
        """The parameter that an unknown value is: ``resnet.layer4[0].conv1.weight`` of a library's or a given model.

        From now on the model has it under its dotted name, in a group of its own: it may be frozen apart from others.
        """
        if not (isinstance(value.key, AttributeOf) and names_parameter(str(value.key.name))):
            return None
        owner, names = inside(value.key)
        obj = w.get(owner, Instance) if owner is not None else None
        if obj is None or not obj.opaque:
            return None
        name = ".".join(names)
        held = obj.attrs.get(name)
        if isinstance(held, Ref):
            return held
        of_library = "." in obj.name
        given = obj.cls is None and not of_library and self._tensors.is_given(obj.groups, w)
        if not given and not holds_parameters(obj.name):
            return None
        groups = [group for key in sorted(obj.groups) if isinstance(group := w.find(key), Group)]
        if owner is None or not groups:
            return None
        member = self._member(groups[0], obj.groups, w)
        parameter = self._tensors.parameter([member], w, obj.made_at, obj.device)
        w.write(owner.id).attrs[name] = parameter
        return parameter

    def _member(self, group: Group, groups: frozenset[int], w: World) -> int:
        """A group of its own for a parameter that was in these: who holds them holds it as well."""
        own: Group = group.copy()
        own.requires_grad = True if own.requires_grad and not own.requires_grad_set else None
        member = w.new(own).id
        for key, holder in w.all(Instance, imported=True):
            if holder.role.has_groups and groups <= holder.groups:
                w.write(key).groups |= {member}
        return member

    def apart(self, given: Value, w: World) -> None:
        """An optimizer is given a single parameter of a layer: from now on that is in a group of its own."""
        parameters = dict.fromkeys(self._parameters_among(given, w))
        groups = [w.write(ref.id).groups for ref in parameters]
        for ref, own in zip(parameters, groups, strict=True):
            group = w.find(next(iter(own)))
            if groups.count(own) > 1 or not isinstance(group, Group):
                continue
            for key, layer in w.all(Instance, imported=True):
                if layer.layer and layer.groups == own and ref in layer.attrs.values():
                    member = frozenset([self._member(group, own, w)])
                    tensor: Tensor = w.write(ref.id)
                    tensor.groups = tensor.deps = member
                    w.write(key).groups |= member
                    break

    def divided(self, given: Value, w: World, place: Hashable) -> None:
        """An optimizer is given some parameters where another one has some: from now on they are others than those."""
        optimizers = [obj for _, obj in w.having(roles.OPTIMIZER)]
        others = {ref for obj in optimizers for theirs in obj.args for ref in self._selections(theirs, w)}
        taken = frozenset[int]().union(*(_tail(ref, w).groups for ref in others))
        for ref in [ref for ref in self._selections(given, w) if ref not in others]:
            some: Tensor = _tail(ref, w).copy()
            halves = {self._half(key, w, (place, key)) for key in sorted(some.groups & taken)}
            if halves:
                some.groups = some.deps = some.groups - taken | halves
                w.write(ref.id).tail = w.new(some)

    def _half(self, key: int, w: World, place: Hashable) -> int:
        """Some of the parameters of a group, of which optimizers that were given some have the others."""
        member = w.new(w.write(key).copy(), place).id
        for number, holder in w.all(Instance, imported=True):
            if key in holder.groups and not self._has_some(holder, key, w):
                w.write(number).groups |= {member}
            for value in holder.attrs.values():
                tensor = w.get(value, Tensor)
                if isinstance(value, Ref) and tensor is not None and tensor.is_parameter and key in tensor.groups:
                    parameter: Tensor = w.write(value.id)
                    parameter.groups = parameter.deps = parameter.groups | {member}
        return member

    def _has_some(self, optimizer: Instance, key: int, w: World) -> bool:
        """Whether an optimizer was given no more than some of the parameters of a group."""
        lists = (ref for given in optimizer.args for ref in self._selections(given, w))
        return optimizer.role is roles.OPTIMIZER and any(key in _tail(ref, w).groups for ref in lists)

    def _selections(self, value: Value, w: World, depth: int = 4) -> Iterator[Ref]:
        """The lists of some of the parameters of modules, in what an optimizer is given."""
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(value, Ref) and isinstance(obj, Sequence) and _tail(value, w).is_parameter:
            yield value
        elif isinstance(obj, (Sequence, Mapping)) and depth:
            for part in obj.items.values() if isinstance(obj, Mapping) else obj.items:
                yield from self._selections(part, w, depth - 1)

    def rest(self, layer: Instance, w: World) -> frozenset[int]:
        """The groups of the parameters of a layer that are not in a group of their own."""
        held = (w.get(value, Tensor) for value in layer.attrs.values())
        apart = (tensor.groups for tensor in held if tensor is not None and tensor.groups < layer.groups)
        return layer.groups.difference(*apart) or layer.groups

    def _parameters_among(self, value: Value, w: World, depth: int = 4) -> Iterator[Ref]:
        """The parameters of single groups that stand as such in what an optimizer is given."""
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(value, Ref) and isinstance(obj, Tensor) and obj.is_parameter and len(obj.groups) == 1:
            yield value
        elif isinstance(obj, (Sequence, Mapping)) and depth:
            for part in obj.items.values() if isinstance(obj, Mapping) else obj.items:
                yield from self._parameters_among(part, w, depth - 1)


def _tail(ref: Ref, w: World) -> Tensor:
    """What stands for the items of a list whose number is not known."""
    obj = w.get(ref, Sequence)
    tail = w.resolve(obj.tail) if obj is not None and obj.tail is not None else None
    return (w.get(tail, Tensor) if tail is not None else None) or Tensor()


def inside(key: Hashable) -> tuple[Ref | None, list[str]]:
    """The object that an attribute of a part of it is read from, and the dotted name it is read by there."""
    names: list[str] = []
    while True:
        match key:
            case AttributeOf(owner, str(name)):
                names.insert(0, name)
            case ItemOf(owner, Const(int(index))) if index >= 0:  # whatever their number, that is the one
                names.insert(0, str(index))
            case _:
                return None, names
        if isinstance(owner, Ref):
            return owner, names
        key = owner
