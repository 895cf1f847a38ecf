"""Containers that hold one layer in several places, because a list that holds it was multiplied.

Whether that is why, the source of the call tells that builds the container: it is read once for each such call.
"""

from __future__ import annotations

import ast
import linecache
from typing import TYPE_CHECKING

from torch import nn

from gradlint.events import LayersHeld
from gradlint.facts import TRUE
from gradlint.facts import known as fact
from gradlint.surroundings import is_chosen, says_shared

from ..spelling import call_at, function_syntax

if TYPE_CHECKING:
    from ..calls import PlaceCall
    from ..frames import FrameSite
    from ..judging import Judge


class RepeatedLayers:
    """Reports containers that are given one layer many times."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._seen: set[FrameSite] = set()

    def part_placed(self, call: PlaceCall) -> None:
        container, layer = call.module, call.part
        if not isinstance(container, (nn.ModuleList, nn.Sequential)) or isinstance(layer, nn.Parameter):
            return
        if call.site in self._seen or not any(held is layer for held in container._modules.values()):
            return
        if next(layer.parameters(), None) is None:
            return
        self._seen.add(call.site)
        if not _multiplies(call.site):
            return
        place = call.site.locate()
        lines = linecache.getlines(place.filename)
        meant = is_chosen(lines, place.row) or says_shared(lines, place.row, place.end_row)
        kinds = [type(container), type(layer)]
        names = [f"nn.{kind.__name__}" if kind.__module__.startswith("torch.nn.") else kind.__name__ for kind in kinds]
        event = LayersHeld(site=call.site, container=names[0], layer=names[1], repeated=TRUE, chosen=fact(meant))
        self._judge.send(event)


def _multiplies(site: FrameSite) -> bool:
    """Whether a call is given a list that is multiplied there, or by the statement that gave it its name."""
    call, syntax = call_at(site), function_syntax(site.code)
    if call is None:
        return False
    given = [argument.value if isinstance(argument, ast.Starred) else argument for argument in call.args]
    names = {argument.id for argument in given if isinstance(argument, ast.Name)}
    given += [
        node.value
        for node in (ast.walk(syntax) if syntax is not None and names else ())
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id in names for one in node.targets)
    ]
    return any(_is_product(part) for value in given for part in ast.walk(value))


def _is_product(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and any(isinstance(side, (ast.List, ast.Tuple, ast.BinOp, ast.Name)) for side in (node.left, node.right))
    )
