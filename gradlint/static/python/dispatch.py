"""Methods that are called by names which are computed: ``getattr(trainer, mode)()``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.python.definitions import Definitions
from gradlint.static.state.context import Arguments
from gradlint.static.state.origins import Operation, SomeMethodOf, Text
from gradlint.static.state.values import Class, Const, Function, Instance, Ref, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.text.chains import chains_in
from gradlint.static.text.definition_units import FunctionUnit, leaves
from gradlint.static.text.files import Module

MAX_METHODS = 8  #: methods that one name may mean, at most


class Dispatch:
    """Tells which methods of an object an unknown name may mean."""

    _definitions: Definitions

    def __init__(self) -> None:
        self._named: dict[Module, frozenset[str]] = {}

    def attribute(self, owner: Value, name: Value, w: World) -> Unknown:
        """``getattr(owner, name)`` with an unknown name."""
        obj = w.get(owner, Instance)
        beginning = _beginning(name)
        plain = obj is not None and obj.cls is not None and obj.role is roles.PLAIN
        if not plain or beginning is None or not isinstance(name, Unknown):
            return new_unknown("getattr")
        return Unknown(SomeMethodOf(owner, beginning, name.key))

    def methods(self, callee: Unknown, args: Arguments, w: World, here: Module) -> list[tuple[Ref, Function]]:
        """What the call of such an attribute may mean: methods that take these arguments and nothing else names."""
        key = callee.key
        if not isinstance(key, SomeMethodOf) or not isinstance(key.owner, Ref):
            return []
        owner, obj = key.owner, w.get(key.owner, Instance)
        if obj is None or obj.cls is None:
            return []
        named = (method for method in self._unnamed(obj.cls, w, here) if method.unit.name.startswith(key.beginning))
        found = [(owner, method) for method in named if _takes(method.unit, args)]
        return found if len(found) <= MAX_METHODS else []

    def _unnamed(self, cls: Class, w: World, here: Module) -> Iterator[Function]:
        own = list(self._definitions.mro(cls))
        called = frozenset[str]().union(*(self._names(each.unit.module) for each in own), self._names(here))
        for name in dict.fromkeys(name for each in own for name in each.unit.methods):
            if name.startswith("_") or name in called:
                continue
            method = self._definitions.attribute(cls, name, w)
            if isinstance(method, Function) and not method.kind:
                yield method

    def _names(self, module: Module) -> frozenset[str]:
        """The names that a file reads off objects."""
        known = self._named.get(module)
        if known is None:
            chains = (chain for leaf in leaves(module.units) for chain in chains_in(leaf.text))
            known = self._named[module] = frozenset(part for chain in chains for part in chain.parts[1:])
        return known


def _beginning(name: Value) -> str | None:
    """What an unknown name begins with; None if that is not known."""
    key = name.key if isinstance(name, Unknown) else None
    match key:
        case Operation("+", Const(str(beginning))):
            return beginning
        case None | Operation() | Text():
            return None
    return ""


def _takes(unit: FunctionUnit, args: Arguments) -> bool:
    """Whether a method can be called with these arguments."""
    params = unit.node.params
    given = [*params.posonly_params, *params.params][1:]
    if len(args.positional) > len(given) and not isinstance(params.star_arg, cst.Param):
        return False
    named = {param.name.value for param in (*given[len(args.positional) :], *params.kwonly_params)}
    if args.keywords.keys() - named and params.star_kwarg is None:
        return False
    needed = (*given[len(args.positional) :], *params.kwonly_params)
    return args.open or all(param.default is not None or param.name.value in args.keywords for param in needed)
