"""State dicts that are kept while the parameters whose memory they share change.

A tensor of a state dict shares the version counter of its parameter: it tells whether something has changed both.
"""

from __future__ import annotations

import ast
import linecache
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gradlint.events import StateDictReused, WeightsTaken
from gradlint.facts import known as fact
from gradlint.surroundings import is_chosen

from ..spelling import call_at

if TYPE_CHECKING:
    from ..calls import StateCall, StepCall, SwapCall
    from ..frames import FrameSite
    from ..judging import Judge

_DEEP = 3  #: dicts and lists in one another, in which a state dict is looked for


class _Taken(NamedTuple):
    """A state dict as it was when a module gave it, known by one of its tensors: copies of the dict have it, too."""

    first: weakref.ref[torch.Tensor]
    site: FrameSite
    versions: dict[str, tuple[int, int]]  #: by name, of each parameter: the id of its tensor, and the version of that
    changes: int  #: those that were made before


class KeptStates:
    """Reports state dicts that are loaded or saved after the parameters have changed."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._taken: dict[int, _Taken] = {}
        self._changes = 0  #: steps, and state dicts that modules were given

    def state_taken(self, call: StateCall) -> None:
        """A module gave its state dict."""
        if call.module is None or not isinstance(call.state, dict):
            return
        names = {name for name, _ in call.module.named_parameters()}
        versions = {name: _mark(value) for name, value in call.state.items() if name in names and _counts(value)}
        if versions:
            first = call.state[next(iter(versions))]
            self._taken = {key: taken for key, taken in self._taken.items() if taken.first() is not None}
            self._taken[id(first)] = _Taken(weakref.ref(first), call.site, versions, self._changes)

    def state_loaded(self, call: StateCall) -> None:
        """A module is about to be given a state dict."""
        taken = self._of(call.state)
        if taken is not None and call.module is not None:
            own = {name: value.data_ptr() for name, value in call.module.named_parameters() if _counts(value)}
            same = [name for name in taken.versions if own.get(name) == call.state[name].data_ptr()]
            if self._is_outdated(taken, call.state):
                self._tell(taken, "load", call.site, own=bool(same))
            elif len(same) == len(taken.versions) and _is_argument(call.site):
                self._judge.send(WeightsTaken(site=call.site, by="load", own=fact(True)))
        self._changes += 1

    def tensors_swapped(self, call: SwapCall) -> None:
        """Forget state dicts of tensors that become others."""
        for tensor in call.tensors:
            self._taken.pop(id(tensor), None)

    def step_ended(self, call: StepCall) -> None:
        """An optimizer has changed parameters."""
        self._changes += 1

    def state_saved(self, call: StateCall) -> None:
        """Something is about to be written to a file."""
        for state in _dicts(call.state, _DEEP) if self._taken else ():
            taken = self._of(state)
            if taken is not None and self._is_outdated(taken, state):
                self._tell(taken, "save", call.site, own=False)

    def finish(self, call: object) -> None:
        """The guard ends."""
        self._taken = {}

    def _of(self, state: Any) -> _Taken | None:
        """What is known of a state dict, if it holds what it was given with."""
        values = state.values() if self._taken and isinstance(state, dict) else ()
        found = next(((value, self._taken[id(value)]) for value in values if id(value) in self._taken), None)
        if found is None or found[1].first() is not found[0]:
            return None
        names = found[1].versions
        whole = all(name in state and id(state[name]) == names[name][0] for name in names)
        return found[1] if whole else None

    def _is_outdated(self, taken: _Taken, state: dict[str, torch.Tensor]) -> bool:
        """Whether the parameters have changed since; the program itself may change those in a state dict."""
        return taken.changes < self._changes and any(
            state[name]._version != version for name, (_, version) in taken.versions.items()
        )

    def _tell(self, taken: _Taken, by: str, used_at: FrameSite, *, own: bool) -> None:
        place = taken.site.locate()
        chosen = is_chosen(linecache.getlines(place.filename), place.row)
        event = StateDictReused(site=taken.site, by=by, used_at=used_at, own=fact(own), chosen=fact(chosen))
        self._judge.send(event)


def _counts(value: Any) -> bool:
    """Whether a value is a tensor that counts its versions."""
    return isinstance(value, torch.Tensor) and not value.is_inference()


def _mark(value: torch.Tensor) -> tuple[int, int]:
    return id(value), value._version


def _is_argument(site: FrameSite) -> bool:
    """Whether the call there takes the state dict itself, of what bears another name."""
    call = call_at(site)
    if call is None or not call.args or not isinstance(call.func, ast.Attribute):
        return False
    taken = call.args[0]
    if not isinstance(taken, ast.Call) or not isinstance(taken.func, ast.Attribute):
        return False
    return ast.unparse(taken.func.value) != ast.unparse(call.func.value)


def _dicts(value: Any, depth: int) -> Iterator[dict[Any, Any]]:
    if isinstance(value, dict):
        yield value
    if depth and isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _dicts(part, depth - 1)
