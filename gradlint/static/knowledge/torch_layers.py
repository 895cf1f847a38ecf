"""Layers and losses: the classes of ``torch.nn``, those of other libraries that act like one, and dropout."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from gradlint.static.knowledge.library import known
from gradlint.static.knowledge.ops import Dropout, Layer, Loss, Op, layers, merged, within, words
from gradlint.static.knowledge.torch_functions import FUNCTIONS


def _like(pairs: str, **columns: Any) -> dict[str, Layer]:
    """Layers that apply one function: ``Class:function`` pairs, the function one of ``torch.nn.functional``."""
    rows = (pair.split(":") for pair in pairs.split())
    return {name: Layer(op=FUNCTIONS[f"torch.nn.functional.{function}"], **columns) for name, function in rows}


_LOGITS: Final = Op(activation="logits", copies=True)
_MOVES: Final = Op(saves="", activation="keeps")  # the same values in another shape, or some of them
_PADS: Final = Op(saves="", copies=True)
_NORMS: Final = Op(size="keeps", copies=True)
_DROPS: Final = Op(saves="", size="keeps", activation="keeps")
_HIDDEN: Final = Op(copies=True)
_LOOKS_UP: Final = Op(saves="other", copies=True)

_NN: Final = merged(
    # linear maps: what they return may be any real number
    layers("Linear LazyLinear Bilinear", _LOGITS, parameters=True),
    layers("Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d", _LOGITS, parameters=True),
    layers("LazyConv1d LazyConv2d LazyConv3d", _LOGITS, parameters=True),
    layers("LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d", _LOGITS, parameters=True),
    layers("Embedding EmbeddingBag", _LOOKS_UP, parameters=True),
    # activations
    _like("Softmax:softmax Softmax2d:softmax Softmin:softmin LogSoftmax:log_softmax Sigmoid:sigmoid Tanh:tanh"),
    _like("CELU:celu ELU:elu GELU:gelu GLU:glu Hardshrink:hardshrink Hardsigmoid:hardsigmoid Hardswish:hardswish"),
    _like("Hardtanh:hardtanh LeakyReLU:leaky_relu LogSigmoid:logsigmoid Mish:mish ReLU:relu ReLU6:relu6 SELU:selu"),
    _like(
        "SiLU:silu Softplus:softplus Softshrink:softshrink Softsign:softsign Tanhshrink:tanhshrink Threshold:threshold"
    ),
    _like("PReLU:prelu", parameters=True),
    _like("RReLU:rrelu", mode_dependent=True),
    # dropout
    layers(
        "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
        _DROPS,
        mode_dependent=True,
        dropout=True,
    ),
    # normalisation
    layers(
        "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm",
        _NORMS,
        parameters=True,
        affine=(3, "affine"),
        mode_dependent=True,
        tracks=(4, "track_running_stats"),
    ),
    layers(
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d",
        _NORMS,
        parameters=True,
        mode_dependent=True,
        tracks=(3, "track_running_stats"),
    ),
    # affine and track_running_stats are off by default
    layers("InstanceNorm1d InstanceNorm2d InstanceNorm3d", _NORMS, affine=(3, "affine")),
    layers("LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d", _NORMS),
    layers("GroupNorm", _NORMS, parameters=True, affine=(3, "affine")),
    layers("LayerNorm RMSNorm", _NORMS, parameters=True, affine=(2, "elementwise_affine")),
    layers("LocalResponseNorm CrossMapLRN2d", _NORMS),
    # pooling and resampling
    _like("AdaptiveAvgPool1d:adaptive_avg_pool1d AdaptiveAvgPool2d:adaptive_avg_pool2d"),
    _like("AdaptiveAvgPool3d:adaptive_avg_pool3d AdaptiveMaxPool1d:adaptive_max_pool1d"),
    _like("AdaptiveMaxPool2d:adaptive_max_pool2d AdaptiveMaxPool3d:adaptive_max_pool3d"),
    _like("AvgPool1d:avg_pool1d AvgPool2d:avg_pool2d AvgPool3d:avg_pool3d"),
    _like("MaxPool1d:max_pool1d MaxPool2d:max_pool2d MaxPool3d:max_pool3d"),
    _like("MaxUnpool1d:max_unpool1d MaxUnpool2d:max_unpool2d MaxUnpool3d:max_unpool3d"),
    _like("FractionalMaxPool2d:fractional_max_pool2d FractionalMaxPool3d:fractional_max_pool3d"),
    _like("LPPool1d:lp_pool1d LPPool2d:lp_pool2d LPPool3d:lp_pool3d"),
    _like("Upsample:upsample UpsamplingBilinear2d:upsample_bilinear UpsamplingNearest2d:upsample_nearest"),
    # shape
    layers("Identity Flatten Unflatten ChannelShuffle PixelShuffle PixelUnshuffle", _MOVES),
    layers("Fold Unfold ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d", _PADS),
    layers("CircularPad1d CircularPad2d CircularPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d", _PADS),
    layers("ReplicationPad1d ReplicationPad2d ReplicationPad3d", _PADS),
    # similarity
    _like("CosineSimilarity:cosine_similarity PairwiseDistance:pairwise_distance"),
    # recurrent layers and attention.  Their own dropout is 0 by default; that of a Transformer is 0.1.
    layers("RNN", _HIDDEN, parameters=True, drops=(6, "dropout"), between=(2, "num_layers"), returns="recurrent"),
    layers("GRU", _HIDDEN, parameters=True, drops=(5, "dropout"), between=(2, "num_layers"), returns="recurrent"),
    layers("LSTM", _HIDDEN, parameters=True, drops=(5, "dropout"), between=(2, "num_layers"), returns="lstm"),
    layers("RNNBase", _HIDDEN, parameters=True, returns="recurrent"),
    layers("LSTMCell", Op("tensors", copies=True), parameters=True),
    layers("RNNCell GRUCell RNNCellBase", _HIDDEN, parameters=True),
    layers("MultiheadAttention", _HIDDEN, parameters=True, drops=(2, "dropout"), returns="attention"),
    layers("Transformer TransformerEncoderLayer TransformerDecoderLayer", _NORMS, parameters=True, mode_dependent=True),
    layers("TransformerEncoder TransformerDecoder", _NORMS, parameters=True, mode_dependent=True),
    # losses with parameters of their own
    layers("AdaptiveLogSoftmaxWithLoss", Op("tensors", copies=True), parameters=True),
    layers("LinearCrossEntropyLoss", Op(size="one", copies=True), parameters=True),
    # containers
    layers("Sequential", container="sequential", of_modules=True),
    layers("ModuleList", container="list", held="modules", of_modules=True),
    layers("ModuleDict", container="dict", held="modules", of_modules=True),
    layers("ParameterList", container="list", held="values"),
    layers("ParameterDict", container="dict", held="parameters"),
    layers("DataParallel", container="wrapper"),
)

#: Classes around a module: calling one calls the module.
_WRAPPERS: Final = dict.fromkeys(
    words(
        "torch.nn.parallel.DataParallel torch.nn.parallel.DistributedDataParallel "
        "torch.distributed.fsdp.FullyShardedDataParallel torch.distributed.algorithms.join.Join",
        *known().names("wrappers"),
    ),
    Layer(container="wrapper"),
)

WRAPPED: Final = frozenset(words("module _orig_mod"))  #: the attribute under which they have it

_OTHERS: Final = merged(
    known().table("layers"),
    layers("torch.nn.utils.parametrize.ParametrizationList", _HIDDEN, parameters=True),
)

LAYERS: Final[dict[str, Layer]] = merged(within("torch.nn", _NN), _WRAPPERS, _OTHERS)
"""What building and calling a layer gives, by the canonical name of its class.  Losses are in ``LOSSES``."""

OVERWRITES: Final[dict[str, int]] = {
    **within("torch.nn", dict.fromkeys(words("Hardsigmoid Hardswish Mish ReLU ReLU6 SELU SiLU"), 0)),
    **within("torch.nn", dict.fromkeys(words("AlphaDropout CELU Dropout Dropout1d Dropout2d Dropout3d ELU"), 1)),
    **within("torch.nn", dict.fromkeys(words("FeatureAlphaDropout LeakyReLU"), 1)),
    **within("torch.nn", dict.fromkeys(words("Hardtanh RReLU Threshold"), 2)),
    **within("torch.nn.functional", dict.fromkeys(words("hardsigmoid hardswish mish relu relu6 selu silu"), 1)),
    **within("torch.nn.functional", dict.fromkeys(words("celu elu leaky_relu"), 2)),
    **within("torch.nn.functional", dict.fromkeys(words("alpha_dropout dropout dropout1d dropout2d dropout3d"), 3)),
    **within("torch.nn.functional", dict.fromkeys(words("feature_alpha_dropout hardtanh threshold"), 3)),
    **within("torch.nn.functional", dict.fromkeys(words("rrelu"), 4)),
}
"""The layers and functions that are told, as ``inplace``, to overwrite what they are given, and at which position."""

RENAMING: Final = frozenset(words("celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ sigmoid_ tanh_ threshold_"))
"""Functions and methods that do so always; who goes on with the result gives it another name as a rule."""

STATISTICS: Final = frozenset(words("running_mean running_var num_batches_tracked"))
"""What layers that normalize by the data call the buffers in which they keep what they have seen."""

UNMOVED: Final = frozenset(words("CELU ELU LeakyReLU RReLU ReLU ReLU6 celu elu leaky_relu relu relu6 rrelu"))
"""The last names of those that leave what is not below zero as it is; values above 6 are rare."""

REGRESSIONS: Final = frozenset(["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"])
"""Losses that compare two values, and take them for the same kind of thing."""

#: ``function:Class`` where both take the prediction first and the target second.
_PLAIN_LOSSES: Final = """
    binary_cross_entropy:BCELoss  binary_cross_entropy_with_logits:BCEWithLogitsLoss  cross_entropy:CrossEntropyLoss
    ctc_loss:CTCLoss  gaussian_nll_loss:GaussianNLLLoss  hinge_embedding_loss:HingeEmbeddingLoss  huber_loss:HuberLoss
    kl_div:KLDivLoss  l1_loss:L1Loss  mse_loss:MSELoss  multi_margin_loss:MultiMarginLoss
    multilabel_margin_loss:MultiLabelMarginLoss  multilabel_soft_margin_loss:MultiLabelSoftMarginLoss
    nll_loss:NLLLoss  nll_loss:NLLLoss2d  poisson_nll_loss:PoissonNLLLoss  smooth_l1_loss:SmoothL1Loss
    soft_margin_loss:SoftMarginLoss
