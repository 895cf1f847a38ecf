"""The abstract interpreter: makes its parts, each of which is given what it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gradlint.static.drive.entries import Entries
from gradlint.static.drive.receivers import Receivers
from gradlint.static.python.attributes import Attributes, DeferredAttributes
from gradlint.static.python.binding import Binding, Imports, Names
from gradlint.static.python.bodies import Bodies, Images
from gradlint.static.python.budget import Budget
from gradlint.static.python.builtins import BuiltinCalls, Options
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices, Decisions, Dispatch
from gradlint.static.python.collections import Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.containers import Comprehensions, Containers, Filling
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.expressions import Expressions
from gradlint.static.python.flow import Flow
from gradlint.static.python.loops import Loops
from gradlint.static.python.managers import Managers
from gradlint.static.python.patterns import Patterns
from gradlint.static.python.progress import Coverage, Idleness, Nested, Patience, Progress, Wholeness
from gradlint.static.python.reflection import Records, Reflection
from gradlint.static.python.streams import Counting, Streams
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Ledgers, forget_keys
from gradlint.static.state.liveness import Liveness
from gradlint.static.state.tokens import forget_tokens
from gradlint.static.torch.answers import (
    TorchAttributes,
    TorchBranches,
    TorchCalls,
    TorchItems,
    TorchMutations,
    TorchOperators,
    TorchValues,
)
from gradlint.static.torch.autograd import Derivatives, Functional, GradModes
from gradlint.static.torch.batches import Batches, Loading
from gradlint.static.torch.behaviours import Behaviours
from gradlint.static.torch.building import ModuleBuilding, TorchBuilding
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.conversions import Arrays, Conversions
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.data_reads import DataReads
from gradlint.static.torch.distributions import Distributions
from gradlint.static.torch.effects import Effects
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.estimates import Estimates
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.externals import Externals
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.kinds import Kinds, TorchNames
from gradlint.static.torch.layer_containers import LayerContainers, Repetition
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.library_models import LibraryModels, Trainers
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.methods import Methods
from gradlint.static.torch.modes import Modes
from gradlint.static.torch.module_attributes import ModuleAttributes, ParameterLists, ParameterNames
from gradlint.static.torch.module_calls import ModuleCalls
from gradlint.static.torch.module_methods import ModuleMethods
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import FrozenNorms, LeftStatistics
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers, Scalers
from gradlint.static.torch.overwriting import Discards, Overwriting
from gradlint.static.torch.ownership import Grouping, Ownership, UnownedParameters
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.placement import DevicePlacement, Devices
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.proofs import Proofs
from gradlint.static.torch.shapes import Broadcasts, Shapes
from gradlint.static.torch.state_dicts import Saving, StateDicts
from gradlint.static.torch.stepping import Pace, Stepping
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.unknown_methods import UnknownLeaves, UnknownMethods
from gradlint.static.torch.uses import Inputs, Residuals, Uses

if TYPE_CHECKING:
    from gradlint.static.text.project import Project
    from gradlint.static.text.reach import Reach
    from gradlint.static.text.triggers import Triggers

_PartT = TypeVar("_PartT")


class Interpreter:
    """Executes the modules of a project abstractly and lets a witness watch."""

    def __init__(self, project: Project, witness: Witness, reach: Reach) -> None:
        self.project = project
        self.witness = witness
        self.reach = reach
        self.budget = self._make(Budget)
        self.ledgers = Ledgers()
        self.coverage = Coverage()
        self.liveness = Liveness()
        self.progress = Progress(witness, self.coverage)
        self.counting = Counting()
        self.whole = Wholeness()
        self.patience = self._make(Patience)
        self.execution = Execution()
        self.domain = Domain()
        self.effects = Effects()
        self.inputs = Inputs()
        self._execute_python()
        self._execute_statements()
        self._follow_tensors()
        self._follow_training()
        self._follow_calls()
        self._answer()
        self._close()

    def _execute_python(self) -> None:
        """The execution of Python."""
        self.nested = self._make(Nested)
        self.definitions = self._make(Definitions)
        self.imports = self._make(Imports)
        self.names = self._make(Names)
        self.dispatch = self._make(Dispatch)
        self.choices = self._make(Choices)
        self.decisions = self._make(Decisions)
        self.dicts = self._make(DictObjects)
        self.streams = self._make(Streams)
        self.binding = self._make(Binding)
        self.idleness = self._make(Idleness)
        self.calls = self._make(Calls)
        self.late = self._make(DeferredAttributes)
        self.attributes = self._make(Attributes)
        self.collections = self._make(Collections)
        self.filling = self._make(Filling)

    def _execute_statements(self) -> None:
        """Its statements, and what is built of them."""
        self.conditions = self._make(Conditions)
        self.options = self._make(Options)
        self.records = self._make(Records)
        self.containers = self._make(Containers)
        self.reflection = self._make(Reflection)
        self.builtins = self._make(BuiltinCalls)
        self.patterns = self._make(Patterns)
        self.comprehensions = self._make(Comprehensions)
        self.expressions = self._make(Expressions)
        self.flow = self._make(Flow)
        self.managers = self._make(Managers)
        self.loops = self._make(Loops)
        self.bodies = self._make(Bodies)
        self.images = self._make(Images)

    def _follow_tensors(self) -> None:
        """Tensors: their graphs, their storage, and what becomes of them."""
        self.tensors = self._make(Tensors)
        self.data_reads = self._make(DataReads)
        self.loading = self._make(Loading)
        self.modules = self._make(Modules)
        self.ownership = self._make(Ownership)
        self.norms = self._make(FrozenNorms)
        self.left_statistics = self._make(LeftStatistics)
        self.unowned = self._make(UnownedParameters)
        self.breaks = self._make(GraphBreaks)
        self.graphs = self._make(Graphs)
        self.proofs = self._make(Proofs)
        self.evaluation = self._make(Evaluation)
        self.legacy = self._make(Legacy)
        self.retention = self._make(GraphRetention)
        self.memory = self._make(Memory)
        self.plain = self._make(PlainTensors)
        self.uses = self._make(Uses)
        self.shapes = self._make(Shapes)
        self.state_dicts = self._make(StateDicts)
        self.saving = self._make(Saving)
        self.placement = self._make(DevicePlacement)
        self.estimates = self._make(Estimates)
        self.broadcasts = self._make(Broadcasts)
        self.residuals = self._make(Residuals)
        self.operations = self._make(Operations)
        self.hooks = self._make(Hooks)
        self.grouping = self._make(Grouping)

    def _follow_training(self) -> None:
        """Modules and optimizers, and how they change tensors."""
        self.stepping = self._make(Stepping)
        self.construction = self._make(Construction)
        self.escapes = self._make(Escapes)
        self.passes = self._make(Passes)
        self.repetition = self._make(Repetition)
        self.layers = self._make(LayerContainers)
        self.module_building = self._make(ModuleBuilding)
        self.batches = self._make(Batches)
        self.devices = self._make(Devices)
        self.pace = self._make(Pace)
        self.optimizers = self._make(Optimizers)
        self.scalers = self._make(Scalers)
        self.library_models = self._make(LibraryModels)
        self.module_attributes = self._make(ModuleAttributes)
        self.discards = self._make(Discards)
        self.modes = self._make(Modes)
        self.changes = self._make(Changes)
        self.unknown_leaves = self._make(UnknownLeaves)
        self.overwriting = self._make(Overwriting)
        self.distributions = self._make(Distributions)
        self.arrays = self._make(Arrays)
        self.parameter_lists = self._make(ParameterLists)

    def _follow_calls(self) -> None:
        """Calls of modules, and of all that is known by name."""
        self.module_calls = self._make(ModuleCalls)
        self.trainers = self._make(Trainers)
        self.functions = self._make(CustomFunctions)
        self.module_methods = self._make(ModuleMethods)
        self.parameter_names = self._make(ParameterNames)
        self.kinds = self._make(Kinds)
        self.conversions = self._make(Conversions)
        self.unknown_methods = self._make(UnknownMethods)
        self.functional = self._make(Functional)
        self.grad_modes = self._make(GradModes)
        self.behaviours = self._make(Behaviours)
        self.methods = self._make(Methods)
        self.derivatives = self._make(Derivatives)
        self.externals = self._make(Externals)

    def _answer(self) -> None:
        """What the domain of torch answers to the execution of Python."""
        self.domain.attributes = self._make(TorchAttributes)
        self.domain.operators = self._make(TorchOperators)
        self.domain.branches = self._make(TorchBranches)
        self.domain.names = self._make(TorchNames)
        self.domain.values = self._make(TorchValues)
        self.domain.items = self._make(TorchItems)
        self.domain.mutations = self._make(TorchMutations)
        self.domain.building = self._make(TorchBuilding)
        self.domain.calls = self._make(TorchCalls)
        self.domain.escapes = self.escapes

    def _close(self) -> None:
        """Fill in the ways from earlier parts to later ones."""
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
        execution.update = self.filling.update
        execution.value = self.flow.value
        effects = self.effects
        effects.calls_behind = self.graphs.calls
        effects.carries = self.breaks.carries
        effects.cut_of = self.breaks.of
        effects.groups_of_optimizers_in = self.optimizers.held_by
        effects.item = self.behaviours.item
        effects.method = self.methods.call
        effects.method_of_unknown = self.unknown_methods.call
        effects.passed = self.residuals.passed
        effects.presumed_segments = self.graphs.presumed

    def entries(self, triggers: Triggers) -> Entries:
        """What is executed because nothing in the project calls it."""
        self.triggers = triggers
        self.receivers = self._make(Receivers)
        return self._make(Entries)

    def _make(self, part: type[_PartT]) -> _PartT:
        """Make a part: before it begins it is given the others that its class names, each under its name."""
        made = part.__new__(part)
        for name in part.__annotations__:
            setattr(made, name, getattr(self, name.removeprefix("_")))
        made.__init__()  # type: ignore[misc]
        return made

    def trim(self) -> None:
        """An entry point is done: let go of what was noted of its values, and of trees, if there are too many."""
        self.coverage.settle()
        self.liveness.trim()
        self.ledgers.trim()
        self.counting.trim()
        self.stepping.trim()
        if self.project.trees.trim():
            forget_keys()
            forget_tokens()
            self.witness.trim()
            self.expressions.trim()
            self.decisions.trim()
            self.modes.trim()
