"""Events: what happens to autograd state, as both witnesses report it.

The static tracer and the runtime guard send the same events, and rules are written over nothing else.  An event
says where it happened (``site``) and shows the objects involved as *views* whose properties are
:class:`~gradlint.facts.Fact`: known, or unknown.

``touches`` names the subjects of protocols that an event concerns: ``subject -> True`` when it certainly
does, ``None`` when it may.  A subject is any hashable the witness chooses; rules never look inside.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gradlint.facts import Fact, unknown
from gradlint.finding import Site

Touches = Mapping[Hashable, Literal[True] | None]

NOTHING: Touches = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A view of a tensor at the moment of the event."""

    text: str = ""  #: how the source spells it; empty when that is not known
    requires_grad: Fact[bool] = field(default_factory=unknown)
    is_leaf: Fact[bool] = field(default_factory=unknown)
    is_parameter: Fact[bool] = field(default_factory=unknown)
    device: Fact[str] = field(default_factory=unknown)  #: the device type: "cpu", "cuda", …
    scalar: Fact[bool] = field(default_factory=unknown)  #: exactly one element
    integral: Fact[bool] = field(default_factory=unknown)  #: of an integer or bool type
    loaded: Fact[bool] = field(default_factory=unknown)  #: it is data, as iterating over a loader gives it
    activation: Fact[str] = field(default_factory=unknown)
    """What last shaped its values: "softmax", "log_softmax", "sigmoid", "logits" (a linear map), "none"."""
    activation_at: Site | None = None
    made_at: Site | None = None
    moved_at: Site | None = None  #: where it was put on its device
    kept_at: Site | None = None  #: where it was put into the container it came from
    freed: Fact[bool] = field(default_factory=unknown)  #: its graph has been walked and freed
    freed_at: Site | None = None
    stale_at: Site | None = None  #: where a step changed parameters that its graph still needs as they were
    cut: Fact[str] = field(default_factory=unknown)
    """No gradient flows through it, known to have been cut by: "detach", "copy", "integers", "number", "numpy",
    "gradient" (derived without ``create_graph``), "no_grad", or "round" (whose gradient is zero)."""
    cut_at: Site | None = None
    asked_at: Site | None = None  #: where the result of a computation was told to require grad

    retains_grad: Fact[bool] = field(default_factory=unknown)  #: ``retain_grad()`` was called on it

    def named(self, otherwise: str) -> str:
        """The tensor as the source spells it, for a message; ``otherwise`` when that is not known."""
        return f"`{self.text}`" if self.text else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at ``site``."""

    site: Site
    touches: Touches = field(default_factory=dict)


# --- gradients and the optimizer -------------------------------------------------------------------------------


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
class FirstStep(Event):
    """An optimizer stepped for the first time, or for the first time since it has a scheduler."""

    scheduled_at: Site | None = None  #: where a scheduler of it had been stepped before


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsUpdated(Event):
    """An optimizer made a step.

    Touches the parameter groups it owns, and where neither is known and there is no other optimizer, those that it is
    presumed to own.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsDropped(Event):
    """Gradients were cleared.  Touches what :class:`WeightsUpdated` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsAccumulated(Event):
    """A backward pass runs, not only in every k-th iteration.

    Touches what :class:`Backward` does, and is sent before it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsAssigned(Event):
    """Gradients were set, or changed, by the program itself: ``parameter.grad = value``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsDiscarded(Event):
    """Gradients are cleared, not only in every k-th iteration.  Sent before :class:`Cleared`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedElsewhere(Event):
    """What was discarded last was not discarded in the loop that is about to step.

    Sent before :class:`PeriodicStep`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicStep(Event):
    """An optimizer steps in every k-th iteration only.  Sent before :class:`Step`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBehindLoop(Event):
    """An optimizer steps behind a loop, in each iteration of which gradients were cleared, and computed after that.

    Nothing has looked at those gradients in the loop.  Sent before :class:`Step`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsScaled(Event):
    """The gradients a backward pass added are those of a scaled loss.  Sent after :class:`Backward`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsUnscaled(Event):
    """Scaled gradients were divided by their scale, or changed by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsClipped(Event):
    """Gradients were clipped, all at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerStepped(Event):
    """A gradient scaler made a step.  Touches the parameter groups of the optimizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerUpdated(Event):
    """A gradient scaler updated its scale, or may have.  Touches all groups it has stepped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfollowed(Event):
    """Code that could not be followed ran: it may have walked graphs back, or set gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared(Event):
    """Gradients were zeroed or dropped.  Touches the parameter groups concerned."""

    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicClearing(Event):
    """Gradients are cleared in every k-th iteration only, and applied in every one.  Sent before :class:`Cleared`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersReplaced(Event):
    """Parameters got new values from elsewhere, or are new objects: what was accumulated is void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStepped(Event):
    """An optimizer updated a model that behaves differently in training and in evaluation."""

    training: Fact[bool] = field(default_factory=unknown)  #: it was last called in training mode
    forward_at: Site | None = None  #: where it was called


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsMeasured(Event):
    """Norms of gradients about to be applied, by the names of their parameters.  ``site`` is the backward pass."""

    step: int  #: of the optimizer, counted from 1
    norms: Mapping[str, tuple[float, ...]]  #: the latest measurements, this one last


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverReached(Event):
    """Parameters that an optimizer holds have had no gradient since the beginning.  ``site`` is its step."""

    parameters: tuple[str, ...]
    steps: int  #: of the optimizer so far


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerChecked(Event):
    """An optimizer is about to step.  ``site`` is where it was built."""

    optimizer: str = ""  #: the class name
    frozen: Fact[bool] = field(default_factory=unknown)  #: none of its parameters requires grad
    misses_at: Site | None = None  #: where parameters that it should own took their place, after it was built
    trained_at: Site | None = None  #: the backward pass of parameters that took the place of those it owns, somewhere
    stepped_at: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRetained(Event):
    """A backward pass kept its graph.  Taken back where a later one walks part of it, or where it leaves the code."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainMode(Event):
    """A module was put into training mode.  Touches its parameter groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalMode(Event):
    """A whole module, not a layer of one, was put into evaluation mode.  Touches its parameter groups."""


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
    trained: Fact[bool] = field(default_factory=unknown)  #: the program has trained the module before
    set_at: Site | None = None  #: where its mode was set
    called_at: Site | None = None  #: the call of the module, where ``site`` is another
    within: Site | None = None  #: the function, or the statement of a file, that the call stands in


# --- modules and their inputs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFed(Event):
    """A module was called.  Touches the inputs that are leaves, require grad and are no parameters."""

    module: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRead(Event):
    """The gradient of an input was read, asked for, or given to an optimizer.  Touches that input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDone(Event):
    """Nothing can read the gradient of the touched inputs any more."""

    asked_at: Site | None = None  #: where they were made to require grad


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCalled(Event):
    """A loss function was called with a prediction and a target."""

    loss: str  #: the functional name: "cross_entropy", "nll_loss", "binary_cross_entropy", …
    input: Tensor
    target: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutCalled(Event):
    """A functional dropout, or a dropout layer built on the spot, was applied."""

    function: str  #: "dropout", "alpha_dropout", "scaled_dot_product_attention", "nn.Dropout", …
    training_given: Fact[bool] = field(default_factory=unknown)  #: the mode was said explicitly
    drops_by_default: bool = True  #: what happens when it is not said
    in_module: Fact[bool] = field(default_factory=unknown)  #: reached from the forward of a module
    mode_checked: Fact[bool] = field(default_factory=unknown)  #: guarded by the module's ``training``
    inert: Fact[bool] = field(default_factory=unknown)  #: the probability is zero
    module: str = ""  #: how the scope spells the module whose method this stands in


