"""Gradients that are accumulated over micro-batches: how they are summed, and what is scheduled meanwhile.

Followed is one parameter of each optimizer, over its first steps.
"""

from __future__ import annotations

import ast
import itertools
import weakref
from typing import TYPE_CHECKING, Any

from gradlint.events import AveragesSummed, GradientsAccumulated, PeriodicStep, SchedulerStepped

from ..cohorts import Cohorts, Subject
from ..gradients.bundles import are_zero, norms, version
from ..records.averages import begins_at_average
from ..records.living import Marked
from ..roster import Resting
from ..spelling import call_at, share_a_loop

if TYPE_CHECKING:
    import torch
    from torch.optim import Optimizer

    from ..calls import BackwardCall, BuildCall, ClipCall, ScalerCall, ScheduleCall, StepCall, SwapCall
    from ..frames import FrameSite
    from ..judging import Judge

SURE = 3  #: steps with as many micro-batches before each of them are made on purpose
AT_END = 2
MANY = 16  #: optimizers, above which those that are gone are forgotten
ELSEWHERE = 2  #: passes up to the step, of which the last at another place may be that of another loss
PATIENCE = 64  #: steps, after which an optimizer is left alone
PROPORTIONAL = frozenset(["ASGD", "FusedSGD", "SGD"])
"""Optimizers that go as far as the gradients are large; the others divide by their size."""

_guards = itertools.count(1)


class _Probe(Subject):
    """One parameter of an optimizer, and what has happened to its gradient since the last step."""

    __slots__ = (
        *("averaged", "built_at", "changes", "grad", "lengths", "optimizer", "paced", "parameter", "passes"),
        *(
            "scheduled",
            "scheduled_at",
            "steps",
            "sums",
            "sums_told",
            "turns",
            "spent",
            "version",
            "walked_at",
            "stepped_at",
        ),
    )

    def __init__(self, optimizer: Optimizer, parameter: torch.Tensor, built_at: FrameSite | None) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.parameter = weakref.ref(parameter)
        self.built_at = built_at
        self.grad: weakref.ref[torch.Tensor] | None = None
        self.version = -1
        self.changes = 0  # by clipping and scalers, since the last backward pass
        self.passes: list[FrameSite] = []  # that have added to one gradient
        self.averaged = True  # all of them begin at averages
        self.spent = False  # what they add to was applied, and not cleared
        self.scheduled: dict[FrameSite, set[int]] = {}  # where schedulers were stepped, after how many passes
        self.lengths: set[int] = set()  # of those schedulers that know theirs
        self.sums: list[int] = []  # of so many averages, which were applied one after the other
        self.turns: list[int] = []  # so many micro-batches, with a scheduler stepped on each, before each step
        self.sums_told = self.paced = False  # these are no concern any more
        self.steps = 0
        self.walked_at: FrameSite | None = None
        self.stepped_at: FrameSite | None = None
        self.scheduled_at: FrameSite | None = None

    def look(self) -> str:
        """What has become of the gradient: "none", "same", "changed" in place, or "new"."""
        parameter = self.parameter()
        grad = None if parameter is None else parameter.grad
        before = None if self.grad is None else self.grad()
        now = -1 if grad is None else version(grad)
        expected = self.version + self.changes
        self.grad, self.version = None if grad is None else weakref.ref(grad), now
        if grad is None:
            return "none"
        return "new" if grad is not before else "same" if now <= expected else "changed"

    def begin(self) -> None:
        """There is nothing to apply."""
        self.passes, self.averaged, self.scheduled, self.changes, self.spent = [], True, {}, 0, False

    def is_zero(self) -> bool:
        """Whether the gradient was zeroed, be it where no version shows it."""
        grad = None if self.grad is None else self.grad()
        return are_zero(norms([grad]))[0]


