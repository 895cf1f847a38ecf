"""Changes of tensors: in place, through their attributes, and what is learnt of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import FALSE, TRUE, Fact, known, unknown
from gradlint.intents import ChangeItself
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.guesses import is_misspelt
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_functions import SPECIAL_ATTRIBUTES, is_method
from gradlint.static.knowledge.torch_operations import RESHAPING
from gradlint.static.knowledge.torch_table import ATTRIBUTES, OVERWRITING, SCALING, STORING
from gradlint.static.python.attributes import Attributes
from gradlint.static.report.witness import MANUAL, Witness
from gradlint.static.state.context import Arguments, Context, Ledgers
from gradlint.static.state.origins import Asked, AttributeOf
from gradlint.static.state.provenance import from_module, is_any, looks_like_parameter, may_be_input
from gradlint.static.state.values import NONE, Bound, Const, Frame, Group, Ref, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.data_reads import DataReads
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.estimates import Estimates, average_of
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.library_models import LibraryModels
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.norms import LeftStatistics
from gradlint.static.torch.operations import Operations, operation_of
from gradlint.static.torch.optimizers import Optimizers
from gradlint.static.torch.ownership import Ownership, UnownedParameters
from gradlint.static.torch.plain_tensors import PlainTensors
from gradlint.static.torch.proofs import Proofs
from gradlint.static.torch.stepping import Stepping
from gradlint.static.torch.tensors import Tensors
from gradlint.static.torch.uses import Inputs, Residuals

if TYPE_CHECKING:
    from gradlint.finding import Site

_DATA = Op(grad="never", activation="keeps", saves="", size="keeps", view=True, detaches=True)


class Changes:
    """Changes tensors, and tells the rules."""

    _inputs: Inputs
    _ledgers: Ledgers
    _witness: Witness
    _attributes: Attributes
    _tensors: Tensors
    _ownership: Ownership
    _breaks: GraphBreaks
    _graphs: Graphs
    _proofs: Proofs
    _memory: Memory
    _plain: PlainTensors
    _operations: Operations
    _estimates: Estimates
    _unowned: UnownedParameters
    _stepping: Stepping
    _data_reads: DataReads
    _escapes: Escapes
    _optimizers: Optimizers
    _library_models: LibraryModels
    _residuals: Residuals
    _left_statistics: LeftStatistics

    def __init__(self) -> None:
        self.trained: set[int] = set()  #: groups of leaves that an optimizer is given
        self._derived: set[int] = set()  #: groups of leaves whose gradient is read

    def in_place(self, how: str, target: Value, values: list[Value], w: World, ctx: Context, site: Site) -> None:
        """An operation that changes ``target`` itself, using ``values``."""
        target = w.resolve(target)
        if not isinstance(target, Ref):
            return
        self._plain.filled(how, target, w, ctx)
        self._plain.changed(how, target, values, w, ctx)
        if (tensor := w.get(target, Tensor)) is None:
            return
        used = self._tensors.tensors_in(values, w)
        gradient_of = self._tensors.gradient_of(used, w)
        if tensor.is_gradient:
            self._gradient_changed(how, tensor, values, w, ctx, site)
            return
        base_id = tensor.data_of
        base = w.find(base_id) if base_id is not None else tensor
        if not isinstance(base, Tensor):
            return
        if w.grad is False or base_id is not None:
            self._left_statistics.written(base.groups, w, site)
            if base.groups & gradient_of:
                self._plain.trained_by_hand([target if base_id is None else Ref(base_id)], w)
            self._stepped(base.groups & gradient_of, w, ctx, site)
        if base_id is not None and how not in RESHAPING:
            self._data_written(base_id, how, tensor.data_at, bool(base.groups & gradient_of), w, ctx, site)
        elif base_id is None:
            self._memory.changed(target.id, how, w, ctx, site)
        self._changed(target.id, tensor, used, how, w)
        self._residuals.changed(operation_of(how), target, used, w, ctx, site)
        resizes = operation_of(how).size == "unknown"
        if resizes or how in RESHAPING:
            new: Tensor = w.write(target.id)
            new.shape, new.size = None, None if resizes else new.size
        if not tensor.groups and w.grad is not False:
            self._breaks.overwritten(how, target.id, values, w, site)

    def unrecorded(self, how: str, target: Value, w: World, ctx: Context, site: Site) -> None:
        """A function changes ``target`` itself under ``no_grad``, which does not help with ``.data``."""
        before, tensor = w.grad, w.get(w.resolve(target), Tensor)
        if tensor is None or tensor.data_of is None:
            w.grad = False
        self.in_place(how, target, [], w, ctx, site)
        w.grad = before

    def _stepped(self, groups: frozenset[int], w: World, ctx: Context, site: Site) -> None:
        """Parameters were changed by their gradients: an update, unless it is an optimizer that updates them.

        What an optimizer holds is changed so to be perturbed (adversarial training), and put back before its step; an
        optimizer that nothing can ask to step any more updates nothing.
        """
        if not groups:
            return
        self._optimizers.applied(groups, w, ctx)
        updated = groups - self._ownership.may_step(w, ctx)
        if updated:
            updated -= self._perhaps_held(updated, w)
        if updated:
            self._witness.step(updated, MANUAL, w, ctx, site)

    def _perhaps_held(self, groups: frozenset[int], w: World) -> frozenset[int]:
        """Those of some parameters that may be in an optimizer of which it is not known what it holds.

        In one that was given to a function there are none of a copy that the function made.
        """
        opaque = [key for key, obj in w.having(roles.OPTIMIZER) if obj.opaque]
        if not opaque:
            return frozenset()
        given = all(map(self._optimizers.is_given, opaque))
        found = ((key, w.find(key)) for key in groups)
        return frozenset(
            key for key, group in found if isinstance(group, Group) and group.opaque and not (given and group.copied)
        )

    def _data_written(
        self, key: int, how: str, taken_at: Site | None, by_gradient: bool, w: World, ctx: Context, site: Site
    ) -> None:
        """The values of a tensor change through its ``.data``; a leaf that is trained is a parameter."""
        if how.endswith("_"):
            self._tensors.must_be_tensor(Ref(key), w)
        view = self._tensors.view_of(Ref(key), w)
        is_no_read = w.grad is False or not view.requires_grad.known
        root = key if how == ".data =" else self._tensors.root(key, w)
        tensor = w.find(root)
        if isinstance(tensor, Tensor) and (
            tensor.is_parameter
            or self._is_trained(tensor)
            or (view.requires_grad.is_true and self._is_weight(root, tensor, w))
        ):
            view = replace(view, is_parameter=TRUE)
        elif isinstance(tensor, Tensor) and tensor.is_parameter is None and tensor.groups & self._inputs.groups:
            view = replace(view, is_parameter=FALSE)
        if self._tensors.is_output(Ref(key), w):
            view = replace(view, requires_grad=TRUE)
        event = events.DataWritten(
            site=site,
            tensor=view,
            how=how,
            taken_at=taken_at,
            grad_enabled=self._tensors.mode(w),
            needed=self._memory.needed(key, w),
            trained=known(by_gradient or self._is_fed(tensor, w)),
            as_parameter=isinstance(tensor, Tensor) and tensor.is_parameter is False,
        )
        if how in OVERWRITING and not view.is_parameter.is_true and self._is_unused(key, w):
            if taken_at is not None:
                self._witness.withdraw(events.DataRead, taken_at)
            new: Tensor = w.write(key)
            new.pending = (*new.pending, event)
            return
        dropped = self._memory.is_dropped(key, w, ctx) or self._memory.is_unseen(key, w, ctx)
        if taken_at is not None and dropped:  # a copy is changed: it was read
            return
        if taken_at is not None and is_no_read:
            self._witness.withdraw(events.DataRead, taken_at)
        if view.requires_grad.is_false and view.is_parameter.is_false and how != ".data =":
            self._memory.spoil(root, "data", w, site)
        self._witness.send(event, w, ctx)
        if not view.requires_grad.known:
            self._proofs.suspected(Ref(key), event, w)
        if not event.needed.is_false:
            self._witness.dispute(ChangeItself, site)

    @staticmethod
    def _is_fed(tensor: object, w: World) -> bool:
        """Whether a backward pass has reached a leaf."""
        groups = (w.find(key) for key in tensor.groups) if isinstance(tensor, Tensor) else ()
        return any(isinstance(group, Group) and group.fed > 0 for group in groups)

    def _is_trained(self, leaf: Tensor) -> bool:
        """Whether an optimizer trains a leaf, or the code does by its gradient: what a module is given is its input."""
        return bool(leaf.groups & self.trained) or bool(leaf.groups & self._derived - self._inputs.groups)

    def _is_weight(self, key: int, leaf: Tensor, w: World) -> bool:
        """Whether a module keeps a leaf, which is not what a module is given: it is a weight, if no parameter."""
        return bool(leaf.groups) and not leaf.groups & self._inputs.groups and self._plain.is_kept(Ref(key), w)

    def _is_unused(self, key: int, w: World) -> bool:
        """Whether nothing was computed from a leaf so far: what it is filled with is its first value, in any graph."""
        leaf = w.find(key)
        if not isinstance(leaf, Tensor) or not leaf.groups or leaf.groups & self._inputs.groups:
            return False
        others = (obj for other, obj in w.all(Tensor) if other != key and obj.data_of != key)
        if any(obj.deps & leaf.groups for obj in others):
            return False
        named = (value for _, frame in w.all(Frame) for value in frame.vars.values() if isinstance(value, Unknown))
        return not any(self._tensors.deps(value, w) & leaf.groups for value in named)

    def trains(self, groups: frozenset[int], w: World, ctx: Context, site: Site) -> None:
        """Leaves turn out to be trained: what they were filled with through ``.data`` were the values of parameters."""
        for key, leaf in w.all(Tensor):
            if leaf.pending and leaf.groups & groups:
                for event in leaf.pending:
                    if isinstance(event, events.DataWritten):
                        view = replace(event.tensor, is_parameter=TRUE)
                        self._witness.send(replace(event, tensor=view), w, ctx, alternative=site)
                w.write(key).pending = ()

    def _changed(self, key: int, tensor: Tensor, used: list[Value], how: str, w: World) -> None:
        """What an in-place operation leaves of the facts of its target."""
        new: Tensor = w.write(key)
        new.origin = None
        new.loaded = new.loaded and all(self._tensors.is_data(value, w) for value in used)
        if how in STORING and used:
            put_in = w.get(used[0], Tensor) if len(used) == 1 else None
            self._put_in(new, put_in if put_in is not None else Tensor())
        elif operation_of(how).activation in ("combines", "scales", "averages"):
            logits = self._operations.combined_logits(operation_of(how), [Ref(key), *used], w)
            new.activation = "none" if logits is None else "logits"
        elif how != "requires_grad_":
            new.activation = "none"
        new.average = average_of(operation_of(how), [tensor, *(w.get(value, Tensor) for value in used)])
        if not tensor.groups and tensor.data_of is None:
            new.gradient_of = self._tensors.gradient_of(used, w).union(() if how in OVERWRITING else tensor.gradient_of)
        if tensor.groups or w.grad is False:
            return
        grads = [self._tensors.requires_grad(v, w) for v in used]
        new.pending = new.pending if set(grads) <= {False} else ()
        if True in grads and w.grad:
            new.requires_grad, new.is_leaf = True, False
        elif None in grads and new.requires_grad is False:
            new.requires_grad = None
            new.sources = tuple(v.id for v in used if isinstance(v, Ref) and self._tensors.requires_grad(v, w) is None)
        self._estimates.changed(how, key, used, tensor.estimate, w)
        for value in used:
            other = w.get(value, Tensor)
            new.deps |= self._tensors.deps(value, w)
            new.calls |= self._graphs.outputs_behind(value, w)
            if other is not None:
                new.segments |= other.segments
                new.regressions = tuple(dict.fromkeys((*new.regressions, *other.regressions)))
                new.spreads = tuple(dict.fromkeys((*new.spreads, *other.spreads)))
                new.reaches |= other.reaches
                new.doubtful |= other.doubtful if new.requires_grad else other.segments
                new.open = new.open or other.open
                if other.device == "cuda" and new.device is None and other.device_if_tensor is None:
                    new.device = "cuda"

    def _put_in(self, new: Tensor, value: Tensor) -> None:
        """``outputs[t] = value``: what was made to be filled holds what is put there, if that is always the same."""
        empty = new.constant and not new.random and new.activation == "none" and value.activation != "none"
        if empty:
            new.activation, new.activation_at = value.activation, value.activation_at
        elif new.activation != value.activation or new.activation == "none":
            new.activation = None

    def _gradient_changed(
        self, how: str, tensor: Tensor, values: list[Value], w: World, ctx: Context, site: Site
    ) -> None:
        if tensor.data_at is not None:  # changed, and not read
            self._witness.withdraw(events.DataRead, tensor.data_at)
        value = w.resolve(values[0]) if values else NONE
        zero = isinstance(value, Const) and value.value in (0, 0.0)
        clears = how in ("zero_", "zeros_") or (how in ("fill_", "mul_", "*=", "[:]=", "copy_") and zero)
        if clears and tensor.part_of is None:
            self._cleared(tensor, tensor.gradient_of, w, ctx, site, zeroed=True)
            return
        self._stepping.assigned(tensor.gradient_of, w, ctx, site, anew=how not in SCALING)
        if clears or how in ("copy_", "fill_", "[]=", "[:]="):
            self._witness.cleared(tensor.gradient_of, "grad", w, ctx, site, certain=False)

    def _cleared(
        self, tensor: Tensor, groups: frozenset[int], w: World, ctx: Context, site: Site, *, zeroed: bool = False
    ) -> None:
        """The gradient of a tensor was cleared, or is one; that of a parameter may be one that an optimizer holds."""
        mine = any(isinstance(group := w.find(key), Group) and group.opaque for key in groups)
        if mine or (tensor.is_parameter and not tensor.is_gradient):
            self._optimizers.clear(groups, mine, w, ctx, site, "grad", zeroed=zeroed)
        else:
            self._stepping.before_clearing(groups, (), w, ctx, site)
            self._witness.cleared(groups, "grad", w, ctx, site, zeroed=zeroed)

    def attribute(self, owner: Ref, tensor: Tensor, name: str, w: World, ctx: Context, site: Site) -> Value:
        """``tensor.name``."""
        if name == "data":
            if self._is_tensor(owner, tensor, w):
                self._witness.send(events.DataRead(site=site, tensor=self._tensors.view_of(owner, w)), w, ctx)
            new = self._operations.result(_DATA, [owner], Arguments([owner]), w, site, frozenset(), None)
            if tensor.is_gradient:
                new.is_gradient, new.gradient_of, new.data_at = True, tensor.gradient_of, site
            else:
                new.data_of, new.data_at = (tensor.data_of or owner.id), site
            ref = w.new(new)
            if not self._is_tensor(owner, tensor, w):
                self._data_reads.taken(ref, tensor.presumed, site)
            self._plain.shown(ref, tensor, w)
            return ref
        if name == "grad":
            return self.gradient(owner, tensor, w, ctx, site)
        if name == "requires_grad":
            answer = self._tensors.requires_grad(owner, w)
            return Unknown(Asked("requires_grad", owner)) if answer is None else Const(answer)
        if name == "is_leaf" and tensor.is_leaf is not None:
            return Const(tensor.is_leaf)
        if name == "device":
            return Const(tensor.device) if tensor.device else Unknown(Asked("device", owner), "device")
        if name in ("values", "indices") and tensor.structured:
            return self._tensors.view(owner, w, site)
        op = ATTRIBUTES.get(name)
        if op is not None:
            value = self._operations.apply(op, Arguments([owner]), w, ctx, site)
            self._tensors.suppose(value, [owner], w)
            return value
        if is_method(name):
            return Bound(owner, name)
        if tensor.structured and name not in SPECIAL_ATTRIBUTES and name != "apply":
            view = self._tensors.view(owner, w, site, name)
            return self._tensors.traced(view, lambda whole: AttributeOf(whole, name), [owner], w)
        return Unknown(AttributeOf(owner, name), name)  # what the program calls by a name of its own may be false

    def _is_tensor(self, owner: Ref, tensor: Tensor, w: World) -> bool:
        """Whether a value is certain to be a tensor: a parameter may be one by its name alone."""
        if tensor.structured:
            return tensor.requires_grad is True
        return not tensor.supposed or self._tensors.requires_grad(owner, w) is not None

    def gradient(self, owner: Ref, tensor: Tensor, w: World, ctx: Context, site: Site) -> Value:
        """``tensor.grad``: an input whose gradient is read has a reason to require grad."""
        if tensor.is_parameter is not True:
            view = self._tensors.presumed_view(owner, w)
            self._witness.send(events.GradOfTensorRead(site=site, tensor=view), w, ctx)
            self._witness.read(tensor.groups or tensor.deps, w, ctx, site)
            if view.requires_grad.is_true and view.is_leaf.is_false and view.retains_grad.is_false:
                return NONE
        groups = tensor.groups
        base = w.find(tensor.data_of) if tensor.data_of is not None else None
        if isinstance(base, Tensor):
            groups = base.groups
        self._derived |= groups
        if groups and not groups & self._inputs.groups:
            self.trains(groups, w, ctx, site)
        self._stepping.looked(groups, w)
        return w.new(
            Tensor(
                requires_grad=False,
                is_leaf=True,
                is_parameter=False,
                device=tensor.device,
                activation="none",
                made_at=site,
                open=False,
                gradient_of=groups,
                is_gradient=bool(groups),
            )
        )

    def attribute_of_unknown(self, owner: Unknown, name: str, w: World, ctx: Context, site: Site) -> Value | None:
        """``.data`` of an unknown value that is a parameter by all appearances: ``m.weight.data``."""
        if name == "grad" and from_module(owner):
            self._witness.send(events.GradOfTensorRead(site=site, tensor=self._tensors.presumed_view(owner, w)), w, ctx)
        if name == "data" and looks_like_parameter(owner):
            groups = frozenset([w.new(Group(None, opaque=True)).id])
            facts = dict.fromkeys(("is_parameter", "is_leaf", "supposed"), True)
            self._tensors.from_unknown(owner, w, groups=groups, deps=groups, open=False, activation="none", **facts)
            return self._attributes.get(owner, name, w, ctx, site)
        if name == "data" and from_module(owner):
            self._tensors.from_unknown(owner, w, structured=True)
            return self._attributes.get(owner, name, w, ctx, site)
        if name == "data":
            self._data_reads.taken_of_unknown(owner, w, site)
        return None

    def set_attribute(self, owner: Ref, name: str, value: Value, w: World, ctx: Context, site: Site) -> None:
        """``tensor.name = value``."""
        value = w.resolve(value)
        if is_misspelt(name):
            self._misspelt(owner, name, w, ctx, site)
        if name == "requires_grad":
            self.asked(owner, value, True, w, ctx, site)
            self.require_grad(owner, bool(value.value) if isinstance(value, Const) else None, w, site)
        elif name in ("grad", "_grad") and (tensor := w.get(owner, Tensor)) is not None:
            groups = tensor.groups
            if value == NONE:
                self._cleared(tensor, groups, w, ctx, site)
            else:
                self._stepping.assigned(groups, w, ctx, site)
                self._witness.cleared(groups, "grad", w, ctx, site, certain=False)
                self._ownership.lent(self._tensors.gradient_of([value], w) - groups, groups, w)
                self._escapes.doubt(groups, [], w)
        elif name == "data":
            tensor = w.get(owner, Tensor)
            if tensor is None:
                return
            used = self._tensors.tensors_in([value], w)
            gradient_of = self._tensors.gradient_of(used, w)
            self._stepped(tensor.groups & gradient_of, w, ctx, site)
            self._left_statistics.written(tensor.groups, w, site)
            self._data_written(owner.id, ".data =", None, bool(tensor.groups & gradient_of), w, ctx, site)
            self._changed(owner.id, tensor, [], "copy_", w)
            given, new = w.get(w.resolve(value), Tensor), w.write(owner.id)
            new.shape, new.size = (None, None) if given is None else (given.shape, given.size)

    def set_attribute_of_unknown(
        self, owner: Unknown, name: str, value: Value, w: World, ctx: Context, site: Site
    ) -> bool:
        """``.requires_grad = …`` says that an unknown value is a tensor (or a module used as one)."""
        is_module = is_any(owner, "module") or self._library_models.is_part(owner, w)
        if name == "requires_grad" and is_module:
            self._witness.send(events.ModuleRequiresGradSet(site=site, module=owner.hint, own=False), w, ctx)
        if name == "requires_grad" and not is_module and w.resolve(value) == Const(True) and may_be_input(owner):
            self.set_attribute(self._tensors.from_unknown(owner, w), name, value, w, ctx, site)
            return True
        if is_misspelt(name) and from_module(owner) and not is_module:
            self._misspelt(owner, name, w, ctx, site)
        if name == "requires_grad" and from_module(owner):
            self.asked(owner, w.resolve(value), True, w, ctx, site)
        if name in ("grad", "_grad"):
            tensor = self._tensors.from_unknown(owner, w)
            self.set_attribute(tensor, name, value, w, ctx, site)
            return True
        if name == "data" and looks_like_parameter(owner):
            self.attribute_of_unknown(owner, name, w, ctx, site)
            ref = w.resolve(owner)
            if isinstance(ref, Ref):
                self.set_attribute(ref, name, value, w, ctx, site)
                return True
        return False

    def _misspelt(self, owner: Value, name: str, w: World, ctx: Context, site: Site) -> None:
        """An attribute of a tensor is set that is nearly ``requires_grad``."""
        tensor = w.get(owner, Tensor)
        if tensor is None or not tensor.structured:
            view = self._tensors.presumed_view(owner, w)
            self._witness.send(events.AttributeMisspelt(site=site, tensor=view, attribute=name), w, ctx)

    def asked(self, owner: Value, value: Value, assigned: bool, w: World, ctx: Context, site: Site) -> None:
        """``requires_grad`` of a tensor is set: assigned, or by ``requires_grad_``."""
        flag: Fact[bool] = known(bool(value.value)) if isinstance(value, Const) else unknown()
        frees = not assigned and not flag.is_false  # what a frozen module returned is rightly asked to require grad
        view = self._tensors.view_of(owner, w) if frees else self._tensors.presumed_view(owner, w)
        self._witness.send(events.RequiresGradSet(site=site, tensor=view, value=flag, assigned=assigned), w, ctx)

    def require_grad(self, owner: Ref, flag: bool | None, w: World, site: Site) -> None:
        """``requires_grad = flag`` for a leaf or a parameter."""
        tensor = w.get(owner, Tensor)
        if tensor is None:
            return
        for key in tensor.stands_for:
            self.require_grad(Ref(key), flag, w, site)
        if tensor.stands_for:
            parts = [part for key in tensor.stands_for if isinstance(part := w.find(key), Tensor)]
            one: Tensor = w.write(owner.id)
            one.groups = one.groups.union(*(part.groups for part in parts))
            one.deps = one.deps.union(*(part.deps for part in parts))
            one.requires_grad = flag
            return
        if tensor.groups:
            w.write(owner.id).pending = ()
            for key in tensor.groups:
                group = self._unowned.told_to_train(key, flag, w, site, owner)
                group.requires_grad = None if tensor.some_of_groups and group.requires_grad is not flag else flag
            return
        frozen = self._tensors.is_frozen(tensor.deps, w)
        new: Tensor = w.write(owner.id)
        new.pending = ()
        if flag is False:
            new.requires_grad, new.deps, new.segments, new.reaches = False, frozenset(), frozenset(), frozenset()
        elif tensor.requires_grad is not True:
            own = w.new(Group(flag, made_at=site)).id
            if tensor.is_leaf is not False:
                new.groups = frozenset([own])
                new.is_leaf = True
            new.deps |= {own}
            new.requires_grad = flag
            if tensor.cut is not None or tensor.open or frozen:
                new.asked_at = site
