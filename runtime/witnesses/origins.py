"""Where the first NaN or infinity comes from, found while the parameters are what they were.

After each backward pass one number of the gradients is read, in main memory: what is not finite soon reaches them all.
The calls of modules that led to the pass are then made again, on copies, once in the life of a guard.  Where nothing is
found in them, the operations that came after them are named, if they are few.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

from gradlint.events import Origin

from ..records.replays import Held, copied_arguments, first_nonfinite, operation_of
from ..records.walks import below
from ..roster import Resting
from ..tensors import holds_values

if TYPE_CHECKING:
    from ..calls import BackwardCall, ForwardCall, ScalerCall, StepCall, SwapCall
    from ..frames import FrameSite

number_at = ctypes.c_float.from_address
MANY = 4  #: calls of modules that are held until the step
SHORT = 1e-3  #: seconds that a step takes, below which one in ten is looked at
FEW = 12  #: operations after the last of them, of which is told
#: Operations that give no number for numbers, or whose gradient is none.
_DANGEROUS = frozenset(
    {"div", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "reciprocal", "exp", "expm1", "exp2", "std", "var"}
    | {"acos", "asin", "atanh", "acosh", "tan", "linalg_vector_norm", "norm", "prod", "cumprod", "xlogy", "logit"}
    | {
        "linalg_inv_ex",
        "linalg_svd",
        "linalg_eigh",
        "linalg_cholesky_ex",
        "linalg_solve_ex",
        "logsumexp",
        "sinh",
        "cosh",
    }
)
_SPOILT = "parameters are NaN or infinite before this step: an earlier one, that was not looked at, made them so"
_OVERFLOWING = frozenset({"exp", "expm1", "exp2", "sinh", "tan", "logsumexp"})  #: in the forward pass, if ever


class Origins(Resting):
    """Finds out where gradients that are NaN or infinite begin.

    Args:
        unwatched: what runs in it is told to no guard.
        always: look at every step, however short steps are.
    """

    RESTS_FROM = ("forward_ended", "backward_ended", "step_ended", "scaler_called")  # when it has been found out

    def __init__(self, unwatched: Callable[[], AbstractContextManager[object]], always: bool) -> None:
        self._unwatched = unwatched
        self._always = always
        self._paused = False  #: for a few steps: less than to rest, which is for long
        self._calls: deque[tuple[Any, ...]] = deque(maxlen=MANY)  # the fields of :class:`Held`
        self._probed: Callable[[], torch.nn.Module | None] = _nothing
        self._probe: Callable[[], torch.Tensor | None] = _nothing  #: a parameter of it
        self._walked = False  #: the graph of the calls
        self.suspected = False  #: gradients are known to be NaN or infinite
        self.found: Origin | None = None  #: where those begin that are there, as far as it is known

    def forward_ended(self, call: ForwardCall) -> None:
        if self._paused:
            return
        tensors = call.tensors
        if not tensors or call.recomputed:
            return
        output = tensors[0]
        if not output.requires_grad or not output.is_cpu:
            return
        if self._walked:
            self._calls.clear()
            self._walked = False
        args, kwargs, node = call.args, call.kwargs, output.grad_fn
        if kwargs or len(args) != 1 or type(args[0]) is not torch.Tensor or args[0].requires_grad:
            try:
                args, kwargs = copied_arguments(args), copied_arguments(kwargs)
            except TypeError:
                return
        cast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        self._calls.append((call.module, args, kwargs, cast, 0 if node is None else node._sequence_nr()))

    def backward_ended(self, call: BackwardCall) -> None:
        if self._paused or not call.accumulates or call.error is not None or self.suspected or not self._calls:
            return
        self._walked = not call.retain
        module = self._calls[0][0]
        if self._probed() is not module:
            self._look_at(module)
        probe = self._probe()
        grad = None if probe is None else probe.grad
        if grad is None or grad.dtype is not torch.float32 or not grad.is_cpu or not holds_values(grad):
            return
        number = number_at(grad.data_ptr()).value
        if number - number != 0.0:  # NaN or infinite
            self.explain(call.roots)

    def step_ended(self, _: StepCall) -> None:
        """The parameters are others now; models, and what they were given, are free to go."""
        if self._walked:
            self._calls.clear()

    def _look_at(self, module: torch.nn.Module) -> None:
        """Read the gradient of a parameter of this module from now on."""
        first = next((one for one in module.parameters() if one.requires_grad and one.numel()), None)
        self._probed, self._probe = weakref.ref(module), _nothing if first is None else weakref.ref(first)

    def tensors_swapped(self, _: SwapCall) -> None:
        """Refer to no tensor."""
        self._probed = self._probe = _nothing

    def scaler_called(self, _: ScalerCall) -> None:
        """A scaled loss overflows on purpose."""
        self.end()

    def finish(self, _: FrameSite) -> None:
        """Hold nothing any longer."""
        self.end()

    def explain(self, roots: tuple[Any, ...] = ()) -> None:
        """Look for the origin of gradients that are NaN or infinite.

        Args:
            roots: of their pass, if it has only just ended.
        """
        if self.suspected or self._rests:
            return
        self.suspected = True
        calls = [Held(*call) for call in self._calls]
        self._calls.clear()
        if _is_shared() or torch._C._len_torch_dispatch_stack():
            return
        with torch.no_grad():
            broken = next((one for one in calls if not _are_finite(one.module)), None)
            if broken is not None:
                self.found = Origin(what=_SPOILT)
                return
            if calls and not _are_numbers(calls[0]):
                name = type(calls[0].module).__name__
                self.found = Origin(what=f"what {name} is given is NaN already")
                return
        with self._unwatched(), torch.enable_grad():
            first = first_nonfinite(calls)
        if first is not None:
            way = "in the backward pass of" if first.backward else "in"
            layer = f" of {first.layer}" if first.layer else ""
            self.found = Origin(what=f"the first comes up {way} {first.operation}{layer}", site=first.site)
        else:
            self._name_what_follows(roots, calls)

    def _name_what_follows(self, roots: tuple[Any, ...], calls: list[Held]) -> None:
        last = min((one.last for one in calls), default=-1)
        nodes = {node._sequence_nr(): node for node in below(roots)}
        names = [operation_of(nodes[number]) for number in sorted(nodes) if number > last]
        loss = next((root for root in roots if isinstance(root, torch.Tensor) and holds_values(root)), None)
        finite = loss is not None and bool(loss.detach().isfinite().all())
        among = _DANGEROUS - _OVERFLOWING if finite else _DANGEROUS
        dangerous = list(dict.fromkeys(name for name in names if name in among))
        if not dangerous or len(names) > FEW:
            return
        behind = f" after {type(calls[0].module).__name__}" if calls else ""
        way = "in the backward pass of" if finite else "in"
        self.found = Origin(what=f"the first comes up {way} {' or '.join(dangerous)}{behind}")

    def pause(self, seconds: float) -> None:
        """Let some steps pass, if they are so short that looking at each takes its part of them."""
        if seconds < SHORT and not self._always and not self.suspected:
            self._calls.clear()
            self._paused = True

    def resume(self) -> None:
        """Look at the next step, too."""
        self._paused = False

    def end(self) -> None:
        """Look no more: it has been told, or is not to be."""
        self._calls.clear()
        self.suspected, self.found = False, None
        self.rest()


def _nothing() -> None:
    return None


def _are_finite(module: torch.nn.Module) -> bool:
    return all(bool(one.isfinite().all()) for one in module.parameters() if holds_values(one))


def _are_numbers(call: Held) -> bool:
    given: list[Any] = [one for one in (*call.args, *call.kwargs.values()) if isinstance(one, torch.Tensor)]
    return not any(one.is_floating_point() and bool(one.isnan().any()) for one in given)


def _is_shared() -> bool:
    """Whether other processes train along, which a second pass might wait for."""
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return there and torch.distributed.get_world_size() > 1
