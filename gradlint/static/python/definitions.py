"""Definitions: functions, classes and their decorators; look-up along base classes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.roles import DECORATED, Role
from gradlint.static.python.budget import Budget
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.progress import Nested
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.joining import joined
from gradlint.static.state.values import (
    NONE,
    Bound,
    Class,
    Const,
    External,
    Frame,
    Function,
    Instance,
    Ref,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import ClassUnit, DefinitionUnit, FunctionUnit, Methods
from gradlint.static.text.index import INIT_SUBCLASS
from gradlint.static.text.units import Unit

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.text.files import Module

MAX_DECORATOR_STEPS = 500  #: statements executed for one decorator at most
DECORATOR_TRIALS = 2  #: a decorator that takes more than these so often is not executed any more
_WITHOUT_INIT = frozenset(["builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"])
_SETTING = frozenset(["setattr", "__setattr__", "__getattr__", "__getattribute__", "__dict__", "vars"])
"""Words of classes whose objects may have attributes that are not named where they are set."""


_METACLASS = "<metaclass>"  #: what the metaclass is called that stands beside the attributes of its class
_PLAIN = frozenset(["Any", "None", "bool", "bytes", "complex", "dict", "float", "int", "list", "set", "str", "tuple"])
"""Classes that tell nothing when an annotation names them."""


class Field(NamedTuple):
    """An annotated name in the body of a class."""

    name: str
    part: Unit
    telling: bool  #: the annotation may name a class of torch or of the project

    @property
    def annotation(self) -> cst.Annotation | None:
        """Its annotation, for which the statement is parsed; None where it tells nothing."""
        if not self.telling:
            return None
        return next((annotation for name, annotation in _annotated(self.part) if name == self.name), None)


class Definitions:
    """Turns definitions into values."""

    _budget: Budget
    _execution: Execution
    _nested: Nested
    _domain: Domain

    def __init__(self) -> None:
        self._fields: dict[ClassUnit, list[Field]] = {}
        self._records: dict[Unit, bool] = {}  #: classes of which it is known whether they hold fields
        self._roles: dict[Unit, Role] = {}
        self._orders: dict[int, tuple[Class, tuple[Value, ...]]] = {}  #: of classes and their bases, by their scopes
        self._methods: dict[tuple[ClassUnit, ...], Methods] = {}
        self.seen_classes: dict[Unit, Class] = {}  #: as they were last defined
        self._too_long: Counter[Unit] = Counter()  #: how often decorators took too many statements

    # --- defining

    def define(self, unit: DefinitionUnit, w: World, ctx: Context) -> None:
        """Bind the function or class that ``unit`` defines."""
        if isinstance(unit, FunctionUnit):
            function = self.function(unit, ctx)
            if ctx.function is not None:
                self._nested.defined(function)
            value = self.decorate(unit, function, w, ctx)
        else:
            value = self.klass(unit, w, ctx)
            self.seen_classes[unit] = value
            if ctx.function is not None:
                self._domain.building.within(value, w, ctx)
            for decorator in reversed(unit.decorators):
                value = self._apply(decorator, value, w, ctx._replace(unit=unit))
        self._execution.assign(unit.name, value, w, ctx)

    def define_node(self, node: cst.FunctionDef | cst.ClassDef, w: World, ctx: Context) -> None:
        """Define a function or class nested in a unit that is parsed already."""
        kind = FunctionUnit if isinstance(node, cst.FunctionDef) else ClassUnit
        self.define(kind.from_node(node, ctx.unit), w, ctx)  # type: ignore[arg-type]

    def function(self, unit: FunctionUnit, ctx: Context, owner: Class | None = None) -> Function:
        """The bare function, before its decorators."""
        frame = ctx.frame
        if owner is not None:
            frame = owner.frame
        return Function(unit, frame, owner=owner)

    def _base(self, node: cst.BaseExpression, w: World, ctx: Context) -> Value:
        """A base of a class: of a generic one of a library (``Dataset[int]``) the class itself."""
        generic = w.resolve(self._execution.evaluate(node.value, w, ctx)) if isinstance(node, cst.Subscript) else None
        return generic if isinstance(generic, External) else w.resolve(self._execution.evaluate(node, w, ctx))

    def klass(self, unit: ClassUnit, w: World, ctx: Context) -> Class:
        """The class, its body executed."""
        here = ctx._replace(unit=unit)
        bases = tuple(self._base(base.value, w, here) for base in unit.bases if base.keyword is None and not base.star)
        scope = w.new(Frame({}, ctx.frame))
        value = Class(unit, bases, scope.id, ctx.frame)
        inside = ctx._replace(unit=unit, frame=scope.id)
        for part in unit.body:
            if isinstance(part, FunctionUnit):
                method = self.decorate(part, self.function(part, ctx, value), w, inside._replace(unit=part))
                name = part.name if part.accessor is None else f"{part.name}.{part.accessor}"
                w.write(scope.id).vars[name] = method
            else:
                self._execution.run_unit(part, w, inside)
        for base in unit.bases:
            if base.keyword is not None and base.keyword.value == "metaclass":
                w.write(scope.id).vars[_METACLASS] = w.resolve(self._execution.evaluate(base.value, w, here))
        self._told(value, w, here)
        return value

    def made_by_metaclass(self, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> Results | None:
        """What the ``__call__`` of a metaclass builds; None if that is not known, or an instance as of any class."""
        if self.role(cls) is roles.ENUM:
            return [(w, self._member(cls, args, w))]
        metaclass = self.attribute(cls, _METACLASS, w)
        maker = self.attribute(metaclass, "__call__", w) if isinstance(metaclass, Class) else None
        if not isinstance(maker, Function):
            return None
        results = self._execution.call(Bound(cls, "__call__", maker), args, w.copy(), ctx, site)
        built = all(isinstance(each, Ref) for world, value in results for each in each_of(world.resolve(value)))
        return results if built else None

    def _member(self, cls: Class, args: Arguments, w: World) -> Value:
        """The member of an enumeration that has a value: members stand for their values, as far as these are known."""
        scope, value = w.find(cls.scope), w.resolve(args.get(0) or NONE)
        if not isinstance(scope, Frame) or len(args.positional) != 1 or args.keywords or args.open:
            return new_unknown("member")
        members = {w.resolve(each) for name, each in scope.vars.items() if not name.startswith("_")}
        if isinstance(value, Const):
            return value if value in members else new_unknown("member")
        return value if all(isinstance(each, (Const, Function)) for each in members) else new_unknown("member")

    def _told(self, cls: Class, w: World, ctx: Context) -> None:
        """Call the ``__init_subclass__`` that a class inherits, which may enter the class into a table."""
        hook = self.attribute(cls, INIT_SUBCLASS, w, after=cls)
        if not isinstance(hook, Function):
            return
        given = {base.keyword.value: base.value for base in cls.unit.bases if base.keyword is not None}
        given.pop("metaclass", None)
        keywords = {name: w.resolve(self._execution.evaluate(value, w, ctx)) for name, value in given.items()}
        args = Arguments([], keywords, open=any(base.star for base in cls.unit.bases))
        self._tried(Bound(cls, INIT_SUBCLASS, hook), hook.unit, args, w, ctx, cls.unit.here)

    def decorate(self, unit: FunctionUnit, function: Function, w: World, ctx: Context) -> Value:
        """The function as its decorators leave it."""
        value: Value = function
        for decorator in reversed(unit.decorators):
            value = self._apply(decorator, value, w, ctx._replace(unit=unit))
        return value

    def _apply(self, node: cst.BaseExpression, value: Value, w: World, ctx: Context) -> Value:
        if isinstance(node, cst.Attribute) and node.attr.value in ("setter", "deleter"):
            return value
        if isinstance(node, cst.Attribute) and node.attr.value == "getter" and isinstance(value, Function):
            return replace(value, kind="property")
        decorator = w.resolve(self._execution.evaluate(node, w, ctx))
        if isinstance(decorator, External):
            if isinstance(value, Function):
                kind = DECORATED.get(decorator.name)
                if kind is not None:
                    return replace(value, kind=kind)
                mode = self._domain.names.grad_mode(decorator.name)
                if mode is not None:
                    return replace(value, grad=mode)
            return value
        instance = w.get(decorator, Instance)
        if instance is not None and instance.role is roles.GRAD_MODE and isinstance(value, Function):
            return replace(value, grad=instance.grad)
        if isinstance(decorator, (Function, Class)):
            result = self._decorated(decorator, value, w, ctx, node)
            return value if result == NONE or isinstance(result, Unknown) else result
        return value

    def _decorated(
        self, decorator: Function | Class, value: Value, w: World, ctx: Context, node: cst.BaseExpression
    ) -> Value:
        """What a decorator of the project returns; unknown where it takes long, as those do that write docstrings."""
        return self._tried(decorator, decorator.unit, Arguments([value]), w, ctx, ctx.site(node))

    def _tried(self, callee: Value, unit: Unit, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """What a call of a unit gives that a definition makes; where it takes long, it is as if it were not made."""
        if self._too_long[unit] >= DECORATOR_TRIALS:
            return new_unknown("decorated")
        trial = w.copy()
        results: list[Value] = []

        def act() -> None:
            ends = self._execution.call(callee, args, trial, ctx, site)
            results.append(joined(ends, trial))

        if not self._budget.affords(act, MAX_DECORATOR_STEPS):
            self._too_long[unit] += 1
            return new_unknown("decorated")
        w.become(trial)
        return results[0]

    # --- names that are defined further down, or in a module that is still being executed

    def late(self, name: str, w: World, ctx: Context) -> Value | None:
        """A function or class of the module that has not been reached by execution."""
        frame = w.modules.get(ctx.module)
        return None if frame is None else self.of_module(ctx.module, frame, name, w)

    def of_module(self, module: Module, frame: int, name: str, w: World) -> Value | None:
        """A definition of ``module`` by name, without executing the module."""
        unit = module.definitions.get(name)
        if unit is None:
            return None
        self.define(unit, w, Context(module, unit, frame))
        frame_object = w.find(frame)
        assert isinstance(frame_object, Frame)
        return frame_object.vars.get(name)

    # --- classes

    def attribute(self, cls: Class, name: str, w: World, after: Class | None = None) -> Value | None:
        """``name`` in the class or its bases of the project; with ``after``, only in what follows that class."""
        for candidate in self.mro(cls, after):
            frame = w.find(candidate.scope)
            if isinstance(frame, Frame) and name in frame.vars:
                return frame.vars[name]
        return None

    def mro(self, cls: Class, after: Class | None = None) -> Iterator[Class]:
        """The class and its bases of the project, as Python looks methods up; those ``after`` one of them if given."""
        if not any(isinstance(base, Class) for base in cls.bases):
            return iter([cls] if after is None else [])
        return (base for base in self._lineage(cls, after) if isinstance(base, Class))

    def methods(self, cls: Class) -> Methods:
        """The methods that the project gives to objects of a class, by name."""
        units = tuple(here.unit for here in self.mro(cls))
        known = self._methods.get(units)
        if known is None:
            known = self._methods[units] = Methods()
            for unit in reversed(units):
                known.update(unit.methods)
        return known

    def running(self, cls: Class, obj: Instance) -> dict[str, Value]:
        """The numbers that an object counts on in its attributes, which are any once it is in use."""
        updated = {
            name for one in self.methods(cls).values() if one.name != "__init__" for name in one.updated_attributes
        }
        numbers = {name for name in updated if type(getattr(obj.attrs.get(name), "value", None)) in (int, float)}
        return {name: new_unknown("counter", name) for name in sorted(numbers)}

    def initializer(self, cls: Class, w: World, after: Class | None = None) -> tuple[Function | None, bool]:
        """The ``__init__`` of the project that comes next, and whether one from outside may come before it.

        That of torch never calls on: a class of the project behind ``nn.Module`` is not reached.
        """
        foreign = False
        for base in self._lineage(cls, after):
            if isinstance(base, Class):
                frame = w.find(base.scope)
                found = frame.vars.get("__init__") if isinstance(frame, Frame) else None
                if isinstance(found, Function):
                    return found, foreign
            elif isinstance(base, External) and self._domain.names.ends_lineage(base.name):
                return None, True
            elif not isinstance(base, External) or base.name not in _WITHOUT_INIT:
                foreign = True
        return None, foreign

    def _lineage(self, cls: Class, after: Class | None) -> tuple[Value, ...]:
        """The class and all its bases, those from outside too, in the order of :meth:`mro`."""
        known, order = self._orders.get(cls.scope, (None, ()))
        if known is not cls:
            rows = [self._lineage(base, None) if isinstance(base, Class) else (base,) for base in cls.bases]
            order = (cls, *_merged([*rows, cls.bases]))
            self._orders[cls.scope] = cls, order
        if after is not None:
            order = order[order.index(after) + 1 :] if after in order else ()
        return order

    def external_bases(self, cls: Class) -> Iterator[str]:
        """The canonical names of the bases that are not of the project."""
        for here in self.mro(cls):
            for base in here.bases:
                if isinstance(base, External):
                    yield base.name

    def is_whole(self, cls: Class, *, module: bool = False) -> bool:
        """Whether objects of a class have no attributes from outside, and none under names that are computed.

        ``module`` leaves those aside that every module has.
        """
        own = [base for base in self._lineage(cls, None) if isinstance(base, Class)]
        others = [base for base in self._lineage(cls, None) if not isinstance(base, Class)]
        return (
            all(
                isinstance(base, External)
                and (base.name in _WITHOUT_INIT or (module and self._domain.names.ends_lineage(base.name)))
                for base in others
            )
            and all(_SETTING.isdisjoint(here.unit.words) for here in own)
            and all(_words(decorator) == "dataclass" for here in own for decorator in here.unit.decorators)
            and not any(base.keyword is not None or base.star for here in own for base in here.unit.bases)
        )

    def role(self, cls: Class) -> Role:
        """What instances of the class are to the program."""
        known = self._roles.get(cls.unit)
        if known is None:
            known = self._roles[cls.unit] = self._role(cls)
        return known

    def _role(self, cls: Class) -> Role:
        for base in self.external_bases(cls):
            role = self._domain.names.role(base, partial(self.methods, cls))
            if role is not None:
                return role
        return roles.PLAIN

    def is_test(self, cls: Class) -> bool:
        """Whether the class holds tests: as a base class says, or as its name and theirs say to pytest."""
        if any(map(self._domain.names.begins_tests, self.external_bases(cls))):
            return True
        methods = self.methods(cls)
        named = cls.unit.name.startswith("Test") and "__init__" not in methods
        return named and any(map(self._domain.names.is_test, methods))

    def is_dataclass(self, cls: Class) -> bool:
        """Whether the class gets its ``__init__`` from its annotated fields."""
        decorated = any("dataclass" in _words(d) for here in self.mro(cls) for d in here.unit.decorators)
        return (
            decorated
            or "NamedTuple" in {b.rpartition(".")[2] for b in self.external_bases(cls)}
            or any(base.endswith("ModelOutput") for base in self.external_bases(cls))
        )

    def is_record(self, obj: Instance) -> bool:
        """Whether an object is of a class of the project that holds fields, as a dataclass does."""
        if obj.cls is None or obj.role is not roles.PLAIN:
            return False
        known = self._records.get(obj.cls.unit)
        if known is None:
            known = self._records[obj.cls.unit] = self.is_dataclass(obj.cls)
        return known

    def annotated_fields(self, cls: Class) -> dict[str, tuple[Field, Context]]:
        """The annotated names in the bodies of the class and its bases, in order, and where their annotations stand."""
        return {
            field.name: (field, Context(field.part.module, field.part, here.scope))
            for here in reversed(list(self.mro(cls)))
            for field in self._fields_of(here.unit)
        }

    def _fields_of(self, unit: ClassUnit) -> list[Field]:
        known = self._fields.get(unit)
        if known is None:
            annotated = ((name, part, said) for part in unit.body for name, said in _annotated(part))
            known = self._fields[unit] = [Field(name, part, _may_tell(said)) for name, part, said in annotated]
        return known


def _words(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Call):
        return _words(node.func)
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def _merged(rows: list[tuple[Value, ...]]) -> Iterator[Value]:
    """The orders of some bases as one by C3, as Python does; where it would refuse the class, left to right."""
    behind = Counter(base for row in rows for base in row[1:])
    queues = [deque(row) for row in rows]
    while queues := [queue for queue in queues if queue]:
        head = next((queue[0] for queue in queues if not behind[queue[0]]), None)
        if head is None:
            yield from dict.fromkeys(chain(*queues))
            return
        yield head
        for queue in queues:
            if queue[0] == head:
                queue.popleft()
                behind.subtract(islice(queue, 1))


def _may_tell(annotation: cst.Annotation) -> bool:
    """Whether an annotation may name a class of torch or of the project, and nothing else."""
    said = annotation.annotation
    if isinstance(said, cst.Name):
        return said.value not in _PLAIN
    return isinstance(said, (cst.Attribute, cst.SimpleString))


def _annotated(unit: Unit) -> Iterator[tuple[str, cst.Annotation]]:
    node = unit.node
    if isinstance(node, cst.SimpleStatementLine):
        for part in node.body:
            if isinstance(part, cst.AnnAssign) and isinstance(part.target, cst.Name):
                yield part.target.value, part.annotation
