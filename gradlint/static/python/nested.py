"""Functions that somebody else is given, and that nothing at hand calls: callbacks, and those defined within others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gradlint.static.python.progress import Progress
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context, Results
from gradlint.static.state.values import Function
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.static.text.definition_units import FunctionUnit

_MAX_WAITING = 16  #: of an entry point


class Waiting(NamedTuple):
    """A function, and the world in which the one around it has ended."""

    function: Function
    world: World
    ctx: Context
    returned: bool  #: it is what the function around it returned
    handed: bool = False  #: a library was given it, in this world: it calls it as gradients are enabled here


class Nested:
    """Keeps them until their entry point is done."""

    _progress: Progress
    _witness: Witness

    def __init__(self) -> None:
        self._defined: dict[int, list[Function]] = {}  #: by the frame of the function around them
        self._waiting: dict[FunctionUnit, Waiting] = {}

    def defined(self, function: Function) -> None:
        """A function was defined while another one runs."""
        if not self._witness.muted:
            self._defined.setdefault(function.frame, []).append(function)

    def left(self, results: Results, ctx: Context) -> None:
        """The function around them has ended."""
        for function in self._defined.pop(ctx.frame, ()) if results else ():
            unit = function.unit
            if unit not in self._progress.called and unit not in self._waiting and len(self._waiting) < _MAX_WAITING:
                returned = any(world.resolve(value) == function for world, value in results)
                self._waiting[unit] = Waiting(function, results[0][0].copy(), ctx, returned)

    def handed(self, function: Function, w: World, ctx: Context) -> None:
        """A library is given a function, which it may call from now on."""
        unit = function.unit
        waiting = self._waiting.get(unit)
        if self._witness.muted or unit in self._progress.called or (waiting is not None and waiting.handed):
            return
        if waiting is not None or len(self._waiting) < _MAX_WAITING:
            self._waiting[unit] = Waiting(function, w.copy(), ctx, returned=False, handed=True)

    def take(self) -> list[Waiting]:
        """Those that nothing has called by now."""
        found = [waiting for unit, waiting in self._waiting.items() if unit not in self._progress.called]
        self.clear()
        return found

    def clear(self) -> None:
        """An entry point begins, or is done."""
        self._defined.clear()
        self._waiting.clear()


__all__ = ["Nested"]
