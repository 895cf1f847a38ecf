"""Terms of a loss that have lost their graph.

Tensors that functions have cut from what requires grad are followed through what is computed of them, and numbers as
long as they are what a tensor gave.  Where one is added to a tensor that has a graph, the node of the sum is marked;
a backward pass that begins looks for marked sums, through sums and constant factors alone.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from gradlint.events import LostTermAdded

from ..frames import FrameSite, user_site
from ..records.living import Living
from ..roster import Resting
from ..spelling import operation_at
from ..torch_functions import COMPUTES, COUNTS, CUTS, DETACHES, KEEPS, LIKENS, STEPS, SUMS

if TYPE_CHECKING:
    from ..calls import BackwardCall, SwapCall
    from ..judging import Judge

_guards = itertools.count(1)
_NUMBER: Final = re.compile(r"Backward\d*$")
NUMBERS: Final = 64  #: of the last numbers that were taken, are remembered
DEEP: Final = 1000  #: nodes that are looked at before a backward pass

_KEEPING: Final = frozenset(["Add", "Sub", "Neg", "Squeeze", "Unsqueeze", "View", "Clone", "ToCopy", "Alias"])


@dataclass(frozen=True, slots=True)
class _Cut:
    """How and where a value lost its graph."""

    how: str
    at: FrameSite
    told: bool = True  #: not on purpose, as far as is known


class LostTerms(Resting):
    """Reports terms of a loss that carry no graph, beside others that do."""

    RESTS_FROM = ("backward_begins",)  # while no such sum was made

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._key = f"gradlint.terms.{next(_guards)}"
        self._cuts: Living[tuple[weakref.ref[Any], _Cut]] = Living(operator.itemgetter(0))  # of tensors and arrays
        self._numbers: deque[tuple[Any, _Cut]] = deque(maxlen=NUMBERS)
        self._told: set[FrameSite] = set()
        self.rest()

    # --- what is told by the interception

    def backward_begins(self, call: BackwardCall) -> None:
        for root in call.roots if call.accumulates else ():
            node = getattr(root, "grad_fn", None)
            if node is None or root.numel() != 1:
                continue
            found = list(self._lost_below(node))
            if any(event.how == "detach" for event in found):
                continue  # what is detached in a sum belongs to a straight-through estimate of the others
            for event in found:
                if event.site not in self._told:
                    self._told.add(event.site)  # type: ignore[arg-type]
                    self._judge.send(event)
        if call.accumulates:
            self.rest()

    def tensors_swapped(self, _: SwapCall) -> None:
        """Nothing is known of tensors that could change."""
        self._cuts.clear()

    def before(self) -> dict[Any, Callable[..., None]]:
        """Nothing needs to be known before the functions run."""
        return {}

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function."""
        data: Any = torch.Tensor.data
        found: dict[Any, Callable[..., None]] = {}
        for name in f"{COMPUTES} {KEEPS} {LIKENS}".split():
            found |= dict.fromkeys(_called(name), self._computed)
        for name in DETACHES.split():
            found |= dict.fromkeys(_called(name), self._cutting("detach"))
        found[data.__get__] = self._cutting("detach")
        for name in STEPS.split():
            found |= dict.fromkeys(_called(name), self._cutting("round"))
        for name in CUTS.split():
            found |= dict.fromkeys(_called(name), self._cutting("integers"))
        found |= dict.fromkeys(_called("numpy"), self._cutting("numpy"))
        found |= {function: self._taken for name in COUNTS.split() for function in _called(name)}
        found |= dict.fromkeys((torch.tensor, torch.as_tensor, torch.from_numpy), self._copied)
        found[torch.autograd.grad] = self._derived
        for name in SUMS.split():
            found |= dict.fromkeys(_called(name), self._summed)
        return found

    # --- cutting

    def _of(self, value: Any) -> _Cut | None:
        """How a tensor, an array or a number that was taken lost its graph, as far as it was seen."""
        if isinstance(value, (int, float)):
            return next((cut for number, cut in self._numbers if number is value), None)
        known = self._cuts.get(id(value))
        return known[1] if known is not None and known[0]() is value else None

    def _remember(self, value: Any, cut: _Cut) -> None:
        if isinstance(value, float):
            return
        self._cuts.put(value, (weakref.ref(value), cut))

    def _cut(self, values: Iterable[Any], how: str, depth: int) -> _Cut | None:
        """What is known of a value made of the mere values of these."""
        values = list(values)
        earlier = next((cut for value in values if (cut := self._of(value)) is not None), None)
        if any(_requires_grad(value) and self._of(value) is None for value in values):
            return _Cut(how, user_site(depth + 1), how != "detach") if torch.is_grad_enabled() else None
        if earlier is not None and not earlier.told and how in ("number", "numpy"):
            return replace(earlier, how=how, at=user_site(depth + 1), told=True)
        return earlier

    def _cutting(self, how: str) -> Callable[..., None]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            cut = self._cut(_values(args), how, 3)
            for value in _values([result]) if cut is not None else ():
                self._remember(value, cut)  # type: ignore[arg-type]

        return handle

    def _taken(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        cut = self._cut(args[:1], "number", 3)
        if cut is not None and isinstance(result, float):
            self._numbers.append((result, cut))

    def _copied(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        values = list(_values(args[:1]))
        cut = self._cut(values, "copy", 3)
        if cut is not None:
            self._remember(result, cut)

    def _derived(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        outputs = args[0] if args else kwargs.get("outputs")
        if any(tensor.requires_grad for tensor in result if isinstance(tensor, torch.Tensor)):
            return
        cut = self._cut(_values([outputs]), "gradient", 3)
        for tensor in _values([result]) if cut is not None else ():
            self._remember(tensor, cut)  # type: ignore[arg-type]

    def _computed(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if not self._cuts and not self._numbers:
            return
        values = list(_values(args))
        cut = next((cut for value in values if (cut := self._of(value)) is not None), None)
        if cut is None or any(_requires_grad(value) and self._of(value) is None for value in values):
            return
        for value in _values([result]):
            self._remember(value, cut)

    # --- adding

    def _summed(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self._computed(args, kwargs, result)
        node = getattr(result, "grad_fn", None)
        if node is None or result.numel() != 1 or len(args) < 2 or not (self._cuts or self._numbers):
            return
        site = None
        for one, other in (args[:2], args[1::-1]):
            if not _keeps(one) or self._of(one) is not None:
                continue
            site = site or user_site(3)
            cut = self._of(other)
            if cut is None and isinstance(other, float) and site not in self._told:
                cut = self._spelt(site)
            if cut is not None and site not in self._told:
                event = LostTermAdded(site=site, how=cut.how, cut_at=cut.at)
                node.metadata.setdefault(self._key, []).append(event)
                self.wake()

    def _spelt(self, site: FrameSite) -> _Cut | None:
        """How what is added at ``site`` lost its graph: a number was taken where the source spells that term."""
        place = site.locate()
        here = [cut for _, cut in self._numbers if cut.at.code is site.code]
        operation = operation_at(site) if here else None
        if isinstance(operation, ast.AugAssign):
            term: ast.expr = operation.value
        elif isinstance(operation, ast.BinOp):
            term = operation.right
        else:
            return None
        first = term.lineno, term.col_offset
        last = term.end_lineno or term.lineno, term.end_col_offset or term.col_offset
        for cut in reversed(here):
            taken = cut.at.locate()
            row = taken.row - place.row + 1
            if first <= (row, taken.column - (place.column if row == 1 else 1)) < last:
                return cut
        return None

    def _lost_below(self, node: Any) -> Iterator[LostTermAdded]:
        """The sums that a graph begins with to which such terms were added."""
        nodes = [node]
        for _ in range(DEEP):
            if not nodes:
                return
            node = nodes.pop()
            yield from node.metadata.pop(self._key, ())
            children = [child for child, _ in node.next_functions if child is not None]
            name = _NUMBER.sub("", node.name())
            if name in _KEEPING or (name in ("Mul", "Div") and len(children) == 1) or _is_of_one(name, node):
                nodes += children


def _is_of_one(name: str, node: Any) -> bool:
    """Whether a node has summed or averaged a single number."""
    return name in ("Sum", "Mean") and math.prod(getattr(node, "_saved_self_sym_sizes", (0,))) == 1


def _called(name: str) -> list[Any]:
    """The functions and methods of a name."""
    return [found for owner in (torch, torch.Tensor) if (found := getattr(owner, name, None)) is not None]


def _values(given: Iterable[Any], depth: int = 2) -> Iterator[Any]:
    """What there is in arguments, lists and tuples of them that may have lost a graph."""
    for value in given:
        if isinstance(value, (list, tuple)) and depth:
            yield from _values(value, depth - 1)
        elif isinstance(value, (torch.Tensor, float)) or type(value).__name__ == "ndarray":
            yield value


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _keeps(value: Any) -> bool:
    """Whether a value has a graph: it is no mere leaf that was told to require grad."""
    return _requires_grad(value) and (value.grad_fn is not None or isinstance(value, torch.nn.Parameter))
