"""Facts of heap objects are declared: what is derived from the declarations keeps the laws that they promise."""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlint.events import ConvertedToNumpy
from gradlint.finding import Location
from gradlint.protocol import Token
from gradlint.static.knowledge import roles
from gradlint.static.state.contents import contents, signature
from gradlint.static.state.declaring import fact, facts, joining, signing
from gradlint.static.state.joining import join
from gradlint.static.state.origins import Setting
from gradlint.static.state.tensor import Averages, LostTerm, Regression, Spread
from gradlint.static.state.values import (
    Const,
    Cut,
    Frame,
    Group,
    Hook,
    Instance,
    Mapping,
    Object,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
)
from gradlint.static.state.world import World

KINDS = (Tensor, Group, Segment, Instance, Sequence, Mapping, Frame)
STATIC = Path(__file__).parents[1] / "gradlint" / "static"

PLACES = [Location("main.py", row) for row in (1, 2, 3)]
IDS = [frozenset[int](), frozenset([1]), frozenset([2]), frozenset([1, 3])]
WORDS = ["", "cpu", "relu"]
VALUES = [Const(1), Const(None), Const("a"), Unknown(Setting("x")), Unknown(Setting("y"))]
TOKENS: list[Any] = [{}, *({"mode": frozenset([Token(state)])} for state in ("on", "off"))]
OF_TYPE: dict[str, list[Any]] = {
    "bool": [False, True],
    "bool | None": [False, True, None],
    "int": [0, 1, 2],
    "int | None": [None, 1, 2],
    "Averages": list(Averages),
    "str": WORDS,
    "str | None": [None, *WORDS],
    "Role": [roles.PLAIN, roles.MODULE, roles.OPTIMIZER],
    "Site | None": [None, *PLACES],
    "Cut | None": [
        None,
        *(Cut(how, at, trained) for how in ("detach", "numpy") for trained in (False, True) for at in PLACES),
    ],
    "frozenset[int]": IDS,
    "frozenset[str]": [frozenset[str](), frozenset("a"), frozenset("ab")],
    "frozenset[Site]": [frozenset[Location](), frozenset(PLACES[:1]), frozenset(PLACES[1:])],
    "tuple[int, ...]": [(), (1,), (2,), (1, 3)],
    "tuple[str, ...]": [(), ("a",), ("a", "b")],
    "tuple[int | None, ...] | None": [None, (1,), (None, 2)],
    "tuple[Unknown, ...]": [
        (),
        (Unknown(Setting("x"), "x"),),
        (Unknown(Setting("x"), "x"), Unknown(Setting("y"), "y")),
    ],
    "tuple[ConvertedToNumpy | DataWritten, ...]": [()],
    "tuple[Regression, ...]": [(), (Regression(PLACES[0], "", IDS[1]),), (Regression(PLACES[1], "l1_loss", IDS[2]),)],
    "tuple[LostTerm, ...]": [(), *((LostTerm(PLACES[2], Cut("numpy", place, True)),) for place in PLACES)],
    "tuple[Spread, ...]": [(), (Spread(PLACES[0], ((2, 1), (2,))),), (Spread(PLACES[1], ((None, 1), (None,))),)],
    "tuple[Hook, ...]": [(), (Hook(Const(1), False),), (Hook(Const(2), True),)],
    "tuple[str, str]": [("", ""), ("Net", "mask")],
    "tuple[Value, ...]": [(), (Const(1),)],
    "tuple[Value, Value] | None": [None, (Const(1), Const(2))],
    "Hashable": [None, "first loop", "second loop"],
    "Class | None": [None],
    "Layer | None": [None],
    "Loss | None": [None],
    "Value | None": [None, *VALUES],
    "list[Value]": [[], VALUES[:1], VALUES[1:3]],
    "list[Site | None]": [[]],
    "dict[str, Value]": [{}, {"a": VALUES[0]}, {"a": VALUES[3], "b": VALUES[1]}],
    "dict[Value, Value]": [{}, {Const("a"): VALUES[0]}, {Const("a"): VALUES[3], Const("b"): VALUES[1]}],
    "dict[str, Site]": [{}, {"a": PLACES[0]}, {"a": PLACES[1], "b": PLACES[0]}],
    "dict[str, Tokens]": TOKENS,
    "dict[str, frozenset[Token]]": TOKENS,
}
"""What facts may be, by the types of their fields."""
chances = st.integers(0, 2**32).map(Random)


