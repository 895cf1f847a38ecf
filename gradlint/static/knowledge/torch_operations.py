"""What the operations of torch do: those that exist as function, as tensor method, or as both.

A row says what holds for every ordinary call; where calls differ (``reshape`` may copy, ``interpolate`` saves its
input in some modes) the column says the less.  What an operation saves for its backward was measured on
torch 2.13; the tests measure it again.
"""

from __future__ import annotations

from typing import Final

from gradlint.static.knowledge.ops import Op, in_place, merged, ops, words

NEEDLESS: Final = frozenset(["contiguous", "float"])
"""Conversions that return a parameter itself, unless it was made otherwise than usual."""

NUMBER_KEEPING: Final = frozenset(["mean", "sum", "squeeze", "clone", "cuda", "cpu", "to", "float", "double"])
"""What leaves a tensor of one element, but for its place and type, what it is."""

RESHAPING: Final = frozenset(
    words("unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ resize_ resize_as_ as_strided_")
)
"""Methods that change only how a tensor looks at its storage; another tensor with this storage stays as it is."""

SAME_SHAPE: Final = frozenset(
    words(
        "alpha_dropout bfloat16 bool byte char contiguous cpu cuda detach double dropout dropout1d dropout2d dropout3d "
        "feature_alpha_dropout float half int long pin_memory short to type type_as"
    )
)
"""What may return the tensor itself, or a tensor of its shape."""

INTEGRAL_TYPES: Final = frozenset(
    words(
        "bool int int8 int16 int32 int64 long short uint8 uint16 uint32 uint64 "
        "BoolTensor ByteTensor CharTensor IntTensor LongTensor ShortTensor"
    )
)
"""The names, without those of the modules, of types whose values have no gradients."""

#: ``torch.NAME(x, …)`` and ``x.NAME(…)``, element by element.
_POINTWISE: Final = merged(
    ops(
        "bernoulli ceil deg2rad fix floor frac rad2deg round sign trunc",
        saves="",
        size="keeps",
        copies=True,
    ),
    ops("neg negative", saves="", size="keeps", activation="combines", copies=True),
    ops("clone", saves="", size="keeps", activation="keeps", copies=True),
    ops(
        "acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh "
        "cos digamma erf erfinv i0 lgamma log log10 log1p log2 logit mvlgamma polygamma sin sinc",
        size="keeps",
        copies=True,
    ),
    ops("abs absolute cosh erfc square", size="keeps", sign="positive", copies=True),
    ops("hardshrink renorm sinh", size="keeps", sign="keeps", copies=True),
    ops("clamp clamp_max clamp_min clip nan_to_num", size="keeps", activation="bounds", copies=True),
    ops("expm1 tan", saves="output", size="keeps", copies=True),
    ops("exp exp2 relu rsqrt sqrt", saves="output", size="keeps", sign="positive", copies=True),
    ops("reciprocal", saves="output", size="keeps", sign="keeps", copies=True),
    ops("tanh", saves="output", size="keeps", activation="tanh", copies=True),
    ops("sgn", saves="both", size="keeps", copies=True),
    ops("sigmoid", saves="output", size="keeps", activation="sigmoid", copies=True),
    ops("softmax", saves="output", size="keeps", activation="softmax", copies=True),
    ops("log_softmax", saves="output", size="keeps", activation="log_softmax", copies=True),
    ops("prelu", size="keeps", copies=True),
)

#: Two tensors, or a tensor and a number, broadcast.
_BINARY: Final = merged(
    ops("add", saves="", size="broadcast", activation="combines", sign="keeps", copies=True),
    ops("sub subtract", saves="", size="broadcast", activation="combines", copies=True),
    ops("lerp fmod remainder", saves="", size="broadcast", copies=True),
    ops("div divide mul multiply true_divide", size="broadcast", activation="scales", multiplies=True, copies=True),
    ops(
        "arctan2 atan2 fmax fmin logaddexp logaddexp2 maximum minimum nextafter pow xlogy",
        size="broadcast",
        copies=True,
    ),
    ops("copysign hypot", saves="both", size="broadcast", copies=True),
    ops("addcdiv addcmul float_power ldexp masked_fill", saves="other", size="broadcast", copies=True),
    # no derivative: the result requires grad, and its backward raises
    ops("floor_divide heaviside igamma igammac", saves="", size="broadcast", copies=True),
)

