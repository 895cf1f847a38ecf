"""The ordinary round of a training: gradients are dropped, made anew by one backward pass, applied by one step.

When several rounds have been alike and have left every protocol where it was, what is alike in the next ones needs no
telling: it is enough to see that each is such a round.  The first thing that is not ends it.
"""

from __future__ import annotations

import enum
import weakref
from itertools import repeat
from operator import call as call_
from operator import is_
from typing import TYPE_CHECKING

import torch

from .bundles import versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch.optim import Optimizer

    from gradlint.events import Backward, Step

    from ..calls import BackwardCall, StepCall
    from ..frames import FrameSite
    from .bundles import Bundle

MANY = 64  #: parameters, from which on each is looked at before some of the backward passes only
TURNS = 8  #: rounds, in which each is

_NONE = repeat(None)
_GONE: weakref.ref[torch.Tensor] = weakref.ref(torch.empty(0))  # to a tensor that is gone


class Phase(enum.IntEnum):
    """How far a round is."""

    SPENT = 0  #: the last step has applied the gradients
    CLEARED = 1  #: they were dropped, and a backward pass is under way
    HELD = 2  #: it has made new ones
    APPLIED = 3  #: a step is under way


class Round:
    """Rounds of one optimizer that owns all the gradients that are followed.

    Each method is told of what happens and says whether it is what happens in such a round.  What is not has changed
    nothing here, and the events up to ``phase`` are still to be told.  The bundle is left as it was until
    :meth:`settle` brings it up to date.

    Args:
        bundle: the gradients, in the order in which the optimizer has their parameters.
        optimizer: that of every round.
        backward: what every backward pass was told as.
        step: what every step was told as.
    """

    def __init__(self, bundle: Bundle, optimizer: Optimizer, backward: Backward, step: Step) -> None:
        self.bundle = bundle
        self.backward = backward
        self.step = step
        self.phase = Phase.SPENT
        self.cleared_at: FrameSite | None = None  #: the backward pass that found the gradients dropped
        self.optimizer = weakref.ref(optimizer)
        self.steps = 0  #: that were made
        self.stepped_at: int | None = None  #: when the last of them ended, by the clock of the history
        self._ids = [id(parameter()) for parameter in bundle.parameters]
        self._grads = bundle.grads
        self._versions = bundle.versions
        self._applied: list[torch.Tensor | None] = []  # by the step under way; nobody else may hold them for long
        self._changed_at, self._reached_at = bundle.changed_at, bundle.reached_at

    def backward_begins(self, call: BackwardCall, clock: int) -> bool:
        """The gradients of the last step were dropped."""
        if self.phase is not Phase.SPENT:
            return False
        parameters = self.bundle.parameters
        if len(parameters) >= MANY and self._grads is not None and all(map(is_, map(call_, self._grads), _NONE)):
            # What was applied is gone.  That nothing else stands in its place is seen of all within a few rounds.
            parameters = parameters[self.steps % TURNS :: TURNS]
        try:
            for parameter in parameters:
                if parameter().grad is not None:  # type: ignore[union-attr]  # see below
                    return False
        except AttributeError:  # a parameter is gone
            return False
        self._grads, self._versions = None, []
        self._changed_at = clock
        self.cleared_at = call.site
        self.phase = Phase.CLEARED
        return True

    def backward_ended(self, call: BackwardCall, clock: int) -> bool:
        """The backward pass has made all gradients anew."""
        if self.phase is not Phase.CLEARED or call.event is not self.backward:
            return False
        try:
            for parameter in self.bundle.parameters:
                if parameter().grad is None:  # type: ignore[union-attr]  # see above
                    return False
        except AttributeError:
            return False
        self._reached_at = clock
        self.phase = Phase.HELD
        return True

    def step_begins(self, call: StepCall) -> bool:
        """The optimizer is about to apply gradients, all of which are still there."""
        if self.phase is not Phase.HELD or call.closure or call.within is not None:
            return False
        if call.site is not self.step.site or call.optimizer is not self.optimizer():
            return False
        parameters = [parameter for group in call.optimizer.param_groups for parameter in group["params"]]
        if list(map(id, parameters)) != self._ids:
            return False
        grads = [parameter.grad for parameter in parameters]
        if any(map(is_, grads, _NONE)):
            return False
        self._applied = grads
        call.event = self.step
        self.steps += 1
        self.phase = Phase.APPLIED
        return True

    def step_ended(self, call: StepCall, clock: int) -> bool:
        """The optimizer has applied the gradients."""
        if self.phase is not Phase.APPLIED or call.event is not self.step:
            return False
        grads, self._applied = self._applied, []
        self._grads = list(map(weakref.ref, grads))  # type: ignore[arg-type]  # none is None
        self._versions = versions(grads)
        self.stepped_at = clock
        self.phase = Phase.SPENT
        return True

    def holds(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether these are just the parameters whose gradients a backward pass has made, and no step has applied."""
        given = list(parameters)
        if self.phase is not Phase.HELD or set(map(id, given)) != set(self._ids):
            return False
        return all(parameter.grad is not None for parameter in given)

    def settle(self) -> None:
        """Let the bundle be what the rounds so far have made of it."""
        bundle = self.bundle
        if self.phase >= Phase.HELD:
            # What was dropped since the backward pass has ended had been there; what was written is still its work.
            grads = bundle.now()
            self._grads = [_GONE if grad is None else weakref.ref(grad) for grad in grads]
            self._versions = versions(grads)
        bundle.grads, bundle.versions = self._grads, self._versions
        bundle.changed_at, bundle.reached_at = self._changed_at, self._reached_at
        bundle.spent = self.phase is Phase.SPENT
        bundle.added = self.phase >= Phase.HELD
