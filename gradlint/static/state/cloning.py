"""Deep copies of values."""

from __future__ import annotations

from dataclasses import replace

from gradlint.static.knowledge import roles
from gradlint.static.state.declaring import cloning
from gradlint.static.state.origins import fresh
from gradlint.static.state.values import (
    REPEATED,
    Bound,
    Choice,
    Frame,
    Instance,
    Partial,
    Ref,
    Segment,
    Value,
)
from gradlint.static.state.world import World


def clone(value: Value, w: World) -> Value:
    """``copy.deepcopy(value)``: new objects, new parameter groups."""
    memo: dict[int, int] = {}

    def copy(value: Value) -> Value:
        value = w.resolve(value)
        if isinstance(value, Bound):  # a method of an object is one of its copy then
            return replace(value, receiver=copy(value.receiver))
        if isinstance(value, Partial):
            kwargs = tuple((name, copy(v)) for name, v in value.kwargs)
            return replace(value, function=copy(value.function), args=tuple(map(copy, value.args)), kwargs=kwargs)
        if isinstance(value, Choice):
            copies = tuple(map(copy, value.alternatives))
            return value if copies == value.alternatives else replace(value, key=fresh(), alternatives=copies)
        if not isinstance(value, Ref):
            return value
        if value.id in memo:
            return Ref(memo[value.id])
        obj = w.find(value.id)
        if obj is None or isinstance(obj, (Frame, Segment)):
            return value
        new = obj.copy()
        if isinstance(new, Instance) and new.role is roles.PARAMETERS:
            new.args = ()  # no module has them
        ref = w.new(new)
        memo[value.id] = ref.id
        cloning(type(new))(new, copy, group)
        if isinstance(new, Instance):
            new.attrs.pop(REPEATED, None)
        return ref

    def group(key: int) -> int:
        ref = copy(Ref(key))
        assert isinstance(ref, Ref)
        return ref.id

    return copy(value)
