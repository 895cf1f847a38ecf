"""What last shaped the values of a tensor, as far as the watched functions show it; what it then reaches."""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import LogTaken, LossCalled, Tensor
from gradlint.facts import Fact, known, unknown
from gradlint.finding import Site

from ..frames import FrameSite, calling_frame, site_of, user_site
from ..judging import Judge
from ..records.living import Living
from ..torch_functions import (
    ADDS,
    APPLIES,
    BOUNDS,
    JOINS,
    KEEPS,
    LOGARITHMS,
    LOSSES,
    MULTIPLIES,
    NEGATES,
    PROBABILITIES,
    RESIZES,
    SMALL,
    named,
)

if TYPE_CHECKING:
    from ..calls import BackwardCall, SwapCall

_Entry = tuple[weakref.ref[torch.Tensor], str, Site]
_Known = Living[_Entry]


class _Log:
    """The logarithm of probabilities to which a small number was added."""

    __slots__ = ("_activation", "event", "negated", "result")

    def __init__(self, event: LogTaken, entry: _Entry) -> None:
        self.event = event
        self.result: weakref.ref[torch.Tensor] | None = None
        self.negated: weakref.ref[torch.Tensor] | None = None
        self._activation = entry[1:]

    def is_of(self, entry: _Entry) -> bool:
        """Whether it is of the probabilities that this is known of."""
        return entry[1:] == self._activation

    def gave(self, tensor: Any) -> bool:
        """Whether the tensor is the logarithm, or the opposite of it."""
        given = [reference() for reference in (self.result, self.negated) if reference is not None]
        return any(one is tensor for one in given)


