"""Modes and evaluations: which mode modules are in, and what their outputs are used for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.python.definitions import Definitions
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import reachable, united
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers, Results
from gradlint.static.state.origins import AttributeOf, fresh
from gradlint.static.state.provenance import looks_like_module
from gradlint.static.state.values import (
    Bound,
    Choice,
    Class,
    Const,
    Group,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
)
from gradlint.static.state.world import World
from gradlint.static.text.chains import Chain, chains_in
from gradlint.static.text.units import NodeSite, Unit
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.modes import acts_by_mode, in_forward
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

_OWN_MODE = Chain(("self", "training"), called=False)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a module whose output may be evaluated."""

    way: tuple[tuple[tuple[Unit, int], Site], ...]  #: to the call, as :meth:`Context.way` has it
    training: bool | None  #: the mode that its output follows; None where none is known to matter
    set_at: Site | None
    grad: bool
    trained: bool  #: a step was made with parameters of it before
    module: str
    groups: frozenset[int]  #: its parameters
    graph: frozenset[int]  #: the segments behind its output
    repeated: bool  #: it stands in a loop
    phase: Hashable = ()  #: what the call was made for, as :attr:`Context.phase` tells it

    @property
    def site(self) -> Site:
        return self.way[0][1]

    @property
    def occasion(self) -> Hashable:
        """What tells a call apart from others at its place: none does, if it is not known to be of a trained model.

        The same code may train a model and evaluate it, called from two places or once for each phase.
        """
        return (tuple(site for _, site in self.way), self.phase) if self.grad and self.trained else None

    @property
    def mode_set_on_way(self) -> int:
        """The number of the first function on the way that has set the mode; or of the last of all."""
        found = (n for n, ((unit, _), _) in enumerate(self.way) if getattr(self.set_at, "unit", None) is unit)
        return next(found, len(self.way) - 1)


