"""Imports: into the files of the project where they are there, otherwise by name."""

from __future__ import annotations

import builtins
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge.torch_table import (
    DROPOUTS,
    FUNCTIONS,
    GRAD_MODES,
    LAYERS,
    LOSSES,
    MODULE_BASES,
    OPTIMIZERS,
    canonical,
)
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.execution import Execution
from gradlint.static.state.context import Context
from gradlint.static.state.joining import MAX_DEFINITIONS
from gradlint.static.state.origins import MemberOf, Named
from gradlint.static.state.values import (
    Choice,
    External,
    Frame,
    Imported,
    Namespace,
    Stars,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.index import named
from gradlint.static.text.nodes import dotted
from gradlint.static.text.project import Project
from gradlint.static.text.registrations import Registrations

if TYPE_CHECKING:
    from gradlint.static.text.files import Module

_BUILTINS = frozenset(dir(builtins))
_STAR = "import *"
_SUBMODULES = ("torch.nn", "torch.optim", "torch.nn.functional", "torch.autograd", "torch.cuda", "torch.utils")


def exports(module: str, name: str) -> bool:
    """Whether ``from module import *`` would bring ``name``, for the modules of torch."""
    full = canonical(f"{module}.{name}")
    tables = (FUNCTIONS, LAYERS, LOSSES, OPTIMIZERS, MODULE_BASES, GRAD_MODES, DROPOUTS, _SUBMODULES)
    return any(full in table for table in tables)


class Imports:
    """Executes import statements: into the project's files where they are there, otherwise by name."""

    _execution: Execution
    _project: Project
    _registrations: Registrations
    _definitions: Definitions

    def __init__(self) -> None:
        self._arriving: list[Imported] = []

    def execute(self, node: cst.Import | cst.ImportFrom, w: World, ctx: Context) -> None:
        """Bind what an import statement brings."""
        if isinstance(node, cst.Import):
            for alias in node.names:
                self._import(alias, w, ctx)
        else:
            self._import_from(node, w, ctx)

    def _import(self, alias: cst.ImportAlias, w: World, ctx: Context) -> None:
        name = dotted(alias.name)
        root = name.partition(".")[0]
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
            module = self._project.resolve(name, ctx.module)
            value: Value = Namespace(module, name) if module else External(canonical(name))
            self._execution.assign(alias.asname.name.value, value, w, ctx)
        else:
            module = self._project.resolve(root, ctx.module)
            value = Namespace(module, root) if module else External(canonical(root))
            self._execution.assign(root, value, w, ctx)
        self._register(0, name, w, ctx)

    def _register(self, level: int, name: str, w: World, ctx: Context) -> None:
        """Execute the files that an import names, where they change what other files hold."""
        for module in self._registrations.imported(level, name, ctx.module):
            if self._registrations.among(module):
                self._execution.enter(module, w)

    def _import_from(self, node: cst.ImportFrom, w: World, ctx: Context) -> None:
        level = len(node.relative)
        name = dotted(node.module) if node.module else ""
        module = self._project.imported(level, name, ctx.module)
        if isinstance(node.names, cst.ImportStar):
            self._register(level, name, w, ctx)
            self._star(name, module, w, ctx)
            return
        for alias in node.names:
            item = dotted(alias.name)
            self._register(level, named(name, item), w, ctx)
            target = item
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                target = alias.asname.name.value
            if module is not None:
                value = self._brought(module, item, w, ctx)
            elif level:
                value = Unknown(Named(ctx.module.path, f"{name}.{item}", is_imported=True), item)
            else:
                value = External(canonical(f"{name}.{item}"))
            self._execution.assign(target, value, w, ctx)

    def _brought(self, module: Module, name: str, w: World, ctx: Context) -> Value:
        """``module.name``; in the body of a file left until it is read, where the module is not at hand already."""
        if ctx.frame != w.modules.get(ctx.module) or module in w.modules:
            return self.member(module, name, w, ctx)
        return Imported(module, name)

    def arrived(self, value: Value, w: World, ctx: Context) -> Value:
        """A value, with what was left until it is read."""
        if isinstance(value, Choice) and any(isinstance(each, Imported) for each in value.alternatives):
            return replace(value, alternatives=tuple(self.arrived(each, w, ctx) for each in value.alternatives))
        if not isinstance(value, Imported):
            return value
        if value in self._arriving:  # two files that import a name from each other
            return Unknown(Named(value.module.path, value.name, is_imported=True), value.name)
        self._arriving.append(value)
        try:
            return self.member(value.module, value.name, w, ctx)
        finally:
            self._arriving.pop()

    def _star(self, name: str, module: Module | None, w: World, ctx: Context) -> None:
        frame = w.write(ctx.frame)
        before = frame.vars.get(_STAR)
        known = before.sources if isinstance(before, Stars) else ()
        frame.vars[_STAR] = Stars((module or canonical(name), *known))

    def behind(self, stars: Stars, name: str, w: World, ctx: Context) -> Value | None:
        """A name that ``import *`` brought; None if it did not."""
        for source in stars.sources:
            if isinstance(source, str):
                if exports(source, name):
                    return External(canonical(f"{source}.{name}"))
            elif self._project.offers(source, name):
                return self.member(source, name, w, ctx)
        return None

    def member(self, module: Module, name: str, w: World, ctx: Context) -> Value:
        """``module.name``: what the module binds, or its submodule."""
        frame_id = self._execution.enter(module, w)
        frame = w.find(frame_id) if frame_id is not None else None
        if isinstance(frame, Frame) and frame_id is not None:
            if name in frame.vars:
                return self.arrived(frame.vars[name], w, ctx)
            defined = self._definitions.of_module(module, frame_id, name, w)
            if defined is not None:
                return defined
        star = frame.vars.get(_STAR) if isinstance(frame, Frame) else None
        child = self._project.submodule(module, name)
        if isinstance(star, Stars):  # 'from .alexnet import *' may bring a function alexnet
            stars = star if child is None else Stars(tuple(each for each in star.sources if each is child))
            behind = self.behind(stars, name, w, ctx)
            if behind is not None:
                return behind
        if child is not None:
            return Namespace(child, name)
        return Unknown(Named(module.path, name, is_imported=True), name)

    def any_member(self, owner: Namespace, w: World, ctx: Context) -> Value:
        """``getattr(module, name)`` with an unknown name: one of its classes or functions, if they are few."""
        units = [unit for unit in owner.module.units if isinstance(unit, (FunctionUnit, ClassUnit))]
        values = [self.member(owner.module, unit.name, w, ctx) for unit in units]
        if 0 < len(values) <= MAX_DEFINITIONS:
            return Choice(MemberOf(owner.module.path), tuple(values)) if len(values) > 1 else values[0]
        return new_unknown("member")
