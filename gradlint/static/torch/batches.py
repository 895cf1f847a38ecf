"""What loaders of torch put together, as far as it is known: the items of their data sets, stacked to tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import (
    ARBITRARY_TRANSFORMS,
    COLLATE,
    COLLECTING_TRANSFORMS,
    IMAGE_TRANSFORMS,
    LIBRARY_DATASETS,
    LIBRARY_TRANSFORMS,
    ONE_BY_ONE,
    STACKING_LOADER,
    TENSOR_DATASET,
    TENSOR_TRANSFORMS,
    TRANSFORMING,
)
from gradlint.static.python.budget import Budget
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Index
from gradlint.static.python.progress import Progress
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Batch, ItemOf, Number, fresh
from gradlint.static.state.values import (
    NONE,
    Choice,
    Const,
    Function,
    Instance,
    Lambda,
    Mapping,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site

_DATASET, _COLLATE = "<dataset>", "<collate_fn>"
_MAX_STEPS = 300  #: statements executed to make an item of a data set, at most


class Batches:
    """Tells what is a tensor of that which a loader gives."""

    _budget: Budget
    _progress: Progress
    _definitions: Definitions
    _calls: Calls
    _tensors: Tensors

    # --- what is built

    def loader(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Ref:
        """A data loader."""
        attrs: dict[str, Value] = {}
        if name == STACKING_LOADER and (dataset := args.get(0, "dataset")) is not None:
            unknown = new_unknown("collate_fn")
            attrs = {_DATASET: dataset, _COLLATE: unknown if args.open else args.get(*COLLATE) or NONE}
        loader = Instance(name=name, role=roles.LOADER, args=tuple(args.positional), attrs=attrs)
        return w.new(loader, (site, ctx.key, name))

    def given(self, name: str, args: Arguments, hint: str, w: World) -> Unknown:
        """What calling ``name`` (canonical) gives, which touches nothing; its key tells data sets of known items."""
        told = name if self._is_library_item(name, args, w) else ""
        if told and self._ends_in_tensor(name, args, w):
            return Unknown(Number(fresh(), told, is_tensor=True), hint)
        return Unknown(Number(fresh(), told), hint)

    def _ends_in_tensor(self, name: str, args: Arguments, w: World) -> bool:
        """Whether a transform of a library gives a tensor of whatever image it is given."""
        listed = w.get(w.resolve(args.get(0, "transforms") or NONE), Sequence)
        if name not in ONE_BY_ONE or listed is None:
            return name in TENSOR_TRANSFORMS
        ends = False
        for item in map(w.resolve, listed.items):
            ends = _gives_tensors(item) or (ends and _library_name(item) not in IMAGE_TRANSFORMS)
        return ends

    def transformed(self, callee: Unknown, w: World, site: Site) -> Ref | None:
        """What calling a transform gives, if that is a tensor: a new one, which has nothing of a graph."""
        return self._tensors.leaf(w, site, activation=None) if _gives_tensors(callee) else None

    def _is_library_item(self, name: str, args: Arguments, w: World) -> bool:
        """Whether a call builds a transform of a library, or a data set that uses no others."""
        if args.open:
            return False
        if name in COLLECTING_TRANSFORMS:
            return all(self._is_transform(value, w) for value in args)
        if name.startswith(LIBRARY_TRANSFORMS):
            return name not in ARBITRARY_TRANSFORMS
        if name == TENSOR_DATASET:
            return True
        if not name.startswith(LIBRARY_DATASETS):
            return False
        further = [value for value in args.positional[1:] if not isinstance(w.resolve(value), Const)]
        further += [args.keywords[key] for key in TRANSFORMING if key in args.keywords]
        return all(self._is_transform(value, w) for value in further)

    def _is_transform(self, value: Value, w: World) -> bool:
        value = w.resolve(value)
        held = w.get(value, Sequence)
        if held is not None:
            return held.tail is None and all(self._is_transform(item, w) for item in held.items)
        if isinstance(value, Choice):
            return all(self._is_transform(item, w) for item in value.alternatives)
        return value == NONE or _library_name(value).startswith(LIBRARY_TRANSFORMS)

    # --- what comes out

    def batch(self, loader: Ref) -> Unknown:
        """What a loader gives: unknown, but it carries no graph."""
        return Unknown(Batch(fresh(), loader), "batch")

    def of_loader(self, loader: Value) -> Value | None:
        """One of its batches."""
        return self.batch(loader) if isinstance(loader, Ref) else None

    def of_dataset(self, dataset: Value) -> Value:
        """One of its items."""
        return Unknown(Batch(fresh()), "batch")

    def item(self, owner: Value, obj: Instance, index: Index, w: World, ctx: Context, site: Site) -> Value:
        """The item of a data set at an index."""
        return new_unknown("item", "", obj.groups)

    def another(self, value: Unknown) -> Unknown | None:
        """Another batch of the same loader, where a value is a batch."""
        key = value.key
        return self.batch(key.loader) if isinstance(key, Batch) and isinstance(key.loader, Ref) else None

    def is_tensor(self, value: Value, w: World, ctx: Context) -> bool:
        """Whether a value is an item of a batch, and a tensor if it has the methods of one."""
        key = value.key if isinstance(value, Unknown) else None
        batch, place = (key.owner, key.at) if isinstance(key, ItemOf) else (None, None)
        if not isinstance(batch, Batch) or not isinstance(batch.loader, Ref) or not isinstance(place, Const):
            return False
        loader = w.get(batch.loader, Instance)
        if loader is None or not {_DATASET, _COLLATE} >= loader.attrs.keys() >= {_COLLATE}:
            return False
        collate = w.resolve(loader.attrs[_COLLATE])
        if isinstance(collate, (Function, Lambda)):
            items: list[Value] = [new_unknown("items", "batch")]
            return self._gives(collate, items, partial(_is_put_together, place=place), w, ctx)
        if collate != NONE:
            return False
        dataset = w.resolve(loader.attrs[_DATASET])
        if _library_name(dataset).startswith((TENSOR_DATASET, *LIBRARY_DATASETS)):
            return True
        return isinstance(dataset, Ref) and self._gives_tensor(dataset, place, w, ctx)

    def _gives_tensor(self, dataset: Ref, place: Const, w: World, ctx: Context) -> bool:
        """Whether what a data set of the project holds at a place of its items is stacked to a tensor."""
        obj = w.get(dataset, Instance)
        method = None
        if obj is not None and obj.cls is not None and obj.role is roles.DATASET:
            method = self._definitions.attribute(obj.cls, "__getitem__", w)
        if not isinstance(method, Function):
            return False
        given: list[Value] = [dataset, new_unknown("index")]
        return self._gives(method, given, partial(_is_stacked, place=place), w, ctx)

    def _gives(
        self,
        function: Function | Lambda,
        args: list[Value],
        test: Callable[[Value, World], bool],
        w: World,
        ctx: Context,
    ) -> bool:
        """Whether all that a function may give passes a test; nothing is told of what it does."""
        items: list[tuple[World, Value]] = []
        with self._progress.unseen():
            ended = self._budget.affords(
                lambda: items.extend(self._calls.call(function, Arguments(args), w.copy(), ctx, ctx.unit.here)),
                _MAX_STEPS,
            )
        return ended and bool(items) and all(test(item, world) for world, item in items)


def _library_name(value: Value) -> str:
    """The canonical name of what built a data set or transform of a library."""
    key = value.key if isinstance(value, Unknown) else None
    return key.made_by if isinstance(key, Number) else ""


def _gives_tensors(value: Value) -> bool:
    """Whether a value is a transform of a library that gives a tensor of whatever image it is given."""
    key = value.key if isinstance(value, Unknown) else None
    return isinstance(key, Number) and key.is_tensor


def _held_at(item: Value, place: Const, w: World) -> Value | None:
    """What a tuple, list or dict holds at a place, if that is known."""
    item = w.resolve(item)
    held, named = w.get(item, Sequence), w.get(item, Mapping)
    if named is not None and place in named.items:
        return w.resolve(named.items[place])
    if held is not None and held.tail is None and isinstance(place.value, int) and place.value < len(held.items):
        return w.resolve(held.items[place.value])
    return None


def _is_put_together(batch: Value, w: World, place: Const) -> bool:
    """Whether a batch holds a tensor at a place."""
    value = _held_at(batch, place, w)
    tensor = w.get(value, Tensor) if value is not None else None
    return tensor is not None and not tensor.structured


def _is_stacked(item: Value, w: World, place: Const) -> bool:
    """Whether an item of a data set holds at a place what is stacked to a tensor: a tensor, an array, a number."""
    value = _held_at(item, place, w)
    if value is None:
        return False
    tensor, array = w.get(value, Tensor), w.get(value, Instance)
    number = isinstance(value, Const) and type(value.value) in (int, float)
    return number or (tensor is not None and not tensor.structured) or (array is not None and array.role is roles.ARRAY)


__all__ = ["Batches"]
