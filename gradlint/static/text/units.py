"""Units: the statements, functions and classes of a file, which are parsed when they are first needed.

A unit knows the rows it stands on from a cheap index of the file.  Its libcst tree is built from those rows alone;
an indented unit is parsed behind an ``if 1:``, so that columns stay what they are.
"""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from sys import intern
from typing import TYPE_CHECKING, cast

import libcst as cst

from gradlint.finding import Location
from gradlint.source import SourceError
from gradlint.static.text.chains import words_in
from gradlint.static.text.constructs import constructs_in
from gradlint.static.text.parsing import parse_module
from gradlint.static.text.positions import Tree
from gradlint.static.text.sites import NodeSite
from gradlint.syntax import TextError, parse

if TYPE_CHECKING:
    from gradlint.static.text.files import Module

_ACCESSOR = re.compile(r"[ \t]*@[ \t]*[\w.]+\.(?:setter|deleter|getter)\b")
_SELF = re.compile(r"def\s+\w+(?:\[[^\]]*\])?\s*\(\s*(\w+)")
_FILLS = r"\.(?:append|extend|insert|add|appendleft|update|setdefault)\(|\s*=(?!=)"  #: after the name of what is filled

Definition = cst.FunctionDef | cst.ClassDef


class Unit:
    """A statement, function or class that is looked at as a whole.

    Args:
        module: the file it stands in.
        parent: the unit it stands in; None in the body of the file.
        rows: its first row, decorators included, and its last; from 1.  None to take them from the tree.
        place: which statement of its parent's body it is, from 0.
        parsed: the tree it stands in and its node, where it is parsed already.
    """

    def __init__(
        self,
        module: Module,
        parent: Unit | None,
        *,
        rows: tuple[int, int] | None = None,
        place: int = 0,
        parsed: tuple[Tree, cst.CSTNode] | None = None,
    ) -> None:
        self.module = module
        self.parent = parent
        self._rows = rows
        self._place = place
        self._sites: dict[int, NodeSite] = {}
        self._tree: Tree | None = None
        self._node: cst.CSTNode | None = None
        self._former: weakref.ref[Tree] | None = None  #: the tree that was let go of
        if parsed is not None:
            self._tree, self._node = parsed
        self.used = 0  #: when its node was last asked for; see :class:`~gradlint.static.text.trees.Trees`
        self._header: Tree | None = None  #: of decorators and bases, where they were parsed without the body

    @property
    def row(self) -> int:
        """The first row, from 1; decorators belong to what they decorate."""
        return self._span[0]

    @property
    def end_row(self) -> int:
        """The last row, from 1."""
        return self._span[1]

    @property
    def class_unit(self) -> ClassUnit | None:
        """The class whose body it stands in, be it in a branch there."""
        parent = self.parent
        while isinstance(parent, StatementUnit):
            parent = parent.parent
        return parent if isinstance(parent, ClassUnit) else None

    @property
    def text(self) -> str:
        """Its source text; without the outer indentation if it was found in a tree."""
        return self._generated if self._rows is None else self.module.source.between(*self._rows)

    @cached_property
    def _generated(self) -> str:
        return cst.Module([]).code_for_node(self.node)

    @property
    def is_import(self) -> bool:
        """Whether it is an import statement."""
        return self.text.startswith(("import ", "from "))

    @cached_property
    def words(self) -> frozenset[str]:
        """The identifiers in its text, those in comments and strings too."""
        return frozenset(map(intern, set(words_in(self.text))))

    @property
    def node(self) -> cst.CSTNode:
        """Its libcst node, parsed on first use.

        Raises:
            SourceError: ``ast`` accepts the text and libcst does not.
        """
        if self._node is None:
            self._tree, self._node = self._parse()
        self.used = self.module.trees.turn
        return self._node

    @property
    def is_readable(self) -> bool:
        """Whether libcst accepts the text, which ``ast`` does."""
        try:
            return self.node is not None
        except SourceError:
            return False

    @property
    def tree(self) -> Tree:
        """The tree its node stands in."""
        if self._tree is None:
            self._tree, self._node = self._parse()
        return self._tree

    def let_go(self) -> None:
        """Forget the tree, which is parsed again when it is next needed; the same is found while a site holds it."""
        if self._tree is not None:
            self._former = weakref.ref(self._tree)
        self._tree = self._node = None
        self._sites = {}

    @cached_property
    def here(self) -> NodeSite:
        """This unit as a place; it need not be parsed for that."""
        return NodeSite(self)

    def site(self, node: cst.CSTNode) -> NodeSite:
        """A node of this unit as a place; always the same object for the same node."""
        if node is self._node:
            return self.here
        known = self._sites.get(id(node))
        if known is None:
            if self._tree is None and self._former is not None and self._former() is not None:
                self._tree, self._node = self._parse()  # the node may stand in the tree that was let go of
            known = self._sites[id(node)] = NodeSite(self, node, self._tree)
        return known

    @cached_property
    def location(self) -> Location:
        """Where its node stands, which decorators do not belong to; all its rows if libcst rejects them."""
        try:
            return self.locate(self.node)
        except SourceError:
            return self.extent

    def locate(self, node: cst.CSTNode, tree: Tree | None = None) -> Location:
        """Where a node of a tree of this unit stands, without the whitespace around it; the unit if it is not found."""
        for each in (tree or self._tree, self._header):
            span = None if each is None else each.span(node)
            if span is not None:
                return self.module.source.location(*span)
        return self.extent

    @property
    def extent(self) -> Location:
        """All its rows; it need not be parsed for that if it was found by them."""
        first, last = self._span
        source = self.module.source
        begin, end = source.between(first, first), source.between(last, last)
        return source.location(first, len(begin) - len(begin.lstrip()) + 1, last, len(end))

    @cached_property
    def _span(self) -> tuple[int, int]:
        if self._rows is not None:
            return self._rows
        node = self.node
        nodes = [node, *node.decorators] if isinstance(node, Definition) else [node]
        spans = [span for span in (self.tree.span(each) for each in nodes) if span is not None]
        if not spans:
            return (1, self.module.source.row_count) if self.parent is None else (self.parent.row, self.parent.end_row)
        end_row, end_column = max(span[2:] for span in spans)
        return min(span[0] for span in spans), end_row - (end_column == 1)  # a block ends where the next line begins

    def _parse(self) -> tuple[Tree, cst.CSTNode]:
        former = None if self._former is None else self._former()
        if former is not None:
            self.module.trees.keep(self)
            return former, _only(former.root, self.text)  # type: ignore[return-value]  # it was the only one then
        found = self._parse_text(self.text)
        if found is None or not self._is_meant(found[1]):  # a backslash or a form feed in the way
            return self._parse_file()
        self.module.trees.keep(self)
        return found

    def _parse_file(self) -> tuple[Tree, cst.CSTNode]:
        try:
            return self.module.tree, self.find_in(self.module.tree.root)
        except SourceError as error:
            indent = len(self.text) - len(self.text.lstrip())
            self.module.rejected[self.row] = self.module.error(self.row, indent + 1, error.reason)
            raise self.module.rejected[self.row] from error

    def _parse_text(self, text: str) -> tuple[Tree, cst.CSTNode] | None:
        """The only statement of a text that begins at the unit's first row; None if it is not one."""
        indented = _is_indented(text)
        try:
            root = parse_module(f"if 1:\n{text}" if indented else text)
        except (cst.ParserSyntaxError, RecursionError, ValueError, TypeError):
            return None
        node = _only(root, text)
        return None if node is None else (Tree(root, self.row - 1 - indented), node)

    def find_in(self, root: cst.Module) -> cst.CSTNode:
        """Its node in the tree of the whole file; SourceError if there is another one in its place."""
        parent = root if self.parent is None else self.parent.find_in(root)
        body = parent.body if isinstance(parent, (cst.Module, cst.ClassDef)) else ()
        block = body.body if isinstance(body, cst.BaseSuite) else body
        node = block[self._place] if self._place < len(block) else None
        if node is None or not self._is_meant(node):
            raise self.module.error(self.row, 1, "it cannot be parsed")
        return node

    def _is_meant(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.BaseStatement) and not isinstance(node, Definition)


