"""Layers that hold layers, and one layer in several places of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known, unknown
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Layer, Op
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Choices
from gradlint.static.python.collections import Collections
from gradlint.static.python.containers import Filling
from gradlint.static.python.domain import Index, Items
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.joining import joined
from gradlint.static.state.origins import Result
from gradlint.static.state.values import (
    NONE,
    REPEATED,
    Choice,
    Const,
    Instance,
    Mapping,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    each_of,
    new_unknown,
)
from gradlint.static.state.world import World
from gradlint.static.text.units import NodeSite
from gradlint.static.torch.construction import Construction
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.ownership import Ownership
from gradlint.surroundings import is_chosen, says_shared

if TYPE_CHECKING:
    from gradlint.finding import Site


_MORE = "<more>"  #: where, among its members, a container may hold others
_LAST = "<last>"  #: the member that is known to be the last, though not at which place
_OTHERS = "<others>"  #: what stands for the members of a ``ModuleDict`` under keys that are not known
_UNKNOWN_LAYERS = Op(activation="unknown", saves="other")


class LayerContainers:
    """Knows what containers of layers hold, and hands through them what they are called with."""

    _choices: Choices
    _calls: Calls
    _collections: Collections
    _modules: Modules
    _ownership: Ownership
    _operations: Operations
    _construction: Construction
    _filling: Filling
    _repetition: Repetition

    # --- what they hold

    def fill(self, ref: Ref, layer: Layer, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """Put the modules given to a container into it."""
        self._put_in(ref, layer, args, w, ctx, site)
        container = w.write(ref.id)
        for child in list(self._modules.children(container, w)):
            self._construction.held(child, container, w)

    def _put_in(self, ref: Ref, layer: Layer, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        obj = w.write(ref.id)
        first = w.resolve(args.get(0, layer.held) or NONE)
        if layer.container == "wrapper":
            obj.attrs["module"] = self._wrapped(first, w, site)
            return
        if layer.container == "dict" or (layer.container == "sequential" and w.get(first, Mapping) is not None):
            self._put_in_named(obj, layer, first, w)
            return
        values, more, last = [*args.positional, *args.unpacked], args.open, args.last
        if layer.container == "list":
            items = self._collections.iterate(first, w, ctx, site)
            values = items.known if items.known is not None else []
            more = items.known is None and first != NONE
            if more:
                sequence = w.get(first, Sequence)
                values, last = [items.element(w, ctx)], sequence.ending if sequence is not None else None
        for number, value in enumerate(values):
            obj.attrs[str(number)] = value
        if more:
            obj.attrs[_MORE] = Const(True)
            if last is not None:
                obj.attrs[_LAST] = last
        self._repetition.held(obj, values, more, w, ctx, site)

    def _wrapped(self, value: Value, w: World, site: Site) -> Value:
        """What a wrapper is given, which can only be a module."""
        if isinstance(value, Unknown):
            return self._modules.taken_for_one(value, w, site)
        if isinstance(value, Ref):
            self._modules.recognised(value, w, site)
        return value

    def _put_in_named(self, obj: Instance, layer: Layer, given: Value, w: World) -> None:
        """Fill a container from a dict, or a ``ModuleDict`` from pairs of names and modules that are not known."""
        mapping = w.get(given, Mapping)
        if mapping is None:
            mapping = Mapping(tail=None if given == NONE else new_unknown("module", "module"))
        for number, (key, value) in enumerate(mapping.items.items()):
            if isinstance(key, Const) and isinstance(key.value, str):
                obj.attrs[key.value] = value
            elif layer.container == "dict":
                self._put_aside(obj, value, w)
            else:
                obj.attrs[str(number)] = value
        if mapping.tail is not None and layer.container == "dict":
            self._put_aside(obj, mapping.tail, w)
        elif mapping.tail is not None:
            obj.attrs[str(len(mapping.items))] = mapping.tail
            obj.attrs[_MORE] = Const(True)

    def update(self, owner: Ref, layer: Layer, given: Value, w: World, site: Site) -> None:
        """``module_dict.update(modules)``."""
        self._ownership.placed(owner, given, w, site)
        self._put_in_named(w.write(owner.id), layer, given, w)

    def _put_aside(self, obj: Instance, value: Value, w: World) -> None:
        """Put a module into a ``ModuleDict`` under a key that is not known."""
        others = obj.attrs.get(_OTHERS)
        if others is None:
            obj.attrs[_OTHERS] = value
        elif not self._filling.is_another(others, value, w):
            obj.attrs[_OTHERS] = self._choices.either(others, value, w)

    def named(self, obj: Instance, w: World) -> Mapping:
        """What a ``ModuleDict`` holds, as a dict."""
        names = (name for name in _members(obj, w) if not name.startswith("<"))
        known: dict[Value, Value] = {Const(name): w.resolve(obj.attrs[name]) for name in names}
        return Mapping(known, obj.attrs.get(_OTHERS))

    def holds_unknown(self, obj: Instance, w: World) -> bool:
        """Whether a container holds modules that are not known."""
        return is_open(obj) or any(isinstance(w.resolve(obj.attrs[name]), Unknown) for name in _members(obj, w))

    def iterate(self, obj: Instance, w: World) -> Items | None:
        """What a loop over a container gives; None if it is none, or nothing is known of what it holds."""
        kind = obj.layer.container if obj.layer is not None else ""
        never = self._collections.never
        if kind in ("sequential", "list") and not is_open(obj):
            return Items([w.resolve(obj.attrs[name]) for name in _members(obj, w)], never)
        if kind in ("sequential", "list"):
            ends = [next((obj.attrs[name] for name in _places(obj, w) if name != _MORE), None), _ending(obj, w)]
            known = [w.resolve(end) for end in dict.fromkeys(ends) if end is not None]
            return Items(known, never) if known else None
        if kind != "dict" or _OTHERS in obj.attrs:
            return None
        return Items(list(self.named(obj, w).items), never)

    def get_item(self, obj: Instance, index: Index, w: World, site: Site) -> Value | None:
        """``container[0]``, ``container["head"]``, ``container[1:]``; None if nothing is known of what it holds."""
        if index is None:  # a slice of which the bounds are not known
            some = Instance(name=obj.name, role=roles.MODULE, layer=obj.layer, attrs=dict(obj.attrs), made_at=site)
            _forget_ending(some)
            return w.new(some)
        names = _members(obj, w)
        closed = not is_open(obj)
        if isinstance(index, Const) and not isinstance(index.value, bool):
            key = index.value
            if isinstance(key, int) and -len(names) <= key < len(names) and closed:
                return w.resolve(obj.attrs[names[key]])
            if key in obj.attrs:
                return w.resolve(obj.attrs[key])
        if isinstance(index, slice) and closed:
            attrs = {str(number): obj.attrs[name] for number, name in enumerate(names[index])}
            return w.new(Instance(name=obj.name, role=roles.MODULE, layer=obj.layer, attrs=attrs, made_at=site))
        value = obj.attrs.get(_OTHERS)
        if value is not None and isinstance(index, Const) and isinstance(index.value, str):
            return w.resolve(value)
        for name in names:
            held = w.resolve(obj.attrs[name])
            value = held if value is None else self._choices.either(value, held, w)
        return value

    def set_item(self, owner: Ref, obj: Instance, index: Index, value: Value, w: World, site: Site) -> None:
        """``module_dict["head"] = layer``, ``sequential[-1] = layer``."""
        container = obj.layer.container if obj.layer is not None else ""
        if not container or not (isinstance(index, Const) or container == "dict"):
            return
        self._ownership.placed(owner, w.resolve(value), w, site)
        new = w.write(owner.id)
        self._construction.held(w.resolve(value), new, w)
        if not isinstance(index, Const):
            self._put_aside(new, value, w)
            return
        names = _members(obj, w)
        key = index.value
        if is_open(new):
            _forget_ending(new)
        if isinstance(key, int) and -len(names) <= key < len(names):
            new.attrs[names[key]] = value
        elif isinstance(key, str):
            new.attrs[key] = value

    def remove(self, owner: Ref, index: Index, w: World) -> None:
        """``del container[index]``, ``container.pop(index)``: which modules are left may not be known."""
        obj = w.get(owner, Instance)
        if obj is None or obj.layer is None or not obj.layer.container:
            return
        new = w.write(owner.id)
        names = _members(obj, w)
        key = index.value if isinstance(index, Const) else index
        closed = not is_open(obj)
        if isinstance(key, str) and key in names:
            del new.attrs[key]
        elif isinstance(key, int) and -len(names) <= key < len(names) and closed:
            del new.attrs[names[key]]
        elif isinstance(key, slice) and closed:
            for name in names[key]:
                del new.attrs[name]
        else:
            _forget_ending(new)

    def grow(self, owner: Ref, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> None:
        """``append(module)``, ``insert(index, module)``, ``extend(modules)``."""
        if name == "insert":
            self._join(owner, args.get(1, "module") or NONE, w, site)
            self._insert(w.write(owner.id), args, w)
            return
        added = [args.get(0) or NONE]
        if name != "append":
            items = self._collections.iterate(added[0], w, ctx, site)
            added = items.known if items.known is not None else [items.element(w, ctx)]
        for value in added:
            self._join(owner, value, w, site)
            new = w.write(owner.id)
            self._construction.held(w.resolve(value), new, w)
            if not ctx.peeled or len(new.attrs) <= 3:
                new.attrs[_unused(new)] = value
            if ctx.peeled:  # the loop goes on
                new.attrs.pop(_MORE, None)
                new.attrs[_MORE] = Const(True)

    def _join(self, owner: Ref, value: Value, w: World, site: Site) -> None:
        """A module is about to come behind or between others: too late for an optimizer that has those already."""
        if self._ownership.held(w):
            self._ownership.placed(owner, w.resolve(value), w, site)

    def _insert(self, new: Instance, args: Arguments, w: World) -> None:
        place, value = w.resolve(args.get(0, "index") or NONE), args.get(1, "module") or NONE
        self._construction.held(w.resolve(value), new, w)
        name = _unused(new)
        if is_open(new) or not isinstance(place, Const) or not isinstance(place.value, int):
            new.attrs[name] = value
            _forget_ending(new)
        else:
            names = list(new.attrs)
            names.insert(place.value, name)
            new.attrs = {each: new.attrs.get(each, value) for each in names}

    # --- calling

    def call(self, callee: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        """``sequential(x)``: through one layer after the other, as far as they are known."""
        if not is_open(obj):
            return self._chain([obj.attrs[name] for name in _members(obj, w)], args, w, ctx, site)
        value = self._operations.apply(_UNKNOWN_LAYERS, args, w, ctx, site, parameters=self._modules.groups(callee, w))
        self._through_more(value, w)
        last = _ending(obj, w)
        return [(w, value)] if last is None else self._chain([last], Arguments([value]), w, ctx, site)

    def _chain(self, layers: list[Value], args: Arguments, w: World, ctx: Context, site: Site) -> Results:
        value = args.positional[0] if args.positional else new_unknown("input")
        for number, child in enumerate(layers):
            here = ctx.at(site, number)
            child = w.resolve(child)
            value = joined(self._calls.call(child, Arguments([value]), w, here, site), w)
            layer, tensor = w.get(child, Instance), w.get(value, Tensor)
            if layer is not None and tensor is not None and tensor.activation_at == site and isinstance(value, Ref):
                w.write(value.id).activation_at = layer.made_at
        return [(w, value)]

    def _through_more(self, value: Value, w: World) -> None:
        """A result went through layers that are not known: they may have parameters."""
        tensor = w.get(value, Tensor)
        if tensor is not None and isinstance(value, Ref) and not tensor.requires_grad and w.grad is not False:
            new: Tensor = w.write(value.id)
            new.requires_grad, new.is_leaf, new.cut = None, None, None
            new.open = new.from_unknown = True


def is_open(obj: Instance) -> bool:
    """Whether a container may hold others than those it is known to hold."""
    return _MORE in obj.attrs


def _members(obj: Instance, w: World) -> list[str]:
    """The names of the modules that a container is known to hold at places that are known; some names are not."""
    return [name for name in _places(obj, w) if name not in (_MORE, _LAST)]


def _places(obj: Instance, w: World) -> list[str]:
    """The names under which a container holds modules: other attributes and buffers are none of them."""
    return [
        name for name, value in obj.attrs.items() if name in (_MORE, _LAST) or _is_held(name, w.resolve(value), obj, w)
    ]


def _is_held(name: str, value: Value, obj: Instance, w: World) -> bool:
    if name == _OTHERS or name in obj.buffers:
        return False
    return _may_be_module(value, w) if name in obj.set_at or name.startswith("<") else True


def _may_be_module(value: Value, w: World) -> bool:
    """Whether an attribute may be a module: what a method of something unknown gave, as a size, is none."""
    if isinstance(value, Unknown):
        return isinstance(value.key, Result) and not value.hint
    obj = w.get(value, Instance)
    return isinstance(value, Choice) or (obj is not None and obj.role.is_module)


def _unused(obj: Instance) -> str:
    return next(name for name in map(str, itertools.count(len(obj.attrs))) if name not in obj.attrs)


def _ending(obj: Instance, w: World) -> Value | None:
    """The last module of a container that holds some that are not known; None if it may be one of those."""
    last = next(reversed(_places(obj, w)), _MORE)
    return None if last == _MORE else obj.attrs[last]


def _forget_ending(new: Instance) -> None:
    """From now on a container may hold others at its end."""
    new.attrs.pop(_LAST, None)
    new.attrs.pop(_MORE, None)
    new.attrs[_MORE] = Const(True)


def stands_for_others(module: Value, w: World) -> bool:
    """Whether a module is any one of those that something holds, and so may be another one each time."""
    some = [value for _, obj in w.all(Instance, imported=True) if is_open(obj) for value in obj.attrs.values()]
    some += [obj.tail for _, obj in w.all(Sequence, imported=True) if obj.tail is not None]
    some += [obj.tail for _, obj in w.all(Mapping, imported=True) if obj.tail is not None]
    return any(module in map(w.resolve, each_of(w.resolve(value))) for value in some)


class Repetition:
    """Knows layers that stand in a list several times, and tells of containers that are given such lists."""

    _modules: Modules
    _witness: Witness

    def multiplied(self, left: Value, right: Value, w: World) -> None:
        """``[layer] * number``."""
        if not self._witness.listened(events.LayersHeld):
            return
        for side in (left, right):
            sequence = w.get(side, Sequence)
            for value in sequence.parts() if sequence is not None else ():
                layer = w.resolve(value)
                if isinstance(layer, Ref) and self._trains(layer, w):
                    w.write(layer.id).attrs[REPEATED] = Const(True)

    def held(
        self, container: Instance, values: Iterable[Value], more: bool, w: World, ctx: Context, site: Site
    ) -> None:
        """A container was built of these layers, and of others that are not known where there are more."""
        if not self._witness.listened(events.LayersHeld):
            return
        layers = Counter(w.resolve(value) for value in values)
        several = [layer for layer, count in layers.items() if more or count > 1]
        repeated = next((found for one in several if (found := self._repeated(one, w)) is not None), None)
        event = events.LayersHeld(
            site=site,
            container=container.name.replace("torch.nn", "nn") or "a container",
            layer="" if repeated is None else _name(repeated),
            repeated=known(repeated is not None),
            chosen=unknown() if repeated is None else known(_is_meant(site)),
            built_at=None if repeated is None else repeated.made_at,
        )
        self._witness.send(event, w, ctx)

    def _repeated(self, layer: Value, w: World) -> Instance | None:
        obj = w.get(layer, Instance)
        return obj if obj is not None and REPEATED in obj.attrs else None

    def _trains(self, layer: Ref, w: World) -> bool:
        """Whether a value is a layer that is known to have parameters."""
        obj = w.get(layer, Instance)
        return obj is not None and obj.role.is_module and not obj.opaque and bool(self._modules.groups(layer, w))


def _is_meant(site: Site) -> bool:
    """Whether the text around a place tells that a layer is shared on purpose, or only if that is chosen."""
    if not isinstance(site, NodeSite):
        return False
    place = site.locate()
    lines = site.unit.module.source.lines(place.cell)
    return is_chosen(lines, place.row) or says_shared(lines, place.row, place.end_row)


def _name(layer: Instance) -> str:
    return layer.cls.unit.name if layer.cls is not None else layer.name.replace("torch.nn", "nn")
