"""How names come to their values: variables and scopes, imports, and arguments of calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.streams import Streams
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import MAX_DEFINITIONS
from gradlint.static.state.origins import MemberOf, Named, Parameter
from gradlint.static.state.provenance import from_module
from gradlint.static.state.values import (
    Choice,
    Const,
    External,
    Frame,
    Function,
    Imported,
    Mapping,
    Namespace,
    Sequence,
    Stars,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.chains import BUILTINS
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.index import named
from gradlint.static.text.nodes import dotted
from gradlint.static.text.project import Project
from gradlint.static.text.reach import Reach

if TYPE_CHECKING:
    from gradlint.static.text.files import Module


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
        if name in BUILTINS:
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


class Imports:
    """Executes import statements: into the project's files where they are there, otherwise by name."""

    _domain: Domain
    _execution: Execution
    _project: Project
    _reach: Reach
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
            value: Value = Namespace(module, name) if module else External(self._domain.names.canonical(name))
            self._execution.assign(alias.asname.name.value, value, w, ctx)
        else:
            module = self._project.resolve(root, ctx.module)
            value = Namespace(module, root) if module else External(self._domain.names.canonical(root))
            self._execution.assign(root, value, w, ctx)
        self._register(0, name, w, ctx)

    def _register(self, level: int, name: str, w: World, ctx: Context) -> None:
        """Execute the files that an import names, where they change what other files hold."""
        registrations = self._reach.registrations
        for module in registrations.imported(level, name, ctx.module):
            if registrations.among(module):
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
                value = External(self._domain.names.canonical(f"{name}.{item}"))
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
        frame.vars[_STAR] = Stars((module or self._domain.names.canonical(name), *known))

    def behind(self, stars: Stars, name: str, w: World, ctx: Context) -> Value | None:
        """A name that ``import *`` brought; None if it did not."""
        for source in stars.sources:
            if isinstance(source, str):
                if self._domain.names.exports(source, name):
                    return External(self._domain.names.canonical(f"{source}.{name}"))
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


class Binding:
    """Evaluates arguments and binds them."""

    _domain: Domain
    _execution: Execution
    _streams: Streams

    def arguments(self, node: cst.Call, w: World, ctx: Context) -> Arguments:
        """Evaluate the arguments of a call, unpacking known ``*args`` and ``**kwargs``."""
        args = Arguments()
        for arg in node.args:
            value = w.resolve(self._execution.evaluate(arg.value, w, ctx))
            if arg.star == "*":
                self._streams.used(value, "this call", w, ctx, ctx.site(arg.value))
                items = self._execution.iterate(value, w, ctx, ctx.site(arg.value))
                if items.known is None:
                    sequence = w.get(value, Sequence)
                    if sequence is not None and sequence.items and sequence.tail is not None and not args.open:
                        args.positional += sequence.items  # these come first, however many there are
                        others = Sequence([], [], sequence.tail, sequence.tail_site, False)
                        others.end_with(sequence.ending)
                        sequence, value = others, w.new(others)
                    args.rest = value if not args.open else None
                    args.open, args.last = True, sequence.ending if sequence is not None else None
                    if sequence is not None and sequence.tail is not None:
                        args.unpacked += [*sequence.items, sequence.tail]
                else:
                    args.positional += items.known
            elif arg.star == "**":
                mapping = w.get(self._execution.dict_in(value, w), Mapping)
                if mapping is None or mapping.tail is not None:
                    args.open = True
                if mapping is not None:
                    for key, item in mapping.items.items():
                        if isinstance(key, Const) and isinstance(key.value, str):
                            args.keywords[key.value] = item
            elif arg.keyword is not None:
                args.keywords[arg.keyword.value] = value
            else:
                args.positional.append(value)
                args.last, args.rest = value if args.open else None, None
        return args

    def bind(self, fn: Function, args: Arguments, w: World, here: Context) -> None:
        """Bind the arguments of a call to the parameters of its frame."""
        params = fn.unit.node.params
        variables = w.write(here.frame).vars
        keywords = dict(args.keywords)
        position = 0
        given = args.positional + self._unpacked(params, args, w, here)
        for param in (*params.posonly_params, *params.params):
            name = param.name.value
            if position < len(given):
                variables[name] = given[position]
            elif name in keywords:
                variables[name] = keywords.pop(name)
            else:
                variables[name] = self._default(fn, param, args.open, w, here)
            position += 1
        if isinstance(params.star_arg, cst.Param):
            rest = given[position:]
            tail = new_unknown("args") if args.open else None
            sequence = Sequence(list(rest), [None] * len(rest), tail, None, False)
            variables[params.star_arg.name.value] = w.new(sequence)
        for param in params.kwonly_params:
            name = param.name.value
            if name in keywords:
                variables[name] = keywords.pop(name)
            else:
                variables[name] = self._default(fn, param, args.open, w, here)
        if params.star_kwarg is not None:
            tail = new_unknown("kwargs") if args.open else None
            items: dict[Value, Value] = {Const(key): value for key, value in keywords.items()}
            variables[params.star_kwarg.name.value] = w.new(Mapping(items, tail))
        outside = self.around(fn, here)
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            self._domain.values.annotated(variables[param.name.value], param.annotation, w, outside)

    def _unpacked(self, params: cst.Parameters, args: Arguments, w: World, here: Context) -> list[Value]:
        """What parameters without a default are given of a last ``*values`` of which the number is not known."""
        if args.rest is None:
            return []
        left = [*params.posonly_params, *params.params][len(args.positional) :]
        count = 0
        while count < len(left) and left[count].default is None and left[count].name.value not in args.keywords:
            count += 1
        values = self._execution.unpack(args.rest, count, [False] * count, w, here)
        return [] if any(isinstance(value, Unknown) and not from_module(value) for value in values) else values

    def _default(self, fn: Function, param: cst.Param, open_: bool, w: World, here: Context) -> Value:
        """What a parameter is that is given nothing; where that is not known, some are taken as they are."""
        name = param.name.value
        if param.default is not None and (not open_ or type(param.default) in (cst.Call, cst.Attribute)):
            default = self._execution.evaluate(param.default, w, self.around(fn, here))
            if not open_ or self._domain.values.is_default(default, w):
                return default
        return Unknown(Parameter(fn.unit, name, here.key), name)

    def around(self, fn: Function, here: Context) -> Context:
        """Where the header of a function is evaluated: around its body."""
        return here._replace(frame=fn.frame, function=None, parent=None)
