"""Parameters that get gradients, are stepped, and stay what they are.

An optimizer is looked at before its first step, before its fiftieth, and then before each twice as far: all that is
remembered is what the bits of its parameters sum up to.  Those that have not changed are looked at more often from then
on, as they may be gone when the guard ends.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gradlint.events import ParametersUnchanged

from ..records.checksums import is_readable, reader
from ..tensors import holds_values, unseen_by_modes

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from ..calls import StepCall, SwapCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..records.checksums import Content
    from ..records.modules import KnownModules

PATIENCE = 50  #: steps between the first two looks
AGAIN = 10  #: steps between looks at those that have not changed
VANISHED = 1e-8  #: elements of gradients that are no greater move nothing, whatever the learning rate
FALLEN = 1e-3  #: of the greatest learning rate so far: a schedule that comes below has decayed


@dataclass(slots=True, eq=False)
class _Parameter:
    """What is remembered of a parameter since the last look."""

    reference: weakref.ref[torch.Tensor]
    content: Content
    since: int  #: the step before which it had this content
    stuck: _Stuck | None = None  #: it has had gradients since that should have moved it


class _Stuck(NamedTuple):
    """A parameter that does not move, as it was told of at the last look: it may be gone at the end."""

    name: str
    learning_rate: float
    dtype: str


class _Optimizer:
    """An optimizer, and the parameters it was seen to own."""

    __slots__ = ("parameters", "rates", "reference", "site", "steps")

    def __init__(self, optimizer: Optimizer) -> None:
        self.reference = weakref.ref(optimizer)
        self.steps = 0
        self.site: FrameSite | None = None  # of the last one
        self.parameters: dict[int, _Parameter] = {}  # by their ids
        self.rates: dict[int, float] = {}  # the greatest of each group, by its place

    def any_stuck(self) -> bool:
        return any(one.stuck is not None for one in self.parameters.values())

    def at_rest(self, parameter: torch.Tensor, content: Content) -> _Parameter | None:
        """What is remembered of a parameter, if it holds what it held then."""
        before = self.parameters.get(id(parameter))
        if before is None or before.reference() is not parameter:
            return None
        return before if _is_same(before.content, content) else None


class UnchangedParameters:
    """Reports, at the end, parameters that their optimizer has stepped again and again without any effect."""

    def __init__(self, judge: Judge, modules: KnownModules) -> None:
        self._judge = judge
        self._modules = modules
        self._optimizers: dict[int, _Optimizer] = {}
        self._gone: list[_Optimizer] = []

    def step_begins(self, call: StepCall) -> None:
        if call.closure:
            return  # the gradients are made inside
        known = self._optimizers.get(id(call.optimizer))
        if known is None or known.reference() is not call.optimizer:
            known = self._begin(call.optimizer)
        known.site = call.site
        known.steps += 1
        if known.steps == 1 or _is_twice_as_far(known.steps):
            with torch.no_grad(), torch._C.DisableTorchFunction(), unseen_by_modes():
                self._look(call.optimizer, known)
        elif known.steps % AGAIN == 0 and known.steps > PATIENCE:
            _look_again(known)

    def tensors_swapped(self, call: SwapCall) -> None:
        """Forget parameters that become others."""
        for known in self._optimizers.values():
            for tensor in call.tensors:
                known.parameters.pop(id(tensor), None)

    def finish(self, _: FrameSite) -> None:
        """The guard ends: what has moved in the meantime was only late."""
        for known in [*self._gone, *self._optimizers.values()]:
            _look_again(known)
            self._tell(known)
        self._optimizers, self._gone = {}, []

    def _begin(self, optimizer: Optimizer) -> _Optimizer:
        """Get to know an optimizer.  Of those that are gone, what is to be told is kept."""
        gone = [key for key, one in self._optimizers.items() if one.reference() is None or key == id(optimizer)]
        self._gone += [known for key in gone if (known := self._optimizers.pop(key)).any_stuck()]
        self._optimizers[id(optimizer)] = known = _Optimizer(optimizer)
        return known

    def _look(self, optimizer: Optimizer, known: _Optimizer) -> None:
        rates = [_rate(group) for group in optimizer.param_groups]
        found: list[tuple[_Parameter, torch.Tensor, float]] = []
        for place, (rate, group) in enumerate(zip(rates, optimizer.param_groups, strict=True)):
            highest = known.rates[place] = max(known.rates.get(place, 0.0), rate)
            for parameter in group["params"]:
                content = _content(parameter)
                before = None if content is None else known.at_rest(parameter, content)
                if before is not None:
                    before.stuck = None
                    # One that has moved before may have arrived, unless it is the schedule that has ended.
                    meant = before.since == 1 or rate <= FALLEN * highest
                    if meant and (rate or not any(rates)) and _has_gradient(parameter):
                        found.append((before, parameter, rate))
                elif content is not None:
                    known.parameters[id(parameter)] = _Parameter(weakref.ref(parameter), content, known.steps)
                else:
                    known.parameters.pop(id(parameter), None)
        names = self._modules.names([parameter for _, parameter, _ in found]) if found else []
        for (before, parameter, rate), name in zip(found, names, strict=True):
            before.stuck = _Stuck(name, rate, str(parameter.dtype).removeprefix("torch."))

    def _tell(self, known: _Optimizer) -> None:
        alike: dict[tuple[int, float, str], list[str]] = {}
        for one in known.parameters.values():
            if one.stuck is not None:
                alike.setdefault((one.since, one.stuck.learning_rate, one.stuck.dtype), []).append(one.stuck.name)
        for (since, rate, dtype), names in alike.items():
            assert known.site is not None  # it has stepped
            self._judge.send(
                ParametersUnchanged(
                    site=known.site,
                    parameters=tuple(names),
                    steps=known.steps - since + 1,
                    always=since == 1,
                    learning_rate=rate,
                    dtype=dtype,
                )
            )


def _look_again(known: _Optimizer) -> None:
    """Whether those that had not changed still are what they were: the others were only late."""
    stuck = [one for one in known.parameters.values() if one.stuck is not None]
    if not stuck:
        return
    with torch.no_grad(), torch._C.DisableTorchFunction(), unseen_by_modes():
        for one in stuck:
            parameter = one.reference()
            content = None if parameter is None else _content(parameter)
            if parameter is not None and (content is None or not _is_same(one.content, content)):
                one.stuck = None


def _is_twice_as_far(step: int) -> bool:
    times, rest = divmod(step, PATIENCE)
    return not rest and not times & (times - 1)


def _rate(group: dict[str, Any]) -> float:
    return float(group.get("lr", math.nan))


def _content(parameter: torch.Tensor) -> Content | None:
    """What a parameter holds; None where that cannot be read, or nothing is trained."""
    if not parameter.requires_grad or not parameter.numel() or not is_readable(detached := parameter.detach()):
        return None
    return reader(detached)()


def _is_same(before: Content, now: Content) -> bool:
    if isinstance(before, torch.Tensor) and isinstance(now, torch.Tensor):
        return before.device == now.device and bool(torch.equal(before, now))
    return type(before) is type(now) and before == now


def _has_gradient(parameter: torch.Tensor) -> bool:
    """Whether the gradient of a parameter is there, finite, and has not vanished."""
    grad = parameter.grad
    if grad is None or not holds_values(grad):
        return False
    greatest = float(grad.abs().max())
    return math.isfinite(greatest) and greatest > VANISHED
