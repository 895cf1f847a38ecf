"""Functions and tensor methods of torch, by their canonical names."""

from __future__ import annotations

from typing import Final

from gradlint.static.knowledge.library import known
from gradlint.static.knowledge.ops import Op, in_place, listed, merged, names, ops, within
from gradlint.static.knowledge.torch_operations import (
    ATTRIBUTES,
    CREATIONS,
    CUDA_CREATIONS,
    FUNCTIONS_IN_PLACE,
    FUNCTIONS_ONLY,
    METHODS_IN_PLACE,
    METHODS_ONLY,
    SHARED,
    SHARED_IN_PLACE,
)

__all__ = [
    "ARRAY_METHODS",
    "ATTRIBUTES",
    "FUNCTIONS",
    "METHODS",
    "MOVES",
    "SPECIAL_ATTRIBUTES",
    "SPECIAL_METHODS",
    "TELLING_METHODS",
    "TENSOR_HOOKS",
    "TENSOR_METHODS",
    "is_method",
    "returns_new",
]

_TORCH: Final = merged(SHARED, SHARED_IN_PLACE, FUNCTIONS_ONLY, FUNCTIONS_IN_PLACE, CREATIONS)

_FUNCTIONAL: Final = merged(
    listed(
        _TORCH,
        "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d batch_norm group_norm instance_norm "
        "layer_norm rms_norm bilinear cosine_similarity pairwise_distance pdist channel_shuffle native_channel_shuffle "
        "pixel_shuffle pixel_unshuffle adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d max_pool1d max_pool2d max_pool3d "
        "celu rrelu selu threshold hardshrink relu sigmoid tanh softmax log_softmax prelu dropout alpha_dropout "
        "feature_alpha_dropout celu_ rrelu_ selu_ threshold_ relu_ embedding",
    ),
    ops("linear", activation="logits", copies=True),
    ops("elu gelu hardswish hardtanh leaky_relu mish silu softshrink", size="keeps", sign="keeps", copies=True),
    ops("hardsigmoid relu6 softplus", size="keeps", sign="positive", copies=True),
    ops("logsigmoid softsign", size="keeps", copies=True),
    ops("tanhshrink", saves="other", size="keeps", copies=True),
    ops("softmin gumbel_softmax", saves="output", size="keeps", activation="softmax", copies=True),
    ops("glu normalize local_response_norm", copies=True),
    ops("dropout1d dropout2d dropout3d", saves="", size="keeps", activation="keeps"),
    ops("adaptive_avg_pool2d adaptive_avg_pool3d", saves="", sign="keeps", copies=True),
    ops("avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d", sign="keeps", copies=True),
    ops(
        "adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d",
        sign="keeps",
        copies=True,
        beside=("return_indices",),
    ),
    ops("max_unpool1d max_unpool2d max_unpool3d", saves="other", copies=True),
    ops("max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices", result="pair", copies=True),
    ops("adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices", result="pair", copies=True),
    ops("adaptive_max_pool3d_with_indices", result="pair", copies=True),
    ops("fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices", result="pair", copies=True),
    ops("fold unfold", saves="", copies=True),
    ops("affine_grid pad", saves="", copies=True),
    ops("interpolate upsample upsample_bilinear upsample_nearest", saves="", activation="keeps", copies=True),
    ops("embedding_bag", saves="other", copies=True),
    ops("grid_sample", copies=True),
    ops("scaled_dot_product_attention", saves="both", copies=True),
    ops("grouped_mm scaled_grouped_mm scaled_mm", copies=True),
    ops("multi_head_attention_forward", result="tensors", copies=True),
    ops("one_hot", grad="never", saves="", integral=True, size="many", copies=True),
)

_SPECIAL: Final = merged(
    listed(
        _TORCH,
        "digamma erf erfc erfinv exp2 expm1 i0 log1p log_softmax logit logsumexp polygamma round sinc softmax xlogy",
    ),
    ops("expit", saves="output", size="keeps", activation="sigmoid", copies=True),
    ops("entr gammaln multigammaln psi", size="keeps", copies=True),
    ops("erfcx i0e i1 i1e log_ndtr", saves="both", size="keeps", copies=True),
    ops("ndtri", saves="output", size="keeps", copies=True),
    ops("ndtr", saves="other", size="keeps", copies=True),
    ops("xlog1py", size="broadcast", copies=True),
    ops("gammainc gammaincc zeta", saves="", size="broadcast", copies=True),
    ops(
        "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
        "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0",
        grad="never",
        saves="",
        size="keeps",
        copies=True,
    ),
    ops(
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
        "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
        "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w",
        grad="never",
        saves="",
        size="broadcast",
        copies=True,
    ),
)

_LINALG: Final = merged(
    ops("cholesky inv tensorinv", saves="output", copies=True),
    ops("cholesky_ex inv_ex", result="pair", saves="output", copies=True),
    ops("cond", saves="other", copies=True),
    ops("eigvals eigvalsh svdvals", saves="output", copies=True),
    ops("cross matmul matrix_exp matrix_power multi_dot vander vecdot", copies=True),
    ops("diagonal", saves="", activation="keeps", view=True),
    ops("det matrix_norm norm vector_norm", saves="both", size="reduces", copies=True),
    ops("householder_product lu_solve pinv solve solve_triangular tensorsolve", saves="both", copies=True),
    ops("lstsq slogdet svd", result="tensors", saves="both", copies=True),
    ops("solve_ex", result="pair", saves="both", copies=True),
    ops("eig eigh lu lu_factor_ex qr", result="tensors", saves="output", copies=True),
    ops("lu_factor", result="pair", saves="output", copies=True),
    ops("ldl_factor", result="pair", saves="", copies=True),
    ops("ldl_factor_ex", result="tensors", saves="", copies=True),
    ops("ldl_solve", saves="", copies=True),
    ops("matrix_rank", grad="never", saves="", integral=True, copies=True),
)

