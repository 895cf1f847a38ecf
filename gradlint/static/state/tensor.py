"""Tensors of the abstract heap: what they are, where they are, their graph, and their story."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from gradlint.static.state.declaring import (
    ALL_OR_NONE,
    BOTH,
    COMMON,
    EITHER,
    FIRST,
    FIRST_OF_BOTH,
    GATHERED,
    GRAPH,
    ID,
    IDS,
    LEAST,
    OWN,
    POINTED_SET,
    REACHED,
    SETTLED,
    SHARED,
    STATES,
    TOKENS,
    TOLD,
    UNION,
    WHETHER,
    WHETHER_ANY,
    Join,
    agreed,
    copying,
    fact,
    story,
    uncertain,
)

if TYPE_CHECKING:
    from gradlint.events import ConvertedToNumpy, DataWritten
    from gradlint.finding import Site
    from gradlint.protocol import Token
    from gradlint.static.state.values import Unknown

CHOSEN = "chosen"  #: the device of what is on CUDA where a program has chosen that: as where it is available
DEVICE = Join("X if X == Y else OTHER if (X, Y) in (('cuda', OTHER), (OTHER, 'cuda')) else None", CHOSEN)
"""What both say; of what is on CUDA, and of what is there where that was chosen, the latter."""
_DEVICE_OF_PART = Join(
    "None if not x.device_if_tensor and not y.device_if_tensor else "
    "(X or x.device) if (X or x.device) == (Y or y.device) else None"
)
_OF_WHAT_VARIES = Join(
    "X if X == Y else OTHER if (x.constant and x.requires_grad is False) is (y.constant and y.requires_grad is False) "
    "else Y if x.constant and x.requires_grad is False else X"
)
"""What both say; of a mere constant and something else, what the latter says."""

_OF_WHAT_IS_NO_PARAMETER = Join(
    "X if X == Y and x.kept_at == y.kept_at else X if y.kept_at is None and y.is_parameter else "
    "Y if x.kept_at is None and x.is_parameter else OTHER"
)
"""What both say; of a parameter and something else, what the latter says."""


class Averages(IntEnum):
    """Averages over batches whose gradients were added up since they were last cleared: of some ways the most."""

    NONE = 0
    ONE = 1
    SEVERAL = 2
    MIXED = 3  #: gradients of something else were added too, or may have been


class Object:
    """Something with identity.  Objects are copied when a world that shares them writes to them."""

    __slots__ = ("owner", "stamp")
    owner: object  #: the token of the world that may change it in place
    stamp: int  #: when it was last written to: a number of :func:`~gradlint.static.state.origins.fresh`

    def copy(self) -> Any:
        """A copy that shares no mutable state."""
        return copying(type(self))(self)


@dataclass(frozen=True, slots=True)
class Cut:
    """The place where a value lost its graph."""

    how: str  #: "detach", "copy", "integers", "number", "numpy", "gradient", "no_grad" or "round"
    at: Site
    trained: bool = False  #: what was cut is known, or presumed, to require grad
    turned: str = ""  #: what was detached was turned into this, for which it had to be: "number" or "numpy"
    turned_at: Site | None = None

    @property
    def rank(self) -> str:
        """What tells two cuts at one place apart."""
        return f"{self.how} {self.trained} {self.turned} {self.turned_at.locate() if self.turned_at else ''}"


@dataclass(frozen=True, slots=True)
class LostTerm:
    """The place where a term that has lost its graph is added to others that have theirs."""

    at: Site
    cut: Cut

    @property
    def rank(self) -> str:
        """What tells two terms apart."""
        return f"{self.at.locate()} {self.cut.at.locate()} {self.cut.rank}"


@dataclass(frozen=True, slots=True)
class Regression:
    """The place where a prediction was compared with a target that the same parameters give, graph and all."""

    at: Site
    loss: str
    groups: frozenset[int]  #: the parameters that give both
    target_at: Site | None = None  #: where the target was put together
    role: str = ""  #: what the target is to the call


@dataclass(frozen=True, slots=True)
class Spread:
    """The place where a column and a row were subtracted, each element from each."""

    at: Site
    shapes: tuple[tuple[int | None, ...], tuple[int | None, ...]]


@dataclass(slots=True, eq=False)
class Described(Object):
    """What a tensor is made of, and what it is known to hold."""

    is_parameter: bool | None = fact(None)
    size: str | None = fact(None)  #: "one", "many", "samples" (as many as a batch has, which may be one), None
    shape: tuple[int | None, ...] | None = fact(None, same=SETTLED)
    integral: bool | None = fact(None)
    places: bool = fact(False, join=BOTH, same=SETTLED)
    """Of an integer type, and no mask: as an index it takes as many elements as it has, or more."""
    activation: str | None = fact(None, join=_OF_WHAT_VARIES)
    activation_at: Site | None = story(TOLD)
    activated: str | None = fact(None)  #: "softmax" or "sigmoid", to whose values its activation was applied
    activated_at: Site | None = story(TOLD)
    random: bool = fact(False, join=BOTH, same=SETTLED)  #: made of random numbers
    constant: bool = fact(False, join=BOTH, same=SETTLED)  #: made of nothing that came from outside
    loaded: bool = fact(False, join=BOTH)  #: made of nothing but what a loop over data gave
    estimate: str = fact("", join=agreed(""), same=SETTLED)
    """What it is to a regression, made of what a module returned: see :mod:`gradlint.static.torch.estimates`."""
    nudged: str = fact("", join=agreed(""), same=SETTLED)  #: the activation of what a small number was added to
    structured: bool = fact(
        False, join=EITHER, same=SETTLED
    )  #: may be a tuple, dict or output object of tensors like this
    supposed: bool = fact(False, join=EITHER, same=SETTLED)
    """Made by operators or methods of what may be no tensor, or a part of such a part: it need be none either."""
    from_unknown: bool = fact(False, join=EITHER, same=SETTLED)  #: computed from something of which nothing is known
    origin: Hashable = fact(None, same=SETTLED)
    """How what may be no tensor came about: two of the same origin, read off one setting, are worth the same."""
    average: str = fact("", join=agreed(""), same=SETTLED)
    """"mean" of an average over all there is, or a sum with one among its terms; "product" of a product or quotient."""
    scaled: bool = fact(False, join=BOTH, same=SETTLED)  #: a loss multiplied by a gradient scaler, or computed from one
    total_since: int = fact(0, join=LEAST, same=SETTLED)
    """Of a running total: the iteration in which it was a mere number."""
    some_of_groups: bool = fact(False, join=EITHER, same=SETTLED)
    """One or some of the parameters of its groups, it is not known which."""
    age: int = fact(0, join=LEAST, same=SETTLED)  #: of what is one of two: the number of the older one
    stands_for: tuple[int, ...] = fact((), join=agreed(()), same=WHETHER_ANY)
    """Each of these tensors in turn, in a loop over too many to tell apart."""


@dataclass(slots=True, eq=False)
class Placed(Described):
    """Where a tensor is: its device, and the storage and the object it is a part of."""

    device: str | None = fact(None, join=DEVICE)
    placed: bool = fact(False, join=EITHER, same=SETTLED)  #: put on its device on purpose
    on_device_as_one: bool = fact(False, join=EITHER, same=SETTLED)
    """Where the tensors are of what may be an object of several is not known, unlike ``device``."""
    device_if_tensor: str | None = fact(None, join=_DEVICE_OF_PART)
    """Of what is, or was computed from, a part of what a module gave: it need be no tensor; where it is if it is one.

    ``device`` is unknown as long as nothing was computed: modules also hand out tensors that they have moved.
    """
    moved_at: Site | None = story(TOLD)
    moved_of: int | None = fact(None, same=SETTLED)  #: the tensor that was moved to a device, which gave this one
    base: int | None = fact(None, same=WHETHER, points=ID)  #: the tensor whose storage it shares
    stale_at: Site | None = fact(None, join=FIRST)  #: where a numpy array that shares its storage was changed
    data_of: int | None = fact(None, same=WHETHER, points=ID)  #: the tensor whose ``.data`` this is
    data_at: Site | None = story(TOLD)
    part_of: int | None = fact(None, same=SETTLED)
    """The output that may be a tuple, or the gradient, of which this was taken."""
    kept_as: tuple[str, str] = fact(("", ""), join=_OF_WHAT_IS_NO_PARAMETER._replace(otherwise=("", "")))
    """The class and name of the module's attribute it is, or is a view of."""
    kept_at: Site | None = fact(None, join=_OF_WHAT_IS_NO_PARAMETER)  #: where it became that