class MicroBatches(Resting):
    """Reports sums of averages, and schedules that are too fast, of optimizers that step on every k-th micro-batch."""

    RESTS_FROM = ("backward_begins", "backward_ended")  # while no optimizer is followed

    def __init__(self, judge: Judge, optimizers: list[Optimizer]) -> None:
        self._judge = judge
        self._cohorts: Cohorts[_Probe] = Cohorts(judge, judge.follows(SchedulerStepped))
        self._probes: dict[int, _Probe] = {}  # by the ids of optimizers
        self._left = Marked()  # optimizers that are not followed any more
        self._unscaled = f"gradlint.averages.{next(_guards)}"
        self.rest()
        for optimizer in optimizers:
            self._follow(optimizer)

    # --- what is told by the interception --------------------------------------------------------------------

    def optimizer_built(self, call: BuildCall) -> None:
        self._follow(call.optimizer, call.site)

    def scaler_called(self, call: ScalerCall) -> None:
        probe = self._follow(call.optimizer) if call.optimizer is not None else None
        if probe is not None and call.method in ("step", "unscale_"):
            probe.changes += 1

    def scaler_returned(self, call: ScalerCall) -> None:
        """What a scaler multiplies, it divides again."""
        node: Any = getattr(call.result, "grad_fn", None)
        if call.method == "scale" and call.error is None and node is not None:
            node.metadata[self._unscaled] = True

    def gradients_clipped(self, call: ClipCall) -> None:
        for probe in self._probes.values():
            if any(one is probe.parameter() for one in call.parameters):
                probe.changes += 1

    def backward_begins(self, call: BackwardCall) -> None:
        for probe in self._probes.values() if call.accumulates else ():
            if not probe.passes and not probe.spent:
                continue
            if probe.look() != "same" or probe.is_zero():
                scheduled = {} if probe.passes else probe.scheduled  # since the step
                probe.begin()
                probe.scheduled = scheduled

    def backward_ended(self, call: BackwardCall) -> None:
        for probe in self._probes.values() if call.accumulates else ():
            what = probe.look()
            if what == "new":
                probe.passes, probe.averaged, probe.spent = [], True, False
            if what in ("new", "changed"):
                probe.passes.append(call.site)
                if len(probe.passes) > 1:
                    probe.averaged = probe.averaged and not probe.spent and self._is_average(call)

    def scheduler_stepped(self, call: ScheduleCall) -> None:
        probe = self._follow(call.optimizer)
        if probe is None or probe.paced:
            return
        lengths = _lengths(call.scheduler)
        if lengths is None or (call.built_at is not None and _counts_batches(call.built_at)):
            probe.paced = True
            return
        probe.lengths |= lengths
        probe.scheduled.setdefault(call.site, set()).add(len(probe.passes))
        if probe.lengths and call.scheduler.last_epoch >= max(probe.lengths):
            self._tell_pace(probe, 1)

    def step_begins(self, call: StepCall) -> None:
        probe = self._follow(call.optimizer)
        if probe is None:
            return
        what = probe.look()
        probe.steps += 1
        told = probe.paced and probe.sums_told
        if call.closure or call.within is not None or probe.steps > PATIENCE or told:
            self._drop(call.optimizer)
            return
        if probe.passes:
            probe.walked_at, probe.stepped_at = probe.passes[-1], call.site
            _continue(probe.sums, len(probe.passes), self._sums(probe, call.optimizer, what))
            every = [site for site, times in probe.scheduled.items() if len(times) == len(probe.passes)]
            _continue(probe.turns, len(probe.passes), bool(every))
            probe.scheduled_at = every[0] if every else None
            if not probe.lengths:
                self._tell_pace(probe, SURE)
            self._tell_sums(probe, SURE)
        probe.begin()
        probe.spent = True

    def tensors_swapped(self, call: SwapCall) -> None:
        """Follow no parameter that becomes another one."""
        given = set(map(id, call.tensors))
        for probe in list(self._probes.values()):
            optimizer = probe.optimizer()
            held = (probe.parameter(), None if probe.grad is None else probe.grad())
            if optimizer is not None and any(id(one) in given for one in held):
                self._drop(optimizer)

    def finish(self, _: FrameSite) -> None:
        """The guard ends: two steps of a short training must do."""
        for probe in self._probes.values():
            self._tell_at_end(probe)

    # --- whom is followed ------------------------------------------------------------------------------------

    def _follow(self, optimizer: Optimizer, built_at: FrameSite | None = None) -> _Probe | None:
        probe = self._probes.get(id(optimizer))
        if probe is not None and probe.optimizer() is optimizer:
            return probe
        if optimizer in self._left:
            return None
        owned = (parameter for group in optimizer.param_groups for parameter in group["params"])
        parameter = next((one for one in owned if one.requires_grad and not _is_hooked(one)), None)
        if parameter is None:
            return None
        if probe is not None:  # of an optimizer whose place in memory this one took
            self._end(id(optimizer))
        if len(self._probes) > MANY:
            self._forget_gone()
        probe = self._probes[id(optimizer)] = _Probe(optimizer, parameter, built_at)
        self._cohorts.add(probe)
        self.wake()
        return probe

    def _drop(self, optimizer: Optimizer) -> None:
        probe = self._probes.pop(id(optimizer), None)
        if probe is not None:
            self._cohorts.drop([probe])
        self._left.add(optimizer)
        if not self._probes:
            self.rest()

    def _end(self, key: int) -> None:
        probe = self._probes.pop(key)
        self._tell_at_end(probe)
        self._cohorts.drop([probe])

    def _forget_gone(self) -> None:
        for key in [key for key, probe in self._probes.items() if probe.optimizer() is None]:
            self._end(key)

    # --- verdicts --------------------------------------------------------------------------------------------

    def _is_average(self, call: BackwardCall) -> bool:
        nodes = [getattr(root, "grad_fn", None) for root in call.roots]
        return all(begins_at_average(node, self._unscaled) for node in nodes) and all(map(_is_one, call.grads))

    def _sums(self, probe: _Probe, optimizer: Optimizer, what: str) -> bool:
        """Whether a step applies a mere sum of averages, and goes as far as that is large."""
        goes_far = type(optimizer).__name__ in PROPORTIONAL or probe.changes > 0
        # The pass before the step may stand at another place, as without `no_sync()`: unless it is another loss.
        alike = len(set(probe.passes)) == 1 or (len(set(probe.passes[:-1])) == 1 and len(probe.passes) > ELSEWHERE)
        return what == "same" and probe.averaged and goes_far and alike

    def _tell_sums(self, probe: _Probe, enough: int) -> None:
        if probe.sums_told or len(probe.sums) < enough or probe.walked_at is None or probe.stepped_at is None:
            return
        probe.sums_told = True
        divided = probe.built_at is not None and _divides_rate(probe.built_at)
        if not divided and share_a_loop(probe.walked_at, probe.stepped_at):
            self._judge.send(AveragesSummed(site=probe.walked_at, stepped_at=probe.stepped_at))

    def _tell_at_end(self, probe: _Probe) -> None:
        """Nothing more will be known of an optimizer."""
        self._tell_sums(probe, AT_END)
        if not probe.lengths:
            self._tell_pace(probe, AT_END)

    def _tell_pace(self, probe: _Probe, enough: int) -> None:
        walked, stepped, scheduled = probe.walked_at, probe.stepped_at, probe.scheduled_at
        if probe.paced or len(probe.turns) < enough or not walked or not stepped or not scheduled:
            return
        probe.paced = True
        for event in (
            GradientsAccumulated(site=walked),
            SchedulerStepped(site=scheduled),
            GradientsAccumulated(site=walked),
            PeriodicStep(site=stepped),
        ):
            self._cohorts.send(event, [probe])


