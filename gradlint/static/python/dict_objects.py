"""Objects of classes derived from dict: each holds the items of one, and uses them as its class does not itself."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.execution import Execution
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import OPEN, Class, Function, Instance, Mapping, Ref, Value
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site

_ITEMS = "<items>"
_STORING = ("__setattr__", "__getattribute__", "__dict__")
"""What a class defines that may keep attributes among the items."""


class DictObjects:
    """Finds the dict that such an object is."""

    _execution: Execution
    _definitions: Definitions

    def started(self, ref: Ref, cls: Class, place: Hashable, w: World) -> None:
        """An object of a class derived from dict is about to be built: nothing is in it yet."""
        if not any(self._definitions.attribute(cls, name, w) for name in _STORING):
            w.write(ref.id).attrs[_ITEMS] = w.new(Mapping(), (place, _ITEMS))

    def initialized(self, ref: Ref, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``dict.__init__`` ran: what it was given is in the object."""
        held = self.held(ref, w)
        if held is not None:
            given = self._execution.build_dict(args, w, ctx, site)
            self._execution.update(held, given if given is not None else ref, w, ctx)

    def held(self, value: Value, w: World, method: str = "") -> Ref | None:
        """The dict that an object is, unless its class has this method itself."""
        obj = w.get(value, Instance)
        if obj is None or obj.role is not roles.DICT or obj.cls is None or _ITEMS not in obj.attrs or OPEN in obj.attrs:
            return None
        if method and self._definitions.attribute(obj.cls, method, w) is not None:
            return None
        held = w.resolve(obj.attrs[_ITEMS])
        return held if isinstance(held, Ref) and w.get(held, Mapping) is not None else None

    def own(self, value: Value, w: World, method: str) -> Function | None:
        """This method, where the class of such an object has it itself."""
        obj = w.get(value, Instance)
        if obj is None or obj.role is not roles.DICT or obj.cls is None:
            return None
        found = self._definitions.attribute(obj.cls, method, w)
        return found if isinstance(found, Function) else None

    def forgotten(self, ref: Ref, w: World) -> None:
        """The attributes of the object are its items from now on: which these are is not followed."""
        w.write(ref.id).attrs.pop(_ITEMS, None)


__all__ = ["DictObjects"]
