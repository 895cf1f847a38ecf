"""What a torch operation does to the things gradlint follows: the columns of the torch table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

Result = Literal["tensor", "tensors", "pair", "pair_by_dim", "number", "array", "module", "none"]
"""A tensor; a tuple of unknown length of tensors; (values, indices); a pair where a dim is given and else a
tensor (``max``); a Python number, bool, string, shape or list of numbers; a numpy array; …"""


@dataclass(frozen=True, slots=True)
class Op:
    """One function or tensor method.

    ``pair`` results are ``(values, indices)``: the second element, which may be other integers, never requires grad.
    """

    result: Result = "tensor"
    #: "inputs": requires grad if an input does.  "never": cut from the graph (integers, comparisons).
    #: "argument": a fresh leaf that requires grad if the argument ``requires_grad`` says so.
    grad: Literal["inputs", "never", "argument"] = "inputs"
    #: "keeps" (shape, type, device), "clears" (other values: products, relu), "bounds" (probabilities stay what they
    #: are, but for those next to 0 or 1), "combines" (sums of its inputs, which are logits where all of them are),
    #: "scales" (the same where all but one are numbers), "mixes" (the same where one of them is: each element of the
    #: result is a sum of many), "averages" (probabilities or logits, over some dimension), or the activation that it
    #: applies.
    activation: str = "clears"
    #: Which tensors its backward needs: nothing can be walked twice, the rest raises once freed.
    #: "input" stands for the tensors it is given (both factors of a product), "output" for its first result, "other"
    #: for what neither is (an index, a mask, statistics of its own).
    saves: Literal["", "input", "output", "both", "other"] = "input"
    #: "positive": nothing that it gives is below zero.  "keeps": nothing is, where nothing that it is given is; so it is
    #: with an ``activation`` that says that values stay what they are, or that they become probabilities.
    sign: Literal["", "positive", "keeps"] = ""
    #: "keeps" the number of elements, "one", "many", "reduces" (to one unless a dim is given), "unknown";
    #: "broadcast": one where every tensor given has one element, many where any has many.
    size: Literal["keeps", "one", "many", "reduces", "broadcast", "unknown"] = "unknown"
    #: "inputs", "argument" (keyword ``device``, else the CPU), "to" (``.to``), "cpu", "cuda", "unknown".
    device: Literal["inputs", "argument", "to", "cpu", "cuda", "unknown"] = "inputs"
    integral: bool = False  #: the result is of an integer or bool type
    ranks: bool = False  #: it tells places in the order of its input, and perhaps the values there
    casts: bool = False  #: it may be told the type of its result, or to take that of another tensor
    beside: tuple[str, ...] = ()  #: keywords that each make it return a tensor of integers behind its result
    multiplies: bool = False  #: it needs a tensor for the gradients of other factors only: alone it is not saved
    likens: bool = False  #: what else it is given only tells a shape, type or device, and is no input of the graph
    picks: bool = False  #: what else it is given tells which elements of its first input it takes
    inplace: bool = False  #: changes its first input, and returns it
    view: bool = False  #: shares storage with its first input
    looks: bool = False  #: it is a view where its first input is stored in order, as parameters are, and else a copy
    detaches: bool = False  #: the result carries no graph although its values come from the input
    copies: bool = False  #: the result certainly owns its storage
    joins: bool = False  #: it puts the items of a list together, and raises if there is none


@dataclass(frozen=True, slots=True)
class Layer:
    """A class of ``torch.nn``: what building one gives and what calling one does."""

    parameters: bool = False  #: it has trainable parameters
    affine: tuple[int, str] | None = None  #: the position and name of the argument that says so
    op: Op = Op()  #: what calling it does to its first input
    mode_dependent: bool = False  #: it behaves differently in training and evaluation (dropout, batch norm)
    dropout: bool = False
    drops: tuple[int, str] | None = None  #: where the probability of a dropout inside is given, which is 0 else
    between: tuple[int, str] | None = None  #: the same of the number of layers, where it drops between them only
    tracks: tuple[int, str] | None = None  #: where it is told whether to keep running statistics, as it does else
    container: Literal["", "sequential", "list", "dict", "wrapper"] = ""  #: "wrapper": calls the one module given to it
    held: str = "module"  #: the name of the argument, the first one, by which a container is given what it holds
    of_modules: bool = False  #: what a container holds can only be a module
    returns: Literal["tensor", "recurrent", "lstm", "attention"] = "tensor"
    """A tensor, ``(output, hidden)``, or ``(output, weights)``."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss, as a class of ``torch.nn`` or a function of ``torch.nn.functional``."""

    name: str  #: the functional name, shared by class and function
    input: int = 0  #: position of the prediction
    target: int = 1  #: position of the target; -1 where there is none


