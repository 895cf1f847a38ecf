"""Which code of other files leads to those that are checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from gradlint.static.text.chains import Chain, assigned_in, chains_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, header_of
from gradlint.static.text.triggers import Feature
from gradlint.static.text.units import Statements, Unit

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.reach import Reach


_HEADER = re.compile(r"\bdef\s+\w+(?:\[[^\]]*\])?\s*\(")
_PARAMETER = re.compile(r"(?:\s|#[^\n]*\n|[*/],?)*(\w+)")
_MARK = re.compile(r"[\[({\])},]|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*")
_OPENING, _CLOSING = frozenset("[({"), frozenset("])}")


class Callers:
    """Tells which units lead to one of some files.

    Args:
        reach: what names mean.
        targets: the files.
    """

    def __init__(self, reach: Reach, targets: Iterable[Module]) -> None:
        self._reach = reach
        self._targets = tuple(targets)
        self._bound: dict[Unit, set[str]] = {}
        self._others: set[Unit] = set()

    @cached_property
    def _leading(self) -> set[Unit]:
        """What is known to lead there."""
        return {
            unit
            for module in self._targets
            for unit in module.units
            if self._reach.scope(module).mentions(unit) != Feature(0)  # nothing is reported where nothing is met
        }

    def among(self, units: Iterable[Unit]) -> list[Unit]:
        """Those of some units from which execution may get to one of the files, be it through others."""
        return [unit for unit in units if self._leads(unit)]

    def _leads(self, start: Unit) -> bool:
        path, seen = [(start, self._ahead(start))], {start}
        while path:
            unit, ahead = path[-1]
            if unit in self._leading:
                self._leading.update(each for each, _ in path)
                return True
            other = next((each for each in ahead if each not in seen and each not in self._others), None)
            if other is None:
                path.pop()
            else:
                seen.add(other)
                path.append((other, self._ahead(other)))
        self._others |= seen
        return False

    def _ahead(self, unit: Unit) -> Iterator[Unit]:
        """What is executed, or looked at, by executing a unit."""
        if isinstance(unit, Statements):
            yield from unit.statements
            return
        scope, registrations = self._reach.scope(unit.module), self._reach.registrations
        named: list[Unit] = []
        for chain in _chains_of(unit):
            for other in scope.targets(chain) if chain.parts[0] else ():
                if isinstance(other, (FunctionUnit, ClassUnit)) or not self._binds(other).isdisjoint(chain.parts):
                    named.append(other)
                    yield other
        yield from registrations.kept_by(unit)
        yield from registrations.entered(unit.module, named)

    def _binds(self, unit: Unit) -> set[str]:
        known = self._bound.get(unit)
        if known is None:
            known = self._bound[unit] = assigned_in(unit.text)
        return known


def _chains_of(unit: Unit) -> Iterable[Chain]:
    """The chains of names in a unit, but for those that begin with a parameter of the function they stand in."""
    if isinstance(unit, ClassUnit):
        parts = (chain for part in unit.body for chain in _chains_of(part))
        return dict.fromkeys((*chains_in(header_of(unit)), *parts))
    chains = () if unit.is_import else chains_in(unit.text)
    parameters = _parameters(unit.text) if isinstance(unit, FunctionUnit) else set()
    return [chain for chain in chains if chain.parts[0] not in parameters]


def _parameters(text: str) -> set[str]:
    """The names of the parameters of a function."""
    header = _HEADER.search(text)
    found: set[str] = set()
    depth, place = 1, header.end() if header else len(text)
    while depth and (name := _PARAMETER.match(text, place)):
        found.add(name[1])
        place = name.end()
        for mark in _MARK.finditer(text, place):
            depth += (mark[0] in _OPENING) - (mark[0] in _CLOSING)
            place = mark.end()
            if not depth or (depth == 1 and mark[0] == ","):
                break
    return found
