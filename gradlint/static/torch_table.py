"""The torch table: what calls of torch do, as data.

The interpreter asks this module and no other.  To teach gradlint an operation, add its name to a line of the
module that holds its kind:

- :mod:`~gradlint.static.torch_operations`: functions and tensor methods of torch itself;
- :mod:`~gradlint.static.torch_functions`: ``torch.nn.functional``, ``special``, ``linalg``, ``fft``;
- :mod:`~gradlint.static.torch_layers`: classes of ``torch.nn``, losses, dropout;
- :mod:`~gradlint.static.torch_training`: optimizers, schedulers, grad modes, initialisers, base classes, frameworks;
- :mod:`~gradlint.static.torch_libraries`: other libraries;
- :mod:`~gradlint.static.torch_conversions`: what asks for numpy arrays;
- :mod:`~gradlint.static.torch_names`: other spellings of the same names.

The columns are those of :mod:`~gradlint.static.ops`.  All names are canonical: :func:`canonical` makes them so.
"""

from __future__ import annotations

from gradlint.static.torch_conversions import NUMPY_CONVERTERS, conversion
from gradlint.static.torch_functions import (
    ARRAY_METHODS,
    ATTRIBUTES,
    FUNCTIONS,
    METHODS,
    SPECIAL_ATTRIBUTES,
    SPECIAL_METHODS,
    TELLING_METHODS,
)
from gradlint.static.torch_layers import DROPOUTS, LAYERS, LOSSES, SOFTMAX_DIMS, begins_parameter, names_parameter
from gradlint.static.torch_libraries import (
    GIVES,
    GIVES_ITSELF,
    GIVES_SEVERAL,
    HARMLESS,
    HARMLESS_PREFIXES,
    MODULE_FACTORIES,
    MODULE_FACTORY_PREFIXES,
    any_of,
    builds_module,
    depends_on_mode,
    heads,
    holds_parameters,
    is_estimator,
    is_harmless,
    is_part,
)
from gradlint.static.torch_names import ALIASES, canonical
from gradlint.static.torch_operations import INTEGRAL_TYPES
from gradlint.static.torch_training import (
    AUTOCASTS,
    BATCH_STEPS,
    CLEARING,
    CLIPS,
    DATASET_BASES,
    DEPRECATED_INITS,
    DERIVATIVES,
    DISTRIBUTION_DRAWS,
    DISTRIBUTION_FACTS,
    DISTRIBUTION_MEASURES,
    DISTRIBUTION_STATISTICS,
    DIVERGENCES,
    DOWNLOADS,
    FOREIGN_PATHS,
    FRAMEWORKS,
    FUNCTION_BASES,
    GRAD_MODES,
    INDEX_DISTRIBUTIONS,
    INITS,
    LIGHTNING_BASES,
    LOADERS,
    MODULE_BASES,
    MODULE_METHODS,
    OPTIMIZERS,
    OVERWRITING,
    PACKED_FIELDS,
    PASSED_THROUGH,
    PASSED_TOGETHER,
    PICKLES,
    RANDOM,
    RANDOM_FILLS,
    SCALERS,
    SCHEDULERS,
    WALKS,
    builds_distribution,
    is_called_without_grad,
)

__all__ = [
    "ALIASES",
    "ARRAY_METHODS",
    "ATTRIBUTES",
    "AUTOCASTS",
    "BATCH_STEPS",
    "CLEARING",
    "CLIPS",
    "DATASET_BASES",
    "DEPRECATED_INITS",
    "DERIVATIVES",
    "DISTRIBUTION_DRAWS",
    "DISTRIBUTION_FACTS",
    "DISTRIBUTION_MEASURES",
    "DISTRIBUTION_STATISTICS",
    "DIVERGENCES",
    "DOWNLOADS",
    "DROPOUTS",
    "FOREIGN_PATHS",
    "FRAMEWORKS",
    "FUNCTIONS",
    "FUNCTION_BASES",
    "GIVES",
    "GIVES_ITSELF",
    "GIVES_SEVERAL",
    "GRAD_MODES",
    "HARMLESS",
    "HARMLESS_PREFIXES",
    "INDEX_DISTRIBUTIONS",
    "INITS",
    "INTEGRAL_TYPES",
    "LAYERS",
    "LIGHTNING_BASES",
    "LOADERS",
    "LOSSES",
    "METHODS",
    "MODULE_BASES",
    "MODULE_FACTORIES",
    "MODULE_FACTORY_PREFIXES",
    "MODULE_METHODS",
    "NUMPY_CONVERTERS",
    "OPTIMIZERS",
    "OVERWRITING",
    "PACKED_FIELDS",
    "PASSED_THROUGH",
    "PASSED_TOGETHER",
    "PICKLES",
    "RANDOM",
    "RANDOM_FILLS",
    "SCALERS",
    "SCHEDULERS",
    "SOFTMAX_DIMS",
    "SPECIAL_ATTRIBUTES",
    "SPECIAL_METHODS",
    "TELLING_METHODS",
    "WALKS",
    "any_of",
    "begins_parameter",
    "builds_distribution",
    "builds_module",
    "canonical",
    "conversion",
    "depends_on_mode",
    "heads",
    "holds_parameters",
    "is_called_without_grad",
    "is_estimator",
    "is_harmless",
    "is_part",
    "names_parameter",
]
