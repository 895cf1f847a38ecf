"""Graphs that pile up although backward passes have walked and freed them, and the variable that keeps them.

How many there are is counted by what the ages of graphs know anyway.  Only when they have become more from step to
step are the program's frames looked through for what keeps them.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import Tensor, ValueKept
from gradlint.facts import TRUE, known
from gradlint.finding import Location

from ..frames import is_foreign, path_of
from ..roster import Resting
from ..spelling import function_syntax

if TYPE_CHECKING:
    from gradlint.finding import Site

    from ..calls import StepCall
    from ..judging import Judge
    from ..records.ages import Ages, Stamp

ENOUGH = 5  #: graphs of as many steps, kept at once, are no leftovers of the last iterations
NODES = 3000  #: of the graph of one value that are looked at
VALUES = 2000  #: of one frame
ADDING = ("append", "appendleft", "extend", "insert")
PARTS = 8  #: of an item of a list
DEPTH = 3  #: of attributes and containers below a variable


@dataclass(slots=True, eq=False)
class _Keeper:
    """A variable, or what hangs on it, that keeps graphs."""

    name: str  #: as the source spells it: ``total``, ``self.log['loss']``
    steps: set[int]  #: in which the graphs it keeps were built
    container: bool
    stamp: Stamp
    frame: FrameType


class KeptGraphs(Resting):
    """Reports where values are added to those that are kept with their graphs."""

    RESTS_FROM = ("step_ended",)  # while there are few graphs

    def __init__(self, judge: Judge, ages: Ages) -> None:
        self._judge = judge
        self._ages = ages
        self._next = ages.many = ENOUGH + 1  # how many there must be for the next look
        ages.when_many = self.wake
        self.rest()

    def step_ended(self, call: StepCall) -> None:
        """To be told after the ages."""
        if call.within is not None:
            return
        if len(self._ages.stamps) < self._next:
            self.rest()
            return
        if self._ages.spent < self._next:
            return
        if len(self._ages.spent_in()) < ENOUGH:
            return
        self._next += max(1, self._next // 4)
        self._ages.many = self._next
        keepers = [keeper for frame in _users_frames() for keeper in self._in(frame)]
        for keeper in keepers:
            if (place := _where_it_grows(keeper)) is not None:
                self._judge.send(
                    ValueKept(
                        site=place,
                        value=Tensor(requires_grad=known(True)),
                        where="list" if keeper.container else "sum",
                        spent=TRUE,
                        walked_at=keeper.stamp.freed_at,
                        keeper=keeper.name,
                    )
                )

    def _in(self, frame: FrameType) -> Iterator[_Keeper]:
        budget = [VALUES]
        seen: set[int] = set()
        for name, value in list(frame.f_locals.items()):
            if not name.startswith("__"):
                yield from self._under(name, value, DEPTH, frame, budget, seen)

    def _under(
        self, name: str, value: Any, depth: int, frame: FrameType, budget: list[int], seen: set[int]
    ) -> Iterator[_Keeper]:
        budget[0] -= 1
        if budget[0] < 0 or id(value) in seen:
            return
        if isinstance(value, torch.Tensor):
            if stamps := self._stamps(value):
                yield _Keeper(name, {stamp.steps for stamp in stamps}, False, stamps[0], frame)
        elif isinstance(value, (list, deque)):
            seen.add(id(value))
            stamps = [stamp for one in value for tensor in _tensors_in(one) for stamp in self._stamps(tensor)[:1]]
            if len({stamp.steps for stamp in stamps}) >= ENOUGH:
                yield _Keeper(name, {stamp.steps for stamp in stamps}, True, stamps[0], frame)
        elif depth and isinstance(value, dict):
            seen.add(id(value))
            for key, part in list(value.items()):
                yield from self._under(f"{name}[{key!r}]", part, depth - 1, frame, budget, seen)
        elif depth and hasattr(value, "__dict__") and not isinstance(value, type) and _is_users(value):
            seen.add(id(value))
            for key, part in list(vars(value).items()):
                yield from self._under(f"{name}.{key}", part, depth - 1, frame, budget, seen)

    def _stamps(self, tensor: torch.Tensor) -> list[Stamp]:
        """What is spent in the graph of a tensor: as many stamps as prove that it grows, or for a list one."""
        nodes = [] if tensor.grad_fn is None else [tensor.grad_fn]
        met = set(nodes)
        found: list[Stamp] = []
        while nodes and len(met) < NODES:
            node = nodes.pop()
            if (stamp := self._ages.spent_stamp(node)) is not None:
                found.append(stamp)
            for child, _ in node.next_functions:
                if child is not None and child not in met:
                    met.add(child)
                    nodes.append(child)
        return found


def _tensors_in(item: Any) -> Iterator[torch.Tensor]:
    """The tensors of an item of a list: itself, or those of a list, tuple or dict of them."""
    if isinstance(item, torch.Tensor):
        yield item
    elif type(item) in (list, tuple, dict):  # of others even a look may do something
        parts = list(item.values()) if type(item) is dict else item
        yield from (part for part in parts[:PARTS] if isinstance(part, torch.Tensor))


def _is_users(value: Any) -> bool:
    module = sys.modules.get(type(value).__module__)
    return not is_foreign(getattr(module, "__file__", None) or "<frozen builtins>")


def _users_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_foreign(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _where_it_grows(keeper: _Keeper) -> Site | None:
    """The one place in the function where something is added to what keeps the graphs; None if there are several."""
    if not keeper.container and len(keeper.steps) < ENOUGH:
        return None
    syntax = function_syntax(keeper.frame.f_code)
    places = [] if syntax is None else [place for node in ast.walk(syntax) if (place := _grows(node, keeper))]
    return places[0] if len(places) == 1 else None


def _grows(node: ast.AST, keeper: _Keeper) -> Location | None:
    target: ast.expr | None = None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        target = node.target
    elif isinstance(node, ast.Assign) and not keeper.container and len(node.targets) == 1:
        first = ast.unparse(node.targets[0])
        if any(ast.unparse(part) == first for part in ast.walk(node.value) if isinstance(part, ast.expr)):
            target = node.targets[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDING:
        target = node.func.value if keeper.container else None
    if target is None or ast.unparse(target) != keeper.name:
        return None
    assert isinstance(node, (ast.stmt, ast.expr))
    path = path_of(keeper.frame.f_code.co_filename)
    end = node.end_lineno or node.lineno
    return Location(path, node.lineno, node.col_offset + 1, end, (node.end_col_offset or 0) + 1)
