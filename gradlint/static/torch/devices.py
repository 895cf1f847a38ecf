"""Devices: what is moved to CUDA by name although the program chose a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge.guesses import DEVICE_CONDITION, DEVICE_NAME
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import NONE, Frame, Instance
from gradlint.static.state.world import World
from gradlint.static.text.nodes import names_in

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Site


class Devices:
    """Knows which device is at hand."""

    _witness: Witness

    def moved(self, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``.cuda()`` of anything; one that is told which GPU is not hard-coded."""
        if args.positional or "device" in args.keywords or args.open:
            return
        device = self._at_hand(w, ctx)
        if device:
            self._witness.send(events.MovedToCuda(site=site, device=device), w, ctx)

    def _at_hand(self, w: World, ctx: Context) -> str:
        """How the source would spell a device where ``ctx`` stands; empty if there is none."""
        key: int | None = ctx.frame
        while key is not None:
            frame = w.find(key)
            if not isinstance(frame, Frame):
                break
            for name, value in frame.vars.items():
                if DEVICE_NAME.search(name) and w.resolve(value) != NONE:
                    return name
            key = frame.parent
        receiver = w.get(ctx.receiver, Instance) if ctx.receiver is not None else None
        if receiver is not None:
            if "device" in receiver.attrs:
                return "self.device"
            if ctx.in_forward and ctx.function is not None and ctx.function.unit.name == "forward":
                return "the device of the input"
        return ""


__all__ = ["Devices"]


def asks_device(node: cst.CSTNode) -> bool:
    """Whether a condition asks where tensors are, or may be, as far as its names tell."""
    return any(DEVICE_CONDITION.search(name) is not None for name in names_in(node))
