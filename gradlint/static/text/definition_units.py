"""Units of functions and classes, of what stands in a body, and what kinds of constructs they are made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import libcst as cst

from gradlint.static.text.chains import standing, words_in
from gradlint.static.text.nodes import Tree, children
from gradlint.static.text.units import Definition, StatementUnit, Unit
from gradlint.syntax import TextError, parse

if TYPE_CHECKING:
    from gradlint.static.text.files import Module


def constructs_in(node: cst.FunctionDef) -> frozenset[str]:
    """The kinds of constructs in the body of a function.

    "yield" where it is a generator; "loop"; "def" where it defines others, which may outlive its call; "abstract" where
    it does nothing but raise; "empty" where it does nothing at all.
    """
    found: set[str] = set()
    _scan(node.body, found)
    body = [statement for statement in node.body.body if not _is_docstring(statement)]
    if len(body) == 1 and _raises(body[0]):
        found.add("abstract")
    if all(map(_does_nothing, body)):
        found.add("empty")
    return frozenset(found)


def _is_docstring(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _raises(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Raise) or (
        isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Raise)
    )


def _does_nothing(node: cst.CSTNode) -> bool:
    """``pass``, ``...`` or ``return``, on a line of its own or behind the header."""
    if isinstance(node, cst.SimpleStatementLine):
        return all(map(_does_nothing, node.body))
    if isinstance(node, cst.Return):
        return node.value is None or (isinstance(node.value, cst.Name) and node.value.value == "None")
    return isinstance(node, cst.Pass) or (isinstance(node, cst.Expr) and isinstance(node.value, cst.Ellipsis))


def _scan(node: cst.CSTNode, found: set[str]) -> None:
    """What kinds of constructs a body contains, not looking into nested definitions for ``yield``."""
    queue = children(node)
    while queue:
        here = queue.pop()
        construct = _CONSTRUCTS.get(type(here))
        if construct is not None:
            found.add(construct)
        if construct != "def":
            queue += children(here)


_CONSTRUCTS: dict[type, str] = {
    **dict.fromkeys([cst.Yield, cst.From], "yield"),
    **dict.fromkeys([cst.For, cst.While, cst.CompFor], "loop"),
    **dict.fromkeys([cst.FunctionDef, cst.Lambda, cst.ClassDef], "def"),
}


_ACCESSOR = re.compile(r"[ \t]*@[ \t]*[\w.]+\.(setter|deleter)\b")
_SELF = re.compile(r"def\s+\w+(?:\[[^\]]*\])?\s*\(\s*(\w+)")
_FILLS = r"\.(?:append|extend|insert|add|appendleft|update|setdefault)\(|\s*=(?!=)"  #: after the name of what is filled


class _Definition(Unit):
    """What functions and classes have in common: a name, decorators."""

    name: str
    _header_rows: int  #: how many rows can be parsed without the body; 0 if that is not to be tried

    @property
    def qualname(self) -> str:
        """The dotted name within the module, as Python tells it."""
        return _prefix(self.parent) + self.name

    @cached_property
    def _from_header(self) -> cst.CSTNode:
        """The definition without its body, which is cheap; or as it is, where that cannot be had."""
        found = None
        if self._header_rows:
            header = self.module.source.between(self.row, self.row + self._header_rows - 1)
            indent = header[: len(header) - len(header.lstrip())]
            found = self._parse_text(f"{header}{indent}{self._stand_in}\n")
        if found is None or not isinstance(found[1], Definition):
            found = self.tree, self.node
        self._header, node = found
        return node

    _stand_in = " pass"  #: for the body that a header is parsed with


def _prefix(parent: Unit | None) -> str:
    if isinstance(parent, FunctionUnit):
        return f"{parent.qualname}.<locals>."
    if isinstance(parent, ClassUnit):
        return f"{parent.qualname}."
    return "" if parent is None else _prefix(parent.parent)


class FunctionUnit(_Definition):
    """A function or method."""

    _stand_in = "def _(): pass"

    def __init__(
        self,
        module: Module,
        parent: Unit | None,
        *,
        name: str,
        is_async: bool,
        decorator_rows: int = 0,
        rows: tuple[int, int] | None = None,
        place: int = 0,
        parsed: tuple[Tree, cst.CSTNode] | None = None,
    ) -> None:
        super().__init__(module, parent, rows=rows, place=place, parsed=parsed)
        self.name = name
        self.is_async = is_async
        self._header_rows = decorator_rows

    @classmethod
    def from_node(cls, node: cst.FunctionDef, parent: Unit) -> FunctionUnit:
        """The unit of a function that stands in the tree of ``parent``; always the same for the same node."""
        tree = parent.tree
        known = tree.units.get(id(node))
        if not isinstance(known, FunctionUnit):
            is_async = node.asynchronous is not None
            known = cls(parent.module, parent, name=node.name.value, is_async=is_async, parsed=(tree, node))
            tree.units[id(node)] = known
        return known

    @property
    def node(self) -> cst.FunctionDef:
        """Its libcst node; SourceError if libcst rejects the text."""
        return cast("cst.FunctionDef", super().node)

    @cached_property
    def constructs(self) -> frozenset[str]:
        """The kinds of constructs in its body; see :func:`~gradlint.static.text.definition_units.constructs_in`."""
        return constructs_in(self.node)

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The names of its parameters, without those of ``*args`` and ``**kwargs``."""
        params = self.node.params
        return frozenset(each.name.value for each in (*params.posonly_params, *params.params, *params.kwonly_params))

    @property
    def takes_positional(self) -> bool:
        """Whether it has parameters, as a function has that is called for each batch; those by keyword aside."""
        return bool(self.node.params.params or self.node.params.posonly_params)

    @property
    def is_generator(self) -> bool:
        """Whether it contains ``yield``."""
        return "yield" in self.words and "yield" in self.constructs

    @cached_property
    def decorators(self) -> tuple[cst.BaseExpression, ...]:
        """The expressions behind ``@``, in order."""
        if self._rows is not None and not self._header_rows:
            return ()
        return tuple(each.decorator for each in cast("cst.FunctionDef", self._from_header).decorators)

    @cached_property
    def assigned_attributes(self) -> frozenset[str]:
        """The names of the attributes of its first parameter that it binds, as in ``self.fc = …``."""
        return frozenset(attribute.attr for attribute in self._attributes(self._parsed(), ast.Store))

    @cached_property
    def updated_attributes(self) -> frozenset[str]:
        """Those of them that it only ever adds to, or the like: ``self.mean = 0.9 * self.mean + x``."""
        tree = self._parsed()
        updates = [
            target
            for node in (ast.walk(tree) if tree is not None else ())
            if isinstance(node, (ast.Assign, ast.AugAssign))
            for target in self._attributes(node, ast.Store)
            if isinstance(node, ast.AugAssign)
            or (isinstance(node.value, ast.BinOp) and target.attr in {a.attr for a in self._attributes(node, ast.Load)})
        ]
        others = {target.attr for target in self._attributes(tree, ast.Store) if target not in updates}
        return frozenset(target.attr for target in updates if target.attr not in others)

    def _parsed(self) -> ast.AST | None:
        """Its text as a tree, if it uses any attribute of its first parameter."""
        first = _SELF.search(self.text)
        return None if first is None or f"{first[1]}." not in self.text else _parsed(self.text)

    def _nodes(self) -> Iterator[ast.AST]:
        """The nodes of its text as a tree; none if it cannot be parsed by itself."""
        tree = _parsed(self.text)
        return ast.walk(tree) if tree is not None else iter(())

    def _attributes(self, tree: ast.AST | None, use: type[ast.expr_context]) -> Iterator[ast.Attribute]:
        """Where a part of it binds, or reads, attributes of its first parameter."""
        first = _SELF.search(self.text)
        if tree is None or first is None:
            return
        for node in ast.walk(tree):
            owner = node.value if isinstance(node, ast.Attribute) and isinstance(node.ctx, use) else None
            if isinstance(node, ast.Attribute) and isinstance(owner, ast.Name) and owner.id == first[1]:
                yield node

    @cached_property
    def filled_attributes(self) -> frozenset[str]:
        """The attributes of its first parameter that it binds or puts something into, as in ``self.x.append(…)``."""
        first = _SELF.search(self.text)
        if first is None or f"{first[1]}." not in self.text:
            return frozenset()
        filled = re.finditer(rf"\b{first[1]}\.(\w+)(?:\[[^\]]*\])*(?:{_FILLS})", self.text)
        return self.assigned_attributes | {match[1] for match in filled}

    @cached_property
    def read_attributes(self) -> frozenset[str]:
        """The names of the attributes of its first parameter that it reads: its own methods that it may call."""
        return frozenset(attribute.attr for attribute in self._attributes(self._parsed(), ast.Load))

    @cached_property
    def rebound_globals(self) -> frozenset[str]:
        """The variables of its module that it binds anew: those it declares as ``global`` and does not only read."""
        nodes = list(self._nodes()) if "global" in self.words else []
        declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        return frozenset(declared & stored)

    @cached_property
    def rebound_on_class(self) -> frozenset[str]:
        """The attributes of its class that it binds anew once that is made, as in ``cls.size = size``."""
        first = _SELF.search(self.text)
        if self.class_unit is None or self.name == "__init_subclass__" or first is None:
            return frozenset()
        bound = self.assigned_attributes if "@classmethod" in self.text.partition("def ")[0] else frozenset[str]()
        owners = {f"{first[1]}.__class__", f"type({first[1]})", self.class_unit.name}
        for node in self._nodes() if any(f"{owner}." in self.text for owner in owners) else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                bound |= {node.attr} if ast.unparse(node.value) in owners else set()
        return bound

    @cached_property
    def words_within(self) -> frozenset[str]:
        """The identifiers in the functions and classes that are defined within it, which may run when it is over."""
        tree = _parsed(self.text)
        if tree is None:
            return self.words
        rows = standing(self.text).split("\n")
        parts = ("\n".join(rows[node.lineno - 1 : node.end_lineno]) for node in _definitions_in(tree))
        return frozenset(word for part in parts for word in words_in(part))

    @cached_property
    def accessor(self) -> str | None:
        """What it is of a property, if it is its ``setter`` or ``deleter``, which leave the getter under its name."""
        found = (_ACCESSOR.match(row) for row in self.text.split("def ", 1)[0].split("\n"))
        return next((match[1] for match in found if match is not None), None)

    def _is_meant(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.FunctionDef) and node.name.value == self.name

    def __repr__(self) -> str:
        return f"<function {self.module.name}.{self.qualname}>"


_Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def _parsed(text: str) -> ast.AST | None:
    """The text of a definition as a tree; None if it cannot be parsed by itself."""
    try:
        return parse(standing(text))
    except TextError:
        return None


def _definitions_in(tree: ast.AST) -> Iterator[_Defined]:
    """The definitions that stand in another one, which is the first of a tree."""
    found = [node for node in ast.walk(tree) if isinstance(node, _Defined)]
    return iter(found[1:])


class ClassUnit(_Definition):
    """A class: its header, and the units of its body."""

    def __init__(
        self,
        module: Module,
        parent: Unit | None,
        *,
        name: str,
        header_rows: int = 0,
        doc: str | None = None,
        rows: tuple[int, int] | None = None,
        place: int = 0,
        parsed: tuple[Tree, cst.CSTNode] | None = None,
    ) -> None:
        super().__init__(module, parent, rows=rows, place=place, parsed=parsed)
        self.name = name
        self.doc = doc  #: the docstring as it is written
        self._header_rows = header_rows
        self._indexed: tuple[Unit, ...] | None = None

    @classmethod
    def from_node(cls, node: cst.ClassDef, parent: Unit) -> ClassUnit:
        """The unit of a class that stands in the tree of ``parent``; always the same for the same node."""
        tree = parent.tree
        known = tree.units.get(id(node))
        if not isinstance(known, ClassUnit):
            doc = node.get_docstring(clean=False)
            known = cls(parent.module, parent, name=node.name.value, doc=doc, parsed=(tree, node))
            tree.units[id(node)] = known
        return known

    @property
    def node(self) -> cst.ClassDef:
        """Its libcst node; SourceError if libcst rejects the text."""
        return cast("cst.ClassDef", super().node)

    @cached_property
    def bases(self) -> tuple[cst.Arg, ...]:
        """The arguments of the class statement: the bases, then those with a keyword."""
        header = cast("cst.ClassDef", self._from_header)
        return (*header.bases, *header.keywords)

    @cached_property
    def decorators(self) -> tuple[cst.BaseExpression, ...]:
        """The expressions behind ``@``, in order."""
        return tuple(each.decorator for each in cast("cst.ClassDef", self._from_header).decorators)

    @cached_property
    def body(self) -> tuple[Unit, ...]:
        """The units of its body, in order."""
        if self._indexed is not None:
            return self._indexed
        return units_of(self.node.body, self.module, self.tree, self) if self.is_readable else ()

    def set_body(self, units: tuple[Unit, ...]) -> None:
        """Tell the units of the body, where they are known without parsing."""
        self._indexed = units

    @cached_property
    def methods(self) -> Mapping[str, FunctionUnit]:
        """The methods of its body by name; the last definition wins, setters of properties left out."""
        return {unit.name: unit for unit in self.body if isinstance(unit, FunctionUnit) and unit.accessor is None}

    @property
    def _class_of_parts(self) -> ClassUnit | None:
        return self

    def _is_meant(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.ClassDef) and node.name.value == self.name

    def __repr__(self) -> str:
        return f"<class {self.module.name}.{self.qualname}>"


