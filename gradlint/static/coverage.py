"""Which statements of functions were executed: what the calls of a project never came to is followed by itself."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

import libcst as cst

from gradlint.static.nodes import children
from gradlint.static.units import FunctionUnit, Unit

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
        self._met: set[int] = set()  #: ids of nodes
        self._missed: dict[FunctionUnit, frozenset[int]] = {}  #: by their places among the statements of the function
        self.meets: Callable[[int], None] = self._met.add  #: a statement, by the id of its node, is executed

    def settle(self, units: Iterable[Unit]) -> None:
        """An entry point is done, in which these functions were executed; trees may be let go of after this."""
        for unit in units:
            if not isinstance(unit, FunctionUnit) or isinstance(unit.parent, FunctionUnit):
                continue
            before = self._missed.get(unit)
            if before is None or before:
                missed = frozenset(place for place, node in _numbered(unit) if id(node) not in self._met)
                self._missed[unit] = missed if before is None else before & missed
        self._met.clear()

    def missed(self, unit: FunctionUnit) -> Iterator[cst.CSTNode]:
        """The outermost statements of a function that were not executed; none if nothing of it was."""
        places = self._missed.get(unit)
        if places:
            missed = {id(node) for place, node in _numbered(unit) if place in places}
            yield from _outermost(unit.node.body, missed)

    def functions(self) -> Iterator[FunctionUnit]:
        """The functions, and methods, of which something was not executed."""
        return (unit for unit, places in self._missed.items() if places and not isinstance(unit.parent, FunctionUnit))


def _numbered(unit: FunctionUnit) -> Iterator[tuple[int, cst.CSTNode]]:
    return enumerate(_statements(unit.node.body))


def _statements(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements below a node, but for those of functions and classes that are defined there."""
    for child in children(node):
        kind = type(child)
        if kind in _STATEMENTS:
            yield child
        if (kind in _STATEMENTS and kind not in _DEFINITIONS) or kind in _HOLDERS:
            yield from _statements(child)


def _outermost(node: cst.CSTNode, chosen: Container[int]) -> Iterator[cst.CSTNode]:
    """The chosen statements below a node, but for what stands in other ones."""
    for child in children(node):
        kind = type(child)
        if kind in _STATEMENTS and id(child) in chosen:
            yield child
        elif (kind in _STATEMENTS and kind not in _DEFINITIONS) or kind in _HOLDERS:
            yield from _outermost(child, chosen)
