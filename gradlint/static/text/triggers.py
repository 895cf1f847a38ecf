"""Triggers: what source text must mention for an event to come of it, and so for a rule to have anything to say.

The names are those of the torch table.  A trigger never says that something happens, only that it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntFlag, auto
from functools import cached_property, lru_cache
from typing import Final

from gradlint import events
from gradlint.events import Event
from gradlint.protocol import Protocol, Violating
from gradlint.rule import Rule
from gradlint.static import EVENTS
from gradlint.static.knowledge.guesses import OPTIMIZER_NAME
from gradlint.static.knowledge.torch_table import (
    CALLBACK_BASES,
    CLEARING,
    CLIPS,
    CONVERTING_LIBRARIES,
    DEPRECATED_INITS,
    DERIVATIVES,
    DROPOUTS,
    FILLED_ARRAYS,
    FUNCTION_BASES,
    FUNCTIONS,
    GRAD_MODES,
    HOOKING,
    INITS,
    LAYERS,
    LOSSES,
    METHODS,
    MODULE_BASES,
    OPTIMIZERS,
    PICKLES,
    SCALERS,
    SOFTMAX_DIMS,
    WALKS,
    builds_module,
    canonical,
    conversion,
    is_module_class,
)
from gradlint.static.text.chains import Chain, chains_in


class Feature(IntFlag):
    """Something that a text mentions."""

    BACKWARD = auto()
    DERIVATIVE = auto()  #: gradients that are handed back, not accumulated
    RETAINS = auto()
    STEP = auto()
    OPTIMIZER = auto()
    GRADIENT = auto()
    CLIPS = auto()
    SCALER = auto()
    MODE = auto()
    GRAD_MODE = auto()
    LOSS = auto()
    DROPOUT = auto()
    DATA = auto()
    IN_PLACE = auto()
    AUGMENTED = auto()  #: an augmented assignment, or one to what stands in brackets
    PARAMETERS = auto()
    SNAPSHOT = auto()  #: a state dict
    TRAINABLE = auto()  #: something that has parameters, or a graph
    CUDA = auto()
    REQUIRES_GRAD = auto()
    NUMBER = auto()
    MAKES = auto()  #: a tensor made of nothing
    MOVE = auto()
    NUMPY = auto()
    SHARING = auto()  #: an array that shares its memory with a tensor, where something is changed
    FORWARD = auto()
    FUNCTION = auto()
    SOFTMAX = auto()
    GUESSED = auto()  #: a softmax that is not told its dimension
    LOGARITHM = auto()
    VARIABLE = auto()
    OLD_INIT = auto()
    PICKLE = auto()
    DISCARDED = auto()  #: a statement that calls a method which gives a new tensor, or that names one which acts
    MODULE = auto()  #: a class that is a module
    SUPER = auto()  #: a class whose ``__init__`` does not begin with that of its base
    CONTAINER = auto()  #: a class that keeps a list, tuple or dict of things
    PLAIN = auto()  #: a class that makes tensors while it is built
    MISSPELT = auto()  #: an assignment to an attribute that is nearly ``requires_grad``
    HOLDS = auto()  #: a container of layers that are given in order
    HOOKS = auto()  #: a hook is registered on a module
    REPEATED = auto()  #: a list or tuple that is multiplied
    CONVERTED = auto()  #: a parameter that is converted where it is made
    BUILT = auto()  #: a class whose forward pass builds layers
    SAVING = auto()  #: an operation whose backward needs its output
    OVERWRITES = auto()  #: an activation or a dropout that may overwrite what it is given
    CLEARS = auto()  #: gradients may be dropped
    AMENDED = auto()  #: a name that is multiplied or divided in place, or that something is added to
    KEEPS = auto()  #: something is put into a container


ASIDE: Final = (
    Feature.NUMBER
    | Feature.NUMPY
    | Feature.AUGMENTED
    | Feature.AMENDED
    | Feature.LOGARITHM
    | Feature.MAKES
    | Feature.SHARING
    | Feature.PICKLE
    | Feature.DISCARDED
    | Feature.REPEATED
    | Feature.KEEPS
    | Feature.CLEARS
)
"""What code mentions that has to do neither with modules nor with gradients, or is told by other features as well."""

_WALKED: Final = Feature.BACKWARD | Feature.DERIVATIVE
_GRAPHS: Final = _WALKED | Feature.LOSS | Feature.MODE

NEEDS: Final[Mapping[type[Event], tuple[Feature, ...]]] = {
    events.Backward: (_WALKED,),
    events.BackwardAsked: (_WALKED,),
    events.SavedTensorChanged: (
        _WALKED | Feature.IN_PLACE | Feature.AUGMENTED | Feature.AMENDED,
        _WALKED | Feature.MODULE,  # whose output will be walked, if not here
        _WALKED | Feature.SAVING,
    ),
    events.ValueKept: (_WALKED,),
    events.GraphKept: (_GRAPHS | Feature.TRAINABLE, _GRAPHS | Feature.KEEPS | Feature.AUGMENTED),
    events.GradientsAccumulated: (Feature.BACKWARD,),
    events.GraphRetained: (_WALKED, Feature.RETAINS),
    events.GradientsScaled: (_WALKED, Feature.SCALER),
    events.ScalerStepped: (Feature.STEP, Feature.SCALER),
    events.ScalerUpdated: (Feature.SCALER,),
    events.Step: (Feature.STEP | Feature.GRADIENT, Feature.OPTIMIZER | Feature.GRADIENT),
    events.WeightsUpdated: (Feature.STEP | Feature.GRADIENT, Feature.OPTIMIZER | Feature.GRADIENT),
    events.GradientsLeft: (Feature.STEP, Feature.OPTIMIZER),
    events.AppliedElsewhere: (Feature.STEP, Feature.OPTIMIZER),
    events.LossRepeated: (Feature.BACKWARD,),
    events.PeriodicStep: (Feature.STEP, Feature.OPTIMIZER),
    events.StepBehindLoop: (Feature.STEP, Feature.OPTIMIZER),
    events.SchedulerStepped: (Feature.STEP, Feature.OPTIMIZER),
    events.ScheduledElsewhere: (Feature.STEP, Feature.OPTIMIZER),
    events.AveragesSummed: (Feature.STEP, Feature.OPTIMIZER),
    events.ParametersDrawn: (Feature.PARAMETERS,),
    events.StateDictReused: (Feature.SNAPSHOT,),
    events.WeightsTaken: (Feature.SNAPSHOT | Feature.PARAMETERS,),
    events.FirstStep: (Feature.STEP, Feature.OPTIMIZER),
    events.OptimizerChecked: (Feature.STEP, Feature.OPTIMIZER),
    events.UnownedTrained: (Feature.STEP, Feature.OPTIMIZER),
    events.StatisticsLeft: (Feature.PARAMETERS, Feature.MODE),
    events.NormDrifts: (Feature.STEP, Feature.OPTIMIZER),
    events.GradientsClipped: (Feature.CLIPS | Feature.GRADIENT,),
    events.TrainMode: (Feature.MODE,),
    events.EvalMode: (Feature.MODE,),
    events.OutputMeasured: (Feature.MODE | Feature.GRAD_MODE | Feature.PICKLE,),
    events.InputFed: (Feature.REQUIRES_GRAD | Feature.VARIABLE,),
    events.InputDone: (Feature.REQUIRES_GRAD | Feature.VARIABLE,),
    events.LossCalled: (Feature.LOSS,),
    events.TargetWalked: (_WALKED,),
    events.LostTermAdded: (_WALKED,),
    events.SkipOverwritten: (Feature.OVERWRITES,),
    events.BothSpread: (Feature.LOSS | _WALKED,),
    events.DropoutCalled: (Feature.MODULE, Feature.DROPOUT | Feature.BUILT),
    events.LayersHeld: (Feature.HOLDS, Feature.REPEATED),
    events.LayerBuilt: (Feature.MODULE, Feature.BUILT),
    events.HookRegistered: (Feature.HOOKS,),
    events.DataWritten: (Feature.DATA,),
    events.DataRead: (Feature.DATA,),
    events.ChangedInPlace: (Feature.IN_PLACE | Feature.AUGMENTED, Feature.PARAMETERS | Feature.REQUIRES_GRAD),
    events.GradOfTensorRead: (Feature.GRADIENT,),
    events.RequiresGradSet: (Feature.REQUIRES_GRAD,),
    events.AttributeMisspelt: (Feature.MISSPELT,),
    events.ModuleRequiresGradSet: (Feature.REQUIRES_GRAD,),
    events.ResultDiscarded: (Feature.DISCARDED,),
    events.MethodNamed: (Feature.DISCARDED,),
    events.NumberTaken: (Feature.NUMBER, Feature.MAKES | Feature.TRAINABLE | Feature.LOSS),
    events.MovedToCuda: (Feature.MOVE,),
    events.ConvertedToNumpy: (
        Feature.NUMPY,
        Feature.TRAINABLE | Feature.PARAMETERS | Feature.CUDA | Feature.MODE | Feature.DISCARDED | _WALKED,
    ),
    events.SharedMemoryChanged: (Feature.SHARING,),
    events.SuperInit: (Feature.MODULE, Feature.SUPER),
    events.SuperCalled: (Feature.MODULE, Feature.SUPER),
    events.SetsLayer: (Feature.MODULE, Feature.SUPER),
    events.ModuleBuilt: (Feature.MODULE, Feature.CONTAINER, Feature.TRAINABLE),
    events.TensorKept: (Feature.MODULE, Feature.REQUIRES_GRAD | Feature.CONVERTED),
    events.PlainTensorUsed: (Feature.MODULE, Feature.PLAIN),
    events.ForwardInvoked: (Feature.FORWARD,),
    events.FunctionDefined: (Feature.FUNCTION,),
    events.GradientsReturned: (Feature.FUNCTION,),
    events.KeptOnContext: (Feature.FUNCTION,),
    events.FunctionUsed: (Feature.FUNCTION,),
    events.SoftmaxCalled: (Feature.GUESSED,),
    events.LogTaken: (Feature.LOGARITHM, Feature.SOFTMAX),
    events.DeprecatedUsed: (Feature.VARIABLE | Feature.OLD_INIT | Feature.DATA,),
    events.Saved: (Feature.PICKLE,),
    events.Loaded: (Feature.PICKLE,),
    events.ModuleLoaded: (Feature.PICKLE,),
}
"""For an event, features each of which must be there; of those joined by ``|``, one.  Other events need nothing."""


class Triggers:
    """Tells which rules may have something to say about a text, by its features."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self._rules = tuple(rules)
        self._known: dict[Feature, bool] = {}
        self._beginning: dict[tuple[Feature, Feature], bool] = {}

    def any(self, features: Feature) -> bool:
        """Whether any rule may report what comes of a text with these features, whatever more it may have."""
        known = self._known.get(features)
        if known is None:
            protocols = (protocol for rule in self._rules for protocol in rule.protocols)
            known = self._known[features] = (
                bool(features & Feature.BACKWARD)
                or any(_may_violate(each, features) for each in protocols)
                or any(_may_happen(event, features) for rule in self._rules for event in rule.checks)
            )
        return known

    def begin(self, features: Feature, near: Feature) -> bool:
        """Whether an event that a rule listens to may begin in a text with these features, given those near by."""
        known = self._beginning.get((features, near))
        if known is None:
            known = self._beginning[features, near] = any(
                _may_begin(event, features, near)
                for rule in self._rules
                for event in frozenset(rule.checks).union(*(protocol.judged for protocol in rule.protocols))
            )
        return known


