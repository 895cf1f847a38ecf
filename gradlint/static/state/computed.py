"""The keys of what is computed from unknown values, of a bounded size.

A key says what a value was computed from, and its parts say the same of theirs: without a bound, that of thirty lines
``x = x * x`` had a billion parts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from gradlint.static.state.comparisons import parts_of_sum
from gradlint.static.state.origins import (
    AttributeOf,
    Combined,
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
