"""Operations: what functions, methods, layers and operators of torch compute of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import INTEGRAL_TYPES, METHODS, NDARRAY, PACKED_FIELDS, device_of_type
from gradlint.static.state.contents import united
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Comparison, Operation
from gradlint.static.state.provenance import carries_graph, is_figure, is_number
from gradlint.static.state.values import (
    CHOSEN,
    NONE,
    Const,
    External,
    Instance,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.torch.estimates import Estimates, average_of
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.placement import DevicePlacement, device_of, moves_some
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.shapes import Broadcasts, Shapes
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Residuals, Uses

if TYPE_CHECKING:
    from gradlint.finding import Site

_ARITHMETIC = {
    "+": Op(saves="", size="broadcast", activation="combines", sign="keeps"),
    "-": Op(saves="", size="broadcast", activation="combines"),
    "*": Op(saves="input", size="broadcast", activation="scales", multiplies=True),
    "/": Op(saves="input", size="broadcast", activation="scales", multiplies=True),
    "**": Op(saves="both", size="broadcast"),
    "@": Op(saves="input", activation="mixes"),
    "neg": Op(saves="", size="keeps", activation="combines"),
}
_ELEMENTWISE = ("+", "-", "*", "/", "**")
_NORMALIZING = ("softmax", "log_softmax", "sigmoid")
_INTEGRAL = Op(grad="never", saves="", size="broadcast", integral=True)


def operation_of(how: str) -> Op:
    """What an operation that changes its operand (``+=``, ``add_``) computes."""
    if how.endswith("="):
        return _ARITHMETIC.get(how[:-1], Op())
    function = METHODS.get(how.removesuffix("_"))
    return function if isinstance(function, Op) else Op()


_GPU = ("cuda", CHOSEN)
_LONG = 1_000  #: operations of one graph whose saved tensors are told apart


class Operations:
    """Tells what the results of operations are."""

    _tensors: Tensors
    _breaks: GraphBreaks
    _graphs: Graphs
    _evaluation: Evaluation
    _legacy: Legacy
    _memory: Memory
    _plain: PlainTensors
    _uses: Uses
    _shapes: Shapes
    _placement: DevicePlacement
    _estimates: Estimates
    _broadcasts: Broadcasts
    _residuals: Residuals

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
        w.raised = w.raised or (op.joins and self._is_nothing(args, w))
        inputs = [self._tensors.settled(value, w) for value in self._tensors.tensors_in(args, w)]
        self._memory.used(inputs, w, ctx, site)
        self._residuals.summed(op, inputs, w, ctx, site)
        self._evaluation.applied(op, inputs, w, ctx)
        self._uses.applied(op, inputs, self._has_dim(args), w, site)
        if op.result == "number":
            number = self._breaks.note(self._tensors.figure(inputs, w), inputs, "number", w, site)
            return self._graphs.reduced(number, inputs, w)
        if op.result == "none":
            return NONE
        if op.result == "array":
            array = w.new(Instance(name=NDARRAY, role=roles.ARRAY, made_at=site))
            return self._graphs.reduced(self._breaks.note(array, inputs, "numpy", w, site), inputs, w)
        if op.grad == "argument" or ("requires_grad" in args.keywords and not inputs):
            created = self._create(op, args, w, site)
            if isinstance(created, Ref) and w.get(created, Tensor) is not None:
                w.write(created.id).constant = True
                w.write(created.id).calls = self._graphs.computed_from([*args, *inputs], w)
            return created
        if op.likens:
            inputs = self._tensors.tensors_in(args.positional[:1], w)
        if op.multiplies and len(inputs) == 1 and not args.open:
            factors = [v for v in map(w.resolve, args) if not (isinstance(v, Const) and isinstance(v.value, str))]
            op = replace(op, saves="other" if len(factors) > 1 else "")
        result = self.result(op, inputs, args, w, site, parameters, device)
        if result.requires_grad and result.doubtful:
            lists = (w.get(w.resolve(value), Sequence) for value in args)
            result.doubtful = result.doubtful.difference(*(each.held for each in lists if each is not None))
        if op.result == "pair" or (op.result == "pair_by_dim" and self._reduces_dim(args, w)):
            pair = self._pair(result, w, site)
            values = w.get(pair, Sequence)
            if values is not None and isinstance(values.items[0], Ref):
                self._uses.ranked(op, inputs, values.items[0], w)
                self._memory.saved(op, inputs, values.items[0], bool(parameters), w)
            return pair
        ref = w.new(result)
        self._memory.saved(op, inputs, ref, bool(parameters), w)
        self._plain.combined(op, inputs, ref, bool(parameters), w, ctx)
        if op.result == "tensors":
            return w.new(Sequence([], [], ref, site, False))
        beside = [w.new(_indices(result, site)) for name in op.beside if _is_true(args.keywords.get(name), w)]
        return w.new(Sequence([ref, *beside], [None] * (len(beside) + 1), None, None, False)) if beside else ref

    def packed(self, data: Value, w: World, site: Site) -> Ref:
        """A ``PackedSequence`` of these values: its ``data`` is a field."""
        rest: list[Value] = [self._tensors.leaf(w, site, integral=True) for _ in PACKED_FIELDS[1:]]
        return w.new(Sequence([data, *rest], [None] * len(PACKED_FIELDS), None, None, False, PACKED_FIELDS))

    def _is_nothing(self, args: Arguments, w: World) -> bool:
        """Whether the first argument is a list that is sure to be empty."""
        items = w.get(w.resolve(args.positional[0]), Sequence) if args.positional else None
        return items is not None and not items.items and items.tail is None

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
        ref = self._tensors.leaf(
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
        new.cut = self._breaks.copied(values, w, site)
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
        grads = [self._tensors.requires_grad(v, w) for v in inputs]
        grads += [self._tensors.group_grad(key, w) for key in sorted(parameters)]
        requires_grad: bool | None = True if True in grads else (None if None in grads else False)
        integers = op.integral or self._casts_to_integers(op, args, w)
        if op.grad == "never" or integers or w.grad is False:
            requires_grad = False
        elif w.grad is None and requires_grad:
            requires_grad = None
        is_leaf = None if requires_grad is None else not requires_grad
        new = Tensor(requires_grad=requires_grad, is_leaf=is_leaf, is_parameter=False, made_at=site, open=False)
        self._residuals.computed(op, new, inputs, w)
        new.average, new.scaled = average_of(op, tensors, self._has_dim(args)), any(t.scaled for t in tensors)
        if requires_grad is not False:
            self._extend_graph(op, new, inputs, tensors, parameters, w)
        new.loaded = not parameters and self._is_data(inputs[:1] if op.view else inputs, w)
        new.calls = self._graphs.computed_from([*args, *inputs], w)
        if new.requires_grad is not False:
            new.regressions = tuple(dict.fromkeys(each for t in tensors for each in t.regressions))
            new.spreads = tuple(dict.fromkeys(each for t in tensors for each in t.spreads))
        self._breaks.result(op, inputs if op.likens else list(args), inputs, new, bool(parameters), w, site)
        self._shape(op, new, first, tensors, inputs, args, w, site)
        if integers:
            new.integral = True
        elif first is not None and op.activation == "keeps":
            new.places = first.places
        if len(tensors) == 1 and (op.size in ("keeps", "broadcast") or self._made_of_numbers(tensors[0])):
            new.asked_at = tensors[0].asked_at
        new.device = layer_device if layer_device in _GPU else self._device(op, inputs, args, w)
        if new.device in _GPU:
            new.moved_at = site if op.device != "inputs" else next((t.moved_at for t in tensors if t.moved_at), site)
            if op.device != "cuda" and layer_device not in _GPU:
                new.device_if_tensor = self._placement.unproven(tensors)
        new.gradient_of = self._tensors.gradient_of(inputs, w)
        if first is not None and (op.view or (op.looks and first.is_parameter)):
            self._look_into(new, inputs[0], first, w)
        if first is not None and first.structured and op.activation == "keeps":
            new.structured, new.on_device_as_one = True, first.on_device_as_one
        return new

    def _extend_graph(
        self,
        op: Op,
        new: Tensor,
        inputs: list[Value],
        tensors: list[Tensor],
        parameters: frozenset[int],
        w: World,
    ) -> None:
        """What is recorded: the graphs of the inputs, and one segment more if the operation saves any tensor."""
        new.deps = united([parameters, *(self._tensors.deps(v, w) for v in inputs)])
        new.open = any(
            (t.open if (t := w.get(v, Tensor)) is not None else isinstance(v, Unknown) and carries_graph(v))
            for v in inputs
        )
        new.segments = united(t.segments for t in tensors)
        new.reaches = united(self._graphs.presumed(v, w) for v in inputs)
        if op.saves and len(new.segments) < _LONG:
            # A layer needs its weights to pass gradients on to its input, if that wants any.
            weights = parameters if any(self._tensors.requires_grad(v, w) for v in inputs) else frozenset[int]()
            new.segments |= {w.new(Segment(weights=weights)).id}
        new.doubtful = new.segments if new.requires_grad is None else united(t.doubtful for t in tensors)
        if new.requires_grad is None:
            new.recorded = w.grad is True
            new.presumed = new.recorded and any(self._tensors.presumed(v, w) for v in inputs)
            new.whole_output = new.presumed and any(t.whole_output for t in tensors)
            new.sources = tuple(
                v.id for v in inputs if isinstance(v, Ref) and self._tensors.requires_grad(v, w) is None
            )
            new.results = tuple(v for v in inputs if isinstance(v, Unknown) and carries_graph(v))

    def _look_into(self, new: Tensor, viewed: Value, first: Tensor, w: World) -> None:
        """A view shares what it looks into, and is what that is."""
        if isinstance(viewed, Ref):
            new.base = self._tensors.root(viewed.id, w)
        new.data_of, new.data_at = first.data_of, first.data_at
        new.is_gradient = first.is_gradient
        if first.groups and w.grad is False:
            new.groups = first.groups

    def _is_data(self, values: list[Value], w: World) -> bool:
        return bool(values) and all(self._tensors.is_data(value, w) for value in values)

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
            if first is not None:
                new.activation, new.activation_at, new.nudged = first.activation, first.activation_at, first.nudged
                new.activated, new.activated_at = first.activated, first.activated_at
            if not op.picks and any(t.activation != new.activation for t in tensors):
                new.activation = None
        elif op.activation == "bounds":
            new.activation = first.activation if first is not None and _is_probability(first) else "none"
            new.activation_at = first.activation_at if first is not None else None
            new.nudged = "none"
        elif op.activation == "averages" and first is not None and _is_probability(first) and self._has_dim(args):
            new.activation, new.activation_at = first.activation, first.activation_at
            new.nudged = "none"
        elif op.activation in ("combines", "scales", "mixes", "averages"):
            combined = self.combined_logits(op, inputs, w)
            term = self._unbounded_term(op, inputs, w) if combined is None else combined
            new.activation = "none" if term is None else "logits" if combined is not None else "unbounded"
            new.activation_at = None if term is None else term.activation_at
        elif op.activation == "clears":
            new.activation = "none"
        else:
            new.activation, new.activation_at = op.activation, site
            if op.activation in _NORMALIZING and first is not None and _is_probability(first):
                new.activated, new.activated_at = first.activation, first.activation_at
        if op.integral:
            new.integral, new.places = True, op.ranks
        elif first is not None and op.grad != "never":
            new.integral = first.integral if op.activation == "keeps" else (False if new.requires_grad else None)
        if new.requires_grad:
            new.integral = False
        if op.size in ("one", "many"):
            new.size = op.size
            new.shape = () if op.size == "one" else new.shape
        elif op.size == "keeps":
            new.size = first.size if first is not None else None
        elif op.size == "reduces":
            if not self._has_dim(args):
                new.size, new.shape = "one", None if "keepdim" in args.keywords else ()
        elif op.size == "broadcast":
            sizes = {t.size for t in tensors}
            figures = sum(isinstance(value, Unknown) and is_figure(value) for value in map(w.resolve, inputs))
            unknown_input = len(tensors) + figures < len(inputs)
            if "many" in sizes:
                new.size = "many"
            elif "samples" in sizes:
                new.size = "samples"
            elif sizes == {"one"} and not unknown_input:
                new.size = "one"

    def combined_logits(self, op: Op, inputs: list[Value], w: World) -> Tensor | None:
        """The first of what an operation sums or scales that is no number, if the result is logits as well.

        A parameter that is added, as a bias of its own, leaves them what they are.
        """
        tensors = [w.get(value, Tensor) for value in inputs if not (isinstance(value, Unknown) and is_number(value))]
        if op.activation == "combines":
            tensors = [tensor for tensor in tensors if tensor is None or not tensor.is_parameter]
        logits = [tensor for tensor in tensors if tensor is not None and tensor.activation == "logits"]
        some = len(logits) < len(tensors) and op.activation != "mixes"
        if not logits or some or (op.activation == "scales" and len(logits) > 1):
            return None
        return logits[0]

    def _unbounded_term(self, op: Op, inputs: list[Value], w: World) -> Tensor | None:
        """The logits in a sum of things that are trained: it may be any number, as they may."""
        tensors = [w.get(value, Tensor) for value in inputs if not (isinstance(value, Unknown) and is_number(value))]
        if op.activation != "combines" or not all(tensor is not None and tensor.requires_grad for tensor in tensors):
            return None  # what carries no graph may be there to take the place of the logits
        return next((tensor for tensor in tensors if tensor and tensor.activation in ("logits", "unbounded")), None)

    def _device(self, op: Op, inputs: list[Value], args: Arguments, w: World) -> str | None:
        if moves_some(op, args, w):
            return None
        if op.device in ("cpu", "cuda"):
            return op.device
        if op.device == "unknown":
            return self._device_of_type(args, w) if op.casts else None
        if op.device in ("argument", "to") or "device" in args.keywords:
            given = args.keywords.get("device")
            if given is None and op.device == "to":
                position = [
                    a for a in args.positional[1:] if not getattr(w.resolve(a), "name", "").startswith("torch.")
                ]
                given = position[0] if position else None
                if given is None:
                    return self._where(args.positional[:1], w)
            if given is None and op.copies and w.get(w.resolve(args.get(0) or NONE), Tensor) is not None:
                return self._where(args.positional[:1], w)  # torch.tensor(t) is where t is
            if given is None:
                return None if args.open else "cpu"
            return device_of(w.resolve(given), w)
        return self._where(inputs, w)

    def _device_of_type(self, args: Arguments, w: World) -> str | None:
        """Where ``x.type(kind)`` is, which may name the type of another tensor."""
        given = args.get(1, "dtype") or args.get(1, "other")
        kind = w.resolve(given) if given is not None else NONE
        if w.get(kind, Tensor) is not None:
            return self._where([kind], w)
        name = kind.value if isinstance(kind, Const) else kind.name if isinstance(kind, External) else ""
        told = device_of_type(name) if isinstance(name, str) else None
        return self._where(args.positional[:1], w) if told == "same" else told

    def _where(self, inputs: Iterable[Value], w: World) -> str | None:
        """The device of what is computed from values."""
        values = [v for v in map(w.resolve, inputs) if not (isinstance(v, Unknown) and is_number(v))]
        tensors = [w.get(value, Tensor) for value in values]
        devices = {tensor.device if tensor is not None else None for tensor in tensors}
        if "cuda" in devices:
            return "cuda"
        if CHOSEN in devices and devices <= {CHOSEN, "cpu"}:
            return CHOSEN
        if devices == {None}:
            devices = {tensor.device_if_tensor if tensor is not None else None for tensor in tensors}
        return devices.pop() if len(devices) == 1 else None

    def arithmetic(self, symbol: str, left: Value, right: Value, w: World, ctx: Context, site: Site) -> Value:
        """``left symbol right`` where one of them is a tensor."""
        op = _ARITHMETIC.get(symbol, Op(saves="", size="broadcast"))
        if symbol == "/" and w.get(w.resolve(left), Tensor) is None:
            op = replace(op, activation="clears")
        if symbol == "**" and w.get(w.resolve(right), Tensor) is None:
            op = replace(op, saves="input")  # the result too is needed where the exponent is a tensor
        result = self.apply(op, Arguments([left, right]), w, ctx, site)
        self._tensors.suppose(result, [left, right], w)
        self._tensors.traced(result, partial(Operation, symbol), [left, right], w)
        made = w.get(result, Tensor)
        if made is not None and made.size is None and self._residual(symbol, left, right, w):
            assert isinstance(result, Ref)
            w.write(result.id).size = "samples"
        self._estimates.combined(symbol, left, right, result, w, site)
        self._breaks.combined(symbol, left, right, result, w, site)
        if symbol in _ELEMENTWISE:
            self._shapes.combined(left, right, result, w)
        if symbol == "-":
            self._broadcasts.subtracted(left, right, result, w, site)
        if symbol == "@":
            self._shapes.applied("matmul", op, Arguments([left, right]), result, w)
        self._legacy.computed(symbol, [left, right], result, w, site)
        return result

    def _residual(self, symbol: str, left: Value, right: Value, w: World) -> bool:
        """Data is subtracted from what a module returned, or the other way round: one value for each sample."""
        if symbol != "-":
            return False
        for output, data in ((left, right), (right, left)):
            tensor = w.get(w.resolve(output), Tensor)
            if tensor is not None and tensor.presumed and tensor.structured and isinstance(w.resolve(data), Unknown):
                return not self._breaks.carries(data, w, presume_data=True)
        return False

    def compare(self, symbol: str, left: Value, right: Value, w: World, ctx: Context, site: Site) -> Value:
        """A comparison where one side is a tensor."""
        result = self.apply(_INTEGRAL, Arguments([left, right]), w, ctx, site)
        self._tensors.traced(result, partial(Comparison, symbol), [left, right], w)
        return result


def _is_probability(tensor: Tensor) -> bool:
    """Whether a tensor is known to hold probabilities."""
    return tensor.activation in ("softmax", "sigmoid")


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
        calls=values.calls,
    )


def _is_true(flag: Value | None, w: World) -> bool:
    return flag is not None and w.resolve(flag) == Const(True)
