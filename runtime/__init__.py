"""The runtime witness: watches a training loop under :func:`guard`.

This module imports without torch, so that the linter can ask which events the guard sends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradlint.events import (
    AppliedElsewhere,
    AveragesSummed,
    Backward,
    BackwardAsked,
    BothSpread,
    ChangedInPlace,
    Cleared,
    ConvertedToNumpy,
    DataWritten,
    DiscardedElsewhere,
    DropoutCalled,
    EvalMode,
    Event,
    FirstStep,
    GradientRead,
    GradientsAccumulated,
    GradientsClipped,
    GradientsDiscarded,
    GradientsDropped,
    GradientsLeft,
    GradientsMeasured,
    GradientsScaled,
    GradientsUnscaled,
    GradOfTensorRead,
    GraphRetained,
    HookRegistered,
    InputDone,
    InputFed,
    LayerBuilt,
    LayersHeld,
    LogTaken,
    LossCalled,
    LossRepeated,
    LostTermAdded,
    ModelStepped,
    ModuleBuilt,
    ModuleRequiresGradSet,
    NeverReached,
    NormDrifts,
    NumberTaken,
    OptimizerChecked,
    OutputMeasured,
    ParametersDrawn,
    ParametersReplaced,
    ParametersUnchanged,
    PeriodicClearing,
    PeriodicStep,
    RanksApart,
    RequiresGradSet,
    SavedTensorChanged,
    ScalerStepped,
    ScalerUpdated,
    SchedulerStepped,
    SkipOverwritten,
    StateDictReused,
    StatisticsLeft,
    Step,
    TargetWalked,
    TensorKept,
    TrainMode,
    UnitsDead,
    UnownedTrained,
    ValueKept,
    WeightsTaken,
    WeightsUpdated,
)

from .delivery import OnFinding

if TYPE_CHECKING:
    from .session import Guard as Guard

EVENTS: frozenset[type[Event]] = frozenset(
    {
        AppliedElsewhere,
        Backward,
        BackwardAsked,
        BothSpread,
        ChangedInPlace,
        Cleared,
        ConvertedToNumpy,
        DataWritten,
        DiscardedElsewhere,
        DropoutCalled,
        EvalMode,
        FirstStep,
        GradOfTensorRead,
        GradientRead,
        GradientsAccumulated,
        GradientsClipped,
        GradientsDiscarded,
        GradientsDropped,
        GradientsLeft,
        GradientsMeasured,
        GradientsScaled,
        GradientsUnscaled,
        GraphRetained,
        InputDone,
        InputFed,
        HookRegistered,
        LayerBuilt,
        LayersHeld,
        LogTaken,
        LossCalled,
        LossRepeated,
        LostTermAdded,
        ModelStepped,
        ModuleBuilt,
        ModuleRequiresGradSet,
        NeverReached,
        NormDrifts,
        NumberTaken,
        OptimizerChecked,
        OutputMeasured,
        ParametersDrawn,
        ParametersReplaced,
        ParametersUnchanged,
        PeriodicClearing,
        AveragesSummed,
        PeriodicStep,
        SchedulerStepped,
        RanksApart,
        RequiresGradSet,
        SavedTensorChanged,
        ScalerStepped,
        ScalerUpdated,
        SkipOverwritten,
        StateDictReused,
        StatisticsLeft,
        Step,
        TargetWalked,
        TensorKept,
        TrainMode,
        UnitsDead,
        UnownedTrained,
        ValueKept,
        WeightsTaken,
        WeightsUpdated,
    }
)
"""The types of the events this witness knows.

Some it knows without sending them: to it, parameters that are replaced are new subjects without a past, gradients are
only said to be discarded between the steps that miss them, and an iteration goes one way, whatever others do.
"""

__all__ = ["EVENTS", "Guard", "guard"]


def guard(
    *watched: Any,
    on_finding: OnFinding = "warn",
    select: str | Iterable[str] | None = None,
    ignore: str | Iterable[str] | None = None,
    exact: bool | float = False,
    rank_timeout: float = 10.0,
    logger: Any = None,
    include_libraries: bool = False,
) -> Guard:
    """Watch the training that runs inside: a context manager, and a decorator.

    ::

        with gradlint.guard(model, optimizer) as watch:
            train(model, optimizer, loader)
        print(watch.findings)

    Optimizers and modules are found while they are used; naming them lets the guard follow their parameters from
    the first backward pass on.  The training itself is not changed.  Watched is the thread that enters the guard.

    In a distributed training each rank guards itself, and rank 0 tells what all of them found; ``findings`` stays what
    the own rank found.

    Args:
        watched: modules and optimizers, in any order; none are needed.
        on_finding: ``"warn"`` warns once for each mistake when it is seen, and sums up at the end; ``"raise"``
            raises :class:`~gradlint.runtime.session.FindingError`; ``"collect"`` only fills ``findings``; a
            callable is given each new finding, and what it raises reaches the training.
        select: codes, prefixes of codes, or names of the rules to use instead of the default ones.
        ignore: codes, prefixes of codes, or names of the rules to leave out.
        exact: True compares the values saved for backward with those it uses, bit by bit, and so finds changes that
            nothing else notices; a fraction such as ``1 / 20`` does so on a random sample of the steps.  It takes
            hooks on saved tensors; where ``torch.func`` forbids these, nothing is compared.
        rank_timeout: seconds that rank 0 waits at the end for what other ranks found.
        logger: where findings and gradient norms are told as they come: a ``SummaryWriter``, a run of Weights & Biases
            or MLflow or one of these two modules, a function of numbers by name and a step, or a
            :class:`~gradlint.runtime.loggers.Logger`.  A logger that raises is told nothing more.
        include_libraries: tell what is found in code of installed packages, too, which is otherwise only counted, and
            kept in ``library_findings``.  Places are those where your own code calls it.

    Raises:
        ModuleNotFoundError: torch is not installed.
        ValueError: ``on_finding``, ``select`` or ``ignore`` names nothing that exists; ``exact`` is no fraction,
            ``rank_timeout`` no time.
        TypeError: something watched is neither a module nor an optimizer; ``logger`` is none.
    """
    made: Guard = _session().Guard(
        *watched,
        on_finding=on_finding,
        select=select,
        ignore=ignore,
        exact=exact,
        rank_timeout=rank_timeout,
        logger=logger,
        include_libraries=include_libraries,
    )
    return made


def _session() -> Any:
    try:
        import torch  # whether it is there decides between a hint and a real error
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "gradlint.guard watches PyTorch, which is not installed: pip install 'gradlint[runtime]'", name="torch"
        ) from None
    if "gradlint.runtime.session" not in sys.modules:
        from torch.utils._python_dispatch import _disable_current_modes

        # What is computed once, when modules are first imported, is seen by no mode of the program.
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            from . import session  # noqa: F401  found below
    return sys.modules["gradlint.runtime.session"]


def __getattr__(name: str) -> Any:
    if name in ("Guard", "FindingError", "FindingWarning"):
        return getattr(_session(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
