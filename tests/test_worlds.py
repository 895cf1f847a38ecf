"""What a world remembers of unknown values."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gradlint.cli import main
from gradlint.static.values import NONE, Choice, Const, Unknown, Value
from gradlint.static.world import World

ITEM = Unknown(("item", "graph", "weight"))
OTHER = Unknown(("item", "graph", "label"))


@pytest.mark.parametrize(
    "value",
    [
        lambda world: ITEM,
        lambda world: Choice("either", (NONE, ITEM)),
        lambda world: Choice("either", (NONE, Choice("or", (ITEM, OTHER)))),
        lambda world: bound(world, OTHER, Choice("either", (NONE, ITEM))),
    ],
)
def test_nothing_is_made_of_itself(value: Callable[[World], Value]) -> None:
    world = World()
    world.remember(ITEM.key, value(world))
    assert ITEM.key not in world.bound
    assert world.resolve(ITEM) == ITEM


def test_what_was_unknown_turns_out() -> None:
    world = World()
    world.remember(ITEM.key, OTHER)
    world.remember(OTHER.key, Const(3))
    assert world.resolve(ITEM) == Const(3)
    world.remember(ITEM.key, ITEM)  # by now it is another's name for the number
    assert world.resolve(ITEM) == Const(3)


def bound(world: World, unknown: Unknown, value: Value) -> Value:
    world.remember(unknown.key, value)
    return unknown


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
