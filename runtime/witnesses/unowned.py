"""Parameters that get gradients, and are owned by no optimizer, beside others of their model that are.

They are looked for at a few of the steps of each optimizer, and once more where it comes to an end: whoever looks at
everything there is finds optimizers that nobody has built or stepped while the guard was watching.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from gradlint.events import UnownedTrained

from ..frames import FrameSite

if TYPE_CHECKING:
    from ..calls import BuildCall, ForwardCall, PlaceCall, StepCall, SwapCall
    from ..judging import Judge
    from ..records.modules import KnownModules

_SEVERAL = 2  #: parts of a module that tell that its optimizer is not that of one part alone
_FIRST = 3  #: the steps of an optimizer before which it is looked at, and then at each that is twice as far


class _Stepped:
    """An optimizer that steps."""

    __slots__ = ("built_at", "moves", "optimizer", "stepped_at", "steps", "told")

    def __init__(self, optimizer: Optimizer, built_at: FrameSite | None) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.built_at = built_at
        self.stepped_at: FrameSite | None = None
        self.steps = 0
        self.moves: dict[int, int] = {}  #: by the ids of parameters that are missed, how often they had been changed
        self.told = False


class UnownedParameters:
    """Reports optimizers beside which parameters are trained in vain."""

    def __init__(self, judge: Judge, modules: KnownModules, optimizers: Iterable[Optimizer]) -> None:
        self._judge = judge
        self._modules = modules
        self._stepped = {id(optimizer): _Stepped(optimizer, None) for optimizer in optimizers}
        self._frozen: dict[int, weakref.ref[torch.Tensor]] = {}  #: parameters that were seen frozen
        self._placed: dict[int, weakref.ref[torch.Tensor]] = {}  #: that took their place late: others tell of those

    # --- what is told by the interception

    def optimizer_built(self, call: BuildCall) -> None:
        self._stepped = {key: one for key, one in self._stepped.items() if one.optimizer() is not None}
        self._stepped[id(call.optimizer)] = _Stepped(call.optimizer, call.site)

    def part_placed(self, call: PlaceCall) -> None:
        if self._stepped:
            part = [call.part] if isinstance(call.part, nn.Parameter) else list(call.part.parameters())
            self._placed.update((id(one), weakref.ref(one)) for one in part)

    def module_met(self, call: ForwardCall) -> None:
        self._freeze(one for one in call.module.parameters() if not one.requires_grad)

    def step_begins(self, call: StepCall) -> None:
        one = self._stepped.get(id(call.optimizer))
        if one is None or one.optimizer() is not call.optimizer:
            one = self._stepped[id(call.optimizer)] = _Stepped(call.optimizer, None)
        one.steps += 1
        one.stepped_at = call.site
        if not one.told and (one.steps <= _FIRST or not one.steps & (one.steps - 1)):
            self._look(one, call.optimizer)

    def finish(self, _: FrameSite) -> None:
        """The guard ends."""
        for one in list(self._stepped.values()):
            optimizer = one.optimizer()
            if optimizer is not None and one.steps > 1 and not one.told:
                self._look(one, optimizer)

    def tensors_swapped(self, call: SwapCall) -> None:
        """Parameters become others."""
        for tensor in call.tensors:
            self._frozen.pop(id(tensor), None)
            self._placed.pop(id(tensor), None)

    # --- what is told by the watch over functions

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do where ``requires_grad`` is set."""
        setter = torch.Tensor.requires_grad.__set__  # type: ignore[attr-defined]
        return {setter: self._asked, torch.Tensor.requires_grad_: self._asked}

    def after(self) -> dict[Any, Callable[..., None]]:
        """Nothing."""
        return {}

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if args and isinstance(args[0], nn.Parameter) and not args[0].requires_grad:
            self._freeze([args[0]])

    # --- looking

    def _freeze(self, parameters: Iterable[torch.Tensor]) -> None:
        self._frozen.update((id(one), weakref.ref(one)) for one in parameters)

    def _look(self, one: _Stepped, optimizer: Optimizer) -> None:
        mine = _ids([optimizer])
        missed: dict[int, torch.Tensor] = {}
        for module in self._modules:
            parameters = list(module.parameters())
            if any(id(parameter) in mine for parameter in parameters):
                missed.update((id(p), p) for p in parameters if id(p) not in mine and self._is_missed(p))
        if not missed or gc.get_freeze_count():  # what is frozen is not to be found
            return
        owned = _ids(_living())
        missed = {key: p for key, p in missed.items() if key not in owned}
        still = {key: p for key, p in missed.items() if one.moves.get(key) == p._version}
        one.moves = {key: p._version for key, p in missed.items()}
        if still:
            self._tell(one, optimizer, mine, owned, still)

    def _is_missed(self, parameter: torch.Tensor) -> bool:
        return parameter.requires_grad and parameter.grad is not None and not _holds(self._placed, parameter)

    def _tell(
        self, one: _Stepped, optimizer: Optimizer, mine: set[int], owned: set[int], missed: dict[int, torch.Tensor]
    ) -> None:
        site = one.built_at or one.stepped_at
        thawed = [parameter for parameter in missed.values() if _holds(self._frozen, parameter)]
        lost = thawed or [missed[key] for module in self._modules for key in _left_out(module, mine, owned, missed)]
        if site is None or not lost:
            return
        one.told = True
        event = UnownedTrained(
            site=site,
            optimizer=type(optimizer).__name__,
            parameters=tuple(self._modules.names(lost)),
            thawed=bool(thawed),
            stepped_at=one.stepped_at if one.built_at is not None else None,
        )
        self._judge.send(event)


def _left_out(top: nn.Module, mine: set[int], owned: set[int], missed: dict[int, torch.Tensor]) -> list[int]:
    """The ids of those missed in a module, or in one below it, of which an optimizer owns most parts as a whole."""
    for module in top.modules():
        children = [
            part for child in module.children() if (part := {id(parameter) for parameter in child.parameters()})
        ]
        own = [place for place, part in enumerate(children) if part <= mine]
        if len(own) < _SEVERAL or any(part & owned and not part <= owned for part in children):
            continue
        behind = [part for part in children[own[0] :] if not part & owned]
        behind += [{id(parameter)} for parameter in module.parameters(recurse=False) if id(parameter) not in owned]
        if 2 * len(behind) <= len(own) and (lost := missed.keys() & set().union(*behind)):
            return [key for key in missed if key in lost]
    return []


def _holds(known: dict[int, weakref.ref[torch.Tensor]], parameter: torch.Tensor) -> bool:
    reference = known.get(id(parameter))
    return reference is not None and reference() is parameter


def _ids(optimizers: Iterable[Optimizer]) -> set[int]:
    return {id(one) for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]}


def _living() -> Iterator[Optimizer]:
    """All optimizers.  This looks at everything there is: on suspicion only."""
    return (
        thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer) and hasattr(thing, "param_groups")
    )
