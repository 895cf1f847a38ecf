"""Conversions to numpy: of tensors, and of lists of them; and what arrays do."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.finding import Site
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Conversion
from gradlint.static.knowledge.torch_table import METHODS, NDARRAY
from gradlint.static.python.domain import Index
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Figure, fresh
from gradlint.static.state.provenance import is_numpys
from gradlint.static.state.values import Const, Instance, Ref, Sequence, Tensor, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.placement import DevicePlacement
from gradlint.static.torch.proofs import Proofs
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from gradlint.finding import Site


_COLUMNS = 8  #: looked at of a list in a list that is turned into an array


class Conversions:
    """Tells the rules what becomes a numpy array."""

    _witness: Witness
    _proofs: Proofs
    _placement: DevicePlacement
    _tensors: Tensors
    _breaks: GraphBreaks
    _evaluation: Evaluation
    _graphs: Graphs
    _memory: Memory
    _operations: Operations
    _uses: Uses

    def call(self, converted: Conversion, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a function that turns its arguments into an array."""
        first = args.get(0)
        if converted.own_method and first is not None and w.get(w.resolve(first), Tensor) is not None:
            method = METHODS[converted.display.rpartition(".")[2]]
            return self._operations.apply(method, args, w, ctx, site)
        positions = range(len(args.positional)) if converted.positions is None else converted.positions
        values = [args.positional[p] for p in positions if p < len(args.positional)]
        values += [args.keywords[k] for k in converted.keywords if k in args.keywords]
        given = [position for position in positions if position < len(args.positional)]
        for which, value in enumerate(values):
            value = w.resolve(value)
            role = f"argument {given[which]}" if which < len(given) else ""
            sequence = w.get(value, Sequence)
            if sequence is not None and converted.sequence:
                pairs = list(zip(sequence.items, sequence.sites, strict=False))
                if sequence.tail is not None:
                    pairs.append((sequence.tail, sequence.tail_site))
                for number, (item, kept_at) in enumerate(pairs[:1] + pairs[-1:]):
                    for path, part in self._parts(item, w):
                        among = (which, number, *path)
                        how, within = converted.display, bool(path)
                        self.converted(part, how, w, ctx, site, kept_at, among, within=within)
            elif w.get(value, Tensor) is not None and converted.tensor:
                self.converted(value, converted.display, w, ctx, site, which=(which, 0), role=role)
        self._uses.escaped(values, w)
        self._memory.used([w.resolve(value) for value in values], w, ctx, site)
        tensors = self._tensors.tensors_in(values, w)
        self._evaluation.converted(tensors, w, ctx)
        if _gives_labels(converted.display.rpartition(".")[2]):
            self._evaluation.labelled(values, w, ctx)
        array = w.new(Instance(name=NDARRAY, role=roles.ARRAY, made_at=site))
        return self._graphs.reduced(self._breaks.note(array, values, "numpy", w, site), [*values, *tensors], w)

    def stored(self, array: Value, index: Index, value: Value, w: World, ctx: Context, site: Site) -> None:
        """``array[index] = value``: a part of an array takes an array; a single element takes a number in peace."""
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is None or not (is_numpys(array) or self._memory.is_array(array, w)):
            return
        if isinstance(index, slice) or tensor.size == "many":
            self.converted(value, "storing it into a numpy array", w, ctx, site, role="value")

    def _parts(self, item: Value, w: World, depth: int = 2) -> Iterator[tuple[tuple[int, ...], Value]]:
        """An item of a list or, where that is a list or tuple, what it holds; with its places there."""
        inner = w.get(w.resolve(item), Sequence)
        if inner is None:
            yield (), item
        elif depth:
            parts = [*inner.items[:_COLUMNS], *([inner.tail] if inner.tail is not None else [])]
            for number, part in enumerate(parts):
                for path, value in self._parts(part, w, depth - 1):
                    yield (number, *path), value

    def converted(
        self,
        value: Value,
        how: str,
        w: World,
        ctx: Context,
        site: Site,
        kept_at: Site | None = None,
        which: Hashable = 0,
        role: str = "",
        within: bool = False,
    ) -> None:
        """Tell the rules that a value was turned into a numpy array.

        Args:
            value: what is converted, or a part of that.
            how: the function, as findings spell it.
            w: the world.
            ctx: where.
            site: the place.
            kept_at: where the value was put into the list that is converted.
            which: which of several values at the same place.
            role: what it is to the call.
            within: it is held by a list or tuple that was kept at ``kept_at``.
        """
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is None:
            return
        grad_enabled: Fact[bool] = unknown() if w.grad is None else known(w.grad)
        view = self._placement.certain(self._tensors.view_of(value, w, kept_at=kept_at), value, role == "receiver", w)
        is_tensor = role == "receiver" or not tensor.structured
        if self._tensors.is_weight(value, w) or (is_tensor and self._tensors.is_output(value, w)):
            view = replace(view, requires_grad=known(True))
        event = events.ConvertedToNumpy(
            site=site, tensor=view, how=how, grad_enabled=grad_enabled, role=role, within=within
        )
        self._witness.send(event, w, ctx, alternative=which)
        if w.grad and not view.requires_grad.known:
            self._proofs.suspected(value, event, w)


_IN_PLACE: Final = frozenset(["fill", "itemset", "partition", "put", "sort"])


class Arrays:
    """Follows arrays that were tensors, and the storage that they share."""

    _breaks: GraphBreaks
    _evaluation: Evaluation
    _graphs: Graphs
    _memory: Memory

    def method(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of an array."""
        if name in _IN_PLACE:
            self._memory.array_changed(owner, w, ctx, site)
        if _gives_labels(name):
            self._evaluation.labelled([owner], w, ctx)
        is_array = name not in ("item", "tolist")
        made = w.new(Instance(name=NDARRAY, role=roles.ARRAY)) if is_array else Unknown(Figure(fresh()))
        return self._graphs.reduced(self._breaks.inherit(made, [owner], w), [owner], w)

    def item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """``array[0]``."""
        if isinstance(index, Const) and self._memory.shares(owner):
            return self._graphs.reduced(self._memory.part(owner, obj, w), [owner], w)
        return self._graphs.reduced(new_unknown("item", "", obj.groups), [owner], w)

    def combined(self, symbol: str, left: Value, right: Value, w: World) -> Value | None:
        """``array + other``, which a list or tuple answers itself."""
        if w.get(left, Sequence) or w.get(right, Sequence):
            return None
        array = w.new(Instance(name=NDARRAY, role=roles.ARRAY))
        return self._graphs.reduced(self._breaks.inherit(array, [left, right], w), [left, right], w)


def _gives_labels(name: str) -> bool:
    """Whether a function or method of arrays tells which element is the greatest: numpy has the names of torch."""
    op = METHODS.get(name)
    return op is not None and op.ranks and op.integral
