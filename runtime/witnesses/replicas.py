"""Parameters that are one thing on one rank and another on another, though all of them train the same.

Each rank leaves a few elements of what its optimizers train where rank 0 can read them, before the first step and after
some of the later ones: nobody waits, and no collective is made, so that ranks which are not in step with one another do
not come to stand.  Rank 0 compares what the ranks had after as many steps, by the measure of how far they had come.

What ranks have exchanged between steps, or while a model was called, tells of parameters that are meant to be different
from one another, or to meet only now and then.
"""

from __future__ import annotations

import hashlib
import json
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

from gradlint.events import RanksApart

from ..records.samples import Arriving, read, sample, written
from ..roster import Resting
from ..tensors import holds_values, unseen_by_modes

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from ..calls import BackwardCall, ExchangeCall, Link, RanksCall, StepCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..records.modules import KnownModules

FIRST, LAST = 8, 1024  #: steps after which is looked, and after each twice as many in between
OFTEN = 3  #: looks at which parameters are apart, until it is said before the end
PEERS = 16  #: ranks that rank 0 compares itself with
POLL = 8  #: steps between two looks of rank 0 at what others have left
APART = 0.01  #: of the way that parameters have come, from which on ranks are apart
_PAUSE = 0.02  #: seconds
_UNHEARD = 2.0  #: seconds that rank 0 waits at its end for ranks whose guards it has not heard of
_ALONE = frozenset({"send", "recv", "isend", "irecv", "__new__"})  #: to or from one process; the last makes a P2POp
_IGNORED = "_ddp_params_and_buffers_to_ignore"  #: where a module names what is not to be synchronised
_SHARDED = "_fsdp_flattened"  #: an attribute of parameters that FSDP flattens


@dataclass(slots=True, eq=False)
class _Optimizer:
    """An optimizer, what it trains, and what of that was there after how many steps."""

    reference: weakref.ref[Optimizer]
    key: str  #: the same on all ranks
    parameters: list[weakref.ref[torch.Tensor]]
    names: list[str]
    token: str  #: what ranks have in common that train the same
    precisions: list[float]
    counts: list[int] = field(default_factory=list)  #: elements, of each parameter
    memory: frozenset[int] = frozenset()
    size: int = 0  #: elements in all
    steps: int = 0
    site: FrameSite | None = None
    on_their_way: dict[int, list[Arriving]] = field(default_factory=dict)
    looks: dict[int, torch.Tensor] = field(default_factory=dict)
    compared: set[tuple[int, int]] = field(default_factory=set)  #: ranks, and numbers of steps
    apart: dict[int, set[int]] = field(default_factory=dict)  #: the steps after which a parameter was apart
    ranks: set[int] = field(default_factory=set)  #: those it was apart on
    met: set[int] = field(default_factory=set)  #: parameters that were the same on two ranks, and had moved
    before: bool = False  #: those that are apart were so before the first step
    done: bool = False  #: there is nothing more to find out


