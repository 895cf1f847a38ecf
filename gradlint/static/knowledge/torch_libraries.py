"""What libraries do with tensors and modules: questions to their data files, by the role that a name plays there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from gradlint.static.knowledge.guesses import INTEGERS_NAME, MODULE_CLASS_NAME, PREDICTIONS_NAME
from gradlint.static.knowledge.library import Apart, Handler, Models, Tried, Writer, known
from gradlint.static.knowledge.ops import Conversion

_LIBRARIES: Final = known()

# --- models

_MODELS: Final[dict[str, Models]] = _LIBRARIES.spaces("models")
_NONE: Final = Models()
_BUILD: Final = frozenset(
    f"{space}.{name}"
    for space, models in _MODELS.items()
    if not isinstance(models.build, bool)
    for name in models.build
)
_FROM: Final = frozenset(["from_pretrained", "from_name", "from_config"])
_TELLING: Final = ("get_", "list_", "_")  #: so the names of functions begin that tell of models, and build none


@lru_cache(maxsize=4096)
def _around(name: str) -> Models:
    """What is known of the models that a namespace builds: the innermost around ``name`` of which anything is."""
    space = name
    while space:
        space = space.rpartition(".")[0]
        if space in _MODELS:
            return _MODELS[space]
    return _NONE


@lru_cache(maxsize=4096)
def _models(name: str) -> Models:
    """What is known of the model that calling ``name`` gives; nothing where it gives none."""
    models = _around(name)
    last = name.rpartition(".")[2]
    if any(word in name for word in models.others):
        return _NONE
    if last in _FROM:
        return models if models.pretrained else _NONE
    if models.build is True:
        return _NONE if last.startswith(_TELLING) else models
    return models if name in _BUILD else _NONE


def builds_module(name: str) -> bool:
    """Whether calling ``name`` (canonical) gives a trainable model whose inside is not known."""
    return _models(name) is not _NONE


ANY_SCHEDULER: Final = "torch.optim.lr_scheduler.LRScheduler"
_ANY: Final = {"torch.optim": "torch.optim.Optimizer", "torch.optim.lr_scheduler": ANY_SCHEDULER}


def any_of(namespace: str) -> str | None:
    """What stands for a member of a library's namespace that is chosen by name when the program runs."""
    if namespace in _ANY:
        return _ANY[namespace]
    some = f"{namespace}.model"
    return some if builds_module(some) else None


def heads(name: str) -> tuple[str, ...]:
    """The attributes under which a model that ``name`` (canonical) builds may keep its last layer, whose output it gives."""
    models = _models(name)
    return () if any(word in name for word in models.headless) else models.heads


def is_part(name: str, attribute: str) -> bool:
    """Whether a model that ``name`` (canonical) builds keeps a module under ``attribute``, if anything."""
    return has_parameters(name, attribute) or attribute in _models(name).bare_parts


def has_parameters(name: str, attribute: str) -> bool:
    """Whether that module has parameters for certain."""
    models = _models(name)
    return attribute in models.parts or attribute in models.heads


def gives_tensors(name: str) -> bool:
    """Whether a module inside a model that ``name`` (canonical) builds gives a tensor, and no structure of several."""
    return _models(name).parts_give_tensors


def classifies_many(name: str, options: Iterable[str]) -> bool:
    """Whether a model that ``name`` (canonical) builds, given these options, gives a number for each of many classes."""
    option = _models(name).classes_option
    return bool(option) and name.rpartition(".")[2].islower() and bool(heads(name)) and option not in options


def holds_parameters(name: str) -> bool:
    """Whether the weights and biases of the layers inside a model that ``name`` (canonical) builds are parameters.

    None of them is frozen, as long as the program freezes none.
    """
    return _models(name).parameters


def depends_on_mode(name: str, options: Iterable[str]) -> bool:
    """Whether a model that ``name`` (canonical) builds, given these options, is known to differ between the modes.

    Those with batch norm, dropout or stochastic depth do, unless they are told which layers to use instead; they are
    built in training mode.
    """
    models = _models(name)
    differs = name.rpartition(".")[2].startswith(models.batch_norm + models.dropout)
    return differs and set(models.layer_options).isdisjoint(options)


def keeps_statistics(name: str) -> bool:
    """Whether a model that ``name`` (canonical) builds has batch norm, whose statistics move in training mode."""
    return name.rpartition(".")[2].startswith(_models(name).batch_norm)


def names_integers(name: str) -> bool:
    """Whether the outputs of models have integers under this name, which carry no graph."""
    return INTEGERS_NAME.search(name) is not None


def names_predictions(name: str) -> bool:
    """Whether models hand out under this name what they compute with their weights, as those of transformers do."""
    return PREDICTIONS_NAME.search(name) is not None


_OTHERS: Final = frozenset(_LIBRARIES.whole("foreign_modules"))
_NOT_TORCH: Final = ("builtins.", "torch.", *(f"{space}." for space in _OTHERS))


def is_other_framework(name: str) -> bool:
    """Whether a name belongs to a framework with tensors, layers and gradients of its own."""
    return name.partition(".")[0] in _OTHERS


def is_module_class(name: str) -> bool:
    """Whether a class of another library is a module, if one that derives from it has a forward pass; by its name."""
    return MODULE_CLASS_NAME.search(name) is not None and not name.startswith(_NOT_TORCH)


