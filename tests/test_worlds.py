"""What a world remembers of unknown values."""

from collections.abc import Hashable
from pathlib import Path

import pytest

from gradlint.cli import main
from gradlint.static.python.streams import counted
from gradlint.static.state.joining import join_results
from gradlint.static.state.origins import Comparison, ElementOf, ItemOf, New, fresh
from gradlint.static.state.provenance import is_later
from gradlint.static.state.values import (
    NONE,
    Choice,
    Const,
    External,
    Group,
    Instance,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import Imported, World

ITEM = Unknown(ItemOf("graph", "weight"))
OTHER = Unknown(ItemOf("graph", "label"))


@pytest.mark.parametrize(
    "value",
    [ITEM, Choice("either", (NONE, ITEM)), Choice("either", (NONE, Choice("or", (ITEM, OTHER))))],
)
def test_what_was_read_before_something_is_stored_stays_what_it_is(value: Value) -> None:
    world = World()
    assert world.stored(ITEM.key) is None
    world.store(ITEM.key, value)
    assert world.stored(ITEM.key) == value
    assert world.resolve(ITEM) == ITEM


def test_what_is_stored_last_is_read() -> None:
    world = World()
    world.store(ITEM.key, OTHER)
    world.bound[OTHER.key] = Const(3)
    assert world.stored(ITEM.key) == Const(3)
    world.store(ITEM.key, ITEM)
    assert world.stored(ITEM.key) == ITEM


def test_what_modules_made_is_found_by_its_kind_as_it_is_now() -> None:
    imported = Imported()
    world = World(imported)
    for key, obj in ((1, Instance()), (2, Tensor()), (3, Instance()), (2, Instance()), (3, Instance())):
        imported.add(key, obj)
    assert not world.all(Instance)
    assert not world.all(Tensor, imported=True)
    assert dict(world.all(Instance, imported=True)) == {key: imported[key] for key in (1, 2, 3)}
    world.heap[1] = Tensor()
    world.write(3).name = "changed"
    assert sorted(key for key, _ in world.all(Instance, imported=True)) == [2, 3]
    assert [obj.name for _, obj in world.all(Instance)] == ["changed"]


def test_what_is_put_where_it_was_taken_from_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graphs.py").write_text(
        "import torch\n\n\n"
        "def prepare(graph, hops):\n"
        "    graph.data['weight'] = graph.data['weight']\n"
        "    graph.weight = graph.weight\n"
        "    for hop in range(hops):\n"
        "        graph.update(graph.data['weight'], graph.weight, hop)\n"
        "    w = torch.ones(2, requires_grad=True)\n"
        "    print((w * 2).numpy())\n"
    )
    assert main(["--isolated", "--no-cache", str(tmp_path)]) == 1
    assert "GL501" in capsys.readouterr().out


def test_what_stands_under_a_number_is_of_one_kind_in_all_worlds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where either a layer or a class derived from it is built, at one place of the program."""
    (tmp_path / "norms.py").write_text(
        "from torch import nn\n\n\n"
        "class Norm2d(nn.LayerNorm):\n    pass\n\n\n"
        "class Block(nn.Module):\n"
        "    def __init__(self, width, flat):\n"
        "        super().__init__()\n"
        "        kind = nn.LayerNorm if flat else Norm2d\n"
        "        self.norms = [kind(width)]\n\n\n"
        "block = Block(4, input() == 'flat')\n"
    )
    kinds: dict[int, set[type[Object]]] = {}
    put = World.new

    def watched(world: World, obj: Object, place: Hashable = None, *, key: int = 0) -> Ref:
        ref = put(world, obj, place, key=key)
        kinds.setdefault(ref.id, set()).add(type(obj))
        return ref

    monkeypatch.setattr(World, "new", watched)
    assert main(["--isolated", "--no-cache", str(tmp_path)]) == 0
    assert {Instance, Group} <= {kind for found in kinds.values() for kind in found}
    assert not [found for found in kinds.values() if len(found) > 1]


IS_A, IS_B = Comparison("==", "name", Const("a")), Comparison("==", "name", Const("b"))
CHOICE = Choice(1, (Const(1), Const(2), Const(3)), (((IS_A, True),), ((IS_B, True),), ((IS_A, False), (IS_B, False))))


@pytest.mark.parametrize(
    ("assumed", "values"),
    [
        ({}, [1, 2, 3]),
        ({IS_A: True}, [1]),
        ({IS_A: False}, [2, 3]),
        ({Comparison("==", "name", Const("c")): True}, [3]),
        ({Comparison("==", "name", Const("c")): False}, [1, 2, 3]),
        ({Comparison("==", "other", Const("a")): True}, [1, 2, 3]),
        ({IS_A: False, IS_B: False}, [3]),
    ],
)
def test_a_choice_is_what_was_assumed_allows(assumed: dict[Hashable, bool], values: list[int]) -> None:
    world = World()
    world.assumed.update(assumed)
    ways = world.alternatives(CHOICE)
    assert [value for value, _ in ways] == [Const(value) for value in values]
    for value, fork in ways:
        assert fork.resolve(CHOICE) == value
        assert dict(CHOICE.conditions[CHOICE.alternatives.index(value)]).items() <= fork.assumed.items()
    assert world.resolve(CHOICE) == CHOICE
    assert world.assumed == assumed


def test_where_worlds_meet_it_is_known_what_each_value_came_with() -> None:
    first, second = World(), World()
    first.assumed.update({IS_A: True, "both": True})
    second.assumed.update({IS_A: False, "both": True})
    world, value = join_results([(first, External("torch.relu")), (second, External("torch.tanh"))])
    assert isinstance(value, Choice)
    assert world.assumed == {"both": True}
    assert dict(zip(value.alternatives, value.conditions, strict=True)) == {
        External("torch.relu"): ((IS_A, True),),
        External("torch.tanh"): ((IS_A, False),),
    }
    world.assumed[IS_A] = True
    assert [each for each, _ in world.alternatives(value)] == [External("torch.relu")]


@pytest.mark.parametrize("later", [False, True])
def test_what_a_loop_counts_is_the_same_number_on_all_ways_through_an_iteration(later: bool) -> None:
    def given(number: int) -> tuple[Value, Value]:
        """The index and the item that ``enumerate`` gives on some way."""
        world = World()
        index, item = Unknown(ElementOf(fresh(), New("counted", fresh())), "i"), Unknown(ElementOf(fresh(), "data"))
        pair = world.new(Sequence([index, item], [None, None], None, None, False))
        here = world.get(counted(pair, number, later, world), Sequence)
        assert here is not None
        return here.items[0], here.items[1]

    (one, item), (other, another) = given(7), given(7)
    assert one == other
    assert one != given(8)[0]
    assert item != another  # the data need not be the same
    assert isinstance(one, Unknown)
    assert is_later(one) is later
