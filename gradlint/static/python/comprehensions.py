"""List, set and dict comprehensions, and generator expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import libcst as cst

from gradlint.static.python.budget import Budget
from gradlint.static.python.collections import Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.filling import Filling
from gradlint.static.python.streams import Streams
from gradlint.static.state.context import Context
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import Mapping, Ref, Sequence, Value
from gradlint.static.state.world import World

MAX_CLAUSES = 3  #: of comprehensions in one another, whose second iterations are executed, too


class Comprehensions:
    """Executes the clauses of comprehensions."""

    _budget: Budget
    _domain: Domain
    _execution: Execution
    _collections: Collections
    _conditions: Conditions
    _filling: Filling
    _streams: Streams

    def __init__(self) -> None:
        self._clauses = 0  #: in one another

    def evaluate(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp, w: World, ctx: Context
    ) -> Value:
        """The list or dict that a comprehension builds; that of a set or generator is taken for a list."""
        is_dict = isinstance(node, cst.DictComp)
        ref = w.new(Mapping() if is_dict else Sequence(mutable=True, repeats=True))
        self._generate(node, node.for_in, ref, w, ctx, exact=True)
        return ref

    def _generate(self, node: Any, clause: cst.CompFor, ref: Ref, w: World, ctx: Context, exact: bool) -> None:
        self._clauses += 1
        try:
            self._run_clause(node, clause, ref, w, ctx, exact)
        finally:
            self._clauses -= 1

    def _run_clause(self, node: Any, clause: cst.CompFor, ref: Ref, w: World, ctx: Context, exact: bool) -> None:
        iterable = self._execution.evaluate(clause.iter, w, ctx)
        items = self._collections.iterate(iterable, w, ctx, ctx.site(clause.iter))
        lazy = isinstance(node, cst.GeneratorExp)
        if not lazy:
            self._streams.asked(iterable, "this comprehension", w, ctx, ctx.site(clause.iter))
        rounds: list[tuple[Value | None, Context]]
        if items.known is not None:
            rounds = [(value, ctx.at(id(clause), n)) for n, value in enumerate(items.known)]
        else:
            exact = False
            often = 2 if self._clauses <= MAX_CLAUSES else 1
            rounds = [(None, ctx.at(id(clause), n, peeled=True)) for n in range(often)]
        for value, here in rounds:
            if self._clauses > MAX_CLAUSES:  # each multiplies the others
                self._budget.tick()
            if value is None:
                value = items.element(w, here)
            self._execution.bind(clause.target, value, w, here, clause.target)
            certain = exact and not self._domain.items.several(value, w)
            skipped = False
            for condition in clause.ifs:
                test = w.resolve(self._execution.evaluate(condition.test, w, here))
                truth, _key, _flipped = self._conditions.truth(test, w)
                skipped = skipped or truth is False
                if truth is None:
                    self._conditions.refine_parameter(condition.test, True, w, here)
                certain = certain and truth is True
            if skipped:
                continue
            if clause.inner_for_in is not None:
                self._generate(node, clause.inner_for_in, ref, w, here, certain)
                continue
            self._collect(node, ref, w, here, certain)
        if not lazy:
            self._streams.drained(iterable, w, ctx.site(clause.iter))
        elif clause is node.for_in:
            self._streams.opened(ref, w, (iterable,))

    def _collect(self, node: Any, ref: Ref, w: World, ctx: Context, certain: bool) -> None:
        within = replace(ctx, iteration=fresh())  # what is called there keeps things as it does in a loop
        if isinstance(node, cst.DictComp):
            key = w.resolve(self._execution.evaluate(node.key, w, within))
            value = self._execution.evaluate(node.value, w, within)
            self._filling.set_item(ref, key, value, w, ctx, ctx.site(node.value))
            return
        value = self._execution.evaluate(node.elt, w, within)
        self._filling.append(ref, value, w, ctx, ctx.site(node.elt), certain)
