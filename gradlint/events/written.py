"""Events of calls that are told by what was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gradlint.events.base import Event, Tensor
from gradlint.facts import Fact, unknown
from gradlint.finding import Site


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleLoaded(Event):
    """What ``torch.load`` gave, here, turned out to be a module, or to hold one: it was called, or put into a mode."""

    weights_only: Fact[bool] = field(default_factory=unknown)
