"""What the torch table says, measured again on torch and numpy."""

from __future__ import annotations

import collections.abc
import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gradlint.static.knowledge import torch_table as table
from gradlint.static.knowledge.ops import Op, words
from gradlint.static.knowledge.torch_operations import INTERFACES


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in _tensors(item)] if isinstance(value, (tuple, list)) else []


def _shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _measure_saved(function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> str:
    """What the backward of ``function`` saves, as the table's column says it."""
    saved: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = function(*inputs)
    outputs = _tensors(result)
    of_input = any(_shares(tensor, given) for tensor in saved for given in inputs)
    of_output = any(_shares(tensor, outputs[0]) for tensor in saved) and not _shares(outputs[0], inputs[0])
    if of_input or of_output:
        return "both" if of_input and of_output else "input" if of_input else "output"
    roots = [output for output in outputs if output.requires_grad]
    gradients = [torch.ones_like(root) for root in roots]
    torch.autograd.backward(roots, gradients)
    try:
        torch.autograd.backward(roots, gradients)
    except RuntimeError:
        return "other"
    return ""


def _leaf(*shape: int) -> torch.Tensor:
    return (torch.rand(*shape) * 0.5 + 0.25).requires_grad_()


_X, _Y, _SQUARE = (2, 3), (2, 3), (3, 3)
_IMAGE = (1, 2, 4, 4)

#: Calls in their ordinary form: the canonical name, the call, the shapes it is given.
CALLS: list[tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    *[
        (f"torch.{name}", getattr(torch, name), (_X,))
        for name in words(
            "abs acos angle asin atan ceil clone cos cosh deg2rad diff digamma erf exp exp2 expm1 fliplr floor frac "
            "lgamma log log10 log1p log2 logit mean nan_to_num nanmean nansum neg norm prod ravel reciprocal relu round rsqrt "
            "sigmoid sign sin sinc sinh sqrt square std sum tan tanh tril trunc var trapezoid"
        )
    ],
    *[
        (f"torch.{name}", getattr(torch, name), (_X, _Y))
        for name in words("add atan2 copysign div fmax fmin hypot maximum minimum mul sub xlogy cdist dist")
    ],
    *[
        (f"torch.{name}", lambda x, name=name: getattr(torch, name)(x, 1), (_X,))
        for name in words(
            "amax amin cumprod cumsum kthvalue log_softmax logcumsumexp logsumexp max median min mode softmax sort squeeze "
            "topk unbind unsqueeze cummax"
        )
    ],
    *[(f"torch.{name}", getattr(torch, name), (_SQUARE, _SQUARE)) for name in words("matmul mm inner")],
    ("torch.pow", lambda x: torch.pow(x, 2), (_X,)),
    ("torch.bmm", torch.bmm, ((1, 2, 3), (1, 3, 2))),
    ("torch.cat", lambda x, y: torch.cat([x, y]), (_X, _Y)),
    ("torch.stack", lambda x, y: torch.stack([x, y]), (_X, _Y)),
    ("torch.clamp", lambda x: torch.clamp(x, 0, 1), (_X,)),
    ("torch.fmod", lambda x: torch.fmod(x, 2), (_X,)),
    ("torch.lerp", lambda x, y: torch.lerp(x, y, 0.5), (_X, _Y)),
    ("torch.einsum", lambda x, y: torch.einsum("ij,kj->ik", x, y), (_X, _Y)),
    ("torch.gather", lambda x: torch.gather(x, 1, torch.tensor([[0], [1]])), (_X,)),
    ("torch.index_select", lambda x: torch.index_select(x, 0, torch.tensor([0])), (_X,)),
    ("torch.masked_fill", lambda x: torch.masked_fill(x, torch.ones(2, 3, dtype=torch.bool), 0.0), (_X,)),
    ("torch.where", lambda x, y: torch.where(torch.ones(2, 3, dtype=torch.bool), x, y), (_X, _Y)),
    ("torch.reshape", lambda x: torch.reshape(x, (-1,)), (_X,)),
    ("torch.flatten", torch.flatten, (_X,)),
    ("torch.permute", lambda x: torch.permute(x, (1, 0)), (_X,)),
    ("torch.det", torch.det, (_SQUARE,)),
    ("torch.inverse", torch.inverse, (_SQUARE,)),
    ("torch.diagonal", torch.diagonal, (_SQUARE,)),
    ("torch.trace", torch.trace, (_SQUARE,)),
    ("torch.linalg.norm", torch.linalg.norm, ((3,),)),
    ("torch.linalg.solve", torch.linalg.solve, (_SQUARE, _SQUARE)),
    ("torch.fft.rfft", torch.fft.rfft, ((4,),)),
    ("torch.special.expit", torch.special.expit, (_X,)),
    *[
        (f"torch.nn.functional.{name}", getattr(F, name), (_X,))
        for name in words(
            "celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish normalize relu relu6 selu silu softplus "
            "softshrink softsign tanhshrink hardshrink"
        )
    ],
    ("torch.nn.functional.softmax", lambda x: F.softmax(x, 1), (_X,)),
    ("torch.nn.functional.softmin", lambda x: F.softmin(x, 1), (_X,)),
    ("torch.nn.functional.log_softmax", lambda x: F.log_softmax(x, 1), (_X,)),
    ("torch.nn.functional.gumbel_softmax", lambda x: F.gumbel_softmax(x, dim=1), (_X,)),
    ("torch.nn.functional.glu", F.glu, ((2, 4),)),
    ("torch.nn.functional.linear", F.linear, (_X, (4, 3))),
    ("torch.nn.functional.conv2d", F.conv2d, (_IMAGE, (3, 2, 3, 3))),
    ("torch.nn.functional.max_pool2d", lambda x: F.max_pool2d(x, 2), (_IMAGE,)),
    ("torch.nn.functional.avg_pool2d", lambda x: F.avg_pool2d(x, 2), (_IMAGE,)),
    ("torch.nn.functional.adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), (_IMAGE,)),
    ("torch.nn.functional.adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2), (_IMAGE,)),
    ("torch.nn.functional.interpolate", lambda x: F.interpolate(x, scale_factor=2), (_IMAGE,)),
    ("torch.nn.functional.pad", lambda x: F.pad(x, (1, 1)), (_X,)),
    ("torch.nn.functional.embedding", lambda w: F.embedding(torch.tensor([0, 1]), w), (_X,)),
    ("torch.nn.functional.layer_norm", lambda x: F.layer_norm(x, (3,)), (_X,)),
    ("torch.nn.functional.batch_norm", lambda x: F.batch_norm(x, None, None, training=True), (_X,)),
    ("torch.nn.functional.cosine_similarity", F.cosine_similarity, (_X, _Y)),
    ("torch.nn.functional.pairwise_distance", F.pairwise_distance, (_X, _Y)),
    ("torch.nn.functional.scaled_dot_product_attention", F.scaled_dot_product_attention, ((1, 1, 2, 4),) * 3),
    ("torch.nn.functional.unfold", lambda x: F.unfold(x, 2), (_IMAGE,)),
]


@pytest.mark.parametrize(("name", "call", "shapes"), CALLS, ids=[call[0] for call in CALLS])
def test_what_a_function_saves_is_what_torch_saves(
    name: str, call: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    torch.manual_seed(0)
    inputs = [_leaf(*shape) for shape in shapes]
    row = table.FUNCTIONS[name]
    assert _measure_saved(call, inputs) == row.saves
    _check_result(row, inputs, _tensors(call(*inputs)))


def _check_result(row: Op, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    assert row.grad == "inputs"
    assert outputs[0].requires_grad
    if row.view:
        assert _shares(outputs[0], inputs[0])
    if row.copies:
        assert not any(_shares(outputs[0], given) for given in inputs)
    if row.size == "keeps" or (row.size == "broadcast" and all(given.shape == inputs[0].shape for given in inputs)):
        assert outputs[0].numel() == inputs[0].numel()
    if row.size == "one":
        assert outputs[0].numel() == 1


@pytest.mark.parametrize(("name", "call", "shapes"), CALLS, ids=[call[0] for call in CALLS])
def test_what_is_below_zero_is_where_the_table_says(
    name: str, call: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    torch.manual_seed(0)
    row = table.FUNCTIONS[name]
    if row.sign == "positive":
        assert not (call(*(torch.randn(*shape) for shape in shapes)) < 0).any()
    for _ in range(8 if row.sign == "keeps" else 0):
        results = _tensors(call(*(4 * torch.rand(*shape) for shape in shapes)))
        assert not (results[0] < 0).any()


def test_rows_that_say_something_of_signs_are_measured() -> None:
    told = {name for name, row in table.FUNCTIONS.items() if row.sign and not name.endswith("_")}
    assert len({name for name, *_ in CALLS} & told) > 15


@pytest.mark.parametrize("name", [name for name in table.OVERWRITES if not name.endswith("Dropout")])
def test_what_is_told_to_works_in_place(name: str) -> None:
    parameters = list(inspect.signature(_named(name)).parameters)
    assert parameters[table.OVERWRITES[name]] == "inplace"


@pytest.mark.parametrize("name", sorted(table.UNMOVED))
def test_what_is_not_below_zero_stays_what_it_is(name: str) -> None:
    given = torch.rand(3, 4) * 6
    function = getattr(nn, name)() if name[0].isupper() else getattr(F, name)
    assert torch.equal(function(given), given)


@pytest.mark.parametrize("name", sorted(table.RENAMING))
def test_what_always_works_in_place_returns_what_it_is_given(name: str) -> None:
    given = torch.randn(3, 4)
    owners = [owner for owner in (torch, F, torch.Tensor) if hasattr(owner, name)]
    assert owners
    for owner in owners:
        assert getattr(owner, name)(given, *((0.1, 0.2) if name == "threshold_" else ())) is given


def _named(name: str) -> Any:
    owner = F if name.startswith("torch.nn.functional.") else nn
    return getattr(owner, name.rpartition(".")[2])


METHOD_CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda x: x.view(-1),
    "expand": lambda x: x.expand(2, 2, 3),
    "repeat": lambda x: x.repeat(2, 1),
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(torch.float64),
    "double": lambda x: x.double(),
    "float": lambda x: x.float(),
    "cpu": lambda x: x.cpu(),
    "clone": lambda x: x.clone(),
    "add_": lambda x: x.clone().add_(1),
    "mul_": lambda x: x.clone().mul_(2),
    "relu_": lambda x: x.clone().relu_(),
    "exp_": lambda x: x.clone().exp_(),
    "sigmoid_": lambda x: x.clone().sigmoid_(),
    "clamp_": lambda x: x.clone().clamp_(0, 1),
    "zero_": lambda x: x.clone().zero_(),
    "copy_": lambda x: x.clone().copy_(torch.ones(2, 3)),
    "masked_fill_": lambda x: x.clone().masked_fill_(torch.ones(2, 3, dtype=torch.bool), 0.0),
}


@pytest.mark.parametrize("name", METHOD_CALLS)
def test_what_a_method_saves_is_what_torch_saves(name: str) -> None:
    given = _leaf(*_X)
    measured = _measure_saved(METHOD_CALLS[name], [given])
    assert measured == table.METHODS[name].saves
    assert METHOD_CALLS[name](given).requires_grad == (table.METHODS[name].grad == "inputs")


@pytest.mark.parametrize("name", [name for name, row in table.METHODS.items() if row.looks])
def test_what_may_be_a_view_is_one_of_what_is_stored_in_order(name: str) -> None:
    given, other = _leaf(4, 3), _leaf(3, 4)
    arguments = {"reshape": (-1,), "reshape_as": (other,)}.get(name, ())
    assert _shares(getattr(given, name)(*arguments), given)


@pytest.mark.parametrize("operator", [lambda x: x * 2, lambda x: x / 2, lambda x: x**2])
def test_a_product_with_a_number_cannot_be_walked_twice(operator: Callable[[torch.Tensor], torch.Tensor]) -> None:
    root = operator(_leaf(3)).sum()
    torch.autograd.backward(root)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.backward(root)


@pytest.mark.parametrize(
    "name",
    words(
        "all any argmax argmin argsort bool count_nonzero detach int isfinite isinf isnan logical_not long nonzero short signbit"
    ),
)
def test_what_never_carries_a_gradient_does_not(name: str) -> None:
    row, given = table.METHODS[name], _leaf(*_X)
    result = getattr(given, name)()
    assert row.grad == "never"
    assert not result.requires_grad
    assert row.integral == (not result.is_floating_point())


@pytest.mark.parametrize("name", words("eq ge gt isclose le logical_and lt ne"))
def test_comparisons_give_truth_values(name: str) -> None:
    result = getattr(torch, name)(_leaf(*_X), _leaf(*_X))
    row = table.FUNCTIONS[f"torch.{name}"]
    assert row.integral
    assert row.grad == "never"
    assert result.dtype is torch.bool
    assert not result.requires_grad


def test_creations_are_leaves_that_require_grad_when_asked() -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "zeros": (2,),
        "ones": (2,),
        "rand": (2,),
        "randn": (2,),
        "empty": (2,),
        "eye": (2,),
        "full": ((2,), 1.0),
        "arange": (2.0,),
        "linspace": (0, 1, 2),
        "tensor": ([1.0],),
        "zeros_like": (torch.ones(2),),
        "randn_like": (torch.ones(2),),
        "hann_window": (4,),
    }
    for name, arguments in calls.items():
        assert table.FUNCTIONS[f"torch.{name}"].grad == "argument", name
        assert getattr(torch, name)(*arguments, requires_grad=True).is_leaf, name
        assert not getattr(torch, name)(*arguments).requires_grad, name


def test_a_tensor_wrapped_again_loses_its_graph_and_as_tensor_keeps_it() -> None:
    value = _leaf(2) * 1
    with pytest.warns(UserWarning, match="copy construct"):
        assert not torch.tensor(value).requires_grad
    assert table.FUNCTIONS["torch.tensor"].detaches
    assert torch.as_tensor(value).requires_grad
    assert not table.FUNCTIONS["torch.as_tensor"].detaches


def test_integers_come_behind_values() -> None:
    square = _leaf(3, 3)
    for name in words("frexp lu"):
        assert table.FUNCTIONS[f"torch.{name}"].result == "pair"
        _check_integers_behind(getattr(torch, name)(square))
    for name in words("cholesky_ex inv_ex ldl_factor lu_factor"):
        assert table.FUNCTIONS[f"torch.linalg.{name}"].result == "pair"
        _check_integers_behind(getattr(torch.linalg, name)(square @ square.T + torch.eye(3)))
    assert table.FUNCTIONS["torch.linalg.solve_ex"].result == "pair"
    _check_integers_behind(torch.linalg.solve_ex(square, square))


def test_integers_come_behind_values_where_they_are_asked_for() -> None:
    asked = {name: row.beside for name, row in table.FUNCTIONS.items() if row.beside}
    images: dict[str, tuple[Any, ...]] = {"1": (1, 2, 4), "2": (1, 2, 4, 4), "3": (1, 2, 4, 4, 4)}
    for name in words("max_pool adaptive_max_pool fractional_max_pool"):
        for dim in "123" if not name.startswith("fractional") else "23":
            function, extra = f"{name}{dim}d", (2, 2) if name.startswith("fractional") else (2,)
            assert asked[f"torch.nn.functional.{function}"] == ("return_indices",)
            _check_integers_behind(getattr(F, function)(_leaf(*images[dim]), *extra, return_indices=True))
    for name in words("unique unique_consecutive"):
        for flag in asked[f"torch.{name}"]:
            _check_integers_behind(getattr(torch, name)(_leaf(3), **{flag: True}))


def _check_integers_behind(result: Any) -> None:
    values, *others = result
    assert values.requires_grad
    assert others
    assert not any(other.requires_grad or other.is_floating_point() for other in others)


@pytest.mark.parametrize("name", words("expand_as reshape_as to type_as view_as"))
def test_what_a_tensor_is_likened_to_gives_no_gradient(name: str) -> None:
    assert table.METHODS[name].likens
    assert not getattr(torch.rand(2, 3), name)(_leaf(*_X)).requires_grad
    assert getattr(_leaf(*_X), name)(torch.rand(2, 3)).requires_grad


def test_max_gives_a_pair_where_a_dim_is_given() -> None:
    given = _leaf(*_X)
    for name in words("max min median nanmedian"):
        assert table.FUNCTIONS[f"torch.{name}"].result == table.METHODS[name].result == "pair_by_dim"
        assert isinstance(getattr(given, name)(), torch.Tensor)
        values, indices = getattr(given, name)(1)
        assert values.requires_grad
        assert not indices.requires_grad


LAYER_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Linear": (2, 2),
    "Bilinear": (2, 2, 2),
    "Conv2d": (1, 1, 1),
    "ConvTranspose1d": (1, 1, 1),
    "Embedding": (2, 2),
    "PReLU": (),
    "BatchNorm1d": (2,),
    "InstanceNorm2d": (2,),
    "GroupNorm": (1, 2),
    "LayerNorm": (2,),
    "LSTM": (2, 2),
    "GRUCell": (2, 2),
    "MultiheadAttention": (2, 1),
    "TransformerEncoderLayer": (2, 1),
    "Dropout": (),
    "ReLU": (),
    "Softmax": (1,),
    "MaxPool2d": (2,),
    "Flatten": (),
    "Identity": (),
    "Upsample": ((2, 2),),
    "LocalResponseNorm": (2,),
    "AdaptiveLogSoftmaxWithLoss": (4, 4, [2]),
    "LinearCrossEntropyLoss": (2, 2),
}


@pytest.mark.parametrize("name", LAYER_ARGUMENTS)
def test_layers_have_the_parameters_the_table_says(name: str) -> None:
    layer = getattr(nn, name)(*LAYER_ARGUMENTS[name])
    assert any(True for _ in layer.parameters()) == table.LAYERS[f"torch.nn.{name}"].parameters


@pytest.mark.parametrize(
    "name", words("Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout BatchNorm1d RReLU")
)
def test_mode_dependent_layers_change_with_the_mode(name: str) -> None:
    torch.manual_seed(0)
    layer = getattr(nn, name)(8) if name == "BatchNorm1d" else getattr(nn, name)()
    given = torch.randn(4, 8, 2, 2, 2) if name.endswith("3d") else torch.randn(4, 8, 2)
    assert table.LAYERS[f"torch.nn.{name}"].mode_dependent
    assert not torch.equal(layer.train()(given), layer.eval()(given))


def _converts(function: Callable[[Any], Any], given: Any) -> bool:
    """Whether ``function`` is refused because the tensor requires grad."""
    try:
        function(given)
    except Exception as error:  # noqa: BLE001 - numpy and torch raise many types; the message tells them apart
        return "requires grad" in str(error)
    return False


_BEFORE: dict[str, tuple[Any, ...]] = {"einsum": ("i...->i",), "random.multinomial": (1,)}
_EXTRA: dict[str, tuple[Any, ...]] = {
    "argpartition": (1,),
    "array_split": (1,),
    "broadcast_to": ((3, 3),),
    "clip": (0, 1),
    "delete": (0,),
    "expand_dims": (0,),
    "full_like": (1.0,),
    "hsplit": (1,),
    "insert": (0, 1.0),
    "interp": ([0, 1], [0, 1]),
    "linalg.matrix_power": (2,),
    "moveaxis": (0, -1),
    "nanpercentile": (50,),
    "nanquantile": (0.5,),
    "pad": (1,),
    "partition": (1,),
    "percentile": (50,),
    "polyfit": (1,),
    "quantile": (0.5,),
    "repeat": (2,),
    "reshape": (-1,),
    "resize": ((2, 2),),
    "roll": (1,),
    "swapaxes": (0, 0),
    "take": ([0],),
    "tile": (2,),
    "vsplit": (1,),
}
_NUMPY = sorted(
    name.removeprefix("numpy.")
    for name, row in table.NUMPY_CONVERTERS.items()
    if name.startswith("numpy.") and not name.endswith(("savez", "savez_compressed"))
)


@pytest.mark.parametrize("name", _NUMPY)
def test_numpy_functions_refuse_what_the_table_says(name: str, tmp_path: Path) -> None:
    function: Any = np
    for part in name.split("."):
        if not hasattr(function, part):
            pytest.skip(f"this numpy has no {name}")
        function = getattr(function, part)
    row = table.NUMPY_CONVERTERS[f"numpy.{name}"]

    def call(given: Any) -> Any:
        if name in ("save", "savetxt"):
            return function(tmp_path / "array", given)
        arguments = ((given,) if row.positions == (0, 1) else ()) + _EXTRA.get(name, ())
        return function(*_BEFORE.get(name, ()), given, *arguments)

    given = _leaf(3).sum() if name in ("float64", "double") else _leaf(3, 3) * 1
    assert _converts(call, given) == row.tensor
    assert _converts(call, [_leaf(2).sum(), _leaf(2).sum()]) == row.sequence


@pytest.mark.parametrize("name", ["convolve", "digitize", "polyfit", "histogram2d", "isin", "tensordot", "hypot"])
def test_numpy_functions_refuse_the_second_of_two_arguments(name: str) -> None:
    plain = np.arange(1.0, 3.0)
    assert table.NUMPY_CONVERTERS[f"numpy.{name}"].positions == (0, 1)
    arguments = (1,) if name in ("polyfit", "tensordot") else ()
    assert _converts(lambda given: getattr(np, name)(plain, given, *arguments), _leaf(2) * 1)


def test_numpy_draws_by_numbers_only() -> None:
    row = table.NUMPY_CONVERTERS["numpy.random.choice"]
    assert row.positions == (0, 3)
    assert "p" in row.keywords
    chances = torch.softmax(_leaf(2), 0)
    assert _converts(lambda given: np.random.choice(2, p=given), chances)
    assert _converts(lambda given: np.random.choice(2, 1, True, given), chances)


def test_plotting_functions_refuse_what_the_table_says() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: there is nothing to measure")
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    two = words("bar barh errorbar fill hist2d scatter stackplot step")
    for name in [*two, *words("axhline axvline boxplot hist loglog plot semilogy violinplot")]:
        row = table.NUMPY_CONVERTERS[f"matplotlib.pyplot.{name}"]
        before: list[Any] = [[0, 1, 2]] if name in two else []

        def call(given: Any, name: str = name, before: list[Any] = before) -> Any:
            return getattr(pyplot, name)(*before, given)

        assert row.tensor == _converts(call, _leaf(3) * 1), name
        assert row.sequence == _converts(call, [_leaf(2).sum() for _ in range(3)]), name
        assert row.positions is None or len(before) in row.positions, name
    pyplot.close("all")


def test_whole_namespaces_convert() -> None:
    assert table.conversion("sklearn.metrics.f1_score") is not None
    assert table.conversion("sklearn.cluster.KMeans.fit") is not None
    assert table.conversion("scipy.stats.pearsonr") is not None
    assert table.conversion("scipy.interpolate.make_interp_spline") is not None
    assert table.conversion("scipy.interpolate.CubicSpline") is not None
    assert table.conversion("scipy.interpolate.BSpline") is None
    assert table.conversion("sklearn.metrics.ConfusionMatrixDisplay") is None
    assert table.conversion("numpy.random.rand") is None
    assert table.conversion("math.sqrt") is None


def test_interfaces_of_a_tensor() -> None:
    names = {name for name in collections.abc.__all__ if isinstance(torch.ones(2), getattr(collections.abc, name))}
    assert set(INTERFACES) == names
