"""What data loaders put together and what files hold that are loaded, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import (
    ARBITRARY_TRANSFORMS,
    COLLATE,
    COLLECTING_TRANSFORMS,
    DOWNLOADS,
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
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import clone, reachable
from gradlint.static.state.context import Arguments, Context, Ledger, Ledgers
from gradlint.static.state.origins import AttributeOf, Batch, ItemOf, New, Number, Parameter, Result, fresh
from gradlint.static.state.provenance import key_of
from gradlint.static.state.values import (
    NONE,
    Choice,
    Const,
    External,
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
from gradlint.static.torch.placement import device_of
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


FOREIGN = "foreign path"  #: the start of the key of an unknown path that comes from elsewhere
OWN = "own path"
"""With the key of a path: what a world has assumed once the program saved something there."""
SAVED = "saved"
"""With the key of a path: what a world is bound to once a module was saved there."""
_ARGUMENTS = "sys.argv"
_UNPICKLED = "unpickled"


@dataclass(frozen=True, slots=True)
class _Load:
    """A call of ``torch.load``."""

    site: Site
    weights_only: Fact[bool]
    ctx: Context


class Loading:
    """Watches ``torch.load``, and what becomes of what it gives."""

    _ledgers: Ledgers
    _witness: Witness

    def __init__(self) -> None:
        self._loads: Ledger[Hashable, _Load] = self._ledgers.open()
        """By the key of what they gave."""

    def downloaded(self, name: str, args: Arguments, w: World) -> None:
        """``name(...)``, by canonical name: it may write a file that comes from elsewhere."""
        if name in DOWNLOADS and DOWNLOADS[name] < len(args.positional):
            w.assumed[FOREIGN, key_of(w.resolve(args.positional[DOWNLOADS[name]]))] = True

    def load(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``torch.load(...)``: of what was saved there, a copy."""
        path = args.get(0, "f") or NONE
        asked = w.resolve(args.get(3, "weights_only") or NONE)
        flag: Fact[bool] = known(bool(asked.value)) if isinstance(asked, Const) and asked != NONE else unknown()
        foreign = known(True) if self._is_foreign(path, w) else unknown()
        self._witness.send(events.Loaded(site=site, weights_only=flag, foreign=foreign), w, ctx)
        saved = w.bound.get((SAVED, key_of(w.resolve(path))), NONE)
        if isinstance(saved, Ref):
            return self._copy(saved, args, w)
        loaded = Unknown(Result(fresh()))
        self._loads[loaded.key] = _Load(site, flag, ctx)
        return loaded

    def _copy(self, saved: Ref, args: Arguments, w: World) -> Value:
        """What is read from a file that ``saved`` was put into: it is where that was, if nothing is told of that."""
        since = fresh()
        copy, told = clone(saved, w), w.resolve(args.get(1, "map_location") or NONE)
        if told != NONE or args.open:
            device = device_of(told, w) if told != NONE else None
            for key in reachable([copy], w):
                if key > since and isinstance(w.find(key), (Instance, Tensor)):
                    w.write(key).device = device
        return copy

    def unpickled(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``pickle.load(...)`` and its like."""
        return new_unknown("unpickled")

    def may_be_frozen(self, value: Unknown) -> bool:
        """Whether something unknown was unpickled, by whoever and however it was made."""
        key: Hashable = value.key
        while isinstance(key, (AttributeOf, ItemOf)):
            key = key.owner
        return isinstance(key, New) and key.what == "unpickled"

    def is_from_file(self, value: Value) -> bool:
        """Whether a value is what ``torch.load`` gave, or a part of that."""
        return self._load_of(key_of(value)) is not None

    def is_whole(self, value: Unknown) -> bool:
        """Whether an unknown value is what ``torch.load`` gave, or an item of that, which may be a model."""
        return not isinstance(value.key, AttributeOf) and self.is_from_file(value)

    def _load_of(self, key: Hashable) -> _Load | None:
        while isinstance(key, (AttributeOf, ItemOf)):
            key = key.owner
        return self._loads.get(key)

    def is_module(self, value: Unknown, w: World) -> None:
        """Something unknown turns out to be a module: where it came out of a file, that holds one."""
        load = self._load_of(value.key) if self.is_whole(value) else None
        if load is not None:
            self._witness.send(events.ModuleLoaded(site=load.site, weights_only=load.weights_only), w, load.ctx)

    def _is_foreign(self, path: Value, w: World) -> bool:
        path = w.resolve(path)
        if (OWN, key_of(path)) in w.assumed:
            return False
        if (FOREIGN, key_of(path)) in w.assumed or path == External(_ARGUMENTS):
            return True
        key: Hashable = path.key if isinstance(path, Unknown) else None
        is_attribute = isinstance(key, AttributeOf)
        while isinstance(key, (AttributeOf, ItemOf)):
            key = key.owner
        match key:
            case Parameter(_, name):
                return name == "argv"
            case New(what):
                return what == "foreign path" or (is_attribute and what == "options")
        return key == _ARGUMENTS


__all__ = ["FOREIGN", "OWN", "SAVED", "Batches", "Loading"]
