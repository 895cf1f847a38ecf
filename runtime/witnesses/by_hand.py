"""Parameters that the program moves along their gradients itself, without an optimizer.

An update is a sum or a difference, computed from gradients, that the user's own code writes into a leaf whose gradient
it has read.  What an optimizer owns is left to it: to move it and move it back is part of some methods.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from ..frames import FrameSite, calling_frame
from ..gradients.bundles import version
from ..records.living import Living
from ..tensors import inside_backward
from ..torch_functions import COMPUTES, COUNTS, FILLS, KEEPS, STORES

if TYPE_CHECKING:
    from ..calls import BackwardCall, StepCall, SwapCall
    from ..gradients.history import GradientHistory
    from ..records.writes import Writes

MOVES = frozenset({".add_()", ".sub_()", ".addcdiv_()", ".addcmul_()", ".copy_()", ".data = …", "[…] = …"})
"""What may apply a gradient: not what bounds, scales or fills."""


class _Update:
    """A parameter that was moved, and its gradient at that time."""

    __slots__ = ("grad", "parameter", "site", "version")

    def __init__(self, parameter: torch.Tensor, grad: torch.Tensor, site: FrameSite) -> None:
        self.parameter = weakref.ref(parameter)
        self.grad = weakref.ref(grad)
        self.version = version(grad)
        self.site = site


class UpdatesByHand:
    """Tells the history of gradients about steps that the program makes itself."""

    def __init__(self, history: GradientHistory, writes: Writes) -> None:
        self._history = history
        self._read: dict[int, weakref.ref[torch.Tensor]] = {}  # leaves whose gradient was read since the last pass
        self._updates: dict[int, _Update] = {}  # since the last pass, by the ids of parameters
        self._verdicts: dict[int, tuple[weakref.ref[torch.Tensor], bool]] = {}  # whether an optimizer owns it
        self._computed = Living(_itself)  # gradients, and what was computed from them
        self._numbers = False  # were taken of them, since the last pass
        self._applies = False  # the call under way writes something that was computed from them
        self._stepping = False
        writes.observers.append(self._written)

    def before(self) -> dict[Any, Callable[..., None]]:
        """Nothing needs to be known before the functions run."""
        return {}

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function; to be told before those that know where memory is written."""
        grad: Any = torch.Tensor.grad
        data: Any = torch.Tensor.data
        found: dict[Any, Callable[..., None]] = {
            grad.__get__: self._looked,
            data.__get__: self._derived,
            data.__set__: self._stored,
        }
        for name in f"{COMPUTES} {KEEPS}".split():
            for owner in (torch, torch.Tensor):
                if (function := getattr(owner, name, None)) is not None:
                    found[function] = self._derived
        found |= {getattr(torch.Tensor, name): self._stored for name in STORES.split()}
        found |= {getattr(torch.Tensor, name): self._filled for name in FILLS.split()}
        return found | {getattr(torch.Tensor, name): self._counted for name in COUNTS.split()}

    def backward_begins(self, call: BackwardCall) -> None:
        if call.accumulates:
            self._tell()

    def step_begins(self, _: StepCall) -> None:
        self._stepping = True

    def step_ended(self, _: StepCall) -> None:
        self._stepping = False

    def tensors_swapped(self, _: SwapCall) -> None:
        """Begin anew: parameters and gradients may become others."""
        self._read, self._updates, self._verdicts = {}, {}, {}
        self._computed.clear()

    def finish(self, _: FrameSite) -> None:
        """The guard ends: the last update applies what is there."""
        self._tell()

    def _looked(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        leaf = args[0]
        if result is None or self._stepping or not leaf.is_leaf or id(leaf) in self._read:
            return
        if not inside_backward() and calling_frame(sys._getframe(1)) is not None:
            self._read[id(leaf)] = weakref.ref(leaf)
        if id(leaf) in self._read:
            self._know(result)

    def _know(self, value: torch.Tensor) -> None:
        self._computed.put(value, weakref.ref(value))

    def _is_computed(self, value: Any) -> bool:
        known = self._computed.get(id(value))
        return known is not None and known() is value

    def _derived(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if self._computed and isinstance(result, torch.Tensor) and any(map(self._is_computed, args)):
            self._know(result)

    def _stored(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        from_gradients = bool(self._computed) and any(map(self._is_computed, args[1:]))
        self._applies = from_gradients or self._numbers
        if from_gradients and not args[0].requires_grad:
            self._know(args[0])

    def _filled(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self._computed.pop(id(args[0]), None)

    def _counted(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self._numbers = self._numbers or self._is_computed(args[0])

    def _written(self, tensor: torch.Tensor, how: str, site: FrameSite) -> None:
        read = self._read.get(id(tensor))
        if read is None or read() is not tensor or how not in MOVES or not self._applies:
            return
        if self._stepping or inside_backward():
            return
        if (grad := tensor.grad) is not None and tensor.requires_grad:
            self._updates.setdefault(id(tensor), _Update(tensor, grad, site))

    def _tell(self) -> None:
        updates, self._updates, self._read, self._numbers = self._updates, {}, {}, False
        by_site: dict[FrameSite, list[tuple[torch.Tensor, torch.Tensor, int]]] = {}
        self._judge_owners(updates)
        for key, update in updates.items():
            parameter, grad = update.parameter(), update.grad()
            # A gradient that is gone was dropped after the update: nothing of it can be applied again.
            if parameter is not None and grad is not None and not self._verdicts[key][1]:
                by_site.setdefault(update.site, []).append((parameter, grad, update.version))
        for site, applied in by_site.items():
            self._history.stepped_by_hand(site, applied)

    def _judge_owners(self, updates: dict[int, _Update]) -> None:
        """Whether optimizers own the parameters that were moved: looked for once for each parameter."""
        new = [key for key in updates if key not in self._verdicts or self._verdicts[key][0]() is None]
        if new:
            optimizers = [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]
            groups = [group for optimizer in optimizers for group in optimizer.param_groups]
            owned = {id(parameter) for group in groups for parameter in group["params"]}
            self._verdicts.update((key, (updates[key].parameter, key in owned)) for key in new)


def _itself(reference: weakref.ref[torch.Tensor]) -> weakref.ref[torch.Tensor]:
    return reference
