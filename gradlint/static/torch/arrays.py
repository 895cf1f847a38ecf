"""Numpy arrays: their methods and items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gradlint.static.knowledge import roles
from gradlint.static.python.domain import Index
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Figure, fresh
from gradlint.static.state.values import Const, Instance, Ref, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.memory import Memory

if TYPE_CHECKING:
    from gradlint.finding import Site

_IN_PLACE: Final = frozenset(["fill", "itemset", "partition", "put", "sort"])


class Arrays:
    """Follows arrays that were tensors, and the storage that they share."""

    _breaks: GraphBreaks
    _graphs: Graphs
    _memory: Memory

    def method(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of an array."""
        if name in _IN_PLACE:
            self._memory.array_changed(owner, w, ctx, site)
        is_array = name not in ("item", "tolist")
        made = w.new(Instance(name="numpy.ndarray", role=roles.ARRAY)) if is_array else Unknown(Figure(fresh()))
        return self._graphs.reduced(self._breaks.inherit(made, [owner], w), [owner], w)

    def item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``array[0]``."""
        if isinstance(index, Const) and self._memory.shares(owner):
            return self._graphs.reduced(self._memory.part(owner, obj, w), [owner], w)
        return self._graphs.reduced(new_unknown("item", "", obj.groups), [owner], w)
