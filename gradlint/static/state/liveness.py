"""Which variables may still be read where execution stands: what the others hold makes no difference any more."""

from __future__ import annotations

import re
import symtable
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import libcst as cst

from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.nodes import children
from gradlint.static.text.units import StatementUnit, Unit

if TYPE_CHECKING:
    from gradlint.static.state.context import Context
    from gradlint.static.text.files import Module

Names = frozenset[str]

_NONE: Names = frozenset()
_LOOKS = re.compile(r"(?<![.\w])(?:(?:eval|exec|globals|locals)\(|(?:vars|dir)\(\s*\))")
"""Calls that may read variables by names that are not known."""
_LATER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_COMPREHENSIONS = frozenset([cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp])
_SCOPES_OF_COMPREHENSIONS = frozenset(["listcomp", "setcomp", "dictcomp", "genexpr"])


class Live(NamedTuple):
    """The variables of a frame that may still be read."""

    frame: int
    names: Names

    def matters(self, name: str) -> bool:
        """Whether the value of a variable may still be asked for; what loops keep for themselves always may."""
        return name in self.names or name[0] == "<"


class Liveness:
    """Knows what may be read after the statements that an entry point executes, as long as that lasts.

    Taken for read is whatever code that is executed later mentions, be it reached or not.  Nothing is wrong where that
    is too little: worlds that could have been told apart are joined.
    """

    def __init__(self) -> None:
        self._units: dict[Unit, _Walk | None] = {}
        self._read_later: dict[Module, Names | None] = {}
        self._at: dict[int, cst.CSTNode] = {}  #: the innermost statement that is executed in each frame

    def after(self, node: cst.CSTNode, ctx: Context) -> Live | None:
        """What may be read once a statement is done; None if that may be anything."""
        walk = self._walk(ctx.unit)
        return _live(ctx.frame, walk.after.get(node)) if walk is not None else None

    def again(self, loop: cst.For | cst.While, ctx: Context) -> Live | None:
        """What may be read once an iteration of a loop is done, by the next one or behind it."""
        walk = self._walk(ctx.unit)
        return _live(ctx.frame, walk.again.get(loop)) if walk is not None else None

    def reached(self, node: cst.CSTNode, frame: int) -> None:
        """A statement is about to be executed."""
        self._at[frame] = node

    def ahead(self, ctx: Context) -> dict[int, Names]:
        """The variables that may still be read of each frame on the call stack; all of those that are not given."""
        found: dict[int, Names] = {}
        here: Context | None = ctx
        while here is not None:
            walk, node = self._walk(here.unit), self._at.get(here.frame)
            if walk is not None and node is not None and node in walk.after:
                found[here.frame] = walk.after[node].union(_reads(node))
            here = here.parent
        return found

    def ends(self, node: cst.CSTNode, ctx: Context) -> bool:
        """Whether a statement is the last one that reads some variable."""
        walk = self._walk(ctx.unit)
        return walk is not None and node in walk.last

    def trim(self) -> None:
        """An entry point is done: trees may be let go of after this."""
        self._units.clear()
        self._at.clear()

    def _walk(self, unit: Unit) -> _Walk | None:
        if unit not in self._units:
            self._units[unit] = self._through(unit)
        return self._units[unit]

    def _through(self, unit: Unit) -> _Walk | None:
        if _LOOKS.search(unit.text):
            return None
        if isinstance(unit, FunctionUnit):
            walk = _Walk(_mentioned_in_definitions(unit.node) if "def" in unit.constructs else _NONE)
            walk.block(unit.node.body, _NONE)
            return walk
        behind = self._behind(unit)
        if not isinstance(unit, StatementUnit) or behind is None:
            return None
        walk = _Walk(behind)
        walk.statement(unit.node, _NONE)
        return walk

    def _behind(self, unit: Unit) -> Names | None:
        """The variables of a module that may be read behind a statement of its body; None if that is not known."""
        later = self._by_functions(unit.module) if isinstance(unit, StatementUnit) and unit.parent is None else None
        if later is None:
            return None
        return later.union(
            *(other.words for other in unit.module.units if isinstance(other, StatementUnit) and other.row > unit.row)
        )

    def _by_functions(self, module: Module) -> Names | None:
        """The variables of a module that its functions and classes read; None if that is not known."""
        if module not in self._read_later:
            self._read_later[module] = _globals_read(module.source.text)
        return self._read_later[module]


