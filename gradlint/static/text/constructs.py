"""What kinds of constructs a function is made of."""

from __future__ import annotations

import libcst as cst

from gradlint.static.text.nodes import children


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
    for child in children(node):
        construct = _CONSTRUCTS.get(type(child))
        if construct is not None:
            found.add(construct)
        if construct != "def":
            _scan(child, found)


_CONSTRUCTS: dict[type, str] = {
    **dict.fromkeys([cst.Yield, cst.From], "yield"),
    **dict.fromkeys([cst.For, cst.While, cst.CompFor], "loop"),
    **dict.fromkeys([cst.FunctionDef, cst.Lambda, cst.ClassDef], "def"),
}
