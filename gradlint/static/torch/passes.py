"""Backward passes: what they reach, and what they free."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.python.budget import Budget
from gradlint.static.python.choices import Choices
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import (
    NONE,
    WALKED,
    Averages,
    Const,
    Group,
    Object,
    Ref,
    Segment,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.estimates import Estimates
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.ownership import Grouping, Ownership
from gradlint.static.torch.proofs import Proofs
from gradlint.static.torch.shapes import Broadcasts
from gradlint.static.torch.stepping import Stepping
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class Passes:
    """Follows backward passes."""

    _budget: Budget
    _witness: Witness
    _choices: Choices
    _tensors: Tensors
    _ownership: Ownership
    _graphs: Graphs
    _grouping: Grouping
    _proofs: Proofs
    _evaluation: Evaluation
    _retention: GraphRetention
    _breaks: GraphBreaks
    _memory: Memory
    _stepping: Stepping
    _escapes: Escapes
    _estimates: Estimates
    _broadcasts: Broadcasts

    def jointly(self, roots: Iterable[Value], args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """One backward pass from several roots: what their graphs share is walked once, and freed at its end."""
        roots = [self._walked(w.resolve(root), w) for root in roots]
        for root in roots:
            self.backward(root, args, w, ctx, site, frees=False)
        retain, _ = _retains(args, w)
        for root in roots:
            tensor = w.get(root, Tensor)
            if tensor is not None:
                self.free(tensor, retain, w, site)

    def backward(
        self,
        root: Value,
        args: Arguments,
        w: World,
        ctx: Context,
        site: Site,
        certain: bool = True,
        *,
        frees: bool = True,
    ) -> None:
        """A backward pass from ``root``: gradients are added, graphs are freed, if not together with others."""
        self._budget.order_matters()
        self._evaluation.passes += 1
        root = self._choices.used(w.resolve(root), w)
        w.raised = w.raised or root == NONE
        root = self._walked(root, w)
        tensor = w.get(root, Tensor)
        if tensor is None or not isinstance(root, Ref):
            return
        given = known(bool(args.positional) or "gradient" in args.keywords)
        self._asked(root, tensor, given, w, ctx, site)
        self._proofs.differentiated(root, w, ctx, site)
        self._retention.walks(root, w)
        retain, create = _retains(args, w)
        view = self._tensors.view_of(root, w)
        touches = self._touched(root, tensor, certain, w)
        self._feed(touches, tensor, w, ctx, site, averaged=tensor.average == "mean" and given.is_false)
        self._perhaps_fed(touches, w, ctx, site)
        self._stepping.settle(w, ctx, site)
        self._stepping.accumulated(touches, w, ctx, site)
        before = w.bound.get((WALKED, site))
        w.bound[WALKED, site] = Const(True)
        self._witness.send(
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
            alternative=before,  # a path that comes here for the first time tells nothing of those that come again
        )
        if tensor.open and certain:
            w.bound[WALKED, "open"] = Const(site)
        self._memory.walked(tensor, w, ctx, site)
        self._compared(tensor, w, ctx)
        self._stepping.fed(touches, tensor.scaled, w, ctx, site)
        self._evaluation.trained(root, w)
        if retain and not create and "retain_graph" in args.keywords:
            self._retention.retained(root, w, ctx, site)
        if frees:
            self.free(tensor, retain, w, site)
        if tensor.size is None and given.is_false:
            _taken_for_number(root, w)  # or it has raised
        if w.grad is None and tensor.requires_grad is None and tensor.segments:
            w.grad = True  # so it has when the graph was not recorded

    def _count_averages(self, touches: events.Touches, averaged: bool, w: World, ctx: Context) -> None:
        """A backward pass adds gradients of an average over a batch, or of anything else."""
        for key, reached in touches.items():
            group = w.find(key) if isinstance(key, int) else None
            if not isinstance(group, Group) or not isinstance(key, int) or group.averages == Averages.MIXED:
                continue
            new: Group = w.write(key)
            if not averaged or not reached or group.hooked:
                new.averages = Averages.MIXED
            elif not group.averages:
                new.averages, new.averaged_in = Averages.ONE, ctx.iteration
            elif group.averaged_in != ctx.iteration:
                new.averages = Averages.SEVERAL

    def _feed(
        self,
        touches: dict[Hashable, Literal[True] | None],
        root: Tensor,
        w: World,
        ctx: Context,
        site: Site,
        *,
        averaged: bool,
    ) -> None:
        """A backward pass is made, which may be where the last one was that reached these groups."""
        self._count_averages(touches, averaged, w, ctx)
        if self._witness.listened(events.LossRepeated):
            again: dict[Hashable, Literal[True] | None] = {}
            for key in touches:
                group = w.find(key) if isinstance(key, int) else None
                if isinstance(group, Group) and group.fed_at in (site, None):
                    again[key] = True if group.fed_at == site else None
            self._witness.send(events.LossRepeated(site=site, touches=again), w, ctx)
        _mark(touches, root.deps, w, site)

    def _compared(self, root: Tensor, w: World, ctx: Context) -> None:
        """A backward pass walks the comparisons of predictions and targets in its graph."""
        self._estimates.walked(root, w, ctx)
        self._broadcasts.walked(root, w, ctx)
        terms = root.lost_terms if root.cut is None and root.asked_at is None else ()
        if any(term.cut.how == "detach" and not term.cut.turned for term in terms):
            return  # what is detached in a sum belongs to a straight-through estimate of the others
        for term in terms:
            event = events.LostTermAdded(
                site=term.at, how=term.cut.turned or term.cut.how, cut_at=term.cut.turned_at or term.cut.at
            )
            self._witness.send(event, w, ctx, alternative=term.at)

    def _touched(self, root: Ref, tensor: Tensor, certain: bool, w: World) -> dict[Hashable, Literal[True] | None]:
        """The parameters that get gradients; where the graph is cut, perhaps all that there are."""
        touches = self._reached(w.find(root.id), w, certain)
        if not touches or tensor.cut is not None or tensor.asked_at is not None:
            # It was meant for parameters that it is not seen to reach.
            meant = [key for key, obj in w.all(Group)]
            self._escapes.doubt(meant, [], w)
            touches = {**dict.fromkeys(meant, None), **touches}
        return touches

    def by_framework(self, root: Value, w: World, ctx: Context, site: Site) -> None:
        """A framework makes a backward pass from what a method has returned to it: where it does is not to be told."""
        root = self._walked(w.resolve(root), w)
        self._proofs.differentiated(root, w, ctx, site)
        tensor = w.get(root, Tensor)
        if tensor is not None:
            self._retention.walks(root, w)
            self._memory.walked(tensor, w, ctx, site)
            self._compared(tensor, w, ctx)
            self.free(tensor, False, w, site)

    def _walked(self, root: Value, w: World) -> Value:
        """What a backward pass starts from: a tensor, whatever else was known of it."""
        self._graphs.walked(root, w)
        return self._tensors.from_unknown(root, w, open=True) if isinstance(root, Unknown) else root

    def reached_before(self, groups: Iterable[int], w: World, ctx: Context) -> None:
        """Groups come to light as they are stepped: the last backward pass of an unknown loss had reached them."""
        walk = w.bound.get((WALKED, "open"))
        new = [key for key in groups if isinstance(group := w.find(key), Group) and not group.gradients_used]
        if isinstance(walk, Const) and new:
            event = events.Backward(site=walk.value, root=events.Tensor(), touches=dict.fromkeys(new, True))
            self._witness.advance(event, w, ctx)

    def free(
        self, tensor: Tensor, retain: bool | None, w: World, site: Site, inputs: Iterable[Tensor] | None = None
    ) -> None:
        """Free the graph of a tensor, unless it is retained.

        Args:
            tensor: what the pass begins at.
            retain: whether the graph is kept; None if that is not known.
            w: the world.
            site: where the pass is asked for.
            inputs: the tensors at which the pass ends (``torch.autograd.grad``): it executes, and frees, what lies
                between. None if it goes to all leaves.
        """
        segments = tensor.segments | tensor.reaches
        for key in segments:
            segment = w.find(key)
            if not isinstance(segment, Segment):
                continue
            executed = True if inputs is None else self._lies_between(key, segment, max(segments), inputs, w)
            if executed is False:
                continue
            if not segment.freed and not retain:
                new = w.write(key)
                new.freed = True if retain is False and executed else None
                new.freed_at = site
            elif segment.freed and retain is not False:
                w.write(key).freed = None  # that was told, and whatever mends it may retain the graph for others too

    def _lies_between(self, key: int, segment: Segment, last: int, inputs: Iterable[Tensor], w: World) -> bool | None:
        """Whether a segment lies on a way from the ``last`` one to one of the inputs; None if that is not known."""
        result = w.find(segment.result) if segment.result is not None else None
        if key == last:
            return True
        if not isinstance(result, Tensor):
            return None
        answer: bool | None = None if result.open else False
        for tensor in inputs:
            if tensor.groups and not tensor.groups.isdisjoint(result.deps):
                return True
            if tensor.groups or key in tensor.segments or not tensor.deps <= result.deps:
                continue
            if tensor.segments and tensor.segments <= result.segments:
                return True
            if not tensor.segments:
                answer = None
        return answer

    def _reached(self, tensor: Object | None, w: World, certain: bool) -> dict[Hashable, Literal[True] | None]:
        """The parameter groups a backward pass adds to: known ones, and presumably those of opaque optimizers."""
        assert isinstance(tensor, Tensor)
        touches: dict[Hashable, Literal[True] | None] = {}
        for key in sorted(tensor.deps):
            group = w.find(key)
            if isinstance(group, Group) and group.requires_grad is not False:
                touches[key] = True if certain else None
        if tensor.open:
            # Where it is known to reach what an optimizer steps, it need not reach what none does.
            held, doubtful = self._ownership.held(w), self._ownership.doubtful(w) | _aside(w)
            trained = not held.isdisjoint(touches)
            known_others = touches.keys() | self._grouping.strangers(tensor.deps, w)
            for key, group in sorted(w.all(Group)):
                if key in known_others or group.requires_grad is False:
                    continue
                if group.opaque or group.gradients_used:
                    presumed = certain and group.opaque and (not trained or key in held) and key not in doubtful
                    touches[key] = True if presumed else None
        elif any(isinstance(group, Group) and group.opaque for group in map(w.find, tensor.deps)):
            optimizers = [obj for _, obj in w.having(roles.OPTIMIZER)]
            for optimizer in optimizers:
                if optimizer.opaque:  # it may hold what the model holds; the only one does
                    sure = optimizer.groups - optimizer.perhaps if certain and len(optimizers) == 1 else frozenset()
                    for key in sorted(optimizer.groups - touches.keys()):
                        touches[key] = True if key in sure else None
        return touches

    def _asked(self, root: Ref, tensor: Tensor, given: Fact[bool], w: World, ctx: Context, site: Site) -> None:
        """A backward pass is to begin at ``root``: what its graph was cut from was to be walked."""
        asked = events.BackwardAsked(site=site, root=self._tensors.view_of(root, w), gradient_given=given)
        for place, copied in self._breaks.behind(tensor, w):
            if tensor.cut is not None and place == tensor.cut.at:
                asked = replace(asked, stackable=known(self._breaks.are_losses(copied, w)))
            self._retention.missed(place, copied, w)
        held = frozenset[int]().union(*(obj.groups for _, obj in w.having(roles.OPTIMIZER)))
        if given.is_true and tensor.is_leaf and tensor.groups & held:
            return  # no loss: what an optimizer trains is given its gradient
        self._witness.send(asked, w, ctx, alternative=tensor.asked_at)  # of that place, other worlds know nothing

    def _perhaps_fed(self, touches: events.Touches, w: World, ctx: Context, site: Site) -> None:
        """A backward pass may have added to what optimizers were given of which nothing is known, whatever it is."""
        stepped = set[int]().union(*(obj.groups for _, obj in w.having(roles.OPTIMIZER) if not obj.opaque))
        unknown = {key for key in stepped - touches.keys() if isinstance(g := w.find(key), Group) and g.opaque}
        if unknown:
            unknown.difference_update(*(obj.groups for _, obj in w.having(roles.MODULE)))
        if unknown:
            self._escapes.doubt(unknown, [], w)
            self._stepping.refilled(unknown, w, ctx, site)


def _aside(w: World) -> frozenset[int]:
    """The parameter groups of models that are in evaluation mode, while others were put into training mode."""
    models = [obj for _, obj in w.having(roles.MODULE) if obj.opaque]
    training = frozenset[int]().union(*(model.groups for model in models if model.training))
    evaluated = frozenset[int]().union(*(model.groups for model in models if model.training is False))
    return evaluated - training if training else frozenset()


def _taken_for_number(root: Ref, w: World) -> None:
    """What could be walked has one element, and most likely no dimension."""
    tensor: Tensor = w.write(root.id)
    tensor.size = "one"
    if tensor.shape is None:
        tensor.shape = ()


def _retains(args: Arguments, w: World) -> tuple[bool | None, bool | None]:
    """Whether a backward pass is asked to retain the graph, and to create one of the gradients."""
    asked = args.keywords.get("retain_graph", args.keywords.get("retain_variables"))
    create = _flag(w.resolve(args.keywords.get("create_graph", Const(False))), w)
    return create if asked is None else _flag(w.resolve(asked), w), create


def _mark(touches: dict[Hashable, Literal[True] | None], deps: frozenset[int], w: World, site: Site) -> None:
    """The gradients of these groups are added to."""
    number = fresh()
    for key, reached in touches.items():
        if isinstance(key, int) and isinstance(w.find(key), Group):
            group: Group = w.write(key)
            group.prepared, group.gradients_used = True if reached or group.prepared else None, True
            group.fed = number if reached else group.fed
            trains = group.requires_grad or (group.opaque and not group.requires_grad_set)
            group.fed_at = site if reached and key in deps and trains else None


def _flag(value: Value, w: World) -> bool | None:
    return bool(value.value) if isinstance(value, Const) else None


def _fact(value: bool | None) -> Fact[bool]:
    return unknown() if value is None else known(value)
