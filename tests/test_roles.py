"""A role is one object, whatever becomes of those that have it."""

from __future__ import annotations

from copy import deepcopy

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.roles import Role

ROLES = {name: role for name, role in vars(roles).items() if isinstance(role, Role)}


def test_each_role_has_a_name_of_its_own() -> None:
    assert len({role.name for role in ROLES.values()}) == len(ROLES)


def test_a_copy_of_a_role_is_the_role() -> None:
    for role in ROLES.values():
        assert deepcopy(role) is role


def test_models_are_modules() -> None:
    assert {role for role in ROLES.values() if role.is_model} < {role for role in ROLES.values() if role.is_module}
