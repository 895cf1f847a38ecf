"""Objects that plotting and learning libraries make: figures, axes, estimators.

Such an object is an unknown value whose key tells its class, so that its methods are known by name.  An array of axes
stands for each of them.
"""

from __future__ import annotations

from collections.abc import Hashable

from gradlint.static.knowledge.torch_libraries import heads, is_part
from gradlint.static.knowledge.torch_table import GIVES, GIVES_ITSELF, GIVES_SEVERAL, is_estimator
from gradlint.static.state.values import Instance, Ref, Sequence, Unknown, Value
from gradlint.static.state.world import World, fresh


def made_by(name: str, w: World) -> Value | None:
    """What calling ``name`` (canonical) gives, if that is an object of such a library, or a pair of them."""
    if name in GIVES_SEVERAL:
        given: list[Value] = [_made(cls) for cls in GIVES_SEVERAL[name]]
        return w.new(Sequence(given, [None] * len(given), None, None, False))
    cls = name if is_estimator(name) else GIVES.get(name)
    return None if cls is None else _made(cls)


def _made(cls: str) -> Unknown:
    return Unknown(("object", cls, fresh()), cls.rpartition(".")[2].lower())


def class_of(value: Unknown) -> str | None:
    """The class of an object that a library made, or of a part of what it gave, by its canonical name."""
    return _class_of(value.key)


def _class_of(key: Hashable) -> str | None:
    if not isinstance(key, tuple) or len(key) != 3:
        return None
    kind, first, last = key
    if kind == "object":
        return str(first)
    if kind == "item":
        return _class_of(first)
    if kind == "element":
        return _class_of(last)
    return GIVES.get(f"{_class_of(first)}.{last}") if kind == "attribute" else None


def is_itself(method: str) -> bool:
    """Whether a method of such an object gives the object, or the axes it holds in another shape."""
    return method in GIVES_ITSELF


def part_of(value: Unknown, w: World) -> tuple[Instance, str] | None:
    """The library's model that something unknown is a part of, and the attribute under which that has it."""
    key = value.key
    while isinstance(key, tuple) and len(key) == 3 and (key[0] in ("item", "element") or key[2] == "_modules"):
        key = key[2] if key[0] == "element" else key[1]
    if isinstance(key, Ref):
        owner = w.get(key, Instance)
        return (owner, "") if owner is not None and owner.opaque and heads(owner.name) else None
    if not isinstance(key, tuple) or key[0] != "attribute" or not isinstance(key[1], Ref):
        return None
    owner = w.get(key[1], Instance)
    return (owner, key[2]) if owner is not None and owner.opaque and is_part(owner.name, key[2]) else None


__all__ = ["class_of", "is_itself", "made_by", "part_of"]
