"""Tensors: how they are made, what they are parts of, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import FALSE, TRUE, Fact, known, unknown
from gradlint.static.knowledge.torch_table import names_integers, names_predictions
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.dict_objects import DictObjects
from gradlint.static.state.comparisons import computed
from gradlint.static.state.origins import Figure, Origin, Text, fresh
from gradlint.static.state.provenance import (
    carries_graph,
    figured_from,
    from_module,
    is_any,
    is_computed,
    is_constant_or_number,
    is_data,
    is_figure,
    is_loaded,
    origin_of,
)
from gradlint.static.state.values import (
    CHOSEN,
    NONE,
    Choice,
    Const,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.effects import Effects

if TYPE_CHECKING:
    from gradlint.finding import Site


def fact(value: bool | str | None) -> Fact[object]:
    """A three-valued property as rules see it."""
    return unknown() if value is None else known(value)


class Tensors:
    """Makes tensors, and tells what is known of them."""

    _effects: Effects
    _definitions: Definitions
    _dicts: DictObjects

    # --- making

    def leaf(
        self,
        w: World,
        site: Site,
        *,
        requires_grad: bool | None = False,
        device: str | None = "cpu",
        parameter: bool | None = False,
        size: str | None = None,
        integral: bool | None = None,
        activation: str | None = "none",
    ) -> Ref:
        """A new leaf; one that requires grad is a parameter group of its own."""
        groups: frozenset[int] = frozenset()
        if requires_grad is not False:
            groups = frozenset([w.new(Group(requires_grad, made_at=site)).id])
        return w.new(
            Tensor(
                requires_grad=requires_grad,
                is_leaf=True,
                is_parameter=parameter,
                device=device,
                size=size,
                integral=integral,
                activation=activation,
                made_at=site,
                moved_at=site if device in ("cuda", CHOSEN) else None,
                groups=groups,
                deps=groups,
                open=False,
            )
        )

    def parameter(self, groups: Iterable[int], w: World, site: Site | None, device: str | None = "cpu") -> Ref:
        """A parameter (or, for several groups, any of them)."""
        members = frozenset(groups)
        return w.new(
            Tensor(
                requires_grad=None,
                is_leaf=True,
                is_parameter=True,
                device=device,
                activation="none",
                integral=False,
                made_at=site,
                groups=members,
                deps=members,
                open=False,
            )
        )

    def several(self, value: Value, w: World, depth: int = 2) -> frozenset[int]:
        """The groups of a parameter that stands for several, also where it comes with its name or number."""
        value = w.resolve(value)
        sequence, tensor = w.get(value, Sequence), w.get(value, Tensor)
        if sequence is not None and depth and sequence.tail is None:
            several = frozenset[int]().union(*(self.several(item, w, depth - 1) for item in sequence.items))
            return several | self._under_several_names(sequence, w)
        if tensor is None or not tensor.is_parameter:
            return frozenset()
        opaque = any(isinstance(group := w.find(key), Group) and group.opaque for key in tensor.groups)
        return tensor.groups if opaque or len(tensor.groups) > 1 else frozenset()

    def _under_several_names(self, pair: Sequence, w: World) -> frozenset[int]:
        """The groups of the parameter in a pair with a name of which it is not known which of a few it is."""
        parameter = w.get(w.resolve(pair.items[1]), Tensor) if len(pair.items) == 2 else None
        if parameter is None or not parameter.is_parameter or not names_several(w.resolve(pair.items[0])):
            return frozenset()
        return parameter.groups

    def selection(self, value: Value, w: World) -> Value:
        """One or some of the parameters that a value stands for, also where they come with their names."""
        value = w.resolve(value)
        sequence, tensor = w.get(value, Sequence), w.get(value, Tensor)
        if sequence is not None and self.several(value, w):
            items = [self.selection(item, w) for item in sequence.items]
            return w.new(Sequence(items, list(sequence.sites), None, None, sequence.mutable))
        if tensor is None or not self.several(value, w):
            return value
        new: Tensor = tensor.copy()
        new.some_of_groups = True
        return w.new(new)

    def root(self, key: int, w: World) -> int:
        """The tensor whose storage the tensor ``key`` uses."""
        for _ in range(8):
            tensor = w.find(key)
            if not isinstance(tensor, Tensor) or tensor.base is None:
                break
            key = tensor.base
        return key

    def from_unknown(self, value: Unknown, w: World, **facts: object) -> Ref:
        """Say that an unknown value is a tensor; from now on in this world, it is this one."""
        ref = w.new(
            Tensor(
                deps=value.deps,
                open=carries_graph(value),
                presumed=from_module(value),
                is_parameter=False if from_module(value) or is_computed(value) else None,
                cut=self._effects.cut_of(value, w),
                from_unknown=self._effects.carries(value, w),
                calls=self._effects.calls_behind(value.key, w),
            )
        )
        tensor = w.write(ref.id)
        if is_data(value):
            tensor.requires_grad, tensor.is_leaf, tensor.is_parameter, tensor.open = False, True, False, False
        tensor.reaches = self._effects.presumed_segments(value, w)
        for name, content in facts.items():
            setattr(tensor, name, content)
        w.bound[value.key] = ref
        return ref

    def must_be_tensor(self, value: Value | None, w: World) -> None:
        """A value was given to what takes tensors only: from now on in this world, it is one."""
        value = w.resolve(value) if value is not None else NONE
        tensor = w.get(value, Tensor)
        if isinstance(value, Unknown) and is_data(value):
            self.from_unknown(value, w)
        elif tensor is not None and (tensor.structured or tensor.supposed) and isinstance(value, Ref):
            new: Tensor = w.write(value.id)
            new.structured = new.supposed = False

    def settled(self, value: Value, w: World) -> Value:
        """A value that a tensor operation is given: what a module returned is a tensor from now on.

        Of a tensor, or a number where it was left out, it is the tensor: the number adds nothing to a graph.
        """
        if isinstance(value, Choice):
            tensors = [each for each in value.alternatives if w.get(each, Tensor) is not None]
            numbers = sum(isinstance(each, Const) and _is_number(each.value) for each in value.alternatives)
            return tensors[0] if len(tensors) == 1 and 1 + numbers == len(value.alternatives) else value
        if isinstance(value, Unknown) and from_module(value):
            return self.from_unknown(value, w, structured=True, passed=self._effects.passed(value.key))
        return value

    def suppose(self, result: Value, operands: Iterable[Value], w: World) -> None:
        """An operator or method gave ``result``: a tensor if all its operands that are no numbers are tensors."""
        if all(self._is_operand(w.resolve(value), w) for value in operands):
            return
        pair = w.get(result, Sequence)
        for value in [result] if pair is None else pair.items:
            if isinstance(value, Ref) and w.get(value, Tensor) is not None:
                w.write(value.id).supposed = True

    def traced(self, result: Value, made: Callable[..., Origin], operands: Iterable[Value], w: World) -> Value:
        """``result`` is what ``made`` makes of the operands: known to be the same again if they may be no tensors."""
        origins = [origin_of(w.resolve(value), w) for value in operands]
        if isinstance(result, Ref) and w.get(result, Tensor) is not None and None not in origins:
            w.write(result.id).origin = computed(made(*origins))
        return result

    def _is_operand(self, value: Value, w: World) -> bool:
        tensor = w.get(value, Tensor)
        if tensor is not None:
            return not (tensor.structured or tensor.supposed)
        return is_constant_or_number(value)

    # --- knowing

    def requires_grad(self, value: Value, w: World) -> bool | None:
        """Whether a value requires grad, as far as it is known."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            if tensor.groups:
                answers = {self.group_grad(g, w) for g in tensor.groups}
                return answers.pop() if len(answers) == 1 else None
            return tensor.requires_grad
        if isinstance(value, (Const, Sequence, Mapping)) or (isinstance(value, Unknown) and is_figure(value)):
            return False
        return None

    def presumed(self, value: Value, w: World) -> bool | None:
        """As :meth:`requires_grad`, presuming that what a module returned while gradients were enabled does."""
        value = w.resolve(value)
        known_answer = self.requires_grad(value, w)
        if known_answer is not None:
            return known_answer
        tensor = w.get(value, Tensor)
        if tensor is not None:
            return True if tensor.presumed and not self.is_frozen(tensor.deps, w) else None
        return True if isinstance(value, Unknown) and from_module(value) else None

    def is_frozen(self, groups: frozenset[int], w: World) -> bool:
        """Whether none of some parameters requires grad."""
        return bool(groups) and all(self.group_grad(key, w) is False for key in groups)

    def is_weight(self, value: Value, w: World) -> bool:
        """Whether a value is, or comes from, parameters of a model that is given and that nothing at hand freezes.

        Whoever gives the model may have frozen it; torch's default, that parameters require grad, is presumed to hold.
        """
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is None or self.requires_grad(value, w) is not None:
            return False
        if not tensor.groups:
            return any(self.is_weight(Ref(key), w) for key in tensor.sources)
        return self.is_given(tensor.groups, w)

    def is_output(self, value: Value, w: World) -> bool:
        """Whether a value is, or comes from, all that such a model returned, with its graph.

        A model is what is used as one, or annotated as one.
        """
        tensor = w.get(w.resolve(value), Tensor)
        if w.grad is not True or tensor is None or not tensor.whole_output or tensor.integral:
            return False
        return self.is_given(tensor.deps, w)

    def is_given(self, groups: frozenset[int], w: World) -> bool:
        """Whether these are the parameters of models that are given, of which nothing says that they are frozen."""
        found = [w.find(key) for key in groups]
        return bool(found) and all(
            isinstance(group, Group) and group.opaque and not group.requires_grad_set for group in found
        )

    def mode(self, w: World) -> Fact[bool]:
        """Whether gradients are enabled."""
        return unknown() if w.grad is None else known(w.grad)

    def one_that(self, parameter: Value, trained: bool, w: World) -> Ref | None:
        """One of many parameters that is known to be, or not to be, frozen."""
        tensor = w.get(parameter, Tensor)
        if tensor is None or not tensor.is_parameter:
            return None
        left = frozenset(key for key in tensor.groups if self.group_grad(key, w) in (trained, None))
        if not left or left == tensor.groups:
            return None
        new = tensor.copy()
        new.groups, new.deps = left, tensor.deps - (tensor.groups - left)
        return w.new(new)

    def group_grad(self, key: int, w: World) -> bool | None:
        """Whether the parameters of a group require grad, as far as it is known."""
        group = w.find(key)
        return group.requires_grad if isinstance(group, Group) else None

    def presumed_view(self, value: Value, w: World) -> events.Tensor:
        """As :meth:`view_of`, presuming as :meth:`presumed` does."""
        view = self.view_of(value, w)
        if view.requires_grad.known or not self.presumed(value, w):
            return view
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is not None and tensor.is_leaf:
            return view
        return replace(view, requires_grad=TRUE, is_leaf=FALSE, retains_grad=fact(tensor.retains if tensor else False))  # type: ignore[arg-type]

    def view_of(self, value: Value, w: World, text: str = "", kept_at: Site | None = None) -> events.Tensor:
        """What rules may know of a value."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is None:
            return events.Tensor(text=text, loaded=known(True) if is_loaded(value) else unknown())
        freed = self.freed(tensor, w)
        return events.Tensor(
            text=text,
            requires_grad=fact(self.requires_grad(value, w)),  # type: ignore[arg-type]
            is_leaf=fact(tensor.is_leaf),  # type: ignore[arg-type]
            is_parameter=fact(tensor.is_parameter),  # type: ignore[arg-type]
            device=fact(tensor.device),  # type: ignore[arg-type]
            loaded=known(True) if tensor.loaded else unknown(),
            scalar=fact(None if tensor.size is None else tensor.size == "one"),  # type: ignore[arg-type]
            integral=fact(tensor.integral),  # type: ignore[arg-type]
            activation=fact(tensor.activation),  # type: ignore[arg-type]
            activation_at=tensor.activation_at,
            activated=fact(tensor.activated),  # type: ignore[arg-type]
            activated_at=tensor.activated_at,
            made_at=tensor.made_at,
            moved_at=tensor.moved_at,
            kept_at=kept_at,
            freed=fact(freed is not None if freed is not False else None),  # type: ignore[arg-type]
            freed_at=None if isinstance(freed, bool) else freed,
            stale_at=self.stale(tensor, w),
            cut=fact(tensor.cut.how if tensor.cut is not None else None),  # type: ignore[arg-type]
            cut_at=tensor.cut.at if tensor.cut is not None else None,
            asked_at=tensor.asked_at,
            retains_grad=fact(tensor.retains),  # type: ignore[arg-type]
        )

    def is_data(self, value: Value, w: World) -> bool:
        """Whether a value is what a loop over data gave, or was computed from nothing else."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor.loaded if tensor is not None else is_loaded(w.resolve(value))

    def nearly(self, value: Value, w: World) -> events.Tensor:
        """As :meth:`view_of`, for a rule to which it makes no difference that a small number was added."""
        view = self.view_of(value, w)
        tensor = w.get(w.resolve(value), Tensor)
        nudged = tensor is not None and tensor.nudged not in ("", "none")
        return replace(view, activation=known(tensor.nudged)) if tensor is not None and nudged else view

    def is_constant(self, value: Value, w: World) -> bool:
        """Whether a value is a tensor made of nothing that came from outside, which nothing trains."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and tensor.constant and tensor.requires_grad is False

    def stale(self, tensor: Tensor, w: World) -> Site | None:
        """Where a step changed parameters that the graph of a tensor, not freed yet, needs as they were."""
        for key in sorted(tensor.segments - tensor.doubtful):
            segment = w.find(key)
            if isinstance(segment, Segment) and segment.stale_at is not None and segment.freed is False:
                return segment.stale_at
        return None

    def outdate(self, groups: frozenset[int], w: World, site: Site) -> None:
        """A step changed these parameters: graphs built before, and still to be walked, need them as they were."""
        for key, obj in w.all(Segment):
            if obj.freed is False and obj.stale_at is None and obj.weights & groups:
                w.write(key).stale_at = site

    def freed(self, tensor: Tensor, w: World) -> Site | bool | None:
        """Where part of the graph of a tensor was freed; None if none was; False if that is not known."""
        maybe = False
        for key in sorted(tensor.segments):
            segment = w.find(key)
            if isinstance(segment, Segment):
                if segment.freed and key not in tensor.doubtful:
                    return segment.freed_at
                maybe = maybe or segment.freed is not False
        return False if maybe or tensor.open else None

    def tensors_in(self, values: Iterable[Value], w: World, depth: int = 2) -> list[Value]:
        """The tensors and unknown values among ``values``, also those in lists, tuples, dicts and records."""
        found: list[Value] = []
        for value in values:
            value = w.resolve(value)
            obj = w.get(value, Object)
            if isinstance(obj, Tensor) or isinstance(value, (Unknown, Choice)):
                found.append(value)
            elif isinstance(obj, (Sequence, Mapping)) and depth:
                inner = list(obj.items.values()) if isinstance(obj, Mapping) else list(obj.items)
                found += self.tensors_in([*inner, *([obj.tail] if obj.tail is not None else [])], w, depth - 1)
            elif isinstance(obj, Instance) and depth and self.has_parts(obj):
                held = self._dicts.held(value, w)
                found += self.tensors_in([held] if held is not None else (), w, depth)
                found += self.tensors_in((part for part in obj.attrs.values() if part != held), w, depth - 1)
        return found

    def has_parts(self, obj: Object | None) -> bool:
        """Whether an object holds others as its items or fields: a list, tuple, dict or record."""
        if isinstance(obj, Instance):
            return obj.role.has_parts or self._definitions.is_record(obj)
        return isinstance(obj, (Sequence, Mapping))

    def deps(self, value: Value, w: World) -> frozenset[int]:
        """The parameter groups a value may depend on."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            return tensor.deps
        return value.deps if isinstance(value, Unknown) else frozenset()

    def gradient_of(self, values: Iterable[Value], w: World) -> frozenset[int]:
        """The parameter groups from whose gradients tensors and numbers were computed."""
        gradients = []
        for value in map(w.resolve, values):
            tensor = w.get(value, Tensor)
            groups = tensor.gradient_of if tensor is not None else figured_from(value)
            if groups:
                gradients.append(groups)
        return frozenset[int]().union(*gradients)

    def figure(self, values: Iterable[Value], w: World) -> Unknown:
        """A number that was taken from these values."""
        gradient_of = self.gradient_of(values, w)
        return Unknown(Figure(fresh(), gradient_of))

    # --- parts

    def view(self, value: Value, w: World, site: Site | None = None, name: str = "") -> Value:
        """A part of a tensor, or the next one like it; what an output holds under a ``name`` may be of another type."""
        tensor = w.get(value, Tensor)
        if tensor is None:
            return new_unknown("view")
        new: Tensor = tensor.copy()
        if self.requires_grad(value, w) is not False and not (tensor.groups and w.grad is False):
            new.requires_grad, new.groups, new.is_leaf = self.requires_grad(value, w), frozenset(), False
            new.is_parameter = False
            if w.grad is False:
                new.requires_grad = False
        if names_integers(name):
            new.requires_grad, new.is_leaf, new.presumed = None, None, False
        new.size, new.shape, new.origin = None, None, None
        new.whole_output = tensor.whole_output and (not tensor.structured or names_predictions(name))
        if tensor.on_device_as_one:
            new.device, new.device_if_tensor, new.on_device_as_one = None, tensor.device, False
        new.base = self.root(value.id, w) if isinstance(value, Ref) else None
        new.retains = False
        if tensor.structured:  # beside outputs, a tuple may hold figures
            new.pending, new.supposed = (), tensor.supposed or tensor.part_of is not None
            if name and tensor.part_of is not None and new.device_if_tensor is None:
                new.device_if_tensor = new.device
        if (tensor.structured or tensor.is_gradient) and isinstance(value, Ref):
            new.part_of = value.id
        if isinstance(value, Ref) and not tensor.structured:
            _derived(new, value)
        handed_on(new, tensor, site)
        new.made_at = site or tensor.made_at
        new.tokens = {}
        return w.new(new)

    def taken_from(self, whole: Value, part: Ref, w: World) -> None:
        """``part`` is ``whole[:, 0]``: what takes several indices is a tensor, and gives one."""
        tensor = w.get(whole, Tensor)
        if tensor is not None:
            new: Tensor = w.write(part.id)
            new.structured, new.whole_output = False, tensor.whole_output
            if isinstance(whole, Ref):
                _derived(new, whole)


def _derived(part: Tensor, whole: Ref) -> None:
    """A part of a tensor requires grad where that does."""
    if part.requires_grad is None:
        part.sources, part.results = (whole.id,), ()


def handed_on(result: Tensor, tensor: Tensor, site: Site | None) -> None:
    """``result`` is a part of a tensor: where that was made elsewhere, both come from outside."""
    made_at, here = getattr(tensor.made_at, "unit", None), getattr(site, "unit", None)
    if here is not None and made_at is not here:
        result.constant = False


def names_several(name: Value) -> bool:
    """Whether a name of a parameter stands for several."""
    if isinstance(name, Choice):
        return all(isinstance(each, Const) and isinstance(each.value, str) for each in name.alternatives)
    return isinstance(name, Unknown) and (is_any(name, "name") or isinstance(name.key, Text))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
