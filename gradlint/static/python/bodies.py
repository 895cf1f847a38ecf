"""The bodies of files and classes, and the modules of a project as their bodies leave them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gradlint.source import SourceError
from gradlint.static.knowledge import roles
from gradlint.static.python.binding import Names
from gradlint.static.python.budget import Budget, BudgetExceededError
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.flow import Flow
from gradlint.static.python.progress import TRIES, Patience, Progress, Wholeness
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import forget
from gradlint.static.state.context import Context, Ledgers, Outcome
from gradlint.static.state.joining import join
from gradlint.static.state.origins import AttributeOf, Named, Origin
from gradlint.static.state.values import Class, Const, Frame, Object, Unknown, new_unknown
from gradlint.static.state.world import Imported, World
from gradlint.static.text.chains import assigned_in
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, leaves
from gradlint.static.text.triggers import walks_in
from gradlint.static.text.units import StatementUnit, Unit

if TYPE_CHECKING:
    from gradlint.static.text.files import Module


class Bodies:
    """Executes units, which are parsed for that."""

    _progress: Progress
    _whole: Wholeness
    _definitions: Definitions
    _names: Names
    _flow: Flow

    def unit(self, unit: Unit, w: World, ctx: Context) -> None:
        """Execute one unit in place."""
        ends = self.units([unit], [w], ctx).normal
        if ends:
            end = ends[0]
            for other in ends[1:]:
                end = join(end, other)
            w.become(end)

    def units(self, units: list[Unit], worlds: list[World], ctx: Context) -> Outcome:
        """Execute units one after the other, as :meth:`Flow.block` does statements."""
        out = Outcome(list(worlds))
        for unit in units:
            if isinstance(unit, StatementUnit) and unit.is_text:
                continue
            here = ctx._replace(unit=unit)
            reached, out.normal = out.normal, []
            if isinstance(unit, StatementUnit):
                if not unit.is_readable:
                    out.normal = [self._bound(assigned_in(unit.text), world, here) for world in reached]
                    continue
                self._flow.statements(unit.node, reached, here, out)
                if self._whole.holds:
                    self._progress.settle()
                continue
            for world in reached:
                if isinstance(unit, (FunctionUnit, ClassUnit)):
                    try:
                        self._definitions.define(unit, world, here)
                    except SourceError:
                        self._bound([unit.name], world, here)
                out.normal.append(world)
        return out

    def _bound(self, names: Iterable[str], w: World, ctx: Context) -> World:
        """Where a unit that cannot be parsed has bound its names."""
        for name in names:
            self._names.assign(name, new_unknown("unreadable", name), w, ctx)
        return w


MAX_UNIT_STEPS = 3_000  #: statements executed for one definition or import of a file that is too long, at most


class Images:
    """Executes the bodies of modules where they are imported."""

    _budget: Budget
    _ledgers: Ledgers
    _progress: Progress
    _whole: Wholeness
    _witness: Witness
    _bodies: Bodies
    _definitions: Definitions
    _patience: Patience

    def __init__(self) -> None:
        self.given_up: list[Module] = []  #: modules whose bodies are too long to follow
        self.optimizers: dict[Module, set[int]] = {}  #: those that modules have left behind
        self.shared = Imported()  #: the objects that imported modules made
        self.in_use = Imported()
        """The same as whoever calls a function may have left them: constants that functions bind anew are any value."""
        self._rebound: dict[int, Mapping[str, Origin]] = {}  #: frames with such constants, and what these are then
        self._images: dict[Module, World | None] = {}

    def enter(self, module: Module, w: World) -> int | None:
        """Import a module of the project; None while it is being imported already (a cycle)."""
        frame = w.modules.get(module)
        if frame is not None:
            return frame
        if module not in self._images:
            self._images[module] = None
            budget = self._budget
            ordered, budget.ordered = budget.ordered, budget.ordered or walks_in(module.source.text)
            whole, self._whole.holds = self._whole.holds, True
            noted = self._ledgers.sizes()
            try:
                with self._progress.apart(), self._witness.apart():  # executed once, for all that import it
                    self._images[module] = self._execute(module)
            except BaseException:
                del self._images[module]  # it may be reached again with less on the stack
                raise
            finally:
                budget.ordered = ordered
                self._whole.holds = whole
                self._ledgers.keep(noted)
        image = self._images[module]
        if image is None:
            return None
        for other, key in image.modules.items():
            w.modules.setdefault(other, key)
        for name, value in image.bound.items():
            w.bound.setdefault(name, value)
        return w.modules[module]

    def _execute(self, module: Module) -> World:
        w = World(self.shared)
        frame = w.new(Frame({"__name__": Const(module.name or module.path.stem)}))
        w.modules[module] = frame.id
        if not module.units:  # a folder without __init__.py, or an empty file
            self._share(module, w)
            return w
        ctx = Context(module, module.units[0], frame.id)
        ctx = ctx.at("module", module)
        ends = self._ends(module, w, ctx)
        if ends is None:
            self.given_up.append(module)
        image = ends[0] if ends else self._definitions_of(module, ctx)
        for other in ends[1:] if ends else ():
            image = join(image, other)
        image.token = object()
        kept = [frame.id, *(key for key in image.heap if key in self.shared)]  # registries of other files, too
        dropped = [key for key, _ in forget(image, kept, 0)]
        # Inputs that are still at hand may yet be looked at, if the module ever looks at a gradient.
        done = dropped if "grad" in module.words else list(image.heap)
        self._witness.inputs_done(done, image, ctx)
        for key in dropped:
            del image.heap[key]
        self._share(module, image)
        return image

    def _ends(self, module: Module, w: World, ctx: Context) -> list[World] | None:
        """What the body of a module leaves behind; None if it takes too many steps, however little is followed."""
        units = [unit for unit in module.units if not isinstance(unit, StatementUnit) or not unit.is_main]
        for tries in range(TRIES + 1):
            far = self._patience.far(module, near=tries > 0)
            try:
                elsewhere = self._patience.elsewhere(module)
                with self._budget.apart(hurried=tries > 0, far=far, elsewhere=elsewhere, own=_is_own, home=module):
                    return self._bodies.units(units, [w.copy()], ctx).normal
            except BudgetExceededError:
                self._progress.give_up()
            if not self._patience.is_worth_another(module, all_followed=far is None) and tries:
                break
            self._progress.start_again()
        return None

    def _share(self, module: Module, image: World) -> None:
        self._rebound.update({key: origins for key, origins in self._rebinding(module, image) if origins})
        for key, obj in image.heap.items():  # also of other files, which this one has changed
            self.shared.add(key, obj)
            self.in_use.add(key, _unsettled(obj, self._rebound[key]) if key in self._rebound else obj)
        self.optimizers[module] = {key for key, _ in image.having(roles.OPTIMIZER)}

    def _rebinding(self, module: Module, image: World) -> Iterator[tuple[int, Mapping[str, Origin]]]:
        """The frames of a module and of its classes, and the names in them that functions bind anew."""
        frame = image.find(image.modules[module])
        assert isinstance(frame, Frame)
        functions = [unit for unit in leaves(module.units) if isinstance(unit, FunctionUnit)]
        names = frozenset[str]().union(*(unit.rebound_globals for unit in functions))
        yield image.modules[module], {name: Named(module.path, name, is_imported=False) for name in names}
        for cls in frame.vars.values():
            if isinstance(cls, Class) and cls.unit.module is module:
                methods = [method for here in self._definitions.mro(cls) for method in here.unit.methods.values()]
                names = frozenset[str]().union(*(method.rebound_on_class for method in methods))
                yield cls.scope, {name: AttributeOf(cls, name) for name in names}

    def _definitions_of(self, module: Module, ctx: Context) -> World:
        """A module of which only what it defines and imports is known: its body is too long, or never ends."""
        w = World(self.shared)
        w.new(Frame({"__name__": Const(module.name or module.path.stem)}), key=ctx.frame)
        w.modules[module] = ctx.frame
        for unit in module.units:
            if isinstance(unit, (FunctionUnit, ClassUnit)) or unit.is_import:
                trial = w.copy()
                with self._budget.apart():
                    if self._budget.affords(partial(self._bodies.unit, unit, trial, ctx), MAX_UNIT_STEPS):
                        w.become(trial)
        return w


def _unsettled(frame: Object, origins: Mapping[str, Origin]) -> Object:
    """Variables of which some are any value, where they are constants."""
    assert isinstance(frame, Frame)
    found: Frame = frame.copy()
    for name, origin in origins.items():
        if isinstance(found.vars.get(name), Const):
            found.vars[name] = Unknown(origin, name)
    return found


def _is_own(unit: Unit) -> bool:
    """Whether a function is to be followed whatever it takes: the body of a module has none."""
    return False
