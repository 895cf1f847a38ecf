"""Callables that ask a tensor for its numpy array: they raise where it requires grad, or lives on a GPU.

What each does with a tensor and with a list of tensors was measured with numpy 2.4, matplotlib 3.11, scikit-learn,
scipy, pandas and seaborn; the tests measure numpy again.  Some numpy functions call the tensor's own method of the
same name (``np.squeeze``) or hand it arguments it does not know (``np.mean``: a ``TypeError``, whether it requires
grad or not): ``tensor`` is False for these, and ``own_method`` True where what they give is a tensor with its graph.  ``float``, ``int``, ``math.sqrt`` and f-strings convert in peace.
"""

from __future__ import annotations

from typing import Any, Final

from gradlint.static.knowledge.ops import Conversion, merged, words


def _rows(namespace: str, shown: str, names: str, **columns: Any) -> dict[str, Conversion]:
    return {f"{namespace}.{name}": Conversion(display=f"{shown}{name}", **columns) for name in words(names)}


def _numpy(names: str, **columns: Any) -> dict[str, Conversion]:
    return _rows("numpy", "np.", names, **columns)


def _drawing(names: str, **columns: Any) -> dict[str, Conversion]:
    """Functions of pyplot that are also methods of ``Axes``."""
    return merged(
        _rows("matplotlib.pyplot", "plt.", names, **columns), _rows("matplotlib.axes.Axes", "Axes.", names, **columns)
    )


NUMPY_CONVERTERS: Final[dict[str, Conversion]] = merged(
    _numpy("array asanyarray asarray ascontiguousarray asfortranarray copy", keywords=("a", "object")),
    _numpy("bool bool_ float16 float32 half int8 int16 int32 int64 intp longdouble single uint8 uint16 uint32 uint64"),
    _numpy("float64 double", tensor=False),  # a tensor of one element converts as ``float`` does
    # the tensor's own method is called, or refuses numpy's arguments
    _numpy("all amax amin any concatenate max mean min prod std sum var", tensor=False),
    _numpy("array_split concat flip hsplit lexsort moveaxis ndim real shape size vsplit", tensor=False),
    _numpy("argwhere nonzero squeeze swapaxes", tensor=False, own_method=True),
    _numpy(
        "abs absolute angle argmax argmin argsort around atleast_1d atleast_2d average bincount ceil column_stack corrcoef cos "
        "count_nonzero cov cumprod cumsum diag diff exp expand_dims floor full_like gradient histogram hstack isfinite isinf "
        "isnan linalg.det linalg.eigh linalg.inv linalg.norm linalg.svd log log10 log1p logical_not median nan_to_num nanmax "
        "nanmean nanmin nanstd nansum ones_like percentile ptp quantile ravel repeat reshape rint round sign sin sort sqrt "
        "square stack tanh tile trace transpose trapezoid tril triu unique vstack zeros_like"
    ),
    _numpy(
        "arccos arccosh arcsin arcsinh arctan arctanh argpartition asarray_chkfinite asmatrix atleast_3d broadcast_to cbrt cosh "
        "deg2rad degrees delete diagflat diagonal dstack ediff1d empty_like exp2 expm1 fabs fix flatnonzero fliplr flipud "
        "histogram_bin_edges histogramdd iscomplex isneginf isposinf linalg.cholesky linalg.cond linalg.eig linalg.eigvals "
        "linalg.eigvalsh linalg.matrix_power linalg.matrix_rank linalg.pinv linalg.qr linalg.slogdet nanargmax nanargmin "
        "nancumprod nancumsum nanmedian nanpercentile nanprod nanquantile nanvar negative pad partition positive rad2deg "
        "radians reciprocal resize roll rot90 signbit sinc sinh take tan trim_zeros trunc unwrap"
    ),
    _numpy(
        "fft.fft fft.fft2 fft.fftn fft.fftshift fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.irfft fft.rfft fft.rfft2"
    ),
    _numpy("array2string array_repr array_str", sequence=False),
    _numpy(
        "add allclose append arctan2 divide dot inner isclose matmul maximum minimum multiply outer power subtract",
        positions=(0, 1),
    ),
    _numpy(
        "compress convolve copysign correlate cross digitize equal extract float_power floor_divide fmax fmin fmod greater "
        "greater_equal heaviside histogram2d hypot in1d intersect1d isin kron less less_equal linalg.lstsq linalg.solve "
        "logaddexp logical_and logical_or logical_xor mod not_equal polyfit polyval remainder searchsorted setdiff1d "
        "setxor1d tensordot trapz true_divide union1d vdot",
        positions=(0, 1),
    ),
    _numpy(
        "testing.assert_allclose testing.assert_almost_equal testing.assert_array_almost_equal testing.assert_array_equal "
        "testing.assert_array_less testing.assert_array_max_ulp testing.assert_equal",
        positions=(0, 1),
        keywords=("actual", "desired", "x", "y"),
    ),
    _numpy("einsum", positions=None),
    _numpy("random.choice", positions=(0, 3), keywords=("a", "p")),
    _numpy("random.multinomial", positions=(1,), keywords=("pvals",)),
    _numpy("clip interp where", positions=(0, 1, 2)),
    _numpy("insert", positions=(0, 2)),
    _numpy("save savetxt", positions=(1,), keywords=("arr", "X")),
    _numpy("savez savez_compressed", positions=None),
    _drawing(
        "contour contourf fill loglog pcolormesh plot quiver semilogx semilogy stackplot stem step", positions=None
    ),
    _drawing("boxplot hist imshow matshow pie violinplot", keywords=("x", "X", "data")),
    _drawing("axhline axvline", keywords=("x", "y")),
    _drawing("scatter", positions=(0, 1, 2, 3), keywords=("x", "y", "s", "c")),
    _drawing("bar", positions=(0, 1), keywords=("x", "height", "yerr", "bottom")),
    _drawing("barh", positions=(0, 1), keywords=("y", "width", "xerr", "left")),
    _drawing("errorbar", positions=(0, 1, 2, 3), keywords=("x", "y", "xerr", "yerr")),
    _drawing("fill_between hlines vlines", positions=(0, 1, 2), keywords=("x", "y", "y1", "y2")),
    _drawing("hist2d", positions=(0, 1), keywords=("x", "y")),
    _rows("matplotlib.pyplot", "plt.", "imsave", positions=(1,), keywords=("arr",)),
    # pandas keeps a list of tensors as a column of objects
    _rows("pandas", "pd.", "Series DataFrame", sequence=False, keywords=("data",)),
    _rows("seaborn", "sns.", "lineplot scatterplot", positions=(0,), keywords=("x", "y", "data")),
    _rows("seaborn", "sns.", "barplot", sequence=False, keywords=("x", "y", "data")),
    _rows("seaborn", "sns.", "distplot heatmap histplot kdeplot", keywords=("x", "data")),
    _rows("scipy.optimize", "scipy.optimize.", "linear_sum_assignment", keywords=("cost_matrix",)),
    _rows("scipy.optimize", "scipy.optimize.", "curve_fit", positions=(1, 2), keywords=("xdata", "ydata", "p0")),
    _rows("scipy.optimize", "scipy.optimize.", "minimize", positions=(1,), keywords=("x0",)),
    _rows(
        "scipy.interpolate",
        "",
        "Akima1DInterpolator CubicSpline InterpolatedUnivariateSpline PchipInterpolator UnivariateSpline",
        positions=(0, 1),
        keywords=("x", "y"),
    ),
)
"""Callables that turn what they are given into numpy arrays, by canonical name.  See :func:`conversion`."""

