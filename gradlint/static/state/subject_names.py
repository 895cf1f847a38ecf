"""Optimizers and modules that come from somewhere else, known by the names of what holds them."""

from __future__ import annotations

from dataclasses import replace

from gradlint.static.knowledge.guesses import MODULE_NAME, OPTIMIZER_NAME, OPTIMIZERS_NAME
from gradlint.static.state.values import Sequence, Unknown, Value
from gradlint.static.state.world import World, fresh


def looks_like_optimizer(value: Value) -> bool:
    """Whether an unknown value has the name of an optimizer.  A name may create a subject; it proves nothing."""
    return isinstance(value, Unknown) and bool(value.hint) and OPTIMIZER_NAME.search(value.hint) is not None


def each_optimizer(value: Value, w: World) -> Value | None:
    """What iterating over optimizers of which only the name is known gives: one stands for them all."""
    if not isinstance(value, Unknown) or OPTIMIZERS_NAME.search(value.hint) is None:
        return None
    key, paired = value.key, False
    if isinstance(key, tuple) and key[0] == "item" and isinstance(key[2], tuple) and key[2][0] in ("items", "values"):
        key, paired = key[1], key[2][0] == "items"
    each = w.resolve(Unknown(("item", key, ("each",)), value.hint, value.deps))
    return w.new(Sequence([Unknown(("key", fresh())), each], [None, None], None, None, False)) if paired else each


def known_by(value: Value, name: str) -> Value:
    """A value that is bound to a name: if that is the name of an optimizer or a module, it is known by that.

    So it was by none before, or by that of the method that gave it: ``optimizer = factory.build(model)``.
    """
    if type(value) is not Unknown:
        return value
    given = isinstance(value.key, tuple) and value.key[0] == "call" and len(value.key) == 2
    if OPTIMIZER_NAME.search(name) is not None:
        return replace(value, hint=name) if given or not value.hint else value
    return replace(value, hint=name) if given and MODULE_NAME.search(name) is not None else value
