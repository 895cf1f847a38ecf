"""Which parameters share a history, which optimizer owns them, and which are trained in vain."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gradlint import events
from gradlint.facts import known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import holds_parameters, names_parameter
from gradlint.static.python.attributes import DeferredAttributes
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import reachable
from gradlint.static.state.liveness import Liveness
from gradlint.static.state.origins import AttributeOf, ItemOf, Stored, fresh
from gradlint.static.state.values import (
    Choice,
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
)
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import FrozenNorms
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.context import Context


class Ownership:
    """Remembers parameters that took the place of others, or joined them, and compares them with the optimizers'."""

    _liveness: Liveness
    _witness: Witness
    _late: DeferredAttributes
    _modules: Modules

    def __init__(self) -> None:
        self._last: tuple[int, object, int, dict[int, None]] = (0, None, 0, {})
        """The module to which something was added last, in which world, its attributes then, and its parameters."""
        self._passed_over: dict[int, set[Site]] = {}
        """The parameters of copies that an optimizer stepped without, and where that was built."""
        self._of_their_own: set[int] = set()
        """Those that an optimizer steps on some way."""

    def placed(self, owner: Ref, value: Value, w: World, site: Site) -> None:
        """A module or parameter is about to become an attribute of a module."""
        if self._late.running:  # when that happens is not known
            return
        added = self._modules.groups_in(value, w) if isinstance(value, Ref) else frozenset()
        tensor = w.get(value, Tensor)
        if tensor is not None:  # what is no parameter, or was computed from some, brings none
            added &= tensor.groups if tensor.is_parameter is not False else frozenset()
        if added:
            others = self._groups_of(owner, w)
            self._beside(added.difference(others), _some(others), False, w, site)
            others.update(dict.fromkeys(sorted(added)))
            obj = w.get(owner, Instance)
            self._last = (owner.id, w.token, 0 if obj is None else len(obj.attrs) + 1, others)

    def _groups_of(self, owner: Ref, w: World) -> dict[int, None]:
        """The parameter groups of a module; no layer is looked at again while others are placed."""
        key, token, attributes, groups = self._last
        obj = w.get(owner, Instance)
        if (key, token) == (owner.id, w.token) and obj is not None and len(obj.attrs) == attributes:
            return groups
        return dict.fromkeys(sorted(self._modules.groups(owner, w)))

    def copied(self, original: Value, copy: Value, w: World, site: Site) -> None:
        """A module was copied, with its parameters."""
        if w.get(original, Instance) is not None:
            groups = self._modules.groups_in
            self._beside(groups(copy, w), groups(original, w), True, w, site)

    def _beside(self, added: frozenset[int], others: frozenset[int], copied: bool, w: World, site: Site) -> None:
        for key in added:
            group: Group = w.write(key)
            group.beside, group.placed_at, group.placed, group.copied = others, site, fresh(), copied

    def stepping(self, obj: Instance, w: World, ctx: Context, site: Site) -> None:
        """An optimizer that was built here is about to step."""
        if obj.opaque or obj.made_at is None or not self._witness.listened(events.OptimizerChecked):
            return
        own = [group for key in sorted(obj.groups) if isinstance(group := w.find(key), Group)]
        if not own or w.unfollowed:
            return
        frozen = all(group.requires_grad is False and group.fed <= group.cleared for group in own)
        self._has_its_own(obj.groups, w)
        late = None if any(group.opaque and group.prepared is None for group in own) else self._came_late(obj, own, w)
        event = events.OptimizerChecked(
            site=obj.made_at,
            optimizer=obj.name.rpartition(".")[2],
            frozen=known(True) if frozen else unknown(),
            misses_at=late.placed_at if late is not None else None,
            stepped_at=site,
        )
        self._witness.send(event, w, ctx)

    def lent(self, others: frozenset[int], groups: frozenset[int], w: World) -> None:
        """Parameters were given the gradients of ``others``: the steps of their optimizers apply those, too.

        The others still have them: nothing tells whether a step of their own is to apply them as well.
        """
        for key in others:
            w.write(key).prepared = None
        if not others:
            return
        self._witness.lent(others, groups, w)
        for optimizer in _optimizers(w):
            if optimizer.groups & groups and optimizer.made_at is not None:
                self._witness.withdraw(events.OptimizerChecked, optimizer.made_at)

    def held(self, w: World) -> frozenset[int]:
        """The parameter groups that optimizers hold."""
        return frozenset[int]().union(*(optimizer.groups for optimizer in _optimizers(w)))

    def doubtful(self, w: World) -> frozenset[int]:
        """The parameter groups that an optimizer holds on some of the ways that led here only."""
        return frozenset[int]().union(*(optimizer.perhaps for optimizer in _optimizers(w)))

    def may_step(self, w: World, ctx: Context, beside: frozenset[int] = frozenset()) -> frozenset[int]:
        """The parameter groups, beside some, that optimizers hold which anything may still ask to step."""
        if self.held(w) <= beside:
            return frozenset()
        ahead = self._liveness.ahead(ctx)
        roots: list[Value] = []
        for key, frame in w.all(Frame, imported=True):
            live = ahead.get(key, frame.vars.keys())
            roots += [value for name, value in frame.vars.items() if name in live]
        roots += [each for value in roots if isinstance(value, Choice) for each in value.alternatives]
        within = reachable(roots, w)
        optimizers = w.having(roles.OPTIMIZER, imported=True)
        # One that was handed to code that is not followed may be kept there.
        return frozenset[int]().union(*(o.groups for k, o in optimizers if k in within or o.stepped is None))

    def _came_late(self, obj: Instance, own: list[Group], w: World) -> Group | None:
        """Parameters that a backward pass has reached, that no optimizer owns, and that came too late for this one."""
        owned, reached = self.held(w), any(group.prepared is not False for group in own)
        for key, group in w.all(Group, imported=True):
            if key in owned or not group.prepared or not group.requires_grad:
                continue
            # A copy may be a network of its own; it is trained in vain where the original is not trained at all.
            if group.placed > obj.born and group.beside & obj.groups and not (group.copied and reached):
                if not group.copied:
                    return group
                if key not in self._of_their_own and obj.made_at is not None:
                    self._passed_over.setdefault(key, set()).add(obj.made_at)
                    return group
        return None

    def _has_its_own(self, groups: frozenset[int], w: World) -> None:
        """Parameters are stepped: if they are those of a copy, it has an optimizer on some way, and may on others."""
        for key in sorted(groups):
            group = w.find(key)
            if isinstance(group, Group) and group.copied:
                self._of_their_own.add(key)
                for site in self._passed_over.pop(key, ()):
                    self._witness.withdraw(events.OptimizerChecked, site)


