"""Comparisons of a column with a row: a prediction for each sample meets the targets of all samples.

``(n, 1)`` and ``(n,)`` broadcast to ``(n, n)``.  A loss is never meant to do so; a difference may be, unless what it
compares is the output of a module with data, and a backward pass starts from what is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge.ops import Loss
from gradlint.static.knowledge.torch_layers import REGRESSIONS
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.tensor import Spread
from gradlint.static.state.values import Ref, Tensor, Value
from gradlint.static.state.world import World
from gradlint.static.torch.shapes import Shape, spread
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class Broadcasts:
    """Tells of losses and differences whose two sides are both spread over each other."""

    _witness: Witness
    _tensors: Tensors

    def judged(self, loss: Loss, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """A loss is given a prediction and a target."""
        if loss.name not in REGRESSIONS or not self._witness.listened(events.BothSpread):
            return
        given, target = args.get(loss.input, "input"), args.get(loss.target, "target")
        shapes = [self._shape(value, w) for value in (given, target)]
        if shapes[0] is None or shapes[1] is None:
            return
        column = 0 if len(shapes[0]) > len(shapes[1]) else 1
        word, place = [("input", loss.input), ("target", loss.target)][column]
        event = events.BothSpread(
            site=site,
            loss=loss.name,
            shapes=(shapes[0], shapes[1]) if spread(*shapes) else (),
            role=f"argument {word if word in args.keywords else place}",
        )
        self._witness.send(event, w, ctx)

    def subtracted(self, left: Value, right: Value, result: Value, w: World, site: Site) -> None:
        """``left - right``."""
        shapes = (self._shape(left, w), self._shape(right, w))
        if not isinstance(result, Ref) or shapes[0] is None or shapes[1] is None or not spread(*shapes):
            return
        column, row = (left, right) if len(shapes[0]) > len(shapes[1]) else (right, left)
        of_row, of_column = self._tensors.requires_grad(row, w), self._tensors.requires_grad(column, w)
        if of_column and of_row is False:
            tensor: Tensor = w.write(result.id)
            tensor.spreads = (*tensor.spreads, Spread(site, (shapes[0], shapes[1])))

    def walked(self, root: Tensor, w: World, ctx: Context) -> None:
        """A backward pass begins at what was made of these differences."""
        for difference in root.spreads:
            event = events.BothSpread(site=difference.at, shapes=difference.shapes)
            self._witness.send(event, w, ctx, alternative=difference.at)

    def _shape(self, value: Value | None, w: World) -> Shape | None:
        tensor = w.get(w.resolve(value), Tensor) if value is not None else None
        return tensor.shape if tensor is not None and not tensor.structured else None
