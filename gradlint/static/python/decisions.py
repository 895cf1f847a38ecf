"""Which model a table has given: decided before a statement that computes with what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.python.domain import Domain
from gradlint.static.state.values import NONE, Choice, Frame, Instance, Value
from gradlint.static.state.world import World
from gradlint.static.text.nodes import children

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.context import Context
    from gradlint.static.text.definition_units import ClassUnit

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


__all__ = ["Decisions"]
