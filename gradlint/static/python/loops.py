"""Loops: executed item by item, or iteration by iteration until nothing new can happen."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from gradlint.static.python.binding import Names
from gradlint.static.python.budget import Budget
from gradlint.static.python.collections import Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.flow import Flow
from gradlint.static.python.progress import Wholeness
from gradlint.static.python.streams import Counting, Streams, counted
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import forget, newest, signature
from gradlint.static.state.context import MAX_EXITS, Context, Outcome
from gradlint.static.state.liveness import Live, Liveness
from gradlint.static.state.origins import fresh
from gradlint.static.state.reducing import reduce
from gradlint.static.state.values import WALKED, Const, Frame, Group, Ref, Sequence, Value, new_unknown
from gradlint.static.state.world import LAST, World
from gradlint.static.text.nodes import children


class Loops:
    """Executes loops.  Every method takes worlds it may change and tells how execution may go on."""

    _budget: Budget
    _counting: Counting
    _domain: Domain
    _execution: Execution
    _liveness: Liveness
    _whole: Wholeness
    _witness: Witness
    _names: Names
    _collections: Collections
    _conditions: Conditions
    _flow: Flow
    _streams: Streams

    def __init__(self) -> None:
        self._outer: _Outer | None = None

    def over(self, node: cst.For, worlds: list[World], ctx: Context) -> Outcome:
        """``for``: item by item where the items are known, otherwise until nothing new can happen."""
        out = Outcome()
        together: list[World] = []
        slot = _slot(node)
        untouched: dict[int, Group] = {}
        counts: dict[int, int] = {}  # what stands for the number that is counted, by iteration
        for world in worlds:
            iterable = self._execution.evaluate(node.iter, world, ctx)
            items = self._collections.iterate(iterable, world, ctx, ctx.site(node.iter))
            self._streams.asked(iterable, "this loop", world, ctx, ctx.site(node.iter))
            if items.known is not None:
                known = self._domain.branches.apart(iterable, node, world) or items.known
                with self._whole.partly(len(worlds) == 1):
                    result = self._unrolled(node, iterable, known, world, ctx)
                out.normal += result.normal
                out.absorb(result)
            else:
                first, rest = self._collections.leading(iterable, world)
                begun = Outcome()
                with self._whole.partly(len(worlds) == 1):
                    ends = self._each(node, first, world, ctx, begun) if first else [world]
                out.normal += begun.breaks
                out.returns += begun.returns
                for end in ends:
                    end.write(ctx.frame).vars[slot] = rest
                together += ends

        def start(world: World, here: Context, number: int) -> None:
            frame = world.get(Ref(ctx.frame), Frame)
            iterable = frame.vars.get(slot) if frame is not None else None
            element = self._collections.element(iterable or new_unknown("iterable"), world, here)
            element = counted(element, counts.setdefault(number, fresh()), number > 0, world)
            self._counting.given(element, untouched, world, number)
            self._flow.bind(node.target, element, world, here, node.target)

        if together:
            result = self._peeled(node, together, ctx, start)
            out.normal += result.normal
            out.absorb(result)
            for world in [*out.normal, *(world for world, _ in out.returns)]:
                if world.find(ctx.frame) is not None:
                    world.write(ctx.frame).vars.pop(slot, None)
            self._counting.left(untouched)
        return out

    def while_(self, node: cst.While, worlds: list[World], ctx: Context) -> Outcome:
        """``while``: until nothing new can happen."""
        skipped, entered = [], []
        asked: set[Hashable] = set()
        for w in worlds:
            before = set(w.assumed)
            ways = self._conditions.decide(node.test, w, ctx)
            entered += [world for taken, world in ways if taken]
            asked.update(*(world.assumed.keys() - before for taken, world in ways if taken))
            skipped += [world for taken, world in ways if not taken and len(ways) == 1]
        if not entered:
            return Outcome(skipped)
        result = self._peeled(node, self._flow.fewer(entered), ctx, lambda world, here, number: None)
        for world in result.normal:  # what held when the loop was entered need not hold where it was left
            for condition in asked:
                world.assumed.drop(condition)
        result.normal += skipped
        return result

    def _unrolled(self, node: cst.For, iterable: Value, values: list[Value], w: World, ctx: Context) -> Outcome:
        out = Outcome()
        worlds = self._each(node, values, w, ctx, out)
        for world in worlds:
            self._streams.drained(iterable, world, ctx.site(node.iter))
        if not out.breaks:
            self._domain.branches.left((id(node), ctx.key), worlds, ctx)
        return self._leave(node, worlds, out, ctx)

    def _each(self, node: cst.For, values: list[Value], w: World, ctx: Context, out: Outcome) -> list[World]:
        """An iteration for each of these values: the worlds in which they end, beside the ways out of the loop."""
        worlds = [w]
        turns = set(w.turns)
        live = self._liveness.again(node, ctx)
        for number, value in enumerate(values):
            here = ctx.at(id(node), number).iterating((id(node), ctx.key))
            if _names(value, w):
                here = here.in_phase(id(node), number)
            for world in worlds:
                if self._domain.items.several(value, world):
                    self._lose_count(node, world, here)
                self._flow.bind(node.target, value, world, here, node.target)
            body = self._flow.block(node.body.body, worlds, here)
            out.breaks += body.breaks
            out.returns += body.returns
            self._some(value, [*body.normal, *body.continues, *body.breaks])
            for world in body.normal + body.continues:
                _ended(world, turns)
            worlds = self._flow.fewer(body.normal + body.continues, live)
            if not worlds:
                break
        return worlds

    def _lose_count(self, node: cst.For, w: World, ctx: Context) -> None:
        """One iteration stands for many: a number that each of them changes may be any."""
        frame = w.get(Ref(ctx.frame), Frame)
        for name in _assigned(node.body):
            if frame is not None and isinstance(frame.vars.get(name), Const):
                self._names.assign(name, new_unknown("counter", name), w, ctx)

    def _some(self, value: Value, worlds: list[World]) -> None:
        """A value that stands for several parameters: what was done to it on one way was done to some of them."""
        for key in {key for world in worlds for key in self._domain.items.several(value, world)}:
            having = [world for world in worlds if world.find(key) is not None]  # one way alone may make it
            answers = {getattr(world.find(key), "requires_grad", None) for world in having}
            for world in having if len(answers) > 1 else ():
                world.write(key).requires_grad = None

    def _peeled(
        self, node: cst.For | cst.While, worlds: list[World], ctx: Context, start: Callable[[World, Context, int], None]
    ) -> Outcome:
        """Execute a loop iteration by iteration until nothing new can happen; it runs at least once."""
        since = fresh()
        different = {key for world in worlds[1:] for key, _, _ in worlds[0].disagreements(world)}
        outer = self._outer
        if outer is None:
            self._outer = _Outer(since, different, {})
        try:
            out, ends, at_once = self._iterations(
                node, worlds, ctx, start, _Marks.of(outer, node, ctx, since, different)
            )
        finally:
            self._outer = outer
        if isinstance(node, cst.While) and _always_true(node.test) and ctx.yields is None:
            ends = []  # those who take what a generator yields stop when they like
        out.breaks = self._under_way(out.breaks, at_once, ends, ctx)
        ends = reduce(ends, MAX_EXITS, self._liveness.again(node, ctx))
        if isinstance(node, cst.For):
            self._drained(node, ends, ctx)
        if not out.breaks:
            self._domain.branches.left((id(node), ctx.key), ends, ctx)
        return self._leave(node, ends, out, ctx)

    def _drained(self, node: cst.For, ends: list[World], ctx: Context) -> None:
        """A loop has come to the end of what it goes over."""
        for world in ends:
            frame = world.get(Ref(ctx.frame), Frame)
            iterable = frame.vars.get(_slot(node)) if frame is not None else None
            if iterable is not None:
                self._streams.drained(iterable, world, ctx.site(node.iter))

    def _iterations(
        self,
        node: cst.For | cst.While,
        worlds: list[World],
        ctx: Context,
        start: Callable[[World, Context, int], None],
        marks: _Marks,
    ) -> tuple[Outcome, list[World], list[World]]:
        """Execute iterations: the ways out of them, where they end, and the ways out of the first by ``break``."""
        out = Outcome()
        ends: list[World] = []
        at_once: list[World] = []
        roots = list(ctx.frames())
        since = marks.since
        periodic, varying = all(world.periodic for world in worlds), all(world.varying for world in worlds)
        either = all(world.either_walks for world in worlds)
        turns = {turn for world in worlds for turn in world.turns}
        rounds = self._budget.iterations()
        walked = {key for world in worlds for key in _walks(world)}
        live = self._liveness.again(node, ctx)
        for number in itertools.count():
            aside = self._budget.aside
            here = ctx.at(id(node), number, peeled=True).iterating((id(node), ctx.key))
            for world in worlds:
                start(world, here, number)
            body = self._flow.block(node.body.body, worlds, here)
            out.breaks += body.breaks
            out.returns += body.returns
            if number == 0:
                body.continues = self._not_in_vain(body, walked, since)
            at_once = at_once if number else body.breaks
            worlds = []
            for world in self._flow.fewer(body.normal + body.continues, live):
                world.periodic, world.either_walks, world.varying = periodic, either, varying
                is_last = world.turns.get(LAST) == here.loop
                _ended(world, turns)
                self._forget(world, roots, since, here)
                is_new, goes_on = marks.meet(world, live)
                if is_new:
                    ends.append(world)
                if goes_on and not is_last:
                    worlds.append(world.copy())
            if isinstance(node, cst.While):
                worlds = [
                    end for world in worlds for taken, end in self._conditions.decide(node.test, world, ctx) if taken
                ]
            if aside and not self._budget.aside:
                rounds = self._budget.iterations()
            if not worlds or number + 1 >= rounds:
                break
        return out, ends, at_once

    def _not_in_vain(self, body: Outcome, walked: set[Hashable], since: int) -> list[World]:
        """The worlds in which ``continue`` ends the first iteration.

        A loop that makes backward passes makes one in the first, unless more than the item itself cuts it short.

        Args:
            body: the ends of the first iteration.
            walked: the backward passes made before.
            since: a number of :func:`~gradlint.static.state.origins.fresh`, taken before it.
        """
        ends = [*body.normal, *body.continues]
        trained = [_settled(world, since) for world in ends if not _walks(world) <= walked]
        if not trained:
            return body.continues
        needed = set.intersection(*trained)
        return [w for w in body.continues if not (_walks(w) <= walked and needed <= _settled(w, since))]

    def _under_way(self, breaks: list[World], at_once: list[World], ends: list[World], ctx: Context) -> list[World]:
        """The worlds that leave a loop by ``break``, but for those that leave it before it has bound its variables."""
        others = [set(self._bound(world, ctx)) for world in [*breaks, *ends] if world not in at_once]
        bound = set.intersection(*others) if others else set()
        return [world for world in breaks if world not in at_once or bound <= set(self._bound(world, ctx))]

    def _bound(self, world: World, ctx: Context) -> Iterable[str]:
        frame = world.get(Ref(ctx.frame), Frame)
        return frame.vars if frame is not None else ()

    def _forget(self, world: World, roots: list[int], since: int, ctx: Context) -> None:
        """Drop what an iteration left behind; nothing can read the gradients of inputs among it any more."""
        dropped = forget(world, roots, since)
        self._witness.inputs_done((key for key, _ in dropped if isinstance(_, Group)), world, ctx)
        for key, _ in dropped:
            del world.heap[key]

    def _leave(self, node: cst.For | cst.While, ends: list[World], out: Outcome, ctx: Context) -> Outcome:
        """The end of a loop: its ``else`` runs where it was not left by ``break``."""
        if node.orelse is not None and ends:
            last = self._flow.block(node.orelse.body.body, ends, ctx)
            out.normal = last.normal
            out.returns += last.returns
            left, out.breaks, out.continues = out.breaks, last.breaks, last.continues
        else:
            out.normal, left, out.breaks = ends, out.breaks, []
        out.normal = reduce(out.normal + left, MAX_EXITS, self._liveness.after(node, ctx))
        return out


def _slot(node: cst.For) -> str:
    """The variable that holds what a loop goes over."""
    return f"<iterable {id(node)}>"


def _ended(world: World, turns: set[Hashable]) -> None:
    """An iteration has ended: which turns it took tells nothing of the next one, unlike those of what is around."""
    if world.turns:
        world.turns = {turn: taken for turn, taken in world.turns.items() if turn in turns}


class _Outer(NamedTuple):
    """The outermost loop that runs."""

    since: int  #: a number of :func:`~gradlint.static.state.origins.fresh`, taken before it
    different: set[int]  #: the objects that were not the same in all worlds that came to it
    met: dict[Hashable, set[Hashable]]
    """For each loop in it, by the calls that lead there: the states in which iterations of it have ended."""


@dataclass(slots=True)
class _Marks:
    """The states in which iterations of a loop have ended.

    What follows from a state is known when it comes again: in the same run of the loop, or in one that an earlier
    iteration of an outer loop has made.  Then states are compared by what the outermost loop has changed.
    """

    since: int  #: a number taken before this loop
    origin: int  #: the same before the outermost
    different: set[int]
    stack: tuple[int, ...]  #: the frames on the call stack that the outermost loop has made
    before: set[Hashable]  #: the states of all runs
    seen: set[Hashable] = field(default_factory=set)  #: those of this run

    @classmethod
    def of(
        cls, outer: _Outer | None, node: cst.For | cst.While, ctx: Context, since: int, different: set[int]
    ) -> _Marks:
        """Those of a loop, which may stand in another one, before it runs."""
        if outer is None:
            return cls(since, since, different, (), set())
        before = outer.met.setdefault((id(node), *ctx.units()), set())
        stack = tuple(key for key in ctx.frames() if key > outer.since)
        different = outer.different | {key for key in different if key <= outer.since}
        return cls(since, outer.since, different, stack, before)

    def meet(self, world: World, live: Live | None) -> tuple[bool, bool]:
        """Whether an iteration has ended in a new state, as far as this run goes, and as far as all go."""
        mark = signature(world, self.origin, self.different, live, self.stack)
        is_new, goes_on = mark not in self.seen, mark not in self.before
        self.seen.add(mark)
        self.before.add(mark)
        return is_new, goes_on


def _names(item: Value, w: World) -> bool:
    """Whether an item, or what it holds, is a name or a truth value: it tells what an iteration is for."""
    row = w.get(item, Sequence)
    return any(
        isinstance(part, Const) and isinstance(part.value, (str, bool))
        for part in map(w.resolve, row.items if row is not None else [item])
    )


def _walks(world: World) -> set[Hashable]:
    """Where backward passes were made."""
    return {key for key in world.bound if isinstance(key, tuple) and key[0] == WALKED}


def _settled(world: World, since: int) -> set[tuple[Hashable, bool]]:
    """What is assumed of things that were there at a time."""
    return {(key, holds) for key, holds in world.assumed.items() if newest(key) <= since}


def _always_true(test: cst.BaseExpression) -> bool:
    """Whether a ``while`` loop with this condition can only be left by ``break``."""
    return (isinstance(test, cst.Name) and test.value == "True") or (
        isinstance(test, cst.Integer) and test.value != "0"
    )


def _assigned(node: cst.CSTNode) -> Iterator[str]:
    """The names that a piece of code assigns to."""
    if isinstance(node, (cst.AugAssign, cst.AssignTarget)) and isinstance(node.target, cst.Name):
        yield node.target.value
    for child in children(node):
        yield from _assigned(child)
