"""What is known of tensors and arrays for as long as they are alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

FEW = 64  #: entries, after which it may be worth a look which are of tensors that are gone

_Entry = TypeVar("_Entry")


class Living(dict[int, _Entry]):
    """Entries by the ids of the tensors they are of, to be added by ``put``.

    Those of tensors that are gone are forgotten after as many additions as there were entries alive the last time: an
    addition takes the same time however many there are, and a crowd that has gone is forgotten even where what comes
    after it takes its places in memory.  Whoever reads an entry checks that its tensor is the one that is asked for.
    """

    __slots__ = ("_reference", "_until")

    def __init__(self, reference: Callable[[_Entry], weakref.ref[Any]]) -> None:
        super().__init__()
        self._reference = reference  #: to the tensor that an entry is of
        self._until = FEW

    def put(self, tensor: Any, entry: _Entry) -> None:
        """Know this of a tensor, and nothing else."""
        self._until -= 1
        if self._until <= 0:
            self._forget_dead()
        self[id(tensor)] = entry

    def _forget_dead(self) -> None:
        for key in [key for key, entry in list(self.items()) if self._reference(entry)() is None]:
            self.pop(key, None)
        self._until = max(FEW, len(self))