def units_of(block: cst.BaseSuite | cst.Module, module: Module, tree: Tree, parent: Unit | None) -> tuple[Unit, ...]:
    """The units of a body that is parsed already."""
    if isinstance(block, cst.SimpleStatementSuite):  # class A: x = 1
        line = cst.SimpleStatementLine(body=block.body)
        return (StatementUnit(module, parent, parsed=(tree, line)),)
    units: list[Unit] = []
    for place, node in enumerate(block.body):
        parsed = (tree, node)
        unit: Unit
        if isinstance(node, cst.FunctionDef):
            is_async = node.asynchronous is not None
            unit = FunctionUnit(module, parent, name=node.name.value, is_async=is_async, place=place, parsed=parsed)
        elif isinstance(node, cst.ClassDef):
            doc = node.get_docstring(clean=False)
            unit = ClassUnit(module, parent, name=node.name.value, doc=doc, place=place, parsed=parsed)
        else:
            unit = StatementUnit(module, parent, place=place, parsed=parsed)
        tree.units[id(node)] = unit
        units.append(unit)
    return tuple(units)


DefinitionUnit = FunctionUnit | ClassUnit


def header_of(unit: ClassUnit) -> str:
    """The text of a class that stands before its body."""
    return unit.text.partition(unit.body[0].text)[0] if unit.body else unit.text


