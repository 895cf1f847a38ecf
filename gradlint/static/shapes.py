"""Shapes: how many elements a tensor has, where the source says so."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from gradlint.static.context import Arguments
from gradlint.static.ops import Op
from gradlint.static.torch_notation import names
from gradlint.static.values import NONE, Const, Ref, Sequence, Tensor, Value
from gradlint.static.world import World

if TYPE_CHECKING:
    from gradlint.static.interpreter import Interpreter

Shape = tuple[int | None, ...]

_BY_SIZES = frozenset(["zeros", "ones", "rand", "randn", "empty"])
_NOT_BY_DIM = frozenset(["norm", "quantile", "nanquantile"])
"""Reductions whose second argument is not a dimension."""
_WIDE = names("torch.nn", "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding")
"""Layers whose second argument is the length of one dimension of what they return."""


class Shapes:
    """Follows shapes from where tensors are created through what keeps or reduces them."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

    def width(self, name: str, args: Arguments, w: World) -> int | None:
        """The length of the last or second dimension of what a new layer will return."""
        given = args.get(1, "out_features") if name in _WIDE else None
        value = w.resolve(given) if given is not None else NONE
        return value.value if isinstance(value, Const) and isinstance(value.value, int) else None

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
        shape = self._of(name, op, args, tensor, w)
        if shape is not None:
            new: Tensor = w.write(result.id)
            new.shape = shape
            if None not in shape:
                new.size = "one" if prod(shape) == 1 else "many"  # type: ignore[arg-type]

    def _of(self, name: str, op: Op, args: Arguments, tensor: Tensor, w: World) -> Shape | None:
        first = w.get(w.resolve(args.positional[0]), Tensor) if args.positional else None
        if op.grad == "argument":
            return self._created(name, args, first, w)
        if op.size == "reduces" and (name not in _NOT_BY_DIM or "dim" in args.keywords):
            return self._reduced(args, first, tensor, w)
        if op.size == "keeps" and op.copies and first is not None and op.result == "tensor":
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


__all__ = ["Shapes"]