def _continue(counts: list[int], count: int, holds: bool) -> None:
    """One more of the same follows, or nothing like it does."""
    if not holds or count < 2 or (counts and counts[-1] != count):
        counts.clear()
    if holds and count > 1:
        counts.append(count)


def _is_one(grad: Any) -> bool:
    return grad is None or (grad.numel() == 1 and float(grad) == 1)


def _is_hooked(parameter: torch.Tensor) -> bool:
    return bool(parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None))


def _lengths(scheduler: Any) -> set[int] | None:
    """How many steps a scheduler has; empty where it has no end, None where it may be made for any unit."""
    if hasattr(scheduler, "T_0") or hasattr(scheduler, "total_size"):
        return None
    found = {getattr(scheduler, name, None) for name in ("T_max", "total_iters", "total_steps")}
    for function in getattr(scheduler, "lr_lambdas", ()):
        found.update(getattr(function, "keywords", {}).values())
        found.update(cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
        code = getattr(function, "__code__", None)
        found.update(function.__globals__.get(name) for name in (code.co_names if code is not None else ()))
    return {value for value in found if type(value) is int and value > 1}


def _counts_batches(site: FrameSite) -> bool:
    """Whether what a scheduler was given is spelled as the length of something, and is not divided."""
    call = call_at(site)
    nodes = list(ast.walk(call)) if call is not None else []
    return any(isinstance(node, ast.Name) and node.id == "len" for node in nodes) and not _divides(nodes)


def _divides_rate(site: FrameSite) -> bool:
    """Whether something is divided by a name where an optimizer was built: the rate, by the number of micro-batches."""
    call = call_at(site)
    return call is not None and _divides(list(ast.walk(call)))


def _divides(nodes: list[ast.AST]) -> bool:
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Div, ast.FloorDiv))
        and not isinstance(node.right, ast.Constant)
        for node in nodes
    )
