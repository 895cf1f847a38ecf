"""The keys of what is computed from unknown values, and what follows for a condition from others that were assumed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
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


class _Known:
    """What was assumed of one subject, by comparisons with constants of one kind.

    A long chain of ``elif`` assumes much of it, which is asked for at each: only the closest bounds are kept.
    """

    __slots__ = ("among", "equal", "lower", "unequal", "upper")

    def __init__(self) -> None:
        self.equal: set[Number | str] = set()
        self.unequal: set[Number | str] = set()
        self.lower: _Fact | None = None
        self.upper: _Fact | None = None
        self.among: tuple[object, ...] | None = None  #: the values that it is one of

    def copy(self) -> _Known:
        new = _Known()
        new.equal, new.unequal = self.equal.copy(), self.unequal.copy()
        new.lower, new.upper, new.among = self.lower, self.upper, self.among
        return new

    def learn(self, fact: _Fact) -> None:
        if fact.symbol in _EQUALITY:
            (self.equal if fact.symbol == "==" else self.unequal).add(fact.constant)
        elif fact.symbol in _FROM:
            self.lower = fact if self.lower is None or _is_within(fact, self.lower) else self.lower
        else:
            self.upper = fact if self.upper is None or _is_within(fact, self.upper) else self.upper

    def facts(self, asked: Iterable[Number | str]) -> list[_Fact]:
        """What counts where some constants are asked for: of others it does not matter that it is not equal to them."""
        found = [fact for fact in (self.lower, self.upper) if fact is not None]
        met = {*asked, *self.equal, *(fact.constant for fact in found)}
        found += [_Fact(None, "==", constant) for constant in self.equal]
        return found + [_Fact(None, "!=", constant) for constant in met if constant in self.unequal]


class Assumed(dict[Hashable, bool]):
    """The truth of conditions as a world has assumed it, told by their keys.

    These are the keys of comparisons, and of values whose truth is meant.
    """

    __slots__ = ("_known",)

    def __init__(self, conditions: Mapping[Hashable, bool] | Iterable[tuple[Hashable, bool]] = ()) -> None:
        super().__init__(conditions)
        self._known: dict[tuple[Hashable, bool | None], _Known] | None = None
        """By the subject, and whether the constants are texts (None: what it is among); made when first asked for."""

    def copy(self) -> Assumed:
        """The same conditions, to which others may be added."""
        new = Assumed(self)
        new._known = self._known if self._known is None else self._known.copy()
        return new

    def __setitem__(self, condition: Hashable, holds: bool) -> None:
        if self._known is not None:
            if condition not in self:
                self._learn(self._known, condition, holds, new=False)
            elif self[condition] is not holds:
                self._known = None
        super().__setitem__(condition, holds)

    def assume(self, conditions: Iterable[tuple[Hashable, bool]]) -> None:
        """Assume some more."""
        for condition, holds in conditions:
            self[condition] = holds

    def drop(self, condition: Hashable) -> bool:
        """Assume it no more; whether it was assumed to hold."""
        if condition in self:
            self._known = None
        return self.pop(condition, False)

    def follows(self, condition: Hashable) -> bool | None:
        """Whether a condition holds; None if it may or may not."""
        known = self.get(condition)
        if known is not None or not self:
            return known
        asked = _read(condition)
        if asked is not None:
            among = self._values(asked)
            return _answer(asked, self._facts(asked, among), among)
        truth = _Fact(condition, "!=", 0)
        facts = self._facts(truth)
        # What is only known to be different from zero may be None; what is ordered beside numbers is one.
        return _answer(truth, facts) if any(fact.symbol not in _EQUALITY for fact in facts) else None

    def _facts(self, asked: _Fact, among: tuple[Number | str, ...] = ()) -> list[_Fact]:
        """What was assumed of the subject of a comparison, as far as its constants are of the same kind."""
        is_text = isinstance(asked.constant, str)
        known = self._index().get((asked.subject, is_text))
        found = [] if known is None else known.facts((asked.constant, *among))
        holds = self.get(asked.subject)
        # What is false may be None, or any other that is empty: of these nothing is known but what they are not.
        if holds or (holds is not None and (asked.symbol not in _EQUALITY or asked.constant)):
            found.append(_Fact(None, "!=" if holds else "==", "" if is_text else 0))
        return found

    def _values(self, asked: _Fact) -> tuple[Number | str, ...]:
        """The values that the subject of a comparison is one of, where that is known and they are of the same kind."""
        known = self._index().get((asked.subject, None))
        if known is None or known.among is None:
            return ()
        kind = str if isinstance(asked.constant, str) else (int, float)
        alike = tuple(value for value in known.among if isinstance(value, kind))
        return alike if len(alike) == len(known.among) else ()

    def _index(self) -> dict[tuple[Hashable, bool | None], _Known]:
        if self._known is None:
            known: dict[tuple[Hashable, bool | None], _Known] = {}
            for condition, holds in self.items():
                self._learn(known, condition, holds, new=True)
            self._known = known
        return self._known

    @staticmethod
    def _learn(
        known: dict[tuple[Hashable, bool | None], _Known], condition: Hashable, holds: bool, *, new: bool
    ) -> None:
        """Learn a condition; what is known of its subject is not new where another world knows it, too."""
        fact = _read(condition)
        if fact is not None:
            key: tuple[Hashable, bool | None] = (fact.subject, isinstance(fact.constant, str))
        elif holds and isinstance(condition, Among):
            key = (condition.subject, None)
        else:
            return
        before = known.get(key)
        of_subject = known[key] = _Known() if before is None else before if new else before.copy()
        if fact is not None:
            of_subject.learn(fact if holds else fact.denied())
        elif isinstance(condition, Among) and of_subject.among is None:
            of_subject.among = condition.values


def _is_within(fact: _Fact, bound: _Fact) -> bool:
    """Whether a bound leaves no more than another one of the same side."""
    if fact.constant == bound.constant:
        return fact.symbol in (">", "<")
    holds = _HOLDS[fact.symbol[0]]
    return holds(fact.constant, bound.constant)  # type: ignore[arg-type] # both are texts, or both numbers


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
    for fact in facts:
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