def _optimizers(w: World) -> list[Instance]:
    """The optimizers of a world."""
    return [obj for _, obj in w.having(roles.OPTIMIZER, imported=True)]


_SOME: Final = 32  #: of many parameters of a module, so many of the first and of the last tell which module it is


def _some(groups: dict[int, None]) -> frozenset[int]:
    """The groups in an order, some of them if they are many: each layer of a long model has those before it beside."""
    if len(groups) <= 2 * _SOME:
        return frozenset(groups)
    return frozenset([*islice(groups, _SOME), *islice(reversed(groups), _SOME)])


_SEVERAL: Final = 2  #: parts of a module that tell that its optimizer is not that of one part alone


class _Part(NamedTuple):
    """A module or parameter that is an attribute of a module."""

    name: str
    groups: frozenset[int]  #: its parameters
    is_module: bool


class UnownedParameters:
    """Compares what a backward pass has reached with what optimizers own."""

    _witness: Witness
    _modules: Modules
    _ownership: Ownership
    _norms: FrozenNorms

    def told_to_train(self, key: int, flag: bool | None, w: World, site: Site, one: Ref | None = None) -> Group:
        """Parameters, or one of them, are about to be told to require grad or not: they thaw where they were frozen."""
        group: Group = w.write(key)
        if flag is not False:
            self._norms.thawed([key], w)
        elif one is not None:
            self._norms.frozen_alone(one, w)
        if flag and (group.requires_grad is False or (group.requires_grad is None and group.requires_grad_set)):
            group.thawed, group.thawed_at = fresh(), site
        group.requires_grad_set = True
        return group

    def stepping(self, optimizer: Instance, w: World, ctx: Context, site: Site) -> None:
        """An optimizer is about to step."""
        if optimizer.made_at is None or not self._witness.listened(events.UnownedTrained):
            return
        if optimizer.opaque or w.unfollowed or any(_is_opaque(key, w) for key in optimizer.groups):
            return
        reached = (key for key, group in w.all(Group, imported=True) if _is_missed(group, optimizer))
        missed = frozenset(reached) - optimizer.groups
        names, thawed_at = self._lost(optimizer, missed, w, ctx) if missed else ((), None)
        event = events.UnownedTrained(
            site=optimizer.made_at,
            optimizer=optimizer.name.rpartition(".")[2],
            parameters=names,
            thawed_at=thawed_at,
            thawed=thawed_at is not None,
            stepped_at=site,
        )
        self._witness.send(event, w, ctx, alternative=thawed_at)  # others, in which they stay frozen, say nothing of it

    def _lost(
        self, optimizer: Instance, missed: frozenset[int], w: World, ctx: Context
    ) -> tuple[tuple[str, ...], Site | None]:
        """The names of the parts that are missed in a module of the optimizer, and where they were thawed."""
        modules = list(self._concerned(optimizer, missed, w))
        held = optimizer.groups | (self._ownership.may_step(w, ctx, optimizer.groups) if modules else frozenset())
        missed -= held
        for parts in modules:
            lost = missed & _groups_of(parts)
            if not lost:
                continue
            late = frozenset(each for each in lost if _thawed(each, w)[0] > optimizer.born)
            if late:
                return tuple(part.name for part in parts if part.groups & late), _thawed(min(late), w)[1]
            names = _left_out(parts, optimizer.groups, held, missed, w)
            if names:
                return names, None
        return (), None

    def _concerned(self, optimizer: Instance, missed: frozenset[int], w: World) -> Iterator[list[_Part]]:
        """The parts of each module that has parameters of the optimizer and others, which may be missed."""
        imported = any(key in w.shared for key in optimizer.groups)  # what was imported holds nothing made later
        for _, obj in sorted(w.all(Instance, imported=imported)):
            parts = list(self._parts(obj, w)) if obj.role.is_model and not obj.opaque else []
            groups = _groups_of(parts)
            if groups & optimizer.groups and groups & missed:
                yield parts

    def _parts(self, module: Instance, w: World) -> Iterator[_Part]:
        """The modules that are attributes of a module, in order, and then its own parameters."""
        own = []
        for name, value in module.attrs.items():
            value = w.resolve(value)
            tensor, child = w.get(value, Tensor), w.get(value, Instance)
            if tensor is not None and tensor.is_parameter and tensor.groups:
                own.append(_Part(name, tensor.groups, False))
            elif isinstance(value, Ref) and child is not None and child.role.is_model:
                groups = self._modules.groups(value, w)
                if groups:
                    yield _Part(name, groups, True)
        yield from own


