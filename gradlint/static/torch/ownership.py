"""Which optimizer owns which parameters, and which came too late to be owned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.python.late import LateAttributes
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import reachable
from gradlint.static.state.liveness import Liveness
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import Choice, Frame, Group, Instance, Ref, Tensor, Value
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.context import Context


class Ownership:
    """Remembers parameters that took the place of others, or joined them, and compares them with the optimizers'."""

    _liveness: Liveness
    _witness: Witness
    _late: LateAttributes
    _modules: Modules

    def __init__(self) -> None:
        self._last: tuple[int, object, int, frozenset[int]] = (0, None, 0, frozenset())
        """The module to which something was added last, in which world, its attributes then, and its parameters."""

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
            self._beside(added - others, others, False, w, site)
            obj = w.get(owner, Instance)
            self._last = (owner.id, w.token, 0 if obj is None else len(obj.attrs) + 1, others | added)

    def _groups_of(self, owner: Ref, w: World) -> frozenset[int]:
        """The parameter groups of a module; no layer is looked at again while others are placed."""
        key, token, attributes, groups = self._last
        obj = w.get(owner, Instance)
        if (key, token) == (owner.id, w.token) and obj is not None and len(obj.attrs) == attributes:
            return groups
        return self._modules.groups(owner, w)

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
        for optimizer in _optimizers(w):
            if optimizer.groups & groups and optimizer.made_at is not None:
                self._witness.withdraw(events.OptimizerChecked, optimizer.made_at)

    def held(self, w: World) -> frozenset[int]:
        """The parameter groups that optimizers hold."""
        return frozenset[int]().union(*(optimizer.groups for optimizer in _optimizers(w)))

    def doubtful(self, w: World) -> frozenset[int]:
        """The parameter groups that an optimizer holds on some of the ways that led here only."""
        return frozenset[int]().union(*(optimizer.perhaps for optimizer in _optimizers(w)))

    def may_step(self, w: World, ctx: Context) -> frozenset[int]:
        """The parameter groups that optimizers hold which anything may still ask to step."""
        if not self.held(w):
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
                return group
        return None


def _optimizers(w: World) -> list[Instance]:
    """The optimizers of a world."""
    return [obj for _, obj in w.having(roles.OPTIMIZER, imported=True)]


__all__ = ["Ownership"]
