"""What the domain of torch answers to the execution of Python."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_functions import METHODS, TELLING_METHODS
from gradlint.static.knowledge.torch_operations import ATTRIBUTES, INTERFACES
from gradlint.static.knowledge.torch_table import (
    LOSSES,
    MODULE,
    NDARRAY,
    TENSOR,
    is_called_without_grad,
)
from gradlint.static.knowledge.torch_training import NO_FORWARD, TELLING_MODULES
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.domain import Index
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.joining import join_tensors
from gradlint.static.state.origins import AttributeOf, Combined, OneOf, fresh
from gradlint.static.state.provenance import is_number
from gradlint.static.state.values import (
    Bound,
    Choice,
    Const,
    External,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import Place, place_of
from gradlint.static.torch.batches import Batches
from gradlint.static.torch.behaviours import Behaviours
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.conversions import Conversions
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.externals import Externals
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.kinds import Kinds
from gradlint.static.torch.layer_containers import LayerContainers, Repetition
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.library_models import LibraryModels, Trainers
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.methods import Methods
from gradlint.static.torch.modes import Modes
from gradlint.static.torch.module_attributes import ParameterNames
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers
from gradlint.static.torch.overwriting import Discards
from gradlint.static.torch.ownership import Grouping, Ownership
from gradlint.static.torch.placement import asks_device
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.shapes import Shapes
from gradlint.static.torch.state_dicts import StateDicts
from gradlint.static.torch.stepping import Pace, Stepping
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.unknown_methods import UnknownLeaves
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from gradlint.finding import Site

_APART = (TENSOR, MODULE, NDARRAY)  #: classes that have no object in common

_CONTAINERS = (list, tuple, dict, set, frozenset, str, bytes)
_OF_TENSORS = (object, *(getattr(collections.abc, name) for name in INTERFACES))


class TorchValues:
    """What tensors and modules are, alone and together."""

    _tensors: Tensors
    _modules: Modules
    _ownership: Ownership
    _breaks: GraphBreaks
    _graphs: Graphs
    _evaluation: Evaluation
    _uses: Uses
    _kinds: Kinds

    def __init__(self) -> None:
        self.settled = self._tensors.settled
        self.annotated = self._kinds.annotated
        self.checked = self._kinds.checked
        self.one_that = self._tensors.one_that
        self.copied = self._ownership.copied

    def either(self, a: Value, b: Value, w: World) -> Value | None:
        left, right = w.get(a, Tensor), w.get(b, Tensor)
        if left is not None and right is not None:
            joined = join_tensors(left, right)
            answer = self._tensors.requires_grad(a, w)
            joined.requires_grad = answer if answer is self._tensors.requires_grad(b, w) else None
            return w.new(joined)
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            deps = self._tensors.deps(a, w) | self._tensors.deps(b, w)
            either = self._graphs.reduced(Unknown(OneOf(fresh()), deps=deps), [a, b], w)
            return self._breaks.joined(either, a, b, w)
        return None

    def decided(self, choice: Choice, taken: Value, w: World) -> None:
        """A module is this one of those that a table of classes might have given: there are no others in this world."""
        module = w.get(taken, Instance)
        if module is None or module.role is not roles.MODULE or module.made_at is None:
            return
        own = self._modules.groups(taken, w) if isinstance(taken, Ref) else frozenset()
        for value in choice.alternatives:
            other = w.get(value, Instance)
            if other is None or other.made_at != module.made_at:
                continue
            if other.cls == module.cls and not (other.opaque and module.opaque):
                continue
            for key in self._modules.groups(value, w) - own if isinstance(value, Ref) else ():
                w.write(key).tokens = {}

    def number(self, value: Value, w: World, ctx: Context, site: Site) -> Value:
        if isinstance(value, Const) or (isinstance(value, Unknown) and not self._breaks.carries(value, w, True)):
            return value
        self._evaluation.measured([value], False, w, ctx)
        self._uses.escaped([value], w)
        number = self._breaks.note(self._tensors.figure([value], w), [value], "number", w, site)
        return self._graphs.reduced(number, [value], w)

    def shown(self, value: Value, w: World, ctx: Context) -> None:
        self._uses.escaped([value], w)
        self._evaluation.shown([value], w, ctx)

    def is_a(self, obj: Object | None, name: str, standard: type | None) -> bool | None:
        if name in _APART and _one_of_those_apart(obj) not in (None, name):
            return False
        if isinstance(obj, Instance):
            if name == MODULE:
                return obj.role.is_module
            return False if obj.role is roles.ARRAY and standard in _CONTAINERS else None
        if not isinstance(obj, Tensor):
            return None
        if name == TENSOR:
            return True
        return standard in _OF_TENSORS if standard is not None and not obj.structured else None

    def type_of(self, obj: Object) -> Value | None:
        plain = isinstance(obj, Tensor) and obj.is_parameter is False and not obj.structured and not obj.supposed
        return External(TENSOR) if plain else None

    def has(self, obj: Object, name: str) -> bool:
        if not isinstance(obj, Tensor):
            return False
        certain = not (obj.structured or obj.supposed) and (name in METHODS or name in ATTRIBUTES)
        return certain or name in TELLING_METHODS  # what has none of these is no tensor

    def is_default(self, value: Value, w: World) -> bool:
        """A loss of torch is taken as it is."""
        if isinstance(value, External):
            return value.name in LOSSES
        obj = w.get(value, Instance)
        return obj is not None and obj.loss is not None

    def some_part(self, obj: Instance, w: World) -> Value:
        return self._tensors.selection(self._tensors.parameter(obj.groups, w, obj.made_at, obj.device), w)


class TorchAttributes:
    """Attributes of tensors, modules and optimizers."""

    _attributes: Attributes
    _grouping: Grouping
    _optimizers: Optimizers
    _behaviours: Behaviours
    _changes: Changes
    _unknown_leaves: UnknownLeaves

    def get(self, owner: Ref, obj: Object, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        if isinstance(obj, Tensor):
            return self._changes.attribute(owner, obj, name, w, ctx, site)
        if not isinstance(obj, Instance):
            return None
        return self._behaviours.attribute(owner, obj, name, w, ctx, site)

    def get_of_unknown(self, owner: Unknown, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        if name in ("data", "grad"):
            return self._changes.attribute_of_unknown(owner, name, w, ctx, site)
        groups = w.resolve(Unknown(AttributeOf(owner.key, name), name, owner.deps)) if name == "param_groups" else None
        if groups is not None and not isinstance(groups, Ref):  # only optimizers have them
            return self._attributes.get(self._optimizers.opaque_optimizer(owner, w, site), name, w, ctx, site)
        return None

    def part_of_unknown(self, value: Unknown, w: World) -> Value | None:
        return self._grouping.parameter_inside(value, w)

    def set(self, owner: Ref, obj: Object, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        if isinstance(obj, Tensor):
            self._changes.set_attribute(owner, name, value, w, ctx, site)
        elif isinstance(obj, Instance):
            self._behaviours.set_attribute(owner, name, value, w, ctx, site)

    def set_of_unknown(self, owner: Unknown, name: str, value: Value, w: World, ctx: Context, site: Site) -> bool:
        self._unknown_leaves.changed(AttributeOf(owner.key, name), ".data =", [value], w, ctx, site)
        special = name in ("data", "grad", "_grad", "requires_grad")
        return special and self._changes.set_attribute_of_unknown(owner, name, value, w, ctx, site)


class TorchItems:
    """Items of tensors and modules, and tensors as items of lists."""

    _tensors: Tensors
    _breaks: GraphBreaks
    _graphs: Graphs
    _legacy: Legacy
    _retention: GraphRetention
    _memory: Memory
    _plain: PlainTensors
    _shapes: Shapes
    _construction: Construction
    _layers: LayerContainers
    _batches: Batches
    _behaviours: Behaviours
    _changes: Changes
    _conversions: Conversions
    _pace: Pace
    _state_dicts: StateDicts

    def __init__(self) -> None:
        self.iterate = self._behaviours.iterate
        self.set_in = self._layers.set_item
        self.remove = self._layers.remove
        self.read_out = self._construction.read_out
        self.collected = self._retention.collected
        self.several = self._tensors.several
        self.selection = self._tensors.selection
        self.another = self._batches.another
        self.paired = self._state_dicts.paired
        self.made_since = self._graphs.made_since
        self.one_of = self._graphs.one_of

    def element(self, value: Value, obj: Object, w: World, ctx: Context) -> Value | None:
        if isinstance(obj, Tensor):
            return self._tensors.view(value, w)
        if isinstance(obj, Instance):
            return self._behaviours.element(value, obj)
        return None

    def get(self, owner: Value, obj: Object, index: Index, w: World, ctx: Context, site: Site) -> Value | None:
        if isinstance(obj, Instance):
            return self._behaviours.item(owner, obj, index, w, ctx, site)
        if not isinstance(obj, Tensor):
            return None
        if self._legacy.indexed(obj, index, w, ctx, site):
            return self._breaks.note(self._tensors.figure([owner], w), [owner], "number", w, site)
        name = index.value if isinstance(index, Const) and isinstance(index.value, str) else ""
        part = self._tensors.view(owner, w, site, name)
        self._shapes.taken(obj, index, part, w)
        self._legacy.part(obj, index, part, w)
        return part

    def set(
        self,
        owner: Value,
        obj: Object | None,
        index: Index,
        value: Value,
        w: World,
        ctx: Context,
        site: Site,
        *,
        place: Place | None,
    ) -> bool:
        if isinstance(obj, Mapping) and index == Const("lr"):
            self._pace.rate_set(obj, value, w)
        if isinstance(obj, Tensor):
            how = "[:]=" if index in (slice(None), Const(...)) else "[]="
            self._changes.in_place(how, owner, [value], w, ctx, site)
            return True
        self._conversions.stored(owner, index, value, w, ctx, site)
        if not self._memory.shares(owner):
            return False
        self._memory.array_changed(owner, w, ctx, site, at=place)
        return True

    def subscripted(self, part: Value, owner: Value, parts: Iterable[Index], node: cst.Subscript, w: World) -> None:
        parts = list(parts)
        if isinstance(part, Choice):  # one of the things in a list, whichever
            self._graphs.reduced(part, [index for index in parts if isinstance(index, (Unknown, Ref))], w)
        if isinstance(part, Unknown):
            self._memory.sliced(part, owner, node, w)
        elif isinstance(part, Ref) and w.get(owner, Tensor) is not None:
            self._plain.indexed(owner, parts, part, w)
            if len(parts) > 1:
                self._tensors.taken_from(owner, part, w)
            if not all(map(_is_basic, parts)):
                self._memory.copied(part, w)

    def alike(self, one: Value, other: Value, w: World) -> bool:
        if self._memory.shares(one) or self._memory.shares(other):
            return False
        return self._breaks.of(one, w) == self._breaks.of(other, w)


class TorchCalls:
    """Calls of modules, of functions of torch, and of methods by name."""

    _modules: Modules
    _evaluation: Evaluation
    _construction: Construction
    _optimizers: Optimizers
    _library_models: LibraryModels
    _batches: Batches
    _behaviours: Behaviours
    _trainers: Trainers
    _functions: CustomFunctions
    _methods: Methods
    _externals: Externals

    def __init__(self) -> None:
        self.prepared = self._modules.called_for
        self.named = self._construction.named
        self.method = self._methods.call
        self.external = self._externals.call
        self.instance = self._behaviours.called
        self.returned = self._trainers.returned

    def without_grad(self, obj: Instance, method: str) -> bool:
        return is_called_without_grad(obj.role, method)

    def recognised(self, receiver: Ref, method: str, w: World, site: Site) -> None:
        if method in TELLING_MODULES:
            self._modules.recognised(receiver, w, site)

    def is_forward(self, receiver: Value, method: str, w: World) -> bool:
        obj = w.get(receiver, Instance)
        return obj is not None and obj.role.is_model and method not in NO_FORWARD

    def forward(self, receiver: Value, by: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        self._construction.forward_called(receiver, by, w, ctx, site)
        self._functions.forward_called(receiver, args, w, ctx, site)

    def part(self, callee: Unknown, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        given = self._batches.transformed(callee, w, site)
        return given or self._library_models.part_called(callee, args, w, ctx, site)

    def followed(
        self, callee: Bound, args: Arguments, w: World, ctx: Context, site: Site, act: Callable[[], Results]
    ) -> Results:
        grad, passes = w.grad, self._evaluation.passes
        with self._optimizers.own_step(callee, w, ctx, site):
            results = act()
        if passes == self._evaluation.passes:
            self._evaluation.method_called(callee, args, results, grad, ctx, site)
        return results


class TorchOperators:
    """Operators on tensors and arrays."""

    _behaviours: Behaviours
    _tensors: Tensors
    _breaks: GraphBreaks
    _operations: Operations
    _repetition: Repetition

    def __init__(self) -> None:
        self.arithmetic = self._operations.arithmetic
        self.compare = self._operations.compare

    def combined(self, symbol: str, left: Value, right: Value, w: World) -> Value | None:
        if symbol == "*":
            self._repetition.multiplied(left, right, w)
        return self._behaviours.combined(symbol, left, right, w)

    def total(self, values: list[Value], known: bool, w: World, ctx: Context, site: Site) -> Value:
        tensors = self._tensors.tensors_in(values, w)
        if any(w.get(v, Tensor) is not None for v in tensors):
            if len(values) == 1 and known:
                return w.resolve(values[0])
            total = Op(saves="", size="broadcast", activation="combines")
            result = self._operations.apply(total, Arguments(list(tensors)), w, ctx, site)
            return self._breaks.total(tensors, result, w, site)
        deps: frozenset[int] = frozenset().union(*(v.deps for v in tensors if isinstance(v, Unknown)))
        numbers = Unknown(Combined(fresh(), tuple(v.key for v in tensors if isinstance(v, Unknown))), deps=deps)
        return self._breaks.total(tensors, numbers, w, site)


class TorchMutations:
    """Statements that change tensors, or add to them."""

    _layers: LayerContainers
    _retention: GraphRetention
    _memory: Memory
    _construction: Construction
    _discards: Discards
    _changes: Changes

    def __init__(self) -> None:
        self.statement = self._discards.statement
        self.summed = self._retention.summed
        self.totalled = self._retention.totalled
        self.puts_back = self._construction.puts_back

    def augmented_item(
        self, symbol: str, owner: Value, value: Value, node: cst.AugAssign, w: World, ctx: Context
    ) -> bool:
        if w.get(owner, Tensor) is not None:
            self._changes.in_place("[]" + symbol + "=", owner, [value], w, ctx, ctx.site(node))
            return True
        if not self._memory.shares(owner):
            return False
        place = place_of(node.target) if isinstance(node.target, cst.Subscript) else None
        self._memory.array_changed(owner, w, ctx, ctx.site(node), amended=True, at=place)
        return True

    def augmented(self, symbol: str, current: Value, value: Value, node: cst.AugAssign, w: World, ctx: Context) -> bool:
        if symbol in ("+", "-"):
            self._retention.summed(node.target, current, value, w, ctx, ctx.site(node))
        if w.get(current, Tensor) is not None:
            self._changes.in_place(symbol + "=", current, [value], w, ctx, ctx.site(node))
            return True
        obj = w.get(current, Instance)
        if symbol == "+" and isinstance(current, Ref) and obj is not None and obj.layer and obj.layer.container:
            self._layers.grow(current, "extend", Arguments([value]), w, ctx, ctx.site(node))
            return True
        if not self._memory.is_array(current, w):
            return False
        self._memory.array_changed(current, w, ctx, ctx.site(node), amended=True)
        return True


class TorchBranches:
    """Conditions on the mode of a module, periodic ones, and loops."""

    _stepping: Stepping
    _modes: Modes
    _parameter_names: ParameterNames

    def __init__(self) -> None:
        self.asked_by = self._modes.asked_by
        self.settled_by = self._modes.settled_by
        self.chosen = self._modes.chosen
        self.combined = self._modes.combined
        self.returned = self._modes.returned
        self.branched = self._modes.branched
        self.may_be_none = self._stepping.may_be_none
        self.asks_device = asks_device
        self.is_periodic = self._stepping.is_periodic
        self.is_periodic_alone = self._stepping.is_periodic_alone
        self.either_walks = self._stepping.either_walks
        self.asks_for_last = self._stepping.asks_for_last
        self.left = self._stepping.left
        self.apart = self._parameter_names.apart


def _is_basic(part: Index) -> bool:
    """Whether a part of a subscript takes a view of a tensor: numbers and slices do, masks, lists and tensors copy."""
    if isinstance(part, Const):
        return not isinstance(part.value, bool)
    return part is None or isinstance(part, slice) or (isinstance(part, Unknown) and is_number(part))


def _one_of_those_apart(obj: Object | None) -> str | None:
    """Which of the classes that are apart an object is of, "" if it is of none of them; None if that is not known."""
    if isinstance(obj, Tensor):
        return None if obj.structured or obj.supposed else TENSOR
    if isinstance(obj, Instance):
        return NDARRAY if obj.role is roles.ARRAY else MODULE if obj.role.is_module else None
    return "" if obj is None or isinstance(obj, (Sequence, Mapping)) else None
