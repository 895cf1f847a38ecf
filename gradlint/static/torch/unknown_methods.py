"""Methods and leaves of which nothing is known: what their names, and their own gradients, tell."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import TRUE
from gradlint.finding import Site
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import MODULE_NAME
from gradlint.static.knowledge.torch_functions import ARRAY_METHODS, METHODS, TELLING_METHODS
from gradlint.static.knowledge.torch_libraries import GIVES_ITSELF, WRITES
from gradlint.static.knowledge.torch_training import CONVERTING, MODULE_METHODS, looks_like_handler
from gradlint.static.python.attributes import Attributes
from gradlint.static.python.calls import Calls
from gradlint.static.python.progress import Progress
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import newest
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import AttributeOf, ElementOf, Figure, ItemOf, New, Number, Origin, Yielded, fresh
from gradlint.static.state.provenance import (
    NUMPYS,
    carries_graph,
    dict_of,
    from_module,
    is_made_of,
    is_numpys,
    library_class_of,
    looks_like_optimizer,
    looks_like_parameter,
    made_of_none,
    unknown_of,
    ways_of,
)
from gradlint.static.state.values import (
    NONE,
    Bound,
    External,
    Function,
    Instance,
    Lambda,
    Partial,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.batches import Loading
from gradlint.static.torch.data_reads import DataReads
from gradlint.static.torch.effects import Effects
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.hooks import Hooks
from gradlint.static.torch.library_models import LibraryModels
from gradlint.static.torch.module_methods import ModuleMethods
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.optimizers import Optimizers, Scalers
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.placement import DevicePlacement
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


_RECOGNISED = MODULE_METHODS | {"requires_grad_", "half", "double", "bfloat16"}
"""Methods that say of an unknown value that it is a module."""
_ARRAY_TO_ARRAY = frozenset(["astype", "copy", "flatten", "ravel", "reshape", "squeeze", "swapaxes", "transpose"])


Method = Callable[[Unknown, str, Arguments, World, Context, "Site"], "Value | None"]


class UnknownMethods:
    """Calls methods of what is unknown."""

    _ledgers: Ledgers
    _effects: Effects
    _progress: Progress
    _calls: Calls
    _attributes: Attributes
    _tensors: Tensors
    _data_reads: DataReads
    _modules: Modules
    _breaks: GraphBreaks
    _evaluation: Evaluation
    _graphs: Graphs
    _placement: DevicePlacement
    _operations: Operations
    _hooks: Hooks
    _escapes: Escapes
    _passes: Passes
    _optimizers: Optimizers
    _scalers: Scalers
    _loading: Loading
    _library_models: LibraryModels
    _module_methods: ModuleMethods
    _unknown_leaves: UnknownLeaves

    def __init__(self) -> None:
        self._clearing: Ledger[Hashable, None] = self._ledgers.open()
        """The keys of unknown values that were told to clear gradients: those that can also step are optimizers."""
        self._named: dict[str, Method] = {
            "append": self._append,
            "apply": self._apply,
            "backward": self._backward,
            "register_forward_hook": self._register_hook,
            "register_step_post_hook": self._optimizer,
            "remove": self._remove,
            "requires_grad_": self._require_grad,
            "retain_grad": self._retain_grad,
            "step": self._step,
            "zero_grad": self._zero_grad,
        }
        """What is done by methods of some names, as far as they can be told from others of that name."""

    def call(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a method of something unknown."""
        if made_of_none(receiver):
            return receiver
        if w.grad is not True:
            self._progress.unrecorded_names.add(name)
        if name in MODULE_METHODS or name in ("train", "eval"):
            self._loading.is_module(receiver, w)
        value = self._of_known_kind(receiver, name, args, w, ctx, site)
        if value is None and name in self._named:
            value = self._named[name](receiver, name, args, w, ctx, site)
        if value is None and name in _RECOGNISED:
            value = self._of_module(receiver, name, args, w, ctx, site)
        return self._of_value(receiver, name, args, w, ctx, site) if value is None else value

    def _of_known_kind(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        """Call a method of what is known to be of some kind by where it comes from, or by its own name."""
        cls = WRITES[name] if name in WRITES else library_class_of(receiver)
        if cls is not None:
            given = self._calls.call(External(f"{cls}.{name}"), args, w, ctx, site)
            return receiver if name in GIVES_ITSELF else joined(given, w)
        if (owner := dict_of(receiver)) is not None:
            return self._attributes.dict_method(receiver, owner, name, args, w, ctx, site)
        if name in ("values", "items") and (owner := dict_of(receiver, "_modules")) is not None:
            obj = w.get(owner, Instance)
            if obj is not None and not obj.opaque:
                return self._module_methods.registered(owner, obj, name, w, ctx)
        if self._scalers.looks_like_one(receiver, name):
            scaler = self._scalers.made(Arguments(), receiver.hint, w, ("scaler", receiver.key))
            w.bound[receiver.key] = scaler
            return self._effects.method(scaler, name, args, w, ctx, site)
        if looks_like_handler(receiver.hint, name) and args.positional:
            handler = w.bound[receiver.key] = w.new(Instance(name=receiver.hint, role=roles.HANDLER))
            return self._effects.method(handler, name, args, w, ctx, site)
        return None

    def _of_module(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        opaque = self._modules.taken_for_one(receiver, w, site)
        obj = w.get(opaque, Instance)
        assert obj is not None
        return self._module_methods.module(opaque, obj, name, args, w, ctx, site)

    def _of_value(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """Call a method of what may be a tensor, an array, or anything else."""
        if is_numpys(receiver) and name in _ARRAY_TO_ARRAY:
            return Unknown(Number(fresh(), NUMPYS), receiver.hint)
        if name in ("train", "eval", "to", "cuda", "cpu", "detach", "clone", "float", "view", "reshape"):
            return self._unknown_conversion(receiver, name, args, w, ctx, site)
        if name in METHODS and METHODS[name].result == "tensor" and from_module(receiver):
            return self._effects.method(self._tensors.settled(receiver, w), name, args, w, ctx, site)
        changes = name in METHODS and METHODS[name].inplace
        if changes:
            self._unknown_leaves.changed(receiver.key, name, args, w, ctx, site)
        if changes and self._tensors.gradient_of(args, w):  # what keeps gradients is a tensor, as a momentum is
            return self._effects.method(self._tensors.from_unknown(receiver, w), name, args, w, ctx, site)
        if name in METHODS and (receiver.deps or name in TELLING_METHODS):
            return self._assumed_tensor(receiver, name, args, w, ctx, site)
        if name in ("items", "values") and self._library_models.is_part(receiver, w):
            return Unknown(ItemOf(receiver.key, Yielded(name, fresh())), "module", receiver.deps)
        if name in ("items", "values") and looks_like_optimizer(receiver):
            return Unknown(ItemOf(receiver.key, Yielded(name, fresh())), receiver.hint, receiver.deps)
        result = self._escapes.call(receiver, args, w, ctx, site, method=name)
        return receiver if changes and self._tensors.deps(result, w) <= receiver.deps else result

    # --- by name

    def _append(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        if len(args.positional) != 1 or not self._is_computed(args.positional[0], w):
            return None
        values = w.bound[receiver.key] = w.new(Sequence(age=max(newest(receiver.key), 1)))  # it was there before
        return self._effects.method(values, name, args, w, ctx, site)

    def _apply(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """A function is applied to the parts of a module; if it is no module, it is much like one."""
        if len(args.positional) == 1 and not args.keywords:
            function = w.resolve(args.positional[0])
            if isinstance(function, (Function, Lambda, Bound, Partial)):
                some = new_unknown("module", "module")
                self._module_methods.applied(function, some, w, ctx, site)

    def _backward(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if args.positional and w.get(w.resolve(args.positional[0]), Tensor) is not None:
            self._passes.backward(args.positional[0], Arguments(), w, ctx, site, certain=False)
        elif not args.positional:
            self._passes.backward(receiver, args, w, ctx, site)
        return NONE

    def _register_hook(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        return self._hooks.registered(receiver, args, w, ctx, site)

    def _remove(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        if not list(args):
            self._hooks.may_be_removed(w)

    def _optimizer(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        optimizer = self._optimizers.opaque_optimizer(receiver, w, site)
        return self._effects.method(optimizer, name, args, w, ctx, site)

    def _require_grad(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value | None:
        if receiver.deps:
            return None  # of a module
        tensor = self._tensors.from_unknown(receiver, w)
        self._modules.taken_for_tensor(receiver, tensor)
        return self._effects.method(tensor, name, args, w, ctx, site)

    def _retain_grad(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        self._tensors.from_unknown(receiver, w, retains=True)
        return NONE

    def _step(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        is_one = looks_like_optimizer(receiver) or (receiver.key in self._clearing and not list(args))
        if is_one and len(args.positional) <= 1:
            optimizer = self._optimizers.opaque_optimizer(receiver, w, site)
            self._passes.reached_before(self._optimizers.groups_of(optimizer, w, site), w, ctx)
            return self._effects.method(optimizer, name, args, w, ctx, site)
        if args.positional and looks_like_optimizer(w.resolve(args.positional[0])):
            self._optimizers.stepped(args.positional[0], w, ctx, site)
            return NONE
        return self._escapes.call(receiver, args, w, ctx, site)

    def _zero_grad(self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        if looks_like_optimizer(receiver):
            return self._optimizer(receiver, name, args, w, ctx, site)
        self._clearing[receiver.key] = None
        self._optimizers.clear(receiver.deps, True, w, ctx, site, certain=not self._modules.is_part(receiver))
        return NONE

    # --- what it tells of the receiver

    def _is_computed(self, value: Value, w: World) -> bool:
        """Whether a value is a tensor that may require grad, and no parameter: what appends it keeps it in a list."""
        tensor = w.get(w.resolve(value), Tensor)
        return tensor is not None and not tensor.is_parameter and tensor.requires_grad is not False

    def _weight(self, receiver: Unknown, w: World, ctx: Context, site: Site) -> Value | None:
        """The parameter that is read off something with the name of a module: ``decoder.embed.weight``."""
        if not looks_like_parameter(receiver) or not any(map(MODULE_NAME.search, ways_of(receiver))):
            return None
        assert isinstance(receiver.key, (AttributeOf, ItemOf))
        layer = self._modules.taken_for_one(unknown_of(receiver.key.owner, receiver.deps), w, site)
        return self._attributes.get(layer, receiver.hint, w, ctx, site)

    def _unknown_conversion(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """``x.to(device)`` of a tensor, a module or a batch: unknown, but it says where the result is."""
        if name in ("train", "eval"):
            module = self._evaluation.bind(receiver, name, len(list(args)), w, site)
            return receiver if module is None else self._effects.method(module, name, args, w, ctx, site)
        return self._assumed_tensor(receiver, name, args, w, ctx, site)

    def _assumed_tensor(
        self, receiver: Unknown, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """A method that only tensors (or things like them) have: the result is what it would be of a tensor."""
        op = METHODS[name]
        weight = self._weight(receiver, w, ctx, site) if name in CONVERTING else None
        if weight is not None:
            return self._effects.method(weight, name, args, w, ctx, site)
        if name == "numpy":
            return self._effects.method(
                self._tensors.from_unknown(receiver, w, structured=True), name, args, w, ctx, site
            )
        if op.inplace or op.result not in ("tensor", "pair", "pair_by_dim"):
            if op.result in ("number", "array"):
                how = "number" if op.result == "number" else "numpy"
                made = Figure(fresh()) if op.result == "number" else Number(fresh())
                number = self._breaks.note(Unknown(made), [receiver], how, w, site)
                return self._graphs.reduced(number, [receiver], w)
            origin = New("result", fresh()) if carries_graph(receiver) else Number(fresh())
            return Unknown(origin, deps=receiver.deps)
        given = Arguments([receiver, *args.positional], args.keywords, args.open)
        value = self._operations.apply(op, given, w, ctx, site)
        self._data_reads.became(receiver, name, value)
        if name not in ARRAY_METHODS:
            self._placement.proven(value, w)
        if isinstance(value, Ref) and w.get(value, Tensor) is not None:
            new: Tensor = w.write(value.id)
            new.structured = True
            if name in ("to", "cuda", "cpu"):
                self._modules.moved(receiver, value, w)
                new.open = new.open and (new.requires_grad is not None or carries_graph(receiver))
        return value


class UnknownLeaves:
    """``for p in params: p.data -= rate * p.grad``: each of them is trained by hand."""

    _witness: Witness
    _tensors: Tensors

    def changed(self, data: Origin, how: str, values: Iterable[Value], w: World, ctx: Context, site: Site) -> None:
        """What the key ``data`` stands for changes, using ``values``: the ``.data`` of an item of a loop, perhaps."""
        owner = data.owner if isinstance(data, AttributeOf) and data.name == "data" else None
        if not isinstance(owner, ElementOf):
            return  # what has a name of its own may be an input, which is attacked
        gradient = AttributeOf(owner, "grad")
        if not any(is_made_of(gradient, value) for value in values):
            return
        view = self._tensors.view_of(Unknown(owner), w)
        event = events.DataWritten(
            site=site,
            tensor=replace(view, is_parameter=TRUE),
            how=how,
            taken_at=None,
            grad_enabled=self._tensors.mode(w),
            trained=TRUE,
            as_parameter=True,
        )
        self._witness.send(event, w, ctx)