@dataclass(slots=True, eq=False)
class Recorded(Placed):
    """What a tensor's backward reaches."""

    requires_grad: bool | None = fact(None)
    is_leaf: bool | None = fact(None)
    groups: frozenset[int] = fact(frozenset(), join=ALL_OR_NONE, same=POINTED_SET, points=OWN)
    """The groups this leaf is (of): their facts are its own.  What may be no leaf has no gradient of its own."""
    deps: frozenset[int] = fact(frozenset(), join=UNION, same=POINTED_SET, points=REACHED)
    """The groups its backward reaches."""
    open: bool = fact(True, join=EITHER)  #: its backward may reach others too
    segments: frozenset[int] = fact(frozenset(), join=UNION, same=GRAPH, points=IDS)
    doubtful: frozenset[int] = fact(frozenset(), join=uncertain("segments"), same=SETTLED)
    """Those of the segments that its graph may not have."""
    reaches: frozenset[int] = fact(frozenset(), join=UNION, same=GRAPH, points=IDS)
    """Presumed segments its backward walks."""
    sources: tuple[int, ...] = fact((), join=GATHERED, points=IDS, same=SETTLED)
    """The tensors that may be why it requires grad, when that is not known."""
    results: tuple[Unknown, ...] = fact((), join=GATHERED, same=WHETHER_ANY)
    """What unknown calls returned that may be why, too."""
    recorded: bool = fact(False, join=BOTH)
    """Computed while gradients were enabled: it requires grad if anything of that does."""
    presumed: bool = fact(False, join=BOTH)
    """Came out of something that looks like a module: it requires grad if anything does."""
    whole_output: bool = fact(False, join=BOTH)
    """What a module that is given returned as a whole, with its graph, or computed from that."""
    gradient_of: frozenset[int] = fact(frozenset(), join=COMMON, same=POINTED_SET, points=IDS)
    """Computed from the gradients of these groups."""
    is_gradient: bool = fact(False, join=BOTH)  #: the ``.grad`` of its ``gradient_of`` itself
    retains: bool | None = fact(False)  #: ``retain_grad()`` was called
    tokens: dict[str, frozenset[Token]] = fact(factory=dict, join=TOKENS, same=STATES, reset=True)


