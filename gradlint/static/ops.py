"""What a torch operation does to the things gradlint follows: the columns of the torch table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["tensor", "tensors", "pair", "number", "array", "module", "none"]
"""A tensor; a tuple of unknown length of tensors; (values, indices); a Python number; a numpy array."""


@dataclass(frozen=True, slots=True)
class Op:
    """One function or tensor method.

    ``pair`` results are ``(values, indices)``: the second element never requires grad.
    """

    result: Result = "tensor"
    #: "inputs": requires grad if an input does.  "never": cut from the graph (integers, comparisons).
    #: "argument": a fresh leaf that requires grad if the argument ``requires_grad`` says so.
    grad: Literal["inputs", "never", "argument"] = "inputs"
    #: "keeps" (shape, type, device), "clears" (other values: arithmetic, relu), or the activation it applies.
    activation: str = "clears"
    #: Which tensors its backward needs: nothing can be walked twice, the rest raises once freed.
    saves: Literal["", "input", "output", "both"] = "input"
    #: "keeps" the number of elements, "one", "many", "reduces" (to one unless a dim is given), "unknown".
    size: Literal["keeps", "one", "many", "reduces", "unknown"] = "unknown"
    #: "inputs", "argument" (keyword ``device``, else the CPU), "to" (``.to``), "cpu", "cuda".
    device: Literal["inputs", "argument", "to", "cpu", "cuda"] = "inputs"
    integral: bool = False  #: the result is of an integer or bool type
    inplace: bool = False  #: changes its first input, and returns it
    view: bool = False  #: shares storage with its first input
    detaches: bool = False  #: the result carries no graph although its values come from the input
    copies: bool = False  #: the result certainly owns its storage


@dataclass(frozen=True, slots=True)
class Layer:
    """A class of ``torch.nn``: what building one gives and what calling one does."""

    parameters: bool = False  #: it has trainable parameters
    op: Op = Op()  #: what calling it does to its first input
    mode_dependent: bool = False  #: it behaves differently in training and evaluation (dropout, batch norm)
    dropout: bool = False
    container: Literal["", "sequential", "list", "dict"] = ""
    returns: Literal["tensor", "recurrent", "attention"] = "tensor"
    """A tensor, ``(output, hidden)``, or ``(output, weights)``."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss, as a class of ``torch.nn`` or a function of ``torch.nn.functional``."""

    name: str  #: the functional name, shared by class and function
    input: int = 0  #: position of the prediction
    target: int = 1  #: position of the target
