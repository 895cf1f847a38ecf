"""The ways back into the execution: expressions, calls and statements of Python nest in one another."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as AbstractSequence
from typing import TYPE_CHECKING

from gradlint.static.python.domain import Items
from gradlint.static.state.context import Arguments, Context, Outcome, Results
from gradlint.static.state.values import Mapping, Ref, Value
from gradlint.static.state.world import World

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Site
    from gradlint.static.text.files import Module
    from gradlint.static.text.units import Unit


class Execution:
    """What parts of the execution ask of others that come after them; filled once all of its parts are made."""

    __slots__ = (
        "alternatives",
        "assign",
        "bind",
        "block",
        "build_dict",
        "call",
        "dict_in",
        "dict_method",
        "enter",
        "evaluate",
        "get_attribute",
        "iterate",
        "loop_over",
        "loop_while",
        "manage",
        "run_unit",
        "unpack",
        "update",
        "value",
    )
    evaluate: Callable[[cst.CSTNode, World, Context], Value]
    """The value of an expression."""
    value: Callable[[cst.BaseExpression, World, Context], Results]
    """An expression at the top of a statement, where a call may fork the world."""
    alternatives: Callable[[cst.IfExp | cst.BooleanOperation, World, Context], Results]
    """An expression that chooses, whose values may be worth keeping apart."""
    block: Callable[[AbstractSequence[cst.CSTNode], list[World], Context], Outcome]
    """Statements, one after the other, in every world that reaches them."""
    manage: Callable[[cst.With, World, Context], Outcome]
    """``with``."""
    loop_over: Callable[[cst.For, list[World], Context], Outcome]
    """``for``, in every world that reaches it."""
    loop_while: Callable[[cst.While, list[World], Context], Outcome]
    """``while``, in every world that reaches it."""
    assign: Callable[[str, Value, World, Context], None]
    """``name = value``."""
    bind: Callable[[cst.CSTNode, Value, World, Context, cst.CSTNode], None]
    """``target = value``, whatever the target is made of, in a statement or expression."""
    call: Callable[[Value, Arguments, World, Context, Site], Results]
    """Call any value."""
    get_attribute: Callable[[Value, str, World, Context, Site], Value]
    """``owner.name``."""
    iterate: Callable[[Value, World, Context, Site], Items]
    """What iterating over a value gives."""
    unpack: Callable[[Value, int, list[bool], World, Context], list[Value]]
    """The values for so many targets, of which some are starred."""
    update: Callable[[Ref, Value, World, Context], None]
    """``ref.update(other)`` for a dict."""
    dict_in: Callable[[Value, World], Value]
    """The dict that stands for a value where it is used as one; what is none stands for itself."""
    dict_method: Callable[[Ref, Mapping, str, Arguments, World, Context, Site], Value]
    """Call a method of a dict."""
    build_dict: Callable[[Arguments, World, Context, Site], Value | None]
    """``dict(...)``."""
    enter: Callable[[Module, World], int | None]
    """Import a module of the project: its frame, None while it is being imported already."""
    run_unit: Callable[[Unit, World, Context], None]
    """Execute one unit in place."""