FILLED_ARRAYS: Final = frozenset(f"numpy.{name}" for name in words("empty full ones zeros"))
"""What makes an array that is filled afterwards: storing a tensor into a part of it converts that, too."""

_WHOLE_NAMESPACES: Final = (
    "scipy.cluster.hierarchy.",
    "scipy.cluster.vq.",
    "scipy.fft.",
    "scipy.integrate.",
    "scipy.interpolate.",
    "scipy.linalg.",
    "scipy.ndimage.",
    "scipy.signal.",
    "scipy.spatial.distance.",
    "scipy.special.",
)
_ESTIMATOR_METHODS: Final = frozenset(
    words(
        "apply decision_function fit fit_predict fit_transform inverse_transform kneighbors partial_fit predict "
        "predict_log_proba predict_proba radius_neighbors score score_samples transform"
    )
)


def conversion(name: str) -> Conversion | None:
    """How ``name`` (canonical) converts tensors to numpy arrays; None where it does not, or is not known to.

    All functions of ``sklearn.metrics`` and of the numerical parts of scipy convert every positional argument, and
    so do the methods of scikit-learn's estimators, named through their class: ``sklearn.cluster.KMeans.fit``.
    """
    row = NUMPY_CONVERTERS.get(name)
    if row is not None:
        return row
    owner, _, last = name.rpartition(".")
    function = last[:1].islower()
    if (owner == "sklearn.metrics" or name.startswith((*_WHOLE_NAMESPACES, "scipy.stats."))) and function:
        return Conversion(display=last, positions=None, keywords=("y_true", "y_pred", "y_score"))
    if owner.startswith("sklearn.") and last in _ESTIMATOR_METHODS:
        return Conversion(display=f"{owner.rpartition('.')[2]}.{last}", positions=(0, 1), keywords=("X", "y"))
    return None
