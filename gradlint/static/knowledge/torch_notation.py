"""The notation of the torch table: a line of names with the columns in which they differ from the default.

>>> ops("exp sqrt tanh", saves="output", size="keeps")["sqrt"].saves
'output'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gradlint.static.knowledge.ops import Layer, Op

T = TypeVar("T")


def ops(names: str, **columns: Any) -> dict[str, Op]:
    """One row for each of the blank-separated ``names``; ``columns`` are fields of :class:`Op`."""
    op = Op(**columns)
    return dict.fromkeys(names.split(), op)


def layers(names: str, op: Op | None = None, **columns: Any) -> dict[str, Layer]:
    """One row for each of the blank-separated ``names``; ``columns`` are fields of :class:`Layer`."""
    layer = Layer(op=op or Op(), **columns)
    return dict.fromkeys(names.split(), layer)


def merged(*tables: Mapping[str, T]) -> dict[str, T]:
    """All rows of several tables.

    Raises:
        ValueError: if a name has two rows that differ.
    """
    result: dict[str, T] = {}
    for table in tables:
        for name, row in table.items():
            if result.setdefault(name, row) != row:
                raise ValueError(f"the torch table has two rows for {name!r}: {result[name]} and {row}")
    return result


def within(namespace: str, table: Mapping[str, T]) -> dict[str, T]:
    """The table with each name in ``namespace``."""
    return {f"{namespace}.{name}": row for name, row in table.items()}


def words(*lines: str) -> tuple[str, ...]:
    """The blank-separated words of all lines."""
    return tuple(word for line in lines for word in line.split())


def names(namespace: str, *lines: str) -> frozenset[str]:
    """The blank-separated names of all lines, in ``namespace``."""
    return frozenset(f"{namespace}.{name}" if namespace else name for name in words(*lines))


def in_place(names: str, table: Mapping[str, Op]) -> dict[str, Op]:
    """The rows of the operations that change their first input, by the rows of those that do not.

    ``relu_`` is to ``relu`` as ``Tensor.clamp_`` to ``Tensor.clamp``.  Autograd keeps a copy of an input that it
    needs and that is about to be overwritten, so nothing that is still reachable is saved but the output.
    """
    saved = {"": "", "input": "other", "other": "other", "output": "output", "both": "output"}

    def changed(op: Op) -> Op:
        columns: dict[str, Any] = {"saves": saved[op.saves], "size": "keeps", "integral": False, "grad": "inputs"}
        return replace(op, **columns, inplace=True, copies=False, view=False)

    return {f"{name}_": changed(table[name]) for name in names.split()}


def listed(table: Mapping[str, T], *lines: str) -> dict[str, T]:
    """The rows of the blank-separated names of all lines only."""
    return {name: table[name] for name in words(*lines)}
