"""Graphs that are older than a step which changed parameters they need.

The output of each outermost module is stamped with the number of steps so far.  The stamp is watched weakly: only
while a graph from before a step is alive, and nothing has freed it, are graphs looked into before a backward pass.

What a checkpoint computes again, within the pass, it computes with the parameters as they are then.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..calls import ForwardCall, StepCall
from ..tensors import memory_of
from .saved import saved_by
from .walks import nodes_below

if TYPE_CHECKING:
    from ..frames import FrameSite

_guards = itertools.count(1)
_transforms: Callable[[], object] = torch._C._functorch.peek_interpreter_stack


class Stamp:
    """How old a part of a graph is; it lives as long as that part."""

    __slots__ = ("__weakref__", "freed_at", "freed_in", "reference", "steps")

    def __init__(self, steps: int, number: int, gone: Callable[[_Reference], None]) -> None:
        self.steps = steps
        self.freed_at: FrameSite | None = None
        self.freed_in = -1  # the number of steps by then
        self.reference = _Reference(self, gone)
        self.reference.spent = False
        self.reference.number = number


class _Reference(weakref.ref[Stamp]):
    """To a stamp; it still knows about it when that is gone."""

    __slots__ = ("number", "spent")

    number: int  # of the node that has it: asking for that is ten times as fast as for metadata
    spent: bool  # its part of the graph was freed


class Update:
    """The last step that changed some parameters."""

    __slots__ = ("_changed", "_node", "_optimizer", "silent", "site", "steps")

    def __init__(self, call: StepCall, steps: int) -> None:
        groups = call.optimizer.param_groups
        self.site: FrameSite = call.site
        self.steps = steps  # the number of this one
        self.silent = any(group.get("fused") for group in groups)  # it does not tell autograd about the change
        self._optimizer = weakref.ref(call.optimizer)
        self._node: int = torch._C._autograd._get_sequence_nr()  # nodes of later graphs have higher numbers
        self._changed = {id(one) for group in groups for one in group["params"] if one.grad is not None}

    def parameters(self) -> list[torch.Tensor]:
        """Those it changed, as far as they are still those of the optimizer."""
        optimizer = self._optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        return [one for group in groups for one in group["params"] if id(one) in self._changed]

    def came_between(self, node: Any, module: torch.nn.Module) -> bool:
        """Whether it changed parameters of a module that is called after it to compute again what ``node`` needs."""
        if node._sequence_nr() >= self._node:
            return False
        changed = {id(parameter) for parameter in self.parameters()}
        return any(id(parameter) in changed for parameter in module.parameters())

    def may_have_changed(self, shape: tuple[int, ...]) -> bool:
        """Whether it changed a parameter of this shape, or of that of its transpose."""
        return any(tuple(parameter.shape) in (shape, shape[::-1]) for parameter in self.parameters())


class Ages:
    """Knows which graphs were built before a step."""

    def __init__(self) -> None:
        self._key = f"gradlint.age.{next(_guards)}"
        self._steps = 0
        self.stamps: set[_Reference] = set()  #: in graphs that are alive
        self.many = sys.maxsize  #: stamps
        self.when_many: Callable[[], None] = lambda: None  #: called when there are that many
        self._unspent = 0  # how many stamps are in graphs that have not been freed
        self._route: tuple[int, ...] | None = None  # from the root of the last graph to its only stamp
        self.updates: dict[int, Update] = {}  #: the last step of each optimizer that was made while there was a graph
        self.overtakes: dict[int, Update] = {}  #: by what the backward pass under way has computed again

    def forward_ended(self, call: ForwardCall) -> None:
        if call.recomputed:
            self.forward_stopped(call)
            return
        for tensor in call.tensors:
            node: Any = tensor.grad_fn
            if node is None:
                continue
            if _transforms():
                return
            stamp = node.metadata[self._key] = Stamp(self._steps, node._sequence_nr(), self._gone)
            self.stamps.add(stamp.reference)
            self._unspent += 1
            if len(self.stamps) >= self.many:
                self.when_many()

    def step_begins(self, call: StepCall) -> None:
        self._steps += 1
        if self._unspent:
            self.updates[id(call.optimizer)] = Update(call, self._steps)
        else:
            self.updates.clear()  # there is no graph that is older than any step

    def alive(self) -> int:
        """How many outputs of models there are whose graph is alive."""
        return len(self.stamps)

    @property
    def last(self) -> int:
        """The number of steps before the last one: the last graphs were freed by then."""
        return self._steps - 1

    @property
    def spent(self) -> int:
        """How many of the stamps are in graphs that were freed."""
        return len(self.stamps) - self._unspent

    def spent_in(self) -> set[int]:
        """The numbers of steps by which those graphs were freed."""
        return {stamp.freed_in for stamp in self._living() if stamp.freed_at is not None}

    def freed(self, node: Any, site: FrameSite) -> None:
        """A backward pass has freed this node of a graph."""
        stamp = node.metadata.get(self._key)
        if stamp is not None:
            self._spend(stamp, site)

    def _spend(self, stamp: Stamp, site: FrameSite) -> None:
        if stamp.freed_at is None:
            stamp.reference.spent = True
            self._unspent -= 1
        stamp.freed_at, stamp.freed_in = site, self._steps

    def _gone(self, reference: _Reference) -> None:
        self.stamps.discard(reference)
        self._unspent -= not reference.spent

    def _living(self) -> list[Stamp]:
        return [stamp for reference in list(self.stamps) if (stamp := reference()) is not None]

    def spent_stamp(self, node: Any) -> Stamp | None:
        """The stamp on a node, if its graph was freed."""
        stamp: Stamp | None = node.metadata.get(self._key)
        return stamp if stamp is not None and stamp.freed_at is not None else None

    def walked(self, roots: Iterable[Any], site: FrameSite) -> None:
        """A backward pass has freed the graph below these nodes, and with it the outputs it was made of."""
        nodes = [node for node in roots if node is not None]
        numbers = {reference.number for reference in list(self.stamps)}
        seen: dict[Any, tuple[Any, int] | None] = dict.fromkeys(nodes)  # by which edge of which node they were reached
        found = []
        while nodes and self._unspent:
            node = nodes.pop()
            stamp = node.metadata.get(self._key) if node._sequence_nr() in numbers else None
            if stamp is not None:
                if stamp.freed_at is not None:
                    continue  # an earlier pass has been here
                self._spend(stamp, site)
                found.append(node)
            for index, (child, _) in enumerate(node.next_functions):
                if child is not None and child not in seen:
                    seen[child] = node, index
                    nodes.append(child)
        if found:
            self._route = _route(found[0], seen) if len(found) == 1 else None

    def walked_again(self, roots: Sequence[Any], site: FrameSite) -> bool:
        """Like :meth:`walked`, if the only stamp there is is where it was in the graph that was walked last.

        Whether it is.
        """
        if self._route is None or self._unspent != 1 or len(roots) != 1:
            return False
        node: Any = getattr(roots[0], "grad_fn", None)
        try:
            for index in self._route:
                node = node.next_functions[index][0]
            stamp = node.metadata.get(self._key)
        except (AttributeError, IndexError):  # the graph has another shape
            return False
        if stamp is None or stamp.freed_at is not None:
            return False
        self._spend(stamp, site)
        return True

    def stale(self, roots: Iterable[Any]) -> list[Update]:
        """The steps that changed parameters in a graph that was built before them, and is to be walked now."""
        updates = [update for update in self.updates.values() if self._is_endangered(update)]
        if not updates:
            return []
        found: dict[int, Update] = {}
        for stamp, parts in self._stamped(roots):
            for update in updates:
                if update.steps > stamp.steps and update.steps not in found and self._needs(parts, update):
                    found[update.steps] = update
        return [found[steps] for steps in sorted(found)]

    def forward_stopped(self, call: ForwardCall) -> None:
        """A backward pass has computed something again."""
        node = torch._C._current_autograd_node() if self.updates else None
        if node is not None:
            updates = [update for update in self.updates.values() if update.came_between(node, call.module)]
            self.overtakes.update((update.steps, update) for update in updates)

    def overtaken(self) -> list[Update]:
        """The steps that came between a checkpoint's forward pass and its repetition, in the pass that has ended."""
        updates, self.overtakes = self.overtakes, {}
        return [updates[steps] for steps in sorted(updates)]

    def _is_endangered(self, update: Update) -> bool:
        return any(stamp.freed_at is None and stamp.steps < update.steps for stamp in self._living())

    def _stamped(self, roots: Iterable[Any]) -> Iterator[tuple[Stamp, list[Any]]]:
        """The stamps in a graph, each with the nodes below it."""
        for node in nodes_below(roots):
            stamp = node.metadata.get(self._key)
            if stamp is not None and stamp.freed_at is None:
                yield stamp, list(nodes_below([node]))

    def _needs(self, nodes: list[Any], update: Update) -> bool:
        """Whether the backward pass of any of the nodes reads a parameter that the step has changed.

        Where autograd counts changes, it says so itself; this only finds out whether it is to be believed.
        """
        parameters = update.parameters()
        if not update.silent:
            changed = {id(parameter) for parameter in parameters}
            return any(id(getattr(node, "variable", None)) in changed for node in nodes)
        changed = {memory_of(parameter) for parameter in parameters}
        return any(memory_of(tensor) in changed for node in nodes for tensor in saved_by(node))


def _route(node: Any, seen: dict[Any, tuple[Any, int] | None]) -> tuple[int, ...]:
    """Which edges lead to a node, from the root on."""
    route = []
    while (edge := seen[node]) is not None:
        node, index = edge
        route.append(index)
    return tuple(reversed(route))