_REDUCTIONS: Final = merged(
    ops("mean", saves="", size="reduces", activation="averages", copies=True),
    ops("sum", saves="", size="reduces", activation="combines", copies=True),
    ops("nanmean nansum var", size="reduces", copies=True),
    ops("nanquantile quantile", saves="other", size="reduces", copies=True),
    ops("amax amin logsumexp norm prod std", saves="both", size="reduces", copies=True),
    ops("max min median nanmedian", result="pair_by_dim", saves="other", size="reduces", ranks=True, copies=True),
    ops("kthvalue", result="pair", saves="other", ranks=True, copies=True),
    ops("mode", result="pair", saves="other", copies=True),
    ops("aminmax", result="tensors", saves="both", copies=True),
    ops("dist", saves="both", size="one", copies=True),
    ops("trace", saves="", size="one", copies=True),
    ops("det", saves="both", size="one", copies=True),
    ops("dot logdet vdot", size="one", copies=True),
)

_ORDER: Final = merged(
    ops("sort topk", result="pair", saves="other", ranks=True, copies=True),
    ops("cummax cummin", result="pair", saves="input", size="keeps", copies=True),
    ops("msort", saves="other", size="keeps", copies=True),
    ops("cumsum", saves="", size="keeps", copies=True),
    ops("logcumsumexp cumprod", saves="both", size="keeps", copies=True),
    ops("diff", saves="", copies=True),
)

#: Integers, truth values and counts: no gradient flows through them.
_INTEGRAL: Final = merged(
    ops(
        "bitwise_not isfinite isinf isnan isneginf isposinf isreal logical_not signbit",
        grad="never",
        saves="",
        integral=True,
        size="keeps",
        copies=True,
    ),
    ops(
        "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor eq gcd ge greater greater_equal gt "
        "isclose lcm le less less_equal logical_and logical_or logical_xor lt ne not_equal",
        grad="never",
        saves="",
        integral=True,
        size="broadcast",
        copies=True,
    ),
    ops("argsort", grad="never", saves="", integral=True, ranks=True, size="keeps", copies=True),
    ops("argmax argmin", grad="never", saves="", integral=True, ranks=True, size="reduces", copies=True),
    ops("all any count_nonzero", grad="never", saves="", integral=True, size="reduces", copies=True),
    ops(
        "argwhere hash_tensor multinomial nonzero nonzero_static",
        grad="never",
        saves="",
        integral=True,
        copies=True,
    ),
    ops("bincount histc", grad="never", saves="", copies=True),
    ops("histogram", result="tensors", saves="", copies=True),
    ops("unique unique_consecutive", saves="", copies=True, beside=("return_inverse", "return_counts")),
    ops("allclose equal is_nonzero", result="number", grad="never", saves="", detaches=True),
    ops("get_device is_same_size", result="number", grad="never", saves=""),
    ops(
        "is_complex is_conj is_distributed is_floating_point is_inference is_neg",
        result="number",
        grad="never",
        saves="",
    ),
    ops("is_signed numel", result="number", grad="never", saves=""),
)

