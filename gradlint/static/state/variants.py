"""Which of several models a program has chosen: what happens to one of them tells nothing of the others."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.state.origins import Among, Comparison, OptionAmong
from gradlint.static.state.values import Choice, Const, Frame, Instance, Ref, Value
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.static.state.context import Context

"""What the conditions begin with that an unknown value is a constant, or one of some."""


def variant(w: World, ctx: Context) -> Hashable:
    """The models of the project's classes at hand, by the names they bear here.

    Where worlds were joined, models that go with different losses may have got mixed: those are left out.
    """
    return _at_hand({value for key, value in w.bound.items() if isinstance(key, int)}, w, ctx)


def chosen(w: World, ctx: Context) -> Hashable | None:
    """The same, with the models that are one of several of a table, as long as nothing else was assumed.

    What happens under a condition of which nothing is known may be meant for some of the models only.
    """
    return _at_hand((), w, ctx) or None if all(_settles(key, w) for key in w.assumed) else None


def _settles(condition: Hashable, w: World) -> bool:
    """Whether a condition that was assumed tells by which key something was looked up, or which keys there are."""
    match condition:
        case OptionAmong():
            return True
        case Comparison("==", subject) | Among(subject):
            return type(w.bound.get(subject)) is Const
    return False


def _at_hand(mixed: Container[Value], w: World, ctx: Context) -> frozenset[Hashable]:
    found: set[Hashable] = set()
    for key in dict.fromkeys((ctx.frame, w.modules.get(ctx.module, ctx.frame))):
        frame = w.get(Ref(key), Frame)
        for name, value in frame.vars.items() if frame is not None else ():
            value = w.resolve(value) if type(value) is Choice else value
            obj = w.get(value, Instance) if isinstance(value, Ref) else None
            if obj is not None and obj.cls is not None and obj.role is roles.PLAIN:
                held = [(f"{name}.{attribute}", each) for attribute, each in obj.attrs.items()]
            else:
                held = [(name, value)]
            found.update(_models(held, mixed, w))
    return frozenset(found)


def _models(named: list[tuple[str, Value]], mixed: Container[Value], w: World) -> Iterator[Hashable]:
    for name, value in named:
        value = w.resolve(value) if type(value) is Choice else value
        obj = w.get(value, Instance) if isinstance(value, Ref) and value not in mixed else None
        if obj is not None and obj.cls is not None and obj.role is roles.MODULE:
            yield name, obj.cls.unit


__all__ = ["chosen", "variant"]
