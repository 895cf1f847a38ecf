"""Calls of what is outside the project: torch, the standard library, numpy and the rest, by canonical name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Dropout, Op
from gradlint.static.knowledge.torch_libraries import ANY_SCHEDULER
from gradlint.static.knowledge.torch_table import (
    AUTOCASTS,
    CLIPS,
    DEPRECATED_INITS,
    DROPOUTS,
    ENGINES,
    FOREIGN_PATHS,
    FUNCTION_TRANSFORMS,
    FUNCTIONS,
    GRAD_MODES,
    INITS,
    KEYED,
    LAYERS,
    LOADERS,
    LOSS_SETTINGS,
    LOSSES,
    NORM_CLIPS,
    OPTIMIZERS,
    PARTED,
    PASSED_THROUGH,
    PASSED_TOGETHER,
    RENAMING,
    RUN_APART,
    SCALERS,
    SCHEDULERS,
    TENSOR,
    TRIED,
    UNPICKLES,
    builds_module,
    conversion,
    is_harmless,
    iterates,
    saves,
    shows,
)
from gradlint.static.knowledge.torch_training import BUILT
from gradlint.static.python.builtins import BuiltinCalls
from gradlint.static.python.calls import Calls
from gradlint.static.python.collections import Collections
from gradlint.static.python.reflection import Reflection
from gradlint.static.python.streams import Streams
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.origins import Asked, Number, Setting, fresh
from gradlint.static.state.provenance import NUMPYS, made_by_library, mode_of
from gradlint.static.state.values import (
    NONE,
    Bound,
    Const,
    External,
    Function,
    Group,
    Instance,
    Lambda,
    Partial,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.autograd import Derivatives, Functional, GradModes
from gradlint.static.torch.batches import Batches, Loading
from gradlint.static.torch.building import ModuleBuilding
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.conversions import Conversions
from gradlint.static.torch.data_reads import DataReads
from gradlint.static.torch.distributions import Distributions
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.estimates import Estimates
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.legacy import Legacy
from gradlint.static.torch.library_models import LibraryModels
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.module_calls import ModuleCalls
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import LeftStatistics
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers, Scalers
from gradlint.static.torch.overwriting import Overwriting
from gradlint.static.torch.ownership import Grouping
from gradlint.static.torch.placement import DevicePlacement
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.shapes import Shapes
from gradlint.static.torch.state_dicts import Saving
from gradlint.static.torch.stepping import Pace, Stepping
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Uses

if TYPE_CHECKING:
    from gradlint.finding import Site


_PACK = Op(activation="keeps", saves="other", copies=True)
Handler = Callable[[Arguments, World, Context, "Site"], Value]
NamedHandler = Callable[[str, Arguments, World, Context, "Site"], Value]


class Externals:
    """Knows what is outside the project."""

    _reflection: Reflection
    _witness: Witness
    _calls: Calls
    _collections: Collections
    _streams: Streams
    _builtins: BuiltinCalls
    _tensors: Tensors
    _modules: Modules
    _breaks: GraphBreaks
    _graphs: Graphs
    _evaluation: Evaluation
    _legacy: Legacy
    _memory: Memory
    _plain: PlainTensors
    _uses: Uses
    _shapes: Shapes
    _left_statistics: LeftStatistics
    _loading: Loading
    _saving: Saving
    _estimates: Estimates
    _pace: Pace
    _placement: DevicePlacement
    _operations: Operations
    _grouping: Grouping
    _stepping: Stepping
    _construction: Construction
    _escapes: Escapes
    _module_building: ModuleBuilding
    _batches: Batches
    _optimizers: Optimizers
    _scalers: Scalers
    _library_models: LibraryModels
    _changes: Changes
    _data_reads: DataReads
    _overwriting: Overwriting
    _distributions: Distributions
    _module_calls: ModuleCalls
    _functional: Functional
    _conversions: Conversions
    _grad_modes: GradModes
    _derivatives: Derivatives

    def __init__(self) -> None:
        self._torch: dict[str, Handler] = {
            "torch.device": lambda a, w, c, s: w.resolve(a.get(0, "type") or NONE),
            "torch.is_tensor": lambda a, w, c, s: self._reflection.is_instance(
                w.resolve(a.get(0, "obj") or NONE), [External(TENSOR)], w
            ),
            "torch.autograd.Variable": self._variable,
            "torch.nn.Parameter": self._parameter,
            "torch.nn.parameter.Buffer": lambda a, w, c, s: w.resolve(a.get(0) or NONE),
            "torch.autograd.backward": self._derivatives.backward,
            "torch.autograd.grad": self._derivatives.grad,
            "torch.utils.checkpoint.checkpoint": self._checkpoint,
            "torch.is_grad_enabled": lambda a, w, c, s: new_unknown("grad mode") if w.grad is None else Const(w.grad),
            "torch.cuda.is_available": lambda a, w, c, s: Unknown(Setting("torch.cuda.is_available()")),
            "torch.load": self._loading.load,
            **dict.fromkeys(UNPICKLES, self._loading.unpickled),
            "torch.set_grad_enabled": self._grad_modes.set,
            "torch.nn.utils.parameters_to_vector": self._vector,
            "torch.nn.utils.rnn.pack_padded_sequence": self._pack,
            "torch.nn.utils.rnn.pack_sequence": self._pack,
            "torch.nn.utils.rnn.PackedSequence": self._pack,
            "torch.func.functional_call": self._functional.called,
            "torch.nn.utils.stateless.functional_call": self._functional.called,
            "torch.func.stack_module_state": self._functional.stacked,
            **{name: partial(self._functional.transformed, name) for name in FUNCTION_TRANSFORMS},
            "torch.optim.swa_utils.update_bn": self._left_statistics.estimated,
            "contextlib.ExitStack": self._grad_modes.exit_stack,
            "contextlib.AsyncExitStack": self._grad_modes.exit_stack,
        }
        families: tuple[tuple[Iterable[str], NamedHandler], ...] = (
            (OPTIMIZERS, self._optimizer),
            (PASSED_THROUGH, self._passed_through),
            (PASSED_TOGETHER, self._together),
            (SCALERS, lambda name, a, w, c, s: self._scalers.made(a, name, w, (s, c.key, name))),
            (SCHEDULERS, self._scheduler),
            (LOADERS, self._batches.loader),
            (AUTOCASTS, lambda name, a, w, c, s: new_unknown("autocast")),
            ((*INITS, *DEPRECATED_INITS), self._initialized),
            (CLIPS, self._clipped),
            (ENGINES, self._engine),
            (BUILT, lambda name, a, w, c, s: w.new(Instance(name=name, role=BUILT[name]))),
        )
        self._families = {name: handler for names, handler in reversed(families) for name in names}
        """Functions of which several are called alike; a name in several families is of the first."""

    def call(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """Call ``name``."""
        if name == "torch.utils.checkpoint.checkpoint" and args.positional:
            rest = Arguments(args.positional[1:], {}, args.open)
            self._read_all(rest, w, ctx, site)
            return self._calls.call(args.positional[0], rest, w, ctx, site)
        if name == "torch.nn.parallel.data_parallel" and args.positional:
            given = Arguments(self._module_calls.replicated(args, w), {}, args.open)
            return self._calls.call(args.positional[0], given, w, ctx, site)
        if name in RUN_APART:
            self._run_apart(name, args, w, ctx, site)
        elif name in TRIED:
            self._tried(name, args, w, ctx, site)
        elif name in KEYED and "key" in args.keywords:
            self._escapes.handed([args.keywords["key"]], w, ctx)
        return [(w, self._call(name, args, w, ctx, site))]

    def _run_apart(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """A function of the project runs in a process or thread of its own, on what is there now."""
        row = RUN_APART[name]
        function = w.resolve(args.get(*row.function) or NONE)
        if not isinstance(function, Function) and not (isinstance(function, Bound) and function.function is not None):
            return
        given = Arguments([new_unknown("rank", "rank")] if row.numbered else [])
        items = self._collections.iterate(args.get(*row.args) or w.new(Sequence()), w, ctx, site)
        given.positional += items.known or []
        given.open = items.known is None or "kwargs" in args.keywords
        apart = w.copy()
        apart.grad = True
        self._calls.call(function, given, apart, ctx, site)

    def _tried(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """A function is called again and again, on what is there now and what a library chooses for it."""
        row = TRIED[name]
        function = w.resolve(args.get(*row.function) or NONE)
        if isinstance(function, (Function, Lambda, Partial)) or (isinstance(function, Bound) and function.function):
            given = Arguments([new_unknown("tried", "trial") for _ in range(row.given)])
            self._calls.call(function, given, w.copy(), ctx.at("tried", site), site)

    def _call(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        self._legacy.called(name, args, w, ctx, site)
        self._saving.called(name, args, w, ctx, site)
        self._loading.downloaded(name, args, w)
        if name in FOREIGN_PATHS:
            return new_unknown("foreign path")
        handler = self._torch.get(name) or self._builtins.handlers.get(name)
        value = handler(args, w, ctx, site) if handler is not None else None
        if value is not None:
            return value
        if name.endswith(".__init__") and args.positional:
            self._construction.initialized(w.resolve(args.positional[0]), w, ctx, site)
        if name in GRAD_MODES:
            return self._grad_modes.manager(name, args, w, ctx, site)
        dropout = DROPOUTS.get(name)
        if dropout is not None:
            self._dropout(dropout, args, w, ctx, site)
        loss = LOSSES.get(name)
        if loss is not None:
            if name.rpartition(".")[2][0].isupper():
                attrs = {k: v for k, v in args.keywords.items() if k in LOSS_SETTINGS}
                criterion = Instance(name=name, role=roles.LOSS, loss=loss, attrs=attrs, made_at=site)
                return w.new(criterion, (site, ctx.key, name))
            return self._module_calls.loss(loss.name, loss, None, args, w, ctx, site)
        op = FUNCTIONS.get(name)
        if op is not None:
            return self._function(name, op, args, w, ctx, site)
        layer = LAYERS.get(name)
        if layer is not None:
            return self._module_building.layer(name, layer, args, w, ctx, site)
        return self._known(name, args, w, ctx, site)

    def _known(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if name.startswith("numpy.") and "out" in args.keywords:
            self._memory.array_changed(w.resolve(args.keywords["out"]), w, ctx, site)
        converted = conversion(name)
        if converted is not None:
            return self._conversions.call(converted, args, w, ctx, site)
        family = self._families.get(name)
        if family is not None:
            return family(name, args, w, ctx, site)
        distribution = self._distributions.built(name, args, w, ctx, site)
        if distribution is not None:
            return distribution
        if builds_module(name):
            return self._library_models.built(name, args, w, ctx, site)
        if name.startswith("torch.optim.swa_utils."):
            return self._modules.opaque(w, name, site, None, place=(site, ctx.key, name))
        if iterates(name):
            return w.resolve(args.get(0, "iterable") or new_unknown("iterated"))
        if is_harmless(name):
            self._uses.escaped(args, w)
            self._shown(name, args, w, ctx, site)
            if name.startswith("numpy."):
                number = made_by_library(name, w) or Unknown(Number(fresh(), NUMPYS), mode_of(*args))
                number = self._breaks.inherit(number, args, w)
                return self._graphs.reduced(number, [*args, *self._tensors.tensors_in(args, w)], w)
            return made_by_library(name, w) or self._batches.given(name, args, mode_of(*args), w)
        result = self._escapes.call(External(name), args, w, ctx, site)
        return made_by_library(name, w) or result

    def _optimizer(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        given = args.get(0, "params") or NONE
        self._streams.used(given, name, w, ctx, site, grouped_by="params")
        self._grouping.apart(given, w)
        self._grouping.divided(given, w, (site, ctx.key))
        groups = self._modules.groups_in(given, w)
        self._thaw(groups, w)
        self._witness.read(groups, w, ctx, site)
        self._construction.handed_over(groups, w)
        self._changes.trained |= groups
        self._changes.trains(groups, w, ctx, site)
        new = Instance(name=name, role=roles.OPTIMIZER, groups=groups, args=(given,), made_at=site, born=fresh())
        self._pace.built(new, args, w, site)
        return w.new(new, (site, ctx.key, name))

    def _scheduler(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        optimizer = args.get(0, "optimizer") or NONE
        self._optimizers.scheduled(optimizer, w, site)
        opaque = name == ANY_SCHEDULER or self._pace.may_count_batches(name, args, w, ctx)
        return w.new(Instance(name=name, role=roles.SCHEDULER, args=(optimizer,), opaque=opaque), (site, ctx.key, name))

    def _passed_through(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """What a call gives back that passes on its first argument."""
        given = w.resolve(args.get(0) or NONE)
        if name in PARTED:
            self._modules.parted(given, *PARTED[name], args, w)
        return given

    def _initialized(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """A function of ``torch.nn.init`` fills a tensor, unrecorded."""
        given = args.get(0, "tensor") or NONE
        self._changes.unrecorded(name.rpartition(".")[2], given, w, ctx, site)
        return given

    def _clipped(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        given = args.get(0, "parameters") or NONE
        self._streams.used(given, name, w, ctx, site)
        norm = self._stepping.clipped(given, w, ctx, site)
        return norm if name in NORM_CLIPS else new_unknown("clipped")

    def _shown(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """Something that changes nothing reads tensors; what is printed without gradients is an evaluation."""
        tensors = self._tensors.tensors_in(args, w)
        self._memory.used(tensors, w, ctx, site)
        if shows(name):
            self._evaluation.shown(tensors, w, ctx)
        elif saves(name):
            self._evaluation.measured(tensors, True, w, ctx)

    def _engine(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """An engine that trains, and what comes with it."""
        engine = Unknown(Asked("engine", w.new(Instance(name="engine", role=roles.ENGINE))), "engine")
        given: list[Value] = [engine, *(new_unknown("engine", "engine") for _ in range(ENGINES[name]))]
        return w.new(Sequence(given, [None] * len(given), None, None, False))

    # --- torch

    def _function(self, name: str, op: Op, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        out = args.keywords.get("out")
        last = name.rpartition(".")[2]
        if op.inplace and args.positional and last not in RENAMING:
            used = [] if op.likens else args.positional[1:]
            self._changes.in_place(last, args.positional[0], used, w, ctx, site)
            return args.positional[0]
        given = Arguments(list(args.positional), {k: v for k, v in args.keywords.items() if k != "out"}, args.open)
        self._data_reads.given(op, given, w, ctx)
        if self._overwriting.is_asked(name, op, args, w):
            value = self._overwriting.applied(last.removesuffix("_"), op, given, w, ctx, site)
        else:
            value = self._operations.apply(op, given, w, ctx, site)
        self._placement.proven(value, w)
        self._shapes.applied(last, op, given, value, w)
        self._estimates.applied(last, op, given, value, w, site)
        self._plain.made(name, given, value, w)
        self._breaks.computed(last, given, value, w, site)
        self._legacy.computed(last, given.positional, value, w, site)
        if name == "torch.from_numpy" and given.positional:
            self._memory.share(w.resolve(given.positional[0]), value, w, from_numpy=True)
        if out is not None:
            self._changes.in_place("out=", out, list(given), w, ctx, site)
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
        self._witness.send(
            events.DropoutCalled(
                site=site,
                function=dropout.name,
                training_given=given,
                drops_by_default=dropout.drops_by_default,
                in_module=known(ctx.in_forward),
                mode_checked=known(w.module_checked or guarded),
                inert=inert,
                module=self._modules.spelled(w, ctx),
            ),
            w,
            ctx,
        )

    def _variable(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        value = w.resolve(args.get(0) or NONE)
        asked = w.resolve(args.get(1, "requires_grad") or Const(False))
        volatile = w.resolve(args.keywords.get("volatile", Const(False)))
        flag = bool(asked.value) if isinstance(asked, Const) else None
        tensor = w.get(value, Tensor)
        if volatile != Const(False):
            return new_unknown("variable")
        if tensor is None:
            if flag is False and isinstance(value, Unknown):
                return value
            leaf = self._tensors.leaf(w, site, requires_grad=flag, device=None)
            self._operations.copied(leaf, [value], w, site)
            return leaf
        new = self._tensors.leaf(
            w,
            site,
            requires_grad=flag,
            device=tensor.device,
            size=tensor.size,
            integral=tensor.integral,
            activation=tensor.activation,
        )
        if flag is False:
            self._plain.shown(new, tensor, w)
        self._operations.copied(new, [value], w, site)
        return new

    def _parameter(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        asked = w.resolve(args.get(1, "requires_grad") or Const(True))
        flag = bool(asked.value) if isinstance(asked, Const) else None
        data = w.get(w.resolve(args.get(0, "data") or NONE), Tensor)
        group = w.new(Group(flag, made_at=site), (site, ctx.key, "parameter")).id
        return self._tensors.parameter([group], w, site, data.device if data is not None else "cpu")

    def _checkpoint(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        return self._escapes.call(External("torch.utils.checkpoint.checkpoint"), args, w, ctx, site)

    def _vector(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        asked = args.get(0, "parameters") or NONE
        self._streams.used(asked, "parameters_to_vector", w, ctx, site)
        groups = self._modules.groups_in(asked, w)
        given = Arguments([self._tensors.parameter(groups, w, site)] if groups else [])
        return self._operations.apply(Op(), given, w, ctx, site, parameters=groups)

    def _pack(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        first = args.get(0, "input") or args.get(0, "sequences") or args.get(0, "data")
        given = [first] if first is not None else []
        return self._operations.packed(self._operations.apply(_PACK, Arguments(given), w, ctx, site), w, site)

    def _together(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """What a call gives back that passes on several of its arguments."""
        names = PASSED_TOGETHER[name]
        given = [value for number, each in enumerate(names) if (value := args.get(number, each)) is not None]
        return w.resolve(given[0]) if len(given) == 1 else w.new(Sequence(given, [None] * len(given), mutable=False))

    def _thaw(self, groups: frozenset[int], w: World) -> None:
        """Of a module whose inside is not known a part may be frozen, and another one handed to an optimizer.

        Where none is known to be frozen, what is handed over is there to be trained.  What is known of a layer holds
        for all of it.
        """
        whole = set[int]()
        for _, obj in w.all(Instance, imported=True):
            if obj.role.is_module and (obj.layer is not None or obj.cls is not None):
                whole |= obj.groups
                parameters = (w.get(w.resolve(value), Tensor) for value in obj.attrs.values())
                whole.update(*(parameter.groups for parameter in parameters if parameter is not None))
        for key in groups:
            group = w.find(key)
            if isinstance(group, Group) and group.requires_grad is False and key in whole:
                continue
            if isinstance(group, Group) and group.opaque and group.requires_grad is not True:
                w.write(key).requires_grad = True if group.requires_grad is None else None

    def _read_all(self, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        for value in self._tensors.tensors_in(args, w):
            tensor = w.get(value, Tensor)
            if tensor is not None and tensor.groups and not tensor.is_parameter:
                self._witness.read(tensor.groups, w, ctx, site)