#: The values stay what they are: views, copies and selections.
_SHAPES: Final = merged(
    ops(
        "adjoint conj conj_physical movedim moveaxis permute positive resolve_conj resolve_neg squeeze swapaxes swapdims t transpose "
        "unflatten unsqueeze",
        saves="",
        size="keeps",
        activation="keeps",
        view=True,
    ),
    ops("flatten ravel reshape", saves="", size="keeps", activation="keeps", looks=True),
    ops("broadcast_to as_strided diagonal narrow select", saves="", activation="keeps", view=True),
    ops("flip fliplr flipud roll rot90", saves="", size="keeps", activation="keeps", copies=True),
    ops("tile narrow_copy repeat_interleave", saves="", activation="keeps", copies=True),
    ops("diag diag_embed diagflat", saves="", copies=True),
    ops("tril triu", saves="", size="keeps", copies=True),
    ops("gather masked_select take take_along_dim", activation="keeps", picks=True, copies=True),
    ops("index_select", saves="other", activation="keeps", picks=True, copies=True),
    ops(
        "chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split unsafe_split_with_sizes vsplit",
        result="tensors",
        saves="",
        activation="keeps",
        view=True,
    ),
    ops("detach", grad="never", saves="", size="keeps", activation="keeps", view=True, detaches=True),
)

_WRITES: Final = merged(
    ops(
        "index_add index_copy index_fill index_put masked_scatter put scatter scatter_add",
        saves="other",
        size="keeps",
        copies=True,
    ),
    ops("as_strided_scatter diagonal_scatter select_scatter slice_scatter", saves="", size="keeps", copies=True),
    ops("index_reduce scatter_reduce", saves="both", size="keeps", copies=True),
)

_ALGEBRA: Final = merged(
    ops("bmm matmul mm", activation="mixes", copies=True),
    ops("cross ger inner kron mv outer stft", copies=True),
    ops("addbmm addmm addmv addr baddbmm", saves="other", copies=True),
    ops("matrix_exp matrix_power", size="keeps", copies=True),
    ops("cholesky inverse", saves="output", size="keeps", copies=True),
    ops("cholesky_inverse cholesky_solve lu_solve orgqr ormqr pinverse", saves="both", copies=True),
    ops("corrcoef cov", saves="other", copies=True),
    ops("slogdet svd triangular_solve", result="tensors", saves="both", copies=True),
    ops("qr", result="tensors", saves="output", copies=True),
    ops("lu", result="pair", saves="output", copies=True),
    ops("frexp", result="pair", saves="other", copies=True),
    ops("geqrf", result="tensors", saves="", copies=True),
    ops("istft", copies=True),
    ops("dequantize int_repr", grad="never", saves="", copies=True),
    ops("q_per_channel_axis q_scale q_zero_point qscheme", result="number", grad="never", saves=""),
    ops("q_per_channel_scales q_per_channel_zero_points", grad="never", saves="", copies=True),
    ops("smm sspaddmm", saves="other", copies=True),
)

SHARED: Final = merged(_POINTWISE, _BINARY, _REDUCTIONS, _ORDER, _INTEGRAL, _SHAPES, _WRITES, _ALGEBRA)
"""Operations that are both a function ``torch.NAME`` and a method ``Tensor.NAME``."""

SHARED_IN_PLACE: Final = merged(
    in_place(
        "abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min "
        "clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fix floor frac i0 log log10 log1p log2 logit nan_to_num "
        "neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc addmv gcd "
        "index_put lcm ldexp xlogy",
        SHARED,
    ),
    ops("detach_", grad="never", saves="", size="keeps", activation="keeps", inplace=True, detaches=True),
    ops("as_strided_", saves="", activation="keeps", inplace=True),
    ops("fill_ zero_", saves="", size="keeps", inplace=True),
    ops("resize_as_ resize_as_sparse_", saves="", inplace=True, likens=True),
)
"""In-place operations that are both a function ``torch.NAME`` and a method."""