@dataclass(slots=True, eq=False)
class Tensor(Recorded):
    """A tensor, or a parameter; the element of ``model.parameters()`` stands for all of them at once.

    Its own fields are its story: where it came from, and what was done with it.
    """

    made_at: Site | None = story(TOLD)
    cut: Cut | None = fact(None, join=FIRST_OF_BOTH, same=WHETHER)
    """Where what it was computed from lost its graph; None if something may carry one."""
    asked_at: Site | None = fact(None, same=WHETHER)  #: where its own computation was told to require grad
    pending: tuple[ConvertedToNumpy | DataWritten, ...] = fact((), join=SHARED, same=WHETHER_ANY)
    """What was done with it that is wrong if it requires grad."""
    regressions: tuple[Regression, ...] = fact((), join=SHARED, same=SETTLED)
    """Those that it was computed from, of those whose target is walked as well."""
    spreads: tuple[Spread, ...] = fact((), join=SHARED, same=SETTLED)  #: those that it was computed from
    lost_terms: tuple[LostTerm, ...] = fact((), join=GATHERED, same=SETTLED)
    """Those of the terms whose sum it is, multiplied by constants at most, that carry no graph any more."""
    unsigned: bool = fact(False, join=BOTH, same=SETTLED)  #: nothing in it is below zero
    passed: frozenset[int] = fact(frozenset(), join=UNION, same=SETTLED)
    """The changes in place from whose results it was computed: see :mod:`gradlint.static.torch.uses`."""
    outdated: frozenset[int] = fact(frozenset(), join=COMMON, same=SETTLED)
    """Those of them that have overwritten what a layer was given, under its old name, that gave it."""
    calls: frozenset[int] = fact(frozenset(), join=UNION, same=SETTLED)
    """The calls of modules from whose outputs it was computed, of those that are watched."""
    owner: object = None
