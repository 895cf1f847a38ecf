"""The witnesses of a guard, as the selected rules need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer

from gradlint.events import (
    AveragesSummed,
    BackwardAsked,
    BothSpread,
    DataWritten,
    DropoutCalled,
    EvalMode,
    FirstStep,
    GradientsMeasured,
    GradOfTensorRead,
    GraphRetained,
    HookRegistered,
    LayerBuilt,
    LayersHeld,
    LogTaken,
    LossCalled,
    LostTermAdded,
    ModelStepped,
    ModuleBuilt,
    ModuleRequiresGradSet,
    NeverReached,
    NormDrifts,
    OptimizerChecked,
    OutputMeasured,
    ParametersDrawn,
    ParametersUnchanged,
    PeriodicStep,
    RanksApart,
    RequiresGradSet,
    SavedTensorChanged,
    SchedulerStepped,
    SkipOverwritten,
    StateDictReused,
    StatisticsLeft,
    Step,
    TargetWalked,
    TensorKept,
    UnitsDead,
    UnownedTrained,
    ValueKept,
    WeightsTaken,
)

from .gradients.history import EVENTS as GRADIENT_EVENTS
from .gradients.history import GradientHistory
from .judging import Judge
from .recording import Recording
from .records.ages import Ages
from .records.graph_breaks import GraphBreaks
from .records.modules import KnownModules
from .records.walks import Walks
from .records.writes import Writes
from .witnesses.accumulation import DefeatedAccumulation
from .witnesses.activations import Activations
from .witnesses.attributes import PlainAttributes
from .witnesses.by_hand import UpdatesByHand
from .witnesses.compiled import CompiledLosses
from .witnesses.compiled_dropouts import CompiledDropouts
from .witnesses.datawrites import DataWrites
from .witnesses.dead_units import DeadUnits
from .witnesses.drawing import DrawnParameters
from .witnesses.dropouts import Dropouts
from .witnesses.evaluations import TrainingModeEvaluations, UnwalkedOutputs
from .witnesses.exact import SavedTensors
from .witnesses.flags import ModuleFlags
from .witnesses.frozen_norms import FrozenNorms
from .witnesses.functions import Follower, WatchedFunctions
from .witnesses.gradreads import GradientReads
from .witnesses.graph_breaks import LostGraphs
from .witnesses.hooking import PiledHooks
from .witnesses.inputs import EVENTS as INPUT_EVENTS
from .witnesses.inputs import InputGradients
from .witnesses.keeping import KeptGraphs
from .witnesses.layers import FreshLayers
from .witnesses.micro_batches import MicroBatches
from .witnesses.modes import Modes
from .witnesses.norms import GradientNorms
from .witnesses.origins import Origins
from .witnesses.ownership import Ownership
from .witnesses.passes import BackwardPasses
from .witnesses.repetitions import RepeatedLayers
from .witnesses.replicas import Replicas
from .witnesses.residuals import Residuals
from .witnesses.retention import Retention
from .witnesses.scaling import EVENTS as SCALING_EVENTS
from .witnesses.scaling import Scaling
from .witnesses.schedules import Schedules
from .witnesses.spreading import SpreadComparisons
from .witnesses.states import KeptStates
from .witnesses.statistics import LeftStatistics
from .witnesses.targets import Targets
from .witnesses.terms import LostTerms
from .witnesses.unchanged import UnchangedParameters
from .witnesses.unowned import UnownedParameters

if TYPE_CHECKING:
    import torch

Failed = Callable[[str, Exception], None]
Unwatched = Callable[[], AbstractContextManager[object]]

OF_PASSES = (BackwardAsked, SavedTensorChanged, ModelStepped, NeverReached, EvalMode, ValueKept)


def needed(
    judge: Judge,
    recording: Recording,
    modules: KnownModules,
    things: Sequence[Any],
    exact: float,
    failed: Failed,
    unwatched: Unwatched,
) -> list[object]:
    """The witnesses, in the order in which they are to be told.

    Args:
        judge: knows which events the rules listen to.
        recording: what a report shows.
        modules: those that are known, now and later.
        things: modules and optimizers whose parameters are followed from the beginning.
        exact: the fraction of the steps in which saved tensors are compared bit by bit.
        failed: told what has failed, and how.
        unwatched: what runs in it is told to no guard.
    """
    writes, breaks, ages, walks = Writes(), GraphBreaks(), Ages(), Walks()
    lost = LostGraphs(judge, breaks)
    witnesses: list[object] = [recording, ages]
    recording.graphs_alive = ages.alive
    optimizers = [thing for thing in things if isinstance(thing, Optimizer)]
    by_hand: list[UpdatesByHand] = []
    ownership = Ownership(judge, modules, recording, optimizers) if judge.listens(OptimizerChecked) else None
    witnesses += [ownership] if ownership is not None else []
    if judge.listens(*GRADIENT_EVENTS, *OF_PASSES, OptimizerChecked):
        history = GradientHistory(judge, modules, ownership)
        history.watch(_parameters(things))
        if judge.follows(Step):
            by_hand.append(UpdatesByHand(history, writes))
            witnesses += by_hand  # before the history: what was applied, and then cleared, is told in this order
        witnesses += [BackwardPasses(judge, writes, breaks, ages), history, Modes(judge)]
        if judge.listens(*SCALING_EVENTS):
            witnesses.append(Scaling(history))
    witnesses.append(walks)
    made: tuple[tuple[bool, Callable[[], object]], ...] = (
        (judge.listens(ValueKept), lambda: KeptGraphs(judge, ages)),
        (judge.listens(OutputMeasured), lambda: UnwalkedOutputs(judge, walks)),
        (judge.listens(GraphRetained), lambda: Retention(judge, walks)),
        (judge.listens(ModuleBuilt, TensorKept), lambda: PlainAttributes(judge, modules)),
        (judge.listens(LayerBuilt), lambda: FreshLayers(judge)),
        (judge.listens(LayersHeld), lambda: RepeatedLayers(judge)),
        (judge.listens(ModuleRequiresGradSet), lambda: ModuleFlags(judge)),
        (judge.listens(FirstStep), lambda: Schedules(judge)),
        (judge.listens(AveragesSummed, SchedulerStepped), lambda: MicroBatches(judge, optimizers)),
        (judge.listens(HookRegistered), lambda: PiledHooks(judge)),
        (judge.listens(StatisticsLeft), lambda: LeftStatistics(judge, modules, optimizers)),
        (bool(judge.follows(*INPUT_EVENTS)), lambda: InputGradients(judge)),
        (exact > 0 and judge.listens(SavedTensorChanged), lambda: SavedTensors(judge, exact, writes, failed)),
        (judge.listens(BackwardAsked), lambda: lost),
        (judge.listens(DropoutCalled), lambda: CompiledDropouts(judge)),
    )
    witnesses += _of_parameters(judge, recording, modules, Origins(unwatched, always=exact > 0))
    witnesses += [build() for is_needed, build in made if is_needed]
    others = _of_targets(judge, walks, modules, optimizers)
    return witnesses + _of_functions(judge, writes, lost, by_hand, others, failed)


def _of_parameters(judge: Judge, recording: Recording, modules: KnownModules, origins: Origins) -> list[object]:
    """What looks at parameters, at their gradients, and at what layers give."""
    norms = judge.listens(GradientsMeasured) or recording.on_norms is not None
    made: tuple[tuple[bool, Callable[[], object]], ...] = (
        (judge.listens(NormDrifts), lambda: FrozenNorms(judge)),
        (judge.listens(ParametersDrawn), lambda: DrawnParameters(judge)),
        (judge.listens(StateDictReused, WeightsTaken), lambda: KeptStates(judge)),
        (judge.listens(ParametersUnchanged), lambda: UnchangedParameters(judge, modules)),
        (judge.listens(UnitsDead), lambda: DeadUnits(judge, modules)),
        (judge.listens(RanksApart), lambda: Replicas(judge, modules)),
        (judge.listens(GradientsMeasured), lambda: origins),
        (norms, lambda: GradientNorms(judge, modules, recording, origins)),
    )
    return [build() for is_needed, build in made if is_needed]


def _of_targets(judge: Judge, walks: Walks, modules: KnownModules, optimizers: list[Optimizer]) -> list[Follower]:
    """What follows predictions to what they are compared with, and parameters to who steps them."""
    made: tuple[tuple[bool, Callable[[], Follower]], ...] = (
        (judge.listens(TargetWalked), lambda: Targets(judge, walks, optimizers)),
        (judge.listens(BothSpread), lambda: SpreadComparisons(judge, walks)),
        (judge.listens(LostTermAdded), lambda: LostTerms(judge)),
        (judge.listens(SkipOverwritten), lambda: Residuals(judge)),
        (judge.listens(UnownedTrained), lambda: UnownedParameters(judge, modules, optimizers)),
    )
    return [build() for is_needed, build in made if is_needed]


def _of_functions(
    judge: Judge,
    writes: Writes,
    lost: LostGraphs,
    by_hand: list[UpdatesByHand],
    others: list[Follower],
    failed: Failed,
) -> list[object]:
    """Those that watch functions of torch."""
    evaluations = [TrainingModeEvaluations(judge)] if judge.listens(OutputMeasured) else []
    accumulations = [DefeatedAccumulation(judge)] if judge.follows(PeriodicStep) else []
    activations = [Activations(judge)] if judge.listens(LossCalled, LogTaken) else []
    made: tuple[tuple[bool, Callable[[], Follower]], ...] = (
        (judge.listens(BackwardAsked, RequiresGradSet), lambda: lost),
        (judge.listens(GradOfTensorRead), lambda: GradientReads(judge)),
        (judge.listens(DropoutCalled), lambda: Dropouts(judge)),
        (judge.listens(DataWritten, SavedTensorChanged) or bool(by_hand), lambda: DataWrites(judge, writes)),
    )
    witnesses: list[Follower] = [*evaluations, *accumulations, *activations, *others]
    followers = [*witnesses, *by_hand] + [build() for is_needed, build in made if is_needed]
    if not followers:
        return []
    functions = WatchedFunctions(writes, failed, followers)
    for evaluation in evaluations:
        evaluation.insist = functions.insist
    compiled = [CompiledLosses(judge, one.know, functions.watch_between) for one in activations]
    return [functions, *witnesses, *compiled]


def _parameters(watched: Iterable[Any]) -> list[torch.Tensor]:
    parameters: dict[int, torch.Tensor] = {}
    for thing in watched:
        if isinstance(thing, Optimizer):
            found = [parameter for group in thing.param_groups for parameter in group["params"]]
        else:
            found = list(thing.parameters())
        parameters.update((id(parameter), parameter) for parameter in found)
    return list(parameters.values())
