"""What may keep a definition that is handed to it where it stands: decorators, tables, base classes."""

from __future__ import annotations

import re

from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.units import Unit

INIT_SUBCLASS = "__init_subclass__"  #: the method that a class has called with those that are derived from it

_KEEPS = re.compile(r"\][ \t]*=(?!=)|\.(?:add|append|insert|extend|update|setdefault|register\w*)\(|\bsetattr\(")
_DECORATORS = re.compile(r"(?m)\s*@(?:.*\n)+?(?=[ \t]*(?:async[ \t]+def|def|class)\b)")


def may_store_argument(unit: Unit) -> bool:
    """Whether a definition may keep what it is given; an object that a statement binds may."""
    return not isinstance(unit, FunctionUnit) or _KEEPS.search(unit.text) is not None


def decorators_in(unit: Unit) -> str:
    """The text before the header of a definition."""
    found = _DECORATORS.match(unit.text)
    return "" if found is None else found[0]
