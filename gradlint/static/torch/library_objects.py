"""Objects that plotting and learning libraries make: figures, axes, estimators.

Such an object is an unknown value whose key tells its class, so that its methods are known by name.  An array of axes
stands for each of them.
"""

from __future__ import annotations

from collections.abc import Hashable

from gradlint.static.knowledge.torch_libraries import heads, is_part
from gradlint.static.knowledge.torch_table import GIVES, GIVES_ITSELF, GIVES_SEVERAL, is_estimator
from gradlint.static.state.origins import AttributeOf, ElementOf, ItemOf, Made, fresh
from gradlint.static.state.values import Instance, Ref, Sequence, Unknown, Value
from gradlint.static.state.world import World


def made_by(name: str, w: World) -> Value | None:
    """What calling ``name`` (canonical) gives, if that is an object of such a library, or a pair of them."""
    if name in GIVES_SEVERAL:
        given: list[Value] = [_made(cls) for cls in GIVES_SEVERAL[name]]
        return w.new(Sequence(given, [None] * len(given), None, None, False))
    cls = name if is_estimator(name) else GIVES.get(name)
    return None if cls is None else _made(cls)


def _made(cls: str) -> Unknown:
    return Unknown(Made(cls, fresh()), cls.rpartition(".")[2].lower())


def class_of(value: Unknown) -> str | None:
    """The class of an object that a library made, or of a part of what it gave, by its canonical name."""
    return _class_of(value.key)


def _class_of(key: Hashable) -> str | None:
    match key:
        case Made(cls):
            return cls
        case ItemOf(of) | ElementOf(_, of):
            return _class_of(of)
        case AttributeOf(owner, name):
            return GIVES.get(f"{_class_of(owner)}.{name}")
    return None


def is_itself(method: str) -> bool:
    """Whether a method of such an object gives the object, or the axes it holds in another shape."""
    return method in GIVES_ITSELF


def part_of(value: Unknown, w: World) -> tuple[Instance, str] | None:
    """The library's model that something unknown is a part of, and the attribute under which that has it."""
    key: Hashable = value.key
    while True:
        match key:
            case ItemOf(of) | ElementOf(_, of) | AttributeOf(of, "_modules"):
                key = of
            case Ref():
                owner = w.get(key, Instance)
                return (owner, "") if owner is not None and owner.opaque and heads(owner.name) else None
            case AttributeOf(Ref() as whole, str(name)):
                owner = w.get(whole, Instance)
                return (owner, name) if owner is not None and owner.opaque and is_part(owner.name, name) else None
            case _:
                return None


__all__ = ["class_of", "is_itself", "made_by", "part_of"]
