"""Where values lose their graph: detached, copied, counted, turned into numbers, or made without grad mode.

A tensor that carries no graph remembers the first such place (:class:`~gradlint.static.state.tensor.Cut`) among what it
was computed from, and so do numbers and arrays.  Whatever may still carry a graph makes it forget.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import DATA_NAME, LOSS_NAME, MODULE_NAME
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import NUMBER_KEEPING, SYMBOLS
from gradlint.static.state.context import Arguments, Ledger, Ledgers
from gradlint.static.state.origins import (
    Asked,
    Batch,
    Comparison,
    CopyOf,
    CutFrom,
    ElementOf,
    Figure,
    ItemOf,
    Length,
    New,
    Not,
    Number,
    Operation,
    Parameter,
    Result,
    Text,
    Truth,
    UnaryOperation,
    Written,
    is_origin,
    operands,
)
from gradlint.static.state.provenance import is_number
from gradlint.static.state.tensor import LostTerm
from gradlint.static.state.values import NONE, Choice, Cut, Group, Instance, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Inputs

if TYPE_CHECKING:
    from gradlint.finding import Site

_FREE = (Asked, Batch, Comparison, CutFrom, Figure, Length, Not, Number, Text, Truth, Written)
_FREE_OF_NEW = frozenset(["counter", "index", "range", "key", "name", "not", "comparison", "counted", "counted on"])
"""Unknown values that are no tensors with a graph."""
_STEPS = frozenset(["round", "floor", "ceil", "trunc", "fix", "sign", "sgn"])


class GraphBreaks:
    """Remembers where the graphs of values were cut."""

    _inputs: Inputs
    _ledgers: Ledgers
    _tensors: Tensors

    def __init__(self) -> None:
        self._breaks: Ledger[Hashable, Cut] = self._ledgers.open()
        """By the key of an unknown value, or the id of an array."""
        self._copied: Ledger[Site, list[Value]] = self._ledgers.open()
        """By the place where it was copied: what was."""

    # --- asking

    def of(self, value: Value, w: World) -> Cut | None:
        """Where the graph behind a value was cut; None where that is not known, or nothing was."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            return tensor.cut
        if isinstance(value, Ref):
            return self._breaks.get(value.id)
        return self._of_key(value.key, w) if isinstance(value, Unknown) else None

    def _of_key(self, key: Hashable, w: World) -> Cut | None:
        known = self._breaks.get(key)
        if known is None and isinstance(key, Ref):
            return self.of(key, w)
        match key if known is None else None:
            case Operation() | UnaryOperation():
                return next((cut for part in operands(key) if (cut := self._of_key(part, w)) is not None), None)
            case ItemOf(of) | ElementOf(_, of):  # of several numbers, one or some
                return self._of_key(of, w)
        return known

    def first(self, values: Iterable[Value], w: World) -> Cut | None:
        """The first cut among ``values``."""
        return next((cut for value in values if (cut := self.of(value, w)) is not None), None)

    def carries(self, value: Value, w: World, presume_data: bool = False) -> bool:
        """Whether a value may carry a graph; with ``presume_data``, what came from outside and shows none has none."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            if tensor.cut is not None and tensor.cut.how == "round":
                return False
            requires_grad = self._tensors.requires_grad(value, w)
            if requires_grad is not None or tensor.integral:
                return requires_grad is True
            return tensor.open or bool(tensor.deps) or (tensor.from_unknown and not presume_data)
        if isinstance(value, Unknown):
            return bool(value.deps) or self._key_carries(value.key, w, presume_data)
        if isinstance(value, Choice):
            return any(self.carries(v, w, presume_data) for v in value.alternatives)
        obj = w.get(value, Instance)
        return obj is not None and obj.role is not roles.ARRAY and not presume_data

    def _key_carries(self, key: Hashable, w: World, presume_data: bool) -> bool:
        if isinstance(key, Ref):
            return self.carries(key, w, presume_data)
        if not is_origin(key) or key in self._breaks or isinstance(key, _FREE):
            return False
        match key:
            case Result() | New("result"):
                return True
            case New(what) if what in _FREE_OF_NEW:
                return False
            case Operation() | UnaryOperation():
                return any(self._key_carries(part, w, presume_data) for part in operands(key))
            case ItemOf(of) | ElementOf(_, of) | CopyOf(_, of) if of is not None:
                return self._key_carries(of, w, presume_data)
            case Parameter(_, name) if DATA_NAME.search(name):
                return False
        return not presume_data

    # --- cutting

    def result(
        self, op: Op, args: Iterable[Value], inputs: list[Value], new: Tensor, parameters: bool, w: World, site: Site
    ) -> None:
        """What the result of an operation remembers."""
        if new.requires_grad is not False:
            new.from_unknown = parameters or any(self.carries(v, w) for v in inputs if not _is_setting(v))
            new.cut = None if new.from_unknown else self.first([*args, *inputs], w)
        elif parameters or any(self.carries(v, w, presume_data=True) for v in inputs):
            how = "no_grad" if w.grad is False else "detach" if op.detaches else "integers"
            new.cut = Cut(how, site, self._are_trained(inputs, w))
        else:
            new.cut = self.first([*args, *inputs], w)

    def computed(self, name: str, args: Arguments, result: Value, w: World, site: Site) -> None:
        """The function or method ``name`` gave ``result``: where it rounds, its gradient is zero everywhere."""
        if name in _STEPS and isinstance(result, Ref) and self._tensors.presumed(result, w):
            w.write(result.id).cut = Cut("round", site, trained=True)
        symbol = SYMBOLS.get(name, "neg" if name in NUMBER_KEEPING else "")
        first = w.get(w.resolve(args.positional[0]), Tensor) if args.positional else None
        if symbol and first is not None and (name not in ("mean", "sum") or first.size == "one"):
            self.combined(symbol, args.positional[0], args.get(1) or NONE, result, w, site)

    def _are_trained(self, values: Iterable[Value], w: World) -> bool:
        return any(self._tensors.presumed(value, w) for value in values)

    def lost(self, values: Iterable[Value], how: str, w: World, site: Site) -> Cut | None:
        """The cut behind something made from the mere values of ``values``."""
        values = list(values)
        tensors = self._tensors.tensors_in(values, w)
        if any(self.carries(v, w, presume_data=True) for v in tensors):
            return Cut(how, site, self._are_trained(tensors, w))
        cut = self.first(tensors + values, w)
        turns = cut is not None and cut.how == "detach" and not cut.turned and how in ("number", "numpy")
        return replace(cut, turned=how, turned_at=site) if cut is not None and turns else cut

    def copied(self, values: list[Value], w: World, site: Site) -> Cut | None:
        """The cut behind a tensor made from the mere values of ``values``."""
        self._copied[site] = values
        return self.lost(values, "copy", w, site)

    def behind(self, tensor: Tensor, w: World) -> Iterator[tuple[Site, list[Value]]]:
        """Where the graph of a tensor was cut, or copies behind it require grad instead, and what was copied there."""
        made = [group.made_at for key in sorted(tensor.deps) if isinstance(group := w.find(key), Group)]
        for at in [tensor.cut.at if tensor.cut is not None else None, *made]:
            if at is not None and (at in self._copied or tensor.cut is not None):
                yield at, self._copied.get(at, [])

    def are_losses(self, values: list[Value], w: World) -> bool:
        """Whether ``values`` are a list of tensors of one element each, all of which require grad."""
        sequence = w.get(w.resolve(values[0]), Sequence) if len(values) == 1 else None
        if sequence is None:
            return False
        each = [*sequence.items, *([sequence.tail] if sequence.tail is not None else [])]
        tensors = [w.get(w.resolve(value), Tensor) for value in each]
        return bool(each) and all(
            tensor is not None and tensor.size == "one" and self._tensors.requires_grad(value, w)
            for value, tensor in zip(each, tensors, strict=True)
        )

    def note(self, result: Value, values: Iterable[Value], how: str, w: World, site: Site) -> Value:
        """``result``, a number or an array made from the mere values of ``values``."""
        values = list(values)
        self._copied[site] = values
        return self._remember(result, self.lost(values, how, w, site))

    def inherit(self, result: Value, values: Iterable[Value], w: World) -> Value:
        """``result``, computed from numbers and arrays alone."""
        return self._remember(result, self.first(values, w))

    def joined(self, result: Value, a: Value, b: Value, w: World) -> Value:
        """``result``, which is one of two values: its graph was cut where theirs both were."""
        return self._remember(result, self.of(a, w) if self.of(b, w) is not None else None)

    def _remember(self, result: Value, cut: Cut | None) -> Value:
        key = result.id if isinstance(result, Ref) else getattr(result, "key", None)
        if cut is not None and key is not None:
            self._breaks[key] = cut
        return result

    def loss(self, result: Value, prediction: Value | None, target: Value | None, w: World) -> None:
        """A loss of two values: a target that came from outside is taken for data."""
        tensor = w.get(result, Tensor)
        if tensor is None or not isinstance(result, Ref) or tensor.cut is not None or prediction is None:
            return
        if self.carries(prediction, w) or (target is not None and self.carries(target, w, presume_data=True)):
            return
        new: Tensor = w.write(result.id)
        new.cut = self.of(prediction, w) or (self.of(target, w) if target is not None else None)
        new.from_unknown = False

    def overwritten(self, how: str, key: int, used: list[Value], w: World, site: Site) -> None:
        """A tensor was changed in place, using other values."""
        new: Tensor = w.write(key)
        symbol = SYMBOLS.get(how, how.removesuffix("="))
        self.combined(symbol, Ref(key), used[0] if len(used) == 1 else NONE, Ref(key), w, site)
        if any(self.carries(v, w) for v in used) or self.carries(Ref(key), w):
            new.cut, new.from_unknown = None, True
        elif new.cut is None:
            new.cut = self.first(used, w)

    # --- sums

    def combined(self, symbol: str, left: Value, right: Value, result: Value, w: World, site: Site) -> None:
        """``left symbol right``: a backward pass from a sum does not see its terms that have lost their graph."""
        tensor = w.get(result, Tensor)
        if tensor is None or not isinstance(result, Ref):
            return
        terms: list[LostTerm] = []
        if tensor.requires_grad is not False:
            terms = self._terms(symbol, w.resolve(left), w.resolve(right), w, site)
        if terms or tensor.lost_terms:
            w.write(result.id).lost_terms = tuple(terms)

    def _terms(self, symbol: str, left: Value, right: Value, w: World, site: Site) -> list[LostTerm]:
        if symbol in ("+", "-"):
            return self._of_sum([left, right], w, site)
        terms = self._of_sum([left], w, site)
        if symbol == "neg":
            return terms
        if symbol == "*" and not terms:
            left, right, terms = right, left, self._of_sum([right], w, site)
        is_scaled = symbol in ("*", "/") and not self.carries(right, w, presume_data=True)
        return terms if is_scaled else []

    def total(self, values: list[Value], result: Value, w: World, site: Site) -> Value:
        """``result`` is the sum of all these."""
        if isinstance(result, Ref) and w.get(result, Tensor) is not None:
            w.write(result.id).lost_terms = tuple(self._of_sum(values, w, site))
        elif not any(self.carries(value, w) for value in values):
            self.inherit(result, values, w)
        return result

    def _of_sum(self, values: list[Value], w: World, site: Site) -> list[LostTerm]:
        tensors = [tensor for value in values if (tensor := w.get(value, Tensor)) is not None]
        terms = [term for tensor in tensors for term in tensor.lost_terms]
        cuts = [cut for value in values if (cut := self._lost(value, w)) is not None]
        if cuts and any(self._keeps(value, w) for value in values):
            terms += [LostTerm(site, cut) for cut in cuts]
        return list(dict.fromkeys(terms))

    def _lost(self, value: Value, w: World) -> Cut | None:
        """Where what is trained lost its graph, which is all that a value is made of."""
        cut = self.of(value, w)
        if cut is None or cut.how == "no_grad" or not cut.trained or self.carries(value, w):
            return None
        return cut

    def _keeps(self, value: Value, w: World) -> bool:
        """Whether a value has a graph, or may have one: it is no mere leaf."""
        tensor = w.get(value, Tensor)
        return self.carries(value, w) and (tensor is None or not tensor.is_leaf or tensor.is_parameter is not False)

    # --- modules that are not known

    def forward(self, name: str, result: Unknown, args: Iterable[Value], w: World, site: Site) -> Unknown:
        """The result of calling something unknown; one that has the name of a module or loss is presumed to be one."""
        is_module = bool(MODULE_NAME.search(name))
        if is_module:
            self._inputs.fed(args, w)
        if not (is_module or (w.grad is False and LOSS_NAME.search(name))) or not list(args):
            return result
        if w.grad is False:
            cut = Unknown(CutFrom(result.key), result.hint)
            self._breaks[cut.key] = Cut("no_grad", site)
            return cut
        if w.grad is True and isinstance(result.key, Result):
            return Unknown(result.key._replace(of_module=True), result.hint, result.deps)
        return result


def _is_setting(value: Value) -> bool:
    """Whether a value is a number that a class was built with."""
    return isinstance(value, Unknown) and is_number(value)


__all__ = ["GraphBreaks"]
