"""What all events have, and the view of a tensor that many of them show."""

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
    activated: Fact[str] = field(default_factory=unknown)
    """What had shaped the values that this activation was applied to: "softmax" or "sigmoid"."""
    activated_at: Site | None = None
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