_FFT: Final = merged(
    ops(
        "fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn", saves="", copies=True
    ),
    ops("rfft rfft2 rfftn", copies=True),
    ops("fftshift ifftshift", saves="", size="keeps", copies=True),
    ops("fftfreq rfftfreq", grad="argument", saves="", device="argument", copies=True),
)

_WINDOWS: Final = ops(
    "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall",
    grad="argument",
    saves="",
    device="argument",
    copies=True,
)

_SPARSE: Final = merged(
    ops("addmm mm sampled_addmm", saves="other", copies=True),
    ops("log_softmax", saves="output", size="keeps", activation="log_softmax", copies=True),
    ops("softmax", saves="output", size="keeps", activation="softmax", copies=True),
)

#: Functions around torch, its own and those of other libraries.
_OTHERS: Final = merged(
    ops("torch.nn.utils.rnn.pad_sequence", saves="", activation="keeps", copies=True),
    ops("torch.nn.utils.rnn.pad_packed_sequence", result="tensors", saves="other", activation="keeps", copies=True),
    ops("torch.nn.utils.parameters_to_vector", saves="", copies=True),
    known().table("functions"),
)

FUNCTIONS: Final[dict[str, Op]] = merged(
    within("torch", _TORCH),
    within("torch.cuda", CUDA_CREATIONS),
    within("torch.nn.functional", _FUNCTIONAL),
    within("torch.nn.functional", in_place("elu hardtanh leaky_relu", _FUNCTIONAL)),
    within("torch.special", _SPECIAL),
    within("torch.linalg", _LINALG),
    within("torch.fft", _FFT),
    within("torch.signal.windows", _WINDOWS),
    within("torch.sparse", _SPARSE),
    _OTHERS,
)
"""What each function does, by canonical name.  Losses are in ``LOSSES``."""

METHODS: Final[dict[str, Op]] = merged(SHARED, SHARED_IN_PLACE, METHODS_ONLY, METHODS_IN_PLACE)
"""What each method of a tensor does, by name."""

TELLING_METHODS: Final = names(
    "",
    "argmax bmm chunk clamp contiguous cpu cuda detach expand expand_as float item log_softmax long "
    "masked_fill matmul mean numpy permute sigmoid size softmax squeeze sum topk transpose unsqueeze view",
)
"""Methods that say of an unknown value that it is a tensor."""

ARRAY_METHODS: Final = names(
    "",
    "all any argmax argmin argsort clip conj cumprod cumsum diagonal dot flatten item max mean min nonzero prod put "
    "ravel repeat reshape round size sort squeeze std sum swapaxes take tolist trace transpose var view",
)
"""Methods that numpy's arrays have as well: they do not tell that a value is a tensor."""

TENSOR_METHODS: Final = names(
    "",
    "bernoulli bmm byte clamp clone contiguous cpu cuda dim double expand expand_as float gather half index_select "
    "is_contiguous log_softmax long masked_fill masked_select mm narrow ndimension nelement new new_empty new_full "
    "new_ones new_tensor new_zeros norm numel numpy permute sigmoid size softmax tanh topk type_as unsqueeze view_as",
)
"""Methods that tensors have, and no arrays, tables or texts; what holds tensors has ``detach``, too."""

TENSOR_HOOKS: Final = names("", "register_hook register_post_accumulate_grad_hook")
"""Methods of tensors that register what a backward pass calls."""

SPECIAL_METHODS: Final = TENSOR_HOOKS | names("", "backward requires_grad_ retain_grad")
"""Methods that act on the graph or the gradient itself: the tracer knows them one by one."""

SPECIAL_ATTRIBUTES: Final = names(
    "",
    "data device dtype grad grad_dtype grad_fn is_cpu is_cuda is_leaf is_meta is_mkldnn is_mps is_mtia is_nested "
    "is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu is_ipu is_maia layout name output_nr requires_grad "
    "retains_grad shape volatile",
)
"""Attributes that say something about a tensor, or hold its gradient: the tracer knows them one by one."""


MOVES: Final = frozenset(
    ["to", "cuda", "cpu", "type", "half", "float", "double", "bfloat16", "long", "int", "bool", "byte", "short"]
)
"""Methods that modules have too, where they change the module itself."""


def is_method(name: str) -> bool:
    """Whether a tensor has a method of this name; other attributes are facts, or what a program has set itself."""
    return name in METHODS or name in SPECIAL_METHODS


def returns_new(name: str) -> bool:
    """Whether a tensor method of this name gives a new tensor and does nothing else."""
    op = METHODS.get(name)
    if op is None or op.inplace or op.result not in ("tensor", "tensors", "pair"):
        return False
    return (
        name in MOVES or op.view or op.detaches or f"{name}_" in METHODS or name in ("contiguous", "reshape", "clone")
    )