# --- tensors ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DataWritten(Event):
    """The values of a tensor were changed behind autograd's back, through ``.data``."""

    tensor: Tensor
    how: str  #: the operation, as the source spells it
    taken_at: Site | None = None  #: where ``.data`` was read, when that is known
    grad_enabled: Fact[bool] = field(default_factory=unknown)
    derived_at: Site | None = None  #: where it is derived later on, which tells that it requires grad
    needed: Fact[bool] = field(default_factory=unknown)  #: a graph that is still there has saved the values
    trained: Fact[bool] = field(default_factory=unknown)  #: gradients have reached it, or it is changed by them
    as_parameter: bool = False  #: it is no Parameter, but a leaf that is trained or kept as those are

    @property
    def taken_before(self) -> Site | None:
        """Where ``.data`` was read, unless the change itself begins there."""
        if self.taken_at is None:
            return None
        there, here = self.taken_at.locate(), self.site.locate()
        same = (there.filename, there.cell, there.row, there.column) == (
            here.filename,
            here.cell,
            here.row,
            here.column,
        )
        return None if same else self.taken_at


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTensorChanged(Event):
    """A backward pass found that the values of a tensor saved for it had changed.  ``site`` is that backward pass."""

    tensor: Tensor
    operation: str = ""  #: what had saved it, as autograd names it: "SigmoidBackward0"
    noticed: Fact[bool] = field(default_factory=unknown)  #: autograd noticed, and raised
    saved_at: Site | None = None
    changed_at: Site | None = None
    stepped_at: Site | None = None  #: the optimizer step that changed it, when it was one


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRead(Event):
    """``.data`` of a tensor was read."""

    tensor: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedInPlace(Event):
    """The values of a tensor were changed in place, where autograd sees it."""

    tensor: Tensor  #: the leaf, where a view of one was changed
    how: str  #: the operation, as the source spells it
    grad_enabled: Fact[bool] = field(default_factory=unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiresGradSet(Event):
    """``requires_grad`` of a tensor was assigned, or set by ``requires_grad_()``."""

    tensor: Tensor  #: before
    value: Fact[bool] = field(default_factory=unknown)
    assigned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeMisspelt(Event):
    """An attribute of a tensor was assigned whose name is one slip away from ``requires_grad``."""

    tensor: Tensor
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GradOfTensorRead(Event):
    """``.grad`` of a tensor that is no parameter was read."""

    tensor: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDiscarded(Event):
    """A method that returns a new tensor was called as a statement."""

    tensor: Tensor
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTaken(Event):
    """``.item()`` of a tensor was called."""

    tensor: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedToCuda(Event):
    """``.cuda()`` of a tensor or module was called."""

    device: str = ""  #: how the source spells the device that is at hand


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRequiresGradSet(Event):
    """``module.requires_grad`` was assigned; or, where ``part`` says which, it is called with what was assigned."""

    module: str = ""  #: its class
    part: str = ""  #: its name in the model that is called
    own: bool = False  #: by one of its own methods


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemoryChanged(Event):
    """A numpy array was changed in place (at ``site``), and a tensor that shares its memory was used afterwards."""

    tensor: Tensor
    used_at: Site | None = None
    fresh: Fact[bool] = field(default_factory=unknown)  #: the tensor was made to be filled


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedToNumpy(Event):
    """A tensor was turned into a numpy array, by name or by a library that asks for one."""

    tensor: Tensor
    how: str  #: ".numpy()", "np.asarray", "plt.plot", …
    role: str = ""  #: what it is to the call: "receiver", "argument 0", …
    within: bool = False  #: it is held by a list or tuple in a list
    grad_enabled: Fact[bool] = field(default_factory=unknown)
    derived_at: Site | None = None  #: where it is derived later on, which tells that it requires grad


# --- modules and functions as they are defined -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperInit(Event):
    """``__init__`` of ``torch.nn.Module`` ran for a module that is being built.  Touches that module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperCalled(Event):
    """``super(Class, self)`` was evaluated."""

    named: str  #: the class it names
    within: str  #: the class whose method this is
    fits: Fact[bool] = field(default_factory=unknown)  #: ``self`` is an instance of the class it names


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsLayer(Event):
    """A module that is being built was given a layer or parameter.  Touches that module."""

    module: str = ""  #: its class
    attribute: str = ""
    direct: Fact[bool] = field(default_factory=unknown)  #: its class has no base but ``torch.nn.Module``


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleBuilt(Event):
    """A module was built, and holds layers or parameters of its own making in a list, tuple or dict."""

    module: str  #: its class
    attribute: str
    container: str  #: "list", "tuple" or "dict"
    registered: Fact[bool] = field(default_factory=unknown)  #: the module has registered all of them elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorKept(Event):
    """A module was built, and holds a tensor of its own making as a plain attribute."""

    module: str  #: its class
    attribute: str
    requires_grad: Fact[bool] = field(default_factory=unknown)
    computed: Fact[bool] = field(default_factory=unknown)  #: it is no leaf: a parameter that was converted
    registered: Fact[bool] = field(default_factory=unknown)  #: what it depends on is a parameter of the module


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTensorUsed(Event):
    """A fixed tensor, a plain attribute of a module since this site, met what the module was given."""

    module: str  #: its class
    attribute: str
    random: Fact[bool] = field(default_factory=unknown)  #: its values are random
    factor: Fact[bool] = field(default_factory=unknown)  #: it multiplied


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersHeld(Event):
    """A container of layers was built."""

    container: str  #: as users spell it: ``nn.ModuleList``
    layer: str = ""  #: the class of the layer that it holds several times
    repeated: Fact[bool] = field(default_factory=unknown)
    """It holds a layer with parameters several times, because a list that holds it was multiplied."""
    chosen: Fact[bool] = field(default_factory=unknown)  #: under a condition, or the text says that it is shared
    built_at: Site | None = None  #: where that layer was built


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBuilt(Event):
    """A layer was applied that had been built in the same forward pass, at the place of this event."""

    layer: str  #: as users spell it: ``nn.Linear``
    parameters: Fact[bool] = field(default_factory=unknown)  #: it has trainable parameters
    chosen: Fact[bool] = field(default_factory=unknown)  #: its parameters were set, or looked at, after it was built


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardInvoked(Event):
    """``module.forward(…)`` was called from outside of the module."""

    module: str  #: its class


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDefined(Event):
    """A method of a custom ``autograd.Function``, at its name."""

    function: str
    method: str  #: "forward" or "backward"
    static: Fact[bool] = field(default_factory=unknown)  #: it can be called without an instance


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsReturned(Event):
    """The backward of a custom ``autograd.Function`` returns gradients."""

    function: str
    required: int  #: inputs of its forward that have no default
    inputs: int  #: all of them
    given: Fact[int] = field(default_factory=unknown)  #: gradients returned, ``None`` included
    used: Fact[int] = field(default_factory=unknown)  #: the same without ``None`` at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOnContext(Event):
    """The forward of a custom ``autograd.Function`` keeps a tensor as attribute of its context."""

    attribute: str
    role: str  #: "input", "output", or "" for what is neither


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionUsed(Event):
    """A custom ``autograd.Function`` was used without ``apply``."""

    function: str
    how: Literal["instance", "forward"]


# --- calls that are told by what was written ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxCalled(Event):
    """A softmax, log-softmax or softmin was called, or a layer of one was built."""

    function: str  #: as users spell it: ``F.softmax``, ``nn.Softmax``
    dim_given: Fact[bool] = field(default_factory=unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTaken(Event):
    """The logarithm of a tensor was taken."""

    input: Tensor
    activation: Fact[str] = field(default_factory=unknown)
    """What shaped the values of ``input``, looking through a small number added against ``log(0)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeprecatedUsed(Event):
    """Something was used that torch keeps, or no longer keeps, for old code only."""

    kind: Literal["variable", "volatile", "index", "init"]
    name: str
    instead: str
    detached: Fact[bool] = field(default_factory=unknown)  #: a graph is cut by it
    taken_at: Site | None = None  #: where the ``.data`` was taken that is indexed


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved(Event):
    """``torch.save`` was called."""

    module: Fact[bool] = field(default_factory=unknown)  #: a module is among what is saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Event):
    """``torch.load`` was called."""

    weights_only: Fact[bool] = field(default_factory=unknown)
    foreign: Fact[bool] = field(default_factory=unknown)  #: the path comes from elsewhere: a download, the user
