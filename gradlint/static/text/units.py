"""Units: the statements, functions and classes of a file, which are parsed when they are first needed."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property
from sys import intern
from typing import TYPE_CHECKING, cast

import libcst as cst

from gradlint.finding import Location
from gradlint.source import SourceError
from gradlint.static.text.chains import words_in
from gradlint.static.text.nodes import Tree, parse_module

if TYPE_CHECKING:
    from gradlint.static.text.definition_units import ClassUnit
    from gradlint.static.text.files import Module


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
        return None if self.parent is None else self.parent._class_of_parts  # noqa: SLF001 -- a unit as well

    @property
    def _class_of_parts(self) -> ClassUnit | None:
        """The class whose body what stands in this unit belongs to."""
        return None

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

    @property
    def _class_of_parts(self) -> ClassUnit | None:
        return self.class_unit

    def __repr__(self) -> str:
        return f"<statement {self.module.name}:{self.row}>"


class NodeSite:
    """A node of a unit, as a place that a finding can show.

    Args:
        unit: where it stands.
        node: the node; None for that of the unit itself, which is not parsed for it.
        tree: the tree that the node stands in; as long as there are sites of it, the unit keeps to this tree.
    """

    __slots__ = ("_location", "_node", "_tree", "unit")

    def __init__(self, unit: Unit, node: cst.CSTNode | None = None, tree: Tree | None = None) -> None:
        self.unit = unit
        self._node = node
        self._tree = tree
        self._location: Location | None = None

    @property
    def node(self) -> cst.CSTNode:
        """The node; SourceError if libcst rejects the text of the unit."""
        return self.unit.node if self._node is None else self._node

    def locate(self) -> Location:
        """The range of source text that the node stands on; that of its unit if the node was not parsed from it."""
        if self._location is None:
            self._location = self.unit.location if self._node is None else self.unit.locate(self._node, self._tree)
        return self._location

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSite) and other.unit is self.unit and other._node is self._node

    def __hash__(self) -> int:
        return id(self.unit) if self._node is None else id(self._node)

    def __repr__(self) -> str:
        return f"<a place in {self.unit!r}>"


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


class Statements(Unit):
    """Stands for many statements of a file, or for other units."""

    def __init__(self, statements: tuple[Unit, ...]) -> None:
        super().__init__(statements[0].module, None)
        self.statements = statements


def together(units: Sequence[Unit]) -> list[Unit]:
    """Units, the statements among them as one."""
    statements = tuple(unit for unit in units if isinstance(unit, StatementUnit))
    others = [unit for unit in units if not isinstance(unit, StatementUnit)]
    return [*others, Statements(statements)] if statements else others
