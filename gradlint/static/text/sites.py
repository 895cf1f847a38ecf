"""Places in the code that findings can show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Location
    from gradlint.static.text.positions import Tree
    from gradlint.static.text.units import Unit


class NodeSite:
    """A node of a unit, as a place that a finding can show.

    Args:
        unit: where it stands.
        node: the node; None for that of the unit itself, which is not parsed for it.
        tree: the tree that the node stands in; as long as there are sites of it, the unit keeps to this tree.
    """

    __slots__ = ("_node", "_tree", "unit")

    def __init__(self, unit: Unit, node: cst.CSTNode | None = None, tree: Tree | None = None) -> None:
        self.unit = unit
        self._node = node
        self._tree = tree

    @property
    def node(self) -> cst.CSTNode:
        """The node; SourceError if libcst rejects the text of the unit."""
        return self.unit.node if self._node is None else self._node

    def locate(self) -> Location:
        """The range of source text that the node stands on; that of its unit if the node was not parsed from it."""
        return self.unit.location if self._node is None else self.unit.locate(self._node, self._tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSite) and other.unit is self.unit and other._node is self._node

    def __hash__(self) -> int:
        return id(self.unit) if self._node is None else id(self._node)

    def __repr__(self) -> str:
        return f"<a place in {self.unit!r}>"


__all__ = ["NodeSite"]
