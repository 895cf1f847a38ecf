"""The abstract interpreter: ties its parts together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.source import SourceError
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.budget import Budget
from gradlint.static.python.builtins import BuiltinCalls
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.collections import Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.containers import Containers
from gradlint.static.python.counting import Counting
from gradlint.static.python.coverage import Coverage
from gradlint.static.python.decisions import Decisions
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.dispatch import Dispatch
from gradlint.static.python.domain import Domain
from gradlint.static.python.expressions import Expressions
from gradlint.static.python.flow import Flow
from gradlint.static.python.images import Images
from gradlint.static.python.imports import Imports
from gradlint.static.python.late import LateAttributes
from gradlint.static.python.loops import Loops
from gradlint.static.python.managers import Managers
from gradlint.static.python.names import Names
from gradlint.static.python.nested import Nested
from gradlint.static.python.patterns import Patterns
from gradlint.static.python.records import Records
from gradlint.static.python.wholeness import Wholeness
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context, forget_keys
from gradlint.static.state.joining import join
from gradlint.static.state.ledger import Ledgers
from gradlint.static.state.liveness import Liveness
from gradlint.static.state.outcome import Outcome
from gradlint.static.state.values import (
    Class,
    Object,
    Unknown,
    Value,
)
from gradlint.static.state.world import World, fresh
from gradlint.static.text.chains import assigned_in
from gradlint.static.text.registrations import Registrations
from gradlint.static.text.units import ClassUnit, FunctionUnit, StatementUnit, Unit
from gradlint.static.torch.batches import Batches
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.cuts import Cuts
from gradlint.static.torch.devices import Devices
from gradlint.static.torch.discards import Discards
from gradlint.static.torch.distributions import Distributions
from gradlint.static.torch.domain import fill
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.externals import Externals
from gradlint.static.torch.functional import Functional
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.grouping import Grouping
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.keeping import Keeping
from gradlint.static.torch.kinds import Kinds
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.library_models import LibraryModels
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.methods import Methods
from gradlint.static.torch.modes import Modes
from gradlint.static.torch.module_methods import ModuleMethods
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers
from gradlint.static.torch.ownership import Ownership
from gradlint.static.torch.parameter_names import ParameterNames
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.placement import Placement
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.proofs import Proofs
from gradlint.static.torch.serialization import Serialization
from gradlint.static.torch.shapes import Shapes
from gradlint.static.torch.stepping import Stepping
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.trainers import Trainers
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable

    import libcst as cst

    from gradlint.finding import Site
    from gradlint.static.text.project import Project
    from gradlint.static.text.reach import Reach


class Interpreter:
    """Executes the modules of a project abstractly and lets a witness watch."""

    def __init__(self, project: Project, witness: Witness, reach: Reach) -> None:
        self.project = project
        self.witness = witness
        self.budget = Budget()
        self.reach = reach
        self.ledgers = Ledgers()
        self.domain = Domain()
        self.counting = Counting()
        self.whole = Wholeness()
        self.hooks = Hooks(self)
        self.images = Images(self)
        self.names = Names(self)
        self.imports = Imports(self)
        self.registrations = Registrations(project, reach)
        self.definitions = Definitions(self)
        self.conditions = Conditions(self)
        self.patterns = Patterns(self)
        self.expressions = Expressions(self)
        self.modes = Modes(self)
        self.loops = Loops(self)
        self.managers = Managers(self)
        self.flow = Flow(self)
        self.attributes = Attributes(self)
        self.late = LateAttributes(self)
        self.kinds = Kinds(self)
        self.choices = Choices(self)
        self.decisions = Decisions(self)
        self.dispatch = Dispatch(self)
        self.escapes = Escapes(self)
        self.collections = Collections(self)
        self.batches = Batches(self)
        self.calls = Calls(self)
        self.tensors = Tensors(self)
        self.operations = Operations(self)
        self.changes = Changes(self)
        self.proofs = Proofs(self)
        self.graphs = Graphs(self)
        self.keeping = Keeping(self)
        self.evaluation = Evaluation(self)
        self.uses = Uses(self)
        self.stepping = Stepping(self)
        self.ownership = Ownership(self)
        self.cuts = Cuts(self)
        self.devices = Devices(self)
        self.placement = Placement(self)
        self.discards = Discards(self)
        self.trainers = Trainers(self)
        self.distributions = Distributions(self)
        self.shapes = Shapes(self)
        self.memory = Memory(self)
        self.grouping = Grouping(self)
        self.modules = Modules(self)
        self.library_models = LibraryModels(self)
        self.layers = LayerContainers(self)
        self.construction = Construction(self)
        self.functions = CustomFunctions(self)
        self.functional = Functional(self)
        self.legacy = Legacy(self)
        self.plain = PlainTensors(self)
        self.serialization = Serialization(self)
        self.methods = Methods(self)
        self.passes = Passes(self)
        self.optimizers = Optimizers(self)
        self.module_methods = ModuleMethods(self)
        self.externals = Externals(self)
        self.records = Records(self)
        self.builtins = BuiltinCalls(self)
        self.parameter_names = ParameterNames(self)
        self.containers = Containers(self)
        self.dicts = DictObjects(self)
        self.nested = Nested(self)
        fill(self.domain, self)
        self.called: set[Unit] = set()  #: functions that were executed
        self.applied: set[Site] = set()  #: lambdas that were executed
        self.unsettled: set[Unit] = set()  #: those of them that were not executed before the last :meth:`settle`
        self.entered: set[Unit] = set()  #: those of them that the present entry point was the first to execute
        self.unrecorded: set[Unit] = set()  #: functions that were called where gradients may not be enabled
        self.unrecorded_names: set[str] = set()  #: methods of unknown objects that were called there
        self.built: set[Unit] = set()  #: classes that were instantiated
        self.met: set[Unit] = set()  #: the functions and classes of both kinds since it was last cleared
        self.coverage = Coverage()
        self.liveness = Liveness()
        self.class_kinds: dict[Unit, str] = {}
        self.seen_classes: dict[Unit, Class] = {}
        self.shared: dict[int, Object] = {}  #: the objects that imported modules made
        self._evaluate = self.expressions.evaluate

    def eval(self, node: cst.CSTNode, w: World, ctx: Context) -> Value:
        """The value of an expression."""
        return self._evaluate(node, w, ctx)

    # --- what stands whatever comes

    def enters(self, unit: Unit) -> None:
        """A function is executed."""
        self.met.add(unit)
        if unit not in self.called:
            self.called.add(unit)
            self.unsettled.add(unit)
            self.entered.add(unit)

    def start_again(self) -> None:
        """The entry point is followed once more, from its beginning."""
        self.called -= self.entered

    def settle(self) -> None:
        """All worlds have come so far: what was told stands, and what was executed need not be again."""
        self.witness.settle()
        self.unsettled.clear()

    def give_up(self, *, again: bool = False) -> None:
        """The entry point takes too long: functions that it was about to follow are followed by themselves."""
        self.witness.give_up(again=again)
        self.coverage.settle(whole=False)  # what it did not come to is not to be tried again
        self.called -= self.unsettled
        self.unsettled.clear()

    def trim(self) -> None:
        """An entry point is done: let go of what was noted of its values, and of trees, if there are too many."""
        self.coverage.settle()
        self.liveness.trim()
        self.ledgers.trim()
        self.counting.trim()
        if self.project.trees.trim():
            forget_keys()
            self.witness.trim()
            self.expressions.trim()
            self.decisions.trim()
            self.modes.trim()

    # --- units

    def execute_unit(self, unit: Unit, w: World, ctx: Context) -> None:
        """Execute one unit in place."""
        ends = self.run_units([unit], [w], ctx).normal
        if ends:
            end = ends[0]
            for other in ends[1:]:
                end = join(end, other)
            w.become(end)

    def run_units(self, units: list[Unit], worlds: list[World], ctx: Context) -> Outcome:
        """Execute units one after the other, as :meth:`Flow.block` does statements."""
        out = Outcome(list(worlds))
        for unit in units:
            if isinstance(unit, StatementUnit) and unit.is_text:
                continue
            here = replace(ctx, unit=unit)
            reached, out.normal = out.normal, []
            if isinstance(unit, StatementUnit):
                if not unit.is_readable:
                    out.normal = [self._bound(assigned_in(unit.text), world, here) for world in reached]
                    continue
                self.flow.statements(unit.node, reached, here, out)
                if self.whole.holds:
                    self.settle()
                continue
            for world in reached:
                if isinstance(unit, (FunctionUnit, ClassUnit)):
                    try:
                        self.definitions.define(unit, world, here)
                    except SourceError:
                        self._bound([unit.name], world, here)
                out.normal.append(world)
        return out

    def _bound(self, names: Iterable[str], w: World, ctx: Context) -> World:
        """Where a unit that cannot be parsed has bound its names."""
        for name in names:
            self.names.assign(name, Unknown(("unreadable", fresh()), name), w, ctx)
        return w
