"""Events of modules and functions of autograd as they are defined and built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gradlint.events.base import Event
from gradlint.facts import Fact, unknown
from gradlint.finding import Site


class SuperInit(Event):
    """``__init__`` of ``torch.nn.Module`` ran for a module that is being built.  Touches that module."""

    __slots__ = ()


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
    like_parameter: bool = False  #: layers call their parameters so


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
class HookRegistered(Event):
    """A hook was registered on a module."""

    method: str  #: ``register_forward_hook``
    piled: Fact[bool] = field(default_factory=unknown)  #: the module has one still that was registered here before


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
