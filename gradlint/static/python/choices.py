"""Values that are one of two."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import replace

from gradlint.static.python.counting import Counting
from gradlint.static.python.domain import Domain
from gradlint.static.state.joining import alternatives_of
from gradlint.static.state.origins import Comparison, OneOf, fresh
from gradlint.static.state.values import (
    NONE,
    Assumptions,
    Choice,
    Const,
    Mapping,
    Object,
    Sequence,
    Unknown,
    Value,
)
from gradlint.static.state.world import World


class Choices:
    """Brings values of one world together."""

    _counting: Counting
    _domain: Domain

    def either(self, a: Value, b: Value, w: World, *, repeated: bool = False) -> Value:
        """A value that is one of two, in the same world; of dicts that a loop makes repeatedly, one stands for all."""
        a, b = w.resolve(a), w.resolve(b)
        if a == b:
            return a
        left, right = w.get(a, Object), w.get(b, Object)
        if isinstance(left, Sequence) and isinstance(right, Sequence) and len(left.items) == len(right.items):
            pairs = zip(left.items, right.items, strict=True)
            joined_row: Sequence = left.copy()
            joined_row.items = [self.either(x, y, w, repeated=repeated) for x, y in pairs]
            joined_row.tail = self._of_tails(left.tail, right.tail, w, repeated)
            joined_row.own, joined_row.held = left.own | right.own, left.held & right.held
            joined_row.loses, joined_row.clears = left.loses or right.loses, left.clears | right.clears
            return w.new(joined_row)
        if (
            repeated
            and isinstance(left, Mapping)
            and isinstance(right, Mapping)
            and left.items.keys() == right.items.keys()
        ):
            values = {key: self.either(left.items[key], right.items[key], w, repeated=True) for key in left.items}
            return w.new(Mapping(values, self._of_tails(left.tail, right.tail, w, repeated), left.factory))
        known = self._domain.values.either(a, b, w)
        if known is not None:
            return known
        alternatives = alternatives_of(a, b, w)
        return Unknown(OneOf(fresh())) if alternatives is None else Choice(fresh(), alternatives)

    def _of_tails(self, a: Value | None, b: Value | None, w: World, repeated: bool) -> Value | None:
        if a is None or b is None:
            return a if b is None else b
        return self.either(a, b, w, repeated=repeated)

    def by_key(
        self, value: Value, items: AbstractMapping[Value, Value], key: Value, w: World, default: Value | None = None
    ) -> Value:
        """What was looked up by a key that is not known: which value it is tells the key, and the other way round."""
        if not isinstance(value, Choice) or not isinstance(key, Unknown) or self._counting.counts(key):
            return value
        if not all(isinstance(each, Const) for each in items):
            return value
        keys: dict[Value, list[Value]] = {}
        for each, item in items.items():
            keys.setdefault(w.resolve(item), []).append(each)
        others = tuple((Comparison("==", key.key, each), False) for each in items)
        conditions: list[Assumptions] = []
        for alternative in value.alternatives:
            own = keys.get(alternative, [])
            if len(own) == 1 and alternative != default:
                conditions.append(((Comparison("==", key.key, own[0]), True),))
            else:
                conditions.append(others if alternative == default and not own else ())
        return replace(value, conditions=tuple(conditions))

    def used(self, value: Value, w: World) -> Value:
        """What a value turns out to be where it is called a method of, computed with, indexed or unpacked: not None."""
        if not isinstance(value, Choice) or NONE not in value.alternatives:
            return value
        rest = tuple(alternative for alternative in value.alternatives if alternative != NONE)
        w.bound[value.key] = rest[0] if len(rest) == 1 else Choice(fresh(), rest)
        return w.resolve(value)
