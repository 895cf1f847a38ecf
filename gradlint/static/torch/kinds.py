"""What names stand for, and what annotations and ``isinstance`` tell of values of which nothing else is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.roles import Role
from gradlint.static.knowledge.torch_functions import FUNCTIONS
from gradlint.static.knowledge.torch_layers import PARTS_OF_MODULES, begins_parameter
from gradlint.static.knowledge.torch_table import (
    DROPOUTS,
    GRAD_MODES,
    HANDLERS,
    LAYERS,
    LOSSES,
    MODULE,
    MODULE_BASES,
    OPTIMIZERS,
    SCALERS,
    SCHEDULERS,
    STRINGS,
    SUBMODULES,
    TENSOR,
    TEST_BASES,
    any_of,
    canonical,
    is_module_class,
)
from gradlint.static.knowledge.torch_training import SUBCLASSED, is_test
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.execution import Execution
from gradlint.static.python.progress import Progress
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import joined
from gradlint.static.state.values import (
    Class,
    External,
    Function,
    Group,
    Instance,
    Ref,
    Sequence,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import value_of
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.optimizers import Optimizers, Scalers
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


class TorchNames:
    """What names of torch, and of the libraries that are known, stand for."""

    def __init__(self) -> None:
        self.roots = frozenset([MODULE])
        self.parts: tuple[str, ...] = PARTS_OF_MODULES
        self.canonical: Callable[[str], str] = canonical
        self.any_of: Callable[[str], str | None] = any_of
        self.holds_strings: Callable[[str], bool] = STRINGS.__contains__
        self.begins_tests: Callable[[str], bool] = TEST_BASES.__contains__
        self.is_test: Callable[[str], bool] = is_test
        self.begins_part: Callable[[str], bool] = begins_parameter

    def exports(self, module: str, name: str) -> bool:
        """Whether ``from module import *`` brings a name, for the modules of torch."""
        full = canonical(f"{module}.{name}")
        tables = (FUNCTIONS, LAYERS, LOSSES, OPTIMIZERS, MODULE_BASES, GRAD_MODES, DROPOUTS, SUBMODULES)
        return any(full in table for table in tables)

    def grad_mode(self, decorator: str) -> bool | None:
        """The grad mode that a decorator sets: ``torch.no_grad``."""
        return {"on": True, "off": False}.get(GRAD_MODES.get(decorator, ""))

    def role(self, base: str, methods: Callable[[], Iterable[str]]) -> Role | None:
        """What the objects of a class are that derives from another; a module has ``forward``."""
        role = SUBCLASSED.get(base)
        return roles.MODULE if role is None and is_module_class(base) and "forward" in methods() else role

    def ends_lineage(self, base: str) -> bool:
        """Whether the initializer of a class calls none of those behind it, as that of ``Module`` does not."""
        return base in MODULE_BASES or base in LAYERS


class Kinds:
    """Takes a value for what it is said to be: the module, loss or optimizer that a caller is asked for."""

    _execution: Execution
    _progress: Progress
    _definitions: Definitions
    _calls: Calls
    _tensors: Tensors
    _modules: Modules
    _optimizers: Optimizers
    _scalers: Scalers

    def __init__(self) -> None:
        self._building: set[Class] = set()

    def annotated(
        self, value: Value, annotation: cst.Annotation | None, w: World, ctx: Context, *, returned: bool = False
    ) -> None:
        """From now on in this world, a value of which nothing is known is what its annotation says.

        One that says that it may be None tells nothing: what is done where it is None counts as much.  What a function
        is said to have returned is no proof of an optimizer: those who build something from a configuration call a
        scheduler one as well.
        """
        value = w.resolve(value)
        if annotation is None or not isinstance(value, (Ref, Unknown)):
            return
        if isinstance(value, Ref) and not self._modules.may_be_one(value, w):
            return
        kind = self._meant(annotation.annotation, w, ctx)
        if isinstance(value, Ref):
            if self._is_module(kind):
                self._modules.recognised(value, w, ctx.site(annotation))
        elif isinstance(kind, External):
            if not (returned and kind.name in OPTIMIZERS):
                self._assume(value, kind.name, w, ctx.site(annotation))
        elif isinstance(kind, Class):
            self._build(value, kind, w, ctx, ctx.site(annotation))

    def checked(self, value: Value, kind: Value, w: World, site: Site) -> None:
        """From now on in this world, a value is an object of a class, or of one of several: ``isinstance(m, kind)``."""
        several = w.get(kind, Sequence)
        if several is not None and several.items:
            kind = w.resolve(several.items[0])
        if not isinstance(value, Unknown) or not isinstance(kind, External):
            return
        if kind.name == TENSOR:
            self._tensors.from_unknown(value, w)
        elif kind.name == "torch.nn.Parameter":
            groups = frozenset([w.new(Group(None, opaque=True)).id])
            self._tensors.from_unknown(value, w, is_parameter=True, is_leaf=True, groups=groups, deps=groups)
        else:
            self._assume(value, kind.name, w, site)

    def _meant(self, node: cst.BaseExpression, w: World, ctx: Context) -> Value | None:
        """The class that an annotation names; None where it does not name one, or names others as well."""
        if isinstance(node, cst.SimpleString):
            text = value_of(node)
            try:
                node = cst.parse_expression(text if isinstance(text, str) else "")
            except (cst.ParserSyntaxError, cst.CSTValidationError):
                return None
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        return w.resolve(self._execution.evaluate(node, w, ctx)) if isinstance(root, cst.Name) else None

    def _is_module(self, kind: Value | None) -> bool:
        """Whether a class is one of modules."""
        if isinstance(kind, External):
            return kind.name in MODULE_BASES or kind.name in LAYERS
        return isinstance(kind, Class) and self._definitions.role(kind).is_model

    def _assume(self, value: Unknown, name: str, w: World, site: Site) -> None:
        layer = LAYERS.get(name)
        place = ("kind", value.key)
        if name in OPTIMIZERS:
            self._optimizers.opaque_optimizer(value, w, site)
        elif name in LOSSES:
            attrs: dict[str, Value] = {"reduction": new_unknown("reduction")}
            loss = Instance(name=name, role=roles.LOSS, loss=LOSSES[name], attrs=attrs, made_at=site)
            w.bound[value.key] = w.new(loss, place)
        elif name in SCALERS:
            w.bound[value.key] = self._scalers.made(Arguments(), name, w, place)
        elif name in SCHEDULERS:
            w.bound[value.key] = w.new(Instance(name=name, role=roles.SCHEDULER), place)
        elif name in HANDLERS:
            w.bound[value.key] = w.new(Instance(name=name, role=roles.HANDLER), place)
        elif layer is not None and not layer.container:
            groups = frozenset([w.new(Group(None, opaque=True)).id]) if layer.parameters else frozenset[int]()
            module = Instance(
                name=name, role=roles.MODULE, layer=layer, groups=groups, training=None, device=None, made_at=site
            )
            w.bound[value.key] = w.new(module, place)
        elif layer is not None or name in MODULE_BASES:
            self._opaque(value, w, site)

    def _opaque(self, value: Unknown, w: World, site: Site) -> None:
        w.bound[value.key] = self._modules.opaque(w, value.hint, site, None, value.deps, ("module", value.key))

    def _build(self, value: Unknown, kind: Class, w: World, ctx: Context, site: Site) -> None:
        """An object of a class of the project is what its ``__init__`` makes of arguments that are not known."""
        if self._definitions.role(kind).is_model:
            forward = self._definitions.attribute(kind, "forward", w)
            if not isinstance(forward, Function) or "abstract" in forward.unit.constructs:
                self._opaque(value, w, site)
                return
        elif not self._definitions.is_dataclass(kind):
            return
        if kind not in self._building:
            self._building.add(kind)
            try:
                made = self._made(kind, w, ctx.at("annotation", value.key), site)
            finally:
                self._building.discard(kind)
            if made is not None:
                self._unsettle(made, w)
                w.bound[value.key] = made

    def _made(self, kind: Class, w: World, ctx: Context, site: Site) -> Ref | None:
        """A new object, made without anything being told of it; None if it cannot be made."""
        trial = w.copy()
        with self._progress.unseen(built=True):
            results = self._calls.instantiate(kind, Arguments(open=True), trial, ctx, site)
            made = joined(results, trial) if results else None
        if not isinstance(made, Ref):
            return None
        w.become(trial)
        return made

    def _unsettle(self, made: Ref, w: World) -> None:
        """Since an object was made, its modules may have been trained, moved and frozen, and others added to them."""
        for ref in self._modules.walk(made, w):
            if w.get(ref, Instance) is not None:
                new = w.write(ref.id)
                new.training = new.device = None
                new.opaque = True
        for key in self._modules.groups(made, w):
            group = w.write(key)
            group.requires_grad, group.opaque = None, True
