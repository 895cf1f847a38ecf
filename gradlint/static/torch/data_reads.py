"""``.data`` of what may be no tensor: what is done with it tells whether it is that of one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradlint import events
from gradlint.static.knowledge.guesses import HOLDER_NAME
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_functions import ARRAY_METHODS, METHODS, TENSOR_METHODS
from gradlint.static.knowledge.torch_training import CONVERTING
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.origins import AttributeOf, CopyOf, CutFrom, ElementOf, ItemOf, Parameter
from gradlint.static.state.provenance import from_module, is_loaded
from gradlint.static.state.values import Ref, Sequence, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class _Taken(NamedTuple):
    """Where ``.data`` was read, and of what."""

    site: Site
    of_model: bool  #: what a model gave
    holder: bool = False  #: by its name it may be data, or hold some


class DataReads:
    """Tells of ``.data`` once something is done with it that only tensors allow."""

    _ledgers: Ledgers
    _tensors: Tensors
    _witness: Witness

    def __init__(self) -> None:
        self._taken: Ledger[Hashable, _Taken] = self._ledgers.open()
        """By what it gave, or what that became."""

    def taken(self, data: Value, of_model: bool, site: Site) -> None:
        """``.data`` was read, which gave ``data``; of what may be a tensor by what was done with it before."""
        if isinstance(data, (Ref, Unknown)):
            self._taken[_key(data)] = _Taken(site, of_model)

    def taken_of_unknown(self, owner: Unknown, w: World, site: Site) -> None:
        """``owner.data`` is read, where nothing shows so far that the owner is a tensor."""
        holder = any(map(HOLDER_NAME.search, _names(owner)))
        data = w.resolve(Unknown(AttributeOf(owner.key, "data")))
        if (not holder or is_loaded(owner)) and isinstance(data, (Ref, Unknown)):
            self._taken[_key(data)] = _Taken(site, _is_output(owner), holder or is_loaded(owner))

    def called(self, receiver: Value, name: str, w: World, ctx: Context) -> None:
        """A method was called: those that neither arrays nor views of memory have show that this is a tensor."""
        taken = self._taken.get(_key(receiver)) if isinstance(receiver, (Ref, Unknown)) else None
        if taken is None or (name in METHODS and METHODS[name].inplace):
            return
        if name in CONVERTING or (taken.of_model and name in METHODS) or (name in TENSOR_METHODS and not taken.holder):
            self._tell(taken, receiver, w, ctx)

    def became(self, receiver: Value, name: str, result: Value) -> None:
        """A method gave ``result`` that arrays may have as well: what is done with that tells, too."""
        if name in ARRAY_METHODS and isinstance(receiver, (Ref, Unknown)) and isinstance(result, (Ref, Unknown)):
            taken = self._taken.get(_key(receiver))
            if taken is not None:
                self._taken.setdefault(_key(result), taken)

    def given(self, op: Op, args: Arguments, w: World, ctx: Context) -> None:
        """A function of torch that takes tensors alone was given values."""
        if not self._taken or op.device != "inputs":
            return
        for value in map(w.resolve, args):
            sequence = w.get(value, Sequence)
            for item in [value] if sequence is None else map(w.resolve, sequence.items):
                taken = self._taken.get(_key(item)) if isinstance(item, (Ref, Unknown)) else None
                if taken is not None and not taken.holder:
                    self._tell(taken, item, w, ctx)

    def _tell(self, taken: _Taken, data: Value, w: World, ctx: Context) -> None:
        self._witness.send(events.DataRead(site=taken.site, tensor=self._tensors.view_of(data, w)), w, ctx)


def _is_output(value: Unknown) -> bool:
    """Whether an unknown value came out of a call of something that has the name of a module, in any gradient mode."""
    key: Hashable = value.key
    while isinstance(key, ItemOf):
        key = key.owner
    return isinstance(key, CutFrom) or from_module(value)


def _key(value: Ref | Unknown) -> Hashable:
    return value.id if isinstance(value, Ref) else value.key


def _names(value: Unknown) -> Iterator[str]:
    """The names that a value, and what it was read from, are known by."""
    yield value.hint
    key: Hashable = value.key
    while isinstance(key, (AttributeOf, ItemOf, ElementOf, CopyOf)):
        if isinstance(key, AttributeOf) and isinstance(key.name, str):
            yield key.name
        key = key.owner if isinstance(key, (AttributeOf, ItemOf)) else key.of
    if isinstance(key, Parameter):
        yield key.name