@dataclass(frozen=True, slots=True)
class Dropout:
    """A functional dropout: where its arguments stand, and what it does when they are not said."""

    name: str  #: the bare name of the function
    probability: int = 1  #: position of the probability
    keyword: str = "p"  #: its keyword
    default: float | None = 0.5  #: the probability when it is not given; None where it must be
    training: int | None = 2  #: position of ``training``; None where there is no such argument
    drops_by_default: bool = True  #: it drops when ``training`` is not given


@dataclass(frozen=True, slots=True)
class Conversion:
    """A callable that asks numpy for the values of what it is given."""

    display: str  #: how a user spells it: ``np.asarray``
    tensor: bool = True  #: it raises for a tensor that requires grad
    sequence: bool = True  #: it raises for a list of tensors that require grad
    positions: tuple[int, ...] | None = (0,)  #: the positional arguments converted; None: all of them
    keywords: tuple[str, ...] = ()  #: the keyword arguments converted
    own_method: bool = False  #: of a tensor, it gives what the tensor's own method of that name does, graph and all


T = TypeVar("T")


def ops(names: str, **columns: Any) -> dict[str, Op]:
    """One row for each of the blank-separated ``names``; ``columns`` are fields of :class:`Op`."""
    op = Op(**columns)
    return dict.fromkeys(names.split(), op)


def layers(names: str, op: Op | None = None, **columns: Any) -> dict[str, Layer]:
    """One row for each of the blank-separated ``names``; ``columns`` are fields of :class:`Layer`."""
    layer = Layer(op=op or Op(), **columns)
    return dict.fromkeys(names.split(), layer)


def merged(*tables: Mapping[str, T]) -> dict[str, T]:
    """All rows of several tables.

    Raises:
        ValueError: if a name has two rows that differ.
    """
    result: dict[str, T] = {}
    for table in tables:
        for name, row in table.items():
            known = result.setdefault(name, row)
            if known is not row and known != row:
                raise ValueError(f"the torch table has two rows for {name!r}: {result[name]} and {row}")
    return result


def within(namespace: str, table: Mapping[str, T]) -> dict[str, T]:
    """The table with each name in ``namespace``."""
    return {f"{namespace}.{name}": row for name, row in table.items()}


def words(*lines: str) -> tuple[str, ...]:
    """The blank-separated words of all lines."""
    return tuple(word for line in lines for word in line.split())


def names(namespace: str, *lines: str) -> frozenset[str]:
    """The blank-separated names of all lines, in ``namespace``."""
    return frozenset(f"{namespace}.{name}" if namespace else name for name in words(*lines))


def in_place(names: str, table: Mapping[str, Op]) -> dict[str, Op]:
    """The rows of the operations that change their first input, by the rows of those that do not.

    ``relu_`` is to ``relu`` as ``Tensor.clamp_`` to ``Tensor.clamp``.  Autograd keeps a copy of an input that it
    needs and that is about to be overwritten, so nothing that is still reachable is saved but the output.
    """
    saved = {"": "", "input": "other", "other": "other", "output": "output", "both": "output"}

    def changed(op: Op) -> Op:
        columns: dict[str, Any] = {"saves": saved[op.saves], "size": "keeps", "integral": False, "grad": "inputs"}
        return replace(op, **columns, inplace=True, copies=False, view=False)

    return {f"{name}_": changed(table[name]) for name in names.split()}


def listed(table: Mapping[str, T], *lines: str) -> dict[str, T]:
    """The rows of the blank-separated names of all lines only."""
    return {name: table[name] for name in words(*lines)}
