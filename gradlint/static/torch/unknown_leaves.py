"""Leaves of which nothing is known but that their own gradient changes their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import TRUE
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context
from gradlint.static.state.origins import AttributeOf, ElementOf, Origin
from gradlint.static.state.provenance import is_made_of
from gradlint.static.state.values import Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class UnknownLeaves:
    """``for p in params: p.data -= rate * p.grad``: each of them is trained by hand."""

    _witness: Witness
    _tensors: Tensors

    def changed(self, data: Origin, how: str, values: Iterable[Value], w: World, ctx: Context, site: Site) -> None:
        """What the key ``data`` stands for changes, using ``values``: the ``.data`` of an item of a loop, perhaps."""
        owner = data.owner if isinstance(data, AttributeOf) and data.name == "data" else None
        if not isinstance(owner, ElementOf):
            return  # what has a name of its own may be an input, which is attacked
        gradient = AttributeOf(owner, "grad")
        if not any(is_made_of(gradient, value) for value in values):
            return
        view = self._tensors.view_of(Unknown(owner), w)
        event = events.DataWritten(
            site=site,
            tensor=replace(view, is_parameter=TRUE),
            how=how,
            taken_at=None,
            grad_enabled=self._tensors.mode(w),
            trained=TRUE,
            as_parameter=True,
        )
        self._witness.send(event, w, ctx)
