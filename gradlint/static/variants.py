"""Which of several models a program has chosen: what happens to one of them tells nothing of the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.values import Frame, Instance, Ref, Value
from gradlint.static.world import World

if TYPE_CHECKING:
    from gradlint.static.context import Context


def variant(w: World, ctx: Context) -> Hashable:
    """The models of the project's classes at hand, by the names they bear here.

    Where worlds were joined, models that go with different losses may have got mixed: those are left out.
    """
    mixed = {value for key, value in w.bound.items() if isinstance(key, int)}
    found: set[Hashable] = set()
    for key in dict.fromkeys((ctx.frame, w.modules.get(ctx.module, ctx.frame))):
        frame = w.get(Ref(key), Frame)
        for name, value in frame.vars.items() if frame is not None else ():
            obj = w.get(value, Instance) if isinstance(value, Ref) else None
            if obj is not None and obj.cls is not None and obj.kind == "":
                held = [(f"{name}.{attribute}", each) for attribute, each in obj.attrs.items()]
            else:
                held = [(name, value)]
            found.update(_models(held, mixed, w))
    return frozenset(found)


def _models(named: list[tuple[str, Value]], mixed: set[Value], w: World) -> Iterator[Hashable]:
    for name, value in named:
        obj = w.get(value, Instance) if isinstance(value, Ref) and value not in mixed else None
        if obj is not None and obj.cls is not None and obj.kind == "module":
            yield name, obj.cls.unit


__all__ = ["variant"]
