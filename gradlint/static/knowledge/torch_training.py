"""What training is made of: optimizers, schedulers, grad modes, initialisers, base classes, and the roles these play."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import HANDLER_NAME
from gradlint.static.knowledge.library import Handler, Hosted, known
from gradlint.static.knowledge.ops import names
from gradlint.static.knowledge.roles import HOSTED, Role
from gradlint.static.knowledge.torch_layers import LAYERS, LOSSES
from gradlint.static.knowledge.torch_libraries import HANDLERS

_LIBRARIES: Final = known()

OPTIMIZERS: Final = names(
    "torch.optim",
    "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer RAdam RMSprop Rprop SGD SparseAdam",
) | _LIBRARIES.names("optimizers")
"""Classes (and factories) of optimizers: the first argument is what they update."""

SCHEDULERS: Final = (
    names(
        "torch.optim.lr_scheduler",
        "ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LRScheduler LambdaLR "
        "LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR StepLR _LRScheduler",
    )
    | names("torch.optim.swa_utils", "SWALR")
    | _LIBRARIES.names("schedulers")
)
"""Schedulers: the first argument is the optimizer."""

SCALERS: Final = names("", "torch.GradScaler torch.amp.GradScaler torch.cuda.amp.GradScaler torch.cpu.amp.GradScaler")

GRAD_MODES: Final[dict[str, Literal["off", "on", "argument"]]] = {
    "torch.no_grad": "off",
    "torch.inference_mode": "off",
    "torch.enable_grad": "on",
    "torch.set_grad_enabled": "argument",
}
"""Context managers and decorators that set the grad mode; "argument": as their first argument says.