def types_of(kind: type) -> dict[str, str]:
    """The fields of a class, and how their types are written."""
    return {each.name: str(each.type) for each in fields(kind) if each.name != "owner"}


def made_by(kind: type, chance: Random) -> Any:
    """An object of a class, as a program may make one: what goes with another fact is there only with that."""
    drawn = {name: deepcopy(chance.choice(OF_TYPE[text])) for name, text in types_of(kind).items()}
    if kind is Tensor:
        drawn["doubtful"] &= drawn["segments"]
        drawn.update(device=drawn["device"] or None, device_if_tensor=drawn["device_if_tensor"] or None)
        drawn["device"] = None if drawn["device_if_tensor"] else drawn["device"]
        drawn["kept_as"] = ("Net", "mask") if drawn["kept_at"] is not None else ("", "")
        if drawn["kept_at"] is not None:  # a parameter is no plain tensor that a module keeps
            drawn["is_parameter"] = drawn["is_parameter"] and None
    if kind is Group and not drawn["beside"]:
        drawn.update(placed=0, placed_at=None, copied=False)
    if kind is Segment:
        drawn["spoilt_by"] = drawn["spoilt_by"] if drawn["spoilt_at"] is not None else ""
    if kind is Sequence:
        drawn["sites"] = [None] * len(drawn["items"])
    return kind(**drawn)


