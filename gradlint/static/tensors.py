"""Tensors: what operations make of them, what is known of the results, and what is done to them in place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import FALSE, TRUE, Fact, known, unknown
from gradlint.static.context import Arguments, Context
from gradlint.static.ops import Op
from gradlint.static.provenance import (
    FIGURE,
    carries_graph,
    figured_from,
    from_module,
    is_data,
    is_figure,
    is_loaded,
    is_number,
)
from gradlint.static.torch_table import INTEGRAL_TYPES, METHODS, PACKED_FIELDS
from gradlint.static.values import (
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
)
from gradlint.static.world import World, fresh

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.interpreter import Interpreter

_ARITHMETIC = {
    "+": Op(saves="", size="broadcast", activation="combines"),
    "-": Op(saves="", size="broadcast", activation="combines"),
    "*": Op(saves="input", size="broadcast", activation="scales"),
    "/": Op(saves="input", size="broadcast", activation="scales"),
    "**": Op(saves="both", size="broadcast"),
    "@": Op(saves="input"),
    "neg": Op(saves="", size="keeps", activation="combines"),
}
_INTEGRAL = Op(grad="never", saves="", size="broadcast", integral=True)
_DATA = Op(grad="never", activation="keeps", saves="", size="keeps", view=True)


def fact(value: bool | str | None) -> Fact[object]:
    """A three-valued property as rules see it."""
    return unknown() if value is None else known(value)


def operation_of(how: str) -> Op:
    """What an operation that changes its operand (``+=``, ``add_``) computes."""
    if how.endswith("="):
        return _ARITHMETIC.get(how[:-1], Op())
    function = METHODS.get(how.removesuffix("_"))
    return function if isinstance(function, Op) else Op()


class Tensors:
    """Makes and changes tensors."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine

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
                moved_at=site if device == "cuda" else None,
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
            return frozenset[int]().union(*(self.several(item, w, depth - 1) for item in sequence.items))
        if tensor is None or not tensor.is_parameter:
            return frozenset()
        opaque = any(isinstance(group := w.find(key), Group) and group.opaque for key in tensor.groups)
        return tensor.groups if opaque or len(tensor.groups) > 1 else frozenset()

    def picked(self, value: Value, w: World) -> Value:
        """One or some of the parameters that a value stands for, also where they come with their names."""
        value = w.resolve(value)
        sequence, tensor = w.get(value, Sequence), w.get(value, Tensor)
        if sequence is not None and self.several(value, w):
            items = [self.picked(item, w) for item in sequence.items]
            return w.new(Sequence(items, list(sequence.sites), None, None, sequence.mutable))
        if tensor is None or not self.several(value, w):
            return value
        new: Tensor = tensor.copy()
        new.picked = True
        return w.new(new)

    def from_unknown(self, value: Unknown, w: World, **facts: object) -> Ref:
        """Say that an unknown value is a tensor; from now on in this world, it is this one."""
        ref = w.new(
            Tensor(
                deps=value.deps,
                open=carries_graph(value),
                presumed=from_module(value),
                outright=from_module(value, parts=False),
                cut=self.m.cuts.of(value, w),
                vague=self.m.cuts.carries(value, w),
                calls=self.m.graphs.calls(value.key, w),
            )
        )
        tensor = w.write(ref.id)
        if is_data(value):
            tensor.requires_grad, tensor.is_leaf, tensor.is_parameter, tensor.open = False, True, False, False
        tensor.reaches = self.m.graphs.presumed(value, w)
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
        elif tensor is not None and tensor.structured and isinstance(value, Ref):
            w.write(value.id).structured = False

    def settled(self, value: Value, w: World) -> Value:
        """A value that a tensor operation is given: what a module returned is a tensor from now on."""
        if isinstance(value, Unknown) and from_module(value):
            return self.from_unknown(value, w, structured=True)
        return value

    # --- knowing

    def requires_grad(self, value: Value, w: World) -> bool | None:
        """Whether a value requires grad, as far as it is known."""
        value = w.resolve(value)
        tensor = w.get(value, Tensor)
        if tensor is not None:
            if tensor.groups:
                answers = {self._group_grad(g, w) for g in tensor.groups}
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
            return True if tensor.presumed else None
        return True if isinstance(value, Unknown) and from_module(value) else None

    def is_weight(self, value: Value, w: World) -> bool:
        """Whether a value is, or comes from, parameters of a model that is given and that nothing at hand freezes.

        Whoever gives the model may have frozen it; torch's default, that parameters require grad, is presumed to hold.
        """
        tensor = w.get(w.resolve(value), Tensor)
        if tensor is None or self.requires_grad(value, w) is not None:
            return False
        if not tensor.groups:
            return any(self.is_weight(Ref(key), w) for key in tensor.sources)
        groups = [w.find(key) for key in tensor.groups]
        return all(isinstance(group, Group) and group.opaque and not group.told for group in groups)

    def mode(self, w: World) -> Fact[bool]:
        """Whether gradients are enabled."""
        return unknown() if w.grad is None else known(w.grad)

    def _group_grad(self, key: int, w: World) -> bool | None:
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
            scalar=fact(None if tensor.size is None else tensor.size == "one"),  # type: ignore[arg-type]
            integral=fact(tensor.integral),  # type: ignore[arg-type]
            activation=fact(tensor.activation),  # type: ignore[arg-type]
            activation_at=tensor.activation_at,
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

    def nearly(self, value: Value, w: World) -> events.Tensor:
        """As :meth:`view_of`, for a rule to which it makes no difference that a small number was added."""
        view = self.view_of(value, w)
        tensor = w.get(w.resolve(value), Tensor)
        nudged = tensor is not None and tensor.nudged not in ("", "none")
        return replace(view, activation=known(tensor.nudged)) if tensor is not None and nudged else view

    def stale(self, tensor: Tensor, w: World) -> Site | None:
        """Where a step changed parameters that the graph of a tensor, not freed yet, needs as they were."""
        for key in sorted(tensor.segments - tensor.doubtful):
            segment = w.find(key)
            if isinstance(segment, Segment) and segment.stale_at is not None and segment.freed is False:
                return segment.stale_at
        return None

    def outdate(self, groups: frozenset[int], w: World, site: Site) -> None:
        """A step changed these parameters: graphs built before, and still to be walked, need them as they were."""
        for key, obj in list(w.heap.items()):
            if isinstance(obj, Segment) and obj.freed is False and obj.stale_at is None and obj.weights & groups:
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
            elif isinstance(obj, Instance) and depth and self._has_fields(obj):
                found += self.tensors_in(obj.attrs.values(), w, depth - 1)
        return found

    def _has_fields(self, obj: Instance) -> bool:
        return obj.kind == "distribution" or self.m.definitions.is_record(obj)

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
        return Unknown((FIGURE, fresh(), gradient_of) if gradient_of else (FIGURE, fresh()))

    # --- operations

    def apply(
        self,
        op: Op,
        args: Arguments,
        w: World,
        ctx: Context,
        site: Site,
        *,
        parameters: frozenset[int] = frozenset(),
        device: str | None = None,
    ) -> Value:
        """The result of an operation on its arguments; ``parameters`` are those of the layer that does it."""
        inputs = [self.settled(value, w) for value in self.tensors_in(args, w)]
        self.m.memory.used(inputs, w, ctx, site)
        self.m.evaluation.applied(op, inputs, w, ctx)
        self.m.uses.applied(op, inputs, self._has_dim(args), w, site)
        if op.result == "number":
            return self.m.cuts.note(self.figure(inputs, w), inputs, "number", w, site)
        if op.result == "none":
            return NONE
        if op.result == "array":
            array = w.new(Instance(name="numpy.ndarray", kind="array", made_at=site))
            return self.m.cuts.note(array, inputs, "numpy", w, site)
        if op.grad == "argument" or ("requires_grad" in args.keywords and not inputs):
            created = self._create(op, args, w, site)
            if isinstance(created, Ref) and w.get(created, Tensor) is not None:
                w.write(created.id).constant = True
            return created
        if op.likens:
            inputs = self.tensors_in(args.positional[:1], w)
        result = self.result(op, inputs, args, w, site, parameters, device)
        if op.result == "pair" or (op.result == "pair_by_dim" and self._reduces_dim(args, w)):
            pair = self._pair(result, w, site)
            values = w.get(pair, Sequence)
            if values is not None and isinstance(values.items[0], Ref):
                self.m.uses.ranked(op, inputs, values.items[0], w)
                self.m.memory.saved(op, inputs, values.items[0], bool(parameters), w)
            return pair
        ref = w.new(result)
        self.m.memory.saved(op, inputs, ref, bool(parameters), w)
        self.m.plain.combined(op, inputs, ref, bool(parameters), w, ctx)
        if op.result == "tensors":
            return w.new(Sequence([], [], ref, site, False))
        beside = [w.new(_indices(result, site)) for name in op.beside if _is_true(args.keywords.get(name), w)]
        if beside:
            return w.new(Sequence([ref, *beside], [None] * (len(beside) + 1), None, None, False))
        return ref

    def packed(self, data: Value, w: World, site: Site) -> Ref:
        """A ``PackedSequence`` of these values: its ``data`` is a field."""
        rest: list[Value] = [self.leaf(w, site, integral=True) for _ in PACKED_FIELDS[1:]]
        return w.new(Sequence([data, *rest], [None] * len(PACKED_FIELDS), None, None, False, PACKED_FIELDS))

    def _has_dim(self, args: Arguments) -> bool:
        return "dim" in args.keywords or "axis" in args.keywords or len(args.positional) > 1

    def _reduces_dim(self, args: Arguments, w: World) -> bool:
        """Whether ``max`` and the like are told a dimension, and not a second tensor to compare with."""
        if len(args.positional) < 2 or "dim" in args.keywords or "axis" in args.keywords:
            return self._has_dim(args)
        second = w.resolve(args.positional[1])
        return w.get(second, Tensor) is None and not (isinstance(second, Unknown) and carries_graph(second))

    def _pair(self, result: Tensor, w: World, site: Site) -> Ref:
        items: list[Value] = [w.new(result), w.new(_indices(result, site))]
        return w.new(Sequence(items, [None, None], None, None, False, ("values", "indices")))

    def _create(self, op: Op, args: Arguments, w: World, site: Site) -> Value:
        asked = w.resolve(args.keywords.get("requires_grad", Const(False)))
        requires_grad = bool(asked.value) if isinstance(asked, Const) else None
        dtype = w.resolve(args.keywords.get("dtype", NONE))
        integral = op.integral or None
        if self._is_integral(dtype, w):
            integral = True
        ref = self.leaf(
            w,
            site,
            requires_grad=requires_grad,
            device=self._device(op, [w.resolve(value) for value in list(args)[:1]], args, w),
            integral=integral,
            size=op.size if op.size in ("one", "many") else None,
        )
        if op.detaches:
            self.copied(ref, list(args)[:1], w, site)
        return ref

    def _is_integral(self, kind: Value, w: World) -> bool:
        """Whether what says of which type a result is to be, a type or another tensor, asks for integers or bools."""
        tensor = w.get(kind, Tensor)
        if tensor is not None:
            return tensor.integral is True
        name = kind.value if isinstance(kind, Const) else getattr(kind, "name", "")
        return isinstance(name, str) and name.rpartition(".")[2] in INTEGRAL_TYPES

    def _casts_to_integers(self, op: Op, args: Arguments, w: World) -> bool:
        given = [*args.positional[1:], *args.keywords.values()] if op.casts else []
        return any(self._is_integral(w.resolve(value), w) for value in given)

    def copied(self, ref: Ref, values: list[Value], w: World, site: Site) -> None:
        """A new leaf holds the mere values of others."""
        new: Tensor = w.write(ref.id)
        new.cut = self.m.cuts.lost(values, "copy", w, site)
        if new.cut is not None and new.requires_grad is not False:
            new.asked_at = site

    def result(
        self,
        op: Op,
        inputs: list[Value],
        args: Arguments,
        w: World,
        site: Site,
        parameters: frozenset[int],
        layer_device: str | None,
    ) -> Tensor:
        """The facts of what an operation returns."""
        tensors = [t for t in (w.get(v, Tensor) for v in inputs) if t is not None]
        first = w.get(inputs[0], Tensor) if inputs else None
        grads = [self.requires_grad(v, w) for v in inputs] + [self._group_grad(g, w) for g in sorted(parameters)]
        requires_grad: bool | None = True if True in grads else (None if None in grads else False)
        integers = op.integral or self._casts_to_integers(op, args, w)
        if op.grad == "never" or integers or w.grad is False:
            requires_grad = False
        elif w.grad is None and requires_grad:
            requires_grad = None
        new = Tensor(requires_grad=requires_grad, is_leaf=requires_grad is False or None, is_parameter=False)
        if requires_grad:
            new.is_leaf = False
        new.made_at = site
        new.open = False
        if requires_grad is not False:
            new.deps = parameters.union(*(self.deps(v, w) for v in inputs))
            new.open = any(
                (t.open if (t := w.get(v, Tensor)) is not None else isinstance(v, Unknown) and carries_graph(v))
                for v in inputs
            )
            new.segments = frozenset().union(*(t.segments for t in tensors))
            new.reaches = frozenset[int]().union(*(self.m.graphs.presumed(v, w) for v in inputs))
            if op.saves:
                # A layer needs its weights to pass gradients on to its input, if that wants any.
                weights = parameters if any(self.requires_grad(v, w) for v in inputs) else frozenset[int]()
                new.segments |= {w.new(Segment(weights=weights)).id}
            new.doubtful = frozenset().union(*(t.doubtful for t in tensors))
            if requires_grad is None:
                new.doubtful = new.segments
                new.presumed = w.grad is True and any(self.presumed(v, w) for v in inputs)
                new.outright = new.presumed and any(t.outright for t in tensors)
                new.sources = tuple(v.id for v in inputs if isinstance(v, Ref) and self.requires_grad(v, w) is None)
        new.scaled = any(t.scaled for t in tensors)
        new.calls = frozenset[int]().union(*(self.m.evaluation.calls(v, w) for v in inputs))
        self.m.cuts.result(op, inputs if op.likens else list(args), inputs, new, bool(parameters), w, site)
        self._shape(op, new, first, tensors, inputs, args, w, site)
        if integers:
            new.integral = True
        elif first is not None and op.activation == "keeps":
            new.places = first.places
        if len(tensors) == 1 and (op.size in ("keeps", "broadcast") or self._made_of_numbers(tensors[0])):
            new.asked_at = tensors[0].asked_at
        new.device = layer_device if layer_device == "cuda" else self._device(op, inputs, args, w)
        if new.device == "cuda":
            new.moved_at = site if op.device != "inputs" else next((t.moved_at for t in tensors if t.moved_at), site)
            if op.device != "cuda" and layer_device != "cuda":
                new.device_if_tensor = self.m.placement.unproven(tensors)
        new.gradient_of = self.gradient_of(inputs, w)
        if op.view and first is not None:
            if isinstance(inputs[0], Ref) and op is not _DATA:
                new.base = self.m.memory.root(inputs[0].id, w)
            new.data_of, new.data_at = first.data_of, first.data_at
            new.is_gradient = first.is_gradient
            if first.groups and op is not _DATA and w.grad is False:
                new.groups = first.groups
        if first is not None and first.structured and op.activation == "keeps":
            new.structured, new.on_device_as_one = True, first.on_device_as_one
        return new

    def _made_of_numbers(self, tensor: Tensor) -> bool:
        """Whether a tensor is a list of numbers that once were tensors: what is computed of it is a loss."""
        return tensor.cut is not None and tensor.cut.how == "number"

    def _shape(
        self,
        op: Op,
        new: Tensor,
        first: Tensor | None,
        tensors: list[Tensor],
        inputs: list[Value],
        args: Arguments,
        w: World,
        site: Site,
    ) -> None:
        """The activation, the type and the number of elements of a result."""
        if op.activation == "keeps":
            new.activation = first.activation if first is not None else None
            new.activation_at = first.activation_at if first is not None else None
            if len(tensors) > 1 and any(t.activation != new.activation for t in tensors):
                new.activation = None
        elif op.activation == "bounds":
            probable = first is not None and first.activation in ("softmax", "sigmoid")
            new.activation = first.activation if first is not None and probable else "none"
            new.activation_at = first.activation_at if first is not None else None
            new.nudged = "none"
        elif op.activation in ("combines", "scales"):
            combined = self.combined_logits(op, inputs, w)
            new.activation = "none" if combined is None else "logits"
            new.activation_at = None if combined is None else combined.activation_at
        elif op.activation == "clears":
            new.activation = "none"
        else:
            new.activation, new.activation_at = op.activation, site
        if op.integral:
            new.integral, new.places = True, op.ranks
        elif first is not None and op.grad != "never":
            new.integral = first.integral if op.activation == "keeps" else (False if new.requires_grad else None)
        if new.requires_grad:
            new.integral = False
        if op.size in ("one", "many"):
            new.size = op.size
        elif op.size == "keeps":
            new.size = first.size if first is not None else None
        elif op.size == "reduces":
            new.size = None if self._has_dim(args) else "one"
        elif op.size == "broadcast":
            sizes = {t.size for t in tensors}
            unknown_input = len(tensors) < len(inputs)
            if "many" in sizes:
                new.size = "many"
            elif "samples" in sizes:
                new.size = "samples"
            elif sizes == {"one"} and not unknown_input:
                new.size = "one"

    def combined_logits(self, op: Op, inputs: list[Value], w: World) -> Tensor | None:
        """The first of what an operation sums or scales that is no number, if the result is logits as well."""
        tensors = [w.get(value, Tensor) for value in inputs if not (isinstance(value, Unknown) and is_number(value))]
        logits = [tensor for tensor in tensors if tensor is not None and tensor.activation == "logits"]
        if not logits or len(logits) < len(tensors) or (op.activation == "scales" and len(logits) > 1):
            return None
        return logits[0]

    def _device(self, op: Op, inputs: list[Value], args: Arguments, w: World) -> str | None:
        if op.device in ("cpu", "cuda"):
            return op.device
        if op.device == "unknown":
            return None
        if op.device in ("argument", "to") or "device" in args.keywords:
            given = args.keywords.get("device")
            if given is None and op.device == "to":
                position = [
                    a for a in args.positional[1:] if not getattr(w.resolve(a), "name", "").startswith("torch.")
                ]
                given = position[0] if position else None
                if given is None:
                    return self._where(args.positional[:1], w)
            if given is None:
                return None if args.open else "cpu"
            return device_of(w.resolve(given), w)
        return self._where(inputs, w)

    def _where(self, inputs: Iterable[Value], w: World) -> str | None:
        """The device of what is computed from values."""
        values = [v for v in map(w.resolve, inputs) if not (isinstance(v, Unknown) and is_number(v))]
        tensors = [w.get(value, Tensor) for value in values]
        devices = {tensor.device if tensor is not None else None for tensor in tensors}
        if "cuda" in devices:
            return "cuda"
        if devices == {None}:
            devices = {tensor.device_if_tensor if tensor is not None else None for tensor in tensors}
        return devices.pop() if len(devices) == 1 else None

    def arithmetic(self, symbol: str, left: Value, right: Value, w: World, ctx: Context, site: Site) -> Value:
        """``left symbol right`` where one of them is a tensor."""
        op = _ARITHMETIC.get(symbol, Op(saves="", size="broadcast"))
        if symbol in "*/" and (isinstance(left, Const) or isinstance(right, Const)):
            op = replace(op, saves="other")
        if symbol == "/" and w.get(w.resolve(left), Tensor) is None:
            op = replace(op, activation="clears")
        result = self.apply(op, Arguments([left, right]), w, ctx, site)
        tensor = w.get(result, Tensor)
        if (
            tensor is not None
            and tensor.size is None
            and isinstance(result, Ref)
            and self._residual(symbol, left, right, w)
        ):
            w.write(result.id).size = "samples"
        if symbol == "@":
            self.m.shapes.applied("matmul", op, Arguments([left, right]), result, w)
        if symbol == "+":
            self.m.legacy.added(result, left, right, w)
        return result

    def _residual(self, symbol: str, left: Value, right: Value, w: World) -> bool:
        """Data is subtracted from what a module returned, or the other way round: one value for each sample."""
        if symbol != "-":
            return False
        for output, data in ((left, right), (right, left)):
            tensor = w.get(w.resolve(output), Tensor)
            if tensor is not None and tensor.presumed and tensor.structured and isinstance(w.resolve(data), Unknown):
                return not self.m.cuts.carries(data, w, presume_data=True)
        return False

    def compare(self, left: Value, right: Value, w: World, ctx: Context, site: Site) -> Value:
        """A comparison where one side is a tensor."""
        return self.apply(_INTEGRAL, Arguments([left, right]), w, ctx, site)

    def view(self, value: Value, w: World, site: Site | None = None) -> Value:
        """A part of a tensor, or the next one like it."""
        tensor = w.get(value, Tensor)
        if tensor is None:
            return Unknown(("view", fresh()))
        new: Tensor = tensor.copy()
        if self.requires_grad(value, w) is not False and not (tensor.groups and w.grad is False):
            new.requires_grad, new.groups, new.is_leaf = self.requires_grad(value, w), frozenset(), False
            new.is_parameter = False
            if w.grad is False:
                new.requires_grad = False
        new.size, new.shape, new.outright = None, None, False
        if tensor.on_device_as_one:
            new.device, new.device_if_tensor, new.on_device_as_one = None, tensor.device, False
        new.base = self.m.memory.root(value.id, w) if isinstance(value, Ref) else None
        new.retains = False
        self.m.plain.handed_on(new, tensor, site)
        new.made_at = site or tensor.made_at
        new.tokens = {}
        return w.new(new)

    # --- in place

    # --- attributes


def _indices(values: Tensor, site: Site) -> Tensor:
    """The tensor of integers that an operation returns beside its values."""
    return Tensor(
        requires_grad=False,
        is_leaf=True,
        is_parameter=False,
        device=values.device,
        device_if_tensor=values.device_if_tensor,
        integral=True,
        places=True,
        activation="none",
        made_at=site,
        open=False,
    )


def _is_true(flag: Value | None, w: World) -> bool:
    return flag is not None and w.resolve(flag) == Const(True)


def device_of(value: Value, w: World) -> str | None:
    """The device type a ``device`` argument names, when it is known."""
    if isinstance(value, Const):
        if isinstance(value.value, str):
            return value.value.partition(":")[0]
        if isinstance(value.value, int) and not isinstance(value.value, bool):
            return "cuda"
        return "cpu" if value.value is None else None
    tensor = w.get(value, Tensor)
    return tensor.device if tensor is not None else None
