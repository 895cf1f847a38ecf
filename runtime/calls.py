"""What the patches of torch tell a guard: what happened, and where in the user's program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gradlint.events import Backward, Step
from gradlint.finding import Finding

if TYPE_CHECKING:
    import torch
    from torch.optim import Optimizer

    from .frames import FrameSite


class Watcher(Protocol):
    """Who is told: a guard."""

    active: bool  #: whether it is watching
    thread: int  #: the thread that it watches

    def tell(self, event: str, call: object, raising: bool = True, deliver: bool = True) -> None:
        """Something has happened; ``event`` names it as :data:`gradlint.runtime.roster.EVENTS` does."""
        ...

    def forward_ended(self, call: ForwardCall) -> None:
        """An outermost module has returned."""
        ...

    def backward_ended(self, call: BackwardCall) -> None:
        """The autograd engine has run, or raised."""
        ...


class Link(Protocol):
    """A way between the guards of all ranks of a training: texts by key."""

    rank: int
    size: int
    expected: set[str]  #: keys under which others leave texts, to be forgotten at the end

    def put(self, key: str, text: str) -> None:
        """Leave a text for the others."""
        ...

    def get(self, key: str) -> str | None:
        """The text under a key; None as long as there is none."""
        ...


@dataclass(slots=True, eq=False)
class BackwardCall:
    """One run of the autograd engine, asked for by the user's program."""

    site: FrameSite
    roots: tuple[Any, ...]
    grads: tuple[Any, ...]  #: of the roots; where none was given, of ones
    inputs: tuple[Any, ...]
    retain: bool
    create: bool
    accumulates: bool
    guards: tuple[Watcher, ...]
    error: BaseException | None = None
    explained: Sequence[Finding] = ()  #: what the error is about
    event: Backward | None = None  #: as the witness of backward passes describes it
    thread: int = 0


@dataclass(slots=True, eq=False)
class StepCall:
    """One ``step()`` of an optimizer.  With a closure, the gradients are made inside."""

    site: FrameSite
    optimizer: Optimizer
    closure: bool
    within: BackwardCall | None  #: the backward pass this step runs inside of
    guards: tuple[Watcher, ...]
    event: Step | None = None  #: as the witness of gradients describes it


@dataclass(slots=True, eq=False)
class ForwardCall:
    """One finished call of an outermost module."""

    site: FrameSite
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    tensors: tuple[torch.Tensor, ...]  #: those in the output
    recomputed: bool  #: by a backward pass that it is part of


@dataclass(slots=True, eq=False)
class ScheduleCall:
    """One ``step()`` of a scheduler of torch that was not told the epoch."""

    site: FrameSite
    optimizer: Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    built_at: FrameSite | None = None


@dataclass(slots=True, eq=False)
class ModeCall:
    """One call of ``train()`` or ``eval()`` of a module; those it makes of its children are part of it."""

    site: FrameSite
    module: torch.nn.Module
    training: bool


@dataclass(slots=True, eq=False)
class PlaceCall:
    """A module or parameter is about to become an attribute of a module."""

    site: FrameSite
    module: torch.nn.Module
    part: torch.nn.Module | torch.nn.Parameter


@dataclass(slots=True, eq=False)
class LayerCall:
    """A layer was applied that had been built, at ``site``, in the same forward pass of an outermost module.

    That pass has ended, and the layer is gone.
    """

    site: FrameSite
    layer: str  #: as users spell its class


@dataclass(slots=True, eq=False)
class ScalerCall:
    """One call of a method of a gradient scaler that is switched on."""

    site: FrameSite
    scaler: torch.amp.GradScaler
    method: str
    optimizer: Optimizer | None  #: that it was given
    result: Any = None
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class ClipCall:
    """Gradients are about to be clipped, all at once."""

    site: FrameSite
    parameters: tuple[torch.Tensor, ...]
    limit: float


@dataclass(slots=True, eq=False)
class DrawCall:
    """A function of torch is about to go through parameters."""

    site: FrameSite
    by: str  #: its name
    given: Any  #: an iterator is not touched


@dataclass(slots=True, eq=False)
class BuildCall:
    """An optimizer was built."""

    site: FrameSite
    optimizer: Optimizer


@dataclass(slots=True, eq=False)
class StateCall:
    """A module gave its state dict, or is about to be given one; or something is about to be written to a file."""

    site: FrameSite
    module: torch.nn.Module | None  #: None for a file
    state: Any


@dataclass(slots=True, eq=False)
class HookCall:
    """A hook was registered on a module."""

    site: FrameSite
    module: torch.nn.Module
    method: str
    handle: torch.utils.hooks.RemovableHandle


@dataclass(slots=True, eq=False)
class SwapCall:
    """Tensors are about to exchange all they are: what is known of them will not hold, nor may they be referred to."""

    tensors: tuple[torch.Tensor, ...]


@dataclass(slots=True, eq=False)
class CompileCall:
    """Dynamo has traced a region of the program, and its backend is about to compile it."""

    graph: torch.fx.Graph
    in_module: bool = False  #: the region is a method of a module


@dataclass(slots=True, eq=False)
class HooksCall:
    """Hooks on saved tensors are about to be forbidden in this thread, or are allowed again."""


@dataclass(slots=True, eq=False)
class FlagCall:
    """``requires_grad`` of a module was assigned, as if it were a tensor."""

    site: FrameSite
    module: torch.nn.Module
    own: bool  #: by one of its own methods


@dataclass(slots=True, eq=False)
class ExchangeCall:
    """Tensors are about to be sent to other processes, received from them, or combined with theirs."""

    function: str  #: of torch.distributed, that was called
    tensors: tuple[torch.Tensor, ...]
    in_forward: bool  #: within the call of a module
    in_norm: bool  #: by batch norm that is synchronised


@dataclass(slots=True, eq=False)
class RanksCall:
    """The process turned out to be one of several that train together."""

    link: Link
    has_ended: Callable[[int], bool | None]  #: whether the guard of a rank has; None for one that has none, yet
    patience: float  #: seconds to wait at the end for others that have one
