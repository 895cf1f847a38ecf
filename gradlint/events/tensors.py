"""Events of tensors: what is changed, read, moved, converted."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradlint.events.base import Event, Tensor
from gradlint.facts import Fact, unknown
from gradlint.finding import Site


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
class MethodNamed(Event):
    """A method that is called for what it does stood as a statement of its own, without being called."""

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
