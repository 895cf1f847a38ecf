"""Objects that plotting and learning libraries make: figures, axes, estimators.

Such an object is an unknown value whose key tells its class, so that its methods are known by name.  An array of axes
stands for each of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from gradlint.static.values import Sequence, Unknown, Value
from gradlint.static.world import World, fresh

_AXES: Final = "matplotlib.axes.Axes"
_FIGURE: Final = "matplotlib.figure.Figure"
_GIVING: Final = {
    **dict.fromkeys(["matplotlib.pyplot.figure", "matplotlib.pyplot.gcf", _FIGURE], _FIGURE),
    **dict.fromkeys((f"matplotlib.pyplot.{name}" for name in ("subplot", "axes", "gca", "twinx", "twiny")), _AXES),
    **dict.fromkeys((f"{_FIGURE}.{name}" for name in ("subplots", "add_subplot", "add_axes", "gca", "axes")), _AXES),
    **dict.fromkeys((f"{_AXES}.{name}" for name in ("twinx", "twiny", "inset_axes", "flat", "T")), _AXES),
    "sklearn.pipeline.make_pipeline": "sklearn.pipeline.Pipeline",
}
"""The class of what a callable, or an attribute, gives."""

_ITSELF: Final = frozenset(["fit", "partial_fit", "set_params", "ravel", "flatten", "reshape", "transpose"])


def made_by(name: str, w: World) -> Value | None:
    """What calling ``name`` (canonical) gives, if that is an object of such a library, or a pair of them."""
    if name == "matplotlib.pyplot.subplots":
        return w.new(Sequence([_made(_FIGURE), _made(_AXES)], [None, None], None, None, False))
    cls = _GIVING.get(name)
    if cls is None and name.startswith("sklearn.") and name.rpartition(".")[2][:1].isupper():
        cls = name
    return None if cls is None else _made(cls)


def _made(cls: str) -> Unknown:
    return Unknown(("object", cls, fresh()), cls.rpartition(".")[2].lower())


def class_of(value: Unknown) -> str | None:
    """The class of an object that a library made, or of a part of what it gave, by its canonical name."""
    return _class_of(value.key)


def _class_of(key: Hashable) -> str | None:
    if not isinstance(key, tuple) or len(key) != 3:
        return None
    kind, first, last = key
    if kind == "object":
        return str(first)
    if kind == "item":
        return _class_of(first)
    if kind == "element":
        return _class_of(last)
    return _GIVING.get(f"{_class_of(first)}.{last}") if kind == "attribute" else None


def is_itself(method: str) -> bool:
    """Whether a method of such an object gives the object, or the axes it holds in another shape."""
    return method in _ITSELF


__all__ = ["class_of", "is_itself", "made_by"]
