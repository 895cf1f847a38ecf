"""What is handed to code that cannot be followed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import CALLING_METHODS
from gradlint.static.knowledge.torch_libraries import is_harmless
from gradlint.static.knowledge.torch_table import CALLING, may_freeze
from gradlint.static.python.attributes import UNBUILT
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.python.progress import Nested
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import closed_over, is_nested
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.joining import MAX_ALTERNATIVES
from gradlint.static.state.origins import AnyOf, AttributeOf, ElementOf, ItemOf, Result, Truth, fresh
from gradlint.static.state.provenance import built_from
from gradlint.static.state.values import (
    ESCAPED,
    NONE,
    Averages,
    Bound,
    Choice,
    Class,
    Const,
    External,
    Function,
    Group,
    Instance,
    Lambda,
    Mapping,
    Object,
    Partial,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import reached_from
from gradlint.static.text.reach import Reach
from gradlint.static.text.triggers import Feature
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.effects import Effects
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import LeftStatistics
from gradlint.static.torch.placement import DevicePlacement
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Residuals, Uses

if TYPE_CHECKING:
    from gradlint.finding import Site

_FAR = 5  #: how deep is looked into what an object was given before: the trainer of a callback, its optimizer
_TRAINING = Feature.BACKWARD | Feature.DERIVATIVE | Feature.STEP | Feature.CLEARS
_KEPT = "kept by"
"""With the key of something unknown: what a world is bound to once that was given an object of the project."""


@dataclass(slots=True)
class _AtHand:
    """What code that cannot be followed has at hand, by what it is given."""

    deps: set[int] = field(default_factory=set)  #: what a backward pass may reach from there
    weights: set[int] = field(default_factory=set)  #: the same through the forward passes of modules
    touched: set[int] = field(default_factory=set)  #: parameters
    inputs: set[int] = field(default_factory=set)  #: others that may require gradients


class Escapes:
    """Forgets what unknown code may have changed."""

    _definitions: Definitions
    _effects: Effects
    _reach: Reach
    _witness: Witness
    _nested: Nested
    _dicts: DictObjects
    _tensors: Tensors
    _modules: Modules
    _breaks: GraphBreaks
    _graphs: Graphs
    _evaluation: Evaluation
    _retention: GraphRetention
    _memory: Memory
    _uses: Uses
    _placement: DevicePlacement
    _residuals: Residuals
    _hooks: Hooks
    _left_statistics: LeftStatistics
    _construction: Construction

    def call(self, callee: Value, args: Arguments, w: World, ctx: Context, site: Site, method: str = "") -> Value:
        """Call something that cannot be followed: it may do anything to the objects it is given."""
        w.unfollowed = w.unfollowed or not ctx.in_forward
        w.raised = w.raised or callee == NONE
        given = list(args)
        if _calls_given(callee, method):
            self.handed(given, w, ctx)
        self._memory.used([w.resolve(value) for value in given], w, ctx, site)
        self._retention.escaped(given, w)
        self._uses.escaped(given, w)
        self._evaluation.left([*given, callee], w)
        self._construction.let_go(given, w)
        if isinstance(callee, Ref):
            given.append(callee)
        at_hand = _AtHand(set(callee.deps) if isinstance(callee, Unknown) else set())
        touched, inputs = at_hand.touched, at_hand.inputs
        for value in given:
            self._escape(w.resolve(value), w, at_hand, 3)
            self._construction.initialized(w.resolve(value), w, ctx, site, certain=False)
        if isinstance(callee, Function):
            self._left_unfollowed(callee, given, w, at_hand)
        if isinstance(callee, Unknown):
            for value in self._kept_by(callee, w):
                self._escape(value, w, _AtHand(touched=touched), _FAR)
            for value in given:
                if type(value := w.resolve(value)) is Ref:
                    self.kept(callee, value, w)
        deps = at_hand.deps if self._may_disable(callee) else at_hand.deps | at_hand.weights
        trains = self._may_train(callee, given, w)
        if trains:
            self.doubt(deps | touched, [w.resolve(value) for value in given], w)
        live = {g for g in touched if getattr(w.find(g), "gradients_used", False)}
        if live and trains:
            self._witness.cleared(live, "call", w, ctx, site, certain=False)
        if inputs:
            self._witness.read(inputs, w, ctx, site, certain=False)
        self._built_unseen(callee, args, w, site)
        self._kept_unseen(callee, args, w)
        result = Unknown(Result(fresh(), wraps=self._has_optimizer(given, w)), method, frozenset(deps))
        result = self._breaks.forward(method or getattr(callee, "hint", ""), result, args, w, site)
        trained = self._graphs.called(result, callee, method, args, w) and not ctx.module.may_freeze
        self._residuals.called(result, given, w, ctx)
        value = self._placement.called(result, callee, method, args, w)
        if trained and isinstance(value, Unknown):
            self._tensors.from_unknown(value, w, structured=True, requires_grad=True, is_leaf=False)
        if isinstance(callee, Function) and callee.unit.is_generator and trains and touched:
            return w.new(Sequence([], [], value, None, False, clears=frozenset(touched)))  # each time that it goes on
        return value

    def _left_unfollowed(self, callee: Function, given: Iterable[Value], w: World, at_hand: _AtHand) -> None:
        """A function of the project is called and not followed: its text tells what it may have changed."""
        if self._reach.stands_aside(callee.unit):
            return
        mentioned = [value for value in closed_over(callee, w) if isinstance(value, Ref)]
        for each in mentioned:
            self._escape(each, w, at_hand, 3)
        if self._reach.features_of_call(callee.unit) & Feature.MODE:
            for value in (*map(w.resolve, given), *mentioned):
                obj = w.get(value, Instance)
                if isinstance(value, Ref) and obj is not None and obj.role.is_module:
                    for part in self._modules.walk(value, w):
                        w.write(part.id).training = None

    def _kept_unseen(self, callee: Value, args: Arguments, w: World) -> None:
        """A method is not followed: numbers, lists and dicts that it binds are any; what it fills may hold others."""
        if not isinstance(callee, Function) or callee.owner is None or not args.positional:
            return
        ref, owner = w.resolve(args.positional[0]), callee.unit.class_unit
        obj = w.get(ref, Instance)
        if not isinstance(ref, Ref) or obj is None or owner is None:
            return
        methods = [owner.methods[name] for name in sorted(reached_from(owner.methods, [callee.unit.name]))]
        bound = frozenset[str]().union(*(method.assigned_attributes for method in methods))
        filled = bound.union(*(method.filled_attributes for method in methods))
        for name in sorted(filled & obj.attrs.keys()):
            value = w.resolve(obj.attrs[name])
            held = w.get(value, Object)
            is_container = isinstance(held, (Sequence, Mapping))
            if name in bound and (is_container or isinstance(value, Const)):
                w.write(ref.id).attrs[name] = new_unknown("kept", name, self._modules.groups(ref, w))
            elif isinstance(value, Ref) and is_container:
                _filled(value, name, w)

    def _built_unseen(self, callee: Value, args: Arguments, w: World, site: Site) -> None:
        """An object is built by an ``__init__`` that is not followed: what it assigns is not what its class has.

        A module has parameters then, unless that may freeze some itself.
        """
        if not isinstance(callee, Function) or callee.unit.name != "__init__" or not args.positional:
            return
        ref = w.resolve(args.positional[0])
        obj = w.get(ref, Instance)
        if not isinstance(ref, Ref) or obj is None:
            return
        w.write(ref.id).attrs[UNBUILT] = Const(True)
        groups = frozenset[int]()
        trainable = self._reach.features_of_call(callee.unit) & Feature.TRAINABLE
        if obj.role is roles.MODULE and not may_freeze(callee.unit.text) and trainable:
            groups = frozenset([w.new(Group(True, opaque=True, made_at=site)).id])
            module = w.write(ref.id)
            module.opaque, module.groups = True, module.groups | groups
        for name in sorted(callee.unit.assigned_attributes - obj.attrs.keys()):
            if obj.cls is not None and self._definitions.attribute(obj.cls, name, w) is not None:
                w.write(ref.id).attrs[name] = Unknown(AttributeOf(ref, name), name, groups)

    def _has_optimizer(self, given: Iterable[Value], w: World) -> bool:
        """Whether an optimizer is among some values."""
        objects = (w.get(w.resolve(value), Instance) for value in given)
        return any(obj is not None and obj.role is roles.OPTIMIZER for obj in objects)

    def _may_disable(self, callee: Value) -> bool:
        """Whether a function of the project may call modules where gradients are disabled."""
        return isinstance(callee, Function) and bool(self._reach.near(callee.unit) & Feature.GRAD_MODE)

    def _may_train(self, callee: Value, given: Iterable[Value], w: World) -> bool:
        """Whether what is called may make backward passes and steps, or drop gradients.

        A method does not if it leads to nothing that does, and has nothing at hand but data and objects without methods
        that do: with others, it may call what a subclass or a callback does.
        """
        if not isinstance(callee, Function) or callee.owner is None:
            return True
        if self._reach.features_of_call(callee.unit) & _TRAINING:
            return True
        return any(self._may_be_asked(value, w) for value in _with_parts([*given, *closed_over(callee, w)], w))

    def _may_be_asked(self, value: Value, w: World) -> bool:
        """Whether code that has a value at hand may have it train, or clear, by a name that does not tell so."""
        if isinstance(value, Function):
            return bool(self._reach.features_of_call(value.unit) & _TRAINING)
        obj = w.get(value, Instance)
        cls = value if isinstance(value, Class) else obj.cls if obj is not None else None
        if cls is None:
            is_called = isinstance(value, (Lambda, Bound, Partial))
            return is_called or (isinstance(value, External) and _is_foreign(value))
        if obj is not None and obj.role is roles.PLAIN and any(name.startswith("<") for name in obj.attrs):
            return True  # it may have been given others
        methods = self._definitions.methods(cls).items()
        asked = [method for name, method in methods if name != "__init__" or obj is None]  # which ran as it was built
        return any(self._reach.features_of_call(method) & _TRAINING for method in asked)

    def handed(self, given: Iterable[Value], w: World, ctx: Context) -> None:
        """A library is given values: it calls the functions of the project among them."""
        for value in map(w.resolve, given):
            if isinstance(value, Function) and value.kind == "":
                self._nested.handed(value, w, ctx)

    def left(self, manager: Instance, w: World) -> None:
        """The block of a ``with`` statement was left: a hook that it removes is there no longer."""
        if manager.role is roles.HOOK:
            self._hooks.removed(manager, w)

    def concerned(self, obj: Object) -> bool:
        """Whether an object has to do with modules, optimizers, parameters or graphs; data has not."""
        if isinstance(obj, Tensor):
            return bool(obj.groups or obj.deps or obj.requires_grad)
        if isinstance(obj, Segment):
            return not obj.presumed
        return isinstance(obj, Group) or (isinstance(obj, Instance) and not obj.role.is_data)

    def kept(self, keeper: Unknown, value: Value, w: World) -> None:
        """Something unknown, or one of many such, was given an object of the project: it may use that when called."""
        obj = w.get(value, Instance)
        if obj is None or obj.cls is None or obj.role is not roles.PLAIN:
            return
        key = _KEPT, _one_of(keeper.key)
        known = each_of(w.bound[key]) if key in w.bound else ()
        if value not in known and len(known) < 2 * MAX_ALTERNATIVES:
            w.bound[key] = Choice(fresh(), (*known, value)) if known else value

    def any_of(self, values: list[Value], w: World) -> Unknown:
        """Any one of some objects that come in an order which is not known: when it is called, each may be meant."""
        several = tuple(values)
        source = AnyOf(several)
        w.bound.setdefault((_KEPT, source), Choice(fresh(), several))
        return Unknown(ElementOf(fresh(), source))

    def _kept_by(self, keeper: Unknown, w: World) -> list[Value]:
        """The objects that something unknown, or what it is a part of, was given before."""
        found: list[Value] = []
        key: Hashable = keeper.key
        while key is not None:
            key = _one_of(key)
            known = w.bound.get((_KEPT, key))
            if known is not None:
                found += map(w.resolve, each_of(known))
            key = key.owner if isinstance(key, (AttributeOf, ItemOf)) else None
        return found

    def doubt(self, groups: Iterable[int], values: Iterable[Value], w: World) -> None:
        """What cannot be followed may have made backward passes and steps with these."""
        for key in groups:
            group = w.find(key)
            if isinstance(group, Group) and group.prepared is False:
                w.write(key).prepared = None
        for value in values:
            obj = w.get(value, Instance)
            if obj is not None and obj.role is roles.OPTIMIZER and isinstance(value, Ref):
                w.write(value.id).stepped = None

    def _escape(self, value: Value, w: World, at_hand: _AtHand, depth: int) -> None:
        """A value is given to code that cannot be followed, and what can be reached from it."""
        obj = w.get(value, Object)
        if isinstance(value, Ref) and isinstance(obj, Instance):
            self._object(value, obj, w, at_hand, depth)
        elif isinstance(value, Ref) and isinstance(obj, Tensor):
            _tensor(value, obj, w, at_hand)
        elif isinstance(value, Ref) and isinstance(obj, (Sequence, Mapping)) and depth:
            for part in obj.parts():
                self._escape(w.resolve(part), w, at_hand, depth - 1)
            if isinstance(obj, Sequence) and obj.held:
                w.write(value.id).held = frozenset()
            if obj.tail is None and (isinstance(obj, Mapping) or obj.mutable):
                w.write(value.id).tail = None
        elif isinstance(value, Unknown):
            at_hand.deps |= value.deps
            at_hand.touched |= self._effects.groups_of_optimizers_in(value, w)
        elif isinstance(value, Bound):
            self._escape(w.resolve(value.receiver), w, at_hand, depth - 1 if depth else 0)
        elif isinstance(value, (Function, Lambda)):  # whoever calls it lets it derive by what it mentions
            for part in self._tensors.tensors_in(closed_over(value, w), w):
                tensor = w.get(part, Tensor)
                if tensor is not None and not tensor.is_parameter:
                    at_hand.inputs |= tensor.groups

    def _object(self, ref: Ref, obj: Instance, w: World, at_hand: _AtHand, depth: int) -> None:
        if obj.role is roles.DISTRIBUTION:
            for part in built_from(obj) if depth else ():
                self._escape(w.resolve(part), w, at_hand, depth - 1)
            return
        if (held := self._dicts.held(ref, w)) is not None:
            self._escape(held, w, at_hand, depth)
        own = obj.role is roles.PLAIN and obj.cls is not None
        if (own or obj.role is roles.SCALER) and ESCAPED not in obj.attrs:
            w.write(ref.id).attrs[ESCAPED] = Const(True)
        if obj.role is roles.HOOK:
            self._hooks.removed(obj, w)
        if obj.role.is_module:
            groups = self._modules.groups(ref, w)
            at_hand.weights |= groups
            at_hand.touched |= groups
            self._called_again(ref, w)
            self._left_statistics.asked(ref, w)
        else:
            at_hand.touched |= obj.groups
        for attr in list(obj.attrs.values()) if depth and obj.role is not roles.LOSS else ():
            inner = w.get(w.resolve(attr), Object)
            of_torch = isinstance(inner, Instance) and (inner.role.is_model or inner.role is roles.OPTIMIZER)
            told = of_torch or isinstance(inner, (Sequence, Mapping))
            within = isinstance(inner, Instance) and inner.cls is not None and inner.role is roles.PLAIN
            if (told and depth > 1) or (within and depth >= _FAR):
                self._escape(w.resolve(attr), w, at_hand, depth - 2)

    def _called_again(self, module: Ref, w: World) -> None:
        """A module may be called where it goes, in whatever mode: what its forward pass keeps is another value then."""
        for ref in self._modules.walk(module, w):
            obj = w.get(ref, Instance)
            for name, value in list(obj.attrs.items()) if obj is not None and obj.cls is not None else ():
                tensor = w.get(w.resolve(value), Tensor)
                if tensor is not None and tensor.is_leaf is not True and not tensor.is_parameter:
                    w.write(ref.id).attrs[name] = new_unknown("kept", name)


def _filled(container: Ref, name: str, w: World) -> None:
    """A list or dict may hold more than before, and a dict other numbers."""
    w.assumed.drop(Truth(container))
    held, anything = w.write(container.id), new_unknown("kept", name)
    held.tail = held.tail or anything
    if isinstance(held, Mapping):
        held.items = {key: anything if isinstance(value, Const) else value for key, value in held.items.items()}


def _tensor(ref: Ref, tensor: Tensor, w: World, at_hand: _AtHand) -> None:
    at_hand.deps |= tensor.deps
    if tensor.retains is False and tensor.requires_grad is not False:
        w.write(ref.id).retains = None
    for key in tensor.gradient_of if tensor.is_gradient else ():
        w.write(key).averages = Averages.MIXED
    if tensor.is_parameter:
        at_hand.touched |= tensor.groups
    else:
        at_hand.inputs |= tensor.groups


def _with_parts(values: Iterable[Value], w: World) -> Iterator[Value]:
    """Some values, what they hold, and what those of them that are nested functions mention."""
    seen: set[Value] = set()
    queue = list(values)
    while queue:
        for value in each_of(w.resolve(queue.pop())):
            value = w.resolve(value)
            if value in seen:
                continue
            seen.add(value)
            yield value
            obj = w.get(value, Object)
            if isinstance(obj, Instance):
                queue += obj.attrs.values()
            elif isinstance(obj, (Sequence, Mapping)):
                queue += obj.parts()
            elif isinstance(value, Function) and is_nested(value, w):
                queue += closed_over(value, w)


def _is_foreign(value: External) -> bool:
    """Whether something outside the project is of a library of which nothing is known, or is that library."""
    name = value.name
    return not name.startswith(("torch", "builtins.")) and not is_harmless(name) and not is_harmless(f"{name}.")


def _calls_given(callee: Value, method: str) -> bool:
    """Whether what is called, or the method of it, is known to call the functions it is given as they are."""
    if isinstance(callee, External):
        return callee.name.partition(".")[0] in CALLING
    return isinstance(callee, Unknown) and method in CALLING_METHODS


def _one_of(key: Hashable) -> Hashable:
    """The key of what something unknown is any element of, or its own."""
    while isinstance(key, ElementOf) and key.of is not None:
        key = key.of
    return key
