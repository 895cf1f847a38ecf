"""One name for each thing of torch: the spellings that reach it, and the table's own."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from gradlint.static.knowledge.library import known

#: Modules that hold what a shorter name re-exports: ``torch.nn.modules.loss.CrossEntropyLoss``.
_INNER_MODULES: Final = {
    "torch.nn.modules": "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm "
    "lazy linear loss module normalization padding pixelshuffle pooling rnn sparse transformer upsampling utils",
    "torch.optim": "adadelta adafactor adagrad adam adamax adamw asgd lbfgs nadam optimizer radam rmsprop rprop sgd sparse_adam",
    "torch.nn.utils": "clip_grad",
    "torch.utils.data": "dataset dataloader",
}

ALIASES: Final[dict[str, str]] = {
    **{f"{outer}.{inner}": outer for outer, inners in _INNER_MODULES.items() for inner in inners.split()},
    **{f"{outer}.{inner}": outer for outer, inners in known().spaces("inner").items() for inner in inners},
    **known().table("aliases"),
    **known().spaces("same_as"),
    "torch.nn.modules": "torch.nn",
    "torch.nn.parameter": "torch.nn",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
    "torch.functional": "torch",
    "torch.vmap": "torch.func.vmap",
    "torch.spmm": "torch.mm",
    "torch.dsmm": "torch.mm",
    "torch.autograd.grad_mode": "torch",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.enable_grad": "torch.enable_grad",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.autograd.variable": "torch.autograd",
    "torch.autograd.function.Function": "torch.autograd.Function",
    "torch.amp.autocast_mode": "torch.amp",
    "torch.amp.grad_scaler": "torch.amp",
    "torch.cuda.amp.autocast_mode": "torch.cuda.amp",
    "torch.cuda.amp.grad_scaler": "torch.cuda.amp",
    "torch.nn.parallel.distributed": "torch.nn.parallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.serialization": "torch",
    "torch.random": "torch",
}
"""Names, and prefixes of names, to the spelling the table uses."""


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """The spelling of a dotted name that the table uses; a name it does not know is returned unchanged."""
    for _ in range(4):  # an alias may lead to another
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            target = ALIASES.get(".".join(parts[:length]))
            if target is not None:
                renamed = ".".join((target, *parts[length:]))
                break
        else:
            return name
        if renamed == name:
            return name
        name = renamed
    return name
