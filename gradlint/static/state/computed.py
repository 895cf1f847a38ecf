"""The keys of what is computed from unknown values, of a bounded size.

A key says what a value was computed from, and its parts say the same of theirs: without a bound, that of thirty lines
``x = x * x`` had a billion parts.
"""

from __future__ import annotations

from collections.abc import Hashable

from gradlint.static.state.comparisons import parts_of_sum
from gradlint.static.state.values import Const
from gradlint.static.state.world import fresh

MOST = 256  #: parts of a key; none is that long which anyone has written by hand
_FROM = {"attribute": 1, "item": 1, "element": 2}  #: where the key stands of what these are taken from
_OF_ALL = frozenset(
    {"binary", "join", "sum", "unary"}
)  #: computed from all that the third part and those behind it say


def computed(*key: Hashable) -> tuple[Hashable, ...]:
    """The key with these parts; where they are too many, one that tells only what the value was computed from.

    Whole numbers that are added one after the other are added up: ``n - 1 - 1`` is ``n - 2``.
    """
    if key[0] == "binary":
        key = _added_up(key)
    if _are_few(key):
        return key
    return ("sum", fresh(), *_origins(key)) if key[0] in _OF_ALL or key[0] in _FROM else ("large", fresh())


def _added_up(key: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    whole = parts_of_sum(key)
    before = None if whole is None else parts_of_sum(whole[0])
    if whole is None or before is None:
        return key
    added = before[1] + whole[1]
    return ("binary", "-" if added < 0 else "+", before[0], Const(abs(added)))


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


def _origins(key: Hashable) -> list[Hashable]:
    """The keys, each once and not too many, of what a value was computed from and is no longer told how."""
    found: dict[Hashable, None] = {}
    pending = [key]
    while pending and len(found) < MOST:
        part = pending.pop()
        if not isinstance(part, tuple) or not part:
            continue
        if part[0] in _OF_ALL:
            pending += reversed(part[2:])
        elif part[0] in _FROM and not _are_few(part, MOST // 8):
            pending += part[_FROM[part[0]] :][:1]
        else:
            found[part] = None
    return list(found)
