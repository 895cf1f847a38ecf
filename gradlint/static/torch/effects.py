"""What parts of the domain ask of others that come after them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from gradlint.static.python.domain import Index
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import Cut, Instance, Unknown, Value
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site


class Effects:
    """Filled once all parts of the domain are made."""

    __slots__ = (
        "calls_behind",
        "carries",
        "cut_of",
        "groups_of_optimizers_in",
        "item",
        "method",
        "method_of_unknown",
        "passed",
        "presumed_segments",
    )
    cut_of: Callable[[Value, World], Cut | None]
    """Where the graph behind a value was cut."""
    carries: Callable[[Value, World], bool]
    """Whether a value may carry a graph."""
    calls_behind: Callable[[Hashable, World], frozenset[int]]
    """The calls of modules behind an unknown value, by its key."""
    passed: Callable[[Hashable], frozenset[int]]
    """The changes in place from whose results an unknown value was computed, by its key."""
    presumed_segments: Callable[[Value, World], frozenset[int]]
    """The presumed segments behind a value, each made an object of the world."""
    method: Callable[[Value, str, Arguments, World, Context, Site], Value]
    """``receiver.name(...)`` where the method is not of the project."""
    method_of_unknown: Callable[[Unknown, str, Arguments, World, Context, Site], Value]
    """Call a method of something unknown."""
    item: Callable[[Value, Instance, Index, World, Context, Site], Value]
    """``owner[index]`` of a known object."""
    groups_of_optimizers_in: Callable[[Unknown, World], frozenset[int]]
    """The parameters of the optimizers that were taken from an unknown value."""
