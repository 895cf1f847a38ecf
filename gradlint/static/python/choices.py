"""Values that are one of a few: joined, decided by the key of a table, or called by a name that is computed."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.streams import Counting
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import alternatives_of
from gradlint.static.state.origins import Comparison, OneOf, Operation, SomeMethodOf, Text, fresh
from gradlint.static.state.values import (
    NONE,
    Assumptions,
    Choice,
    Class,
    Const,
    Frame,
    Function,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.chains import chains_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, leaves
from gradlint.static.text.files import Module
from gradlint.static.text.nodes import children

if TYPE_CHECKING:
    from gradlint.finding import Site


class Choices:
    """Brings values of one world together."""

    _counting: Counting
    _domain: Domain

    def either(self, a: Value, b: Value, w: World, *, repeated: bool = False) -> Value:
        """A value that is one of two, in the same world; of dicts that a loop makes repeatedly, one stands for all."""
        a, b = w.resolve(a), w.resolve(b)
        if a == b:
            return a
        left, right = w.get(a, Object), w.get(b, Object)
        if isinstance(left, Sequence) and isinstance(right, Sequence) and len(left.items) == len(right.items):
            pairs = zip(left.items, right.items, strict=True)
            joined_row: Sequence = left.copy()
            joined_row.items = [self.either(x, y, w, repeated=repeated) for x, y in pairs]
            joined_row.tail = self._of_tails(left.tail, right.tail, w, repeated)
            joined_row.own, joined_row.held = left.own | right.own, left.held & right.held
            joined_row.loses, joined_row.clears = left.loses or right.loses, left.clears | right.clears
            return w.new(joined_row)
        if (
            repeated
            and isinstance(left, Mapping)
            and isinstance(right, Mapping)
            and left.items.keys() == right.items.keys()
        ):
            values = {key: self.either(left.items[key], right.items[key], w, repeated=True) for key in left.items}
            return w.new(Mapping(values, self._of_tails(left.tail, right.tail, w, repeated), left.factory))
        known = self._domain.values.either(a, b, w)
        if known is not None:
            return known
        alternatives = alternatives_of(a, b, w)
        return Unknown(OneOf(fresh())) if alternatives is None else Choice(fresh(), alternatives)

    def _of_tails(self, a: Value | None, b: Value | None, w: World, repeated: bool) -> Value | None:
        if a is None or b is None:
            return a if b is None else b
        return self.either(a, b, w, repeated=repeated)

    def by_key(
        self, value: Value, items: AbstractMapping[Value, Value], key: Value, w: World, default: Value | None = None
    ) -> Value:
        """What was looked up by a key that is not known: which value it is tells the key, and the other way round."""
        if not isinstance(value, Choice) or not isinstance(key, Unknown) or self._counting.counts(key):
            return value
        if not all(isinstance(each, Const) for each in items):
            return value
        keys: dict[Value, list[Value]] = {}
        for each, item in items.items():
            keys.setdefault(w.resolve(item), []).append(each)
        others = tuple((Comparison("==", key.key, each), False) for each in items)
        conditions: list[Assumptions] = []
        for alternative in value.alternatives:
            own = keys.get(alternative, [])
            if len(own) == 1 and alternative != default:
                conditions.append(((Comparison("==", key.key, own[0]), True),))
            else:
                conditions.append(others if alternative == default and not own else ())
        return replace(value, conditions=tuple(conditions))

    def used(self, value: Value, w: World) -> Value:
        """What a value turns out to be where it is called a method of, computed with, indexed or unpacked: not None."""
        if not isinstance(value, Choice) or NONE not in value.alternatives:
            return value
        rest = tuple(alternative for alternative in value.alternatives if alternative != NONE)
        w.bound[value.key] = rest[0] if len(rest) == 1 else Choice(fresh(), rest)
        return w.resolve(value)


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


_Chain = tuple[str, ...]
"""The names in ``self.model.encode``."""

_LEAVES = frozenset([cst.Name, cst.Integer, cst.Float, cst.SimpleString, cst.Comma])
_OF_THEIR_OWN = frozenset([cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp])
"""Expressions with variables of their own."""
_IMPORTS = frozenset([cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal])
_WITHOUT_CALLS = _LEAVES | _OF_THEIR_OWN | _IMPORTS


class Decisions:
    """Parts the worlds in which a model is one of those of a table of classes.

    A call within an expression forks no world: what several models give would be one of several values there, and what
    they do to themselves would be apart from it.
    """

    _domain: Domain

    def __init__(self) -> None:
        self._used: dict[cst.CSTNode, tuple[_Chain, ...]] = {}
        self._built: dict[Site, ClassUnit] = {}  #: which class of modules was first built at a place
        self._differ = False  #: another one was, at some place: nothing is to be decided before

    def built(self, cls: ClassUnit, site: Site) -> None:
        """A module of a class of the project is built."""
        self._differ = self._differ or self._built.setdefault(site, cls) is not cls

    def trim(self) -> None:
        """Forget what is known of nodes."""
        self._used.clear()

    def before(self, node: cst.CSTNode, w: World, ctx: Context) -> list[World]:
        """The worlds in which a simple statement is executed: one for each of the models that it may use."""
        if not self._differ:
            return [w]
        used = self._used.get(node)
        if used is None:
            used = self._used[node] = tuple(dict.fromkeys((*_called_within(node), *_owners(node))))
        worlds = [w]
        for chain in used:
            worlds = [way for world in worlds for way in self._ways(chain, world, ctx)]
        return worlds

    def _ways(self, chain: _Chain, w: World, ctx: Context) -> list[World]:
        choice = _first_choice(chain, w, ctx)
        if choice is None or not choice.conditions:  # of those that a loop makes, each has its turn
            return [w]
        held = [w.get(each, Instance) for each in choice.alternatives]
        modules = [obj for obj in held if obj is not None and obj.role is roles.MODULE and obj.cls is not None]
        if (
            len(modules) < len(held)
            or len({obj.made_at for obj in modules}) > 1
            or len({obj.cls for obj in modules}) < 2
        ):
            return [w]
        ways = w.alternatives(choice)
        for taken, world in ways:
            self._domain.values.decided(choice, taken, world)
        return [world for _, world in ways]


def _first_choice(chain: _Chain, w: World, ctx: Context) -> Choice | None:
    """The first value that is one of several on the way from a variable through attributes of objects."""
    name, *attributes = chain
    value = _variable(name, w, ctx)
    for attribute in (*attributes, ""):
        value = w.resolve(value)
        if isinstance(value, Choice):
            return value
        obj = w.get(value, Instance)
        if obj is None:
            return None
        value = obj.attrs.get(attribute, NONE)
    return None


def _variable(name: str, w: World, ctx: Context) -> Value:
    """What a variable holds, if that was set where the code is executed or around it."""
    key: int | None = ctx.frame
    while key is not None:
        frame = w.find(key)
        if not isinstance(frame, Frame):
            break
        if name in frame.vars:
            return frame.vars[name]
        key = frame.parent
    return NONE


def _called_within(node: cst.CSTNode) -> Iterator[_Chain]:
    """What is called in a statement, but for the call that is all there is to it."""
    whole = node.value if type(node) in (cst.Assign, cst.AnnAssign, cst.Expr, cst.Return) else None  # type: ignore[attr-defined]
    queue = [node]
    while queue:
        here = queue.pop()
        kind = type(here)
        if kind is cst.Attribute or kind is cst.Arg:
            queue.append(here.value)  # type: ignore[attr-defined]
        elif kind is cst.Call:
            chain = _chain(here.func) if here is not whole else None  # type: ignore[attr-defined]
            if chain is not None:
                yield chain
            queue += (here.func, *here.args)  # type: ignore[attr-defined]
        elif kind not in _WITHOUT_CALLS:
            queue += children(here)


def _owners(node: cst.CSTNode) -> Iterator[_Chain]:
    """What the attributes belong to that an assignment sets."""
    for target in node.targets if type(node) is cst.Assign else ():
        chain = _chain(target.target.value) if type(target.target) is cst.Attribute else None
        if chain is not None:
            yield chain


def _chain(node: cst.CSTNode) -> _Chain | None:
    names: list[str] = []
    while type(node) is cst.Attribute:
        names.append(node.attr.value)
        node = node.value
    return (node.value, *reversed(names)) if type(node) is cst.Name else None


__all__ = ["MAX_METHODS", "Choices", "Decisions", "Dispatch"]