def leaves(units: Iterable[Unit]) -> Iterator[Unit]:
    """The functions and statements of a body, those of its classes in their place."""
    for unit in units:
        if isinstance(unit, ClassUnit):
            yield from leaves(unit.body)
        else:
            yield unit


def reached_from(
    methods: Mapping[str, FunctionUnit],
    starts: Iterable[str],
    mentioned: Callable[[FunctionUnit], Iterable[str]] = attrgetter("words"),
) -> set[str]:
    """The methods that some of them mention, directly or not; themselves included.

    Args:
        methods: all methods of a class, by name.
        starts: the names of some; those that are no methods are passed over.
        mentioned: the names that the text of a method mentions.
    """
    found: set[str] = set()
    frontier = [name for name in starts if name in methods]
    while frontier:
        name = frontier.pop()
        if name not in found:
            found.add(name)
            frontier += methods.keys() & mentioned(methods[name])
    return found


class Methods(dict[str, FunctionUnit]):
    """The methods of objects of a class, by name."""

    def __init__(self) -> None:
        super().__init__()
        self._mentioned: dict[str, frozenset[str]] = {}
        self._called: dict[str, frozenset[str]] = {}

    def mentioned_by(self, name: str) -> frozenset[str]:
        """Those that one mentions, directly or not; itself included."""
        if name not in self._mentioned:
            self._mentioned[name] = frozenset(reached_from(self, [name]))
        return self._mentioned[name]

    def called_by(self, name: str) -> frozenset[str]:
        """The same, where it mentions them as attributes of its own object."""
        if name not in self._called:
            self._called[name] = frozenset(reached_from(self, [name], attrgetter("read_attributes")))
        return self._called[name]
