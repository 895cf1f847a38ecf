"""Functional dropout inside compiled regions, read from the graphs that dynamo hands to its backend."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F  # noqa: N812  torch's own idiom
from torch import nn

from gradlint.events import DropoutCalled
from gradlint.facts import FALSE, Fact, known, unknown

from ..records.dropout import FUNCTIONS, decides_by_mode
from ..records.regions import call_of, function_of, functions_around, module_of, place_of

if TYPE_CHECKING:
    from ..calls import CompileCall
    from ..judging import Judge

_NAMES = {getattr(F, name): name for name in FUNCTIONS}


class CompiledDropouts:
    """Reports calls of functional dropout in the user's own code that was compiled."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def graph_compiled(self, call: CompileCall) -> None:
        """A region was traced: its calls have the arguments that the source gives them."""
        for node in call.graph.nodes:
            name = _NAMES.get(function_of(node))
            if name is not None:
                self._called(node, name, call.in_module)

    def _called(self, node: Any, name: str, in_module: bool) -> None:
        training, position, keyword, default, drops = FUNCTIONS[name]
        module, written, place = module_of(node), call_of(node, name), place_of(node, name)
        if written is None or place is None or (module is not None and module.__module__.startswith("torch.")):
            return  # a layer of torch, or another function, that knows the mode
        probability = node.args[position] if len(node.args) > position else node.kwargs.get(keyword, default)
        given = training is not None and (len(node.args) > training or "training" in node.kwargs)
        self._judge.send(
            DropoutCalled(
                site=place,
                function=name,
                training_given=known(given),
                drops_by_default=drops,
                in_module=known(in_module if module is None else issubclass(module, nn.Module)),
                mode_checked=_checked(node, written, keyword if training is None else None),
                inert=known(probability == 0),
            )
        )


def _checked(node: Any, written: ast.Call, keyword: str | None) -> Fact[bool]:
    """Whether the call depends on the mode: by its own probability, or by a function that it is made in."""
    if keyword is not None:
        values = [one.value for one in written.keywords if one.arg == keyword]
        if not values or not isinstance(values[0], (ast.Constant, ast.Attribute)):
            return unknown()
    around = functions_around(node)
    if not around or any(one is None or decides_by_mode(one) for one in around):
        return unknown()
    return FALSE
