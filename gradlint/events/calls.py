"""Events of calls: what models, losses and layers are given."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradlint.events.base import Event, Tensor
from gradlint.facts import Fact, unknown
from gradlint.finding import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFed(Event):
    """A module was called.  Touches the inputs that are leaves, require grad and are no parameters."""

    module: str = ""


class GradientRead(Event):
    """The gradient of an input was read, asked for, or given to an optimizer.  Touches that input."""

    __slots__ = ()


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
    log_target: Fact[bool] = field(default_factory=unknown)  #: the target holds logarithms, as ``kl_div`` was told


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetWalked(Event):
    """A backward pass walks the target of a regression, which the parameters that it trains have given.

    The target is the sum of what is given and of an output, discounted or the best of several, of the very parameters
    whose output is to meet it.  ``site`` is where the two are compared.
    """

    loss: str = ""  #: the functional name; empty where their difference is squared
    target_at: Site | None = None  #: where the target was put together
    role: str = ""  #: what the target is to the call of the loss
    owned: Fact[bool] = field(default_factory=unknown)  #: an optimizer holds those parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTermAdded(Event):
    """A backward pass starts from a sum, one term of which was computed from what is trained, but lost its graph.

    ``site`` is where it is added to others that keep theirs.
    """

    how: str = ""  #: what cut the graph, as of :class:`Tensor`
    cut_at: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipOverwritten(Event):
    """What was given to an operation is added to what became of its result, and was overwritten by that operation.

    ``site`` is where it is overwritten: it may have changed.
    """

    added_at: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BothSpread(Event):
    """Two tensors are compared by a loss, or by a difference from which a backward pass is made."""

    loss: str = ""  #: the functional name; empty for a difference
    shapes: tuple[tuple[int | None, ...], ...] = ()
    """Their shapes, where these are a column ``(n, 1)`` and a row ``(n,)``; None for a length that is not known."""
    role: str = ""  #: what the column is to the call of the loss


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
