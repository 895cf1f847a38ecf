"""Patterns: whether what ``match`` looks at is like what a ``case`` asks for, and the names that are bound by it."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from gradlint.static.python.attributes import Attributes
from gradlint.static.python.binding import Names
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.reflection import Reflection
from gradlint.static.state.context import Context
from gradlint.static.state.values import (
    Class,
    Const,
    External,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World

Ways = list[tuple[bool, World]]
"""The ways a pattern may turn out, each with the world in which it does."""

_PLAIN = frozenset(f"builtins.{name}" for name in ("bool", "bytes", "dict", "float", "int", "list", "str", "tuple"))
"""Classes of which a pattern may take the object itself by its only position: ``str(name)``."""


class Patterns:
    """Compares values with patterns, and parts the worlds in which they turn out differently."""

    _domain: Domain
    _execution: Execution
    _definitions: Definitions
    _names: Names
    _attributes: Attributes
    _conditions: Conditions
    _reflection: Reflection

    def decide(self, case: cst.MatchCase, subject: Value, w: World, ctx: Context) -> Ways:
        """The ways a case may turn out for a value that is matched; where it is taken, its names are bound."""
        ways = self._matches(case.pattern, subject, w, ctx)
        if case.guard is None:
            return ways
        guard = case.guard
        return [
            way for taken, world in ways for way in (self._guarded(guard, world, ctx) if taken else [(taken, world)])
        ]

    def _guarded(self, guard: cst.BaseExpression, w: World, ctx: Context) -> Ways:
        return self._conditions.decide(guard, w, ctx)

    def _matches(self, pattern: cst.CSTNode, subject: Value, w: World, ctx: Context) -> Ways:
        subject = w.resolve(subject)
        if isinstance(pattern, (cst.MatchValue, cst.MatchSingleton)):
            return self._equal(pattern, subject, w, ctx)
        if isinstance(pattern, cst.MatchAs):
            ways = [(True, w)] if pattern.pattern is None else self._matches(pattern.pattern, subject, w, ctx)
            for world in (world for taken, world in ways if taken and pattern.name is not None):
                self._bind(pattern.name, subject, world, ctx)
            return ways
        if isinstance(pattern, cst.MatchOr):
            return self._any(pattern, subject, w, ctx)
        if isinstance(pattern, cst.MatchSequence):
            return self._sequence(pattern, subject, w, ctx)
        if isinstance(pattern, cst.MatchMapping):
            return self._mapping(pattern, subject, w, ctx)
        if isinstance(pattern, cst.MatchClass):
            return self._class(pattern, subject, w, ctx)
        return self._perhaps(pattern, w, ctx)

    def _bind(self, name: cst.Name | None, value: Value, w: World, ctx: Context) -> None:
        if name is not None:
            self._names.assign(name.value, value, w, ctx)

    # --- values

    def _equal(self, pattern: cst.MatchValue | cst.MatchSingleton, subject: Value, w: World, ctx: Context) -> Ways:
        if w.get(subject, Tensor) is not None:
            return [(True, w.copy()), (False, w)]
        value = w.resolve(self._execution.evaluate(pattern.value, w, ctx))
        ways = self._conditions.parted(self._conditions.equality(subject, value, w), w)
        for world in (world for taken, world in ways if taken and len(ways) > 1):
            self._conditions.found_equal(subject, value, world, ctx.site(pattern))
        return ways

    def _any(self, pattern: cst.MatchOr, subject: Value, w: World, ctx: Context) -> Ways:
        taken, left = [], [w]
        for element in pattern.patterns:
            ways = [way for world in left for way in self._matches(element.pattern, subject, world, ctx)]
            taken += [way for way in ways if way[0]]
            left = [world for matched, world in ways if not matched]
        return [*taken, *((False, world) for world in left)]

    # --- what holds others

    def _all(self, parts: Iterable[tuple[cst.CSTNode, Value]], ways: Ways, ctx: Context) -> Ways:
        """The ways in which all parts of a value match patterns of their own, and those in which one does not."""
        for pattern, value in parts:
            ways = [
                way
                for taken, world in ways
                for way in (self._matches(pattern, value, world, ctx) if taken else [(False, world)])
            ]
        return ways

    def _sequence(self, pattern: cst.MatchSequence, subject: Value, w: World, ctx: Context) -> Ways:
        row = w.get(subject, Sequence)
        stars = [n for n, part in enumerate(pattern.patterns) if isinstance(part, cst.MatchStar)]
        if isinstance(subject, Const) or w.get(subject, Mapping) is not None:
            return [(False, w)]
        if row is None or row.tail is not None:
            return self._perhaps(pattern, w, ctx)
        behind = len(pattern.patterns) - stars[0] - 1 if stars else 0
        most, least = len(row.items), len(pattern.patterns) - len(stars)
        if most < least or (most > least and not stars):
            return [(False, w)]
        parts: list[tuple[cst.CSTNode, Value]] = []
        for number, part in enumerate(pattern.patterns):
            if isinstance(part, cst.MatchStar):
                rest = row.items[number : most - behind]
                self._bind(part.name, w.new(Sequence(list(rest), [None] * len(rest))), w, ctx)
            else:
                parts.append(
                    (part.value, row.items[number - len(pattern.patterns) if stars and number > stars[0] else number])
                )
        return self._all(parts, [(True, w)], ctx)

    def _mapping(self, pattern: cst.MatchMapping, subject: Value, w: World, ctx: Context) -> Ways:
        known = w.get(subject, Mapping)
        if known is None:
            return self._perhaps(pattern, w, ctx)
        items = dict(known.items)
        parts: list[tuple[cst.CSTNode, Value]] = []
        for element in pattern.elements:
            value = items.pop(w.resolve(self._execution.evaluate(element.key, w, ctx)), None)
            if value is None and known.tail is None:
                return [(False, w)]
            if value is None:
                return self._perhaps(pattern, w, ctx)
            parts.append((element.pattern, value))
        self._bind(pattern.rest, w.new(Mapping(items, known.tail)), w, ctx)
        return self._all(parts, [(True, w)], ctx)

    def _class(self, pattern: cst.MatchClass, subject: Value, w: World, ctx: Context) -> Ways:
        kind = w.resolve(self._execution.evaluate(pattern.cls, w, ctx))
        asked = self._reflection.is_instance(subject, [kind], w)
        ways = self._conditions.parted(asked, w)
        if isinstance(subject, Unknown):
            for world in (world for taken, world in ways if taken and len(ways) > 1):
                self._domain.values.checked(subject, kind, world, ctx.site(pattern))
        return [
            way
            for taken, world in ways
            for way in (self._fields(pattern, subject, kind, world, ctx) if taken else [(False, world)])
        ]

    def _fields(self, pattern: cst.MatchClass, subject: Value, kind: Value, w: World, ctx: Context) -> Ways:
        """The ways in which the attributes of an object, which is of the class of a pattern, match its parts."""
        named = [(part.key.value, part.pattern) for part in pattern.kwds]
        parts: list[tuple[cst.CSTNode, Value]] = []
        if pattern.patterns and isinstance(kind, External) and kind.name in _PLAIN:
            parts.append((pattern.patterns[0].value, subject))
        else:
            names = self._positions(kind, subject, w)
            if len(names) < len(pattern.patterns):
                return self._perhaps(pattern, w, ctx)
            named = [*zip(names, (part.value for part in pattern.patterns), strict=False), *named]
        parts += [(part, self._attributes.get(subject, name, w, ctx, ctx.site(pattern))) for name, part in named]
        return self._all(parts, [(True, w)], ctx)

    def _positions(self, kind: Value, subject: Value, w: World) -> list[str]:
        """The names of the attributes that the positions of a pattern stand for, as far as they are known."""
        if not isinstance(kind, Class):
            return []
        given = w.get(self._definitions.attribute(kind, "__match_args__", w) or kind, Sequence)
        if given is not None:
            return [str(name.value) for name in map(w.resolve, given.items) if isinstance(name, Const)]
        row, obj = w.get(subject, Sequence), w.get(subject, Instance)
        if row is not None:
            return list(row.fields)
        is_record = obj is not None and self._definitions.is_record(obj)
        return list(self._definitions.annotated_fields(kind)) if is_record else []

    def _perhaps(self, pattern: cst.CSTNode, w: World, ctx: Context) -> Ways:
        """A pattern of which it is not known whether it matches, nor what its names are bound to."""
        taken = w.copy()
        for name in captured(pattern):
            self._names.assign(name, new_unknown("match", name), taken, ctx)
        return [(True, taken), (False, w)]


def captured(pattern: cst.CSTNode) -> Iterable[str]:
    """The names that a pattern binds."""
    for child in pattern.children:
        yield from captured(child)
    name = pattern.name if isinstance(pattern, (cst.MatchAs, cst.MatchStar)) else None
    if isinstance(pattern, cst.MatchMapping):
        name = pattern.rest
    if name is not None:
        yield name.value
