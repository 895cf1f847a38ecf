"""A role is one object, and what its objects do is declared once and asked wherever a program uses them."""

from __future__ import annotations

from copy import copy, deepcopy
from pathlib import Path
from typing import Any

from gradlint.static.drive.interpreter import Interpreter
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.roles import Role
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments
from gradlint.static.state.values import Bound, Const, Instance
from gradlint.static.state.world import World
from gradlint.static.text.project import Project
from gradlint.static.text.reach import Reach
from gradlint.static.torch.behaviours import Behaviour

ROLES = {name: role for name, role in vars(roles).items() if isinstance(role, Role)}

#: they do nothing of their own: their class, or what holds for any object, says all that is known
WITHOUT_BEHAVIOUR = {"PLAIN", "NAMED_TUPLE", "EXCEPTION", "ENUM", "ENGINE", "TRAINER", "DECORATOR", "EXPECTING"}


def machine(folder: Path) -> Interpreter:
    """An interpreter of a project without files."""
    project = Project([folder])
    return Interpreter(project, Witness([]), Reach(project))


def test_each_role_has_a_name_of_its_own() -> None:
    assert len({role.name for role in ROLES.values()}) == len(ROLES)


def test_a_copy_of_a_role_is_the_role() -> None:
    for role in ROLES.values():
        assert copy(role) is role
        assert deepcopy(role) is role


def test_models_are_modules() -> None:
    assert {role for role in ROLES.values() if role.is_model} < {role for role in ROLES.values() if role.is_module}


def test_what_a_role_does_is_declared(tmp_path: Path) -> None:
    declared = machine(tmp_path).behaviours.of
    assert {name for name, role in ROLES.items() if role not in declared} == WITHOUT_BEHAVIOUR


def test_another_role_is_one_declaration(tmp_path: Path) -> None:
    interpreter, w = machine(tmp_path), World()
    nothing: Any = None
    role = Role("diary", only_methods=True)
    interpreter.behaviours.of[role] = Behaviour(
        method=lambda owner, obj, name, args, w, ctx, site: Const(name),
        called=lambda owner, obj, args, w, ctx, site: [(w, Const("called"))],
        attribute=lambda owner, obj, name, w, ctx, site: Const("page") if name == "page" else None,
        item=lambda owner, obj, index, w, ctx, site: Const("item"),
    )
    ref = w.new(Instance(name="madeup.Diary", role=role))
    obj = w.get(ref, Instance)
    assert obj is not None
    domain = interpreter.domain
    assert domain.calls.method(ref, "note", Arguments(), w, nothing, nothing) == Const("note")
    assert domain.calls.instance(ref, obj, Arguments(), w, nothing, nothing) == [(w, Const("called"))]
    assert domain.attributes.get(ref, obj, "page", w, nothing, nothing) == Const("page")
    assert domain.attributes.get(ref, obj, "note", w, nothing, nothing) == Bound(ref, "note")
    assert domain.items.get(ref, obj, Const(0), w, nothing, nothing) == Const("item")
