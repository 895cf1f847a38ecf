"""What containers and optimizers hold, and what can be reached from values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.state.values import (
    Frame,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Value,
    each_of,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import names_in

if TYPE_CHECKING:
    from gradlint.finding import Site


def held(container: Sequence | Mapping, w: World, depth: int = 2) -> Iterator[tuple[Value, Site | None]]:
    """What a container holds, also in containers inside, each with the place where it was put in."""
    pairs: Iterable[tuple[Value, Site | None]]
    if isinstance(container, Mapping):
        pairs = [(value, None) for value in container.items.values()]
        pairs += [(container.tail, None)] if container.tail is not None else []
    else:
        pairs = list(zip(container.items, container.sites, strict=False))
        pairs += [(container.tail, container.tail_site)] if container.tail is not None else []
    for value, site in pairs:
        value = w.resolve(value)
        inner = w.get(value, Object)
        if isinstance(inner, (Sequence, Mapping)) and depth:
            yield from held(inner, w, depth - 1)
            continue
        if site is None:
            site = next((s for part in each_of(value) if (s := getattr(w.get(part, Object), "made_at", None))), None)
        yield value, site


def closed_over(value: Function | Lambda, w: World) -> Iterator[Value]:
    """The variables around a function that it mentions."""
    names = value.unit.words if isinstance(value, Function) else frozenset(names_in(value.node))
    key: int | None = value.frame
    while names and isinstance(frame := w.find(key) if key is not None else None, Frame):
        yield from (w.resolve(frame.vars[name]) for name in sorted(names & frame.vars.keys()))
        names, key = names - frame.vars.keys(), frame.parent


def united(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    """What is in any of some sets: one of them as it is, where it has all, since those of long graphs are large."""
    whole = frozenset[int]()
    for each in sets:
        if len(each) > len(whole):
            whole, each = each, whole
        if not each <= whole:
            whole |= each
    return whole


def reachable(values: Iterable[Value], w: World) -> set[int]:
    """The ids of all objects that can be reached from values."""
    seen: set[int] = set()
    closures: set[Value] = set()
    queue = list(values)
    while queue:
        value = w.resolve(queue.pop())
        if isinstance(value, (Function, Lambda)) and value not in closures and _is_nested(value, w):
            closures.add(value)
            queue += closed_over(value, w)
        if not isinstance(value, Ref) or value.id in seen:
            continue
        seen.add(value.id)
        obj: Object | None = w.find(value.id)
        if isinstance(obj, Tensor):
            seen |= obj.groups
        elif isinstance(obj, Instance):
            seen |= obj.groups
            queue += obj.attrs.values()
        elif isinstance(obj, Sequence):
            queue += [*obj.items, *([obj.tail] if obj.tail is not None else [])]
        elif isinstance(obj, Mapping):
            queue += [*obj.items.values(), *([obj.tail] if obj.tail is not None else [])]
    return seen


def divided(w: World) -> set[int]:
    """The groups that several optimizers hold, one of which at least was given some of the parameters by themselves.

    It is not known which: each steps its own.
    """
    optimizers = [obj for _, obj in w.having(roles.OPTIMIZER)]
    some = [obj.groups for obj in optimizers if any(w.get(w.resolve(given), Instance) is None for given in obj.args)]
    held = Counter(key for obj in optimizers for key in obj.groups) if some else Counter[int]()
    return {key for key in frozenset[int]().union(*some) if held[key] > 1}


def left_by(members: Container[int], w: World) -> list[int]:
    """The groups that the backward passes have reached which have fed these members, and that are none of them."""
    fed = {key: group for key, group in w.all(Group) if group.fed_at is not None}
    full = {key: group for key, group in fed.items() if group.fed > group.cleared}
    passes = {group.fed for key, group in full.items() if key in members}
    return [key for key in sorted(full.keys()) if key not in members and full[key].fed in passes]


def _is_nested(value: Function | Lambda, w: World) -> bool:
    """Whether a function was defined while another one ran."""
    frame = w.find(value.frame)
    return isinstance(frame, Frame) and frame.parent is not None
