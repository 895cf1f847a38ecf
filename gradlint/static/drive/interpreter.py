"""The abstract interpreter: ties its parts together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.python.attributes import Attributes
from gradlint.static.python.bodies import Bodies
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
from gradlint.static.python.execution import Execution
from gradlint.static.python.expressions import Expressions
from gradlint.static.python.flow import Flow
from gradlint.static.python.images import Images
from gradlint.static.python.imports import Imports
from gradlint.static.python.late import LateAttributes
from gradlint.static.python.loops import Loops
from gradlint.static.python.managers import Managers
from gradlint.static.python.names import Names
from gradlint.static.python.nested import Nested
from gradlint.static.python.options import Options
from gradlint.static.python.patterns import Patterns
from gradlint.static.python.progress import Progress
from gradlint.static.python.records import Records
from gradlint.static.python.wholeness import Wholeness
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context, forget_keys
from gradlint.static.state.ledger import Ledgers
from gradlint.static.state.liveness import Liveness
from gradlint.static.state.values import (
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.text.registrations import Registrations
from gradlint.static.torch.answers import (
    TorchAttributes,
    TorchBranches,
    TorchBuilding,
    TorchCalls,
    TorchItems,
    TorchMutations,
    TorchOperators,
    TorchValues,
)
from gradlint.static.torch.batches import Batches
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.cuts import Cuts
from gradlint.static.torch.devices import Devices
from gradlint.static.torch.discards import Discards
from gradlint.static.torch.distributions import Distributions
from gradlint.static.torch.effects import Effects
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.externals import Externals
from gradlint.static.torch.functional import Functional
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.grouping import Grouping
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.inputs import Inputs
from gradlint.static.torch.keeping import Keeping
from gradlint.static.torch.kinds import Kinds
from gradlint.static.torch.layer_containers import LayerContainers
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.library_models import LibraryModels
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.methods import Methods
from gradlint.static.torch.modes import Modes
from gradlint.static.torch.module_attributes import ModuleAttributes
from gradlint.static.torch.module_building import ModuleBuilding
from gradlint.static.torch.module_calls import ModuleCalls
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
from gradlint.static.torch.scalers import Scalers
from gradlint.static.torch.serialization import Serialization
from gradlint.static.torch.shapes import Shapes
from gradlint.static.torch.stepping import Stepping
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.trainers import Trainers
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    import libcst as cst

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
        self.coverage = Coverage()
        self.liveness = Liveness()
        self.progress = Progress(witness, self.coverage)
        self.execution = Execution()
        self.bodies = Bodies(self)
        self.domain = Domain()
        self.effects = Effects()
        self.inputs = Inputs()
        self.scalers = Scalers(self)
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
        self.module_building = ModuleBuilding(self)
        self.module_attributes = ModuleAttributes(self)
        self.module_calls = ModuleCalls(self)
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
        self.options = Options(self)
        self.builtins = BuiltinCalls(self)
        self.parameter_names = ParameterNames(self)
        self.containers = Containers(self)
        self.dicts = DictObjects(self)
        self.nested = Nested(self)
        self.domain.values = TorchValues(self)
        self.domain.attributes = TorchAttributes(self)
        self.domain.items = TorchItems(self)
        self.domain.calls = TorchCalls(self)
        self.domain.building = TorchBuilding(self)
        self.domain.operators = TorchOperators(self)
        self.domain.mutations = TorchMutations(self)
        self.domain.escapes = self.escapes
        self.domain.branches = TorchBranches(self)
        self.effects.cut_of = self.cuts.of
        self.effects.carries = self.cuts.carries
        self.effects.calls_behind = self.graphs.calls
        self.effects.presumed_segments = self.graphs.presumed
        self.effects.method_of_unknown = self.methods.unknown
        self.effects.groups_of_optimizers_in = self.optimizers.held_by
        self._close()
        self._evaluate = self.expressions.evaluate

    def _close(self) -> None:
        """Fill in the ways back into the execution."""
        execution = self.execution
        execution.alternatives = self.expressions.alternatives
        execution.assign = self.names.assign
        execution.bind = self.flow.bind
        execution.block = self.flow.block
        execution.build_dict = self.builtins.handlers["builtins.dict"]
        execution.call = self.calls.call
        execution.dict_in = self.collections.dict_in
        execution.loop_over = self.loops.over
        execution.loop_while = self.loops.while_
        execution.manage = self.managers.run
        execution.dict_method = self.containers.of_dict
        execution.enter = self.images.enter
        execution.evaluate = self.expressions.evaluate
        execution.get_attribute = self.attributes.get
        execution.iterate = self.collections.iterate
        execution.run_unit = self.bodies.unit
        execution.unpack = self.collections.unpack
        execution.update = self.collections.update
        execution.value = self.flow.value

    def eval(self, node: cst.CSTNode, w: World, ctx: Context) -> Value:
        """The value of an expression."""
        return self._evaluate(node, w, ctx)

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