_WALK: Final = re.compile(rf"(?<!def )\b(?:{'|'.join(sorted(WALKS))})\s*\(")


def walks_in(text: str) -> bool:
    """Whether a text calls for backward passes; one that hands the method on is not seen."""
    if not any(word in text for word in WALKS) or _WALK.search(text) is None:
        return False
    return any(chain.called and chain.parts[-1] in WALKS for chain in chains_in(text))  # not in a comment or string


def _may_happen(event: type[Event], features: Feature) -> bool:
    return event in EVENTS and all(features & needed for needed in NEEDS.get(event, ()))


def _may_begin(event: type[Event], features: Feature, near: Feature) -> bool:
    """Whether an event may happen by what a text mentions itself first of all, and for the rest what is near by."""
    if event not in EVENTS:
        return False
    first, *rest = NEEDS.get(event, (features,))
    there = features if first is Feature.MODULE else near  # of a class as a whole
    return bool(features & first) and all(there & needed for needed in rest)


def _may_violate(protocol: Protocol, features: Feature) -> bool:
    """Whether a violation can be reached by the events that may happen."""
    reached, frontier = {protocol.start.state}, [protocol.start.state]
    while frontier:
        here = frontier.pop()
        for (state, event), target in protocol.transitions.items():
            if state != here or not _may_happen(event, features):
                continue
            if isinstance(target, Violating):
                return True
            if target not in reached:
                reached.add(target)
                frontier.append(target)
    return False


