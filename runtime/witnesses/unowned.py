"""Parameters that get gradients, and are owned by no optimizer, beside others of their model that are.

They are looked for at a few of the steps of each optimizer, where parameters that were frozen have gradients, and once
more where it comes to an end: whoever looks at everything there is finds optimizers that nobody has built or stepped
while the guard was watching.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from gradlint.events import UnownedTrained

from ..frames import FrameSite
from ..records.checksums import Content, is_readable, reader
from ..records.frozen import Frozen
from ..records.living import Marked

if TYPE_CHECKING:
    from ..calls import BuildCall, ForwardCall, PlaceCall, StepCall, SwapCall
    from ..judging import Judge
    from ..records.modules import KnownModules

_SEVERAL = 2  #: parts of a module that tell that its optimizer is not that of one part alone
_FIRST = 3  #: the steps of an optimizer before which it is looked at, and then at each that is twice as far


class _Stepped:
    """An optimizer that steps."""

    __slots__ = ("again", "built_at", "moves", "optimizer", "passed", "stepped_at", "steps", "told")

    def __init__(self, optimizer: Optimizer, built_at: FrameSite | None) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.built_at = built_at
        self.stepped_at: FrameSite | None = None
        self.steps = 0
        self.moves: dict[int, tuple[int, Content | None]] = {}  #: by the ids of those that are missed, what they held
        self.again: set[int] = set()  #: ids of thawed ones that were missed at the last step
        self.passed: set[int] = set()  #: of those that are not, or not of this optimizer
        self.told = False


class UnownedParameters:
    """Reports optimizers beside which parameters are trained in vain."""

    def __init__(self, judge: Judge, modules: KnownModules, optimizers: Iterable[Optimizer]) -> None:
        self._judge = judge
        self._modules = modules
        self._stepped = {id(optimizer): _Stepped(optimizer, None) for optimizer in optimizers}
        self._frozen = Frozen()
        self._placed = Marked()  #: parameters that took their place late: others tell of those
        self._look_for_frozen()

    # --- what is told by the interception

    def optimizer_built(self, call: BuildCall) -> None:
        self._stepped = {key: one for key, one in self._stepped.items() if one.optimizer() is not None}
        self._stepped[id(call.optimizer)] = _Stepped(call.optimizer, call.site)
        self._look_for_frozen()

    def part_placed(self, call: PlaceCall) -> None:
        if not self._stepped:
            return
        part = [call.part] if isinstance(call.part, nn.Parameter) else list(call.part.parameters())
        for one in part:
            self._placed.add(one)

    def module_met(self, call: ForwardCall) -> None:
        self._frozen.add(call.module.parameters())

    def step_begins(self, call: StepCall) -> None:
        one = self._stepped.get(id(call.optimizer))
        if one is None or one.optimizer() is not call.optimizer:
            one = self._stepped[id(call.optimizer)] = _Stepped(call.optimizer, None)
        one.steps += 1
        one.stepped_at = call.site
        if one.told:
            return
        again, one.again = one.again, set()
        found = self._frozen.thawed(one.steps, one.passed)
        thawed = {id(parameter) for parameter in found} - again
        if thawed:
            self._meet_their_model(found, call.optimizer)
        if thawed or again or one.steps <= _FIRST or not one.steps & (one.steps - 1):
            self._look(one, call.optimizer)
            one.again = thawed & one.moves.keys()
            one.passed |= again | (thawed - one.again)

    def finish(self, _: FrameSite) -> None:
        """The guard ends."""
        for one in list(self._stepped.values()):
            optimizer = one.optimizer()
            if optimizer is not None and one.steps > 1 and not one.told:
                self._look(one, optimizer)

    def tensors_swapped(self, call: SwapCall) -> None:
        """Parameters become others."""
        self._frozen.forget(call.tensors)
        for tensor in call.tensors:
            self._placed.discard(tensor)

    # --- what is told by the watch over functions

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do where ``requires_grad`` is set."""
        setter = torch.Tensor.requires_grad.__set__  # type: ignore[attr-defined]
        return {setter: self._asked, torch.Tensor.requires_grad_: self._asked}

    def after(self) -> dict[Any, Callable[..., None]]:
        """Nothing."""
        return {}

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if args and isinstance(args[0], nn.Parameter):
            self._frozen.add(args[:1])

    # --- looking

    def _look_for_frozen(self) -> None:
        for module in self._modules:
            self._frozen.add(module.parameters())

    def _meet_their_model(self, thawed: Iterable[torch.Tensor], optimizer: Optimizer) -> None:
        """Parts of a model may be called one by one, and the model never; it is what they have in common."""
        mine, theirs = _ids([optimizer]), set(map(id, thawed))
        for module in () if theirs <= mine or gc.get_freeze_count() else _living(nn.Module):
            held = {id(parameter) for parameter in module.parameters()}
            if not held.isdisjoint(mine) and not held.isdisjoint(theirs):
                self._modules.add(module)
                return

    def _look(self, one: _Stepped, optimizer: Optimizer) -> None:
        mine = _ids([optimizer])
        missed: dict[int, torch.Tensor] = {}
        for module in self._modules:
            parameters = list(module.parameters())
            if any(id(parameter) in mine for parameter in parameters):
                missed.update((id(p), p) for p in parameters if id(p) not in mine and self._is_missed(p))
        before, one.moves = one.moves, {}
        if not missed or gc.get_freeze_count():  # what is frozen is not to be found
            return
        owned = _ids(_living(Optimizer))
        missed = {key: p for key, p in missed.items() if key not in owned}
        thawed = [p for p in missed.values() if p in self._frozen]
        lost = thawed or [missed[key] for module in self._modules for key in _left_out(module, mine, owned, missed)]
        one.moves = {id(p): (p._version, _content(p)) for p in lost}
        still = [p for p in lost if (held := before.get(id(p))) is not None and _is_same(held, one.moves[id(p)])]
        if still:
            self._tell(one, optimizer, still, bool(thawed))

    def _is_missed(self, parameter: torch.Tensor) -> bool:
        return parameter.requires_grad and parameter.grad is not None and parameter not in self._placed

    def _tell(self, one: _Stepped, optimizer: Optimizer, lost: list[torch.Tensor], thawed: bool) -> None:
        site = one.built_at or one.stepped_at
        if site is None:
            return
        one.told = True
        event = UnownedTrained(
            site=site,
            optimizer=type(optimizer).__name__,
            parameters=tuple(self._modules.names(lost)),
            thawed=thawed,
            stepped_at=one.stepped_at if one.built_at is not None else None,
        )
        self._judge.send(event)


def _content(parameter: torch.Tensor) -> Content | None:
    """What it holds: who moves it by hand may do so through ``.data``, which no version shows."""
    plain = parameter.detach()
    return reader(plain)() if is_readable(plain) else None


def _is_same(held: tuple[int, Content | None], holds: tuple[int, Content | None]) -> bool:
    return held[0] == holds[0] and bool(held[1] == holds[1])


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


def _ids(optimizers: Iterable[Optimizer]) -> set[int]:
    return {id(one) for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]}


def _living(kind: type) -> list[Any]:
    """All objects of a class that were initialised.  This looks at everything there is: on suspicion only."""
    begun = "param_groups" if kind is Optimizer else "_modules"
    return [one for one in gc.get_objects() if issubclass(type(one), kind) and begun in vars(one)]