def _groups_of(parts: list[_Part]) -> frozenset[int]:
    return frozenset().union(*(part.groups for part in parts))


def _left_out(
    parts: list[_Part], owned: frozenset[int], held: frozenset[int], missed: frozenset[int], w: World
) -> tuple[str, ...]:
    """The parts that are missed where an optimizer owns twice as many as a whole, one of which comes before."""
    if any(part.groups & held and not part.groups <= held for part in parts):
        return ()
    own = [place for place, part in enumerate(parts) if part.is_module and part.groups <= owned]
    behind = [part for part in parts[own[0] :] if not part.groups & held] if own else []
    if len(own) < _SEVERAL or 2 * len(behind) > len(own):
        return ()
    groups = (w.find(key) for part in behind for key in part.groups)
    if any(isinstance(group, Group) and group.requires_grad_set for group in groups):
        return ()
    return tuple(part.name for part in behind if part.groups & missed)


def _is_missed(group: Group, optimizer: Instance) -> bool:
    """Whether these are parameters, there since the optimizer was built, that get gradients which nothing applies."""
    return (
        group.prepared is True
        and (group.requires_grad or (group.requires_grad is None and group.thawed > optimizer.born))
        and not (group.opaque or group.stepped or group.placed > optimizer.born)
    )


def _is_opaque(key: int, w: World) -> bool:
    group = w.find(key)
    return isinstance(group, Group) and group.opaque


def _thawed(key: int, w: World) -> tuple[int, Site | None]:
    """When and where some parameters were last thawed."""
    group = w.find(key)
    return (group.thawed, group.thawed_at) if isinstance(group, Group) else (0, None)


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
            case Stored(owner):
                pass
            case _:
                return None, names
        if isinstance(owner, Ref):
            return owner, names
        key = owner


__all__ = ["Grouping", "Ownership", "UnownedParameters", "inside"]
