"""What may be executed from a piece of code: the definitions its names lead to, and theirs.

The tracer executes nothing else.  Where none of the features of these texts lets a rule report anything, the code
need not be executed, nor even parsed.  Which code of other files leads to those that are checked is found likewise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from gradlint.static.text.chains import Chain, assigned_in, chains_in, parameters_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, header_of
from gradlint.static.text.registries import Registrations
from gradlint.static.text.scopes import Scope
from gradlint.static.text.triggers import ASIDE, Feature
from gradlint.static.text.units import Statements, Unit

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project

_HOPS = 3  #: from name to name, to what is near by
_NEAR = 200  #: units that are looked at before a thorough search


class Reach:
    """The features of everything that may be executed from a piece of code.

    Args:
        project: where the modules that names lead to are found.
        enough: whether nothing more need be known of what has these features, whatever more it may have; the search
            ends there, unless all of them stand aside.
    """

    def __init__(self, project: Project, enough: Callable[[Feature], bool] = lambda _: False) -> None:
        self._project = project
        self._asked = enough
        self.registrations = Registrations(project, self)
        self._scopes: dict[Module, Scope] = {}
        self._features: dict[Unit, Feature] = {}
        self._of_calls: dict[FunctionUnit, Feature] = {}
        self._near: dict[Unit, Feature] = {}

    def _enough(self, features: Feature) -> bool:
        return self._asked(features) and bool(features & ~ASIDE)

    def features(self, unit: Unit) -> Feature:
        """What may be met by executing a unit that stands in the body of a file."""
        if unit not in self._features and not self._look_around(unit):
            self._search(unit)
        return self._features[unit]

    def features_of_body(self, module: Module) -> Feature:
        """What may be met by executing the statements of a file, definitions left out."""
        found = Feature(0)
        for unit in module.units:
            if not isinstance(unit, (FunctionUnit, ClassUnit)):
                found |= self.features(unit)
        return found

    def features_of_method(self, unit: FunctionUnit, owner: ClassUnit) -> Feature:
        """What may be met by calling a method of an object that was just built."""
        return self.features_of_call(unit) | self.scope(owner.module).of_building(owner)

    def features_of_call(self, unit: FunctionUnit) -> Feature:
        """What may be met by calling a function: of a method, only that method and what it leads to."""
        known = self._of_calls.get(unit)
        if known is None:
            self._of_calls[unit] = Feature(0)  # it may lead back here
            known = self.scope(unit.module).of_method(unit) if unit.parent else self.features(unit)
            self._of_calls[unit] = known
        return known

    def features_of_part(self, unit: FunctionUnit, text: str) -> Feature:
        """What may be met by executing a part of a function, but for what variables of the file lead to."""
        return self.scope(unit.module).of_text(unit, text, definitions=True)

    def stands_aside(self, unit: FunctionUnit) -> bool:
        """Whether calling a function has to do neither with modules nor with gradients: data, figures, files."""
        return not self.features_of_call(unit) & ~ASIDE

    def near(self, start: Unit) -> Feature:
        """What a unit that stands in the body of a file mentions, and what it leads to by a few names."""
        known = self._near.get(start)
        if known is None:
            known = Feature(0)
            seen = reached = {start}
            for _ in range(_HOPS + 1):
                for unit in reached:
                    known |= self.scope(unit.module).mentions(unit)
                reached = {other for unit in reached for other in self.scope(unit.module).led_to(unit)} - seen
                seen |= reached
            self._near[start] = known
        return known

    def _look_around(self, start: Unit) -> bool:
        """Find the features of a unit without going far: from each file only after all that it leads to in itself.

        What is enough is mostly met near by, or nothing leads far away.
        """
        met = Feature(0)
        seen = {start}
        near, far = deque([start]), deque[Unit]()
        entered: set[Module] = set()
        while (near or far) and len(seen) < _NEAR:
            unit = (near or far).popleft()
            entered.add(unit.module)
            known = self._features.get(unit)
            met |= self.scope(unit.module).mentions(unit) if known is None else known
            if self._enough(met):
                break
            for other in self.scope(unit.module).leads_to(unit) if known is None else ():
                if other not in seen:
                    seen.add(other)
                    (near if other.module in entered else far).append(other)
        else:
            if near or far:
                return False
        self._features[start] = met
        return True

    def _search(self, start: Unit) -> None:
        """Tarjan's algorithm: units that lead to each other have the same features."""
        number: dict[Unit, int] = {}
        low: dict[Unit, int] = {}
        places: dict[Unit, int] = {}
        open_units: list[Unit] = []
        features: dict[Unit, Feature] = {}
        stack: list[tuple[Unit, Iterator[Unit]]] = []
        met = Feature(0)

        def enter(unit: Unit) -> None:
            nonlocal met
            scope = self.scope(unit.module)
            number[unit] = low[unit] = len(number)
            features[unit] = scope.mentions(unit)
            places[unit] = len(open_units)
            open_units.append(unit)
            stack.append((unit, iter(scope.leads_to(unit))))
            met |= features[unit]

        enter(start)
        while stack and not self._enough(met):
            unit, rest = stack[-1]
            for other in rest:
                if other in self._features:
                    features[unit] |= self._features[other]
                    met |= self._features[other]
                elif other not in number:
                    enter(other)
                    break
                else:
                    low[unit] = min(low[unit], number[other])
            else:
                stack.pop()
                if low[unit] == number[unit]:
                    place = places[unit]
                    together = Feature(0)
                    for member in open_units[place:]:
                        together |= features[member]
                    self._features.update(dict.fromkeys(open_units[place:], together))
                    del open_units[place:]
                    features[unit] = together
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[unit])
                    features[above] |= features[unit]
        led_to = Feature(0)
        for unit, _ in reversed(stack):  # each of these leads to those above it
            led_to |= features[unit]
            if self._enough(led_to):
                self._features.setdefault(unit, led_to)
        self._features.setdefault(start, met)

    def scope(self, module: Module) -> Scope:
        """The names of a module."""
        scope = self._scopes.get(module)
        if scope is None:
            scope = self._scopes[module] = Scope(self, module)
        return scope

    # --- what names lead to

    def member(self, module: Module, name: str, seen: frozenset[Module] = frozenset()) -> tuple[Unit, ...] | Module:
        """What ``module.name`` means: definitions, a module, or nothing of the project."""
        scope = self.scope(module)
        found = scope.defined.get(name)
        if found:
            return tuple(found)
        if module in seen:
            return ()
        seen |= {module}
        if name in scope.links:
            return scope.linked(name, seen)
        child = self._project.submodule(module, name)
        if child is not None and child not in scope.stars:  # 'from .alexnet import *' may bring a function alexnet
            return child
        for star in scope.stars if child is None else [child]:
            if self._project.offers(star, name) and (behind := self.member(star, name, seen)):
                return behind
        return child or ()

    def module(self, importer: Module, level: int, name: str) -> Module | None:
        """The module of the project that an import statement names."""
        return self._project.imported(level, name, importer)

    def holds(self, importer: Module, level: int, name: str) -> bool:
        """Whether an import statement names a module of the project."""
        return self._project.holds(level, name, importer)


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
    parameters = parameters_in(unit.text) if isinstance(unit, FunctionUnit) else set()
    return [chain for chain in chains if chain.parts[0] not in parameters]
