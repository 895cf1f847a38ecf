"""Storage: which values share it, which of it a backward pass will need, and what changes it in between."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradlint import events
from gradlint.facts import FALSE, TRUE, Fact, known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import METHODS
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import united
from gradlint.static.state.context import Context, Ledger, Ledgers, Results
from gradlint.static.state.origins import Asked
from gradlint.static.state.provenance import is_numpys
from gradlint.static.state.values import (
    Frame,
    Instance,
    Mapping,
    Ref,
    Segment,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
)
from gradlint.static.state.world import World
from gradlint.static.text.nodes import WHOLE, Place, place_of
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Site

_NOTICED = {"numpy": unknown(), "data": FALSE}  #: whether autograd sees what was changed so; else it does
_UNCHECKED = frozenset(["share_memory_", "requires_grad_", "set_", "resize_", "resize_as_", "apply_"])
"""Methods that end in an underscore and change no values, or change them where autograd does not look."""


def _held(w: World, ctx: Context) -> Iterator[Value]:
    """What variables of functions that have not returned, and of files, and all objects, lists and dicts hold."""
    frames = {*ctx.frames(), *w.modules.values()}
    queue = list(frames)
    while queue:
        frame = w.find(queue.pop())
        if isinstance(frame, Frame) and frame.parent is not None and frame.parent not in frames:
            frames.add(frame.parent)
            queue.append(frame.parent)
    values = [value for key, here in w.all(Frame, imported=True) if key in frames for value in here.vars.values()]
    values += [value for _, obj in w.all(Instance, imported=True) for value in (*obj.attrs.values(), *obj.args)]
    values += [value for _, held in w.all(Sequence, imported=True) for value in held.parts()]
    values += [value for _, held in w.all(Mapping, imported=True) for value in held.parts()]
    yield from map(w.resolve, values)


class Memory:
    """Knows what shares storage with what."""

    _ledgers: Ledgers
    _witness: Witness
    _tensors: Tensors
    _graphs: Graphs

    def __init__(self) -> None:
        self._arrays: dict[
            Hashable, tuple[int, ...]
        ] = {}  #: tensors by the identity of the arrays that share with them
        self._slices: Ledger[Hashable, tuple[Hashable, Place]] = self._ledgers.open()
        """By the identity of a part of an array: that array, and which part."""
        self._parts: Ledger[Hashable, tuple[tuple[Place, int], ...]] = self._ledgers.open()
        """By the identity of an array: tensors that share a part of it with it, and which."""
        self._saved: set[int] = set()  #: storages that some backward pass needed, in any world
        self._from_numpy: set[int] = set()
        self._amended: set[Site] = set()
        self._adjusted: set[Site] = set()  #: the same of a part of them

    # --- what a backward pass will need

    def saved(self, op: Op, inputs: list[Value], ref: Ref, parameters: bool, w: World) -> None:
        """An operation recorded a graph: it keeps some of its inputs, and its output."""
        if op.saves == "other":
            self._perhaps_saved(inputs, ref, w)
        if op.saves in ("", "other"):
            return
        before = united(t.segments for t in (w.get(v, Tensor) for v in inputs) if t is not None)
        result = w.get(ref, Tensor)
        kept = set()
        if op.saves != "output":
            kept |= {self._tensors.root(v.id, w) for v in self._kept(inputs, parameters, w)}
        if op.saves != "input":
            kept.add(ref.id)
        for key in result.segments - before if result is not None else ():
            segment: Segment = w.write(key)
            segment.result, segment.saved = ref.id, frozenset(kept)
            self._saved |= kept

    def _perhaps_saved(self, inputs: list[Value], ref: Ref, w: World) -> None:
        """What an operation keeps is not known."""
        result = w.get(ref, Tensor)
        if result is None or not self._witness.listened(events.DataWritten):
            return
        given = frozenset(self._tensors.root(v.id, w) for v in inputs if isinstance(v, Ref))
        for key in result.segments.difference(*(t.segments for t in (w.get(v, Tensor) for v in inputs) if t)):
            w.write(key).perhaps_saved = given | {ref.id}

    def needed(self, key: int, w: World) -> Fact[bool]:
        """Whether the backward pass of a graph that is still there needs this storage; unknown if it may."""
        root = self._tensors.root(key, w)
        segments = [one for _, one in w.all(Segment) if one.freed is not True]
        if any(root in one.saved and one.freed is False for one in segments):
            return TRUE
        return unknown() if any(root in one.saved | one.perhaps_saved for one in segments) else FALSE

    def is_dropped(self, key: int, w: World, ctx: Context) -> bool:
        """Whether nothing holds a computed tensor, or anything of its graph, any more: no backward pass can walk it."""
        tensor = w.find(key)
        if not isinstance(tensor, Tensor) or tensor.groups or tensor.reaches or not tensor.segments:
            return False
        for value in _held(w, ctx):
            for one in each_of(value):
                other = w.get(w.resolve(one), Tensor)
                if other is not None and other.segments & tensor.segments:
                    return False
                if isinstance(one, Unknown) and (one.deps & tensor.deps or self._graphs.reached(one, w)):
                    return False
        return True

    def is_unseen(self, key: int, w: World, ctx: Context) -> bool:
        """Whether no operation has saved a computed tensor, and only its ``.data`` is held: ``x.clone().data``."""
        tensor = w.find(key)
        if not isinstance(tensor, Tensor) or tensor.groups or (tensor.is_leaf is not False and not tensor.recorded):
            return False
        root = self._tensors.root(key, w)
        if any(root in segment.saved | segment.perhaps_saved for _, segment in w.all(Segment)):
            return False
        for value in _held(w, ctx):
            for one in map(w.resolve, each_of(value)):
                other = w.get(one, Tensor)
                if isinstance(one, Unknown) and one.deps & tensor.deps:
                    return False
                if (
                    isinstance(one, Ref)
                    and other is not None
                    and other.data_of != key
                    and self._tensors.root(one.id, w) == root
                ):
                    return False
        return True

    def _kept(self, inputs: list[Value], parameters: bool, w: World) -> list[Ref]:
        """The inputs that are needed: each factor only where another one requires grad."""
        needed = [self._tensors.presumed(v, w) is True for v in inputs]
        kept = []
        for number, value in enumerate(inputs):
            others = parameters or any(needed[:number] + needed[number + 1 :])
            if isinstance(value, Ref) and (others or (len(inputs) == 1 and needed[number]) or inputs.count(value) > 1):
                kept.append(value)
        return kept

    def alias(self, result: Value, value: Value, w: World) -> None:
        """An operation has overwritten its input and returned it."""
        value = w.resolve(value)
        tensor = w.get(result, Tensor)
        if tensor is None or not isinstance(result, Ref) or not isinstance(value, Ref) or result == value:
            return
        root = self._tensors.root(value.id, w)
        w.write(result.id).base = root
        for key in tensor.segments:
            segment = w.find(key)
            if isinstance(segment, Segment) and result.id in segment.saved:
                w.write(key).saved = segment.saved - {result.id} | {root}
                self._saved.add(root)

    def copied(self, part: Ref, w: World) -> None:
        """A part of a tensor is, or may be, a copy: to change it does not change that."""
        new: Tensor = w.write(part.id)
        new.base = None

    # --- changes

    def changed(self, key: int, how: str, w: World, ctx: Context, site: Site) -> None:
        """The values of a tensor change where autograd sees it."""
        if how in _UNCHECKED:
            return
        tensors = self._tensors
        tensor = w.find(key)
        root = self._tensors.root(key, w)
        owner = w.find(root)
        if not isinstance(tensor, Tensor) or not isinstance(owner, Tensor):
            return
        target = root if owner.groups and tensors.requires_grad(Ref(key), w) else key
        mode = tensors.mode(w)
        view = tensors.view_of(Ref(target), w)
        self._witness.send(events.ChangedInPlace(site=site, tensor=view, how=how, grad_enabled=mode), w, ctx)
        if not owner.groups:
            self.spoil(root, how, w, site)
        op = METHODS.get(how)
        if op is not None and op.saves in ("output", "both") and tensors.requires_grad(Ref(key), w) and w.grad:
            segment = w.new(Segment(result=key, saved=frozenset([root]))).id
            self._saved.add(root)
            w.write(key).segments |= {segment}

    def spoil(self, root: int, how: str, w: World, site: Site) -> None:
        """What uses this storage and is needed by a backward pass is lost to it."""
        if root not in self._saved:
            return
        for key, segment in w.all(Segment):
            if root in segment.saved and _is_intact(segment):
                new: Segment = w.write(key)
                new.spoilt_at, new.spoilt_by, new.idle = site, how, _is_evaluation(w)

    def walked(self, root: Tensor, w: World, ctx: Context, site: Site, *, alone: bool = False) -> None:
        """A backward pass needs what was saved: report what was changed since (alone: and not for an evaluation)."""
        for key in sorted(root.segments):
            segment = w.find(key)
            if not isinstance(segment, Segment) or segment.spoilt_at is None or segment.freed is not False:
                continue
            if alone and segment.idle:
                continue
            result = Ref(segment.result) if segment.result is not None else None
            made = w.get(result, Tensor) if result is not None else None
            if result is None or made is None or self._tensors.presumed(result, w) is not True:
                continue
            event = events.SavedTensorChanged(
                site=site,
                tensor=self._tensors.view_of(result, w),
                noticed=_NOTICED.get(segment.spoilt_by, TRUE),
                saved_at=made.made_at,
                changed_at=segment.spoilt_at,
            )
            self._witness.send(event, w, ctx, alternative=segment.spoilt_at)

    def handed_on(self, results: Results, ctx: Context, site: Site) -> None:
        """A module that nothing calls gives its output: in training, a backward pass will come from there.

        What is changed on some of the ways only may be meant for inference, as what is in evaluation mode is.
        """
        ends = [(w, self._tensors_in(output, w)) for w, output in results if not _is_evaluation(w)]
        if all(any(self._is_spoilt(tensor, w) for tensor in tensors) for w, tensors in ends):
            for w, tensors in ends:
                for tensor in tensors:
                    self.walked(tensor, w, ctx, site, alone=True)

    def _tensors_in(self, output: Value, w: World) -> list[Tensor]:
        found = (w.get(value, Tensor) for value in self._tensors.tensors_in([output], w))
        return [tensor for tensor in found if tensor is not None]

    def _is_spoilt(self, tensor: Tensor, w: World) -> bool:
        segments = (w.find(key) for key in tensor.segments)
        return any(isinstance(s, Segment) and s.spoilt_at is not None and not s.idle for s in segments)

    # --- numpy arrays

    def share(self, array: Value, tensor: Value, w: World, from_numpy: bool = False) -> None:
        """``tensor.numpy()`` and ``torch.from_numpy(array)``: both use the same storage."""
        key = _identity(array)
        if key is not None and isinstance(tensor, Ref):
            if from_numpy:
                self._from_numpy.add(tensor.id)
            root = self._tensors.root(tensor.id, w)
            self._arrays[key] = (*self._arrays.get(key, ()), root)
            if key in self._slices:
                whole, place = self._slices[key]
                self._parts[whole] = (*self._parts.get(whole, ()), (place, root))

    def sliced(self, part: Value, array: Value, node: cst.Subscript, w: World) -> None:
        """``part`` is ``array[…]``, which shares its storage if the array is one of numpy."""
        place = place_of(node) if is_numpys(array) or self.is_array(array, w) else None
        key, whole = _identity(part), _identity(array)
        if place is not None and key is not None:
            self._slices[key] = whole, place

    def shares(self, array: Value) -> bool:
        """Whether a value is an array that shares its storage with a tensor."""
        key = _identity(array)
        return key is not None and (key in self._arrays or key in self._parts)

    def part(self, array: Value, obj: Instance, w: World) -> Ref:
        """``array[0]``: a view of an array that shares its storage with a tensor."""
        view = w.new(Instance(name=obj.name, role=roles.ARRAY, made_at=obj.made_at))
        self._arrays[view.id] = self._arrays.get(_identity(array), ())
        return view

    def is_array(self, value: Value, w: World) -> bool:
        """Whether a value is a numpy array, as far as that is known."""
        obj = w.get(value, Instance)
        return (obj is not None and obj.role is roles.ARRAY) or self.shares(value)

    def array_changed(
        self, array: Value, w: World, ctx: Context, site: Site, amended: bool = False, at: Place | None = WHOLE
    ) -> None:
        """An array is changed in place, and with it the tensors that share it.

        Args:
            array: the array.
            w: the world.
            ctx: where.
            site: the place.
            amended: it is changed from what it held.
            at: the part that is changed; None where that is not known.
        """
        if amended:
            (self._amended if at == WHOLE else self._adjusted).add(site)
        identity = _identity(array)
        parts = [key for place, key in self._parts.get(identity, ()) if at in (WHOLE, place)]
        for key in (*self._arrays.get(identity, ()), *parts):
            tensor = w.find(key)
            if not isinstance(tensor, Tensor):
                continue
            self.spoil(key, "numpy", w, site)
            if tensor.is_parameter:
                self._used(key, site, site, w, ctx)
            elif tensor.stale_at is None:
                w.write(key).stale_at = site

    def used(self, values: list[Value], w: World, ctx: Context, site: Site) -> None:
        """Tensors are read: what an array that shares their storage did to them shows."""
        if not self._arrays:
            return
        for value in values:
            if isinstance(value, Ref) and isinstance(w.find(value.id), Tensor):
                key = self._tensors.root(value.id, w)
                tensor = w.find(key)
                if isinstance(tensor, Tensor) and tensor.stale_at is not None and tensor.stale_at != site:
                    self._used(key, tensor.stale_at, site, w, ctx)

    def _used(self, key: int, changed: Site, site: Site, w: World, ctx: Context) -> None:
        tensor = self._tensors.view_of(Ref(key), w)
        made_for_it = tensor.is_leaf.is_true and not tensor.cut.known and not tensor.is_parameter.is_true
        drawn = isinstance(leaf := w.find(key), Tensor) and leaf.random
        adjusts = changed in self._adjusted and tensor.requires_grad.is_true
        amends = adjusts or changed in self._amended
        fills = made_for_it and not drawn and key not in self._from_numpy and not amends
        event = events.SharedMemoryChanged(site=changed, tensor=tensor, used_at=site, fresh=known(fills))
        self._witness.send(event, w, ctx)


def overwriting(op: Op) -> Op:
    """An operation told to overwrite its input: of what it is about to overwrite, autograd keeps a copy."""
    saves: dict[str, Any] = {"input": "other", "both": "output"}
    return replace(op, saves=saves.get(op.saves, op.saves))


def _is_evaluation(w: World) -> bool:
    """Whether a module was found not to be in training mode."""
    return any(not holds and isinstance(key, Asked) and key.question == "training" for key, holds in w.assumed.items())


def _is_intact(segment: Segment) -> bool:
    return segment.spoilt_at is None and segment.freed is False


def _identity(array: Value) -> Hashable:
    if isinstance(array, Ref):
        return array.id
    return array.key if isinstance(array, Unknown) else None


__all__ = ["Memory", "overwriting"]
