"""What a value is that is one of many."""

from collections.abc import Iterable

from gradlint.finding import Location
from gradlint.static.joining import MAX_ALTERNATIVES, alternatives_of
from gradlint.static.values import Choice, Instance, Value
from gradlint.static.world import World


class Place:
    """A place in no file."""

    def locate(self) -> Location:
        """Nowhere."""
        return Location("none.py", 1, 1, 1, 1)


def layers(world: World, places: Iterable[Place]) -> list[Value]:
    return [world.new(Instance(name="torch.nn.Linear", kind="module", made_at=place)) for place in places]


def test_of_many_layers_made_at_one_place_two_stand_for_all() -> None:
    world = World({})
    here, there = Place(), Place()
    many = layers(world, [here] * MAX_ALTERNATIVES)
    others = layers(world, [there, here])
    found = alternatives_of(Choice("many", tuple(many)), Choice("others", tuple(others)), world)
    assert found == (*many[:2], others[0])


def test_layers_made_at_many_places_are_too_much() -> None:
    world = World({})
    many = layers(world, (Place() for _ in range(MAX_ALTERNATIVES + 1)))
    assert alternatives_of(Choice("many", tuple(many[:-1])), many[-1], world) is None