# --- what touches nothing

_WRITERS: Final[dict[str, Writer]] = _LIBRARIES.table("writers")
_HARMLESS_PREFIXES: Final = tuple(f"{space}." for space in _LIBRARIES.whole("touches_nothing"))
_TOUCHES: Final = _LIBRARIES.names("touches")
_NOT_HARMLESS: Final = tuple(f"{name}." for name in _TOUCHES)

HARMLESS: Final = _LIBRARIES.names("touches_nothing") | _WRITERS.keys()
"""Callables that touch neither gradients nor parameters of what they are given; their namespaces may have others."""


@lru_cache(maxsize=4096)
def is_harmless(name: str) -> bool:
    """Whether ``name`` (canonical) leaves gradients and parameters alone, whatever it is given."""
    if name in HARMLESS or name.rpartition(".")[0] in _WRITERS:
        return True
    return name.startswith(_HARMLESS_PREFIXES) and not name.startswith(_NOT_HARMLESS) and name not in _TOUCHES


WRITES: Final[dict[str, str]] = {method: name for name, writer in _WRITERS.items() for method in writer.telling}
"""Methods that only writers have, with the class of one."""

_SHOWS: Final = _LIBRARIES.names("shows") | {f"{name}.{m}" for name, writer in _WRITERS.items() for m in writer.shows}
_SAVES: Final = _LIBRARIES.names("saves") | {f"{name}.{m}" for name, writer in _WRITERS.items() for m in writer.saves}


def shows(name: str) -> bool:
    """Whether ``name`` (canonical) prints or logs the numbers it is given."""
    return name in _SHOWS


def saves(name: str) -> bool:
    """Whether ``name`` (canonical) writes the images, sounds or tensors it is given to a file or a log."""
    return name in _SAVES


_ITERATING: Final = _LIBRARIES.whole("iterates")
_ITERATES: Final = _LIBRARIES.names("iterates").union(_ITERATING)
_ITERATING_PREFIXES: Final = tuple(f"{space}." for space in _ITERATING)


def iterates(name: str) -> bool:
    """Whether ``name`` (canonical) gives the items of the first thing it is given, one after the other."""
    return name in _ITERATES or name.startswith(_ITERATING_PREFIXES)


# --- objects that libraries make


def _within(space: str, name: str) -> str:
    return f"{space}.{name}" if name else space


GIVES: Final[dict[str, str]] = {
    **{name: name for name in _WRITERS},
    **{
        f"{space}.{name}": _within(space, given)
        for space, table in _LIBRARIES.spaces("gives").items()
        for name, given in table.items()
    },
}
"""The class of what a callable, or an attribute, gives."""

GIVES_SEVERAL: Final[dict[str, tuple[str, ...]]] = {
    f"{space}.{name}": tuple(_within(space, one) for one in given)
    for space, table in _LIBRARIES.spaces("gives_several").items()
    for name, given in table.items()
}
"""The classes of what a callable gives together."""

GIVES_ITSELF: Final = _LIBRARIES.words("gives_itself")
"""Methods of such objects that give the object itself, or the axes it holds in another shape."""

STRINGS: Final = _LIBRARIES.names("strings")
"""What holds strings that come from outside of the program."""

_ESTIMATORS: Final = tuple(f"{space}." for space in _LIBRARIES.spaces("estimators"))


def is_estimator(name: str) -> bool:
    """Whether ``name`` (canonical) is a class of a library that learns from arrays."""
    return name.startswith(_ESTIMATORS) and name.rpartition(".")[2][:1].isupper()


# --- what calls functions that it is given

RUN_APART: Final[dict[str, Apart]] = _LIBRARIES.table("runs_apart")
"""What runs a function in a process or thread of its own, where gradients are enabled."""

RUN_OF: Final[dict[str, dict[str, str]]] = {
    row.derived[0]: {name: each.derived[1] for name, each in RUN_APART.items() if each.derived[:1] == row.derived[:1]}
    for row in RUN_APART.values()
    if row.derived
}
"""For a method that starts an object, and the base class of that: the method that is run then."""

TRIED: Final[dict[str, Tried]] = _LIBRARIES.table("tries")
"""What calls a function again and again, to try out settings, in the gradient mode at hand."""

KEYED: Final = _LIBRARIES.names("calls_by_key")
"""What calls its argument ``key`` with each of the items it is given."""

CALLING: Final = frozenset(_LIBRARIES.whole("calls_later"))
"""Libraries whose functions and classes call what they are given as it is, later or in another thread."""


# --- objects that make the backward passes of loops that the user writes

HANDLERS: Final[dict[str, Handler]] = _LIBRARIES.table("handlers")
"""Their classes, and what their methods do."""


@lru_cache(maxsize=256)
def handles(cls: str, method: str) -> str:
    """What a method of such an object does, by its class (canonical), or of any of them where that is not known.

    Returns:
        ``"passes"``, ``"passes_all"`` or ``"backward"``, as the data files say; nothing where they do not.
    """
    for handler in [HANDLERS[cls]] if cls in HANDLERS else HANDLERS.values():
        for effect in ("passes", "passes_all", "backward"):
            if method in getattr(handler, effect):
                return effect
    return ""


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
