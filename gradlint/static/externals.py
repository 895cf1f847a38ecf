"""Calls of what is outside the project: torch, the standard library, numpy and the rest, by canonical name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.context import Arguments, Context
from gradlint.static.flow import Results
from gradlint.static.ops import Dropout, Op
from gradlint.static.torch_table import (
    AUTOCASTS,
    CLIPS,
    DEPRECATED_INITS,
    DROPOUTS,
    FRAMEWORKS,
    FUNCTIONS,
    GRAD_MODES,
    INITS,
    LAYERS,
    LOADERS,
    LOSSES,
    OPTIMIZERS,
    PASSED_THROUGH,
    SCALERS,
    SCHEDULERS,
    builds_module,
    canonical,
    conversion,
    is_harmless,
)
from gradlint.static.values import (
    NONE,
    Class,
    Const,
    External,
    Function,
    Group,
    Instance,
    Mapping,
    Namespace,
    Object,
    Partial,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.world import World, fresh

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.interpreter import Interpreter

Handler = Callable[[Arguments, World, Context, "Site"], Value]


class Externals:
    """Knows what is outside the project."""

    def __init__(self, machine: Interpreter) -> None:
        self.m = machine
        self._python: dict[str, Handler] = {
            "builtins.range": self._range,
            "builtins.enumerate": self._enumerate,
            "builtins.zip": self._zip,
            "itertools.zip_longest": self._zip,
            "builtins.list": self._list,
            "builtins.tuple": self._list,
            "builtins.set": self._list,
            "builtins.sorted": self._list,
            "builtins.reversed": self._reversed,
            "builtins.iter": self._first,
            "builtins.next": self._next,
            "builtins.filter": self._filter,
            "builtins.map": self._map,
            "itertools.chain": self._chain,
            "itertools.chain.from_iterable": self._chain_items,
            "itertools.cycle": self._first,
            "collections.deque": self._list,
            "builtins.dict": self._dict,
            "collections.OrderedDict": self._dict,
            "collections.defaultdict": lambda a, w, c, s: w.new(Mapping()),
            "argparse.Namespace": lambda a, w, c, s: w.new(Instance(name="argparse.Namespace", attrs=dict(a.keywords))),
            "types.SimpleNamespace": lambda a, w, c, s: w.new(Instance(name="namespace", attrs=dict(a.keywords))),
            "builtins.sum": self._sum,
            "builtins.len": lambda a, w, c, s: self.m.python.length(w.resolve(a.get(0) or NONE), w),
            "builtins.getattr": self._getattr,
            "builtins.setattr": self._setattr,
            "builtins.hasattr": self._hasattr,
            "builtins.isinstance": self._isinstance,
            "builtins.type": self._type,
            "builtins.bool": self._bool,
            "builtins.int": self._convert,
            "builtins.float": self._convert,
            "builtins.str": self._convert,
            "functools.partial": self._partial,
            "functools.wraps": lambda a, w, c, s: w.new(Instance(kind="decorator")),
            "copy.deepcopy": self._deepcopy,
            "copy.copy": self._first,
            "collections.namedtuple": self._namedtuple,
            "torch.device": lambda a, w, c, s: w.resolve(a.get(0, "type") or NONE),
            "torch.autograd.Variable": self._variable,
            "torch.nn.Parameter": self._parameter,
            "torch.nn.parameter.Buffer": self._first,
            "torch.autograd.backward": self._backward,
            "torch.autograd.grad": self._grad,
            "torch.utils.checkpoint.checkpoint": self._checkpoint,
            "torch.is_grad_enabled": lambda a, w, c, s: (
                Unknown(("grad enabled", fresh())) if w.grad is None else Const(w.grad)
            ),
            "torch.cuda.is_available": lambda a, w, c, s: Unknown("torch.cuda.is_available()"),
            "torch.set_grad_enabled": self._set_grad,
            "torch.nn.utils.parameters_to_vector": self._vector,
            "torch.func.functional_call": self._functional_call,
            "torch.nn.utils.stateless.functional_call": self._functional_call,
        }

    def call(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call ``name``."""
        if name == "torch.utils.checkpoint.checkpoint" and args.positional:
            rest = Arguments(args.positional[1:], {}, args.open)
            self._read_all(rest, w, ctx, site)
            return self.m.calls.call(args.positional[0], rest, w, ctx, site)
        return [(w, self._call(name, args, w, ctx, site))]

    def _call(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        self.m.legacy.called(name, args, w, ctx, site)
        handler = self._python.get(name)
        if handler is not None:
            return handler(args, w, ctx, site)
        if name.endswith(".__init__") and args.positional:
            self.m.construction.initialized(w.resolve(args.positional[0]), w, ctx, site)
        if name in GRAD_MODES:
            return self._grad_mode(name, args, w, ctx, site)
        dropout = DROPOUTS.get(name)
        if dropout is not None:
            self._dropout(dropout, args, w, ctx, site)
        loss = LOSSES.get(name)
        if loss is not None:
            if name.rpartition(".")[2][0].isupper():
                attrs = {k: v for k, v in args.keywords.items() if k == "reduction"}
                return w.new(Instance(name=name, kind="loss", loss=loss, attrs=attrs, made_at=site))
            return self.m.modules.loss(loss.name, loss, None, args, w, ctx, site)
        op = FUNCTIONS.get(name)
        if op is not None:
            return self._function(name, op, args, w, ctx, site)
        layer = LAYERS.get(name)
        if layer is not None:
            return self.m.modules.layer(name, layer, args, w, ctx, site)
        return self._known(name, args, w, ctx, site)

    def _known(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if name.startswith("numpy.") and "out" in args.keywords:
            self.m.memory.array_changed(w.resolve(args.keywords["out"]), w, ctx, site)
        converted = conversion(name)
        if converted is not None:
            return self._to_numpy(converted, args, w, ctx, site)
        if name in OPTIMIZERS:
            groups = self.m.modules.groups_in(args.get(0, "params") or NONE, w)
            self._read_inputs(groups, w, ctx, site)
            self.m.construction.handed_over(groups, w)
            return w.new(Instance(name=name, kind="optimizer", groups=groups, made_at=site))
        if name in PASSED_THROUGH:
            return w.resolve(args.get(0) or NONE)
        if name in SCALERS:
            return w.new(Instance(name=name, kind="scaler"))
        if name in SCHEDULERS:
            return w.new(Instance(name=name, kind="scheduler"))
        if name in LOADERS:
            return w.new(Instance(name=name, kind="loader", args=tuple(args.positional)))
        if name in AUTOCASTS:
            return Unknown(("autocast", fresh()))
        if name in INITS or name in DEPRECATED_INITS:
            before, w.grad = w.grad, False
            self.m.tensors.in_place(name.rpartition(".")[2], args.get(0, "tensor") or NONE, [], w, ctx, site)
            w.grad = before
            return args.get(0, "tensor") or NONE
        if name in CLIPS:
            return Unknown(("norm", fresh()))
        if builds_module(name):
            return self.m.modules.opaque(w, name, site, True)
        if name in FRAMEWORKS:
            return self._framework(FRAMEWORKS[name], args, w, ctx, site)
        if name.startswith("torch.optim.swa_utils."):
            return self.m.modules.opaque(w, name, site, None)
        if name.startswith("tqdm.") or name in ("tqdm", "tqdm.tqdm", "tqdm.auto.tqdm", "rich.progress.track"):
            return w.resolve(args.get(0, "iterable") or Unknown(("tqdm", fresh())))
        if is_harmless(name):
            return Unknown(("number", fresh()))
        return self.m.unknown_call(External(name), args, w, ctx, site)

    def _framework(self, kind: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if kind == "deepspeed":
            engine = w.new(Instance(name="engine", kind="engine"))
            rest = [Unknown(("deepspeed", fresh()), "engine") for _ in range(3)]
            return w.new(Sequence([Unknown(("deepspeed", engine), "engine"), *rest], [None] * 4, None, None, False))
        if kind in ("accelerate", "fabric"):
            return w.new(Instance(name=kind, kind="accelerate"))
        return w.new(Instance(name=kind, kind="trainer"))

    # --- torch

    def _function(self, name: str, op: Op, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        out = args.keywords.get("out")
        if op.inplace and args.positional:
            self.m.tensors.in_place(name.rpartition(".")[2], args.positional[0], args.positional[1:], w, ctx, site)
            return args.positional[0]
        inplace = w.resolve(args.keywords.get("inplace", Const(False)))
        if inplace == Const(True) and args.positional:
            self.m.tensors.in_place(name.rpartition(".")[2] + "_", args.positional[0], [], w, ctx, site)
        given = Arguments(list(args.positional), {k: v for k, v in args.keywords.items() if k != "out"}, args.open)
        value = self.m.tensors.apply(op, given, w, ctx, site)
        self.m.shapes.applied(name.rpartition(".")[2], op, given, value, w)
        if name == "torch.from_numpy" and given.positional:
            self.m.memory.share(w.resolve(given.positional[0]), value, w, from_numpy=True)
        if out is not None:
            self.m.tensors.in_place("out=", out, list(given), w, ctx, site)
            return w.resolve(out)
        return value

    def _dropout(self, dropout: Dropout, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        probability = args.get(dropout.probability, dropout.keyword)
        probability = w.resolve(probability) if probability is not None else None
        guarded = isinstance(probability, Unknown) and probability.hint == "mode"
        inert: Fact[bool] = unknown()
        if isinstance(probability, Const):
            inert = known(probability.value in (0, 0.0))
        elif probability is None:
            inert = known(not dropout.default)
        elif dropout.training is None and not guarded:
            # Without a training argument the probability is all there is: only a known one is proof.
            inert = unknown()
        given: Fact[bool] = (
            unknown()
            if args.open
            else known(dropout.training is not None and args.get(dropout.training, "training") is not None)
        )
        self.m.witness.send(
            events.DropoutCalled(
                site=site,
                function=dropout.name,
                training_given=given,
                drops_by_default=dropout.drops_by_default,
                in_module=known(ctx.in_forward),
                mode_checked=known(w.module_checked or guarded),
                inert=inert,
            ),
            w,
            ctx,
        )

    def _grad_mode(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        mode = GRAD_MODES[name]
        first = args.get(0)
        if first is not None and isinstance(w.resolve(first), Function) and mode != "argument":
            from dataclasses import replace

            function = w.resolve(first)
            assert isinstance(function, Function)
            return replace(function, grad=mode == "on")
        grad: bool | None = mode == "on"
        if mode == "argument" or (args.positional and name.endswith("inference_mode")):
            value = w.resolve(args.get(0, "mode") or Const(True))
            truth = self.m.expressions.truth(value, w)
            answer = truth[0]
            if answer is None and truth[1] in w.assumed:
                answer = w.assumed[truth[1]] is not truth[2]
            grad = answer
            if name.endswith("inference_mode"):
                grad = None if answer is None else not answer
        return w.new(Instance(name=name, kind="gradmode", grad=grad))

    def _set_grad(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        manager = self._grad_mode("torch.set_grad_enabled", args, w, ctx, site)
        obj = w.get(manager, Instance)
        if obj is not None:
            w.grad = obj.grad
        return manager

    def _to_numpy(self, converted: object, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        from gradlint.static.ops import Conversion

        assert isinstance(converted, Conversion)
        positions = range(len(args.positional)) if converted.positions is None else converted.positions
        values = [args.positional[p] for p in positions if p < len(args.positional)]
        values += [args.keywords[k] for k in converted.keywords if k in args.keywords]
        for which, value in enumerate(values):
            value = w.resolve(value)
            sequence = w.get(value, Sequence)
            if sequence is not None and converted.sequence:
                pairs = list(zip(sequence.items, sequence.sites, strict=False))
                if sequence.tail is not None:
                    pairs.append((sequence.tail, sequence.tail_site))
                for number, (item, kept_at) in enumerate(pairs[:1] + pairs[-1:]):
                    how = converted.display
                    self.m.methods.converted(item, how, w, ctx, site, kept_at, 2 * which + number)
            elif w.get(value, Tensor) is not None and converted.tensor:
                self.m.methods.converted(value, converted.display, w, ctx, site, which=2 * which)
        array = w.new(Instance(name="numpy.ndarray", kind="array", made_at=site))
        return self.m.cuts.note(array, values, "numpy", w, site)

    def _variable(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(0) or NONE)
        asked = w.resolve(args.get(1, "requires_grad") or Const(False))
        volatile = w.resolve(args.keywords.get("volatile", Const(False)))
        flag = bool(asked.value) if isinstance(asked, Const) else None
        tensor = w.get(value, Tensor)
        if volatile != Const(False):
            return Unknown(("variable", fresh()))
        if tensor is None:
            if flag is False and isinstance(value, Unknown):
                return value
            leaf = self.m.tensors.leaf(w, site, requires_grad=flag, device=None)
            self.m.tensors.copied(leaf, [value], w, site)
            return leaf
        new = self.m.tensors.leaf(
            w,
            site,
            requires_grad=flag,
            device=tensor.device,
            size=tensor.size,
            integral=tensor.integral,
            activation=tensor.activation,
        )
        self.m.tensors.copied(new, [value], w, site)
        return new

    def _parameter(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        asked = w.resolve(args.get(1, "requires_grad") or Const(True))
        flag = bool(asked.value) if isinstance(asked, Const) else None
        data = w.get(w.resolve(args.get(0, "data") or NONE), Tensor)
        group = w.new(Group(flag, made_at=site)).id
        return self.m.tensors.parameter([group], w, site, data.device if data is not None else "cpu")

    def _backward(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        roots = w.resolve(args.get(0, "tensors") or NONE)
        sequence = w.get(roots, Sequence)
        for root in sequence.items if sequence is not None else [roots]:
            self.m.methods.backward(root, Arguments([], args.keywords), w, ctx, site)
        return NONE

    def _grad(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``torch.autograd.grad``: returns gradients, adds to none, and frees the graph unless told otherwise."""
        inputs = self.m.tensors.tensors_in([args.get(1, "inputs") or NONE], w)
        groups: frozenset[int] = frozenset()
        for value in inputs:
            tensor = w.get(value, Tensor)
            if tensor is not None:
                groups |= tensor.groups or tensor.deps
        instance = w.get(w.resolve(args.get(1, "inputs") or NONE), Instance)
        if instance is not None:
            groups |= instance.groups
        self.m.witness.read(groups, w, ctx, site)
        create = w.resolve(args.get(4, "create_graph") or Const(False))
        retain_given = args.get(3, "retain_graph")
        retain = w.resolve(retain_given if retain_given is not None and w.resolve(retain_given) != NONE else create)
        flag = bool(retain.value) if isinstance(retain, Const) else None
        for value in self.m.tensors.tensors_in([args.get(0, "outputs") or NONE], w):
            root = w.get(value, Tensor)
            if root is not None:
                view = self.m.tensors.view_of(value, w)
                self.m.witness.send(
                    events.Backward(site=site, root=view, accumulates=False, retain_graph=known(bool(flag))), w, ctx
                )
                self.m.memory.walked(root, w, ctx, site)
                self.m.methods.free(root, flag, w, site)
        result = self.m.tensors.apply(Op(activation="none"), Arguments(list(inputs)), w, ctx, site)
        if isinstance(result, Ref) and w.get(result, Tensor) is not None:
            new: Tensor = w.write(result.id)
            new.gradient_of = groups
            if create == Const(False):
                new.requires_grad, new.deps, new.segments, new.open = False, frozenset(), frozenset(), False
            else:
                new.requires_grad = None
        return w.new(Sequence([], [], result, site, False))

    def _checkpoint(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return self.m.unknown_call(External("torch.utils.checkpoint.checkpoint"), args, w, ctx, site)

    def _functional_call(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return self.m.unknown_call(External("torch.func.functional_call"), args, w, ctx, site)

    def _vector(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        groups = self.m.modules.groups_in(args.get(0) or NONE, w)
        return self.m.tensors.apply(Op(), Arguments(), w, ctx, site, parameters=groups)

    def applied(self, cls: Class, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``MyFunction.apply(...)``: an operation whose backward the user wrote."""
        forward = self.m.definitions.attribute(cls, "forward", w)
        if isinstance(forward, Function):
            self.m.called.add(forward.unit)
        return self.m.tensors.apply(Op(activation="unknown", saves="other"), args, w, ctx, site)

    def _read_inputs(self, groups: frozenset[int], w: World, ctx: Context, site: Site) -> None:
        self.m.witness.read(groups, w, ctx, site)

    def _read_all(self, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        for value in self.m.tensors.tensors_in(args, w):
            tensor = w.get(value, Tensor)
            if tensor is not None and tensor.groups and not tensor.is_parameter:
                self.m.witness.read(tensor.groups, w, ctx, site)

    # --- Python

    def _first(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return w.resolve(args.get(0) or NONE)

    def _range(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        values = [w.resolve(a) for a in args.positional]
        if all(isinstance(v, Const) and isinstance(v.value, int) for v in values) and 1 <= len(values) <= 3:
            try:
                numbers = range(*(v.value for v in values if isinstance(v, Const)))
            except (TypeError, ValueError):
                return Unknown(("range", fresh()))
            if len(numbers) <= 4:
                return w.new(Sequence([Const(n) for n in numbers], [None] * len(numbers), None, None, False))
        return w.new(Sequence([], [], Unknown(("range", fresh())), None, False))

    def _items(self, value: Value, w: World, ctx: Context, site: Site) -> tuple[list[Value] | None, Value]:
        items = self.m.python.iterate(value, w, ctx, site)
        return items.known, (items.element(w, ctx) if items.known is None else NONE)

    def _enumerate(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        if known_items is not None:
            pairs: list[Value] = [
                w.new(Sequence([Const(n), v], [None, None], None, None, False)) for n, v in enumerate(known_items)
            ]
            return w.new(Sequence(pairs, [None] * len(pairs)))
        pair = w.new(Sequence([Unknown(("index", fresh()), "i"), element], [None, None], None, None, False))
        return w.new(Sequence([], [], pair))

    def _zip(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        columns = [self._items(value, w, ctx, site) for value in args.positional]
        known_columns = [c for c, _ in columns if c is not None]
        if known_columns and len(known_columns) == len(columns):
            rows: list[Value] = [
                w.new(Sequence(list(row), [None] * len(row), None, None, False))
                for row in zip(*known_columns, strict=False)
            ]
            return w.new(Sequence(rows, [None] * len(rows)))
        length = min((len(c) for c in known_columns), default=None)
        if length is not None and length <= 4:
            rows = []
            for n in range(length):
                row = [c[n] if c is not None else element for c, element in columns]
                rows.append(w.new(Sequence(row, [None] * len(row), None, None, False)))
            return w.new(Sequence(rows, [None] * len(rows)))
        row = [self._any(c, w) if c else element for c, element in columns]
        return w.new(Sequence([], [], w.new(Sequence(row, [None] * len(row), None, None, False))))

    def _any(self, values: list[Value], w: World) -> Value:
        joined = values[0]
        for value in values[1:]:
            joined = self.m.join_values(joined, value, w)
        return joined

    def _list(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if not args.positional:
            return w.new(Sequence())
        value = w.resolve(args.positional[0])
        obj = w.get(value, Object)
        if isinstance(obj, Instance) and obj.kind == "parameters":
            return value
        if isinstance(obj, Sequence):
            return w.new(Sequence(list(obj.items), list(obj.sites), obj.tail, obj.tail_site))
        known_items, element = self._items(value, w, ctx, site)
        if known_items is not None:
            return w.new(Sequence(list(known_items), [None] * len(known_items)))
        return w.new(Sequence([], [], element))

    def _reversed(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        ref = self._list(args, w, ctx, site)
        obj = w.get(ref, Sequence)
        if obj is not None and obj.tail is None and isinstance(ref, Ref):
            new = w.write(ref.id)
            new.items.reverse()
            new.sites.reverse()
        return ref

    def _next(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        return (known_items[0] if known_items else Unknown(("next", fresh()))) if known_items is not None else element

    def _filter(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(1) or NONE)
        obj = w.get(value, Instance)
        if obj is not None and obj.kind == "parameters":
            kept = frozenset(g for g in obj.groups if getattr(w.find(g), "requires_grad", None) is not False)
            return w.new(Instance(kind="parameters", groups=kept))
        return value

    def _map(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        function = args.get(0) or NONE
        known_items, element = self._items(args.get(1) or NONE, w, ctx, site)
        values = known_items if known_items is not None else [element]
        out = []
        for number, value in enumerate(values):
            here = ctx.at(site, number)
            out.append(self.m.calls.joined(self.m.calls.call(function, Arguments([value]), w, here, site), w))
        if known_items is not None:
            return w.new(Sequence(out, [None] * len(out)))
        return w.new(Sequence([], [], out[0]))

    def _chain(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        instances = [w.get(w.resolve(a), Instance) for a in args.positional]
        if instances and all(i is not None and i.kind == "parameters" for i in instances):
            groups = frozenset().union(*(i.groups for i in instances if i is not None))
            return w.new(Instance(kind="parameters", groups=groups))
        new = w.new(Sequence())
        for value in args.positional:
            self.m.python.extend(new, value, w, ctx, site)
        return new

    def _chain_items(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        return self._chain(Arguments(known_items if known_items is not None else [element]), w, ctx, site)

    def _dict(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        ref = w.new(Mapping())
        if args.positional:
            source = w.resolve(args.positional[0])
            pairs = w.get(source, Sequence)
            if pairs is not None:
                for item in pairs.items:
                    pair = w.get(w.resolve(item), Sequence)
                    if pair is not None and len(pair.items) == 2:
                        key = w.resolve(pair.items[0])
                        w.write(ref.id).items[key] = pair.items[1]
            else:
                self.m.python.update(ref, source, w, ctx)
        for name, value in args.keywords.items():
            w.write(ref.id).items[Const(name)] = value
        if args.open:
            w.write(ref.id).tail = Unknown(("kwargs", fresh()))
        return ref

    def _sum(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        known_items, element = self._items(args.get(0) or NONE, w, ctx, site)
        values = known_items if known_items is not None else [element]
        tensors = self.m.tensors.tensors_in(values, w)
        if any(w.get(v, Tensor) is not None for v in tensors):
            if len(values) == 1 and known_items is not None:
                return w.resolve(values[0])
            return self.m.tensors.apply(Op(saves="", size="broadcast"), Arguments(list(tensors)), w, ctx, site)
        deps: frozenset[int] = frozenset().union(*(v.deps for v in tensors if isinstance(v, Unknown)))
        return Unknown(("sum", fresh()), deps=deps)

    def _getattr(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        owner, name = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        if isinstance(name, Const) and isinstance(name.value, str):
            value = w.resolve(self.m.attributes.get(owner, name.value, w, ctx, site))
            default = args.get(2)
            if default is not None and isinstance(value, Unknown) and isinstance(owner, Ref):
                return value
            return value
        if isinstance(owner, External) and builds_module(f"{owner.name}.model"):
            return External(f"{owner.name}.model")
        if isinstance(owner, Namespace):
            return self.m.any_member(owner, w, ctx)
        return Unknown(("getattr", fresh()))

    def _setattr(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        owner, name = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        label = str(name.value) if isinstance(name, Const) else f"<{fresh()}>"
        self.m.attributes.set(owner, label, args.get(2) or NONE, w, ctx, site)
        return NONE

    def _hasattr(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        owner, name = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        obj = w.get(owner, Instance)
        if obj is not None and isinstance(name, Const):
            if name.value in obj.attrs:
                return Const(True)
            if obj.layer is not None and name.value in ("weight", "bias"):
                return Const(bool(obj.groups))
            if obj.cls is not None and self.m.definitions.attribute(obj.cls, str(name.value), w) is not None:
                return Const(True)
        return Unknown(("hasattr", owner, name))

    def _isinstance(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        subject, kind = w.resolve(args.get(0) or NONE), w.resolve(args.get(1) or NONE)
        sequence = w.get(kind, Sequence)
        kinds = [w.resolve(k) for k in sequence.items] if sequence is not None else [kind]
        answers = [self._is_a(subject, k, w) for k in kinds]
        if True in answers:
            return Const(True)
        if None in answers:
            return Unknown(("isinstance", subject, tuple(kinds)))
        return Const(False)

    def _is_a(self, subject: Value, kind: Value, w: World) -> bool | None:
        obj = w.get(subject, Object)
        name = kind.name if isinstance(kind, External) else ""
        if isinstance(subject, Const) and name.startswith("builtins."):
            import builtins

            python_type = getattr(builtins, name[9:], None)
            return isinstance(subject.value, python_type) if isinstance(python_type, type) else None
        if isinstance(obj, Instance):
            if isinstance(kind, Class):
                return obj.cls is not None and kind in self.m.definitions.mro(obj.cls)
            if name == "torch.nn.Module":
                return obj.kind in ("module", "lightning", "loss")
            if obj.layer is not None and name:
                return obj.name == name
            if obj.cls is not None and name:
                return name in self.m.definitions.external_bases(obj.cls)
            return None
        if isinstance(obj, Tensor):
            if name == "torch.Tensor":
                return True
            return False if name.startswith("builtins.") and not obj.structured else None
        if isinstance(obj, Sequence):
            if name in ("builtins.list", "builtins.tuple"):
                return (name == "builtins.list") is obj.mutable
            return False if name in ("torch.Tensor", "builtins.dict", "builtins.str") else None
        if isinstance(obj, Mapping):
            return name in ("builtins.dict", "collections.OrderedDict", "collections.abc.Mapping")
        return None

    def _type(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(0) or NONE)
        obj = w.get(value, Instance)
        if obj is not None:
            return obj.cls or External(obj.name)
        return Unknown(("type", value))

    def _bool(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(0) or NONE)
        truth, _key, _flipped = self.m.expressions.truth(value, w)
        return Const(truth) if truth is not None else value

    def _convert(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(0) or NONE)
        if isinstance(value, Const) or (isinstance(value, Unknown) and not self.m.cuts.carries(value, w, True)):
            return value
        return self.m.cuts.note(Unknown(("number", fresh())), [value], "number", w, site)

    def _partial(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if not args.positional:
            return Unknown(("partial", fresh()))
        return Partial(w.resolve(args.positional[0]), tuple(args.positional[1:]), tuple(args.keywords.items()))

    def _namedtuple(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        names = w.resolve(args.get(1, "field_names") or NONE)
        fields: tuple[str, ...] = ()
        sequence = w.get(names, Sequence)
        if isinstance(names, Const) and isinstance(names.value, str):
            fields = tuple(names.value.replace(",", " ").split())
        elif sequence is not None:
            fields = tuple(str(v.value) for v in sequence.items if isinstance(v, Const))
        return Partial(External("gradlint.namedtuple"), tuple(Const(f) for f in fields), ())

    def _deepcopy(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return self.m.clone(w.resolve(args.get(0) or NONE), w)


__all__ = ["Externals", "canonical"]