``inference_mode(False)`` leaves the mode as it is; without an argument it is off.
"""

AUTOCASTS: Final = names(
    "", "torch.autocast torch.amp.autocast torch.cuda.amp.autocast torch.cpu.amp.autocast"
) | _LIBRARIES.names("autocasts")

NORM_CLIPS: Final = names("torch.nn.utils", "clip_grad_norm clip_grad_norm_")
"""Those that return the norm that the gradients had, as a tensor where they are."""

CLIPS: Final = (
    NORM_CLIPS | names("torch.nn.utils", "clip_grad_value_ clip_grads_with_norm_") | _LIBRARIES.names("clips")
)
"""Functions that change gradients in place: the first argument is the parameters."""

DEPRECATED_INITS: Final = names(
    "torch.nn.init",
    "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform xavier_normal xavier_uniform",
)
"""Initialisers by their deprecated names, without the underscore."""

INITS: Final = DEPRECATED_INITS | names(
    "torch.nn.init",
    "constant_ dirac_ eye_ kaiming_normal_ kaiming_uniform_ normal_ ones_ orthogonal_ sparse_ trunc_normal_ uniform_ "
    "xavier_normal_ xavier_uniform_ zeros_",
)
"""Initialisers: they change their first argument in place, under ``no_grad``, and return it."""

PARTED: Final[dict[str, tuple[str, tuple[str, ...] | None]]] = {
    "torch.nn.utils.weight_norm": ("weight", ("weight_v", "weight_g")),
    "torch.nn.utils.spectral_norm": ("weight", ("weight_orig",)),
    "torch.nn.utils.parametrizations.orthogonal": ("weight", ()),
    "torch.nn.utils.parametrizations.spectral_norm": ("weight", ()),
    "torch.nn.utils.parametrizations.weight_norm": ("weight", ()),
    "torch.nn.utils.remove_spectral_norm": ("weight", None),
    "torch.nn.utils.remove_weight_norm": ("weight", None),
}
"""What computes a parameter of a layer, if no other is named, from these from now on; None: it is one again."""

PASSED_THROUGH: Final = _LIBRARIES.names("passes") | names(
    "",
    "torch.compile torch.jit.script torch.fx.symbolic_trace torch.nn.utils.fusion.fuse_conv_bn_eval "
    "torch.nn.utils.remove_spectral_norm "
    "torch.nn.utils.remove_weight_norm torch.nn.utils.spectral_norm torch.nn.utils.weight_norm "
    "torch.nn.utils.parametrizations.orthogonal torch.nn.utils.parametrizations.spectral_norm "
    "torch.nn.utils.parametrizations.weight_norm torch.nn.SyncBatchNorm.convert_sync_batchnorm",
)
"""Calls that give back what they are given first (a module, a loss), or what acts like it over the same parameters."""

PASSED_TOGETHER: Final[dict[str, tuple[str, ...]]] = _LIBRARIES.table("passes_together")
"""Calls that give back what these parameters are given: all of it, in order."""

_HOSTED: Final[dict[str, Hosted]] = _LIBRARIES.spaces("hosted")
HOSTED_BASES: Final = frozenset(f"{space}.{name}" for space, hosted in _HOSTED.items() for name in hosted.bases)
"""Base classes of modules whose loop the framework runs."""

TEST_BASES: Final = _LIBRARIES.names("test_bases")
"""Base classes of tests: before each of their methods that are tests, the framework calls others."""

TEST_SETUPS: Final = ("setUpClass", "setup_class", "setUp", "asyncSetUp", "setup_method")
"""These others, in the order in which they are called; the first two of the class.  pytest knows two of them."""


def is_test(method: str) -> bool:
    """Whether a method of such a class is a test, by its name."""
    return method.startswith("test") or method == "runTest"


EXPECTING: Final = _LIBRARIES.names("expects")
"""Calls that give a context manager whose body is meant to raise."""

EXPECTING_METHODS: Final = frozenset(["assertRaises", "assertRaisesRegex"])
"""The same of methods of tests."""


MODULE_BASES: Final = (
    names(
        "torch.nn",
        "Module Sequential ModuleList ModuleDict ParameterList ParameterDict Container RNNBase RNNCellBase Linear Conv1d Conv2d "
        "Conv3d",
    )
    | HOSTED_BASES
    | names("torch", "jit.ScriptModule nn._Loss nn._WeightedLoss")
    | _LIBRARIES.names("module_bases")
)
"""Classes whose subclasses are modules of torch."""

FUNCTION_BASES: Final = names("torch.autograd", "Function function.InplaceFunction function.NestedIOFunction")
"""Bases of functions with a backward of their own."""

DATASET_BASES: Final = names(
    "torch.utils.data", "Dataset IterableDataset TensorDataset ConcatDataset ChainDataset Subset StackDataset"
) | _LIBRARIES.names("datasets")
"""Classes whose items are data: no gradient comes with them."""

LOADERS: Final = names("torch.utils.data", "DataLoader dataloader.DataLoader") | _LIBRARIES.names("loaders")
"""Classes whose batches are data."""

STACKING_LOADER: Final = "torch.utils.data.DataLoader"
"""The one of them that stacks tensors, arrays and numbers to tensors, if it is not told otherwise."""

COLLATE: Final = (6, "collate_fn")
"""The position and name of the argument that tells it otherwise."""

TENSOR_DATASET: Final = "torch.utils.data.TensorDataset"
"""The data set whose items hold tensors and nothing else."""

LIBRARY_DATASETS: Final = tuple(f"{space}." for space in _LIBRARIES.whole("stackable"))
"""The beginnings of names of data sets: what their items hold is stacked, unless a transform makes something else of it."""

LIBRARY_TRANSFORMS: Final = tuple(f"{space}." for space in _LIBRARIES.whole("transforms"))
"""The same of what changes such items, and gives none of another kind."""

TRANSFORMING: Final = ("transform", "target_transform", "transforms")
"""The arguments of such data sets that are transforms."""

ARBITRARY_TRANSFORMS: Final = _LIBRARIES.names("arbitrary_transforms")
"""Those of the transforms that call any function."""

COLLECTING_TRANSFORMS: Final = _LIBRARIES.names("collecting_transforms")
"""Those of them that apply others."""

ONE_BY_ONE: Final = _LIBRARIES.names("one_by_one")
"""Those of these that apply one after the other, each always."""

TENSOR_TRANSFORMS: Final = _LIBRARIES.names("tensor_transforms")
"""Those of the transforms that make a tensor of an image."""

IMAGE_TRANSFORMS: Final = _LIBRARIES.names("image_transforms")
"""Those that may give something else where they are given a tensor."""

ENGINES: Final[dict[str, int]] = _LIBRARIES.table("engines")
"""What gives an engine that trains, and so many other things behind it."""

TRAINERS: Final = _LIBRARIES.names("trainers")
"""Objects that run the loop, or parts of it, for the user."""

TRAINER_STEPS: Final[dict[str, dict[str, str]]] = _LIBRARIES.table("trainer_steps")
"""Those that classes are derived from, with the methods of the library that call others, given the model and a batch."""

CALLBACK_BASES: Final = _LIBRARIES.names("callbacks")
"""Base classes of callbacks: their methods are given the trainer, the model and more."""


_HANDLERS: Final[dict[str, Handler]] = _LIBRARIES.table("handlers")
_BACKWARD_OF_HANDLERS: Final = frozenset(name for handler in _HANDLERS.values() for name in handler.backward)
_PREPARING: Final = _BACKWARD_OF_HANDLERS.union(*(handler.passes_all for handler in _HANDLERS.values()))


def looks_like_handler(name: str, method: str) -> bool:
    """Whether something of this name, which is told to prepare models or make a backward pass, is one of those."""
    return method in _PREPARING and HANDLER_NAME.search(name) is not None


HOSTED_BACKWARD: Final = frozenset(name for hosted in _HOSTED.values() for name in hosted.backward)
"""Methods of modules whose loop a library runs that walk the graph of the loss they are given."""

WALKS: Final = _BACKWARD_OF_HANDLERS | HOSTED_BACKWARD | {"backward"}
"""Methods and functions that walk a graph and add to the gradients of its leaves."""

DERIVATIVES: Final = names("torch.autograd", "grad")
"""Functions that walk a graph and hand the gradients back."""

FUNCTION_TRANSFORMS: Final = names("torch.func", "grad grad_and_value hessian jacfwd jacrev vmap")
"""Functions that turn a function into one that calls it."""

PICKLES: Final = names("torch", "save load")
"""Functions that write objects to files, and read them."""

MODULE_METHODS: Final = names(
    "", "parameters named_parameters modules named_modules children named_children state_dict load_state_dict"
)
"""Methods that modules have, and tensors do not."""

TELLING_MODULES: Final = MODULE_METHODS | {"zero_grad", "train", "eval"}
"""Methods that say of an object that it is a module."""

ACTS: Final[dict[str, tuple[str, ...]]] = {
    "optimizer": ("step", "zero_grad"),
    "scheduler": ("step",),
    "scaler": ("update",),
    "module": ("train", "eval", "zero_grad"),
    "tensor": ("backward",),
}
"""By what has them, methods that act without arguments: named alone, they do nothing."""

ACTING: Final = frozenset(name for methods in ACTS.values() for name in methods)
"""The names of all of these."""

MODULE_CHANGES: Final = frozenset(["to", "cuda", "cpu", "float", "double", "half", "bfloat16", "train", "eval"])
"""Methods of modules that change them, and return them."""

CONVERTING: Final = frozenset(["cpu", "cuda", "numpy"])
"""Methods of tensors that arrays and views of memory have not."""

CLEARING: Final = frozenset(["zero_grad", "grad"])
"""Words without which no code clears a gradient."""

_FREEZING: Final = re.compile(
    r"freeze|\w_requires_grad|['\"]requires_grad|requires_grad_(?!\(\s*(?:True\s*)?\))"
    r"|requires_grad\s*=(?!=)(?!\s*True[ \t]*(?:[,)\]}\r\n;#]|$))"
)
"""What stands in all code that freezes parameters."""


def may_freeze(text: str) -> bool:
    """Whether a piece of code may set ``requires_grad`` of parameters to anything but True."""
    return bool(_FREEZING.search(text))


DISTRIBUTIONS: Final = "torch.distributions."
"""Where the classes of distributions stand."""

_NO_DISTRIBUTIONS: Final = ("Transform", "Constraint")


def builds_distribution(name: str) -> bool:
    """Whether calling ``name`` (canonical) builds a distribution."""
    last = name.rpartition(".")[2]
    is_class = name.startswith(DISTRIBUTIONS) and last[:1].isupper() and ".transforms." not in name
    return is_class and not last.endswith(_NO_DISTRIBUTIONS)


DIVERGENCES: Final = names("torch.distributions", "kl_divergence kl.kl_divergence")
"""Functions of two distributions through whose results gradients flow."""

INDEX_DISTRIBUTIONS: Final = names("torch.distributions", "Categorical categorical.Categorical")
"""Distributions of which integers are drawn."""

DISTRIBUTION_MEASURES: Final = names("", "rsample rsample_n log_prob entropy perplexity cdf icdf log_cdf kl_divergence")
"""Methods of distributions through whose results gradients flow."""

DISTRIBUTION_DRAWS: Final = names("", "sample sample_n enumerate_support")
"""Methods of distributions whose results carry no graph."""

DISTRIBUTION_STATISTICS: Final = names(
    "", "mean mode variance stddev probs logits loc scale rate concentration covariance_matrix scale_tril df"
)
"""Attributes of distributions that are computed from what they were built from."""

DISTRIBUTION_FACTS: Final = names(
    "", "batch_shape event_shape has_rsample has_enumerate_support support arg_constraints"
)
"""Attributes of distributions that are no tensors."""

PACKED_FIELDS: Final = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
"""The fields of a ``PackedSequence``."""

TRAINING_STEPS: Final = frozenset(name for hosted in _HOSTED.values() for name in hosted.training)
"""The methods of modules whose loop a library runs that return the loss of a batch."""

BATCH_STEPS: Final = TRAINING_STEPS.union(*(hosted.evaluation for hosted in _HOSTED.values()))
"""Those that are given batches."""

CONFIGURING: Final = frozenset(name for hosted in _HOSTED.values() for name in hosted.configures)
"""Those that return the optimizers."""

NO_FORWARD: Final = TRAINING_STEPS | CONFIGURING | {"__init__", "reset_parameters", "fit", "train_step", "step"}
"""Methods of modules that do something else than to compute their output."""

CONFIGURED: Final = frozenset(name for hosted in _HOSTED.values() for name in hosted.optimizers)
"""The methods of the library that give these."""

BY_HAND: Final = frozenset(name for hosted in _HOSTED.values() for name in hosted.by_hand)
"""The attributes that say that such a module may make the backward passes itself."""

_WITHOUT_GRAD: Final = frozenset(name for hosted in _HOSTED.values() for name in hosted.without_grad)
_WITH_GRAD: Final = tuple(beginning for hosted in _HOSTED.values() for beginning in hosted.with_grad)

RANDOM: Final = names("torch", "rand rand_like randn randn_like normal")
"""Functions that make tensors of random numbers."""

RANDOM_FILLS: Final = frozenset(
    ["normal_", "uniform_", "trunc_normal_", "orthogonal_", "sparse_"]
    + [f"{kind}_{values}_" for kind in ("xavier", "kaiming") for values in ("normal", "uniform")]
)
"""Methods and initialisers that fill a tensor with random numbers."""

OVERWRITING: Final = RANDOM_FILLS | {"copy_", "fill_", "zero_"}
"""Methods that leave nothing of what a tensor held before."""

SCALING: Final = frozenset(["*=", "/=", "clamp_", "clip_", "div_", "mul_"])
"""Changes in place that make no gradient of one that was cleared."""

STORING: Final = frozenset(["copy_", "[]=", "[:]=", "index_copy_", "masked_scatter_"])
"""Changes in place that put values of another tensor into some of the places."""

MASKING: Final = frozenset(["masked_fill", "masked_fill_", "fill_", "index_fill_"])
"""Methods that give some of the places a number."""

SYMBOLS: Final[dict[str, str]] = {
    **dict.fromkeys(("add", "add_", "+="), "+"),
    **dict.fromkeys(("sub", "subtract", "sub_", "-="), "-"),
    **dict.fromkeys(("mul", "multiply", "mul_", "*="), "*"),
    **dict.fromkeys(("div", "divide", "true_divide", "div_", "/="), "/"),
    **dict.fromkeys(("pow", "pow_"), "**"),
    "negative": "neg",
}
"""The operator that a function, a method or a change in place stands for."""

EXTREMES: Final = frozenset(["max", "min", "maximum", "minimum", "amax", "amin", "fmax", "fmin"])
"""Functions and methods that give the largest or smallest of several values."""

DOWNLOADS: Final[dict[str, int]] = _LIBRARIES.table("downloads")
"""Functions that download to a path, with the position of the path."""

UNPICKLES: Final = _LIBRARIES.names("unpickles")
"""Functions that give what some other program has made, as it was: a model may be frozen."""

FOREIGN_PATHS: Final = _LIBRARIES.names("foreign_paths")
"""Functions that return the path of something from elsewhere."""


def is_called_without_grad(role: Role, method: str) -> bool:
    """Whether a library disables gradients where it calls a method of an object."""
    return role is HOSTED and method in _WITHOUT_GRAD


def is_called_with_grad(method: str) -> bool:
    """Whether a library calls a method of a callback, or of a module that it trains, while gradients are enabled."""
    return method.startswith(_WITH_GRAD)


BACKWARD_HOOKS: Final = frozenset(
    ["register_backward_hook", "register_full_backward_hook", "register_full_backward_pre_hook"]
)
"""Methods of modules that register what is called with gradients."""

HOOKING: Final = BACKWARD_HOOKS | {"register_forward_hook", "register_forward_pre_hook"}
"""Methods of modules that register a hook, and return what removes it."""

_METHODS_OF_HOSTED: Final = HOSTED_BACKWARD.union(CONFIGURED, *(hosted.methods for hosted in _HOSTED.values()))

METHODS_OF_MODULES: Final = (
    BACKWARD_HOOKS
    | _METHODS_OF_HOSTED
    | names(
        "",
        "parameters named_parameters modules named_modules children named_children buffers named_buffers state_dict",
        "load_state_dict train eval to cuda cpu half float double bfloat16 type apply zero_grad requires_grad_",
        "register_buffer register_parameter add_module register_module register_forward_hook share_memory forward",
        "register_forward_pre_hook get_submodule get_parameter pop append extend insert items keys values",
        "compile no_sync __init__ __call__ _get_name extra_repr",
        "save_pretrained gradient_checkpointing_enable",
    )
)
"""Methods that the tracer takes for those of a module, where nothing says otherwise."""


PROPORTIONAL: Final = names("torch.optim", "ASGD SGD") | known().names("proportional")
"""Optimizers that go as far as the gradients are large; the others divide by their size."""

LENGTHS: Final = frozenset(
    ["T_0", "T_max", "max_steps", "num_training_steps", "step_size_up", "steps_per_epoch", "total_iters", "total_steps"]
)
"""The arguments of schedulers that tell how many steps they have."""

LENGTH_AT: Final[dict[str, int]] = {
    "CosineAnnealingLR": 1,
    "CosineAnnealingWarmRestarts": 1,
    "CyclicLR": 3,
    "OneCycleLR": 2,
    "PolynomialLR": 1,
    **{name.rpartition(".")[2]: place for name, place in known().table("schedule_lengths").items()},
}
"""Where the number of its steps stands among the arguments of a scheduler, if it is not told by name."""


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
