"""What is known of tensors, arrays and optimizers for as long as they are alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

FEW = 64  #: entries, after which it may be worth a look which are of objects that are gone

_Entry = TypeVar("_Entry")


class Living(dict[int, _Entry]):
    """Entries by the ids of the objects they are of, to be added by ``put``.

    Those of objects that are gone are forgotten after as many additions as there were entries alive the last time: an
    addition takes the same time however many there are, and a crowd that has gone is forgotten even where what comes
    after it takes its places in memory.  Whoever reads an entry checks that its object is the one that is asked for.
    """

    __slots__ = ("_reference", "_until")

    def __init__(self, reference: Callable[[_Entry], weakref.ref[Any]]) -> None:
        super().__init__()
        self._reference = reference  #: to the object that an entry is of
        self._until = FEW

    def put(self, one: Any, entry: _Entry) -> None:
        """Know this of an object, and nothing else."""
        self._until -= 1
        if self._until <= 0:
            self._forget_dead()
        self[id(one)] = entry

    def _forget_dead(self) -> None:
        for key in [key for key, entry in list(self.items()) if self._reference(entry)() is None]:
            self.pop(key, None)
        self._until = max(FEW, len(self))


class Marked:
    """Some of the objects that are alive, told apart by what they are: tensors compare elementwise."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: Living[weakref.ref[Any]] = Living(lambda reference: reference)

    def add(self, one: Any) -> None:
        """Mark an object."""
        self._references.put(one, weakref.ref(one))

    def discard(self, one: Any) -> None:
        """Take the mark from an object, if it has one."""
        self._references.pop(id(one), None)

    def __contains__(self, one: object) -> bool:
        reference = self._references.get(id(one))
        return reference is not None and reference() is one

    def references(self) -> list[weakref.ref[Any]]:
        """To those that are marked, and to some that are gone, in the order in which they were marked."""
        return list(self._references.values())
