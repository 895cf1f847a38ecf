"""Devices: where what models give is, and what is moved to CUDA by name although the program chose a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import DEVICE_CONDITION, DEVICE_NAME, MODEL_PART_NAME, MODULE_NAME
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_operations import DEVICE_TYPES, MOVING_OPTIONS
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import NONE, Frame, Instance
from gradlint.static.state.world import World
from gradlint.static.text.nodes import names_in

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Site
from collections.abc import Iterable
from dataclasses import replace

from gradlint.facts import unknown
from gradlint.static.state.provenance import beginning, owner_of
from gradlint.static.state.values import CHOSEN, Choice, Const, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.torch.tensors import Tensors


class DevicePlacement:
    """Takes what such a model, a part or a method of it gives for a tensor on CUDA, if it is one."""

    _tensors: Tensors

    def device_of(self, obj: Instance, args: Arguments, w: World) -> str | None:
        """Where a module is that is on CUDA, and all that it is given: where that is, if nothing says otherwise."""
        may_be = obj.device in ("cuda", CHOSEN) or (obj.device is None and obj.opaque)
        return self._of_all(args, w) if may_be else None

    def _of_all(self, args: Arguments, w: World) -> str | None:
        """Where all tensors are that something is called with."""
        given = [w.get(value, Tensor) for value in self._tensors.tensors_in(args, w)]
        if not given or args.open:
            return None
        for device in ("cuda", CHOSEN):
            if all(t is not None and device in (t.device, t.device_if_tensor) for t in given):
                return device
        return None

    def called(self, result: Unknown, callee: Value, method: str, args: Arguments, w: World) -> Value:
        """``result`` of what cannot be followed.

        That of a part or a method of such a module may be a tensor there, and that of what is called as modules are.
        """
        device = self._of_called(callee, method, args, w) if isinstance(callee, Unknown) else None
        return (
            result
            if device is None
            else self._tensors.from_unknown(result, w, structured=True, device_if_tensor=device)
        )

    def _of_called(self, callee: Unknown, method: str, args: Arguments, w: World) -> str | None:
        owner = owner_of(callee)
        if owner is None:
            return self._of_all(args, w) if not method and MODULE_NAME.search(callee.hint) else None
        module = w.get(owner, Instance)
        if module is None or not module.opaque or module.role is not roles.MODULE:
            return None
        return self.device_of(module, args, w) if MODEL_PART_NAME.search(method or callee.hint) else None

    def unproven(self, inputs: Iterable[Tensor]) -> str | None:
        """The :attr:`~gradlint.static.state.tensor.Tensor.device_if_tensor` of what is computed from values."""
        tensors = list(inputs)
        if any(tensor.device in ("cuda", CHOSEN) and tensor.device_if_tensor is None for tensor in tensors):
            return None
        return next((tensor.device_if_tensor for tensor in tensors if tensor.device_if_tensor is not None), None)

    def proven(self, result: Value, w: World) -> None:
        """What only tensors can do gave ``result``."""
        sequence = w.get(result, Sequence)
        values = [result] if sequence is None else [*sequence.items, *([sequence.tail] if sequence.tail else [])]
        for value in values:
            tensor = w.get(value, Tensor)
            if tensor is not None and tensor.device_if_tensor is not None and isinstance(value, Ref):
                w.write(value.id).device_if_tensor = None

    def elsewhere(self, result: Value, w: World) -> None:
        """A layer whose weights are on the CPU gave ``result``: so was what it was given, if that was a tensor."""
        tensor = w.get(result, Tensor)
        if tensor is not None and tensor.device_if_tensor is not None and isinstance(result, Ref):
            new: Tensor = w.write(result.id)
            new.device, new.device_if_tensor = None, None

    def certain(self, view: events.Tensor, value: Value, is_tensor: bool, w: World) -> events.Tensor:
        """What rules may know of a value, of which the device is not known where it may be no tensor."""
        tensor = w.get(value, Tensor)
        unsure = tensor is not None and tensor.device_if_tensor is not None and not is_tensor
        asked = tensor is not None and tensor.device == CHOSEN and w.device_checked
        return replace(view, device=unknown()) if unsure or asked else view


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


def device_of(value: Value, w: World) -> str | None:
    """The device type a ``device`` argument names, when it is known."""
    if isinstance(value, Const):
        if isinstance(value.value, str):
            return value.value.partition(":")[0]
        if isinstance(value.value, int) and not isinstance(value.value, bool):
            return "cuda"
        return "cpu" if value.value is None else None
    if isinstance(value, Choice):
        devices = {device_of(w.resolve(each), w) for each in value.alternatives}
        return CHOSEN if devices & {"cuda", CHOSEN} and devices <= {CHOSEN, *DEVICE_TYPES} else None
    if isinstance(value, Unknown):  # f"cuda:{number}"
        kind, colon, _ = beginning(value).partition(":")
        return kind if colon else None
    tensor = w.get(value, Tensor)
    return tensor.device if tensor is not None else None


def moves_some(op: Op, args: Arguments, w: World) -> bool:
    """Whether ``batch.to(device, "x", "y")`` names what is moved of something that is no tensor: the rest stays.

    What takes other options is none, either: numbers that are read off it are in no memory.
    """
    if op.device not in ("to", "cpu", "cuda"):
        return False
    if op.device != "to" and args.keywords.keys() - MOVING_OPTIONS:
        return True
    named = [w.resolve(value) for value in args.positional[1 if op.device == "cpu" else 2 :]]
    return any(isinstance(name, Const) and isinstance(name.value, str) for name in named)


def asks_device(node: cst.CSTNode) -> bool:
    """Whether a condition asks where tensors are, or may be, as far as its names tell."""
    return any(DEVICE_CONDITION.search(name) is not None for name in names_in(node))
