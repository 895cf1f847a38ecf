"""What functions of torch do with the values they are given, as far as the watch over functions follows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own idiom

#: Functions by the activation they apply.
APPLIES: dict[str, tuple[Any, ...]] = {
    "softmax": (torch.softmax, F.softmax, torch.Tensor.softmax, torch.special.softmax, F.gumbel_softmax),
    "log_softmax": (torch.log_softmax, F.log_softmax, torch.Tensor.log_softmax, torch.special.log_softmax),
    "sigmoid": (torch.sigmoid, F.sigmoid, torch.Tensor.sigmoid, torch.special.expit),
    "logits": (F.linear, F.bilinear, F.conv1d, F.conv2d, F.conv3d),
}

#: Methods, functions and attributes that hold the same values, or some of them, in another shape, order, type or place.
KEEPS = (
    "H T __getitem__ adjoint as_strided atleast_1d atleast_2d atleast_3d bfloat16 broadcast_tensors broadcast_to chunk "
    "clone contiguous cpu cuda detach detach_ diagonal double dsplit expand expand_as flatten flip fliplr flipud float "
    "gather half hsplit index_select mH mT masked_select moveaxis movedim narrow narrow_copy permute pin_memory ravel "
    "repeat repeat_interleave reshape reshape_as roll rot90 select split split_with_sizes squeeze squeeze_ swapaxes "
    "swapdims t t_ take take_along_dim tensor_split tile to transpose transpose_ type type_as unbind unflatten "
    "unsqueeze unsqueeze_ view view_as vsplit"
)

#: Functions that put the items of a list together.
JOINS = "cat column_stack concat concatenate dstack hstack row_stack stack vstack"

#: Functions that leave what lies between 0 and 1 there; a logarithm of the result is one that is protected.
BOUNDS = "clamp clamp_ clamp_max clamp_min clip nan_to_num"

RESIZES = (F.interpolate, F.upsample)
ADDS = (torch.add, torch.Tensor.add, torch.Tensor.add_)
MULTIPLIES = (torch.mul, torch.Tensor.mul, torch.Tensor.mul_)
NEGATES = (torch.neg, torch.Tensor.neg)
#: Methods and functions whose result is computed from all that they are given.
COMPUTES = (
    "__rsub__ __rtruediv__ add addcdiv addcmul clamp clip clone detach div exp lerp maximum minimum mul neg norm pow "
    "reciprocal rsqrt rsub sign sqrt square sub sum true_divide where"
)
#: Others whose result is computed from all that they are given.
LIKENS = (
    "__getitem__ __mul__ __neg__ __pow__ __rmul__ __truediv__ abs addmm amax amin bmm cat cos cosh cumsum dot exp log "
    "log10 log1p log2 logsumexp masked_fill masked_select matmul max mean min mm mse numel prod relu sigmoid sin "
    "softmax stack std sum tanh to topk var where"
)
#: Methods and functions whose result shares no graph with what they are given, on purpose.
DETACHES = "detach"
#: Those whose gradient is zero everywhere.
STEPS = "ceil fix floor round sgn sign trunc"
#: Those whose result has no gradient: integers, and comparisons.
CUTS = (
    "__eq__ __ge__ __gt__ __le__ __lt__ __ne__ argmax argmin argsort bool eq ge gt int le logical_and logical_not "
    "logical_or long lt ne"
)
#: Those that add, or subtract.
SUMS = "__add__ __iadd__ __isub__ __radd__ __rsub__ __sub__ add add_ rsub sub sub_ subtract"
#: Methods that write what is computed from what they are given.
STORES = "__setitem__ add_ addcdiv_ addcmul_ clamp_ copy_ div_ lerp_ mul_ neg_ sqrt_ sub_"
#: Methods that write what has nothing to do with what was there.
FILLS = "bernoulli_ exponential_ fill_ normal_ random_ uniform_ zero_"
#: Methods whose result is a number, or a list of them.
COUNTS = "__float__ item tolist"
PROBABILITIES = ("softmax", "sigmoid")
LOGARITHMS = (torch.log, torch.Tensor.log, torch.Tensor.log_)
SMALL = 1e-2  #: up to which a number that is added is there against ``log(0)``

LOSSES: dict[Any, str] = {
    F.cross_entropy: "cross_entropy",
    F.nll_loss: "nll_loss",
    F.binary_cross_entropy: "binary_cross_entropy",
    F.binary_cross_entropy_with_logits: "binary_cross_entropy_with_logits",
    F.kl_div: "kl_div",
}

REGRESSIONS: dict[Any, str] = {
    F.mse_loss: "mse_loss",
    F.l1_loss: "l1_loss",
    F.smooth_l1_loss: "smooth_l1_loss",
    F.huber_loss: "huber_loss",
}

SIZES = (torch.square, torch.Tensor.square, torch.abs, torch.Tensor.abs, torch.Tensor.__abs__)
"""Functions that square what they are given, or take its size."""
POWERS = (torch.pow, torch.Tensor.pow, torch.Tensor.__pow__)
PRODUCTS = (*MULTIPLIES[:2], torch.Tensor.__mul__)

SUBTRACTS = (torch.sub, torch.Tensor.sub, torch.Tensor.__sub__, torch.Tensor.__rsub__, torch.subtract)

OTHER_LOSSES = (
    *(F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.ctc_loss),
    *(F.gaussian_nll_loss, F.poisson_nll_loss, F.cosine_embedding_loss, F.hinge_embedding_loss),
    *(F.margin_ranking_loss, F.triplet_margin_loss, F.soft_margin_loss, F.multi_margin_loss),
    *(F.multilabel_margin_loss, F.multilabel_soft_margin_loss),
)
"""Losses that no activation belongs before."""

#: Functions that turn outputs into predictions.
PREDICTS = "argmax detach log_softmax max relu round sigmoid softmax sum topk mean"
COMPARISONS: tuple[Any, ...] = (
    F.mse_loss,
    F.l1_loss,
    F.smooth_l1_loss,
    F.huber_loss,
    torch.eq,
    torch.Tensor.eq,
    torch.Tensor.__eq__,
)

DROPOUTS: frozenset[Any] = frozenset(
    (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)
)

OVERWRITES: dict[Any, int | None] = {
    **dict.fromkeys((F.hardsigmoid, F.hardswish, F.mish, F.relu, F.relu6, F.selu, F.silu), 1),
    **dict.fromkeys((F.celu, F.elu, F.leaky_relu), 2),
    **dict.fromkeys((F.hardtanh, F.threshold, *DROPOUTS), 3),
    F.rrelu: 4,
    **dict.fromkeys((torch.relu_, torch.celu_, torch.selu_, torch.rrelu_, torch.threshold_, torch.sigmoid_)),
    **dict.fromkeys((torch.tanh_, F.elu_, F.hardtanh_, F.leaky_relu_)),
    **dict.fromkeys((torch.Tensor.relu_, torch.Tensor.sigmoid_, torch.Tensor.tanh_)),
}
"""Functions that overwrite their first argument, and where they are told to; None for those that always do."""

UNMOVED: frozenset[Any] = frozenset(
    (
        *(F.celu, F.elu, F.leaky_relu, F.relu, F.relu6, F.rrelu, F.elu_, F.leaky_relu_),
        *(torch.celu_, torch.relu_, torch.rrelu_, torch.Tensor.relu_),
    )
)
"""Those that leave what is not below zero as it is; values above 6 are rare."""


def named(names: str) -> Iterator[Any]:
    """The functions and methods of these names, and what reads the attributes of these names."""
    for name in names.split():
        for owner in (torch.Tensor, torch):
            found = getattr(owner, name, None)
            reads = found if callable(found) else getattr(found, "__get__", None)
            if reads is not None:
                yield reads
