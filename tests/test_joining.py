"""What a value is that is one of many."""

from collections.abc import Iterable

import pytest

from gradlint.finding import Location
from gradlint.protocol import Token
from gradlint.static.drive.interpreter import Interpreter
from gradlint.static.knowledge import roles
from gradlint.static.report.witness import Witness
from gradlint.static.state.joining import MAX_ALTERNATIVES, alternatives_of, join, join_results, join_tensors
from gradlint.static.state.origins import Parameter, Result, fresh
from gradlint.static.state.reducing import reduce
from gradlint.static.state.values import CHOSEN, Choice, Class, Frame, Group, Instance, Ref, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.text.project import Project
from gradlint.static.text.reach import Reach


class Place:
    """A place in no file."""

    def locate(self) -> Location:
        """Nowhere."""
        return Location("none.py", 1, 1, 1, 1)


def layers(world: World, places: Iterable[Place]) -> list[Ref]:
    return [world.new(Instance(name="torch.nn.Linear", role=roles.MODULE, made_at=place)) for place in places]


def test_of_many_layers_made_at_one_place_two_stand_for_all() -> None:
    world = World()
    here, there = Place(), Place()
    many = layers(world, [here] * MAX_ALTERNATIVES)
    others = layers(world, [there, here])
    found = alternatives_of(Choice("many", tuple(many)), Choice("others", tuple(others)), world)
    assert found == (*many[:2], others[0])


def test_layers_made_at_many_places_are_too_much() -> None:
    world = World()
    many = layers(world, (Place() for _ in range(MAX_ALTERNATIVES + 1)))
    assert alternatives_of(Choice("many", tuple(many[:-1])), many[-1], world) is None


def test_a_choice_that_only_one_of_two_worlds_has_decided_is_open_in_both() -> None:
    world = World()
    first, second = layers(world, [Place(), Place()])
    choice = Choice(fresh(), (first, second))
    decided = world.copy()
    decided.bound[choice.key] = second
    for joined in (join(world, decided), join(decided, world)):
        assert joined.resolve(choice) == choice
    assert join(decided, decided.copy()).resolve(choice) == second


def test_conditions_of_a_choice_outlast_what_both_worlds_say_of_it() -> None:
    world = World()
    first, second = layers(world, [Place(), Place()])
    frame = world.new(Frame({"model": Choice(fresh(), (first, second), ((("first", True),), (("first", False),)))}))
    other = world.copy()
    other.write(frame.id).vars["model"] = Choice(
        fresh(), (first, second), ((("first", True), ("fast", True)), (("first", False),))
    )
    joined = join(world, other)
    variables = joined.find(frame.id)
    assert isinstance(variables, Frame)
    model = variables.vars["model"]
    assert isinstance(model, Choice)
    assert model.conditions == ((("first", True),), (("first", False),))


def test_conditions_are_known_of_what_two_worlds_have_decided_differently() -> None:
    world = World()
    first, second, third = layers(world, [Place(), Place(), Place()])
    choice = Choice(fresh(), (first, second, third))
    other = world.copy()
    for each, value, holds in ((world, first, True), (other, third, False)):
        each.bound[choice.key] = value
        each.assumed["first"] = holds
    left = join(world, other).resolve(choice)
    assert isinstance(left, Choice)
    assert left.alternatives == (first, third)
    assert left.conditions == ((("first", True),), (("first", False),))


def test_what_only_one_of_two_worlds_has_found_out_is_kept() -> None:
    world = World()
    (layer,) = layers(world, [Place()])
    value = Unknown(Parameter("train", "model", 0), "model")
    found_out = world.copy()
    found_out.bound[value.key] = layer
    assert join(world, found_out).resolve(value) == layer


def test_what_was_chosen_is_as_it_is_where_it_was_chosen() -> None:
    world = World()
    first, second, third = layers(world, [Place(), Place(), Place()])
    choice = Choice(fresh(), (first, second, third))
    worlds = []
    for layer in (first, second):
        chosen = world.copy()
        chosen.bound[choice.key] = layer
        chosen.write(layer.id).training = False
        worlds.append(chosen)
    joined = join(*worlds)
    left = joined.resolve(choice)
    assert isinstance(left, Choice)
    assert left.alternatives == (first, second)
    assert [joined.write(layer.id).training for layer in (first, second, third)] == [False, False, True]