METHODS_IN_PLACE: Final = merged(
    in_place(
        "absolute add addbmm addcdiv addcmul addmm addr arctan2 atan2 baddbmm bernoulli bitwise_and bitwise_left_shift "
        "bitwise_not bitwise_or bitwise_right_shift bitwise_xor copysign cumprod cumsum digamma div divide eq erfinv "
        "float_power floor_divide fmod ge greater greater_equal gt heaviside hypot igamma igammac index_add index_copy "
        "index_fill index_reduce le lerp less less_equal lgamma logical_and logical_not logical_or logical_xor lt "
        "masked_fill masked_scatter mul multiply mvlgamma ne nextafter not_equal polygamma pow put remainder renorm "
        "scatter scatter_add scatter_reduce sgn sign squeeze sub subtract swapaxes swapdims t transpose tril triu "
        "true_divide unsqueeze",
        SHARED,
    ),
    ops(
        "cauchy_ copy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_",
        saves="",
        size="keeps",
        inplace=True,
    ),
    ops("apply_ fill_diagonal_ map_ map2_", saves="", size="keeps", inplace=True),
    ops("resize_ set_ sparse_resize_ sparse_resize_and_clear_", saves="", inplace=True),
    ops("share_memory_", saves="", size="keeps", activation="keeps", inplace=True),
)

METHODS_ONLY: Final = merged(
    ops("view_as", saves="", size="keeps", activation="keeps", view=True, likens=True),
    ops("view", saves="", size="keeps", activation="keeps", view=True),
    ops("expand_as", saves="", activation="keeps", view=True, likens=True),
    ops("expand unfold", saves="", activation="keeps", view=True),
    ops("reshape_as", saves="", size="keeps", activation="keeps", likens=True, looks=True),
    ops("contiguous", saves="", size="keeps", activation="keeps", looks=True),
    ops("repeat", saves="", activation="keeps", copies=True),
    ops("sum_to_size", saves=""),
    ops("where", saves="other", size="broadcast", copies=True),
    ops("to", saves="", size="keeps", activation="keeps", device="to", casts=True, likens=True),
    ops("cpu", saves="", size="keeps", activation="keeps", device="cpu"),
    ops("cuda", saves="", size="keeps", activation="keeps", device="cuda"),
    ops("type type_as", saves="", size="keeps", activation="keeps", device="unknown", casts=True, likens=True),
    ops("ipu mtia xpu", saves="", size="keeps", activation="keeps", device="unknown"),
    ops("bfloat16 cdouble cfloat chalf double float half", saves="", size="keeps", activation="keeps"),
    ops("bool byte char int long short", grad="never", saves="", integral=True, size="keeps"),
    ops("pin_memory as_subclass coalesce", saves="", size="keeps", activation="keeps"),
    ops("to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_coo to_sparse_csr", saves="", activation="keeps"),
    ops("to_sparse_bsc to_sparse_bsr to_sparse_csc values", saves="", activation="keeps"),
    ops("sparse_mask", saves="other", activation="keeps", copies=True),
    ops("ccol_indices col_indices crow_indices indices row_indices", grad="never", saves="", integral=True),
    ops(
        "new_empty new_empty_strided new_full new_ones new_zeros",
        grad="argument",
        saves="",
        size="unknown",
        copies=True,
    ),
    ops("new_tensor", grad="argument", saves="", detaches=True, copies=True),
    ops("new", grad="never", saves="", detaches=True, copies=True),
    ops("numpy", result="array", grad="never", saves="", size="keeps", device="cpu", view=True, detaches=True),
    ops("item", result="number", grad="never", saves="", size="one", device="cpu", detaches=True),
    ops("tolist", result="number", grad="never", saves="", device="cpu", detaches=True),
    ops(
        "const_data_ptr data_ptr dense_dim dim dim_order element_size is_coalesced is_contiguous is_pinned is_set_to is_shared "
        "ndimension nelement size sparse_dim storage_offset stride storage_type",
        result="number",
        grad="never",
        saves="",
    ),
    ops("storage untyped_storage", result="number", grad="never", saves=""),
    ops("record_stream", result="none", grad="never", saves=""),
)

