"""Layers with parameters that are built in the forward pass of a module, applied there, and not kept."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gradlint.events import LayerBuilt
from gradlint.facts import FALSE, TRUE, unknown

from ..spelling import function_syntax

if TYPE_CHECKING:
    from ..calls import LayerCall
    from ..frames import FrameSite
    from ..judging import Judge

MOVES = ("bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "to", "train")  # they return the layer itself


class FreshLayers:
    """Reports layers that were built where they are applied."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._judged: set[FrameSite] = set()

    def layer_dropped(self, call: LayerCall) -> None:
        if call.site in self._judged:
            return
        self._judged.add(call.site)
        chosen = FALSE if _is_only_applied(call.site) else unknown()
        self._judge.send(LayerBuilt(site=call.site, layer=call.layer, parameters=TRUE, chosen=chosen))


def _is_only_applied(site: FrameSite) -> bool:
    """Whether the source shows that nothing but calls is done with what is built at ``site``."""
    syntax = function_syntax(site.code)
    if syntax is None:
        return False
    parents = {child: node for node in ast.walk(syntax) for child in ast.iter_child_nodes(node)}
    place = site.locate()
    for node in parents:
        if isinstance(node, ast.Call):
            begin, end = (node.lineno, node.col_offset + 1), (node.end_lineno, (node.end_col_offset or 0) + 1)
            if begin == (place.row, place.column) and end == (place.end_row, place.end_column):
                return _is_applied(node, syntax, parents)
    return False


def _is_applied(node: ast.expr, syntax: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    parent = parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return True
    if isinstance(parent, ast.Attribute) and parent.attr in MOVES:
        call = parents.get(parent)
        return isinstance(call, ast.Call) and call.func is parent and _is_applied(call, syntax, parents)
    if isinstance(parent, ast.Expr):
        return True  # moved, as a statement
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        uses = [use for use in ast.walk(syntax) if isinstance(use, ast.Name) and use.id == name]
        return all(_is_applied(use, syntax, parents) for use in uses if isinstance(use.ctx, ast.Load))
    return False
