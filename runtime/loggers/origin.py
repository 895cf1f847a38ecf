"""What library an object is of, without importing any."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def is_of(given: Any, library: str, *names: str) -> bool:
    """Whether an object is an instance of one of the named classes of a library, or of a class derived from it."""
    return any(
        cls.__name__ in names and cls.__module__.partition(".")[0] == library.partition(".")[0]
        for cls in type(given).__mro__
    )


def is_module(given: Any, library: str) -> bool:
    """Whether it is a library itself."""
    return isinstance(given, ModuleType) and given.__name__ == library
