"""Shapes: how many elements a tensor has, where the source says so, and columns that meet rows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge.ops import Loss, Op, names
from gradlint.static.knowledge.torch_layers import REGRESSIONS
from gradlint.static.knowledge.torch_table import SAME_SHAPE
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.provenance import is_figure
from gradlint.static.state.tensor import Spread
from gradlint.static.state.values import NONE, Const, Instance, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.python.domain import Index


Shape = tuple[int | None, ...]

_BY_SIZES = frozenset(["zeros", "ones", "rand", "randn", "empty"])
_NOT_BY_DIM = frozenset(["norm", "quantile", "nanquantile"])
"""Reductions whose second argument is not a dimension."""
_CONCATENATES = ("cat", "concat", "concatenate")
_VIEWS = frozenset(["view", "reshape"])
_FLATTENS = frozenset(["flatten", "ravel", "squeeze"])
_PRODUCTS = frozenset(["matmul", "mm", "mv"])
_WIDE = names("torch.nn", "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding")
"""Layers whose second argument is the length of one dimension of what they return."""
_LINEAR = "torch.nn.Linear"


class Shapes:
    """Follows shapes from where tensors are created through what keeps or reduces them."""

    def width(self, name: str, args: Arguments, w: World) -> int | None:
        """The length of the last or second dimension of what a new layer will return."""
        given = args.get(1, "out_features") if name in _WIDE else None
        value = w.resolve(given) if given is not None else NONE
        return value.value if isinstance(value, Const) and isinstance(value.value, int) else None

    def depth(self, name: str, args: Arguments, w: World) -> int | None:
        """The length of the other dimension of the weight of a new layer, where it has two."""
        given = args.get(0, "in_features") if name == _LINEAR else None
        value = w.resolve(given) if given is not None else NONE
        return value.value if isinstance(value, Const) and isinstance(value.value, int) else None

    def of_parameter(self, name: str, parameter: Ref, width: Value | None, depth: Value | None, w: World) -> None:
        """A parameter of a layer that is linear, of which the lengths are known."""
        if isinstance(width, Const) and isinstance(depth, Const) and name in ("weight", "bias"):
            self._learn(parameter, (width.value, depth.value) if name == "weight" else (width.value,), w)

    def applied(self, name: str, op: Op, args: Arguments, result: Value, w: World) -> None:
        """A function or method called ``name`` (its last part) gave ``result``."""
        tensor = w.get(result, Tensor)
        pair = w.get(result, Sequence)
        if pair is not None and pair.fields == ("values", "indices"):
            for item in pair.items:
                self.applied(name, op, args, item, w)
            return
        if tensor is None or not isinstance(result, Ref):
            return
        self._learn(result, self._of(name, op, args, tensor, w), w)
        if name == "stack" and tensor.size is None and len(self._items(args, w)) > 1:
            w.write(result.id).size = "many"
        if name == "topk" and tensor.size != "many" and self._asks_for_several(args, w):
            w.write(result.id).size = "many"

    def combined(self, left: Value, right: Value, result: Value, w: World) -> None:
        """An operator that goes element by element gave ``result``."""
        shapes = [_of_operand(w.resolve(value), w) for value in (left, right)]
        tensor = w.get(result, Tensor)
        if isinstance(result, Ref) and tensor is not None and tensor.shape is None:
            self._learn(result, broadcast(*shapes), w)

    def passed(self, layer: Instance, op: Op, args: Arguments, result: Value, w: World) -> None:
        """A layer gave ``result``: what is linear changes the length of the last dimension."""
        given = w.get(w.resolve(args.positional[0]), Tensor) if args.positional else None
        width = layer.attrs.get("<width>")
        if given is None or not given.shape or not isinstance(result, Ref):
            return
        if op.size == "keeps":
            self._learn(result, given.shape, w)
        elif layer.name == _LINEAR and isinstance(width, Const):
            self._learn(result, (*given.shape[:-1], width.value), w)

    def taken(self, owner: Tensor, index: Index, result: Value, w: World) -> None:
        """``owner[index]`` gave ``result``: with a number one dimension less, with a slice a part of the first."""
        if not isinstance(result, Ref):
            return
        if self._takes_several(owner, index, w):
            w.write(result.id).size = "many"
        if not owner.shape:
            return
        length, *rest = owner.shape
        if isinstance(index, slice):
            self._learn(result, (None if length is None else len(range(length)[index]), *rest), w)
        elif isinstance(index, Const) and type(index.value) is int:
            self._learn(result, tuple(rest), w)

    def measured(self, name: str, tensor: Tensor) -> int | None:
        """What ``.numel()`` or ``.dim()`` of a tensor gives; None if that is not known, or another method."""
        if name not in ("numel", "dim") or tensor.shape is None:
            return None
        if name == "dim":
            return len(tensor.shape)
        return None if None in tensor.shape else prod(tensor.shape)  # type: ignore[arg-type]

    def _takes_several(self, owner: Tensor, index: Index, w: World) -> bool:
        """Whether an index is sure to take more than one element: several places, or more than one of the first."""
        if isinstance(index, slice):
            return owner.size == "many" and _spans_two(index)
        if index is None:
            return False
        places, listed = w.get(index, Tensor), w.get(index, Sequence)
        if places is not None:
            return places.places and places.size == "many"
        return (
            listed is not None
            and listed.mutable
            and len(listed.items) > 1
            and all(isinstance(item, Const) and type(item.value) is int for item in listed.items)
        )

    def _learn(self, result: Ref, shape: Shape | None, w: World) -> None:
        if shape is None:
            return
        new: Tensor = w.write(result.id)
        new.shape = shape
        if None not in shape:
            count = prod(shape)  # type: ignore[arg-type]
            new.size = "one" if count == 1 else "many" if count else None

    def _of(self, name: str, op: Op, args: Arguments, tensor: Tensor, w: World) -> Shape | None:
        first = w.get(w.resolve(args.positional[0]), Tensor) if args.positional else None
        if op.grad == "argument":
            return self._created(name, args, first, w)
        if name in _PRODUCTS:
            return self._product(first, args, w)
        if name == "stack":
            return self._stacked(args, w)
        if name in _CONCATENATES:
            return self._put_together(args, w)
        if name in _VIEWS:
            return self._viewed(first, args, w)
        if name in _FLATTENS:
            return self._flattened(name, first, args, w)
        if name == "unsqueeze":
            return self._unsqueezed(first, args, w)
        if op.size == "reduces" and (name not in _NOT_BY_DIM or "dim" in args.keywords):
            return self._reduced(args, first, tensor, w)
        alike = op.size == "keeps" and (op.copies or name in SAME_SHAPE)
        if alike and first is not None and op.result == "tensor":
            return first.shape
        return None

    def _created(self, name: str, args: Arguments, like: Tensor | None, w: World) -> Shape | None:
        if name.endswith("_like"):
            return like.shape if like is not None else None
        values = [w.resolve(value) for value in args.positional]
        if name in _BY_SIZES:
            return self._sizes(values or [w.resolve(args.keywords.get("size", NONE))], w)
        if name == "full" and values:
            return self._sizes(values[:1], w)
        if name == "randint":
            sizes = args.get(2, "size") if len(values) > 1 else None
            return self._sizes([w.resolve(sizes)], w) if sizes is not None else None
        if name in ("arange", "randperm") and len(values) == 1:
            return self._sizes(values, w)
        if name in ("linspace", "logspace"):
            steps = args.get(2, "steps")
            return self._sizes([w.resolve(steps)], w) if steps is not None else None
        if name == "tensor" and values:
            return self._nested(values[0], w)
        return None

    def _sizes(self, values: list[Value], w: World) -> Shape | None:
        sequence = w.get(values[0], Sequence) if len(values) == 1 else None
        if sequence is not None:
            if sequence.tail is not None:
                return None
            values = [w.resolve(value) for value in sequence.items]
        sizes = tuple(v.value if isinstance(v, Const) and isinstance(v.value, int) else None for v in values)
        return sizes if any(size is not None for size in sizes) or sequence is not None else None

    def _nested(self, value: Value, w: World) -> Shape | None:
        if isinstance(value, Const):
            return ()
        sequence = w.get(value, Sequence)
        if sequence is None or sequence.tail is not None or not sequence.items:
            return None
        inner = self._nested(w.resolve(sequence.items[0]), w)
        return (len(sequence.items), *inner) if inner is not None else None

    def _viewed(self, first: Tensor | None, args: Arguments, w: World) -> Shape | None:
        """The shape that is asked for, with the length that is left open if it follows from the others."""
        given = [w.resolve(value) for value in args.positional[1:]]
        asked = self._sizes(given, w) if given else None
        if asked is None:
            return None
        sizes = tuple(None if size is not None and size < 0 else size for size in asked)
        known = [size for size in sizes if size is not None]
        if first is None or not first.shape or None in first.shape or len(known) < len(sizes) - 1 or 0 in known:
            return sizes
        rest = prod(first.shape) // prod(known)  # type: ignore[arg-type]
        return tuple(rest if size is None else size for size in sizes)

    def _flattened(self, name: str, first: Tensor | None, args: Arguments, w: World) -> Shape | None:
        """The shape without the dimension of length one that is named; or all dimensions, or those of length one."""
        if first is None or first.shape is None:
            return None
        given = args.get(1, "start_dim" if name == "flatten" else "dim")
        at = w.resolve(given) if given is not None else None
        if at is None:
            known = None not in first.shape
            if name == "squeeze":
                return tuple(size for size in first.shape if size != 1) if known else None
            return (prod(first.shape) if known else None,)  # type: ignore[arg-type]
        if name != "squeeze" or not isinstance(at, Const) or type(at.value) is not int:
            return None
        if not -len(first.shape) <= at.value < len(first.shape):
            return None
        place = at.value % len(first.shape)
        size = first.shape[place]
        return None if size is None else first.shape[:place] + first.shape[place + (size == 1) :]

    def _unsqueezed(self, first: Tensor | None, args: Arguments, w: World) -> Shape | None:
        """The shape of data with one dimension more, of length one; outputs get one to meet each other on purpose."""
        at = w.resolve(args.get(1, "dim") or NONE)
        if first is None or first.shape is None or not isinstance(at, Const) or type(at.value) is not int:
            return None
        if first.requires_grad is not False:
            return None
        rank = len(first.shape) + 1
        if not -rank <= at.value < rank:
            return None
        place = at.value % rank
        return (*first.shape[:place], 1, *first.shape[place:])

    def _asks_for_several(self, args: Arguments, w: World) -> bool:
        """Whether ``topk`` is asked for two or more: it raises where there are fewer."""
        k = w.resolve(args.get(1, "k") or NONE)
        return isinstance(k, Const) and type(k.value) is int and k.value > 1

    def _product(self, left: Tensor | None, args: Arguments, w: World) -> Shape | None:
        """The shape of the product of two matrices, of a matrix and a vector, or of two vectors."""
        given = args.get(1, "other")
        right = w.get(w.resolve(given), Tensor) if given is not None else None
        if left is None or right is None or left.shape is None or right.shape is None:
            return None
        if not 1 <= len(left.shape) <= 2 or not 1 <= len(right.shape) <= 2:
            return None
        return (*left.shape[:-1], *right.shape[1:])

    def _stacked(self, args: Arguments, w: World) -> Shape | None:
        items = self._items(args, w)
        dim = w.resolve(_dimension(args))
        if not items or not isinstance(dim, Const) or type(dim.value) is not int:
            return None
        shapes = {item.shape if item is not None else None for item in items}
        shape = shapes.pop()
        if shapes or shape is None or not -len(shape) <= dim.value + (dim.value < 0) <= len(shape):
            return None
        at = dim.value % (len(shape) + 1)
        return (*shape[:at], len(items), *shape[at:])

    def _put_together(self, args: Arguments, w: World) -> Shape | None:
        """The shape of tensors of one rank that are put behind one another along a dimension, the first or another."""
        shapes = [item.shape if item is not None else None for item in self._items(args, w)]
        dim = w.resolve(_dimension(args))
        ranks = {len(shape) if shape is not None else 0 for shape in shapes}
        rank = ranks.pop() if len(ranks) == 1 else 0
        if not isinstance(dim, Const) or type(dim.value) is not int or not -rank <= dim.value < rank:
            return None
        sizes = [list(of_one) for of_one in zip(*(shape for shape in shapes if shape), strict=True)]
        along = sizes[dim.value % rank]
        length = None if None in along else sum(along)
        known = (next((size for size in of_one if size is not None), None) for of_one in sizes)
        return tuple(length if at == dim.value % rank else size for at, size in enumerate(known))

    def _items(self, args: Arguments, w: World) -> list[Tensor | None]:
        """The tensors in the list or tuple that a function is given first, if that is known item by item."""
        sequence = w.get(w.resolve(args.get(0, "tensors") or NONE), Sequence)
        if sequence is None or sequence.tail is not None:
            return []
        return [w.get(w.resolve(item), Tensor) for item in sequence.items]

    def _reduced(self, args: Arguments, first: Tensor | None, tensor: Tensor, w: World) -> Shape | None:
        given = args.get(1, "dim") or args.keywords.get("axis")
        dim = w.resolve(given) if given is not None else None
        keep = w.resolve(args.get(2, "keepdim") or Const(False))
        if first is None or not isinstance(dim, Const) or not isinstance(dim.value, int) or not isinstance(keep, Const):
            return None
        if first.shape is None:
            if first.size is not None and first.size != "one" and dim.value > 0:
                tensor.size = "samples"  # the first dimension remains
            return None
        if not -len(first.shape) <= dim.value < len(first.shape):
            return None
        at = dim.value % len(first.shape)
        return (*first.shape[:at], *((1,) if keep.value else ()), *first.shape[at + 1 :])


def _dimension(args: Arguments) -> Value:
    """The dimension along which a function puts tensors together: the first, if it is told no other."""
    return args.get(1, "dim") or args.keywords.get("axis") or (NONE if args.open else Const(0))


def broadcast(one: Shape | None, other: Shape | None) -> Shape | None:
    """The shape of what two tensors give that are combined element by element; None if that is not known."""
    if one is None or other is None:
        return None
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    return tuple(b if a == 1 else a if b in (1, None) else b if a is None else max(a, b) for a, b in pairs)


def spread(one: Shape | None, other: Shape | None) -> bool:
    """Whether a column ``(n, 1)`` meets a row ``(n,)``: of different ranks, neither has the shape that both give."""
    if one is None or other is None or len(one) == len(other):
        return False
    column, row = (one, other) if len(one) > len(other) else (other, one)
    if not row or len(column) != len(row) + 1 or column[-1] != 1 or 1 in (column[-2], row[-1]):
        return False
    lengths = {column[-2], row[-1]}
    return len(lengths) == 1 or None in lengths


def _of_operand(value: Value, w: World) -> Shape | None:
    """The shape of what an operator is given; a number has none, which is known."""
    tensor = w.get(value, Tensor)
    if tensor is not None:
        return tensor.shape
    is_number = isinstance(value, Const) and isinstance(value.value, (int, float))
    return () if is_number or (isinstance(value, Unknown) and is_figure(value)) else None


def _spans_two(part: slice) -> bool:
    """Whether a slice takes two items or more wherever there are as many."""
    start, stop = part.start or 0, part.stop
    if part.step not in (None, 1) or type(start) is not int or type(stop) not in (int, type(None)):
        return False
    return stop is None if start <= -2 else start == 0 and (stop is None or stop >= 2)


def is_wide(layer: Instance) -> bool:
    """Whether a layer is known to return, and to have biases for, more than one feature."""
    width = layer.attrs.get("<width>")
    return isinstance(width, Const) and width.value > 1


class Broadcasts:
    """Tells of losses and differences whose two sides are both spread over each other."""

    _witness: Witness
    _tensors: Tensors

    def judged(self, loss: Loss, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """A loss is given a prediction and a target."""
        if loss.name not in REGRESSIONS or not self._witness.listened(events.BothSpread):
            return
        given, target = args.get(loss.input, "input"), args.get(loss.target, "target")
        shapes = [self._shape(value, w) for value in (given, target)]
        if shapes[0] is None or shapes[1] is None:
            return
        column = 0 if len(shapes[0]) > len(shapes[1]) else 1
        word, place = [("input", loss.input), ("target", loss.target)][column]
        event = events.BothSpread(
            site=site,
            loss=loss.name,
            shapes=(shapes[0], shapes[1]) if spread(*shapes) else (),
            role=f"argument {word if word in args.keywords else place}",
        )
        self._witness.send(event, w, ctx)

    def subtracted(self, left: Value, right: Value, result: Value, w: World, site: Site) -> None:
        """``left - right``."""
        shapes = (self._shape(left, w), self._shape(right, w))
        if not isinstance(result, Ref) or shapes[0] is None or shapes[1] is None or not spread(*shapes):
            return
        column, row = (left, right) if len(shapes[0]) > len(shapes[1]) else (right, left)
        of_row, of_column = self._tensors.requires_grad(row, w), self._tensors.requires_grad(column, w)
        if of_column and of_row is False:
            tensor: Tensor = w.write(result.id)
            tensor.spreads = (*tensor.spreads, Spread(site, (shapes[0], shapes[1])))

    def walked(self, root: Tensor, w: World, ctx: Context) -> None:
        """A backward pass begins at what was made of these differences."""
        for difference in root.spreads:
            event = events.BothSpread(site=difference.at, shapes=difference.shapes)
            self._witness.send(event, w, ctx, alternative=difference.at)

    def _shape(self, value: Value | None, w: World) -> Shape | None:
        tensor = w.get(w.resolve(value), Tensor) if value is not None else None
        return tensor.shape if tensor is not None and not tensor.structured else None


__all__ = ["Broadcasts", "Shapes"]
