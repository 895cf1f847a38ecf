"""What functional dropout takes, and whether functions decide by the mode what they do."""

from __future__ import annotations

import ast

#: name -> (position of training, position of the probability, its keyword, its default, whether it drops by default)
FUNCTIONS: dict[str, tuple[int | None, int, str, float, bool]] = {
    "dropout": (2, 1, "p", 0.5, True),
    "dropout1d": (2, 1, "p", 0.5, True),
    "dropout2d": (2, 1, "p", 0.5, True),
    "dropout3d": (2, 1, "p", 0.5, True),
    "alpha_dropout": (2, 1, "p", 0.5, False),
    "feature_alpha_dropout": (2, 1, "p", 0.5, False),
    "scaled_dot_product_attention": (None, 4, "dropout_p", 0.0, True),
}


def decides_by_mode(syntax: ast.AST) -> bool:
    """Whether a function does anything with the mode but hand it to what it calls."""
    handed = {
        id(value)
        for call in ast.walk(syntax)
        if isinstance(call, ast.Call)
        for value in (*call.args, *(keyword.value for keyword in call.keywords))
    }
    return any(_names_mode(node) and id(node) not in handed for node in ast.walk(syntax))


def _names_mode(node: ast.AST) -> bool:
    name = getattr(node, "attr", None) or getattr(node, "id", None)
    if isinstance(node, ast.arg):
        name = node.arg
    return isinstance(name, str) and "training" in name
