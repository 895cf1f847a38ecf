"""The gradients of parameters, in bundles of equal history, and how they differ from when they were last looked at.

An ordinary training has one bundle for each optimizer.  Looking at it takes a few passes over lists that no line of
Python is run for, however many parameters there are; what begins to differ is parted, and stays so.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Container, Sequence
from itertools import repeat
from operator import is_, is_not, ne

import torch
from torch import Tensor

from gradlint.finding import Site

from ..cohorts import Subject
from ..tensors import holds_values, unseen_by_modes

Found = Sequence[torch.Tensor | None]  # the gradients of a bundle as they are now
_NONE = repeat(None)
_PLAIN = {Tensor}


class Change(enum.Enum):
    """What became of a gradient since it was last looked at."""

    ABSENT = enum.auto()  #: it was not there, and is not
    DROPPED = enum.auto()  #: it is not there any longer
    SAME = enum.auto()
    WRITTEN = enum.auto()  #: it was changed in place
    NEW = enum.auto()  #: it is another tensor, or was not there before


class Bundle(Subject):
    """The gradients of parameters that have the same history, as they were when they were last looked at."""

    __slots__ = (
        "added",
        "changed_at",
        "doubts",
        "given",
        "grads",
        "parameters",
        "reached",
        "reached_at",
        "reached_by",
        "scaled",
        "spent",
        "versions",
    )

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = [weakref.ref(parameter) for parameter in parameters]
        self.grads: list[weakref.ref[torch.Tensor]] | None = None  # in the order of the parameters
        self.versions: list[int] = []  # likewise
        self.reached = False  # there have been gradients
        self.reached_at = self.changed_at = 0  # when, by a backward pass and otherwise, by the clock of the history
        self.reached_by: Site | None = None  # the place of that backward pass
        self.spent = False  # applied by a step, and not known to have been cleared since
        self.added = False  # a backward pass has added to them since
        self.given = False  # set by hand since
        self.scaled = False  # that pass was one of a scaled loss, and nothing has changed them since
        self.doubts: list[torch.Tensor | None] | None = None
        """Their norms before that pass: zero means that they had been cleared."""

    def now(self) -> list[torch.Tensor | None]:
        """The gradients as they are now; parameters that are gone are forgotten."""
        while True:
            try:
                return [parameter().grad for parameter in self.parameters]  # type: ignore[union-attr]  # see below
            except AttributeError:
                alive = [index for index, parameter in enumerate(self.parameters) if parameter() is not None]
                if len(alive) == len(self.parameters):
                    raise
                self._keep(self, alive)

    def known(self) -> list[torch.Tensor | None]:
        """The gradients as they were found last; None for one that was not there, or is gone."""
        return [None] * len(self.parameters) if self.grads is None else [grad() for grad in self.grads]

    def remember(self, grads: Found) -> None:
        """Take gradients, all of which are there, for what is known."""
        self.grads = list(map(weakref.ref, grads))  # type: ignore[arg-type]  # none is None
        self.versions = versions(grads)
        self.reached = True

    def clear(self) -> None:
        """Nothing of what was applied is left."""
        self.spent = self.added = self.given = self.scaled = False
        self.doubts = None

    def change(self, grads: Found) -> Change | None:
        """What became of all of them alike; None where they differ."""
        if not any(map(is_not, grads, _NONE)):
            return Change.ABSENT if self.grads is None else Change.DROPPED
        if any(map(is_, grads, _NONE)):
            return None
        if self.grads is None:
            return Change.NEW
        before = self.known()
        if all(map(is_, grads, before)):
            now = versions(grads)
            if now == self.versions:
                return Change.SAME
            return Change.WRITTEN if all(map(ne, now, self.versions)) else None
        return None if any(map(is_, grads, before)) else Change.NEW

    def changes(self, grads: Found) -> list[Change]:
        """What became of each."""
        found = []
        for index, (grad, before) in enumerate(zip(grads, self.known(), strict=True)):
            if grad is None:
                found.append(Change.ABSENT if self.grads is None else Change.DROPPED)
            elif before is not grad:
                found.append(Change.NEW)
            else:
                same = version(grad) == self.versions[index]
                found.append(Change.SAME if same else Change.WRITTEN)
        return found

    def forget(self, tensors: Container[int]) -> None:
        """Forget those of these parameters, and of these gradients, by their ids."""
        pairs = zip((parameter() for parameter in self.parameters), self.known(), strict=True)
        self._keep(self, [index for index, pair in enumerate(pairs) if not any(id(one) in tensors for one in pair)])

    def put_in_order(self, parameters: Sequence[torch.Tensor]) -> bool:
        """Take on the order of these parameters; False if they are others."""
        places = {id(parameter()): index for index, parameter in enumerate(self.parameters)}
        order = [places.get(id(parameter), -1) for parameter in parameters]
        if sorted(order) != list(range(len(self.parameters))):
            return False
        self._keep(self, order)
        return True

    def split(self, groups: Sequence[Sequence[int]]) -> list[Bundle]:
        """Bundles of the gradients at these indices, with the same history; the first of them is this one."""
        parts = [self]
        for indices in groups[1:]:
            part = Bundle(())
            for name in ("reached", "reached_at", "reached_by", "changed_at", "spent", "added", "given", "scaled"):
                setattr(part, name, getattr(self, name))
            part._keep(self, indices)
            parts.append(part)
        self._keep(self, groups[0])
        return parts

    def _keep(self, whole: Bundle, indices: Sequence[int]) -> None:
        self.parameters, self.grads, self.versions, self.doubts = (
            [whole.parameters[index] for index in indices],
            None if whole.grads is None else [whole.grads[index] for index in indices],
            [] if whole.grads is None else [whole.versions[index] for index in indices],
            None if whole.doubts is None else [whole.doubts[index] for index in indices],
        )


def versions(grads: Found) -> list[int]:
    """How often each gradient was changed in place; of one that is gone, it is not known."""
    try:
        if set(map(type, grads)) == _PLAIN:
            return [grad._version for grad in grads]  # type: ignore[union-attr]  # none is None
    except RuntimeError:  # see below
        pass
    return [-1 if grad is None else version(grad) for grad in grads]


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; gradients are added to a sharded one or to its local part."""
    try:
        if type(tensor) is Tensor:
            return tensor._version
        local = getattr(tensor, "_local_tensor", None)
        return tensor._version + (0 if local is None else int(local._version))
    except RuntimeError:  # inference tensors do not count
        return -1


def norms(found: Found) -> list[torch.Tensor | None]:
    """The norm of each tensor that has one, left on its device; unseen by function and dispatch modes."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), unseen_by_modes():
        values = [None if one is None else _values(one) for one in found]
        return [torch.linalg.vector_norm(one) if one is not None and holds_values(one) else None for one in values]


def are_zero(norms: Found) -> list[bool]:
    """Which norms are zero; one that was not taken is not.  Waits for the device that has them."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), unseen_by_modes():
        return [norm is not None and bool(norm.item() == 0) for norm in norms]


def _values(tensor: torch.Tensor) -> torch.Tensor:
    tensor = getattr(tensor, "_local_tensor", tensor).detach()
    return tensor._values() if tensor.is_sparse else tensor
