"""Callables that ask a tensor for its numpy array: they raise where it requires grad, or lives on a GPU.

Some numpy functions call the tensor's own method of the same name (``np.squeeze``) or hand it arguments it does not know
(``np.mean``: a ``TypeError``, whether it requires grad or not): ``tensor`` is False for these, and ``own_method`` True
where what they give is a tensor with its graph.  ``float``, ``int``, ``math.sqrt`` and f-strings convert in peace.
"""

from __future__ import annotations

from typing import Final

from gradlint.static.knowledge.library import known
from gradlint.static.knowledge.ops import Conversion

_LIBRARIES: Final = known()
_SPELLED: Final[dict[str, str]] = _LIBRARIES.spaces("spelled")


def _display(space: str, name: str) -> str:
    """How a user spells a name: ``np.asarray``."""
    spelled = _SPELLED.get(space, space.rpartition(".")[2])
    return f"{spelled}.{name}" if spelled else name


NUMPY_CONVERTERS: Final[dict[str, Conversion]] = {
    f"{space}.{name}": Conversion(display=_display(space, name), **columns)
    for space, table in _LIBRARIES.each("converts")
    for name, columns in table.items()
}
"""Callables that turn what they are given into numpy arrays, by canonical name.  See :func:`conversion`."""

FILLED_ARRAYS: Final = _LIBRARIES.names("fills")
"""What makes an array that is filled afterwards: storing a tensor into a part of it converts that, too."""

CONVERTING_LIBRARIES: Final = frozenset(_LIBRARIES.whole("objects_convert"))
"""Libraries whose objects convert what their methods are given."""

_WHOLE_NAMESPACES: Final = tuple(f"{name}." for name in _LIBRARIES.names("convert_all"))
_ESTIMATOR_METHODS: Final[dict[str, tuple[str, ...]]] = _LIBRARIES.spaces("estimators")


def conversion(name: str) -> Conversion | None:
    """How ``name`` (canonical) converts tensors to numpy arrays; None where it does not, or is not known to.

    All functions of ``sklearn.metrics`` and of the numerical parts of scipy convert every positional argument, and
    so do the methods of scikit-learn's estimators, named through their class: ``sklearn.cluster.KMeans.fit``.
    """
    row = NUMPY_CONVERTERS.get(name)
    if row is not None:
        return row
    owner, _, last = name.rpartition(".")
    if name.startswith(_WHOLE_NAMESPACES) and last[:1].islower():
        return Conversion(display=last, positions=None, keywords=("y_true", "y_pred", "y_score"))
    if last in _ESTIMATOR_METHODS.get(name.partition(".")[0], ()) and "." in owner:
        return Conversion(display=f"{owner.rpartition('.')[2]}.{last}", positions=(0, 1), keywords=("X", "y"))
    return None
