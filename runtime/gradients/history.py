"""What happens to the gradients of parameters: accumulated, applied, cleared.

Accumulation and clearing cannot be hooked cheaply, so they are read off: the identity and version of every
gradient are compared before and after each backward pass and step.  Parameters are held weakly and looked up by
id, because tensors compare elementwise.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from gradlint.events import (
    AppliedElsewhere,
    Backward,
    Cleared,
    Event,
    GradientsClipped,
    GradientsDropped,
    GradientsLeft,
    GradientsScaled,
    GradientsUnscaled,
    LossRepeated,
    ScalerStepped,
    Step,
    WeightsUpdated,
)
from gradlint.facts import FALSE, TRUE, Fact, unknown
from gradlint.finding import Site

from ..calls import BackwardCall, ForwardCall, StepCall
from ..cohorts import Cohorts
from ..frames import FrameSite
from ..judging import Judge
from ..records.modules import KnownModules
from .bundles import Bundle, Change, Found, are_zero, norms
from .followed import Followed
from .rounds import Phase, Round
from .unreached import PATIENCE, Owners, Unreached, unreached

if TYPE_CHECKING:
    import torch
    from torch.optim import Optimizer

    from ..calls import SwapCall

ALIKE = 3  #: ordinary rounds, after which those that are alike are passed over
EVENTS: frozenset[type[Event]] = frozenset({Step, Cleared, GradientsClipped, GradientsScaled, ScalerStepped})
"""One of these is in each protocol over gradients."""
ABSENT, DROPPED, SAME, WRITTEN, NEW = Change


class GradientHistory:
    """Reports backward passes, steps and clearings to the protocols over gradients."""

    def __init__(self, judge: Judge, modules: KnownModules, owners: Owners | None = None) -> None:
        self._owners = owners
        self._unreached = Unreached(judge, modules, owners)
        self._clock = 0  # counts backward passes and steps
        self._walked_at = 0  # when the last backward pass began, whatever it reached
        self._cohorts: Cohorts[Bundle] = Cohorts(judge, judge.follows(*EVENTS))
        self._followed = Followed(self._cohorts)
        self._judge = judge
        self._last_backward: Backward | None = None
        self._accepted: dict[tuple[FrameSite, str], Step] = {}  # with gradients to apply
        self._cleared: dict[Site, Cleared] = {}
        self._updated: dict[Site, WeightsUpdated] = {}
        self._follows_drops = judge.listens(GradientsDropped)
        self._follows_others = bool(judge.follows(GradientsLeft))
        self._follows_lent = bool(judge.follows(AppliedElsewhere))
        self.reached: list[Bundle] = []  #: by the last backward pass
        self.before_step: list[Callable[[StepCall, list[Bundle]], None]] = []  #: who looks at what is to be applied
        self._round: Round | None = None  # while nothing but ordinary rounds is seen
        self._phase = Phase.SPENT  # of a round that may be an ordinary one
        self._rounds = 0  # that were ordinary and alike, one after the other
        self._alike: tuple[object, ...] = ()  # what they have in common

    def watch(self, parameters: Iterable[torch.Tensor]) -> None:
        """Follow the gradients of those of these parameters that are not yet known."""
        self._follow([parameter for parameter in parameters if self._followed.home(parameter) is None])

    def of(self, parameters: Iterable[torch.Tensor]) -> list[Bundle]:
        """The gradients of exactly these parameters."""
        given = list(parameters)
        self._catch_up()
        self.watch(given)
        return self._followed.parted({id(parameter): parameter for parameter in given})

    def look(self, parameters: Iterable[torch.Tensor], site: FrameSite) -> list[Bundle]:
        """The gradients of exactly these parameters, after seeing what has become of them."""
        given = list(parameters)
        self._find_clearings(self.of(given), site)
        return self.of(given)

    def are_new(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether these gradients are those of an ordinary round, and no step has applied them; False if unknown."""
        return self._round is not None and self._round.holds(parameters)

    def tell(self, event: Event, bundles: list[Bundle]) -> None:
        """Tell the protocols that something has happened to these gradients."""
        self._catch_up()
        self._send(event, bundles)

    def stepped_by_hand(self, site: FrameSite, applied: Sequence[tuple[torch.Tensor, torch.Tensor, int]]) -> None:
        """The program has moved parameters along their gradients itself.

        Args:
            site: where it did.
            applied: parameters, their gradients, and the versions these had at that time.
        """
        versions = {id(parameter): (grad, version) for parameter, grad, version in applied}
        parameters = [parameter for parameter, _, _ in applied]
        self._catch_up()
        self._met(parameters)
        self._settle_doubts(self.of(parameters), site)
        bundles = [bundle for bundle in self.of(parameters) if not bundle.scaled]
        for bundle in bundles:
            known = [versions[id(parameter())] for parameter in bundle.parameters]
            bundle.grads = [weakref.ref(grad) for grad, _ in known]
            bundle.versions = [version for _, version in known]
        self._send(Step(site=site, by_hand=True), bundles)
        for bundle in bundles:
            bundle.reached = bundle.spent = True
            bundle.added = False

    # --- what is told by the interception --------------------------------------------------------------------

    def module_met(self, call: ForwardCall) -> None:
        """Follow the parameters of a module from its first call on, before an optimizer shows them."""
        self.watch(parameter for parameter in call.module.parameters() if parameter.requires_grad)

    def backward_begins(self, call: BackwardCall) -> None:
        if not call.accumulates:
            return
        self._clock += 1
        self._walked_at = self._clock
        if self._round is not None and self._round.backward_begins(call, self._clock + 1):
            return
        self._catch_up()
        self._find_clearings(self._followed.bundles, call.site)
        self._note(Phase.SPENT, DROPPED)
        self._followed.forget_dead()
        for bundle in self._followed.bundles:
            if bundle.spent and not bundle.added:
                bundle.doubts = norms(bundle.known())

    def backward_ended(self, call: BackwardCall) -> None:
        if not call.accumulates:
            return
        assert call.event is not None  # the witness of backward passes comes first
        self._last_backward = event = call.event
        if self._round is not None and self._round.backward_ended(call, self._clock + 1):
            self._clock += 1
            return
        self._catch_up()
        self.reached = self._find_accumulations(self._followed.bundles, event)
        self._note(Phase.CLEARED, NEW)

    def step_begins(self, call: StepCall) -> None:
        if self._round is not None and self._round.step_begins(call):
            return
        self._catch_up()
        bundles = self._of(call.optimizer)
        if call.closure:
            return
        if call.within is not None and call.within.event is not None:
            self._find_accumulations(bundles, call.within.event)
        else:
            self._find_clearings(bundles, call.site)
            for look in self.before_step:
                look(call, bundles)
        self._note(Phase.HELD, SAME, WRITTEN)
        self._step(call, bundles)

    def step_ended(self, call: StepCall) -> None:
        if self._round is not None and self._round.step_ended(call, self._clock + 1):
            self._clock += 1
            return
        self._catch_up()
        bundles = self._of(call.optimizer)
        if call.closure:
            self._find_clearings(bundles, call.site)
            self._step(call, bundles)
        cleared = []
        for bundle, change, grads in self._followed.look(bundles):
            if change is ABSENT or change is DROPPED:
                if change is DROPPED:
                    cleared.append(bundle)
                bundle.grads = None
                bundle.clear()
                continue
            if change is not SAME:
                self._remember(bundle, grads)
            bundle.spent = True
            bundle.added = bundle.given = bundle.scaled = False
            bundle.doubts = None
        self._send_cleared(call.site, cleared)
        self._clock += 1
        self._followed.of_optimizer(call.optimizer).ended_at = self._clock
        self._note(Phase.APPLIED, SAME, WRITTEN)
        self._count_rounds(call)

    def tensors_swapped(self, call: SwapCall) -> None:
        """Forget parameters that become others, and those whose gradients do; the next step shows them anew."""
        self._catch_up()
        self._followed.forget(set(map(id, call.tensors)))

    # --- ordinary rounds --------------------------------------------------------------------------------------

    def _note(self, phase: Phase, *ordinary: Change) -> None:
        """Follow a round as long as it is an ordinary one of all there is."""
        changes = [change for _, change, _ in self._followed.looked]
        if self._phase is phase and len(self._followed.bundles) == 1 and len(changes) == 1 and changes[0] in ordinary:
            self._phase = Phase((phase + 1) % len(Phase))
        else:
            self._phase = Phase.SPENT
            self._rounds = 0

    def _count_rounds(self, call: StepCall) -> None:
        """After a step: were there enough rounds of the same kind to pass over the next ones?"""
        event, backward = call.event, self._last_backward
        if self._phase is not Phase.SPENT or len(self._followed.bundles) != 1 or event is None or backward is None:
            return
        bundle, steps = self._followed.bundles[0], self._followed.of_optimizer(call.optimizer)
        # What is reused was accepted by all checks.
        alike = bundle, steps, backward, event, bundle.cohort.tokens, self._cohorts.violations
        if call.closure or call.within is not None or not all(map(operator.is_, alike, self._alike)):
            self._rounds = 0
        else:
            self._rounds += 1
        self._alike = alike
        if self._rounds >= ALIKE and steps.count >= PATIENCE:
            parameters = [parameter for group in call.optimizer.param_groups for parameter in group["params"]]
            if bundle.put_in_order(parameters):
                self._round = Round(bundle, call.optimizer, backward, event)
                self.reached = [bundle]

    def _catch_up(self) -> None:
        """Something is not ordinary: tell what has been passed over of the round it happens in."""
        passed, self._round = self._round, None
        if passed is None:
            return
        self._phase, self._rounds = Phase.SPENT, 0
        passed.settle()
        if (optimizer := passed.optimizer()) is not None:
            steps = self._followed.of_optimizer(optimizer)
            steps.count += passed.steps
            steps.ended_at = steps.ended_at if passed.stepped_at is None else passed.stepped_at
        if passed.phase >= Phase.CLEARED and passed.cleared_at is not None:
            self._send_cleared(passed.cleared_at, [passed.bundle])
        if passed.phase >= Phase.HELD:
            self._send(passed.backward, [passed.bundle])
        if passed.phase >= Phase.APPLIED:
            self._send(passed.step, [passed.bundle])
            self._send(self._update(passed.step.site), [passed.bundle])

    def _follow(self, parameters: Sequence[torch.Tensor]) -> Bundle | None:
        if not parameters:
            return None
        self._catch_up()
        return self._followed.add(parameters)

    def _remember(self, bundle: Bundle, grads: Found) -> None:
        if not bundle.reached:
            self._unreached.reached(bundle)
        bundle.remember(grads)

    # --- reading off -----------------------------------------------------------------------------------------

    def _of(self, optimizer: Optimizer) -> list[Bundle]:
        """The gradients an optimizer owns.  Those met for the first time were filled by the last backward pass."""
        bundles = self._followed.owned_by(optimizer)
        if bundles is not None:
            return bundles
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        owned = {id(parameter): parameter for parameter in parameters}
        bundles = self._followed.parted(owned)
        steps = self._followed.of_optimizer(optimizer)
        steps.parameters = [weakref.ref(parameter) for parameter in parameters]
        steps.bundles = bundles + self._met(owned.values())
        return steps.bundles

    def _met(self, owned: Iterable[torch.Tensor]) -> list[Bundle]:
        """The gradients of those parameters that have not been followed yet."""
        fresh = [parameter for parameter in owned if self._followed.home(parameter) is None]
        filled = self._follow([parameter for parameter in fresh if parameter.grad is not None])
        empty = self._follow([parameter for parameter in fresh if parameter.grad is None])
        bundles = [bundle for bundle in (filled, empty) if bundle is not None]
        for bundle in bundles:
            bundle.changed_at = self._walked_at  # by all that is known
        if filled is not None:
            filled.remember(filled.now())
            if self._last_backward is not None:
                filled.reached_at = self._walked_at
                self._send(self._last_backward, [filled])
        return bundles

    def _prepared(self, call: StepCall, bundles: list[Bundle]) -> Fact[bool]:
        """Whether a backward pass has reached any of these gradients since the last step of their optimizer.

        It is known that none has where there is no gradient.  One that is still there may have been written to
        unseen: through ``.data`` from those of another copy of the parameters, or by a CUDA graph.
        """
        if call.closure or not type(call.optimizer).__module__.startswith("torch.optim."):
            return unknown()
        steps = self._followed.of_optimizer(call.optimizer)
        if any(bundle.reached_at > steps.ended_at for bundle in bundles):
            return TRUE
        for bundle in bundles:
            if bundle.changed_at > steps.ended_at and not bundle.reached:
                return unknown()  # met for the first time
            there = [grad for grad in bundle.known() if grad is not None]
            if there and (
                not steps.count
                or max(bundle.changed_at, self._walked_at) > steps.ended_at
                or any(grad.device.type != "cpu" for grad in there)
            ):
                return unknown()
        return FALSE

    def _find_clearings(self, bundles: list[Bundle], site: FrameSite) -> None:
        """Before a backward pass or a step: which gradients were dropped, replaced or zeroed since last seen."""
        cleared, replaced, rescaled = [], [], []
        for bundle, change, grads in self._followed.look(bundles):
            if change is SAME or change is ABSENT:
                continue
            was_there = bundle.grads is not None
            if change is DROPPED:
                bundle.grads = None
            else:
                self._remember(bundle, grads)
            bundle.changed_at = self._clock + 1
            if not was_there:
                bundle.given = change is NEW
                continue
            if change is WRITTEN and (not bundle.spent or bundle.added):
                if bundle.scaled:
                    bundle.scaled = False
                    rescaled.append(bundle)
                continue  # clipped or unscaled, it is still what was accumulated
            if change is NEW:
                replaced.append(bundle)
            bundle.clear()
            bundle.given = change is NEW
            cleared.append(bundle)
        self._send_cleared(site, cleared)
        self._send(GradientsUnscaled(site=site), rescaled)
        if self._last_backward is not None:
            self._send(self._last_backward, replaced)  # by what somebody made of those of the last backward pass

    def _find_accumulations(self, bundles: list[Bundle], event: Backward) -> list[Bundle]:
        """After a backward pass, or in a hook within it: which gradients it has added to."""
        reached, cleared = [], []
        for bundle, change, grads in self._followed.look(bundles):
            if change is SAME or change is ABSENT:
                continue
            if change is DROPPED:
                bundle.grads = None
                bundle.clear()
                cleared.append(bundle)
                continue
            self._remember(bundle, grads)
            bundle.added = True
            bundle.reached_at = self._clock + 1
            reached.append(bundle)
        self._clock += bool(reached)
        if self._follows_others:
            self._send(LossRepeated(site=event.site), [one for one in reached if one.reached_by == event.site])
        for bundle in reached:
            bundle.reached_by = event.site
        self._send(event, reached)
        self._send_cleared(event.site, cleared)
        return reached

    def _step(self, call: StepCall, bundles: list[Bundle]) -> None:
        self._settle_doubts(bundles, call.site)
        prepared = self._prepared(call, bundles)
        owners = self._owners if prepared.is_false else None
        if owners is not None and owners.explains(call.optimizer, unreached(bundles)):
            prepared = unknown()  # here, this is not what the mistake is
        call.event = self._judged(call, prepared)
        self._followed.of_optimizer(call.optimizer).unprepared &= prepared.is_false
        self._send(call.event, [bundle for bundle in bundles if bundle.grads is not None])
        if self._follows_others and len(bundles) < len(self._followed.bundles):
            self._send(GradientsLeft(site=call.site), self._left_by(bundles))
        if self._follows_lent and any(bundle.given for bundle in bundles):
            self._send(AppliedElsewhere(site=call.site), self._lenders(bundles))
        # Where there is something to apply, what is not there for a part of the parameters is no loss.
        applied = [bundle for bundle in bundles if bundle.added or bundle.given]
        self._send(self._update(call.site), applied or bundles)
        self._unreached.count(call, self._followed.of_optimizer(call.optimizer), bundles)

    def _left_by(self, bundles: list[Bundle]) -> list[Bundle]:
        """What the backward passes whose gradients a step applies have added elsewhere."""
        passes = {bundle.reached_at for bundle in bundles if bundle.added}
        owned = set(map(id, bundles))
        return [
            one for one in self._followed.bundles if one.added and one.reached_at in passes and id(one) not in owned
        ]

    def _lenders(self, bundles: list[Bundle]) -> list[Bundle]:
        """Those whose gradients somebody has handed to the parameters of a step: both have the same tensors."""
        owned = set(map(id, bundles))
        applied = {id(grad) for bundle in bundles if bundle.given for grad in bundle.known() if grad is not None}
        return [
            one
            for one in self._followed.bundles
            if id(one) not in owned and not applied.isdisjoint(id(grad) for grad in one.known() if grad is not None)
        ]

    def _update(self, site: Site) -> WeightsUpdated:
        event = self._updated.get(site)
        if event is None:
            event = self._updated[site] = WeightsUpdated(site=site)
        return event

    def _judged(self, call: StepCall, prepared: Fact[bool]) -> Step:
        """The step as an event, shown to its checks unless they have accepted its like."""
        name = type(call.optimizer).__name__
        key = call.site, name
        event = self._accepted.get(key) if prepared is TRUE else None
        if event is None:
            event = Step(site=call.site, optimizer=name, prepared=prepared)
            if self._judge.accepts(event) and prepared is TRUE:
                self._accepted[key] = event
        return event

    def finish(self, _: FrameSite) -> None:
        """The guard ends: say of shorter trainings, too, what was never reached."""
        self._catch_up()
        self._unreached.finish()

    def _settle_doubts(self, bundles: list[Bundle], site: FrameSite) -> None:
        """Before spent gradients are said to be applied again: were they zeroed where no version shows it?

        Only here are values read from the device, and only on suspicion.
        """
        cleared, refilled = [], []
        for bundle in tuple(bundles):
            if not (bundle.spent and bundle.added):
                continue
            found = bundle.known()
            was_zero = are_zero(bundle.doubts or [None] * len(found))
            is_zero = are_zero(norms(found))
            for (was, is_now), part in self._followed.part(bundle, list(zip(was_zero, is_zero, strict=True))):
                if was or is_now:
                    part.clear()
                    cleared.append(part)
                only_zeros = (
                    is_now and part.changed_at <= part.reached_at
                )  # added by the backward pass, as to dead units
                if was and (only_zeros or not is_now):
                    refilled.append(part)
        self._send_cleared(site, cleared)
        if self._last_backward is not None:
            self._send(self._last_backward, refilled)

    def _send(self, event: Event, bundles: list[Bundle]) -> None:
        if bundles:
            self._cohorts.send(event, bundles)

    def _send_cleared(self, site: Site, bundles: list[Bundle]) -> None:
        if bundles:
            event = self._cleared.get(site)
            if event is None:
                event = self._cleared[site] = Cleared(site=site)
            self._cohorts.send(event, bundles)
            if self._follows_drops:
                self._cohorts.send(GradientsDropped(site=site), bundles)
