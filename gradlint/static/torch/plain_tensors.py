"""Tensors that modules keep as plain attributes: neither trained, nor moved, nor saved with the module."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_layers import names_parameter
from gradlint.static.knowledge.torch_table import BATCH_STEPS, RANDOM, RANDOM_FILLS
from gradlint.static.python.definitions import Definitions
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import held
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import AttributeOf, Batch, ItemOf, New, Operation, Parameter, Result, UnaryOperation
from gradlint.static.state.provenance import is_number
from gradlint.static.state.values import NONE, Const, Instance, Mapping, Object, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors, handed_on

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.python.domain import Index

_MOVERS = ("to", "cuda", "_apply")
_ACROSS_DEVICES = frozenset(["copy_", "[]=", "[:]=", "out="])  #: changes by which values may come from another device
_NOTHING_TO_TELL = ("", "")  #: stands where names would of what may stay on the device it is on
_FACTS_OF_TENSORS = frozenset(["shape", "ndim", "device", "dtype"])


class PlainTensors:
    """Follows tensors from a plain attribute of a module to where they meet what the module is given."""

    _witness: Witness
    _definitions: Definitions
    _tensors: Tensors

    # --- keeping

    def set(self, ref: Ref, obj: Instance, name: str, value: Value, w: World, site: Site) -> None:
        """A module that is being built gets a tensor of its own making as attribute ``name``."""
        tensor = w.get(value, Tensor)
        if tensor is None or not isinstance(value, Ref) or value.id < ref.id or obj.cls is None:
            return
        requires_grad = self._tensors.requires_grad(value, w)
        fixed = requires_grad is False or (requires_grad is None and not tensor.deps and not tensor.open)
        if (
            not fixed
            or tensor.is_parameter is True
            or tensor.device != "cpu"
            or tensor.placed
            or (tensor.size == "one" and not tensor.shape)
            or self._is_moved(obj, name, w)
        ):
            return
        new: Tensor = w.write(value.id)
        new.kept_as, new.kept_at = (obj.cls.unit.name, name), site

    def _is_moved(self, obj: Instance, name: str, w: World) -> bool:
        """Whether the class moves or makes the attribute itself, in another method: ``forward`` may update it."""
        assert obj.cls is not None
        definitions = self._definitions
        if any(definitions.attribute(obj.cls, mover, w) is not None for mover in _MOVERS):
            return True
        methods = [m for cls in definitions.mro(obj.cls) for m in cls.unit.methods.values() if m.name != "__init__"]
        return any(
            name in m.assigned_attributes and not (m.name == "forward" and name in m.updated_attributes)
            for m in methods
        )

    def built(self, ref: Ref, obj: Instance, registered: frozenset[int], w: World, ctx: Context) -> None:
        """A module was built: tell of its attributes that require grad and are no parameters of it."""
        assert obj.cls is not None
        for name, site in sorted(obj.set_at.items()):
            value = w.resolve(obj.attrs.get(name, Const(None)))
            tensor = w.get(value, Tensor)
            if tensor is None or not isinstance(value, Ref) or value.id < ref.id or tensor.is_parameter is not False:
                continue
            groups = tensor.groups or tensor.deps
            event = events.TensorKept(
                site=site,
                module=obj.cls.unit.name,
                attribute=name,
                requires_grad=known(self._tensors.requires_grad(value, w) is True),
                computed=known(not tensor.groups),
                registered=known(not groups or min(groups) < ref.id or bool(groups & registered)),
            )
            self._witness.send(event, w, ctx, alternative=name)

    def is_kept(self, leaf: Ref, w: World) -> bool:
        """Whether a module of the project keeps a tensor: as an attribute, or in a list or dict that is one."""
        for value in (w.resolve(value) for module in _modules(w) for value in module.attrs.values()):
            container = w.get(value, Object)
            within = held(container, w) if isinstance(container, (Sequence, Mapping)) else ()
            if value == leaf or any(item == leaf for item, _ in within):
                return True
        return False

    def set_again(self, obj: Instance, name: str, value: Value, w: World) -> None:
        """An attribute of a module that is built gets another value: what is not only moved there is no weight."""
        before = w.resolve(obj.attrs.get(name, NONE))
        tensor, new = w.get(before, Tensor), w.get(value, Tensor)
        if tensor is None or tensor.is_parameter or name not in obj.set_at or value == before:
            return
        if new is None or new.moved_of is None or not isinstance(before, Ref) or new.moved_of != before.id:
            self._witness.withdraw(events.TensorKept, obj.set_at[name])

    def trained_by_hand(self, values: Iterable[Value], w: World) -> None:
        """Somebody asks for the gradients of these by name, or applies them: a module may keep them on purpose."""
        if not self._witness.listened(events.TensorKept):
            return
        plain = {v: t for v in values if (t := w.get(v, Tensor)) is not None and t.is_parameter is False}
        groups = frozenset[int]().union(*(tensor.groups for tensor in plain.values()))
        for module in _modules(w) if plain else ():
            for name, site in module.set_at.items():
                kept = w.resolve(module.attrs.get(name, NONE))
                tensor = w.get(kept, Tensor)
                if tensor is not None and (kept in plain or tensor.groups & groups):
                    self._witness.withdraw(events.TensorKept, site)

    # --- operations

    def made(self, name: str, args: Arguments, value: Value, w: World) -> None:
        """A function of torch made ``value``."""
        if not isinstance(value, Ref) or w.get(value, Tensor) is None:
            return
        if "device" in args.keywords:
            w.write(value.id).placed = True
        if name in RANDOM:
            w.write(value.id).random = True
        elif name == "torch.tensor" and _is_computed(w.resolve(args.get(0) or Const(None))):
            w.write(value.id).size = "one"

    def filled(self, how: str, target: Value, w: World, ctx: Context) -> None:
        """A tensor was changed in place: one that is filled anew wherever it is used holds no weights."""
        tensor = w.get(target, Tensor)
        if how not in RANDOM_FILLS or tensor is None or not isinstance(target, Ref):
            return
        random = tensor.kept_at is None or not _in_use(ctx)
        w.write(target.id).random = random
        base = w.find(tensor.data_of) if tensor.data_of is not None else None
        if tensor.data_of is not None and isinstance(base, Tensor) and not base.groups:
            w.write(tensor.data_of).random = random

    def shown(self, result: Ref, tensor: Tensor, w: World) -> None:
        """``result`` is the ``.data`` of a tensor: it is as plain as that."""
        new: Tensor = w.write(result.id)
        new.kept_as, new.kept_at = tensor.kept_as, tensor.kept_at
        new.random, new.constant, new.placed = tensor.random, tensor.constant, tensor.placed
        handed_on(new, tensor, new.made_at)

    def indexed(self, owner: Value, parts: list[Index], part: Ref, w: World) -> None:
        """``owner[i, j]`` is ``part``: a single element may stay where it is, so far as is known that is one."""
        tensor = w.get(owner, Tensor)
        if tensor is None or tensor.kept_at is None or not all(map(_is_place, parts)):
            return
        if tensor.shape is None or len(tensor.shape) <= len(parts):
            w.write(part.id).kept_as = _NOTHING_TO_TELL

    def combined(self, op: Op, inputs: list[Value], result: Value, parameters: bool, w: World, ctx: Context) -> None:
        """An operation was applied: tell where a plain attribute meets another tensor, else hand on what is known."""
        tensors = [(v, t) for v in inputs if (t := w.get(v, Tensor)) is not None]
        kept = [t for _, t in tensors if t.kept_at is not None and not t.groups]  # else it is trained by hand
        in_use = _in_use(ctx)
        outside = in_use and any(self._comes_from_outside(v, w, ctx) for v in inputs)
        if kept and op.device == "inputs" and not op.view and (outside or (parameters and in_use)):
            self._tell(kept, w, ctx, factor=op.saves in ("input", "both"))
        if kept and op.device in ("to", "cpu", "cuda"):
            self._moved(kept, ctx)
        new = w.get(result, Tensor)
        if new is None or not isinstance(result, Ref) or parameters or not tensors:
            return
        if not outside and all(t.constant for _, t in tensors):
            w.write(result.id).random = any(t.random for _, t in tensors)
            w.write(result.id).constant = not any(isinstance(v, Unknown) and not is_number(v) for v in inputs)
        if op.device in ("to", "cpu", "cuda", "unknown") or any(t.placed for _, t in tensors):
            w.write(result.id).placed = True
        if len(inputs) == 1 and kept and op.device == "inputs":
            w.write(result.id).kept_as, w.write(result.id).kept_at = kept[0].kept_as, kept[0].kept_at

    def changed(self, how: str, target: Value, values: list[Value], w: World, ctx: Context) -> None:
        """``target`` was changed in place, using ``values``: they have to be where it is, unless they are copied."""
        if how in _ACROSS_DEVICES or not _in_use(ctx) or not self._comes_from_outside(target, w, ctx):
            return
        tensors = [t for value in values if (t := w.get(value, Tensor)) is not None]
        self._tell([t for t in tensors if t.kept_at is not None and not t.groups], w, ctx, factor=False)

    def _moved(self, kept: list[Tensor], ctx: Context) -> None:
        """``if use_cuda: self.mean = self.mean.cuda()`` while the module is built: its device is taken care of."""
        if ctx.function is not None and ctx.function.unit.name == "__init__":
            for tensor in kept:
                if tensor.kept_at is not None:
                    self._witness.withdraw(events.PlainTensorUsed, tensor.kept_at)

    def _comes_from_outside(self, value: Value, w: World, ctx: Context) -> bool:
        """Whether a value may be a tensor on the device of what the module was given."""
        tensor = w.get(value, Tensor)
        if tensor is None:
            return isinstance(value, Unknown) and _is_input(value)
        here = getattr(tensor.made_at, "unit", None) is ctx.unit
        return tensor.kept_at is None and (tensor.placed or not (tensor.constant and here))

    def _tell(self, kept: list[Tensor], w: World, ctx: Context, *, factor: bool) -> None:
        if w.device_checked:
            return  # ``if x.is_cuda: ... else: x - self.mean``: it is used where it fits
        for tensor in kept:
            assert tensor.kept_at is not None
            if tensor.kept_as == _NOTHING_TO_TELL:
                continue
            event = events.PlainTensorUsed(
                site=tensor.kept_at,
                module=tensor.kept_as[0],
                attribute=tensor.kept_as[1],
                random=known(tensor.random),
                factor=known(factor),
                like_parameter=names_parameter(tensor.kept_as[1]),
            )
            self._witness.send(event, w, ctx)


def _modules(w: World) -> Iterator[Instance]:
    """The modules of classes of the project."""
    for _, obj in w.all(Instance, imported=True):
        if obj.cls is not None and obj.role.is_model:
            yield obj


def _in_use(ctx: Context) -> bool:
    """Whether code is run whenever the module is used."""
    return ctx.in_forward or (ctx.function is not None and ctx.function.unit.name in BATCH_STEPS)


def _is_place(index: Index) -> bool:
    """Whether an index is one number."""
    if isinstance(index, Const):
        return type(index.value) is int
    return isinstance(index, Unknown) and is_number(index)


def _is_input(value: Unknown) -> bool:
    """Whether an unknown value is an argument of ``forward``, or a part of one that is no mere fact about it."""
    key: Hashable = value.key
    while True:
        match key:
            case Parameter(function):
                return getattr(function, "name", "") in ("forward", *BATCH_STEPS)
            case Batch() | Result() | New("result"):
                return True
            case AttributeOf(_, name) if name in _FACTS_OF_TENSORS:
                return False
            case AttributeOf(owner) | ItemOf(owner):
                key = owner
            case _:
                return False


def _is_computed(value: Value) -> bool:
    """Whether a value is one number: a constant, or what was computed of numbers; a setting may be a list as well."""
    if isinstance(value, Unknown):
        return isinstance(value.key, (Operation, UnaryOperation)) and is_number(value)
    return isinstance(value, Const)
