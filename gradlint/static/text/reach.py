"""What may be executed from a piece of code: the definitions its names lead to, and theirs.

The tracer executes nothing else.  Where none of the features of these texts lets a rule report anything, the code
need not be executed, nor even parsed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.knowledge.torch_table import TEST_SETUPS, TRAINING_STEPS, returns_new
from gradlint.static.text.chains import Chain, assigned_in, chains_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, reached_from
from gradlint.static.text.index import (
    AMENDED,
    AUGMENTED,
    AUGMENTED_NAME,
    BASES,
    CONVERTED,
    INIT_SUBCLASS,
    OVERWRITING,
    STATEMENT_CALL,
    WRAPPED,
    ends_statement,
    gives_container,
    guesses,
    initializes_late,
    keeps_container,
    misspells,
    repeats,
)
from gradlint.static.text.registries import Entered, Registrations
from gradlint.static.text.triggers import ASIDE, Feature, Foreign, features_of, is_layer, is_module_base, makes_tensor
from gradlint.static.text.units import Statements, Unit, together

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.project import Project

_HOPS = 3  #: from name to name, to what is near by
_MANY = 32  #: units of one name, above which their statements are looked at as one
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
        self._scopes: dict[Module, _Scope] = {}
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

    def scope(self, module: Module) -> _Scope:
        """The names of a module."""
        scope = self._scopes.get(module)
        if scope is None:
            scope = self._scopes[module] = _Scope(self, module)
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


class _Scope:
    """The names of a module."""

    def __init__(self, reach: Reach, module: Module) -> None:
        self._reach = reach
        self._module = module
        self._mentioned: dict[Unit, Feature] = {}
        self._leading: dict[Unit, tuple[Unit, ...]] = {}
        self._of_bodies: dict[ClassUnit, Feature] = {}
        self._targets: dict[str, Module | None] = {}  #: the files behind links, as far as they were followed
        self.defined: dict[str, list[Unit]] = {}
        self.links: dict[str, tuple[int, str, str | None]] = {}  #: names that come from other files of the project
        self.stars: list[Module] = []
        names: dict[str, str] = {}
        star = False
        for level, name, item, bound in module.imports:
            if item == "*":
                star = True
                target = reach.module(module, level, name)
                if target is not None:
                    self.stars.append(target)
            elif reach.holds(module, level, name):
                self.links[bound] = level, name, item
            else:
                names[bound] = name if item is None else f"{name}.{item}"
        self.foreign = Foreign(names, star, frozenset(self.links))
        for unit in module.units:
            for name in self._bound_by(unit):
                self.defined.setdefault(name, []).append(unit)
        self._many = {name: together(units) for name, units in self.defined.items() if len(units) > _MANY}

    def linked(self, name: str, seen: frozenset[Module] = frozenset()) -> tuple[Unit, ...] | Module:
        """What a name means that an import statement has brought from another file."""
        level, module, item = self.links[name]
        if name not in self._targets:
            self._targets[name] = self._reach.module(self._module, level, module)
        target = self._targets[name]
        if target is None:
            return ()
        return target if item is None else self._reach.member(target, item, seen)

    def _bound_by(self, unit: Unit) -> Iterable[str]:
        """The names that a unit of the body binds, or whose objects it may change."""
        if isinstance(unit, (FunctionUnit, ClassUnit)):
            return (unit.name,)
        text = unit.text
        if unit.is_import or text.startswith(('"', "'")):
            return ()
        bound = assigned_in(text) | {chain.parts[0] for chain in chains_in(text)}
        return bound - self.foreign.names.keys() - self.links.keys()

    def mentions(self, unit: Unit) -> Feature:
        """The features of a unit's own text."""
        known = self._mentioned.get(unit)
        if known is None and isinstance(unit, Statements):
            return Feature(0)
        if known is None:
            known = self._mentioned[unit] = self._features(unit, unit.text, _chains(unit))
        return known

    def led_to(self, unit: Unit) -> Iterator[Unit]:
        """The units that the names in a unit lead to, in the order of its text; not those in registries."""
        for other in self.leads_to(unit):
            if isinstance(other, Statements):
                yield from () if isinstance(other, Entered) else other.statements
            else:
                yield other

    def leads_to(self, unit: Unit) -> tuple[Unit, ...]:
        """The same, where some stand for many statements."""
        if isinstance(unit, Statements):
            return unit.statements
        known = self._leading.get(unit)
        if known is None:
            named = self._leads_to(unit, _chains(unit))
            registrations = self._reach.registrations
            entered = registrations.entered(self._module, named)
            known = self._leading[unit] = tuple(dict.fromkeys((*named, *registrations.kept_by(unit), *entered)))
        return known

    def hooked(self, unit: ClassUnit, seen: frozenset[Unit] = frozenset()) -> Iterator[ClassUnit]:
        """The classes behind one that are told of those that are derived from them."""
        bases = BASES.search(unit.text)
        for chain in chains_in(bases[1]) if bases is not None and unit not in seen else ():
            for base in self.targets(chain):
                if isinstance(base, ClassUnit) and base is not unit:
                    if INIT_SUBCLASS in base.methods:
                        yield base
                    yield from self._reach.scope(base.module).hooked(base, seen | {unit})

    def of_method(self, unit: FunctionUnit) -> Feature:
        """The features of a method, or of a function inside of another, and of what it leads to."""
        return self.of_text(unit, unit.text)

    def of_text(self, unit: FunctionUnit, text: str, *, definitions: bool = False) -> Feature:
        """The features of some text of a function, and of what that leads to, or of the definitions among that."""
        chains = chains_in(text)
        found = self._features(unit, text, chains)
        top: Unit = unit
        while top.parent is not None:
            top = top.parent
        for other in self._leads_to(top, chains):
            if not definitions or isinstance(other, (FunctionUnit, ClassUnit)):
                found |= self._reach.features(other)
        owner = unit.class_unit
        if owner is not None:
            for name in {part for chain in chains for part in chain.parts} & owner.methods.keys():
                found |= self._reach.features_of_call(owner.methods[name])
        return found

    def of_building(self, unit: ClassUnit) -> Feature:
        """What an object of a class may hold, once it is built: its bases are looked at as a whole."""
        found = self.mentions(unit) & (Feature.MODULE | Feature.PLAIN | Feature.BUILT)
        found |= self._of_class_body(unit)
        for name in ("__init__", "__post_init__", *TEST_SETUPS):
            if name in unit.methods:
                found |= self._reach.features_of_call(unit.methods[name])
        bases = BASES.search(unit.text)
        for chain in chains_in(bases[1]) if bases is not None else ():
            found |= features_of(chain, self.foreign)
            for base in self.targets(chain):
                if base is not unit:
                    found |= self._reach.features(base)
        return found

    def _of_class_body(self, unit: ClassUnit) -> Feature:
        """The features of what a class holds itself: attributes that all its objects have."""
        known = self._of_bodies.get(unit)
        if known is None:
            text = unit.text
            for method in unit.methods.values():
                text = text.replace(method.text, "", 1)
            known = Feature(0)
            for chain in chains_in(text):
                known |= features_of(chain, self.foreign)
            self._of_bodies[unit] = known
        return known

    def _leads_to(self, unit: Unit, chains: Iterable[Chain]) -> tuple[Unit, ...]:
        found: dict[Unit, None] = {}
        for chain in chains:
            for part in chain.parts:
                found.update(dict.fromkeys(self._many.get(part) or self.defined.get(part) or ()))
            first = chain.parts[0] or chain.parts[1]
            if first in self.links or first not in self.defined:
                found.update(dict.fromkeys(self.targets(chain)))
        found.pop(unit, None)
        return tuple(found)

    def targets(self, chain: Chain) -> tuple[Unit, ...]:
        """What a chain of names leads to, by the first of them that is known."""
        place = 0 if chain.parts[0] else 1
        first = chain.parts[place]
        if first in self.links:
            here = self.linked(first)
        elif first in self.defined:
            return tuple(self.defined[first])
        else:
            here = self._reach.member(self._module, first) if self.stars else ()
        while not isinstance(here, tuple):
            place += 1
            if place == len(chain.parts):  # the module as a whole is handed on
                return tuple(unit for unit in here.units if isinstance(unit, (FunctionUnit, ClassUnit)))
            here = self._reach.member(here, chain.parts[place])
        return here

    # --- what is mentioned

    def _features(self, unit: Unit, text: str, chains: Iterable[Chain]) -> Feature:
        found = Feature(0)
        for chain in chains:
            found |= features_of(chain, self.foreign)
        told = ((AUGMENTED, Feature.AUGMENTED), (AMENDED, Feature.AMENDED), (OVERWRITING, Feature.OVERWRITES))
        for pattern, feature in told:
            found |= feature if pattern.search(text) else Feature(0)
        changes = bool(found & (Feature.AUGMENTED | Feature.IN_PLACE)) or AUGMENTED_NAME.search(text) is not None
        if not changes and isinstance(unit, (FunctionUnit, ClassUnit)):
            found &= ~Feature.SHARING
        if "cuda" in text:
            found |= Feature.CUDA
        if any(returns_new(call[1]) and ends_statement(text, call.end()) for call in STATEMENT_CALL.finditer(text)):
            found |= Feature.DISCARDED
        if misspells(text):
            found |= Feature.MISSPELT
        if repeats(text):
            found |= Feature.REPEATED
        if found & Feature.SOFTMAX and guesses(text):
            found |= Feature.GUESSED
        if found & Feature.PARAMETERS and CONVERTED.search(text):
            found |= Feature.CONVERTED
        if isinstance(unit, ClassUnit):
            found |= self._features_of_class(unit, text, chains)
        return found

    def _features_of_class(self, unit: ClassUnit, text: str, chains: Iterable[Chain]) -> Feature:
        found = Feature(0)
        methods = unit.methods
        bases = BASES.search(text)
        if bases is not None and any(is_module_base(chain, self.foreign) for chain in chains_in(bases[1])):
            found |= Feature.MODULE
        init = methods.get("__init__")
        if init is not None and initializes_late(init.text, unit.name):
            found |= Feature.SUPER
        if not TRAINING_STEPS.isdisjoint(methods):
            found |= Feature.BACKWARD  # by the framework
        builders = reached_from(methods, ["__init__", "__post_init__"])
        if any(keeps_container(text, methods[name].text) or self._is_given(methods[name]) for name in builders):
            found |= Feature.CONTAINER
        for name in builders:
            own = methods[name].text
            if any(self._gives_tensor(chain) for chain in chains_in(WRAPPED.sub("", own))):
                found |= Feature.PLAIN
        if any(is_layer(chain, self.foreign) for chain in chains):
            forward = ["forward"] if "forward" in methods else methods.keys() - builders
            later = [name for name in builders if "lambda" in methods[name].text]  # which the forward pass may call
            texts = [methods[name].text for name in (*(reached_from(methods, forward) - builders), *later)]
            if any(is_layer(chain, self.foreign) for text in texts for chain in chains_in(text)):
                found |= Feature.BUILT
        return found

    def _is_given(self, method: FunctionUnit) -> bool:
        """Whether a method may give a list, tuple or dict, or calls a function of the project that may."""
        if method.name != "__init__" and gives_container(method.text):
            return True
        called = (chain for chain in chains_in(method.text) if chain.called)
        units = (unit for chain in called for unit in self.targets(chain))
        return any(isinstance(unit, FunctionUnit) and gives_container(unit.text) for unit in units)

    def _gives_tensor(self, chain: Chain) -> bool:
        """Whether a call makes a tensor, or is one of a function of the project that does."""
        if not chain.called:
            return False
        if makes_tensor(chain, self.foreign):
            return True
        for unit in self.targets(chain):
            foreign = self._reach.scope(unit.module).foreign
            if isinstance(unit, FunctionUnit) and any(makes_tensor(each, foreign) for each in chains_in(unit.text)):
                return True
        return False


def _chains(unit: Unit) -> tuple[Chain, ...]:
    return () if unit.is_import else chains_in(unit.text)
