"""Gradient scalers: what they scale, unscale and step."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import SCALER_NAME
from gradlint.static.knowledge.ops import Op
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import ESCAPED, NONE, Const, Group, Instance, Ref, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

_SCALE = Op(saves="other", size="keeps", activation="keeps")
_SCALER_METHODS = frozenset(["scale", "unscale_", "step", "update"])


class Scalers:
    """Calls methods of gradient scalers, and tells the rules."""

    _witness: Witness
    _tensors: Tensors
    _operations: Operations
    _optimizers: Optimizers

    def looks_like_one(self, value: Value, name: str) -> bool:
        """Whether a method is called on something that has the name of a gradient scaler."""
        return isinstance(value, Unknown) and name in _SCALER_METHODS and bool(SCALER_NAME.search(value.hint.lower()))

    def made(self, args: Arguments, name: str, w: World, place: Hashable) -> Ref:
        """A new ``GradScaler``, or something that has the name of one."""
        enabled = w.resolve(args.keywords.get("enabled", Const(True)))
        return w.new(Instance(name=name, role=roles.SCALER, attrs={"enabled": enabled}), place)

    def method(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """``scaler.scale(loss)``, ``unscale_(optimizer)``, ``step(optimizer)``, ``update()``."""
        first = w.resolve(args.get(0, "optimizer") or NONE)
        on = obj.attrs.get("enabled") not in (Const(False), Const(None))
        if name == "scale":
            return self._scaled(w.resolve(args.get(0, "outputs") or NONE), on, w, ctx, site)
        if name in ("unscale_", "step"):
            groups = self._optimizers.groups_of(first, w, site)
            touches = self._witness.presumed(groups, w)
            # Whether the parameters of a model are those of an optimizer is not always known.
            others = [key for key, other in w.all(Group) if other.tokens]
            touches = {**dict.fromkeys(others, None), **touches}
            self._witness.send(events.GradientsUnscaled(site=site, touches=touches), w, ctx)
            if name == "step":
                w.write(receiver.id).groups |= groups
                if on and ESCAPED not in obj.attrs:
                    self._witness.send(events.ScalerStepped(site=site, touches=_all(groups)), w, ctx)
                self._optimizers.stepped(first, w, ctx, site)
        elif name == "update":
            self._witness.send(events.ScalerUpdated(site=site, touches=_all(obj.groups)), w, ctx)
        return NONE

    def _scaled(self, value: Value, on: bool, w: World, ctx: Context, site: Site) -> Value:
        if isinstance(value, Unknown):
            value = self._tensors.from_unknown(value, w)
        result = self._operations.apply(_SCALE, Arguments([value]), w, ctx, site)
        if on and isinstance(result, Ref) and w.get(result, Tensor) is not None:
            w.write(result.id).scaled = True
        return result


def _all(keys: Iterable[int]) -> events.Touches:
    return dict.fromkeys(sorted(keys), True)
