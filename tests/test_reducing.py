"""Which worlds may be joined without loss, and which of many are the most alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gradlint.static.knowledge import roles
from gradlint.static.state.liveness import Live
from gradlint.static.state.origins import Parameter
from gradlint.static.state.reducing import agree, distance, reduce
from gradlint.static.state.values import (
    NONE,
    Choice,
    Const,
    Frame,
    Instance,
    Mapping,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World

Make = Callable[[World], Value]


def unknown(key: str) -> Unknown:
    return Unknown(Parameter("f", key, 1))


def tuple_of(*items: Value, mutable: bool = False) -> Make:
    return lambda w: w.new(Sequence(list(items), [None] * len(items), mutable=mutable))


def list_of(*items: Value) -> Make:
    return tuple_of(*items, mutable=True)


def tensor(**facts: object) -> Make:
    return lambda w: w.new(Tensor(**facts))  # type: ignore[arg-type]


def array(w: World) -> Value:
    return w.new(Instance(name="numpy.ndarray", role=roles.ARRAY))


def model(w: World) -> Value:
    return w.new(Instance(name="Net", role=roles.MODULE))


def worlds(left: dict[str, Make | Value], right: dict[str, Make | Value]) -> tuple[World, World, Ref]:
    """Two forks of a world, with variables of one frame, and the frame."""
    a = World()
    frame = a.new(Frame({}))
    b = a.copy()
    for world, variables in ((a, left), (b, right)):
        for name, value in variables.items():
            world.write(frame.id).vars[name] = value(world) if callable(value) else value
    return a, b, frame


TRUE, FALSE = Const(True), Const(False)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (TRUE, TRUE),
        (TRUE, FALSE),
        (Const("train"), Const("test")),
        (NONE, TRUE),
        (TRUE, Choice(1, (TRUE, FALSE))),
        (Const(1), Const(2)),
        (array, array),
        (array, NONE),
        (unknown("x"), unknown("y")),
        (unknown("x"), tuple_of(Const(3), unknown("n"))),
        (unknown("x"), lambda w: w.new(Mapping({Const("a"): unknown("b")}))),
        (list_of(unknown("x")), list_of(unknown("y"), unknown("z"))),
        (tensor(requires_grad=True), tensor(requires_grad=True)),
        (list_of(NONE, unknown("x")), list_of(NONE, unknown("y"))),
    ],
)
def test_worlds_that_differ_in_one_value_that_may_be_either(left: Make | Value, right: Make | Value) -> None:
    a, b, frame = worlds({"x": left, "y": TRUE}, {"x": right, "y": TRUE})
    assert agree(a, b)
    (joined,) = reduce([a, b], 6)
    held = joined.get(frame, Frame)
    assert held is not None
    assert held.vars.keys() == {"x", "y"}


def test_a_constant_that_may_be_either_is_known_to_be() -> None:
    a, b, frame = worlds({"x": TRUE}, {"x": FALSE})
    (joined,) = reduce([a, b], 6)
    value = joined.write(frame.id).vars["x"]
    assert isinstance(value, Choice)
    assert value.alternatives == (TRUE, FALSE)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (model, model),
        (model, NONE),
        (model, unknown("m")),
        (tensor(requires_grad=True), tensor(requires_grad=False)),
        (tensor(device="cpu"), unknown("x")),
        (list_of(Const(2), Const(2)), list_of(Const(3), Const(4))),
        (list_of(Const("M")), unknown("layers")),
        (list_of(unknown("x")), list_of(unknown("x"), model(World()))),
        (Choice(1, tuple(map(Const, "abc"))), Choice(2, tuple(map(Const, "cde")))),
    ],
)
def test_worlds_that_differ_in_what_matters(left: Make | Value, right: Make | Value) -> None:
    a, b, frame = worlds({"x": left}, {"x": right})
    assert not agree(a, b)
    assert distance(a, b) > 0
    assert len(reduce([a, b], 6)) == 2
    assert agree(a, b, Live(frame.id, frozenset("yz")))  # it is not read any more
    assert not agree(a, b, Live(frame.id, frozenset("xy")))
    assert not agree(a, b, Live(frame.id + 1000, frozenset("yz")))


def test_worlds_that_differ_in_two_constants_are_apart_unless_they_go_together() -> None:
    a, b, _ = worlds({"x": TRUE, "y": NONE}, {"x": FALSE, "y": Const("a")})
    assert not agree(a, b)
    a, b, frame = worlds({"x": TRUE, "y": TRUE}, {"x": FALSE, "y": FALSE})
    assert agree(a, b)
    (joined,) = reduce([a, b], 6)
    variables = joined.write(frame.id).vars
    assert variables["x"] == variables["y"]


def test_the_graph_of_a_tensor_matters_where_it_is_kept() -> None:
    def ends_with(*, in_list: bool = False, begun: int = 0) -> tuple[World, World]:
        world = World()
        segments = [world.new(Segment()).id for _ in range(2)]
        frame = world.new(Frame({}))
        ends = world, world.copy()
        for end, segment in zip(ends, segments, strict=True):
            value: Value = end.new(Tensor(requires_grad=True, segments=frozenset([segment]), total_since=begun))
            end.write(frame.id).vars["x"] = end.new(Sequence([value], [None])) if in_list else value
        return ends

    assert agree(*ends_with())
    assert not agree(*ends_with(in_list=True))
    assert not agree(*ends_with(begun=1))  # a running total


def test_the_most_alike_of_many_are_joined() -> None:
    a, b, frame = worlds({"x": TRUE, "y": NONE}, {"x": FALSE, "y": Const("a")})
    c = b.copy()
    c.write(frame.id).vars["x"] = model(c)
    first, second = reduce([a, b, c], 2)
    assert second is c
    assert first not in (a, b)
