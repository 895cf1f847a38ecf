"""Roles: what an object is to a training program, and what follows from that wherever it is.

A role is declared here once; what its objects do where a program uses them is declared in
:mod:`gradlint.static.torch.behaviours`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """What an object is to a training program.  There is one of each: they are compared by identity."""

    name: str
    is_module: bool = False  #: a module of torch: calling it calls its ``forward``
    is_model: bool = False  #: one that may hold what is trained, which a loss does not
    is_true: bool = False  #: ``if obj`` is taken whenever there is one
    is_data: bool = False  #: it has to do with neither modules, optimizers, parameters nor graphs
    has_parts: bool = False  #: its attributes are its items
    has_groups: bool = False  #: it holds parameters itself: one that it holds, and that is told apart, it holds as well
    only_methods: bool = False  #: whatever is read from it is a method
    sets_grad_mode: bool = False  #: as a context manager, until its block ends
    delegates: bool = False  #: what it lacks is asked of its ``__getattr__``, which asks what it wraps
    stays_apart: bool = False  #: of two that one expression may give, each is followed
    comes_in_numbers: bool = False  #: loops make many of them, and some stand for all

    def __reduce__(self) -> str:
        """A copy is the role itself: the constant of this module."""
        return (self.name or "plain").upper()


# --- classes of the project

PLAIN: Final = Role("", is_data=True, delegates=True, comes_in_numbers=True)
"""An object of a class that is none of the others."""
DATASET: Final = Role("dataset")
DICT: Final = Role("dict", is_data=True, delegates=True, has_parts=True)
"""An object of a class that derives from ``dict``."""
NAMED_TUPLE: Final = Role("named_tuple")
EXCEPTION: Final = Role("exception")
ENUM: Final = Role("enum")
FUNCTION: Final = Role("function")
"""An object of a class that derives from ``autograd.Function``."""

# --- what is trained

MODULE: Final = Role("module", is_module=True, is_model=True, is_true=True, stays_apart=True, comes_in_numbers=True)
HOSTED: Final = Role("hosted", is_module=True, is_model=True, is_true=True, stays_apart=True, comes_in_numbers=True)
"""A module whose training loop a library runs."""
LOSS: Final = Role("loss", is_module=True, is_true=True, stays_apart=True)
PARAMETERS: Final = Role("parameters", only_methods=True, has_groups=True)
"""What ``model.parameters()`` gives."""
PARAM_GROUPS: Final = Role("param_groups", only_methods=True)
HOOK: Final = Role("hook")
"""What removes a hook."""
TRANSFORMED: Final = Role("transformed")
"""What ``vmap`` and its like make of a function."""

# --- what trains

OPTIMIZER: Final = Role(
    "optimizer", only_methods=True, has_groups=True, is_true=True, stays_apart=True, comes_in_numbers=True
)
SCHEDULER: Final = Role("scheduler", only_methods=True, is_true=True)
SCALER: Final = Role("scaler", only_methods=True, is_true=True)
HANDLER: Final = Role("handler", only_methods=True)
"""What leaves the loop to the user, and makes its backward passes."""
ENGINE: Final = Role("engine", only_methods=True)
TRAINER: Final = Role("trainer", only_methods=True)
GRAD_MODE: Final = Role("grad_mode", only_methods=True, sets_grad_mode=True)
EXIT_STACK: Final = Role("exit_stack", only_methods=True, sets_grad_mode=True)
CTX: Final = Role("ctx")
"""The first argument of the ``forward`` and ``backward`` of an ``autograd.Function``."""

# --- data

LOADER: Final = Role("loader", only_methods=True, is_data=True)
ARRAY: Final = Role("array", only_methods=True, is_data=True)
"""A numpy array."""
DISTRIBUTION: Final = Role("distribution", has_parts=True)

# --- of Python

DECORATOR: Final = Role("decorator")
"""It gives back the function that it is given."""
EXPECTING: Final = Role("expecting")
"""A context manager whose body is meant to raise."""

# --- functions of the project

FunctionKind = Literal["", "static", "class", "property", "context"]
"""What a function of the project is to the class it stands in, or that calling it gives a context manager."""

DECORATED: Final[dict[str, FunctionKind]] = {
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "builtins.property": "property",
    "functools.cached_property": "property",
    "abc.abstractproperty": "property",
    "contextlib.contextmanager": "context",
    "contextlib.asynccontextmanager": "context",
}
"""What decorators make of a function."""
