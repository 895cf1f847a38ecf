"""The keys of what is computed from unknown values, and what follows for a condition from others that were assumed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from gradlint.static.state.origins import (
    Among,
    AttributeOf,
    Combined,
    Comparison,
    ElementOf,
    ItemOf,
    New,
    Operation,
    Origin,
    fresh,
    is_origin,
    operands,
)
from gradlint.static.state.values import Const

Number = int | float
_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DENIED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED: Final = {"==": "==", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_FROM: Final = {"==": 0, ">": 1, ">=": 0}
_UP_TO: Final = {"==": 0, "<": -1, "<=": 0}
_SIGNS: Final[Mapping[str, int]] = {"+": 1, "-": -1}
_EQUALITY: Final = frozenset(["==", "!="])


class _Fact(NamedTuple):
    """``subject symbol constant``."""

    subject: Hashable
    symbol: str
    constant: Number | str

    def denied(self) -> _Fact:
        return self._replace(symbol=_DENIED[self.symbol])


def follows(condition: Hashable, assumed: Mapping[Hashable, bool]) -> bool | None:
    """Whether a condition holds, where others were assumed; None if it may or may not.

    Conditions are told by their keys: those of comparisons, and of values whose truth is meant.
    """
    known = assumed.get(condition)
    if known is not None or not assumed:
        return known
    asked = _read(condition)
    if asked is not None:
        return _answer(asked, [*_facts(asked, assumed)], _values(asked, assumed))
    truth = _Fact(condition, "!=", 0)
    facts = [*_facts(truth, assumed)]
    # What is only known to be different from zero may be None; what is ordered beside numbers is one.
    return _answer(truth, facts) if any(fact.symbol not in _EQUALITY for fact in facts) else None


def parts_of_sum(key: Hashable) -> tuple[Hashable, int] | None:
    """What a whole number was added to, and that number; None where a key is that of no such sum."""
    if not isinstance(key, Operation) or key.symbol not in _SIGNS or not isinstance(key.right, Const):
        return None
    added = key.right.value
    return (key.left, _SIGNS[key.symbol] * added) if type(added) is int else None


def _read(condition: Hashable) -> _Fact | None:
    """The comparison with a constant that a key stands for.

    Of a whole number that is more or less by a constant, as ``n - 2`` is, it is one of that number.  Others that are
    computed are left out: each of two tests of ``i % 4`` holds in its turn, and an iteration stands for many.
    """
    if not isinstance(condition, Comparison) or condition.symbol not in _MIRRORED:
        return None
    symbol, left, right, _ = condition
    if isinstance(left, Const):
        left, right, symbol = right, left, _MIRRORED[symbol]
    if not isinstance(right, Const) or isinstance(left, Const) or not isinstance(right.value, (int, float, str)):
        return None
    constant = right.value
    if isinstance(left, Operation):
        parts = parts_of_sum(left)
        if parts is None or isinstance(constant, str):
            return None
        left, added = parts
        if isinstance(left, Operation):
            return None
        constant -= added
    return _Fact(left, symbol, constant) if constant == constant else None


def _facts(asked: _Fact, assumed: Mapping[Hashable, bool]) -> Iterator[_Fact]:
    """What was assumed of the subject of a comparison, as far as its constants are of the same kind."""
    is_text = isinstance(asked.constant, str)
    for condition, holds in assumed.items():
        if condition == asked.subject:
            # What is false may be None, or any other that is empty: of these nothing is known but what they are not.
            if holds or asked.symbol not in _EQUALITY or asked.constant:
                yield _Fact(condition, "!=" if holds else "==", "" if is_text else 0)
            continue
        fact = _read(condition)
        if fact is not None and fact.subject == asked.subject and isinstance(fact.constant, str) is is_text:
            yield fact if holds else fact.denied()


def _values(asked: _Fact, assumed: Mapping[Hashable, bool]) -> tuple[Number | str, ...]:
    """The values that the subject of a comparison is one of, where that is known and they are of the same kind."""
    for condition, holds in assumed.items():
        if holds and isinstance(condition, Among) and condition.subject == asked.subject:
            kind = str if isinstance(asked.constant, str) else (int, float)
            alike = tuple(value for value in condition.values if isinstance(value, kind))
            return alike if len(alike) == len(condition.values) else ()
    return ()


def _answer(asked: _Fact, facts: list[_Fact], values: tuple[Number | str, ...] = ()) -> bool | None:
    """Whether all values, or none, that the facts allow are as asked.

    Tried are those that are known to be the only ones, or else all constants and what lies between.
    """
    if not facts and not values:
        return None
    constants = sorted({asked.constant, *values, *(fact.constant for fact in facts)})
    place = {constant: 2 * number + 1 for number, constant in enumerate(constants)}

    tried = [place[value] for value in values] or range(2 * len(constants) + 1)
    lowest, highest, excluded = 0, 2 * len(constants), set[int]()
    for fact in facts:  # a long chain of elif has many of them
        at = place[fact.constant]
        if fact.symbol == "!=":
            excluded.add(at)
        if fact.symbol in _FROM:
            lowest = max(lowest, at + _FROM[fact.symbol])
        if fact.symbol in _UP_TO:
            highest = min(highest, at + _UP_TO[fact.symbol])
    holds = _HOLDS[asked.symbol]
    allowed = (value for value in tried if lowest <= value <= highest and value not in excluded)
    answers = {holds(value, place[asked.constant]) for value in allowed}
    return answers.pop() if len(answers) == 1 else None


MOST = 256  #: parts of a key; none is that long which anyone has written by hand

OriginT = TypeVar("OriginT", bound=Origin)


def computed(key: OriginT) -> OriginT | Operation | Combined | New:
    """This key; where it has too many parts, one that tells only what the value was computed from.

    Whole numbers that are added one after the other are added up: ``n - 1 - 1`` is ``n - 2``.
    """
    found = _added_up(key) if isinstance(key, Operation) else key
    if _are_few(found):
        return found
    return Combined(fresh(), tuple(_origins(found))) if _sources(found) else New("large", fresh())


def _added_up(key: Operation) -> Operation:
    whole = parts_of_sum(key)
    before = None if whole is None else parts_of_sum(whole[0])
    if whole is None or before is None:
        return key
    added = before[1] + whole[1]
    return Operation("-" if added < 0 else "+", before[0], Const(abs(added)))


def _are_few(key: Hashable, most: int = MOST) -> bool:
    count, pending = 0, [key]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            count += len(part)
            if count > most:
                return False
            pending += part
    return True


def _sources(key: Hashable) -> tuple[Hashable, ...]:
    """What a value was computed from, or is a part of."""
    match key:
        case AttributeOf(owner) | ItemOf(owner) | ElementOf(_, owner):
            return (owner,)
    return operands(key)


def _origins(key: Hashable) -> list[Hashable]:
    """The keys, each once and not too many, of what a value was computed from and is no longer told how."""
    found: dict[Hashable, None] = {}
    pending = [key]
    while pending and len(found) < MOST:
        part = pending.pop()
        if not is_origin(part):
            continue
        if operands(part) or not _are_few(part, MOST // 8):
            pending += reversed(_sources(part))
        else:
            found[part] = None
    return list(found)
