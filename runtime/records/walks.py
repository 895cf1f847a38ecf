"""Graphs that are marked, and whether a later backward pass walks them.

A mark lives in the metadata of the nodes it was put on and is else held weakly: it dies with them.  Only while there
are marks are graphs looked into after a backward pass.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..calls import BackwardCall
from ..roster import Resting

_guards = itertools.count(1)
_AccumulateGrad: type = type(torch.autograd.graph.get_gradient_edge(torch.zeros((), requires_grad=True)).node)


class Mark:
    """Something that waits for a backward pass to walk the nodes it was put on."""

    __slots__ = ("__weakref__", "walked")

    def __init__(self) -> None:
        self.walked = False


class Walks(Resting):
    """Tells marks that a backward pass has walked a graph they are in."""

    RESTS_FROM = ("backward_ended",)

    def __init__(self) -> None:
        self._key = f"gradlint.walk.{next(_guards)}"
        self._marks: weakref.WeakSet[Mark] = weakref.WeakSet()
        self.rest()

    def put(self, mark: Mark, nodes: Iterable[Any]) -> None:
        """Mark some nodes of a graph."""
        self._marks.add(mark)
        self.wake()
        for node in nodes:
            node.metadata.setdefault(self._key, []).append(mark)

    def backward_ended(self, call: BackwardCall) -> None:
        if not self._marks:
            self.rest()
            return
        for node in below(call.roots):
            for mark in node.metadata.pop(self._key, ()):
                mark.walked = True
                self._marks.discard(mark)


def below(roots: Iterable[Any]) -> Iterator[Any]:
    """The nodes of the graphs of tensors, or of gradient edges, save those that accumulate: they outlive graphs."""
    nodes = [root.node if hasattr(root, "node") else root.grad_fn for root in roots]
    return (node for node in nodes_below(nodes) if type(node) is not _AccumulateGrad)


def nodes_below(roots: Iterable[Any]) -> Iterator[Any]:
    """All nodes of a graph, from its roots on."""
    nodes = [node for node in roots if node is not None]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        yield node
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                nodes.append(child)
