"""Which statements of functions were executed: what the calls of a project never came to is followed by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.nodes import children

_DEFINITIONS = frozenset([cst.FunctionDef, cst.ClassDef])
_STATEMENTS = _DEFINITIONS | {
    cst.SimpleStatementLine,
    cst.SimpleStatementSuite,
    cst.If,
    cst.For,
    cst.While,
    cst.With,
    cst.Try,
    cst.TryStar,
    cst.Match,
}
_HOLDERS = frozenset(
    [cst.IndentedBlock, cst.Else, cst.Finally, cst.ExceptHandler, cst.ExceptStarHandler, cst.MatchCase]
)


class Coverage:
    """Knows what was not executed of the functions that were."""

    def __init__(self) -> None:
        self._entered: dict[FunctionUnit, None] = {}  #: since the last entry point was done, in order
        self._met: set[int] = set()  #: ids of nodes
        self._missed: dict[FunctionUnit, frozenset[int]] = {}  #: by their places among the statements of the function
        self.meets: Callable[[int], None] = self._met.add  #: a statement, by the id of its node, is executed

    def enters(self, unit: FunctionUnit) -> None:
        """The body of a function is executed, which is parsed for that."""
        if not isinstance(unit.parent, FunctionUnit):
            self._entered[unit] = None

    def settle(self, *, whole: bool = True) -> None:
        """An entry point is done, be it to its end (whole) or not; trees may be let go of after this."""
        for unit in self._entered:
            before = self._missed.get(unit)
            if before or (before is None and whole):
                missed = frozenset(place for place, node in _numbered(unit) if id(node) not in self._met)
                self._missed[unit] = missed if before is None else before & missed
        self._entered.clear()
        self._met.clear()

    def missed(self, unit: FunctionUnit) -> Iterator[cst.CSTNode]:
        """The outermost statements of a function that were not executed; none if nothing of it was."""
        places = self._missed.get(unit)
        if places:
            missed = {id(node) for place, node in _numbered(unit) if place in places}
            yield from _statements(unit.node.body, missed.__contains__)

    def functions(self) -> Iterator[FunctionUnit]:
        """The functions, and methods, of which something was not executed."""
        return (unit for unit, places in self._missed.items() if places)


def _numbered(unit: FunctionUnit) -> Iterator[tuple[int, cst.CSTNode]]:
    return enumerate(_statements(unit.node.body))


def _statements(node: cst.CSTNode, ends: Callable[[int], bool] | None = None) -> Iterator[cst.CSTNode]:
    """The statements below a node, but for those of functions and classes that are defined there.

    Args:
        node: where they stand.
        ends: which of them are wanted, by their ids, without what stands in them; all if not given.
    """
    for child in children(node):
        kind = type(child)
        wanted = kind in _STATEMENTS and (ends is None or ends(id(child)))
        if wanted:
            yield child
        if kind in _HOLDERS or (kind in _STATEMENTS and kind not in _DEFINITIONS and not (wanted and ends)):
            yield from _statements(child, ends)
