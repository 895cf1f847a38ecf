"""The names of a file: what they lead to, and what the texts that mention them tell."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradlint.static.knowledge.torch_libraries import is_other_framework
from gradlint.static.knowledge.torch_table import TEST_SETUPS, TRAINING_STEPS, returns_new
from gradlint.static.text.chains import (
    BUILTINS,
    Chain,
    assigned_in,
    chains_in,
    read_from_outside,
    variables_in,
)
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, header_of, leaves, reached_from
from gradlint.static.text.index import (
    AMENDED,
    AUGMENTED,
    AUGMENTED_NAME,
    BASES,
    CONVERTED,
    INIT_SUBCLASS,
    NAMED_ALONE,
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
from gradlint.static.text.registries import Entered
from gradlint.static.text.triggers import Feature, Foreign, features_of, is_layer, is_module_base, makes_tensor
from gradlint.static.text.units import Statements, Unit, together

if TYPE_CHECKING:
    from gradlint.static.text.files import Module
    from gradlint.static.text.reach import Reach

_BRACKET = re.compile(r"[\[({]")
_TORCH = "torch"
_MANY = 32  #: units of one name, above which their statements are looked at as one


class Scope:
    """The names of a module."""

    def __init__(self, reach: Reach, module: Module) -> None:
        self._reach = reach
        self._module = module
        self._told: dict[Unit, _Told] = {}
        self._named: dict[Unit, tuple[Unit, ...]] = {}
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

    @property
    def is_elsewhere(self) -> bool:
        """Whether the file imports another framework, and torch neither itself nor by the files that it imports.

        What is not known there, and has the methods of a tensor, is none of torch, unless code of torch gives it.
        """
        if _TORCH in self._module.words or not any(map(is_other_framework, self.foreign.names.values())):
            return False
        files = (self._reach.module(self._module, level, name) for level, name, _, _ in self._module.imports)
        return not any(file is not None and _TORCH in file.words for file in files)

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
        bound = assigned_in(text) | ({chain.parts[0] for chain in chains_in(text)} - BUILTINS)
        bracket = _BRACKET.search(text)
        if bracket is not None and max(map(text.rfind, ("for", "="))) > bracket.start():  # behind it, others may stand
            bound &= variables_in(text) or bound
        return bound - {""} - self.foreign.names.keys() - self.links.keys()

    def mentions(self, unit: Unit) -> Feature:
        """The features of a unit's own text."""
        known = self._mentioned.get(unit)
        if known is None and isinstance(unit, Statements):
            return Feature(0)
        if known is None:
            known = self._mentioned[unit] = self._features(unit, self._told_by(unit))
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
            named = [other for other in self._named_by(unit) if other is not unit]
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
        return self._of_call(unit, self._told_by(unit), self._named_by(unit))

    def of_text(self, unit: FunctionUnit, text: str, *, definitions: bool = False) -> Feature:
        """The features of some text of a function, and of what that leads to, or of the definitions among that."""
        chains = chains_in(text)
        named = self._leads_to(chains, _Hidden(unit))
        if definitions:
            named = tuple(other for other in named if isinstance(other, (FunctionUnit, ClassUnit)))
        return self._of_call(unit, self._tell(unit, text, chains), named)

    def _of_call(self, unit: FunctionUnit, told: _Told, named: Iterable[Unit]) -> Feature:
        found = self._features(unit, told)
        top: Unit = unit
        while top.parent is not None:
            top = top.parent
        for other in named:
            if other is not top:
                found |= self._reach.features(other)
        owner = unit.class_unit
        if owner is not None:
            for name in told.own:
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
        chains = chains_in(bases[1]) if bases is not None else ()
        found |= features_of(chains, self.foreign)
        for chain in chains:
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
            known = self._of_bodies[unit] = features_of(chains_in(text), self.foreign)
        return known

    def _named_by(self, unit: Unit) -> tuple[Unit, ...]:
        """The units that the names in a unit lead to, in the order of its text."""
        known = self._named.get(unit)
        if known is None:
            if isinstance(unit, ClassUnit) and unit.body:
                parts = [self._leads_to(chains_in(header_of(unit))), *map(self._named_by, unit.body)]
                known = tuple(dict.fromkeys(unit for part in parts for unit in part))
            else:
                known = self._leads_to(_chains(unit), _Hidden(unit))
            self._named[unit] = known
        return known

    def _leads_to(self, chains: Iterable[Chain], hiding: Container[str] = ()) -> tuple[Unit, ...]:
        found: dict[Unit, None] = {}
        for chain in chains:
            hidden = self._is_known(chain.parts[0]) and chain.parts[0] in hiding
            for part in chain.parts[hidden:]:
                found.update(dict.fromkeys(self._many.get(part) or self.defined.get(part) or ()))
            first = chain.parts[0] or chain.parts[1]
            if not hidden and (first in self.links or first not in self.defined):
                found.update(dict.fromkeys(self.targets(chain)))
        return tuple(found)

    def _is_known(self, name: str) -> bool:
        """Whether a variable of the file may bear a name."""
        return name in self.defined or name in self.links or bool(self.stars)

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

    def _told_by(self, unit: Unit) -> _Told:
        """What the text of a unit tells; of a class, what its header and the parts of its body do."""
        known = self._told.get(unit)
        if known is None:
            if isinstance(unit, ClassUnit) and unit.body:
                header = header_of(unit)
                known = _together([self._tell(unit, header, chains_in(header)), *map(self._told_by, unit.body)])
            else:
                known = self._tell(unit, unit.text, _chains(unit))
            self._told[unit] = known
        return known

    def _tell(self, unit: Unit, text: str, chains: Iterable[Chain]) -> _Told:
        """What some text of a unit tells."""
        found = features_of(chains, self.foreign)
        told = ((AUGMENTED, Feature.AUGMENTED), (AMENDED, Feature.AMENDED), (OVERWRITING, Feature.OVERWRITES))
        for pattern, feature in told:
            found |= feature if pattern.search(text) else Feature(0)
        changes = bool(found & (Feature.AUGMENTED | Feature.IN_PLACE)) or AUGMENTED_NAME.search(text) is not None
        if "cuda" in text:
            found |= Feature.CUDA
        calls = ((call[1], call.end()) for call in STATEMENT_CALL.finditer(text))
        if any(returns_new(name) and ends_statement(text, end) for name, end in calls) or NAMED_ALONE.search(text):
            found |= Feature.DISCARDED
        if misspells(text):
            found |= Feature.MISSPELT
        if repeats(text):
            found |= Feature.REPEATED
        if found & Feature.SOFTMAX and guesses(text):
            found |= Feature.GUESSED
        if found & Feature.PARAMETERS and CONVERTED.search(text):
            found |= Feature.CONVERTED
        methods = unit.class_unit.methods if unit.class_unit is not None else {}
        own = dict.fromkeys(part for chain in chains for part in chain.parts if part in methods)
        return _Told(found, changes, tuple(own))

    def _features(self, unit: Unit, told: _Told) -> Feature:
        found = told.features
        if not told.changes and isinstance(unit, (FunctionUnit, ClassUnit)):
            found &= ~Feature.SHARING
        if isinstance(unit, ClassUnit):
            found |= self._features_of_class(unit)
        return found

    def _features_of_class(self, unit: ClassUnit) -> Feature:
        found = Feature(0)
        text, methods = unit.text, unit.methods
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
        if any(is_layer(chain, self.foreign) for leaf in leaves([unit]) for chain in chains_in(leaf.text)):
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


class _Told(NamedTuple):
    """What a text tells by itself.

    Attributes:
        features: what it mentions.
        changes: whether it may change anything in place.
        own: the methods of the class it stands in that it names.
    """

    features: Feature
    changes: bool
    own: tuple[str, ...]


def _together(parts: Sequence[_Told]) -> _Told:
    """What several texts tell together."""
    features = Feature(0)
    for part in parts:
        features |= part.features
    return _Told(features, any(part.changes for part in parts), ())


def _chains(unit: Unit) -> tuple[Chain, ...]:
    return () if unit.is_import else chains_in(unit.text)


class _Hidden:
    """The names that are no variables of the file where a unit stands: they are those of functions around it."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._outside: list[frozenset[str]] | None = None  #: what each of the functions reads from outside

    def __contains__(self, name: object) -> bool:
        if self._outside is None:
            functions = [each for each in _around(self._unit) if isinstance(each, FunctionUnit)]
            found = (read_from_outside(function.text) for function in functions)
            self._outside = [names for names in found if names is not None]
        return any(name not in names for names in self._outside)


def _around(unit: Unit | None) -> Iterator[Unit]:
    """A unit and those that it stands in."""
    while unit is not None:
        yield unit
        unit = unit.parent