#: ``torch.NAME`` only.
FUNCTIONS_ONLY: Final = merged(
    ops("rsub", saves="", size="broadcast", copies=True),
    ops("where", saves="other", size="broadcast", copies=True),
    ops("complex", size="broadcast", copies=True),
    ops("polar", saves="output", size="broadcast", copies=True),
    ops(
        "cat concat concatenate stack hstack vstack dstack row_stack column_stack",
        saves="",
        activation="keeps",
        copies=True,
        joins=True,
    ),
    ops("block_diag cartesian_prod constant_pad_nd", saves="", copies=True),
    ops("combinations", saves="other", copies=True),
    ops("atleast_1d atleast_2d atleast_3d", saves="", size="keeps", activation="keeps", view=True),
    ops("broadcast_tensors meshgrid", result="tensors", saves="", activation="keeps", view=True),
    ops("std_mean", result="tensors", saves="both", copies=True),
    ops("var_mean", result="tensors", copies=True),
    ops("gradient", result="tensors", saves="", copies=True),
    ops("cumulative_trapezoid trapezoid trapz", saves="", copies=True),
    ops("einsum", multiplies=True, copies=True),
    ops("tensordot chain_matmul bilinear vander", copies=True),
    ops("cdist pdist", saves="both", copies=True),
    ops("cosine_similarity", copies=True),
    ops("pairwise_distance", saves="output", copies=True),
    ops("celu rrelu selu", size="keeps", sign="keeps", copies=True),
    ops("threshold", size="keeps", copies=True),
    ops(
        "adaptive_avg_pool1d channel_shuffle pixel_shuffle pixel_unshuffle native_channel_shuffle",
        saves="",
        sign="keeps",
        copies=True,
    ),
    ops("avg_pool1d", sign="keeps", copies=True),
    ops("adaptive_max_pool1d max_pool1d max_pool2d max_pool3d", sign="keeps", copies=True, beside=("return_indices",)),
    ops(
        "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d",
        activation="logits",
        copies=True,
    ),
    ops("convolution", activation="logits", copies=True),
    ops("batch_norm group_norm instance_norm layer_norm rms_norm", size="keeps", copies=True),
    ops("dropout alpha_dropout feature_alpha_dropout feature_dropout", saves="", size="keeps", activation="keeps"),
    ops("embedding", saves="other", copies=True),
    ops("grid_sampler grid_sampler_2d grid_sampler_3d", copies=True),
    ops("affine_grid_generator", saves="", copies=True),
    ops("frobenius_norm nuclear_norm norm_except_dim", saves="both", copies=True),
    ops("pca_lowrank svd_lowrank lobpcg", result="tensors", saves="both", copies=True),
    ops("lu_unpack", result="tensors", saves="", copies=True),
    ops("gru lstm rnn_relu rnn_tanh lstm_cell", result="tensors", copies=True),
    ops("gru_cell rnn_relu_cell rnn_tanh_cell", copies=True),
    ops("fill", saves="", size="keeps", copies=True),
    ops("segment_reduce", saves="both", copies=True),
    ops("fake_quantize_per_channel_affine fake_quantize_per_tensor_affine", saves="other", size="keeps", copies=True),
    ops("real imag view_as_complex view_as_real", saves="", activation="keeps", view=True),
    ops("bucketize searchsorted isin tril_indices triu_indices", grad="never", saves="", integral=True, copies=True),
    ops("unravel_index", result="tensors", grad="never", saves="", integral=True, copies=True),
    ops("binomial poisson", saves="", size="keeps", copies=True),
    ops("normal", saves="", copies=True),
    ops("histogramdd", result="tensors", saves="", copies=True),
    ops(
        "broadcast_shapes can_cast is_storage is_tensor promote_types result_type typename",
        result="number",
        grad="never",
        saves="",
    ),
    ops("is_grad_enabled is_inference_mode_enabled", result="number", grad="never", saves=""),
)

