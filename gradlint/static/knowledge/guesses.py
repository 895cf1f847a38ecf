"""Guesses by name: what is taken for what because of how it is called, and nothing else.

A name may create a subject, or keep a rule silent; it proves nothing.  All such guesses stand here.
"""

from __future__ import annotations

import re
from typing import Final

OPTIMIZER_NAME: Final = re.compile(
    r"(^|_)(opt|optim|optimi[sz]er|optimi[sz]ers)(_|\d|$|[A-Z])|optimi[sz]er|optim\b|^opt[A-Z_]?|[a-z]Opt(im)?"
)
"""What an optimizer is called."""

OPTIMIZERS_NAME: Final = re.compile(r"(^|_)(opts|optims|optimi[sz]ers)(_|\d|$)|[oO]ptimi[sz]ers|[a-z]Optims")
"""What a list or dict of several optimizers is called; ``options`` are none."""

MODULE_NAME: Final = re.compile(
    r"(^|_)(model|net|network|encoder|decoder|backbone|teacher|student|generator|discriminator|critic|actor|policy|"
    r"head|trunk|classifier|regressor|embedder|extractor|projector|denoiser|tower|mlp|rnn|lstm|gru|cell|lin|linear|fc|"
    r"conv|layer|block|cnn|gnn|gcn|vit|bert|gpt|lm|llm|vae|autoencoder|transformer|[a-z]+net)"
    r"(_[a-z0-9]{0,2}|\d*)$|^(net|model)[A-Z_]"
)
"""What a module is called."""

LOSS_NAME: Final = re.compile(r"(^|_)(criterion|criteria|objective|loss|loss_?(fn|func|function))$")
"""What a loss function is called."""

NO_MODULE_NAME: Final = re.compile(
    r"trainer|engine|learner|agent|runner|algo|estimator|pipeline|experiment|solver|self"
)
"""What is put into a mode but is called so is no module: it holds some."""

DATA_NAME: Final = re.compile(r"loader|dataset|(^|_)(data|batch|batches|dl|iter|it)(_|\d|$)")
"""What data, or what gives it, is called."""

HOLDER_NAME: Final = re.compile(
    r"data|loader|batch|graph|pack|mnist|cifar|[a-z_]sets?(_|\d|$)|(^|_)(dl|ds|df|set|train|test|val|valid|split|msg|"
    r"message|resp|response|reply|request|args|opts?|cfg|conf|config|buffer|memory|sparse|csr|coo|frame|field|file|store|"
    r"node|mesh)s?(_|\d|$)",
    re.IGNORECASE,
)
"""What is called so may be no tensor but hold values, tensors among them, as its ``data``."""

DEVICE_NAME: Final = re.compile(r"(^|_)device$|^dev$")
"""What a device that a program chose is called."""

EPSILON_NAME: Final = re.compile(r"(^|_)(eps(ilon)?|tiny)(_|\d|$)", re.IGNORECASE)
"""What a small number that keeps a logarithm finite is called."""

MODE_METHOD_NAME: Final = re.compile(r"train|(^|_)mode(_|$)")
"""What methods of a project that may set the mode of a model are called."""

MODEL_PART_NAME: Final = re.compile(
    r"^forward(_|$)|(^|_)(features?|backbone|encoder|decoder|embeddings?|embedder|extractor|head|neck|trunk|stem|body|fc|"
    r"conv|layers?|blocks?)\d*$"
)
"""What parts of models are called that give what they compute as it is; a verb may stand for what moves its result."""

SCALER_NAME: Final = re.compile(r"(^|_)(grad_?|amp_?|loss_?)?scaler$")
"""What a gradient scaler is called."""

HANDLER_NAME: Final = re.compile(r"(^|_)(accelerator|fabric)$", re.IGNORECASE)
"""What objects of libraries that prepare models and make backward passes are called."""

CALLING_METHODS: Final = frozenset(
    [
        "map",
        "imap",
        "imap_unordered",
        "map_async",
        "starmap",
        "submit",
        "apply",
        "apply_async",
        "run_in_executor",
        "after",
        "after_idle",
        "call_later",
        "call_soon",
        "add_job",
        "bind",
        "connect",
        "add_callback",
        "on_click",
    ]
)
"""Methods of executors, event loops, windows and buttons that call the functions they are given."""

ENUMERATE: Final = "enumerate"
"""What gives the items of something with their numbers is called."""

RANGES_NAME: Final = frozenset(["range", "trange"])
"""What gives the numbers of the iterations of a loop, and nothing else, is called."""

INTEGERS_NAME: Final = re.compile(r"(^|_)(labels?|ids?|index|indices|classes|counts?|lengths?)$")
"""What outputs of models that hold integers, and so carry no graph, are called."""

PREDICTIONS_NAME: Final = re.compile(r"(^|_)(logits|embeds|last_hidden_state|pooler_output)$")
"""What outputs that models compute with their weights are called."""

MODULE_CLASS_NAME: Final = re.compile(
    r"(?:For[A-Z]\w*|Module|Model|Net|Network|Encoder|Decoder|Backbone|Head|Layer|Block|Attention|Embeddings?)$"
)
"""What classes of libraries that are modules are called."""

CLASS_NAME: Final = re.compile(r"_*[A-Z]\w*[a-z]")
"""What a class is called."""

MODE_WORDS: Final = ("training", "train", "is_train", "eval", "is_training", "istrain", "mc_dropout", "deterministic")
"""What flags that ask for training or evaluation mode are called."""

DEVICE_CONDITION: Final = re.compile(r"cuda|gpu|cpu|device", re.IGNORECASE)
"""What names in conditions are called that ask where tensors are."""


_FLAG: Final = "requires_grad"
_FLAG_SLIPS: Final = frozenset(
    ["require_grads", "required_grad", "requires_gradient", "requires_gradients", "require_gradient"]
)


def is_misspelt(name: str) -> bool:
    """Whether a name is one slip away from ``requires_grad``: a letter missing, too many, another, or two exchanged."""
    if name == _FLAG or abs(len(name) - len(_FLAG)) > 1:
        return name in _FLAG_SLIPS
    if name in _FLAG_SLIPS or name.replace("_", "").lower() == _FLAG.replace("_", ""):
        return True
    begin = next(
        (i for i, (one, other) in enumerate(zip(name, _FLAG, strict=False)) if one != other), min(len(name), len(_FLAG))
    )
    given, meant = name[begin:], _FLAG[begin:]
    swapped = given[:2] == meant[1::-1] and given[2:] == meant[2:]
    return swapped or given[1:] == meant or given == meant[1:] or given[1:] == meant[1:]