"""

#: Two inputs, then the target; or three inputs and no target.
_OTHER_LOSSES: Final = {
    Loss("cosine_embedding_loss", target=2): "CosineEmbeddingLoss",
    Loss("margin_ranking_loss", target=2): "MarginRankingLoss",
    Loss("triplet_margin_loss", target=-1): "TripletMarginLoss",
    Loss("triplet_margin_with_distance_loss", target=-1): "TripletMarginWithDistanceLoss",
}


def _losses() -> dict[str, Loss]:
    rows = [pair.split(":") for pair in _PLAIN_LOSSES.split()]
    losses = {Loss(function): (function, layer) for function, layer in rows}
    table = {f"torch.nn.{layer}": Loss(function) for function, layer in rows}
    table |= {f"torch.nn.functional.{function}": loss for loss, (function, _) in losses.items()}
    for loss, layer in _OTHER_LOSSES.items():
        table |= {f"torch.nn.{layer}": loss, f"torch.nn.functional.{loss.name}": loss}
    table["torch.nn.functional.linear_cross_entropy"] = Loss("linear_cross_entropy", target=2)
    for name in words(
        "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss kl_div margin_ranking_loss "
        "poisson_nll_loss triplet_margin_loss"
    ):
        table[f"torch.{name}"] = table[f"torch.nn.functional.{name}"]
    return table


LOSSES: Final[dict[str, Loss]] = _losses()
"""The losses of torch, as class and as function, by canonical name."""

OLD_REDUCTIONS: Final = frozenset(["reduce", "size_average"])
"""The arguments by which losses were once told whether to sum."""

LOSS_SETTINGS: Final = OLD_REDUCTIONS | {"log_target", "reduction"}
"""The arguments of the class of a loss that tell what a call of it computes."""

DROPOUTS: Final[dict[str, Dropout]] = within(
    "torch.nn.functional",
    {
        "dropout": Dropout("dropout"),
        "dropout1d": Dropout("dropout1d"),
        "dropout2d": Dropout("dropout2d"),
        "dropout3d": Dropout("dropout3d"),
        "alpha_dropout": Dropout("alpha_dropout", drops_by_default=False),
        "feature_alpha_dropout": Dropout("feature_alpha_dropout", drops_by_default=False),
        "scaled_dot_product_attention": Dropout(
            "scaled_dot_product_attention", probability=4, keyword="dropout_p", default=0.0, training=None
        ),
        "multi_head_attention_forward": Dropout(
            "multi_head_attention_forward", probability=10, keyword="dropout_p", default=None, training=13
        ),
    },
)
"""The functional dropouts whose mode can be forgotten (``torch.dropout`` asks for it)."""

SOFTMAX_DIMS: Final[dict[str, int]] = {
    "torch.softmax": 1,
    "torch.log_softmax": 1,
    "torch.nn.functional.softmax": 1,
    "torch.nn.functional.log_softmax": 1,
    "torch.nn.functional.softmin": 1,
    "torch.nn.Softmax": 0,
    "torch.nn.LogSoftmax": 0,
    "torch.nn.Softmin": 0,
}
"""The functions and layers that must be told the dimension, with the position of ``dim``."""

PARAMETER_NAMES: Final[dict[str, tuple[str, ...]]] = within(
    "torch.nn",
    {
        **dict.fromkeys(words("Embedding EmbeddingBag PReLU RMSNorm"), ("weight",)),
        **dict.fromkeys(
            words(
                "Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
                "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d",
                "LayerNorm GroupNorm",
            ),
            ("weight", "bias"),
        ),
    },
)
"""What layers call their parameters, where these are no others; a layer may lack the bias."""

_PARAMETER_NAME: Final = re.compile(r"(in_proj_)?(weight|bias)|(weight|bias)_[ih]h(_l\d+(_reverse)?)?")
_PARAMETER_BEGINNING: Final = re.compile(r"in_proj_|(in_proj_)?(weight|bias)|(weight|bias)_([ih]h?(_(l\d*_?)?)?)?")


@cache
def names_parameter(name: str) -> bool:
    """Whether a layer keeps a parameter under this name, if anything."""
    return _PARAMETER_NAME.fullmatch(name) is not None


@cache
def begins_parameter(beginning: str) -> bool:
    """Whether what a layer keeps under a name that begins so, and of which the rest is not known, is a parameter."""
    return _PARAMETER_BEGINNING.fullmatch(beginning) is not None


PARTS_OF_MODULES: Final = ("_modules", "_parameters", "_buffers")
"""The dicts in which a module keeps what it has registered, by name."""
