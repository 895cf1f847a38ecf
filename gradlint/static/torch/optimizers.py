"""Optimizers, schedulers, gradient scalers and what steps them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import SCALER_NAME
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_libraries import handles
from gradlint.static.knowledge.torch_training import CONFIGURING
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import AttributeOf, ElementOf, ItemOf, Parameter
from gradlint.static.state.provenance import wraps_optimizer
from gradlint.static.state.values import (
    ESCAPED,
    NONE,
    Bound,
    Const,
    Function,
    Group,
    Hook,
    Instance,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.norms import FrozenNorms
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.ownership import Grouping, Ownership, UnownedParameters
from gradlint.static.torch.passes import Passes
from gradlint.static.torch.state_dicts import StateDicts
from gradlint.static.torch.stepping import Pace, Stepping
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


_STEPS = frozenset(["step", "first_step"])
"""Methods of an optimizer that apply gradients: sharpness-aware minimisation climbs by them, and then descends."""
_METHODS = frozenset(
    ["step", "zero_grad", "state_dict", "load_state_dict", "add_param_group", "register_step_post_hook"]
)
"""Methods that an optimizer has whose class is of the project."""


class Optimizers:
    """Clears gradients and applies them."""

    _ledgers: Ledgers
    _witness: Witness
    _evaluation: Evaluation
    _definitions: Definitions
    _calls: Calls
    _tensors: Tensors
    _modules: Modules
    _ownership: Ownership
    _unowned: UnownedParameters
    _norms: FrozenNorms
    _grouping: Grouping
    _stepping: Stepping
    _construction: Construction
    _escapes: Escapes
    _pace: Pace
    _passes: Passes
    _state_dicts: StateDicts

    def __init__(self) -> None:
        self._keys: Ledger[int, Hashable] = self._ledgers.open()  #: those of the unknown values taken for optimizers
        self._own: list[tuple[Ref, Context, Site]] = []  #: the methods of the project that are being executed as steps

    def clear(
        self,
        groups: frozenset[int],
        opaque: bool,
        w: World,
        ctx: Context,
        site: Site,
        owner: str = "zero_grad",
        certain: bool = True,
        *,
        zeroed: bool = False,
    ) -> None:
        """``zero_grad()``: clears what its owner holds; an opaque owner may hold what others hold as well.

        A part of an opaque module clears (not certain) some of what that holds.
        """
        others = self._grouping.others(groups, opaque, w)
        self._stepping.before_clearing(groups, others, w, ctx, site)
        self._witness.cleared(groups, owner, w, ctx, site, certain, zeroed=zeroed)
        if others:
            self._witness.cleared(others, owner, w, ctx, site, certain=False)
        if self._holds_more(groups, w):  # these are not to be applied, and the others are
            self._stepping.refilled(groups, w, ctx, site)
        self._skipping(groups.union(others), w, ctx, site)

    def _skipping(self, groups: frozenset[int], w: World, ctx: Context, site: Site) -> None:
        """Gradients were cleared, it may be because of what came of this iteration: its step is to change nothing."""
        if w.varying and not w.periodic:
            self._stepping.refilled(groups, w, ctx, site)

    def initialized(self, optimizer: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``Optimizer.__init__(params, …)`` ran."""
        given = args.get(0, "params") or (new_unknown("params", "params") if args.open else NONE)
        self._grouping.divided(given, w, ("initialized", optimizer.id))
        new: Instance = w.write(optimizer.id)
        new.groups, new.args = obj.groups | self._modules.groups_in(given, w), (given,)

    def attribute(self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """An attribute that optimizers have; None if they have none of that name."""
        if name == "param_groups":
            return w.new(Instance(role=roles.PARAM_GROUPS, groups=obj.groups))
        if name == "base_optimizer":
            return owner
        return Bound(owner, name) if name in _METHODS else None

    def setting(self, owner: Ref, obj: Instance, name: str, value: Value, w: World, ctx: Context, site: Site) -> bool:
        """``optimizer.param_groups = …``: what is in it is stepped as well."""
        if name == "param_groups":
            obj.groups |= self._modules.groups_in(value, w)
        return name == "param_groups"

    def optimizer(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of an optimizer."""
        if name == "zero_grad":
            # An opaque optimizer clears its own parameters; only the model behind it is not known.
            others = self._may_be(receiver, w)
            self._stepping.before_clearing(obj.groups, others, w, ctx, site)
            self._witness.cleared(obj.groups, "zero_grad", w, ctx, site, zeroed=zeroes(args, w))
            if others:
                self._witness.cleared(others, "zero_grad", w, ctx, site, certain=False)
            self._skipping(obj.groups.union(others), w, ctx, site)
            return NONE
        if name == "step":
            self._first_step(receiver, obj, w, ctx, site)
            closure = args.get(0, "closure")
            if closure is None or closure == NONE:
                self._apply(receiver, obj, w, ctx, site)
                return NONE
            return self._closed(receiver, obj, closure, w, ctx, site)
        if name == "register_step_post_hook":
            hook = Hook(w.resolve(args.get(0, "hook") or NONE), inside=False)
            w.write(receiver.id).hooks = (*(other for other in obj.hooks if other != hook), hook)
            return new_unknown("hook")
        if name == "add_param_group":
            groups = self._modules.groups_in(args.get(0, "param_group") or NONE, w)
            w.write(receiver.id).groups |= groups
            self._construction.handed_over(groups, w)
            return NONE
        if obj.cls is not None or name in ("first_step", "second_step"):
            return self._escapes.call(receiver, args, w, ctx, site)
        return new_unknown("optimizer method")

    def _holds_more(self, groups: frozenset[int], w: World) -> bool:
        """Whether an optimizer holds these parameters and others that a backward pass has reached."""
        held = [obj.groups for _, obj in w.having(roles.OPTIMIZER)]
        others = (w.find(key) for every in held if groups < every for key in every - groups)
        return any(isinstance(group, Group) and group.prepared is True for group in others)

    def own_step(self, method: Bound, w: World, ctx: Context, site: Site) -> AbstractContextManager[None]:
        """While a method is executed: whether it is the ``step`` of an optimizer that the project writes itself."""
        obj = w.get(method.receiver, Instance) if method.name in _STEPS else None
        if obj is None or obj.role is not roles.OPTIMIZER or not isinstance(method.receiver, Ref):
            return nullcontext()
        return self._within_step(method.receiver, ctx, site)

    @contextmanager
    def _within_step(self, optimizer: Ref, ctx: Context, site: Site) -> Iterator[None]:
        self._own.append((optimizer, ctx, site))
        try:
            yield
        finally:
            self._own.pop()

    def applied(self, groups: frozenset[int], w: World, ctx: Context) -> None:
        """Parameters were changed by their gradients: where their optimizer does so as it steps, it has applied them.

        What it calls for that may also be called by others, to perturb them.
        """
        optimizer, caller, site = self._own[-1] if self._own else (None, None, None)
        obj = w.get(optimizer, Instance) if optimizer is not None else None
        if obj is None or caller is None or site is None:
            return
        method: Context | None = ctx
        while method is not None and method.receiver != optimizer:
            method = method.parent
        function = method.function if method is not None else None
        own = groups & obj.groups
        if own and function is not None and (function.unit.name in _STEPS or function.unit.name.startswith("_")):
            self._witness.step(own, obj.name, w, caller, site, whole=False)

    def _closed(self, optimizer: Value, obj: Instance, closure: Value, w: World, ctx: Context, site: Site) -> Value:
        """``step(closure)``: LBFGS calls it any number of times, as a loop does, and makes an update after each."""
        several = obj.name.endswith("LBFGS")
        result: Value = NONE
        for number in range(2 if several else 1):
            here = ctx.at(site, number, peeled=several)
            if several:
                here = here.iterating((site, ctx.key))
            result = joined(self._calls.call(closure, Arguments(), w, here, site), w)
            self._apply(optimizer, obj, w, here, site)
        return result

    def _apply(self, optimizer: Value, obj: Instance, w: World, ctx: Context, site: Site) -> None:
        self._ownership.stepping(obj, w, ctx, site)
        self._unowned.stepping(obj, w, ctx, site)
        self._norms.stepped(obj.groups, w, ctx)
        self._stepping.before_step(obj.groups, w, ctx, site, proportional=self._pace.is_proportional(obj))
        self._evaluation.stepped(obj.groups, w)
        if isinstance(optimizer, Ref) and wraps_optimizer(self._keys.get(optimizer.id)):  # it may unscale them first
            touches: events.Touches = dict.fromkeys(sorted(obj.groups))
            self._witness.send(events.GradientsUnscaled(site=site, touches=touches), w, ctx)
        self._witness.step(obj.groups, obj.name, w, ctx, site)
        self._tensors.outdate(obj.groups, w, site)
        self._state_dicts.stepped(obj.groups, w, site)
        for hook in obj.hooks:
            given = Arguments([optimizer, new_unknown("args"), new_unknown("kwargs")])
            joined(self._calls.call(hook.function, given, w, ctx.at(site, "hook"), site), w)

    def _first_step(self, optimizer: Value, obj: Instance, w: World, ctx: Context, site: Site) -> None:
        """An optimizer steps: the first time, a scheduler of it should not have moved on before."""
        if not isinstance(optimizer, Ref) or obj.stepped is None:
            return
        # Where it has stepped before, none was too early; nor where gradients are accumulated meanwhile.
        scheduled_at = None if obj.stepped or self._accumulates(obj, w) else obj.scheduled_at
        # Where nothing schedules it, as another branch chose an optimizer without, that tells nothing of the others.
        idle = not self._has_scheduler(optimizer, w)
        self._witness.send(events.FirstStep(site=site, scheduled_at=scheduled_at), w, ctx, idle=idle)
        w.write(optimizer.id).stepped = True

    def _accumulates(self, obj: Instance, w: World) -> bool:
        """Whether gradients were made before a scheduler of an optimizer was stepped, and others are added to them."""
        groups = [group for key in obj.groups if isinstance(group := w.find(key), Group)]
        return any(group.cleared < group.scheduled_on < group.fed for group in groups)

    def scheduled(self, given: Value, w: World, site: Site) -> None:
        """A learning-rate scheduler is built: to the first one of an optimizer, only steps from now on count."""
        for each in each_of(w.resolve(given)):
            optimizer = self._known(each, w, site)
            if isinstance(optimizer, Ref) and self._optimizer(optimizer, w) and not self._has_scheduler(optimizer, w):
                w.write(optimizer.id).stepped = False

    def _has_scheduler(self, optimizer: Value, w: World) -> bool:
        schedulers = (obj for _, obj in w.having(roles.SCHEDULER))
        return any(optimizer in each_of(w.resolve(given)) for obj in schedulers for given in obj.args)

    def attribute_of_scheduler(
        self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site
    ) -> Value | None:
        """The optimizer of a scheduler."""
        return w.resolve(obj.args[0]) if name == "optimizer" and obj.args else None

    def scheduler(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of a learning-rate scheduler."""
        by_measure = obj.name.endswith("ReduceLROnPlateau") or (obj.opaque and args.keywords)
        if name == "step" and not args.positional and not by_measure:
            self._schedule(obj, w, ctx, site)
        return new_unknown("result of known")

    def _schedule(self, obj: Instance, w: World, ctx: Context, site: Site) -> None:
        """A scheduler steps, of whichever optimizer it was given."""
        given = [w.resolve(each) for each in each_of(w.resolve(obj.args[0]))] if obj.args else []
        targets = {each: target for each in given if (target := self._optimizer(each, w)) is not None}
        if not given or len(targets) < len(given):
            return
        for optimizer, target in targets.items():
            if target.stepped is False and isinstance(optimizer, Ref):
                w.write(optimizer.id).scheduled_at = site
                for key in target.groups:
                    group: Group = w.write(key)
                    group.scheduled_on = group.fed if group.prepared else 0
        if not obj.opaque:
            groups = frozenset[int]().union(*(target.groups for target in targets.values()))
            self._stepping.scheduled(groups, w, ctx, site)

    def _optimizer(self, value: Value, w: World) -> Instance | None:
        """The object behind a value, if it is an optimizer."""
        obj = w.get(value, Instance)
        return obj if obj is not None and obj.role is roles.OPTIMIZER else None

    def stepped(self, optimizer: Value, w: World, ctx: Context, site: Site) -> None:
        """A step of an optimizer that someone else makes."""
        optimizer = self._known(optimizer, w, site)
        obj = w.get(optimizer, Instance)
        if obj is not None and obj.role is roles.OPTIMIZER:
            if obj.opaque:
                self._passes.reached_before(obj.groups, w, ctx)
            self._first_step(optimizer, obj, w, ctx, site)
            self._apply(optimizer, obj, w, ctx, site)

    def groups_of(self, optimizer: Value, w: World, site: Site) -> frozenset[int]:
        """The parameter groups of an optimizer; an unknown value in its place is one."""
        obj = w.get(self._known(optimizer, w, site), Instance)
        return obj.groups if obj is not None and obj.role is roles.OPTIMIZER else frozenset()

    def _known(self, optimizer: Value, w: World, site: Site) -> Value:
        optimizer = w.resolve(optimizer)
        return self.opaque_optimizer(optimizer, w, site) if isinstance(optimizer, Unknown) else optimizer

    def handler(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of an object of a library that makes the backward passes of a loop that the user writes."""
        effect = handles(obj.name, name)
        if effect == "passes_all":
            self._keep_pace(args, w)
            if len(args.positional) == 1:
                return args.positional[0]
            return w.new(Sequence(list(args.positional), [None] * len(args.positional), None, None, False))
        if effect == "passes":
            return w.resolve(args.get(0) or NONE)
        if effect == "backward":
            loss = args.get(0, "loss") or new_unknown("loss")
            self._passes.backward(loss, Arguments([], args.keywords), w, ctx, site)
            return NONE
        return new_unknown("handler")

    def _keep_pace(self, args: Arguments, w: World) -> None:
        """The schedulers that are prepared so step only where their optimizers have."""
        for value in map(w.resolve, args.positional):
            obj = w.get(value, Instance)
            if isinstance(value, Ref) and obj is not None and obj.role is roles.SCHEDULER:
                w.write(value.id).opaque = True  # of what is counted, nothing is known

    def opaque_optimizer(self, value: Unknown, w: World, site: Site) -> Ref:
        """An optimizer of which only the name is known, with a parameter group of its own."""
        place = ("optimizer", value.key)
        groups = value.deps or frozenset([w.new(Group(None, opaque=True, made_at=site), (place, "group")).id])
        ref = w.new(
            Instance(role=roles.OPTIMIZER, name=value.hint or "optimizer", groups=groups, opaque=True, stepped=None),
            place,
        )
        w.bound[value.key] = ref
        self._keys[ref.id] = value.key
        return ref

    def is_given(self, optimizer: int) -> bool:
        """Whether an optimizer is an argument of a function that is followed as if nobody called it."""
        key = self._keys.get(optimizer)
        return isinstance(key, Parameter)

    def held_by(self, value: Unknown, w: World) -> frozenset[int]:
        """The parameters of the optimizers that were taken from an unknown value."""
        found = [key for key, taken in self._keys.items() if value.key in dict(_ways_to(taken))] if self._keys else []
        return self._groups(found, w)

    def _may_be(self, optimizer: Ref, w: World) -> frozenset[int]:
        """The parameters of others that may be the same optimizer: one of several, it is not known which."""
        ways = dict(_ways_to(self._keys.get(optimizer.id)))
        if len(ways) < 2:
            return frozenset()
        found = []
        for key, taken in self._keys.items():
            others = dict(_ways_to(taken)) if key != optimizer.id else {}
            if any(others[holder] or ways[holder] for holder in ways.keys() & others.keys()):
                found.append(key)
        return self._groups(found, w)

    def _groups(self, optimizers: list[int], w: World) -> frozenset[int]:
        found = [w.get(Ref(key), Instance) for key in optimizers]
        return frozenset[int]().union(*(obj.groups for obj in found if obj is not None))

    def configured(self, receiver: Ref, obj: Instance, w: World, ctx: Context, site: Site) -> Value:
        """``self.optimizers()`` of a module whose loop a library runs: what it has configured."""
        cls = obj.cls
        named = (self._definitions.attribute(cls, name, w) for name in sorted(CONFIGURING) if cls is not None)
        method = next((one for one in named if isinstance(one, Function)), None)
        if method is None:
            return new_unknown("optimizers", "optimizers")
        value = joined(self._calls.function(method, Arguments(), w, ctx, site, receiver), w)
        found = self._optimizers_in(value, w)
        if len(found) == 1:
            return found[0]
        return w.new(Sequence(found, [None] * len(found))) if found else new_unknown("optimizers", "optimizers")

    def _optimizers_in(self, value: Value, w: World) -> list[Value]:
        value = w.resolve(value)
        obj = w.get(value, Object)
        if isinstance(obj, Instance):
            return [value] if obj.role is roles.OPTIMIZER else []
        if isinstance(obj, Sequence):
            return [o for item in obj.items for o in self._optimizers_in(item, w)]
        if isinstance(obj, Mapping):
            return [
                o for key in (Const("optimizer"),) if key in obj.items for o in self._optimizers_in(obj.items[key], w)
            ]
        return []


def _ways_to(key: Hashable) -> Iterator[tuple[Hashable, bool]]:
    """An unknown value and what it was taken from, by their keys; and whether it may be any of what that holds."""
    may_be_any = False
    yield key, may_be_any
    while True:
        match key:
            case AttributeOf(owner) | ItemOf(owner, Const()):
                key = owner
            case ItemOf(owner) | ElementOf(_, owner) if owner is not None:
                key, may_be_any = owner, True
            case _:
                return
        yield key, may_be_any


_SCALE = Op(saves="other", size="keeps", activation="keeps")
_SCALER_METHODS = frozenset(["scale", "unscale_", "step", "update"])


class Scalers:
    """Calls methods of gradient scalers, and tells the rules."""

    _witness: Witness
    _tensors: Tensors
    _operations: Operations
    _optimizers: Optimizers

    def looks_like_one(self, value: Value, name: str) -> bool:
        """Whether a method is called on something that has the name of a gradient scaler."""
        return isinstance(value, Unknown) and name in _SCALER_METHODS and bool(SCALER_NAME.search(value.hint.lower()))

    def made(self, args: Arguments, name: str, w: World, place: Hashable) -> Ref:
        """A new ``GradScaler``, or something that has the name of one."""
        enabled = w.resolve(args.keywords.get("enabled", Const(True)))
        return w.new(Instance(name=name, role=roles.SCALER, attrs={"enabled": enabled}), place)

    def method(
        self, receiver: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """``scaler.scale(loss)``, ``unscale_(optimizer)``, ``step(optimizer)``, ``update()``."""
        first = w.resolve(args.get(0, "optimizer") or NONE)
        on = obj.attrs.get("enabled") not in (Const(False), Const(None))
        if name == "scale":
            return self._scaled(w.resolve(args.get(0, "outputs") or NONE), on, w, ctx, site)
        if name in ("unscale_", "step"):
            groups = self._optimizers.groups_of(first, w, site)
            touches = self._witness.presumed(groups, w)
            # Whether the parameters of a model are those of an optimizer is not always known.
            others = [key for key, other in w.all(Group) if other.tokens]
            touches = {**dict.fromkeys(others, None), **touches}
            self._witness.send(events.GradientsUnscaled(site=site, touches=touches), w, ctx)
            if name == "step":
                w.write(receiver.id).groups |= groups
                if on and ESCAPED not in obj.attrs:
                    self._witness.send(events.ScalerStepped(site=site, touches=_all(groups)), w, ctx)
                self._optimizers.stepped(first, w, ctx, site)
        elif name == "update":
            self._witness.send(events.ScalerUpdated(site=site, touches=_all(obj.groups)), w, ctx)
        return NONE

    def _scaled(self, value: Value, on: bool, w: World, ctx: Context, site: Site) -> Value:
        if isinstance(value, Unknown):
            value = self._tensors.from_unknown(value, w)
        result = self._operations.apply(_SCALE, Arguments([value]), w, ctx, site)
        if on and isinstance(result, Ref) and w.get(result, Tensor) is not None:
            w.write(result.id).scaled = True
        return result


def _all(keys: Iterable[int]) -> events.Touches:
    return dict.fromkeys(sorted(keys), True)


def zeroes(args: Arguments, w: World) -> bool:
    """Whether ``zero_grad()`` may keep the gradients and set them to zero, as it is told."""
    given = args.get(0, "set_to_none")
    return given is not None and w.resolve(given) != Const(True)
