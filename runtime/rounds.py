"""The ordinary round of a training: gradients are dropped, made anew by one backward pass, applied by one step.

When several rounds have been alike and have left every protocol where it was, what is alike in the next ones needs no
telling: it is enough to see that each is such a round.  The first thing that is not ends it.
"""

from __future__ import annotations

import enum
import weakref
from itertools import repeat
from operator import is_, is_not
from typing import TYPE_CHECKING

from .bundles import versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch
    from torch.optim import Optimizer

    from gradlint.events import Backward, Step

    from .bundles import Bundle
    from .frames import FrameSite
    from .interception import BackwardCall, StepCall

_NONE = repeat(None)


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
        self._versions: list[int] | None = bundle.versions
        self._changed_at, self._reached_at = bundle.changed_at, bundle.reached_at

    def backward_begins(self, call: BackwardCall, clock: int) -> bool:
        """The gradients of the last step were dropped."""
        if self.phase is not Phase.SPENT:
            return False
        try:
            grads = [parameter().grad for parameter in self.bundle.parameters]  # type: ignore[union-attr]  # see below
        except AttributeError:  # a parameter is gone
            return False
        if any(map(is_not, grads, _NONE)):
            return False
        self._grads = self._versions = None
        self._changed_at = clock
        self.cleared_at = call.site
        self.phase = Phase.CLEARED
        return True

    def backward_ended(self, call: BackwardCall, clock: int) -> bool:
        """The backward pass has made all gradients anew."""
        if self.phase is not Phase.CLEARED or call.event is not self.backward:
            return False
        try:
            grads = [parameter().grad for parameter in self.bundle.parameters]  # type: ignore[union-attr]  # see above
        except AttributeError:
            return False
        if any(map(is_, grads, _NONE)):
            return False
        self._grads = list(map(weakref.ref, grads))  # type: ignore[arg-type]  # none is None
        self._reached_at = clock
        self.phase = Phase.HELD
        return True

    def step_begins(self, call: StepCall) -> bool:
        """The optimizer is about to apply the gradients that the backward pass has made."""
        if self.phase is not Phase.HELD or call.closure or call.within is not None:
            return False
        if call.site is not self.step.site or call.optimizer is not self.optimizer():
            return False
        parameters = [parameter for group in call.optimizer.param_groups for parameter in group["params"]]
        if list(map(id, parameters)) != self._ids:
            return False
        grads = [parameter.grad for parameter in parameters]
        if any(map(is_, grads, _NONE)) or not all(map(is_, grads, self._known())):
            return False
        call.event = self.step
        self.steps += 1
        self.phase = Phase.APPLIED
        return True

    def step_ended(self, call: StepCall, clock: int) -> bool:
        """The optimizer has applied the gradients, and left them there."""
        if self.phase is not Phase.APPLIED or call.event is not self.step:
            return False
        known = self._known()
        if any(map(is_, known, _NONE)):
            return False
        self._versions = versions(known)
        self.stepped_at = clock
        self.phase = Phase.SPENT
        return True

    def holds(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether the gradients of just these parameters are what a backward pass has made, and no step has applied."""
        given = list(parameters)
        if self.phase is not Phase.HELD or set(map(id, given)) != set(self._ids):
            return False
        known = dict(zip(self._ids, self._known(), strict=True))
        return all(parameter.grad is not None and parameter.grad is known[id(parameter)] for parameter in given)

    def settle(self) -> None:
        """Let the bundle be what the rounds so far have made of it."""
        bundle = self.bundle
        bundle.grads = self._grads
        # What was written since the backward pass has ended is still what it has accumulated.
        bundle.versions = versions(self._known()) if self._versions is None else self._versions
        bundle.changed_at, bundle.reached_at = self._changed_at, self._reached_at
        bundle.spent = self.phase is Phase.SPENT
        bundle.added = self.phase >= Phase.HELD

    def _known(self) -> list[torch.Tensor | None]:
        return [] if self._grads is None else [grad() for grad in self._grads]
