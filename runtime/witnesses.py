"""The witnesses of a guard, as the selected rules need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer

from gradlint.events import (
    BackwardAsked,
    EvalMode,
    FirstStep,
    GradientsMeasured,
    GraphRetained,
    LayerBuilt,
    ModelStepped,
    ModuleBuilt,
    ModuleRequiresGradSet,
    NeverReached,
    OptimizerChecked,
    OutputMeasured,
    PeriodicStep,
    SavedTensorChanged,
    TensorKept,
    ValueKept,
)

from .accumulation import DefeatedAccumulation
from .ages import Ages
from .attributes import PlainAttributes
from .cuts import Cuts
from .datawrites import Writes
from .evaluations import TrainingModeEvaluations, UnwalkedOutputs
from .exact import SavedTensors
from .flags import ModuleFlags
from .functions import EVENTS as WATCHED
from .functions import Follower, WatchedFunctions
from .gradients import EVENTS as GRADIENT_EVENTS
from .gradients import GradientHistory
from .inputs import EVENTS as INPUT_EVENTS
from .inputs import InputGradients
from .judging import Judge
from .keeping import KeptGraphs
from .layers import FreshLayers
from .modes import Modes
from .modules import KnownModules
from .norms import GradientNorms
from .ownership import Ownership
from .passes import BackwardPasses
from .recording import Recording
from .retention import Retention
from .scaling import EVENTS as SCALING_EVENTS
from .scaling import Scaling
from .schedules import Schedules
from .walks import Walks

if TYPE_CHECKING:
    import torch

Failed = Callable[[str, Exception], None]

OF_PASSES = (BackwardAsked, SavedTensorChanged, ModelStepped, NeverReached, EvalMode, ValueKept)


def needed(
    judge: Judge, recording: Recording, modules: KnownModules, things: Sequence[Any], exact: float, failed: Failed
) -> list[object]:
    """The witnesses, in the order in which they are to be told.

    Args:
        judge: knows which events the rules listen to.
        recording: what a report shows.
        modules: those that are known, now and later.
        things: modules and optimizers whose parameters are followed from the beginning.
        exact: the fraction of the steps in which saved tensors are compared bit by bit.
        failed: told what has failed, and how.
    """
    writes, cuts, ages, walks = Writes(), Cuts(judge), Ages(), Walks()
    witnesses: list[object] = [recording, ages]
    recording.ages = ages
    ownership = None
    if judge.listens(OptimizerChecked):
        ownership = Ownership(judge, modules, recording, [thing for thing in things if isinstance(thing, Optimizer)])
        witnesses.append(ownership)
    if judge.listens(*GRADIENT_EVENTS, *OF_PASSES, OptimizerChecked):
        history = GradientHistory(judge, modules, ownership)
        history.watch(_parameters(things))
        witnesses += [BackwardPasses(judge, writes, cuts, ages), history, Modes(judge)]
        if judge.listens(*SCALING_EVENTS):
            witnesses.append(Scaling(history))
    witnesses.append(walks)
    made: tuple[tuple[bool, Callable[[], object]], ...] = (
        (judge.listens(ValueKept), lambda: KeptGraphs(judge, ages)),
        (judge.listens(OutputMeasured), lambda: UnwalkedOutputs(judge, walks)),
        (judge.listens(GraphRetained), lambda: Retention(judge, walks)),
        (judge.listens(ModuleBuilt, TensorKept), lambda: PlainAttributes(judge, modules)),
        (judge.listens(LayerBuilt), lambda: FreshLayers(judge)),
        (judge.listens(ModuleRequiresGradSet), lambda: ModuleFlags(judge)),
        (judge.listens(FirstStep), lambda: Schedules(judge)),
        (judge.listens(GradientsMeasured), lambda: GradientNorms(judge, modules, recording)),
        (bool(judge.follows(*INPUT_EVENTS)), lambda: InputGradients(judge)),
        (exact > 0 and judge.listens(SavedTensorChanged), lambda: SavedTensors(judge, exact, writes, failed)),
        (judge.listens(BackwardAsked), lambda: cuts),
    )
    witnesses += [build() for is_needed, build in made if is_needed]
    return witnesses + _of_functions(judge, writes, cuts, failed)


def _of_functions(judge: Judge, writes: Writes, cuts: Cuts, failed: Failed) -> list[object]:
    """Those that watch functions of torch."""
    evaluations = [TrainingModeEvaluations(judge)] if judge.listens(OutputMeasured) else []
    followers: list[Follower] = [*evaluations]
    if judge.follows(PeriodicStep):
        followers.append(DefeatedAccumulation(judge))
    if not followers and not judge.listens(*WATCHED):
        return []
    functions = WatchedFunctions(judge, writes, cuts, failed, followers)
    for evaluation in evaluations:
        evaluation.insist = functions.insist
    return [functions, *followers]


def _parameters(watched: Iterable[Any]) -> list[torch.Tensor]:
    parameters: dict[int, torch.Tensor] = {}
    for thing in watched:
        if isinstance(thing, Optimizer):
            found = [parameter for group in thing.param_groups for parameter in group["params"]]
        else:
            found = list(thing.parameters())
        parameters.update((id(parameter), parameter) for parameter in found)
    return list(parameters.values())
