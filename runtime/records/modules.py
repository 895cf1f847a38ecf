"""The modules a guard knows: those it was given, and the outermost ones it has seen called; all held weakly."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd


class KnownModules:
    """Names parameters, and knows which modules behave differently in training and evaluation."""

    def __init__(self) -> None:
        self._modules: dict[int, weakref.ref[nn.Module]] = {}
        self._met: dict[int, weakref.ref[nn.Module]] = {}

    def meet(self, module: nn.Module) -> bool:
        """Know ``module`` from now on; whether it is called for the first time."""
        met = self._met.get(id(module))
        if met is not None and met() is module:
            return False
        self._met = {key: one for key, one in self._met.items() if one() is not None}
        self._met[id(module)] = weakref.ref(module)
        self.add(module)
        return True

    def add(self, module: nn.Module) -> None:
        """Know ``module`` from now on."""
        known = self._modules.get(id(module))
        if known is None or known() is not module:
            self._modules[id(module)] = weakref.ref(module)

    def __iter__(self) -> Iterator[nn.Module]:
        for reference in list(self._modules.values()):
            module = reference()
            if module is not None:
                yield module

    def names(self, parameters: Iterable[torch.Tensor]) -> list[str]:
        """The names of ``parameters`` in the first known module that has them; their shapes where none has.

        Where modules have different parameters of one name, those of later ones begin with the class of their module.
        """
        found = self.by_id()
        return [found.get(id(one), f"a parameter of shape {tuple(one.shape)}") for one in parameters]

    def by_id(self) -> dict[int, str]:
        """The names of all parameters of known modules, as :meth:`names` gives them."""
        found: dict[int, str] = {}
        taken: dict[str, int] = {}
        classes: Counter[str] = Counter()
        for module in self:
            kind = type(module).__name__
            classes[kind] += 1
            prefix = kind if classes[kind] == 1 else f"{kind} {classes[kind]}"
            for name, parameter in module.named_parameters():
                first = taken.setdefault(name, id(parameter))
                found.setdefault(id(parameter), name if first == id(parameter) else f"{prefix}.{name}")
        return found


def depends_on_mode(module: nn.Module) -> bool:
    """Whether ``module`` holds dropout that drops, or normalization that keeps running statistics."""
    return any(map(_depends_on_mode, module.modules()))


def acts_as_trained(module: nn.Module) -> bool:
    """Whether any of these is in training mode: a container of layers of another module has a mode of its own."""
    return any(part.training and _depends_on_mode(part) for part in module.modules())


def _depends_on_mode(part: nn.Module) -> bool:
    return (
        (isinstance(part, _DropoutNd) and part.p > 0)
        or (isinstance(part, _NormBase) and part.track_running_stats)
        or (isinstance(part, (nn.RNNBase, nn.MultiheadAttention)) and part.dropout > 0)
    )
