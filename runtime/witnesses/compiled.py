"""Losses inside compiled regions, read from the graphs that dynamo hands to its backend.

There is no function mode where code is compiled; the graph says as well what reaches which loss.  It is only looked at.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import LogTaken, LossCalled, Tensor
from gradlint.facts import Fact, known, unknown
from gradlint.finding import Location

from ..frames import is_foreign, path_of
from ..torch_functions import APPLIES, KEEPS, LOGARITHMS, LOSSES

if TYPE_CHECKING:
    from ..calls import CompileCall
    from ..judging import Judge

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in ')
_ACTIVATIONS = {function: name for name, functions in APPLIES.items() for function in functions}
_KEEPING = frozenset(KEEPS.split())


class CompiledLosses:
    """Follows activations through compiled graphs to the losses and logarithms that are given them."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def graph_compiled(self, call: CompileCall) -> None:
        """A region was traced; what it does is the same in each call."""
        shaped: dict[Any, tuple[str, Location | None]] = {}
        for node in call.graph.nodes:
            function = _function(node)
            given = node.args[0] if node.args else node.kwargs.get("input")
            if function in _ACTIVATIONS:
                shaped[node] = _ACTIVATIONS[function], _place(node)
            elif given in shaped and getattr(function, "__name__", "") in _KEEPING:
                shaped[node] = shaped[given]
            elif function in LOSSES and (place := _place(node)) is not None:
                view = _view(shaped.get(given))
                self._judge.send(LossCalled(site=place, loss=LOSSES[function], input=view, target=Tensor()))
            elif function in LOGARITHMS and given in shaped and (place := _place(node)) is not None:
                view = _view(shaped[given])
                self._judge.send(LogTaken(site=place, input=view, activation=view.activation))


def _view(entry: tuple[str, Location | None] | None) -> Tensor:
    activation: Fact[str] = unknown() if entry is None else known(entry[0])
    return Tensor(activation=activation, activation_at=None if entry is None else entry[1])


def _function(node: Any) -> Any:
    """What a node calls: a function of torch, or the method of a tensor."""
    if node.op == "call_method":
        return getattr(torch.Tensor, node.target, None)
    return node.target if node.op == "call_function" else None


def _place(node: Any) -> Location | None:
    """Where the user's program does what a node does; None where the trace does not tell."""
    frames = [(one["file"], int(one["line"])) for one in _FRAME.finditer(node.stack_trace or "")]
    users = [frame for frame in frames if not is_foreign(frame[0])]
    if not users:
        return None
    path, line = path_of(users[-1][0]), users[-1][1]
    call = next(_calls_on(path, line), None)
    if call is None:
        return Location(path, line, 1, line, 1)
    end = call.end_lineno or line
    return Location(path, call.lineno, call.col_offset + 1, end, (call.end_col_offset or 0) + 1)


def _calls_on(path: str, line: int) -> Iterator[ast.Call]:
    """The calls that begin on a line of a file, the outermost first."""
    try:
        syntax = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return
    yield from (node for node in ast.walk(syntax) if isinstance(node, ast.Call) and node.lineno == line)