class Evaluation:
    """Watches modes, and the outputs of modules that are called to be measured."""

    _ledgers: Ledgers
    _witness: Witness
    _definitions: Definitions
    _tensors: Tensors
    _modules: Modules
    _graphs: Graphs

    def __init__(self) -> None:
        self._calls: Ledger[int, _Call] = self._ledgers.open()
        self._told: Ledger[int, int] = self._ledgers.open()
        """By call, the number of the function on the way to it that looked at its output first, and so evaluates."""
        self._likely: Ledger[int, int] = self._ledgers.open()
        """The same of functions that made probabilities or a total of it: they may do so for others that evaluate."""
        self._presumed: Ledger[int, None] = self._ledgers.open()
        """Calls in which nothing tells of an evaluation but what becomes of the outputs, if the model is trained."""
        self._choosing: Ledger[Site, None] = self._ledgers.open()
        """Where such a call has chosen what code that cannot be followed has answered to: it chooses there."""
        self._asking: dict[Unit, bool] = {}  #: by class, whether the forward pass of its objects asks for their mode
        self.passes = 0  #: how many backward passes were made
        self._held: set[int] = set()  #: modules held by what was given others: they may be copies of those

    # --- modes

    def bind(self, receiver: Unknown, name: str, given: int, w: World, site: Site) -> Ref | None:
        """An unknown value that is put into a mode is a module, unless its name or the call says otherwise."""
        if given > (name == "train") or not looks_like_module(receiver):
            return None
        ref = self._modules.taken_for_one(receiver, w, site)
        if receiver.deps and isinstance(receiver.key, AttributeOf):
            self._held.add(ref.id)
        return ref

    def may_switch(self, ref: Ref, w: World, ctx: Context, site: Site) -> None:
        """A method that is not known may have put a module into training mode: then it is not left in the other."""
        for here in self._modules.walk(ref, w):
            w.write(here.id).training = None
        touches = dict.fromkeys(sorted(self._modules.groups(ref, w)), True)
        self._witness.send(events.TrainMode(site=site, touches=touches), w, ctx)  # type: ignore[arg-type]

    def switched(self, ref: Ref, mode: Value, w: World, ctx: Context, site: Site) -> None:
        """``module.train(mode)``, or ``eval()`` with False."""
        modules = self._modules
        flag = bool(mode.value) if isinstance(mode, Const) else None
        asked = mode.asked if isinstance(mode, Const) else 0  # a mode that was saved is restored, not asked for
        for here in modules.walk(ref, w):
            module: Instance = w.write(here.id)
            module.training, module.mode_at = flag, site
            module.mode_asked = fresh() if asked is None else asked
        obj = w.get(ref, Instance)
        if obj is None:
            return
        if flag is False and not (obj.opaque or self.depends_on_mode(ref, w).is_true or self._asks_mode(ref, w)):
            return
        if flag is False and (ref.id in self._held or self._is_part(ref, obj, w)):
            return
        groups = modules.groups(ref, w)
        restored = flag is None
        if flag is not False:
            touches = dict.fromkeys(sorted(groups), None if restored else True)
            self._witness.send(events.TrainMode(site=site, touches=touches), w, ctx)  # type: ignore[arg-type]
        else:
            touches = dict.fromkeys(sorted(groups), True)
            self._witness.send(events.EvalMode(site=site, touches=touches), w, ctx)  # type: ignore[arg-type]

    def _is_part(self, ref: Ref, obj: Instance, w: World) -> bool:
        """Whether a module is a layer of a larger one: it may be frozen on purpose."""
        if obj.layer is not None and not obj.layer.container:
            return True
        return any(
            ref in (w.resolve(value) for value in other.attrs.values())
            for key, other in w.all(Instance)
            if key != ref.id and other.role.is_model
        )

    def depends_on_mode(self, ref: Ref, w: World) -> Fact[bool]:
        """Whether a module holds layers that behave differently in training; known only if it does."""
        for here in self._modules.walk(ref, w):
            obj = w.find(here.id)
            if not isinstance(obj, Instance):
                continue
            if acts_by_mode(obj):
                return known(True)
        return unknown()

    def _asks_mode(self, ref: Ref, w: World) -> bool:
        """Whether the forward pass of a module, or of one below it, asks for the mode: it does something else then."""
        modules = (w.get(here, Instance) for here in self._modules.walk(ref, w))
        return any(obj.cls is not None and self._is_asking(obj.cls) for obj in modules if obj is not None)

    def _is_asking(self, cls: Class) -> bool:
        known_answer = self._asking.get(cls.unit)
        if known_answer is None:
            methods = self._definitions.methods(cls)
            texts = (methods[name].text for name in methods.mentioned_by("forward"))
            known_answer = self._asking[cls.unit] = any(_OWN_MODE in chains_in(text) for text in texts)
        return known_answer

    # --- calls

    def called(
        self, ref: Ref, args: Arguments, results: Results, before: bool | None, ctx: Context, site: Site
    ) -> None:
        """A module was called from outside of any forward, with grad mode ``before``.

        Inputs that carry a graph are those of attacks, or outputs of other modules.
        """
        if self._witness.muted or before is None or in_forward(ctx) or self._is_interacting(args, results):
            return
        for world, value in results:
            if any(self._graphs.is_computed(given, world) for given in args):
                return
            obj = world.get(ref, Instance)
            if obj is None or obj.role is not roles.MODULE:
                continue
            acting = self._acting(ref, obj, world)
            if not before and acting.training is not True:
                continue
            if not (before and self._is_frozen(ref, value, world)):
                self._watch(ref, obj, acting, value, before, world, ctx, site)

    def method_called(
        self, method: Bound, args: Arguments, results: Results, before: bool | None, ctx: Context, site: Site
    ) -> None:
        """A method of an object of the project was called: another way forward, if that is a module in evaluation.

        One that is called once may do no more than show something.
        """
        receiver = method.receiver
        if self._witness.muted or before is not True or not ctx.iteration or not isinstance(receiver, Ref):
            return
        if in_forward(ctx) or self._is_interacting(args, results):
            return
        for world, value in results:
            obj = world.get(receiver, Instance)
            if obj is None or obj.role is not roles.MODULE:
                return
            if any(self._tensors.requires_grad(given, world) for given in args):
                return
            tensors = [world.get(part, Tensor) for part in self._tensors.tensors_in([value], world)]
            known_ones = [part for part in tensors if part is not None and not part.calls]
            if len(known_ones) == len(tensors) and any(part.requires_grad for part in known_ones):
                self._watch(receiver, obj, self._acting(receiver, obj, world), value, before, world, ctx, site)

    def _is_interacting(self, args: Arguments, results: Results) -> bool:
        """Whether a module is given what code that cannot be followed has made of what a module gave before.

        Its outputs are the actions of an agent, or are stored to be learnt from: more than measured, they are used.
        """
        used = self._graphs.answered(args, results[0][0]) if results else frozenset[int]()
        if used.isdisjoint(self._presumed):
            return False
        self._choosing |= dict.fromkeys(self._calls[key].site for key in sorted(used & self._presumed.keys()))
        self._withdraw(key for key in self._presumed if self._calls[key].site in self._choosing)
        return True

    def _acting(self, ref: Ref, obj: Instance, w: World) -> Instance:
        """The module whose mode counts: a container of layers, whenever it was built, acts as they do."""
        if obj.layer is None or not obj.layer.container:
            return obj
        parts = [part for here in self._modules.walk(ref, w) if isinstance(part := w.find(here.id), Instance)]
        acting = [part for part in parts if acts_by_mode(part)]
        modes = {part.training for part in acting}
        if not modes or obj.training in modes:
            return obj
        return acting[0]

    def _is_frozen(self, ref: Ref, output: Value, w: World) -> bool:
        """Whether no parameter of a module requires grad: it builds no graph of its own.

        One without any may build layers in each forward pass.
        """
        groups = [w.find(key) for key in self._modules.groups(ref, w)]
        if not groups and any(self._tensors.requires_grad(part, w) for part in self._tensors.tensors_in([output], w)):
            return False
        return all(isinstance(group, Group) and group.requires_grad is False for group in groups)

    def _is_trained(self, ref: Ref, w: World) -> bool:
        """Whether a step was made before with parameters of a module, behind a backward pass, or a file has them."""
        groups = (w.find(key) for key in self._modules.groups(ref, w))
        return any(isinstance(group, Group) and (group.loaded or (group.stepped and group.fed)) for group in groups)

    def _watch(
        self, ref: Ref, obj: Instance, acting: Instance, value: Value, grad: bool, w: World, ctx: Context, site: Site
    ) -> None:
        training = acting.training
        if training and not self._acts_as_in_training(ref, w, frozenset()):
            training = None
        if training and self._asked(ref, obj, w):
            if not grad:
                return
            training = None
        presumed = grad and training is not False
        if presumed and not ctx.iteration and not training:
            return  # a single look at a model costs nothing worth telling of, but in training mode it is wrong
        parts = self._tensors.tensors_in([*map(w.resolve, each_of(value)), *self._kept(ref, w)], w)
        if grad and all(_is_unrecorded(part, w) for part in parts):
            return  # the forward pass itself sees to it
        key, repeated = fresh(), bool(ctx.iteration)
        name = obj.cls.unit.name if obj.cls is not None else obj.name
        trained, groups = self._is_trained(ref, w), frozenset(self._modules.groups(ref, w))
        graph = united(self._graphs.reached(part, w) for part in parts)
        way = tuple(ctx.way(site))
        self._calls[key] = _Call(way, training, acting.mode_at, grad, trained, name, groups, graph, repeated, ctx.phase)
        if presumed:
            self._presumed[key] = None
        for part in parts:
            if isinstance(part, Ref) and w.get(part, Tensor) is not None and not (grad and _is_unrecorded(part, w)):
                w.write(part.id).calls |= {key}
            elif isinstance(part, Unknown) and part.deps:
                self._graphs.gave(key, part, w)

    def _kept(self, ref: Ref, w: World) -> Iterator[Value]:
        """The tensors that the modules below a module have kept of a forward pass: parts of its output, so to speak."""
        for here in self._modules.walk(ref, w):
            obj = w.get(here, Instance)
            for value in map(w.resolve, obj.attrs.values()) if obj is not None and obj.cls is not None else ():
                tensor = w.get(value, Tensor)
                if tensor is not None and tensor.is_leaf is not True and not tensor.is_parameter:
                    yield value

    def _acts_as_in_training(self, ref: Ref, w: World, within: frozenset[int]) -> bool:
        """Whether a module is sure to hold a layer that depends on the mode and is in training mode itself.

        A part that is one of several holds one if each of them does; one that need not be there holds none.
        """
        obj = w.find(ref.id)
        if not isinstance(obj, Instance) or ref.id in within:
            return False
        if obj.training and acts_by_mode(obj):
            return True
        if not obj.role.is_module:
            return False
        for value in (w.resolve(value) for name, value in obj.attrs.items() if name not in obj.optional):
            parts = [w.resolve(part) for part in value.alternatives] if isinstance(value, Choice) else [value]
            if all(isinstance(p, Ref) and self._acts_as_in_training(p, w, within | {ref.id}) for p in parts):
                return True
        return False

    def _asked(self, ref: Ref, obj: Instance, w: World) -> bool:
        """Whether training mode was asked for, and no step was made since: it is wanted (Monte Carlo dropout)."""
        parts = [w.find(here.id) for here in self._modules.walk(ref, w)]
        asked = max((part.mode_asked for part in parts if isinstance(part, Instance) and part.training), default=0)
        groups = (w.find(key) for key in self._modules.groups(ref, w))
        stepped = max((group.stepped for group in groups if isinstance(group, Group)), default=0)
        return asked > stepped

    # --- what becomes of their outputs

    def applied(self, op: Op, inputs: Iterable[Value], w: World, ctx: Context) -> None:
        """An operation was applied: those that make numbers, labels or probabilities of an output measure it."""
        if op.result == "array":
            self.converted(inputs, w, ctx)
        elif op.result == "number" and not op.detaches:
            return  # how many elements there are, and of which kind, tells nothing of their values
        elif op.detaches and op.result != "number":
            self.measured(inputs, True, w, ctx, evident=False)
        elif op.result in ("number", "pair", "pair_by_dim") or op.integral or op.grad == "never":
            self.measured(inputs, False, w, ctx)
        elif op.activation in ("softmax", "log_softmax", "sigmoid"):
            self.measured(inputs, False, w, ctx, likely=True)

    def converted(self, values: Iterable[Value], w: World, ctx: Context) -> None:
        """Outputs became arrays: of those that may still require grad this raises, and tells of no evaluation.

        One of which nothing tells that it requires grad has no graph, or this raises.
        """
        values = [value for value in values if self._may_be_recorded(value, w)]
        cut = all(self._tensors.requires_grad(value, w) is False for value in values)
        self.measured(values, True, w, ctx, evident=cut)

    def _may_be_recorded(self, value: Value, w: World) -> bool:
        tensors = self._tensors
        return tensors.requires_grad(value, w) is not None or tensors.is_weight(value, w) or tensors.is_output(value, w)

    def shown(self, values: Iterable[Value], w: World, ctx: Context) -> None:
        """Outputs were printed or logged: so are those of a training, which are walked, and of a mere trial."""
        behind = ((value, self._graphs.outputs_behind(value, w)) for value in values)
        evaluated = [
            v for v, keys in behind if any(c.trained or not c.grad for c in map(self._calls.__getitem__, keys))
        ]
        self.measured(evaluated, False, w, ctx)

    def measured(
        self,
        values: Iterable[Value],
        copied: bool,
        w: World,
        ctx: Context,
        *,
        likely: bool = False,
        evident: bool = True,
    ) -> None:
        """Outputs were turned into numbers, labels or probabilities, or merely copied.

        The function that looks at an output evaluates; one that computes it may serve the training as well, unless it
        sets the mode.  One that makes probabilities or a total of it is ``likely`` to evaluate, if no other does.

        So it is where the mode, or that of gradients, tells of an evaluation. If nothing else does, it must be
        ``evident`` from what becomes of the output: a training, too, makes probabilities and cuts graphs.
        """
        if self._calls and not self._witness.muted and not in_forward(ctx):
            keys = united(self._graphs.outputs_behind(value, w) for value in values)
            self._looked_at(keys, copied, w, ctx, likely=likely, evident=evident)

    def labelled(self, values: Iterable[Value], w: World, ctx: Context) -> None:
        """Labels were made of outputs, or of arrays and numbers that were made of some."""
        if self._calls and not self._witness.muted and not in_forward(ctx):
            self._looked_at(self._graphs.computed_from(values, w), False, w, ctx)

    def _looked_at(
        self, keys: Iterable[int], copied: bool, w: World, ctx: Context, *, likely: bool = False, evident: bool = True
    ) -> None:
        here = {place for place, _ in ctx.way(NodeSite(ctx.unit))}
        for key in sorted(keys):
            call = self._calls[key]
            if key in self._presumed and (likely or not evident or not call.trained or call.site in self._choosing):
                continue
            found = next((number for number, (place, _) in enumerate(call.way) if place in here), 0)
            number = min(found, call.mode_set_on_way, self._told.get(key, found))
            if likely:
                self._likely.setdefault(key, number)
            else:
                self._told[key] = number
                if self._likely.get(key, number) < number:
                    self._witness.withdraw(events.OutputMeasured, call.way[self._likely[key]][1], call.occasion)
            site = call.way[number][1]
            event = events.OutputMeasured(
                site=site,
                module=call.module,
                training=unknown() if call.training is None else known(call.training),
                grad_enabled=known(call.grad),
                copied=known(copied),
                trained=known(True) if call.trained else unknown(),
                single=key in self._presumed and not call.repeated,
                set_at=call.set_at,
                called_at=None if site == call.site else call.site,
                within=site.unit.here if isinstance(site, NodeSite) else None,
            )
            self._witness.send(event, w, ctx, call.occasion, (copied, call.module))

    def trained(self, root: Value, w: World) -> None:
        """A backward pass started from a value: what it was computed from is no mere evaluation.

        But where the mode tells of one, an environment may have answered to its numbers: their graph is not walked.
        """
        keys, walked = self._graphs.computed_from([root], w), self._graphs.reached(root, w)
        apart = self._graphs.told_by_numbers(keys) - self._presumed.keys()
        self._withdraw(key for key in keys if key not in apart or not walked.isdisjoint(self._calls[key].graph))

    def stepped(self, groups: Iterable[int], w: World) -> None:
        """Parameters are about to be stepped: if no backward pass has reached any of them before, one was forgotten."""
        stepped = {key: group for key in groups if isinstance(group := w.find(key), Group)}
        if any(group.prepared for group in stepped.values()):
            return
        found = {key: group for key, group in stepped.items() if group.prepared is False}
        since = min((group.stepped for group in found.values()), default=None)
        if since is not None:
            made = takewhile(since.__lt__, reversed(self._presumed))
            self._withdraw([key for key in made if not self._calls[key].groups.isdisjoint(found)])

    def left(self, values: Iterable[Value], w: World) -> None:
        """Code that cannot be followed has these values, and what they hold.

        It may walk their graphs: only what is known to be an evaluation is one, and nothing if it has the model, too.
        """
        if not self._calls:
            return
        values = [w.resolve(value) for value in values]
        groups = frozenset[int]().union(*(self._modules.groups_in(v, w) for v in values if w.get(v, Instance)))
        held = [obj for key in reachable(values, w) if isinstance(obj := w.find(key), Tensor)]
        keys = frozenset[int]().union(*(tensor.calls for tensor in held if tensor.requires_grad is not False))
        unknown_ones = (value for value in self._tensors.tensors_in(values, w) if isinstance(value, Unknown))
        keys = keys.union(*(self._graphs.outputs_behind(v, w) for v in unknown_ones if self._graphs.follows(v, w)))
        self._withdraw(k for k in keys if k in self._presumed or not groups.isdisjoint(self._calls[k].groups))

    def escaped(self, values: Iterable[Value], w: World) -> None:
        """Values left the code that is followed; those that carry a graph may be walked there."""
        queue, seen = [w.resolve(v) for v in values], set[Hashable]()
        while queue:
            value = queue.pop()
            if isinstance(value, Choice):
                queue += map(w.resolve, value.alternatives)
            if not isinstance(value, (Ref, Unknown)) or value in seen:
                continue
            seen.add(value)
            obj = w.get(value, Object)
            if isinstance(value, Unknown) or (isinstance(obj, Tensor) and obj.requires_grad is not False):
                self._withdraw(k for k in self._graphs.outputs_behind(value, w) if self._calls[k].grad)
            elif isinstance(obj, Sequence):
                queue += [w.resolve(v) for v in (*obj.items, *([obj.tail] if obj.tail is not None else []))]
            elif isinstance(obj, Mapping):
                queue += [w.resolve(v) for v in (*obj.items.values(), *([obj.tail] if obj.tail is not None else []))]
            elif isinstance(obj, Instance) and (obj.role is roles.DICT or self._definitions.is_record(obj)):
                queue += [w.resolve(v) for v in obj.attrs.values()]

    def _withdraw(self, keys: Iterable[int]) -> None:
        for key, call in ((key, self._calls[key]) for key in keys):
            for _, site in call.way if call.trained or key not in self._presumed else ():
                self._witness.withdraw(events.OutputMeasured, site, call.occasion)


def _is_unrecorded(part: Value, w: World) -> bool:
    """Whether no graph was built for an output, as far as is known: of what has none, or where none are recorded."""
    tensor = w.get(part, Tensor)
    if tensor is None or tensor.requires_grad:
        return False
    if tensor.cut is not None:
        return tensor.cut.how == "no_grad" or not tensor.cut.trained
    if tensor.requires_grad is None and tensor.deps:  # whether any are recorded there is not known
        return all(getattr(w.find(key), "requires_grad", None) for key in tensor.deps)
    return tensor.requires_grad is False or not (tensor.deps or tensor.open)


__all__ = ["Evaluation"]
