"""Names: variables, scopes, and what they stand for."""

from __future__ import annotations

import builtins

from gradlint.static.python.definitions import Definitions
from gradlint.static.python.imports import Imports
from gradlint.static.state.context import Context
from gradlint.static.state.origins import Named
from gradlint.static.state.values import Choice, Const, External, Frame, Imported, Stars, Unknown, Value
from gradlint.static.state.world import World

_BUILTINS = frozenset(dir(builtins))
_ON_THE_WAY = (Imported, Choice)
_STAR = "import *"


class Names:
    """Looks variables up and assigns them."""

    _definitions: Definitions
    _imports: Imports

    def lookup(self, name: str, w: World, ctx: Context) -> Value:
        """The value of a variable, by Python's scoping; unknown if it cannot be found."""
        key: int | None = ctx.frame
        stars: list[Stars] = []
        while key is not None:
            frame = w.find(key)
            if not isinstance(frame, Frame):
                break
            value = frame.vars.get(name)
            if value is not None:
                return self._imports.arrived(value, w, ctx) if type(value) in _ON_THE_WAY else value
            star = frame.vars.get(_STAR)
            if isinstance(star, Stars):
                stars.append(star)
            key = frame.parent
        defined = self._definitions.late(name, w, ctx)
        if defined is not None:
            return defined
        for star in stars:
            behind = self._imports.behind(star, name, w, ctx)
            if behind is not None:
                return behind
        if name == "__name__":
            return Const("__main__")
        if name in _BUILTINS:
            return External(f"builtins.{name}")
        if name == "torch" and any(isinstance(source, str) for star in stars for source in star.sources):
            return External(name)  # whatever else a file that is not at hand brings, that is torch
        return Unknown(Named(ctx.module.path, name, is_imported=False), name)

    def assign(self, name: str, value: Value, w: World, ctx: Context) -> None:
        """Bind a variable in the scope it belongs to."""
        frame = w.write(ctx.frame)
        if f"global {name}" in frame.vars:
            w.write(w.modules[ctx.module]).vars[name] = value
            return
        if f"nonlocal {name}" in frame.vars:
            key = frame.parent
            while key is not None:
                outer = w.find(key)
                assert isinstance(outer, Frame)
                if name in outer.vars:
                    w.write(key).vars[name] = value
                    return
                key = outer.parent
        frame.vars[name] = value