def test_what_a_chosen_module_may_hold_is_as_it_is_where_that_was_chosen() -> None:
    world = World()
    parts = layers(world, [Place(), Place(), Place(), Place()])
    inside = [Choice(fresh(), tuple(parts[:2])), Choice(fresh(), tuple(parts[2:]))]
    holders = [world.new(Instance(role=roles.MODULE, made_at=Place(), attrs={"skip": choice})) for choice in inside]
    choice = Choice(fresh(), tuple(holders))
    for part in parts:
        world.write(part.id).training = False
    worlds = []
    for holder, held in zip(holders, inside, strict=True):
        chosen = world.copy()
        chosen.bound[choice.key] = holder
        for one in held.alternatives:
            assert isinstance(one, Ref)
            chosen.write(one.id).training = True
        worlds.append(chosen)
    joined = join(*worlds)
    assert all(joined.write(part.id).training for part in parts)


def test_the_parameters_of_what_was_chosen_are_as_they_are_where_it_was_chosen() -> None:
    world = World()
    keys = [world.new(Group(True)).id for _ in range(2)]
    tensors = [world.new(Tensor(groups=frozenset([key]), is_parameter=True)) for key in keys]
    modules = [world.new(Instance(role=roles.MODULE, made_at=Place(), attrs={"weight": tensor})) for tensor in tensors]
    choice = Choice(fresh(), tuple(modules))
    worlds = []
    for module, key in zip(modules, keys, strict=True):
        chosen = world.copy()
        chosen.bound[choice.key] = module
        chosen.write(key).requires_grad = False
        worlds.append(chosen)
    joined = join(*worlds)
    assert [group.requires_grad for key in keys if isinstance(group := joined.find(key), Group)] == [False, False]


def test_a_world_that_knows_the_model_is_not_joined_with_one_that_does_not() -> None:
    start = World()
    small, large = (start.new(Instance(name="Data")) for _ in range(2))
    model = start.new(Instance(role=roles.MODULE, cls=Class(None, (), 0, 0)))  # type: ignore[arg-type]
    loaded = Unknown(Result(fresh()))
    frame = start.new(Frame({}))
    worlds = []
    for net, data in ((loaded, small), (model, small), (loaded, large), (model, large)):
        world = start.copy()
        world.write(frame.id).vars.update(net=net, data=data)
        worlds.append(world)
    nets: list[Value] = [world.write(frame.id).vars["net"] for world in reduce(worlds, 2)]
    assert set(nets) == {loaded, model}


def test_the_same_parameters_of_two_models_stay_what_they_are() -> None:
    world = World()
    groups = {world.new(Group()).id}
    ends = []
    for _ in range(2):
        end = world.copy()
        ends.append((end, end.new(Instance(role=roles.PARAMETERS, groups=frozenset(groups)))))
    joined, value = join_results(ends)
    parameters = joined.get(value, Instance)
    assert parameters is not None
    assert parameters.groups == groups


@pytest.mark.parametrize(
    ("opaque", "together", "forgotten"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_of_the_models_of_a_table_one_is_there(opaque: bool, together: bool, forgotten: bool) -> None:
    """Whichever was made, nothing is known of another one; models made at two places may both be there."""
    project = Project([])
    machine = Interpreter(project, Witness([]), Reach(project))
    world, here = World(), Place()
    evaluated = {"mode": frozenset([Token("evaluated")])}
    groups = [world.new(Group(None, opaque=opaque, tokens=dict(evaluated))) for _ in range(2)]
    made_at = [here, here if together else Place()]
    models = [
        world.new(Instance(role=roles.MODULE, opaque=opaque, made_at=place, groups=frozenset([group.id])))
        for place, group in zip(made_at, groups, strict=True)
    ]
    machine.domain.values.decided(Choice(fresh(), tuple(models)), models[0], world)
    own, other = (world.write(group.id).tokens for group in groups)
    assert own == evaluated
    assert other == ({} if forgotten else evaluated)


def test_worlds_that_are_left_over_again_and_again_are_not_one_behind_the_other() -> None:
    left = World()
    key = left.new(Group(True)).id
    forks = [left.copy()]
    forks += [left.copy() for _ in range(50)]
    forks[-1].write(key).requires_grad = False
    assert left.history.depth <= 2
    assert forks[0].parted(forks[-1])[1] == {key}
    assert [changed for changed, _, _ in forks[0].disagreements(forks[-1])] == [key]


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ("cuda", CHOSEN, CHOSEN),
        (CHOSEN, "cuda", CHOSEN),
        ("cuda", "cuda", "cuda"),
        ("cuda", "cpu", None),
        ("cpu", CHOSEN, None),
        (None, "cuda", None),
    ],
)
def test_what_is_on_cuda_is_there_where_that_was_chosen(one: str | None, other: str | None, joined: str | None) -> None:
    assert join_tensors(Tensor(device=one), Tensor(device=other)).device == joined
