"""Which role objects have, by the name of their class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import names
from gradlint.static.knowledge.roles import Role
from gradlint.static.knowledge.torch_layers import LAYERS, LOSSES
from gradlint.static.knowledge.torch_libraries import HANDLERS
from gradlint.static.knowledge.torch_training import (
    DATASET_BASES,
    EXPECTING,
    FUNCTION_BASES,
    HOSTED_BASES,
    MODULE_BASES,
    OPTIMIZERS,
    TRAINERS,
)


def _by_name(*rows: tuple[Role, Iterable[str]]) -> dict[str, Role]:
    """The roles by name; a name in several rows is of the first."""
    return {name: role for role, all_names in reversed(rows) for name in all_names}


SUBCLASSED: Final = _by_name(
    (roles.HOSTED, HOSTED_BASES),
    (roles.MODULE, {*MODULE_BASES, *LAYERS, *LOSSES}),
    (roles.OPTIMIZER, {*OPTIMIZERS, "torch.optim.Optimizer"}),
    (roles.FUNCTION, FUNCTION_BASES),
    (roles.DATASET, DATASET_BASES),
    (roles.DICT, ["builtins.dict", "typing.Dict"]),
    (roles.NAMED_TUPLE, ["typing.NamedTuple"]),
    (roles.EXCEPTION, ["builtins.Exception"]),
    (roles.ENUM, names("enum", "Enum EnumMeta EnumType Flag IntEnum IntFlag ReprEnum StrEnum")),
)
"""What an object of a class of the project is, by a base class."""

BUILT: Final = _by_name((roles.EXPECTING, EXPECTING), (roles.HANDLER, HANDLERS), (roles.TRAINER, TRAINERS))
"""What a call gives of which nothing else is known, by the name of what is called."""
