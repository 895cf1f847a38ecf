"""Events of training: gradients, graphs, optimizers, scalers and the modes of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradlint.events.base import Event, Tensor
from gradlint.facts import Fact, unknown
from gradlint.finding import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(Event):
    """A backward pass.  Touches the parameter groups whose ``.grad`` it adds to."""

    root: Tensor
    retain_graph: Fact[bool] = field(default_factory=unknown)
    create_graph: Fact[bool] = field(default_factory=unknown)
    gradient_given: Fact[bool] = field(default_factory=unknown)
    accumulates: bool = True  #: False for ``torch.autograd.grad``, which returns gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardAsked(Event):
    """``backward()`` was called, whether it can run or raises."""

    root: Tensor
    gradient_given: Fact[bool] = field(default_factory=unknown)
    noticed: Fact[bool] = field(default_factory=unknown)  #: autograd noticed that it cannot run, and raised
    stackable: Fact[bool] = field(default_factory=unknown)  #: where the root was cut, losses in a list were copied


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Event):
    """An optimizer applied gradients.  Touches the parameter groups it owns."""

    optimizer: str = ""  #: as the source spells it, or the class name
    by_hand: bool = False  #: the user's own code did
    prepared: Fact[bool] = field(default_factory=unknown)  #: a backward pass reached its parameters since its last step


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersDrawn(Event):
    """Something went through all parameters that an iterator or a list gives."""

    by: str  #: what did: ``clip_grad_norm_``, ``SGD``, ``list``, ``this loop``
    used_up: Fact[bool] = field(default_factory=unknown)  #: it is an iterator, and had come to its end before
    used_up_at: Site | None = None  #: where it had
    opened_at: Site | None = None  #: the call that makes the iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDictReused(Event):
    """A state dict, given here, is used after the parameters whose memory it shares were changed."""

    by: str  #: "load" or "save"
    used_at: Site
    own: Fact[bool] = field(default_factory=unknown)  #: it is loaded into the very module that gave it
    chosen: Fact[bool] = field(default_factory=unknown)  #: it was taken on a condition: as that of the best model
    changed_at: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsTaken(Event):
    """A module is given the weights of another one: as a whole, or one by one beside them."""

    by: str  #: "load" for a state dict, "pairs" for parameters in pairs
    own: Fact[bool] = field(default_factory=unknown)  #: that other one is the module itself
    built_at: Site | None = None  #: where the module was built


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStep(Event):
    """An optimizer stepped for the first time, or for the first time since it has a scheduler."""

    scheduled_at: Site | None = None  #: where a scheduler of it had been stepped before


class WeightsUpdated(Event):
    """An optimizer made a step.

    Touches the parameter groups it owns, and where neither is known and there is no other optimizer, those that it is
    presumed to own.
    """

    __slots__ = ()


class GradientsDropped(Event):
    """Gradients were cleared.  Touches what :class:`WeightsUpdated` does."""

    __slots__ = ()


class GradientsAccumulated(Event):
    """A backward pass runs, not only in every k-th iteration.

    Touches what :class:`Backward` does, and is sent before it.
    """

    __slots__ = ()


class GradientsLeft(Event):
    """An optimizer applied gradients of a backward pass that has reached parameters of others, too.

    Touches those others: what the pass has left there was not made for them, or is applied by a step of their own.
    """

    __slots__ = ()


class AppliedElsewhere(Event):
    """An optimizer applied gradients that were handed to its parameters.  Touches those that they are the gradients of.

    Its own parameters have changed, not these; and these still have the gradients, which its ``zero_grad()`` leaves.
    """

    __slots__ = ()


class LossRepeated(Event):
    """A backward pass is made where the last one was that reached these parameters.  Sent before :class:`Backward`."""

    __slots__ = ()


class GradientsAssigned(Event):
    """Gradients were set, or changed, by the program itself: ``parameter.grad = value``."""

    __slots__ = ()


class GradientsDiscarded(Event):
    """Gradients are cleared, not only in every k-th iteration.  Sent before :class:`Cleared`."""

    __slots__ = ()


class DiscardedElsewhere(Event):
    """What was discarded last was not discarded in the loop that is about to step.

    Sent before :class:`PeriodicStep`.
    """

    __slots__ = ()


class PeriodicStep(Event):
    """An optimizer steps in every k-th iteration only.  Sent before :class:`Step`."""

    __slots__ = ()


class SchedulerStepped(Event):
    """A scheduler of an optimizer is stepped, not only in every k-th iteration.  Touches what that optimizer owns.

    It is not sent where the scheduler may have been built for the number of batches.
    """

    __slots__ = ()


class ScheduledElsewhere(Event):
    """The scheduler that was stepped last was not stepped in the loop that is about to step.

    Sent before :class:`PeriodicStep`.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragesSummed(Event):
    """An optimizer steps in every k-th iteration, by the sum of the gradients of averages over a batch each.

    Nothing has divided them, and the optimizer goes as far as gradients are large, or they were clipped.  ``site`` is
    the last backward pass.
    """

    stepped_at: Site | None = None


class StepBehindLoop(Event):
    """An optimizer steps behind a loop, in each iteration of which gradients were cleared, and computed after that.

    Nothing has looked at those gradients in the loop.  Sent before :class:`Step`.
    """

    __slots__ = ()


class GradientsScaled(Event):
    """The gradients a backward pass added are those of a scaled loss.  Sent after :class:`Backward`."""

    __slots__ = ()


class GradientsUnscaled(Event):
    """Scaled gradients were divided by their scale, or changed by hand."""

    __slots__ = ()


class GradientsClipped(Event):
    """Gradients were clipped, all at once."""

    __slots__ = ()


