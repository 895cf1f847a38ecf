"""Leaves of which nothing is known but that their own gradient changes their values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import TRUE
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context
from gradlint.static.state.origins import AttributeOf, ElementOf, Origin
from gradlint.static.state.values import Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

_DEPTH = 8  #: how far to look into what operators computed


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
        if not any(_is_made_of(gradient, value, _DEPTH) for value in values):
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


def _is_made_of(part: Hashable, value: Hashable, depth: int) -> bool:
    """Whether the key of an unknown value holds another."""
    key = value.key if isinstance(value, Unknown) else value
    if key == part:
        return True
    return depth > 0 and isinstance(key, tuple) and any(_is_made_of(part, each, depth - 1) for each in key)