class Replicas(Resting):
    """Reports, on rank 0, parameters that differ between ranks."""

    RESTS_FROM = ("step_begins", "step_ended", "backward_begins")  # without other ranks

    def __init__(self, judge: Judge, modules: KnownModules) -> None:
        self._judge = judge
        self._modules = modules
        self._link: Link | None = None
        self._optimizers: dict[int, _Optimizer] = {}
        self._stepped = False  #: since the last backward pass
        self._silent = False  #: what these ranks train is not meant to be the same
        self._has_ended: Callable[[int], bool | None] = lambda _: None
        self._patience = 0.0  #: seconds that rank 0 waits at its end for ranks that have not ended
        self.rest()

    def ranks_met(self, call: RanksCall) -> None:
        """There are other ranks."""
        if call.link.rank <= PEERS and not self._silent:
            self._link, self._has_ended, self._patience = call.link, call.has_ended, call.patience
            self.wake()

    def backward_begins(self, _: BackwardCall) -> None:
        self._stepped = False

    def step_begins(self, call: StepCall) -> None:
        known = self._optimizers.get(id(call.optimizer))
        if (known is None or known.reference() is not call.optimizer) and not call.closure:
            known = self._begin(call.optimizer)
            if known is not None:
                self._optimizers[id(call.optimizer)] = known
                self._look(known)
        if known is not None:
            known.site = call.site

    def step_ended(self, call: StepCall) -> None:
        self._stepped = True
        known = self._optimizers.get(id(call.optimizer))
        if known is None or known.done:
            return
        known.steps += 1
        if FIRST <= known.steps <= LAST and known.steps.bit_count() == 1:
            self._look(known)
        if known.on_their_way:
            self._arrive(known)
        if self._link is not None and self._link.rank == 0 and known.steps % POLL == 0 and known.steps <= 2 * LAST:
            self._listen(known)
            self._decide(known, OFTEN)

    def values_exchanged(self, call: ExchangeCall) -> None:
        """Other processes are given values, or give some."""
        if not self._optimizers or self._silent:
            return
        if call.function in _ALONE or (call.in_forward and not call.in_norm):
            self._fall_silent()
            return
        size = sum(tensor.numel() for tensor in call.tensors)
        for known in self._optimizers.values():
            if known.done or not known.steps:
                continue
            whole = self._stepped and 2 * size >= known.size
            if whole or any(_memory(tensor) in known.memory for tensor in call.tensors):
                known.done = True

    def finish(self, _: FrameSite) -> None:
        """The guard ends."""
        link = self._link
        left = [known for known in self._optimizers.values() if not known.done]
        if link is None or self._silent:
            return
        for known in left:
            if known.steps >= FIRST:
                self._look(known)
            self._arrive(known, wait=True)
        if link.rank:
            return
        self._await(link, left)
        for known in left:
            self._decide(known, 1)
        self._optimizers = {}

    def _await(self, link: Link, awaited: list[_Optimizer]) -> None:
        """Read what others have left and may yet leave, which is not waited for without end."""
        begun = time.monotonic()
        while not self._silent:
            ended = [self._has_ended(rank) for rank in _peers(link)]
            for known in awaited:
                self._listen(known)
            awaited = [known for known in awaited if not self._is_complete(known)]
            seconds = self._patience if False in ended else min(self._patience, _UNHEARD)
            if not awaited or all(ended) or time.monotonic() >= begun + seconds:
                break
            time.sleep(_PAUSE)

    # --- looking

    def _begin(self, optimizer: Optimizer) -> _Optimizer | None:
        """Get to know an optimizer; None where nothing of it can be compared."""
        own = [one for group in optimizer.param_groups for one in group["params"] if one.requires_grad and one.numel()]
        if not own or not all(map(_is_whole, own)) or _are_parted():
            return None
        named = self._modules.by_id()
        ignored = self._ignored()
        parameters = [one for one in own if id(one) in named and id(one) not in ignored]
        if not parameters:
            return None
        names = [named[id(one)] for one in parameters]
        what = [(name, tuple(one.shape), str(one.dtype)) for name, one in zip(names, parameters, strict=True)]
        key = f"replicas/{len(self._optimizers)}"
        if self._link is not None and self._link.rank == 0:
            self._link.expected |= {f"{key}/{rank}" for rank in _peers(self._link)}
        told = repr((type(optimizer).__name__, what, [_settings(group) for group in optimizer.param_groups]))
        return _Optimizer(
            weakref.ref(optimizer),
            key,
            [weakref.ref(one) for one in parameters],
            names,
            hashlib.sha256(told.encode()).hexdigest(),
            [torch.finfo(one.dtype).eps for one in parameters],
            memory=frozenset(map(_memory, parameters)),
            size=sum(one.numel() for one in parameters),
        )

    def _ignored(self) -> set[int]:
        """Parameters of which a program has said that ranks do not share them."""
        found: set[int] = set()
        for module in self._modules:
            names = _names_ignored(module)
            found |= {id(one) for name, one in module.named_parameters() if name in names}
        return found

    def _look(self, known: _Optimizer) -> None:
        parameters = [one for reference in known.parameters if (one := reference()) is not None]
        if len(parameters) < len(known.parameters) or _is_captured(parameters):
            return
        with torch.no_grad(), unseen_by_modes():
            known.on_their_way[known.steps], known.counts = sample(parameters)
            known.memory = frozenset(map(_memory, parameters))

    def _arrive(self, known: _Optimizer, wait: bool = False) -> None:
        """Keep, and leave for rank 0, what has arrived."""
        there = [n for n, parts in known.on_their_way.items() if wait or all(part.arrived for part in parts)]
        for steps in there:
            with torch.no_grad(), unseen_by_modes():
                known.looks[steps] = torch.cat([part.wait() for part in known.on_their_way.pop(steps)])
        link = self._link
        if there and link is not None and link.rank:
            looks = {str(steps): written(values) for steps, values in known.looks.items()}
            try:
                link.put(f"{known.key}/{link.rank}", json.dumps([known.token, looks]))
            except RuntimeError:  # whoever served the store is gone
                self._fall_silent()

    # --- comparing

    def _listen(self, known: _Optimizer) -> None:
        """Read what others have left, and compare."""
        assert self._link is not None
        for rank in _peers(self._link):
            if all((rank, steps) in known.compared for steps in known.looks if steps):
                continue
            try:
                text = self._link.get(f"{known.key}/{rank}")
            except RuntimeError:
                self._fall_silent()
                return
            if text is None:
                continue
            token, looks = json.loads(text)
            if token != known.token:
                known.done = True
                return
            with torch.no_grad(), unseen_by_modes():
                self._compare_all(known, rank, {int(steps): read(values) for steps, values in looks.items()})

    def _compare_all(self, known: _Optimizer, rank: int, theirs: dict[int, torch.Tensor]) -> None:
        for steps in sorted(known.looks.keys() & theirs.keys() - {0}):
            if 0 in theirs and 0 in known.looks and (rank, steps) not in known.compared:
                known.compared.add((rank, steps))
                apart = _compared(known, steps, theirs)
                for number in apart:
                    known.apart.setdefault(number, set()).add(steps)
                if apart:
                    known.ranks.add(rank)
        if known.met >= set(range(len(known.names))):
            known.done = True

    def _is_complete(self, known: _Optimizer) -> bool:
        assert self._link is not None
        return known.done or all((r, n) in known.compared for r in _peers(self._link) for n in known.looks if n)

    def _decide(self, known: _Optimizer, often: int) -> None:
        """Tell of parameters that were apart so often, on any of the ranks, and the same never."""
        assert self._link is not None
        apart = [number for number in known.apart if number not in known.met]
        looks = {steps for _, steps in known.compared}
        if known.done or self._silent or not apart:
            return
        if max(len(known.apart[number]) for number in apart) < often or known.site is None or _are_parted():
            return
        known.done = True
        names = tuple(known.names[number] for number in sorted(apart))
        ranks = (0, *sorted(known.ranks))
        event = RanksApart(site=known.site, parameters=names, ranks=ranks, steps=max(looks), before=known.before)
        self._judge.send(event)

    def _fall_silent(self) -> None:
        self._silent = True
        self.rest()


