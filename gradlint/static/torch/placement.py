"""Placement: where what models give is, of which nothing is known but that they are on CUDA."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gradlint import events
from gradlint.facts import unknown
from gradlint.static.knowledge.guesses import MODEL_PART_NAME
from gradlint.static.state.context import Arguments
from gradlint.static.state.provenance import owner_of
from gradlint.static.state.values import CHOSEN, Instance, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors


class Placement:
    """Takes what such a model, a part or a method of it gives for a tensor on CUDA, if it is one."""

    _tensors: Tensors

    def device_of(self, obj: Instance, args: Arguments, w: World) -> str | None:
        """Where a module is that is on CUDA, and all that it is given: where that is, if nothing says otherwise."""
        given = [w.get(value, Tensor) for value in self._tensors.tensors_in(args, w)]
        may_be = obj.device in ("cuda", CHOSEN) or (obj.device is None and obj.opaque)
        if not given or args.open or not may_be:
            return None
        for device in ("cuda", CHOSEN):
            if all(t is not None and device in (t.device, t.device_if_tensor) for t in given):
                return device
        return None

    def called(self, result: Unknown, callee: Value, method: str, args: Arguments, w: World) -> Value:
        """``result`` of what cannot be followed: that of a part or a method of such a module may be a tensor there."""
        if not isinstance(callee, Unknown) or not MODEL_PART_NAME.search(method or callee.hint):
            return result
        owner = owner_of(callee)
        module = w.get(owner, Instance) if owner is not None else None
        if module is None or not module.opaque or module.kind != "module":
            return result
        device = self.device_of(module, args, w)
        return (
            result
            if device is None
            else self._tensors.from_unknown(result, w, structured=True, device_if_tensor=device)
        )

    def unproven(self, inputs: Iterable[Tensor]) -> str | None:
        """The :attr:`~gradlint.static.state.values.Tensor.device_if_tensor` of what is computed from values."""
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


__all__ = ["Placement"]