# --- single chains ---------------------------------------------------------------------------------------------

ANYWHERE, BEHIND_A_DOT, OF_ANOTHER, AS_METHOD = "anywhere", "behind a dot", "of another than self", "called as method"


def _last(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


# Features as plain numbers: those of a text are put together name by name, and flags take ten times as long.
_NAMES: Final[dict[str, list[tuple[int, str]]]] = {}
_FUNCTIONS: Final[dict[str, list[tuple[int, Callable[[str], bool]]]]] = {}


def _mentions(feature: Feature, names: Iterable[str], form: str = ANYWHERE) -> None:
    for name in names:
        _NAMES.setdefault(name, []).append((feature.value, form))


def _resolves(feature: Feature, table: Iterable[str], test: Callable[[str], bool] | None = None) -> None:
    known = frozenset(table)
    for last in _last(known):
        _FUNCTIONS.setdefault(last, []).append((feature.value, test or known.__contains__))


_mentions(Feature.KEEPS, ["append", "appendleft", "extend", "insert", "setdefault"], BEHIND_A_DOT)
_mentions(Feature.BACKWARD, WALKS)
_mentions(Feature.RETAINS, ["retain_graph", "create_graph"])
_mentions(Feature.STEP, ["step"], BEHIND_A_DOT)
_OPTIMIZER_CLASSES: Final = _last(OPTIMIZERS)
_mentions(Feature.OPTIMIZER, _OPTIMIZER_CLASSES)
_mentions(Feature.GRADIENT, ["grad"], BEHIND_A_DOT)
_mentions(Feature.CLEARS, CLEARING)
_mentions(Feature.CLIPS, _last(CLIPS))
_mentions(Feature.SCALER, _last(SCALERS))
_mentions(Feature.SCALER, ["scale", "scale_loss"], BEHIND_A_DOT)
_mentions(Feature.MODE, ["eval", "train"], AS_METHOD)
_mentions(Feature.GRAD_MODE, _last(GRAD_MODES))
_mentions(Feature.LOSS, _last(LOSSES))
_mentions(Feature.DATA, ["data"], OF_ANOTHER)
_mentions(Feature.PARAMETERS, ["Parameter", "parameters", "named_parameters"])
_mentions(Feature.HOOKS, HOOKING, BEHIND_A_DOT)
_mentions(Feature.SNAPSHOT, ["state_dict"], BEHIND_A_DOT)
_mentions(Feature.PARAMETERS, ["weight", "bias"], BEHIND_A_DOT)
_mentions(Feature.TRAINABLE, ["Module", *_last(CALLBACK_BASES)])
_mentions(Feature.TRAINABLE, _last(name for name, layer in LAYERS.items() if layer.parameters))
_mentions(
    Feature.TRAINABLE, ["Parameter", "parameters", "named_parameters", "requires_grad", "requires_grad_", "backward"]
)
_mentions(Feature.HOLDS, ["ModuleList", "Sequential"])
_mentions(Feature.REQUIRES_GRAD, ["requires_grad", "requires_grad_"])
_mentions(Feature.NUMBER, ["item"], OF_ANOTHER)
_mentions(Feature.MOVE, ["cuda"], BEHIND_A_DOT)
_mentions(Feature.NUMPY, ["numpy"], OF_ANOTHER)
_mentions(Feature.SHARING, ["numpy"], OF_ANOTHER)
_mentions(Feature.SHARING, ["from_numpy", "as_tensor"])
_mentions(Feature.FORWARD, ["forward"], OF_ANOTHER)
_mentions(Feature.FUNCTION, _last(FUNCTION_BASES))
_mentions(Feature.SOFTMAX, _last(SOFTMAX_DIMS))
_mentions(Feature.LOGARITHM, ["log"])
_mentions(Feature.VARIABLE, ["Variable", "volatile"])
_mentions(Feature.IN_PLACE, (name for name, op in METHODS.items() if op.inplace), BEHIND_A_DOT)
_mentions(Feature.SAVING, (name for name, op in METHODS.items() if op.saves in ("output", "both")))
_mentions(Feature.SAVING, _last(name for name, op in FUNCTIONS.items() if op.saves in ("output", "both")))
_mentions(Feature.SAVING, _last(name for name, layer in LAYERS.items() if layer.op.saves in ("output", "both")))
_resolves(Feature.DERIVATIVE, DERIVATIVES)
_resolves(Feature.DROPOUT, DROPOUTS)
_resolves(Feature.OLD_INIT, DEPRECATED_INITS)
_resolves(Feature.PICKLE, PICKLES)


def names_optimizer(text: str, others: Collection[str]) -> bool:
    """Whether a text builds an optimizer, or has a variable with the name of one that is not among ``others``."""
    chains = chains_in(text)
    variables = {chain.parts[0] for chain in chains}.difference(others)
    built = any(chain.called and chain.parts[-1] in _OPTIMIZER_CLASSES for chain in chains)
    return built or any(map(OPTIMIZER_NAME.search, variables))


@dataclass(frozen=True)
class Foreign:
    """What a file imports from outside of the project."""

    names: Mapping[str, str]  #: each name, and what it means
    star: bool = False  #: all names of a module are imported
    hidden: frozenset[str] = frozenset()  #: names that other files of the project give, which may have imported them

    @cached_property
    def converts(self) -> bool:
        """Whether libraries are among it whose objects turn what their methods are given into arrays."""
        return any(name.partition(".")[0] in CONVERTING_LIBRARIES for name in self.names.values())


_IN_PLACE, _NUMPY = Feature.IN_PLACE.value, Feature.NUMPY.value
_MAKES, _TRAINABLE = Feature.MAKES.value, Feature.TRAINABLE.value


def features_of(chains: Iterable[Chain], foreign: Foreign) -> Feature:
    """What chains of names alone tell, in a file with these imports."""
    found = 0
    for chain in chains:
        of_names = _of_names(chain)
        imported = foreign.names.get(chain.parts[0])
        if imported is None:
            found |= of_names | _of_unknown(chain, foreign)
            continue
        name = _function(chain, foreign.names) or ""
        if name in INITS:
            of_names &= ~_IN_PLACE
        found |= of_names | _of_function(name, chain.parts[-1], imported.rpartition(".")[2])
    return Feature(found)


def _of_names(chain: Chain) -> int:
    """What the names of a chain tell, each by itself and by where it stands."""
    found = 0
    for place, part in enumerate(chain.parts):
        for feature, form in _rows(part):
            if form is ANYWHERE or (place and _has_form(form, chain, place)):
                found |= feature
    return found


@lru_cache(maxsize=8192)
def _rows(name: str) -> tuple[tuple[int, str], ...]:
    """What a name tells, and where it has to stand for that."""
    optimizer = [(Feature.OPTIMIZER.value, ANYWHERE)] if OPTIMIZER_NAME.search(name) else []
    return (*_NAMES.get(name, ()), *optimizer)


def _of_unknown(chain: Chain, foreign: Foreign) -> int:
    """What a chain may mean that does not begin with what is imported from outside."""
    parts = chain.parts
    found = 0
    rows = _FUNCTIONS.get(parts[-1])
    if rows and chain.called and (not parts[0] or parts[0] in foreign.hidden or (foreign.star and len(parts) == 1)):
        for feature, _ in rows:
            found |= feature
    return found | _NUMPY if chain.called and len(parts) > 1 and foreign.converts else found


@lru_cache(maxsize=4096)
def _of_function(name: str, last: str, meant: str) -> int:
    """What a name (canonical) tells; the last of those it is spelled with, and the first by what it was imported as."""
    found = 0
    for feature, test in _FUNCTIONS.get(last, ()):
        found |= feature if test(name) else 0
    for feature, form in _NAMES.get(meant, ()):
        found |= feature if form is ANYWHERE else 0
    if name in FILLED_ARRAYS or conversion(name) is not None:
        found |= _NUMPY
    if _makes_tensor(name):
        found |= _MAKES
    return found | _TRAINABLE if builds_module(name) else found


def _has_form(form: str, chain: Chain, place: int) -> bool:
    """Whether a name stands behind a dot in a chain as it has to."""
    if form is OF_ANOTHER:
        return place > 1 or chain.parts[0] not in ("self", "super")
    return form is not AS_METHOD or (chain.called and place == len(chain.parts) - 1)


def _function(chain: Chain, imports: Mapping[str, str]) -> str | None:
    full = chain.resolved(imports)
    return None if full is None else canonical(full)


def makes_tensor(chain: Chain, foreign: Foreign) -> bool:
    """Whether a chain of names means a function of torch that makes a tensor of nothing."""
    name = _function(chain, foreign.names)
    return name is not None and _makes_tensor(name)


def _makes_tensor(name: str) -> bool:
    op = FUNCTIONS.get(name)
    return op is not None and (op.grad == "argument" or op.device == "argument")


def is_module_base(chain: Chain, foreign: Foreign) -> bool:
    """Whether a class with this base is a module, as far as can be told from the names alone."""
    name = _function(chain, foreign.names)
    if name is None:
        return foreign.star and chain.parts[0] == "Module"
    return name in MODULE_BASES or name in LAYERS or name in LOSSES or is_module_class(name)


def is_layer(chain: Chain, foreign: Foreign) -> bool:
    """Whether a chain of names means a layer that has parameters, or drops."""
    name = _function(chain, foreign.names)
    if name is None and foreign.star and len(chain.parts) == 1:
        name = f"torch.nn.{chain.parts[0]}"
    layer = LAYERS.get(name) if name is not None else None
    return layer is not None and (layer.parameters or layer.dropout)
