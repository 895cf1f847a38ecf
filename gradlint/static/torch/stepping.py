"""What a training loop does between backward passes: scaling, clipping, stepping, scheduling, and at which pace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_training import LENGTH_AT, LENGTHS, PROPORTIONAL
from gradlint.static.python.execution import Execution
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.origins import Operation, fresh, is_origin
from gradlint.static.state.provenance import has_length, is_quotient, origin_of
from gradlint.static.state.values import (
    NONE,
    Averages,
    Const,
    Function,
    Group,
    Instance,
    Lambda,
    Left,
    Mapping,
    Partial,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.text.counters import NOTHING, Counted, counted_around
from gradlint.static.text.nodes import children, dotted, names_in
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.ownership import Grouping

if TYPE_CHECKING:
    from collections.abc import Hashable

    from gradlint.finding import Site
    from gradlint.static.text.units import Unit


class Stepping:
    """Tells the rules of what optimizers, scalers and schedulers do."""

    _execution: Execution
    _ledgers: Ledgers
    _witness: Witness
    _modules: Modules
    _grouping: Grouping

    def __init__(self) -> None:
        self._cleared_in: set[Hashable] = set()  #: loops in which gradients are cleared
        self._periodic: Ledger[int, None] = self._ledgers.open()  #: groups that steps of every k-th iteration touch
        self._around: dict[Unit, dict[int, Counted]] = {}  #: what is counted around the conditions of each

    # --- optimizers

    def accumulated(self, touches: events.Touches, w: World, ctx: Context, site: Site) -> None:
        """A backward pass is about to add to the gradients of these groups."""
        for key in touches:
            group = w.find(key) if isinstance(key, int) else None
            if isinstance(group, Group) and isinstance(group.discarded, Left) and isinstance(key, int):
                w.write(key).discarded = None
        if not w.periodic or w.either_walks:
            self._witness.send(events.GradientsAccumulated(site=site, touches=touches), w, ctx)

    def fed(self, touches: events.Touches, scaled: bool, w: World, ctx: Context, site: Site) -> None:
        """A backward pass added to the gradients of these groups."""
        if scaled:
            self._witness.send(events.GradientsScaled(site=site, touches=touches), w, ctx)

    def before_step(
        self, groups: frozenset[int], w: World, ctx: Context, site: Site, *, proportional: bool = False
    ) -> None:
        """An optimizer, or something for it, is about to step these groups.

        Args:
            groups: what it holds.
            w: the world.
            ctx: where it stands.
            site: the call.
            proportional: it goes as far as the gradients are large.
        """
        self.settle(w, ctx, site)
        if w.periodic:
            self._periodic |= dict.fromkeys(groups)
            own = [(key, w.write(key)) for key in groups]
            elsewhere = [key for key, group in own if group.discarded != ctx.loop]
            unscheduled = [key for key, group in own if group.scheduled != ctx.loop]
            self._witness.send(events.DiscardedElsewhere(site=site, touches=_all(elsewhere)), w, ctx)
            self._witness.send(events.ScheduledElsewhere(site=site, touches=_all(unscheduled)), w, ctx)
            if proportional or any(group.clipped > max(group.fed, group.cleared) for _, group in own):
                self._summed([group for _, group in own], w, ctx, site)
            self._witness.send(events.PeriodicStep(site=site, touches=_all(groups)), w, ctx)
            return
        left = [key for key in groups if isinstance(group := w.find(key), Group) and _is_left(group.discarded, ctx)]
        if left:
            self._witness.send(events.StepBehindLoop(site=site, touches=_all(left)), w, ctx)

    def _summed(self, groups: list[Group], w: World, ctx: Context, site: Site) -> None:
        """An optimizer goes as far as these gradients are large."""
        summed = [group.fed_at for group in groups if group.averages == Averages.SEVERAL and group.fed_at is not None]
        if summed and len(summed) == sum(group.fed > group.cleared for group in groups):
            self._witness.send(events.AveragesSummed(site=summed[0], stepped_at=site), w, ctx)

    def scheduled(self, groups: frozenset[int], w: World, ctx: Context, site: Site) -> None:
        """A scheduler of an optimizer is stepped that is not built for the number of batches."""
        if not w.periodic:
            for key in groups:
                w.write(key).scheduled = ctx.loop
            self._witness.send(events.SchedulerStepped(site=site, touches=_all(groups)), w, ctx)

    def looked(self, groups: Iterable[int], w: World) -> None:
        """Gradients were read: those that are cleared next may have been used."""
        for key in {*groups, *self._others(groups, w)}:
            group = w.find(key)
            if isinstance(group, Group) and group.discarded is not None:
                w.write(key).discarded = None

    def left(self, loop: Hashable, worlds: Iterable[World], ctx: Context) -> None:
        """A loop has come to its end."""
        if loop not in self._cleared_in:
            return
        for world in worlds:
            for key, group in world.all(Group):
                if group.discarded == group.wasted == loop:
                    world.write(key).discarded = Left(loop, ctx.loop)

    def before_clearing(
        self, groups: frozenset[int], others: Iterable[int], w: World, ctx: Context, site: Site
    ) -> None:
        """The gradients of these groups are about to be cleared, with those of others if they are the same."""
        self.settle(w, ctx, site)
        if not w.periodic:
            self._cleared_in.add(ctx.loop)
            for key in groups:
                group = w.write(key)
                if group.discarded == ctx.loop and group.prepared:
                    group.wasted = ctx.loop
                group.discarded = ctx.loop
            self._witness.send(events.GradientsDiscarded(site=site, touches=_all(groups)), w, ctx)
        if w.periodic or w.varying:
            steady = groups.union(others) - self._periodic.keys()
            self._witness.send(events.PeriodicClearing(site=site, touches=_all(steady)), w, ctx)
        if self._witness.listened(events.GradientsDropped):
            touches = self._witness.presumed(groups, w)
            self._witness.send(events.GradientsDropped(site=site, touches=touches), w, ctx)

    def settle(self, w: World, ctx: Context, site: Site) -> None:
        """Tell of the calls made since that could not be followed: they may have walked a graph back."""
        if not w.unfollowed:
            return
        w.unfollowed = False
        if self._witness.listened(events.Unfollowed):
            touched = [k for k, obj in w.all(Group) if obj.tokens]
            self._witness.send(events.Unfollowed(site=site, touches=_all(touched)), w, ctx)

    def assigned(self, groups: Iterable[int], w: World, ctx: Context, site: Site, *, anew: bool = True) -> None:
        """Gradients were set, or changed in place, by hand: to something new, or to less of what they were."""
        groups = frozenset(groups)
        touches: events.Touches = {**dict.fromkeys(self._others(groups, w)), **_all(groups)}
        _mix(touches, w)
        self._witness.send(events.GradientsUnscaled(site=site, touches=touches), w, ctx)
        if anew:  # a step then applies these; that it applies nothing of others is meant
            held = [obj.groups for _, obj in w.having(roles.OPTIMIZER)]
            beside = frozenset[int]().union(*(own for own in held if own & groups))
            with_those: events.Touches = {**dict.fromkeys(sorted(beside)), **touches}
            self._witness.send(events.GradientsAssigned(site=site, touches=with_those), w, ctx)
        self._witness.send(events.Unfollowed(site=site, touches=touches), w, ctx)

    def may_be_none(self, value: Value, w: World) -> bool:
        """Whether a value is the gradient of parameters that no backward pass has reached since it was cleared."""
        tensor = w.get(value, Tensor)
        if tensor is None or not tensor.is_gradient:
            return False
        return any(isinstance(group := w.find(key), Group) and group.fed <= group.cleared for key in tensor.gradient_of)

    def refilled(self, groups: Iterable[int], w: World, ctx: Context, site: Site) -> None:
        """There may be gradients again that were cleared, or others are to be applied: a step is no mistake."""
        self._witness.send(events.GradientsAssigned(site=site, touches=_all(groups)), w, ctx)

    def _others(self, groups: Iterable[int], w: World) -> set[int]:
        """The groups that may hold the same parameters as these: of an optimizer and a model that were given."""
        groups = frozenset(groups)
        opaque = any(isinstance(group := w.find(key), Group) and group.opaque for key in groups)
        return self._grouping.others(groups, opaque, w) if groups else set()

    # --- clipping

    def clipped(self, parameters: Value, w: World, ctx: Context, site: Site) -> Value:
        """``clip_grad_norm_(parameters, …)`` and its like; the norm is where the gradients are."""
        groups = self._modules.groups_in(parameters, w)
        self.settle(w, ctx, site)
        # A part of the model that the loss does not depend on says nothing of where the call stands.
        fed = [key for key in groups if isinstance(group := w.find(key), Group) and group.prepared is not False]
        for key in groups:
            w.write(key).clipped = fresh()
        self._witness.send(events.GradientsClipped(site=site, touches=_all(fed or groups)), w, ctx)
        given = w.get(w.resolve(parameters), Instance)
        device = given.device if given is not None else None
        return w.new(Tensor(requires_grad=False, is_leaf=True, device=device, size="one", open=False, made_at=site))

    # --- every k-th iteration

    def is_periodic(self, test: cst.CSTNode, w: World, ctx: Context) -> bool:
        """Whether a condition holds every k-th time: it asks for the remainder of a division, or what is counted."""
        return self._asks_turn(test, self._counted(test, ctx), w, ctx)

    def is_periodic_alone(self, test: cst.CSTNode, w: World, ctx: Context) -> bool:
        """Whether nothing else is asked: some iterations are sure to find it true, and others to find it false."""
        counted = self._counted(test, ctx)
        pending = [test]
        while pending:
            part = pending.pop()
            if type(part) is cst.BooleanOperation:
                pending += (part.left, part.right)
            elif type(part) is cst.UnaryOperation:
                pending.append(part.expression)
            elif not self._asks_turn(part, counted, w, ctx):
                return False
        return True

    def either_walks(self, test: cst.CSTNode, ctx: Context) -> bool:
        """Whether a backward pass is made whichever way such a condition turns out, as far as its branches tell."""
        return self._counted(test, ctx).either_walks

    def asks_for_last(self, test: cst.CSTNode, ctx: Context) -> bool | None:
        """Whether a condition, or its opposite, holds in the last iteration of the innermost loop alone; else None."""
        counted = self._counted(test, ctx)
        return counted.ends(counted.flags.get(dotted(test), test))

    def trim(self) -> None:
        """An entry point is done: trees may be let go of after this."""
        self._around.clear()

    def _counted(self, test: cst.CSTNode, ctx: Context) -> Counted:
        """What is counted where a condition stands."""
        around = self._around.get(ctx.unit)
        if around is None:
            around = self._around[ctx.unit] = counted_around(ctx.unit.node)
        return around.get(id(test), NOTHING)

    def _asks_turn(self, test: cst.CSTNode, counted: Counted, w: World, ctx: Context) -> bool:
        if type(test) is cst.BinaryOperation:
            return isinstance(test.operator, cst.Modulo)
        if type(test) in (cst.Name, cst.Attribute):
            value = w.resolve(self._execution.evaluate(test, w, ctx))
            if _has_remainder(origin_of(value, w)):
                return True
            flag = counted.flags.get(dotted(test))
            return flag is not None and self._asks_turn(flag, counted._replace(flags={}), w, ctx)
        if type(test) is cst.Comparison and counted.turns(test):
            return True
        if type(test) in (cst.UnaryOperation, cst.BooleanOperation, cst.Comparison, cst.ComparisonTarget):
            return any(self._asks_turn(child, counted, w, ctx) for child in children(test))
        return False


def _mix(groups: Iterable[Hashable], w: World) -> None:
    """Gradients may be changed: they are no mere sums any more."""
    for key in groups:
        group = w.find(key) if isinstance(key, int) else None
        if isinstance(group, Group) and group.averages and isinstance(key, int):
            w.write(key).averages = Averages.MIXED


def _has_remainder(key: Hashable) -> bool:
    if not is_origin(key):
        return False
    return (isinstance(key, Operation) and key.symbol == "%") or any(_has_remainder(part) for part in key)


def _is_left(discarded: Hashable, ctx: Context) -> bool:
    return isinstance(discarded, Left) and discarded.outer == ctx.loop


def _all(keys: Iterable[int]) -> events.Touches:
    return dict.fromkeys(sorted(keys), True)


_DIVIDED = "<divided rate>"


class Pace:
    """Reads the arguments of schedulers and optimizers that are built."""

    _execution: Execution

    def may_count_batches(self, name: str, args: Arguments, w: World, ctx: Context) -> bool:
        """Whether a scheduler may be built for the number of batches, and not for that of its optimizer's steps.

        So it may where the program takes that number from somewhere: the length of a loader, or an argument.  Where it
        divides it by another one, it counts the steps; a number that is written out tells nothing.
        """
        bare = name.rpartition(".")[2]
        told = args.get(LENGTH_AT.get(bare, -1))
        lengths = [value for key, value in args.keywords.items() if key in LENGTHS] + ([] if told is None else [told])
        if lengths:
            return args.open or any(self._is_count(w.resolve(value), w, ctx, sure=False) for value in lengths)
        return args.open or any(self._is_count(w.resolve(value), w, ctx, sure=True) for value in list(args)[1:])

    def is_proportional(self, optimizer: Instance) -> bool:
        """Whether an optimizer goes as far as its gradients are large, at a rate that is not divided for that."""
        return optimizer.name in PROPORTIONAL and not optimizer.opaque and _DIVIDED not in optimizer.attrs

    def built(self, optimizer: Instance, args: Arguments, w: World, site: Site) -> None:
        """An optimizer is built, which may be given its rate in parts."""
        groups = w.get(w.resolve(args.get(0, "params") or NONE), Sequence)
        options = [w.get(w.resolve(group), Mapping) for group in (groups.items if groups is not None else ())]
        rates = [group.items.get(Const("lr"), NONE) for group in options if group is not None]
        rates.append(args.get(1, "lr") or NONE)
        if any(map(is_quotient, map(w.resolve, rates))) or _divides(getattr(site, "node", None)):
            optimizer.attrs[_DIVIDED] = Const(True)

    def rate_set(self, group: Mapping, rate: Value, w: World) -> None:
        """``group["lr"] = rate``: one that is divided may be made for sums of gradients."""
        held = w.get(w.resolve(group.items.get(Const("params"), NONE)), Instance)
        if held is None or not is_quotient(w.resolve(rate)):
            return
        for key, obj in w.having(roles.OPTIMIZER):
            if obj.groups & held.groups:
                w.write(key).attrs[_DIVIDED] = Const(True)

    def _is_count(self, value: Value, w: World, ctx: Context, *, sure: bool) -> bool:
        """Whether a value is, or may be (not sure), a number of batches."""
        if isinstance(value, Unknown):
            return not is_quotient(value) and (not sure or has_length(value))
        if isinstance(value, Partial):
            given = [*value.args, *(each for _, each in value.kwargs)]
            return any(self._is_count(w.resolve(each), w, ctx, sure=False) for each in given)
        if isinstance(value, (Lambda, Function)):
            return self._mentions_count(value, w, ctx)
        row = w.get(value, Sequence)
        if row is not None:
            parts = [*row.items, *([] if row.tail is None else [row.tail])]
            return any(self._is_count(w.resolve(each), w, ctx, sure=sure) for each in parts)
        scheduler = w.get(value, Instance)
        return scheduler is not None and scheduler.role is roles.SCHEDULER and scheduler.opaque

    def _mentions_count(self, function: Lambda | Function, w: World, ctx: Context) -> bool:
        """Whether a function of the number of the step reads a number from around it that may be one of batches."""
        if not function.unit.is_readable:
            return True
        node: cst.FunctionDef | cst.Lambda = function.node if isinstance(function, Lambda) else function.unit.node
        for name in sorted(set(names_in(node.body)) - set(_bound(node))):
            value = w.resolve(self._execution.evaluate(cst.Name(name), w, ctx))
            if isinstance(value, Unknown) and self._is_count(value, w, ctx, sure=False):
                return True
        return False


def _bound(node: cst.CSTNode) -> Iterator[str]:
    """The names that a function binds: its parameters, and what it assigns to."""
    if isinstance(node, (cst.Param, cst.AssignTarget)):
        name = node.name if isinstance(node, cst.Param) else node.target
        if isinstance(name, cst.Name):
            yield name.value
    elif isinstance(node, cst.Attribute):
        yield node.attr.value
    for child in children(node):
        yield from _bound(child)


def _divides(node: cst.CSTNode | None) -> bool:
    """Whether a division is spelled in an expression."""
    if type(node) is cst.BinaryOperation and isinstance(node.operator, (cst.Divide, cst.FloorDivide)):
        return True
    return node is not None and any(map(_divides, children(node)))


__all__ = ["Pace", "Stepping"]
