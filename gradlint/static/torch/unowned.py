"""Parameters that are trained in vain: they get gradients, and no optimizer owns them.

That is on purpose more often than not: who trains the head of a model may leave the rest as it is.  It is none where
they were thawed when the optimizer of the others had been built, and where an optimizer is given several parts of a
module, and a part behind the first of these is in none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gradlint import events
from gradlint.static.report.witness import Witness
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import Group, Instance, Ref, Tensor
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import FrozenNorms
from gradlint.static.torch.ownership import Ownership

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.context import Context

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

    def told_to_train(self, key: int, flag: bool | None, w: World, site: Site) -> Group:
        """Parameters are about to be told to require grad, or not to: they thaw where they were frozen."""
        group: Group = w.write(key)
        if flag is not False:
            self._norms.thawed([key], w)
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
        held = optimizer.groups | self._ownership.may_step(w, ctx) if missed else optimizer.groups
        missed -= held
        names, thawed_at = self._lost(optimizer, held, missed, w) if missed else ((), None)
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
        self, optimizer: Instance, held: frozenset[int], missed: frozenset[int], w: World
    ) -> tuple[tuple[str, ...], Site | None]:
        """The names of the parts that are missed in a module of the optimizer, and where they were thawed."""
        for _, obj in sorted(w.all(Instance, imported=True)):
            if not obj.role.is_model or obj.opaque:
                continue
            parts = list(self._parts(obj, w))
            groups = frozenset[int]().union(*(part.groups for part in parts))
            if not groups & optimizer.groups or not groups & missed:
                continue
            late = frozenset(each for each in groups & missed if _thawed(each, w)[0] > optimizer.born)
            if late:
                return tuple(part.name for part in parts if part.groups & late), _thawed(min(late), w)[1]
            names = _left_out(parts, optimizer.groups, held, missed, w)
            if names:
                return names, None
        return (), None

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
