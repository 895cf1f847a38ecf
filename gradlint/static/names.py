"""Names: variables, scopes, imports, and the modules of the project behind them."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.context import Context
from gradlint.static.torch_table import (
    DROPOUTS,
    FUNCTIONS,
    GRAD_MODES,
    LAYERS,
    LOSSES,
    MODULE_BASES,
    OPTIMIZERS,
    canonical,
)
from gradlint.static.values import Const, External, Frame, Namespace, Sequence, Unknown, Value
from gradlint.static.world import World

if TYPE_CHECKING:
    from gradlint.static.interpreter import Interpreter
    from gradlint.static.units import Module

_BUILTINS = frozenset(dir(builtins))
_STAR = "import *"
_SUBMODULES = ("torch.nn", "torch.optim", "torch.nn.functional", "torch.autograd", "torch.cuda", "torch.utils")


class Names:
    """Looks variables up and assigns them."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

    def lookup(self, name: str, w: World, ctx: Context) -> Value:
        """The value of a variable, by Python's scoping; unknown if it cannot be found."""
        key: int | None = ctx.frame
        stars: list[Value] = []
        while key is not None:
            frame = w.find(key)
            if not isinstance(frame, Frame):
                break
            value = frame.vars.get(name)
            if value is not None:
                return value
            if _STAR in frame.vars:
                stars.append(frame.vars[_STAR])
            key = frame.parent
        defined = self.m.definitions.late(name, w, ctx)
        if defined is not None:
            return defined
        for star in stars:
            if isinstance(star, External):
                for module in star.name.split():
                    if exports(module, name):
                        return External(canonical(f"{module}.{name}"))
        if name == "__name__":
            return Const("__main__")
        if name in _BUILTINS:
            return External(f"builtins.{name}")
        return Unknown(("name", ctx.module.path, name), name)

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


def exports(module: str, name: str) -> bool:
    """Whether ``from module import *`` would bring ``name``, for the modules of torch."""
    full = canonical(f"{module}.{name}")
    tables = (FUNCTIONS, LAYERS, LOSSES, OPTIMIZERS, MODULE_BASES, GRAD_MODES, DROPOUTS, _SUBMODULES)
    return any(full in table for table in tables)


class Imports:
    """Executes import statements: into the project's files where they are there, otherwise by name."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

    def execute(self, node: cst.Import | cst.ImportFrom, w: World, ctx: Context) -> None:
        """Bind what an import statement brings."""
        if isinstance(node, cst.Import):
            for alias in node.names:
                self._import(alias, w, ctx)
        else:
            self._import_from(node, w, ctx)

    def _import(self, alias: cst.ImportAlias, w: World, ctx: Context) -> None:
        name = _dotted(alias.name)
        root = name.partition(".")[0]
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
            module = self.m.project.resolve(name, ctx.module)
            value: Value = Namespace(module, name) if module else External(canonical(name))
            self.m.names.assign(alias.asname.name.value, value, w, ctx)
        else:
            module = self.m.project.resolve(root, ctx.module)
            value = Namespace(module, root) if module else External(canonical(root))
            self.m.names.assign(root, value, w, ctx)

    def _import_from(self, node: cst.ImportFrom, w: World, ctx: Context) -> None:
        level = len(node.relative)
        name = _dotted(node.module) if node.module else ""
        if level:
            module = self.m.project.resolve_relative(level, name, ctx.module)
        else:
            module = self.m.project.resolve(name, ctx.module)
        if isinstance(node.names, cst.ImportStar):
            self._star(name, module, w, ctx)
            return
        for alias in node.names:
            item = _dotted(alias.name)
            target = item
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                target = alias.asname.name.value
            if module is not None:
                value = self.member(module, item, w, ctx)
            elif level:
                value = Unknown(("import", ctx.module.path, name, item), item)
            else:
                value = External(canonical(f"{name}.{item}"))
            self.m.names.assign(target, value, w, ctx)

    def _star(self, name: str, module: Module | None, w: World, ctx: Context) -> None:
        if module is None:
            frame = w.write(ctx.frame)
            before = frame.vars.get(_STAR)
            known = before.name.split() if isinstance(before, External) else []
            frame.vars[_STAR] = External(" ".join([canonical(name), *known]))
            return
        frame_id = self.m.enter_module(module, w)
        if frame_id is None:
            return
        source = w.find(frame_id)
        assert isinstance(source, Frame)
        frame = w.write(ctx.frame)
        public = self._public(source, w)
        for key, value in source.vars.items():
            if key in public if public is not None else not key.startswith("_"):
                frame.vars[key] = value

    def _public(self, source: Frame, w: World) -> frozenset[str] | None:
        """The names in the ``__all__`` of a module; None where it has none, or not all of them are known."""
        value = source.vars.get("__all__")
        names = w.get(w.resolve(value), Sequence) if value is not None else None
        if names is None or names.tail is not None:
            return None
        items = [w.resolve(item) for item in names.items]
        known = [item.value for item in items if isinstance(item, Const)]
        return frozenset(known) if len(known) == len(items) else None

    def member(self, module: Module, name: str, w: World, ctx: Context) -> Value:
        """``module.name``: what the module binds, or its submodule."""
        frame_id = self.m.enter_module(module, w)
        if frame_id is not None:
            frame = w.find(frame_id)
            assert isinstance(frame, Frame)
            if name in frame.vars:
                return frame.vars[name]
            defined = self.m.definitions.of_module(module, frame_id, name, w)
            if defined is not None:
                return defined
            star = frame.vars.get(_STAR)
            if isinstance(star, External):
                for outer in star.name.split():
                    if exports(outer, name):
                        return External(canonical(f"{outer}.{name}"))
        child = self.m.project.submodule(module, name)
        if child is not None:
            return Namespace(child, name)
        return Unknown(("member", module.path, name), name)


def _dotted(node: cst.CSTNode | None) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""