class StatementUnit(Unit):
    """A statement that defines no function or class, with all that stands in it."""

    is_text = False  #: it is nothing but a constant, as a docstring is, and does nothing
    is_main = False  #: it does something only where its file is the program

    @property
    def node(self) -> cst.BaseStatement:
        """Its libcst node; SourceError if libcst rejects the text."""
        return cast("cst.BaseStatement", super().node)

    def __repr__(self) -> str:
        return f"<statement {self.module.name}:{self.row}>"


class _Definition(Unit):
    """What functions and classes have in common: a name, decorators."""

    name: str
    _header_rows: int  #: how many rows can be parsed without the body; 0 if that is not to be tried

    @property
    def qualname(self) -> str:
        """The dotted name within the module, as Python tells it."""
        return _prefix(self.parent) + self.name

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


def _is_indented(text: str) -> bool:
    return text[0] in " \t"


def _only(root: cst.Module, text: str) -> cst.CSTNode | None:
    """The only statement of a text, which was parsed behind an ``if 1:`` if it is indented."""
    body: Sequence[cst.CSTNode] = root.body
    if _is_indented(text):
        if len(body) != 1:
            return None
        body = cast("cst.If", root.body[0]).body.body
    return body[0] if len(body) == 1 else None


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
        """The kinds of constructs in its body; see :func:`~gradlint.static.text.constructs.constructs_in`."""
        return constructs_in(self.node)

    @property
    def is_generator(self) -> bool:
        """Whether it contains ``yield``."""
        return "yield" in self.words and "yield" in self.constructs

    @cached_property
    def decorators(self) -> tuple[cst.BaseExpression, ...]:
        """The expressions behind ``@``, in order."""
        if self._rows is not None and not self._header_rows:
            return ()
        return tuple(each.decorator for each in cast("cst.FunctionDef", self._from_header()).decorators)

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
        if first is None or f"{first[1]}." not in self.text:
            return None
        try:
            return parse(f"if 1:\n{self.text}" if self.text[0] in " \t" else self.text)
        except TextError:
            return None

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
    def words_within(self) -> frozenset[str]:
        """The identifiers in the functions and classes that are defined within it, which may run when it is over."""
        text = f"if 1:\n{self.text}" if self.text[0] in " \t" else self.text
        try:
            inner = list(_definitions_in(parse(text)))
        except TextError:
            return self.words
        rows = text.split("\n")
        parts = ("\n".join(rows[node.lineno - 1 : node.end_lineno]) for node in inner)
        return frozenset(word for part in parts for word in words_in(part))

    @cached_property
    def is_accessor(self) -> bool:
        """Whether it is the setter or deleter of a property, which leaves the getter under its name."""
        return any(_ACCESSOR.match(row) for row in self.text.split("def ", 1)[0].split("\n"))

    def _is_meant(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.FunctionDef) and node.name.value == self.name

    def __repr__(self) -> str:
        return f"<function {self.module.name}.{self.qualname}>"


_Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


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
        header = cast("cst.ClassDef", self._from_header())
        return (*header.bases, *header.keywords)

    @cached_property
    def decorators(self) -> tuple[cst.BaseExpression, ...]:
        """The expressions behind ``@``, in order."""
        return tuple(each.decorator for each in cast("cst.ClassDef", self._from_header()).decorators)

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
        return {unit.name: unit for unit in self.body if isinstance(unit, FunctionUnit) and not unit.is_accessor}

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


def leaves(units: Iterable[Unit]) -> Iterator[Unit]:
    """The functions and statements of a body, those of its classes in their place."""
    for unit in units:
        if isinstance(unit, ClassUnit):
            yield from leaves(unit.body)
        else:
            yield unit