def _compared(known: _Optimizer, steps: int, theirs: dict[int, torch.Tensor]) -> list[int]:
    """The parameters that are apart from those of another rank; those that are not, and have moved, have met.

    Ranks that end at one minimum come together there: what was apart often enough before has not met by that.
    """
    ours = known.looks
    if theirs[0].shape != ours[0].shape or theirs[steps].shape != ours[steps].shape:
        return []
    begun, now = (ours[0].double(), theirs[0].double()), (ours[steps].double(), theirs[steps].double())
    owners = torch.repeat_interleave(torch.arange(len(known.counts)), torch.tensor(known.counts))

    def length(values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(known.counts), dtype=torch.float64).index_add_(0, owners, values.square()).sqrt()

    moved = torch.maximum(length(now[0] - begun[0]), length(now[1] - begun[1]))
    distance, lengths = length(now[0] - now[1]), length(now[0])
    least = torch.maximum(APART * moved, torch.tensor(known.precisions, dtype=torch.float64) * lengths)
    finite = torch.isfinite(distance) & torch.isfinite(moved)
    apart = (finite & (moved > 0) & (distance > least)).nonzero().flatten().tolist()
    same = (finite & (moved > 0) & (distance <= least)).nonzero().flatten().tolist()
    known.met |= {number for number in same if len(known.apart.get(number, ())) < OFTEN}
    if apart:
        before = length(begun[0] - begun[1]) > torch.tensor(known.precisions, dtype=torch.float64) * length(begun[0])
        known.before = bool(before[apart].any())
    return list(apart)


def _peers(link: Link) -> range:
    return range(1, min(link.size, PEERS + 1))


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr()) if holds_values(tensor) else 0


def _is_whole(parameter: torch.Tensor) -> bool:
    """Whether a parameter is all there is of it, and no shard."""
    return holds_values(parameter) and not hasattr(parameter, _SHARDED) and parameter.is_floating_point()


def _is_captured(parameters: list[torch.Tensor]) -> bool:
    return any(one.is_cuda for one in parameters) and torch.cuda.is_current_stream_capturing()


def _are_parted() -> bool:
    """Whether the program has made groups of some of the ranks."""
    world: Any = torch.distributed.distributed_c10d._world
    everyone = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 0
    with suppress(AttributeError):
        return any(1 < len(ranks) < everyone for ranks in world.pg_group_ranks.values())
    return True


def _names_ignored(module: nn.Module) -> set[str]:
    found: set[str] = set()
    for name, part in module.named_modules():
        ignored = getattr(part, _IGNORED, ())
        found |= {f"{name}.{one}" if name else one for one in ignored}
    return found


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """The numbers that a group of parameters is stepped with."""
    return {key: value for key, value in sorted(group.items()) if isinstance(value, (bool, int, float, tuple))}