def _live(frame: int, names: Names | None) -> Live | None:
    return None if names is None else Live(frame, names)


def _globals_read(text: str) -> Names | None:
    """The variables of a file that its functions, classes and lambdas read; None if Python rejects the text."""
    try:
        table = symtable.symtable(text, "<text>", "exec")
    except SyntaxError:
        return None
    found: set[str] = set()
    queue = [(child, False) for child in table.get_children()]
    while queue:
        scope, later = queue.pop()
        later = later or scope.get_name() not in _SCOPES_OF_COMPREHENSIONS
        if later:
            found.update(symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global())
        queue += [(child, later) for child in scope.get_children()]
    return frozenset(found)


def _mentioned_in_definitions(node: cst.FunctionDef) -> Names:
    """The names that the functions, classes and lambdas in the body of a function mention."""
    found: set[str] = set()
    queue: list[cst.CSTNode] = [node.body]
    while queue:
        here = queue.pop()
        if isinstance(here, _LATER):
            found.update(_reads(here))
        else:
            queue += children(here)
    return frozenset(found)


def _reads(*nodes: cst.CSTNode | None) -> Iterator[str]:
    """The names that expressions read."""
    queue = [node for node in nodes if node is not None]
    while queue:
        here = queue.pop()
        kind = type(here)
        if kind is cst.Name:
            yield here.value  # type: ignore[attr-defined]
        elif kind is cst.Attribute or kind is cst.Arg:
            queue.append(here.value)  # type: ignore[attr-defined]
        elif kind in _COMPREHENSIONS:
            own = frozenset(_bound_by(here.for_in))  # type: ignore[attr-defined]
            yield from (name for name in _reads(*children(here)) if name not in own)
        else:
            queue += children(here)


def _bound_by(loops: cst.CompFor) -> Iterator[str]:
    """The names that the loops of a comprehension bind."""
    yield from _bound(loops.target)
    if loops.inner_for_in is not None:
        yield from _bound_by(loops.inner_for_in)


def _bound(target: cst.CSTNode) -> Iterator[str]:
    """The names that an assignment to a target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _bound(element.value)


def _read_by(target: cst.CSTNode) -> Iterator[str]:
    """The names that an assignment to a target reads: those of what it puts the value into."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _read_by(element.value)
    elif not isinstance(target, cst.Name):
        yield from _reads(target)


def _pattern(pattern: cst.CSTNode) -> tuple[set[str], set[str]]:
    """The names that the pattern of a case reads, and those that it binds."""
    read: set[str] = set()
    bound: set[str] = set()
    queue = [pattern]
    while queue:
        here = queue.pop()
        if isinstance(here, (cst.MatchValue, cst.MatchSingleton)):
            read.update(_reads(here.value))
        elif isinstance(here, cst.MatchClass):
            read.update(_reads(here.cls))
            queue += [*here.patterns, *(keyword.pattern for keyword in here.kwds)]
        elif isinstance(here, cst.MatchMappingElement):
            read.update(_reads(here.key))
            queue.append(here.pattern)
        elif isinstance(here, cst.Name):
            bound.add(here.value)
        else:
            queue += children(here)
    return read, bound