class ScalerStepped(Event):
    """A gradient scaler made a step.  Touches the parameter groups of the optimizer."""

    __slots__ = ()


class ScalerUpdated(Event):
    """A gradient scaler updated its scale, or may have.  Touches all groups it has stepped."""

    __slots__ = ()


class Unfollowed(Event):
    """Code that could not be followed ran: it may have walked graphs back, or set gradients."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared(Event):
    """Gradients were zeroed or dropped.  Touches the parameter groups concerned."""

    owner: str = ""


class PeriodicClearing(Event):
    """Gradients are cleared in every k-th iteration only, and applied in every one.  Sent before :class:`Cleared`."""

    __slots__ = ()


class ParametersReplaced(Event):
    """Parameters got new values from elsewhere, or are new objects: what was accumulated is void."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStepped(Event):
    """An optimizer updated a model that behaves differently in training and in evaluation."""

    training: Fact[bool] = field(default_factory=unknown)  #: it was last called in training mode
    forward_at: Site | None = None  #: where it was called


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where gradients that are NaN or infinite begin."""

    what: str  #: to be told
    site: Site | None = None  #: where the operation is called


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsMeasured(Event):
    """Norms of gradients about to be applied, by the names of their parameters.  ``site`` is the backward pass."""

    step: int  #: of the optimizer, counted from 1
    norms: Mapping[str, tuple[float, ...]]  #: the latest measurements, this one last
    origin: Origin | None = None  #: of what is not finite, where that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverReached(Event):
    """Parameters that an optimizer holds have had no gradient since the beginning.  ``site`` is its step."""

    parameters: tuple[str, ...]
    steps: int  #: of the optimizer so far


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersUnchanged(Event):
    """Parameters have gradients, and an optimizer's steps leave them what they are.  ``site`` is its last step."""

    parameters: tuple[str, ...]
    steps: int  #: of the optimizer, in which they have not changed
    always: bool  #: they have never changed
    learning_rate: float  #: at the end
    dtype: str  #: without the ``torch.``


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsDead(Event):
    """Units behind a layer have given zero for every sample of many steps.  ``site`` is the backward pass."""

    layer: str
    dead: int
    units: int  #: of the layer
    samples: int
    steps: int  #: that were looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksApart(Event):
    """What an optimizer trains is one thing on one rank and another on another.  ``site`` is its step."""

    parameters: tuple[str, ...]
    ranks: tuple[int, ...]  #: of which it is known
    steps: int  #: of the optimizer
    before: bool  #: they differed before the first of these


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerChecked(Event):
    """An optimizer is about to step.  ``site`` is where it was built."""

    optimizer: str = ""  #: the class name
    frozen: Fact[bool] = field(default_factory=unknown)  #: none of its parameters requires grad
    misses_at: Site | None = None  #: where parameters that it should own took their place, after it was built
    trained_at: Site | None = None  #: the backward pass of parameters that took the place of those it owns, somewhere
    stepped_at: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnownedTrained(Event):
    """An optimizer steps; ``site`` is where it was built.

    It, or another one, owns others of the module whose parameters get gradients that nothing applies.
    """

    optimizer: str = ""  #: the class name
    parameters: tuple[str, ...] = ()  #: the names of those that nothing owns, or of the parts that hold them
    thawed_at: Site | None = None  #: where they were told to require grad, after the optimizer was built
    thawed: bool = False  #: they were
    stepped_at: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NormDrifts(Event):
    """A call of a module, in training mode, moved statistics of a layer in it that is frozen; a step was made then.

    Taken back where the layer is thawed.
    """

    layer: str = ""  #: the class


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsLeft(Event):
    """A module is called in evaluation mode whose parameters follow those of another one, and its statistics do not."""

    layer: str = ""  #: the class of one that keeps statistics
    followed_at: Site | None = None  #: where its parameters are changed


class GraphRetained(Event):
    """A backward pass kept its graph.  Taken back where a later one walks part of it, or where it leaves the code."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueKept(Event):
    """A value was added to others that are kept from one iteration to the next."""

    value: Tensor
    where: str  #: "sum", "list", or "parts" for a list of lists, tuples or dicts that hold it
    spent: Fact[bool] = field(default_factory=unknown)
    """A value kept since an earlier iteration has a graph that was walked, and was freed or is not walked again."""
    walked_at: Site | None = None  #: where that graph was walked
    keeper: str = ""  #: how the source spells the variable that keeps them


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKept(Event):
    """A value was added to others that are kept by a variable of a function from one iteration to the next.

    Each has a graph that nothing has walked.  Taken back where a backward pass walks one, or where they leave the code.
    """

    where: str  #: as of :class:`ValueKept`


class TrainMode(Event):
    """A module was put into training mode.  Touches its parameter groups."""

    __slots__ = ()


class EvalMode(Event):
    """A whole module, not a layer of one, was put into evaluation mode.  Touches its parameter groups."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMeasured(Event):
    """The output of a module was used to evaluate it.

    ``site`` is the call of the module, or that of the function which called it and returned the output to be used.

    It is not sent, or taken back, where a backward pass walks what was computed from that output.
    """

    module: str = ""
    training: Fact[bool] = field(default_factory=unknown)  #: the mode it was called in
    grad_enabled: Fact[bool] = field(default_factory=unknown)
    copied: Fact[bool] = field(default_factory=unknown)  #: no number or label was made of it, only a copy
    trained: Fact[bool] = field(default_factory=unknown)  #: it was trained before, in the program or in another
    single: bool = False  #: nothing but its use tells of an evaluation, and the call stands in no loop
    set_at: Site | None = None  #: where its mode was set
    called_at: Site | None = None  #: the call of the module, where ``site`` is another
    within: Site | None = None  #: the function, or the statement of a file, that the call stands in