FUNCTIONS_IN_PLACE: Final = merged(
    in_place("celu rrelu selu threshold alpha_dropout dropout feature_alpha_dropout feature_dropout", FUNCTIONS_ONLY),
    ops("embedding_renorm_", grad="never", saves="", size="keeps", inplace=True),
)

#: Fresh leaves.  They are on the CPU unless the keyword ``device`` says otherwise.
CREATIONS: Final = merged(
    ops(
        "empty eye full linspace logspace ones rand randn range zeros arange empty_permuted empty_strided scalar_tensor",
        grad="argument",
        saves="",
        device="argument",
        copies=True,
    ),
    ops(
        "bartlett_window blackman_window hamming_window hann_window kaiser_window",
        grad="argument",
        saves="",
        device="argument",
    ),
    ops("randint randperm", grad="argument", saves="", integral=True, device="argument", copies=True),
    ops(
        "empty_like full_like ones_like rand_like randn_like zeros_like",
        grad="argument",
        saves="",
        size="keeps",
        copies=True,
    ),
    ops("randint_like", grad="argument", saves="", integral=True, size="keeps", copies=True),
    ops("tensor", grad="argument", saves="", size="keeps", device="argument", detaches=True, copies=True),
    ops("as_tensor", saves="", size="keeps", activation="keeps", device="to", casts=True),
    ops("asarray", saves="", size="keeps", activation="keeps", device="to", casts=True),
    ops("from_numpy frombuffer from_file", grad="never", saves="", size="keeps", device="cpu", view=True),
    ops("from_dlpack", grad="never", saves="", size="keeps", device="unknown", view=True),
    ops(
        "sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor",
        grad="argument",
        saves="",
        device="argument",
    ),
    ops(
        "Tensor FloatTensor DoubleTensor HalfTensor BFloat16Tensor", grad="never", saves="", device="cpu", detaches=True
    ),
    ops(
        "LongTensor IntTensor ShortTensor ByteTensor CharTensor BoolTensor",
        grad="never",
        saves="",
        integral=True,
        device="cpu",
        detaches=True,
    ),
)

#: Tensor types of the GPU build, ``torch.cuda.NAME``.
CUDA_CREATIONS: Final = merged(
    ops("FloatTensor DoubleTensor HalfTensor BFloat16Tensor", grad="never", saves="", device="cuda", detaches=True),
    ops(
        "LongTensor IntTensor ShortTensor ByteTensor CharTensor BoolTensor",
        grad="never",
        saves="",
        integral=True,
        device="cuda",
        detaches=True,
    ),
)

ATTRIBUTES: Final[dict[str, Op]] = merged(
    ops("H T mH mT", saves="", size="keeps", activation="keeps", view=True),
    ops("imag real", saves="", size="keeps", activation="keeps", view=True),
    ops("itemsize nbytes ndim", result="number", grad="never", saves=""),
)
"""Attributes of a tensor that are tensors or numbers."""

INTERFACES: Final = ("Collection", "Container", "Hashable", "Iterable", "Reversible", "Sized")
"""The abstract classes of ``collections.abc`` that a tensor is an instance of."""


DEVICE_TYPES: Final = frozenset(["cpu", "cuda", "mps", "xpu", "npu", "hpu", "mlu", "xla", "musa"])
"""The types of devices between which programs choose what is available."""


MOVING_OPTIONS: Final = frozenset(["device", "non_blocking", "memory_format"])
"""What ``tensor.cpu()`` and ``tensor.cuda()`` may be given by name."""


def device_of_type(name: str) -> str | None:
    """Where a tensor is that was given a type by ``.type()``: "cuda", "cpu", or "same" for where it was before."""
    owner, _, last = name.rpartition(".")
    if owner == "torch.cuda":
        return "cuda"
    if owner == "torch":
        return "cpu" if last.endswith("Tensor") else "same"
    return None