class _Walk:
    """Goes through a piece of code from its end to its beginning.

    Args:
        kept: the names that may be read at any time.
    """

    def __init__(self, kept: Names) -> None:
        self.after: dict[cst.CSTNode, Names] = {}
        self.again: dict[cst.CSTNode, Names] = {}
        self.last: set[cst.CSTNode] = set()  #: the statements after which something is not read any more
        self._kept = kept
        self._break: Names = _NONE  #: what may be read where ``break`` leads
        self._continue: Names = _NONE
        self._own: dict[cst.CSTNode, Names] = {}  #: what a first iteration of a loop may read
        self._ahead = False  #: only that is looked for

    def block(self, node: cst.BaseSuite | cst.SimpleStatementLine, live: Names) -> Names:
        """What may be read before a block, if ``live`` may be after it."""
        for statement in reversed(node.body):
            before = self.statement(statement, live)
            (self.last.discard if before <= live else self.last.add)(statement)
            live = before
        return live

    def statement(self, node: cst.CSTNode, live: Names) -> Names:
        """What may be read before a statement, if ``live`` may be after it."""
        live |= self._kept
        self.after[node] = live
        act = self._KINDS.get(type(node))
        return act(self, node, live) if act is not None else live.union(_reads(node))

    def _to(self, target: cst.CSTNode, live: Names) -> Names:
        return live.difference(_bound(target)).union(_read_by(target))

    def _assign(self, node: cst.Assign, live: Names) -> Names:
        for target in reversed(node.targets):
            live = self._to(target.target, live)
        return live.union(_reads(node.value))

    def _annotated(self, node: cst.AnnAssign, live: Names) -> Names:
        return live if node.value is None else self._to(node.target, live).union(_reads(node.value))

    def _orelse(self, orelse: cst.If | cst.Else | None, live: Names) -> Names:
        if orelse is None:
            return live
        return self.statement(orelse if isinstance(orelse, cst.If) else orelse.body, live)

    def _if(self, node: cst.If, live: Names) -> Names:
        return self.statement(node.body, live).union(self._orelse(node.orelse, live), _reads(node.test))

    def _for(self, node: cst.For, live: Names) -> Names:
        return self._loop(node, live, lambda inside: self._to(node.target, inside)).union(_reads(node.iter))

    def _while(self, node: cst.While, live: Names) -> Names:
        return self._loop(node, live, lambda inside: inside.union(_reads(node.test)))

    def _loop(self, node: cst.For | cst.While, live: Names, enter: Callable[[Names], Names]) -> Names:
        around = self._break, self._continue, self._ahead
        again = self._orelse(node.orelse, live)
        if node not in self._own:
            self._break, self._continue, self._ahead = _NONE, _NONE, True
            self._own[node] = enter(self.statement(node.body, _NONE))
        again |= self._own[node]  # what an iteration reads, the one before it leaves
        if not around[-1]:
            self._break, self._continue, self._ahead = live, again, False
            self.statement(node.body, again)
            self.again[node] = again | self._kept
        self._break, self._continue, self._ahead = around
        return again

    def _with(self, node: cst.With, live: Names) -> Names:
        live = self.statement(node.body, live)
        for item in reversed(node.items):
            if item.asname is not None:
                live = self._to(item.asname.name, live)
            live = live.union(_reads(item.item))
        return live

    def _try(self, node: cst.Try | cst.TryStar, live: Names) -> Names:
        kept = self._kept
        if node.finalbody is not None:
            live = self.statement(node.finalbody.body, live)
            self._kept |= live
        caught = _NONE.union(*(self.statement(handler.body, live) for handler in node.handlers))
        self._kept |= caught
        live = self.statement(node.body, self._orelse(node.orelse, live))
        self._kept = kept
        return live.union(caught, _reads(*(handler.type for handler in node.handlers)))

    def _delete(self, node: cst.Del, live: Names) -> Names:
        return self._to(node.target, live)

    def _return(self, node: cst.Return, live: Names) -> Names:
        return self._kept.union(_reads(node.value))

    def _raise(self, node: cst.Raise, live: Names) -> Names:
        return self._kept.union(_reads(node.exc, node.cause))

    def _leave(self, node: cst.Break, live: Names) -> Names:
        return self._break

    def _go_on(self, node: cst.Continue, live: Names) -> Names:
        return self._continue

    def _match(self, node: cst.Match, live: Names) -> Names:
        cases = [self._case(case, live) for case in node.cases]
        return live.union(_reads(node.subject), *cases)

    def _case(self, node: cst.MatchCase, live: Names) -> Names:
        read, bound = _pattern(node.pattern)
        return self.statement(node.body, live).union(_reads(node.guard)).difference(bound).union(read)

    _KINDS: ClassVar[dict[type, Callable[..., Names]]] = {
        cst.SimpleStatementLine: block,
        cst.SimpleStatementSuite: block,
        cst.IndentedBlock: block,
        cst.Assign: _assign,
        cst.AnnAssign: _annotated,
        cst.Del: _delete,
        cst.Return: _return,
        cst.Raise: _raise,
        cst.Break: _leave,
        cst.Continue: _go_on,
        cst.If: _if,
        cst.For: _for,
        cst.While: _while,
        cst.With: _with,
        cst.Try: _try,
        cst.TryStar: _try,
        cst.Match: _match,
    }