class Joiner:
    """Joins values as worlds do, but that two that are not the same make one unknown value, whichever they are."""

    TOP = Unknown(Setting("either"))

    def value(self, x: Any, y: Any) -> Any:
        """Either value."""
        return x if x == y else self.TOP

    def optional(self, x: Any, y: Any) -> Any:
        """The same, of values that need not be there."""
        return (x if y is None else y) if x is None or y is None else self.value(x, y)

    def dicts(self, x: dict[Any, Any], y: dict[Any, Any]) -> dict[Any, Any]:
        """The same, name by name."""
        return {key: self.optional(x.get(key), y.get(key)) for key in {**x, **y}}

    def row(self, x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same, in order."""
        return tuple(map(self.value, x, y)) if len(x) == len(y) else ()

    def items(self, x: Sequence, y: Sequence) -> list[Any]:
        """The items both have."""
        return [self.value(a, b) for a, b in zip(x.items, y.items, strict=False)]

    def tail(self, x: Sequence, y: Sequence) -> Any:
        """Any of the others."""
        tail, shared = self.optional(x.tail, y.tail), min(len(x.items), len(y.items))
        for extra in (*x.items[shared:], *y.items[shared:]):
            tail = self.optional(tail, extra)
        return tail

    def sites(self, x: Sequence, y: Sequence) -> list[Any]:
        """No places."""
        return [None] * min(len(x.items), len(y.items))

    def tail_site(self, x: Sequence, y: Sequence) -> Any:
        """The earlier one."""
        sites = [each for each in (x.tail_site, y.tail_site) if each is not None]
        return min(sites, default=None, key=lambda site: site.locate().row)


def differing(one: Object, other: Object) -> dict[str, tuple[Any, Any]]:
    """The facts of two objects that are not the same, by name."""
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in facts(type(one))}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(deadline=None, max_examples=60)
@given(chance=chances)
def test_the_join_of_objects_is_a_least_upper_bound(kind: type, chance: Random) -> None:
    """Commutative, idempotent and associative: so it is monotone in the order in which x <= y where x with y is y."""
    x, y, z = (made_by(kind, chance) for _ in range(3))
    both, j = joining(kind), Joiner()
    assert differing(both(x, x, j), x) == {}
    assert differing(both(x, y, j), both(y, x, j)) == {}
    assert differing(both(both(x, y, j), z, j), both(x, both(y, z, j), j)) == {}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(deadline=None, max_examples=40)
@given(chance=chances)
def test_the_join_of_objects_is_monotone(kind: type, chance: Random) -> None:
    x, more, y = (made_by(kind, chance) for _ in range(3))
    both, j = joining(kind), Joiner()
    above = both(x, more, j)
    low, high = both(x, y, j), both(above, y, j)
    assert differing(both(low, high, j), high) == {}


@settings(deadline=None, max_examples=60)
@given(chance=chances)
def test_worlds_that_meet_are_one_whichever_comes_first(chance: Random) -> None:
    start = World()
    keys = [start.new(made_by(kind, chance)).id for kind in KINDS]
    left, right = start, start.copy()
    for world in (left, right):
        for key, kind in zip(keys, KINDS, strict=True):
            drawn, obj = made_by(kind, chance), world.write(key)
            for name in facts(kind):
                setattr(obj, name, getattr(drawn, name))
    one, other = join(left, right), join(right, left)
    assert signature(one, keys[-1], keys) == signature(other, keys[-1], keys)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_at_most_thirty_fields_are_declared_in_a_class(kind: type) -> None:
    for each in kind.__mro__:
        assert len(getattr(each, "__annotations__", {}).keys() - {"owner", "stamp"}) <= 30, each


def test_a_field_without_a_declaration_is_an_error() -> None:
    @dataclass
    class Half:
        whole: bool = fact(False)
        half: bool = False

    with pytest.raises(TypeError, match=r"Half\.half is not declared"):
        facts(Half)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_read_counts_for_sameness_or_says_why_not(kind: type) -> None:
    read = {
        node.attr
        for path in STATIC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    for name, declared in facts(kind).items():
        if declared.same is None:
            assert declared.why_not, f"{kind.__name__}.{name}"
        else:
            assert name in read, f"{kind.__name__}.{name} is read nowhere"


class Numbers:
    """Names what an object points to by its number alone."""

    def pointer(self, key: int) -> Any:
        """The number."""
        return key

    def pointers(self, keys: frozenset[int]) -> Any:
        """The numbers."""
        return keys

    graph = pointers

    def moment(self, number: int) -> Any:
        """The number."""
        return number

    def value(self, value: Any) -> Any:
        """The value."""
        return value

    def variables(self, found: dict[str, Any]) -> Any:
        """The variables."""
        return tuple(sorted(found.items(), key=lambda pair: pair[0]))

    states = variables


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name, each in facts(kind).items() if each.same is not None],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_two_objects_that_differ_in_what_counts_have_two_signatures(kind: Any, name: str) -> None:
    changed = {
        "frozenset[int]": frozenset([7]),
        "frozenset[str]": frozenset(["weight"]),
        "frozenset[Site]": frozenset([Location("main.py", 1)]),
        "Site | None": Location("main.py", 1),
        "bool": not getattr(kind() if kind is not Frame else Frame({}), name),
        "bool | None": None if getattr(kind() if kind is not Frame else Frame({}), name, None) is not None else True,
        "Class | None": "a class",
        "tuple[ConvertedToNumpy | DataWritten, ...]": (ConvertedToNumpy,),
        "tuple[Hook, ...]": (type("Hook", (), {"function": Const(1)}),),
        "Cut | None": Cut("detach", Location("main.py", 1)),
        "tuple[str, str]": ("Net", "mask"),
        "tuple[Value, Value] | None": (Const(1), Const(2)),
        "tuple[Value, ...]": (Const(1),),
        "tuple[Unknown, ...]": (Unknown(Setting("x")),),
        "tuple[int, ...]": (7,),
        "tuple[str, ...]": ("x",),
        "tuple[int | None, ...] | None": (2,),
        "int": 7,
        "int | None": 7,
        "Averages": Averages.MIXED,
        "str": "other",
        "str | None": "other",
        "Role": roles.HOOK,
        "Hashable": "loop",
        "Value | None": Const(1),
        "list[Value]": [Const(1)],
        "dict[str, Value]": {"a": Const(1)},
        "dict[Value, Value]": {Const("a"): Const(1)},
        "dict[str, Tokens]": {"mode": "on"},
        "dict[str, frozenset[Token]]": {"mode": "on"},
    }[types_of(kind)[name]]
    first, second = (kind() if kind is not Frame else Frame({}) for _ in range(2))
    setattr(second, name, changed)
    sign = signing(kind)
    assert sign(first, Numbers()) != sign(second, Numbers())


def test_what_an_object_points_to_is_found() -> None:
    world = World()
    held = [world.new(Tensor()) for _ in range(3)]
    row = Sequence([held[0]], [None], held[1], closed_by=(held[1], held[2]))
    assert set(contents(row, world)) == {ref.id for ref in held}
    assert set(contents(Tensor(base=1, deps=frozenset([2])), world)) == {1, 2}
    assert contents(Mapping(factory=Ref(5)), world) == [5]