class Activations:
    """Follows activations from the functions that apply them to the losses and logarithms that are given them."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: _Known = Living(operator.itemgetter(0))
        self._nudged: _Known = Living(operator.itemgetter(0))  # a small number was added
        self._twice: _Known = Living(operator.itemgetter(0))  # made of probabilities, by an activation: what these were
        self._negated: _Known = Living(operator.itemgetter(0))
        self._bounded: _Known = Living(operator.itemgetter(0))  # probabilities that were kept from 0, or from 1
        self._logs: list[_Log] = []  # of probabilities and a small number, which may become entropies

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a loss, which may raise."""
        return {function: self._lost(loss) for function, loss in LOSSES.items()} | dict.fromkeys(LOGARITHMS, self._log)

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do with the result of a function."""
        found: dict[Any, Callable[..., None]] = {}
        for activation, functions in APPLIES.items():
            for function in functions:
                found[function] = self._applied(activation)
        for functions, handler in (
            (tuple(named(KEEPS)), self._kept),
            (tuple(named(JOINS)), self._joined),
            (tuple(named(BOUNDS)), self._bound),
            (RESIZES, self._kept),
            (NEGATES, self._turned),
            (ADDS, self._added),
            (LOGARITHMS, self._logged),
            (MULTIPLIES, self._multiplied),
        ):
            found |= dict.fromkeys(functions, handler)
        return found

    def tensors_swapped(self, call: SwapCall) -> None:
        """Forget tensors that become others."""
        for tensor in call.tensors:
            for known_tensors in (self._known, self._twice, self._nudged, self._negated, self._bounded):
                known_tensors.pop(id(tensor), None)
            self._logs = [log for log in self._logs if not log.gave(tensor)]

    def _applied(self, activation: str) -> Callable[..., None]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            entry = _entry(self._known, args[0] if args else kwargs.get("input"))
            if isinstance(result, torch.Tensor):
                self._twice.pop(id(result), None)
                if entry is not None and entry[1] in PROBABILITIES:
                    self._twice.put(result, (weakref.ref(result), entry[1], entry[2]))
            self.know(result, activation, user_site(4))

        return handle

    def _kept(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        entry = _entry(self._known, args[0]) if args else None
        if entry is not None:
            for part in result if isinstance(result, (tuple, list)) else (result,):
                self.know(part, entry[1], entry[2])
                if isinstance(part, torch.Tensor) and (twice := _entry(self._twice, args[0])) is not None:
                    self._twice.put(part, (weakref.ref(part), twice[1], twice[2]))

    def _joined(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        given = args[0] if args else kwargs.get("tensors", ())
        entries = [_entry(self._known, part) for part in given]
        first = entries[0] if entries else None
        if first is not None and all(entry is not None and entry[1] == first[1] for entry in entries):
            self.know(result, first[1], first[2])

    def _turned(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        entry = _entry(self._known, args[0]) if args else None
        if entry is not None and isinstance(result, torch.Tensor):
            self._negated.put(result, (weakref.ref(result), entry[1], entry[2]))
        for log in self._logs if args and isinstance(result, torch.Tensor) else ():
            if log.gave(args[0]):
                log.negated = weakref.ref(result)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        entry = _entry(self._known, args[0]) if args else None
        if entry is not None and entry[1] in PROBABILITIES and isinstance(result, torch.Tensor):
            self._known.pop(id(result), None)  # in place
            self._bounded.put(result, (weakref.ref(result), entry[1], entry[2]))

    def _added(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        entry = _entry(self._known, args[0]) if args else None
        other = args[1] if len(args) > 1 else kwargs.get("other")
        if entry is None or isinstance(other, torch.Tensor) or not isinstance(result, torch.Tensor):
            return
        if isinstance(other, (int, float)) and 0 <= other <= SMALL:
            self._nudged.put(result, (weakref.ref(result), entry[1], entry[2]))

    def _log(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        given = args[0] if args else kwargs.get("input")
        entry = _entry(self._known, given) or _entry(self._nudged, given)
        frame = calling_frame(sys._getframe(1))
        if entry is None or frame is None:
            return
        shaped: Fact[str] = known(entry[1])
        view = Tensor(activation=shaped, activation_at=entry[2])
        event = LogTaken(site=site_of(frame), input=view, activation=shaped)
        if _entry(self._known, given):
            self._judge.send(event)
        else:
            self._logs.append(_Log(event, entry))

    def _logged(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if self._logs and self._logs[-1].result is None and isinstance(result, torch.Tensor):
            self._logs[-1].result = weakref.ref(result)

    def _multiplied(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A logarithm that is multiplied by the probabilities it is of belongs to an entropy."""
        if self._logs and len(args) == 2:
            for one, other in (args, args[::-1]):
                entry = _entry(self._known, other) or _entry(self._negated, other)
                if entry is not None:
                    self._logs = [log for log in self._logs if not (log.is_of(entry) and log.gave(one))]

    def _tell_logs(self) -> None:
        logs, self._logs = self._logs, []
        for log in logs:
            self._judge.send(log.event)

    def backward_begins(self, _: BackwardCall) -> None:
        self._tell_logs()

    def finish(self, _: FrameSite) -> None:
        """The guard ends."""
        self._tell_logs()

    def _lost(self, loss: str) -> Callable[..., None]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            given = args[0] if args else kwargs.get("input")
            target = args[1] if len(args) > 1 else kwargs.get("target")
            self._judge.send(
                LossCalled(site=user_site(4), loss=loss, input=self._view(given), target=self._view(target))
            )

        return handle

    def know(self, tensor: Any, activation: str, site: Site) -> None:
        """The values of a tensor are what an activation has made of others, at this place."""
        if isinstance(tensor, torch.Tensor):
            self._known.put(tensor, (weakref.ref(tensor), activation, site))

    def _view(self, tensor: Any) -> Tensor:
        if not isinstance(tensor, torch.Tensor):
            return Tensor()
        entry = _entry(self._known, tensor) or _entry(self._bounded, tensor) or _entry(self._nudged, tensor)
        twice = _entry(self._twice, tensor)
        return Tensor(
            requires_grad=known(tensor.requires_grad),
            integral=known(not tensor.is_floating_point() and not tensor.is_complex()),
            device=known(tensor.device.type),
            activation=known(entry[1]) if entry is not None else unknown(),
            activation_at=entry[2] if entry is not None else None,
            activated=known(twice[1]) if twice is not None else unknown(),
            activated_at=twice[2] if twice is not None else None,
        )


def _entry(tensors: _Known, tensor: Any) -> _Entry | None:
    entry = tensors.get(id(tensor))
    return entry if entry is not None and entry[0]() is tensor else None
