"""Where unknown values come from, as their keys tell: data, parameters, results that may carry a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from gradlint.static.knowledge.guesses import MODULE_NAME, NO_MODULE_NAME, OPTIMIZER_NAME, OPTIMIZERS_NAME
from gradlint.static.knowledge.torch_libraries import heads, is_part
from gradlint.static.knowledge.torch_table import GIVES, GIVES_SEVERAL, is_estimator, names_parameter
from gradlint.static.state.origins import (
    EACH,
    Asked,
    AttributeOf,
    Batch,
    CopyOf,
    ElementOf,
    Figure,
    ItemOf,
    Length,
    Made,
    New,
    Number,
    OneOf,
    Operation,
    Parameter,
    Result,
    StandsFor,
    Text,
    Truth,
    UnaryOperation,
    What,
    Yielded,
    fresh,
    is_origin,
    operands,
)
from gradlint.static.state.values import (
    Choice,
    Const,
    Instance,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World

NUMPYS = "numpy"  #: what has made the result of a function of numpy


def key_of(value: Value) -> Hashable:
    """The identity of a value, as part of the identity of what is computed from it."""
    if isinstance(value, (Unknown, Choice)):
        return value.key
    return value


def origin_of(value: Value, w: World) -> Hashable:
    """How a value came about that may be no tensor; None of a tensor, which may be changed in place."""
    tensor = w.get(value, Tensor)
    if tensor is None:
        return key_of(value) if isinstance(value, (Const, Unknown)) else None
    return value if tensor.origin is None and tensor.structured else tensor.origin


def looks_like_module(value: Unknown) -> bool:
    """Whether an unknown value that is put into a mode is a module: its name says otherwise of what holds some."""
    return not NO_MODULE_NAME.search(value.hint.lower())


def looks_like_parameter(value: Unknown) -> bool:
    """Whether an unknown value is read as ``something.weight`` or ``something.bias``, or as the n-th of its kind.

    What a module keeps in ``_parameters`` is one by any name.
    """
    match value.key:
        case ItemOf(AttributeOf(_, "_parameters")):
            return True
        case AttributeOf(_, name, 0):
            return names_parameter(name if isinstance(name, str) else f"{_beginning(name)}0")
    return False


def ways_of(value: Unknown) -> list[str]:
    """The names by which a part of what is given is read: that of the argument last; none if it is no such part."""
    key: Hashable = value.key
    found: list[str] = []
    while isinstance(key, (AttributeOf, ItemOf)):
        found += [key.name] if isinstance(key, AttributeOf) and isinstance(key.name, str) else []
        key = key.owner
    return [*found, key.name] if isinstance(key, Parameter) else []


def beginning(text: Value) -> str:
    """How a string begins of which the rest is not known; empty where nothing of it is."""
    return _beginning(text.key if isinstance(text, Unknown) else text)


def _beginning(key: Hashable) -> str:
    match key:
        case Const(str(text)) | Text(_, text):
            return text
        case Operation("+", left):
            return _beginning(left)
        case Operation("%", left):
            return _beginning(left).partition("%")[0]
    return ""


def from_module(value: Unknown) -> bool:
    """Whether an unknown value came out of a call of something that has the name of a module."""
    key: Hashable = value.key
    while isinstance(key, ItemOf):
        key = key.owner
    return isinstance(key, Result) and key.of_module


def is_computed(value: Unknown) -> bool:
    """Whether an unknown value is what an operator gave."""
    return isinstance(value.key, (Operation, UnaryOperation))


def operands_of(value: Unknown) -> list[Value]:
    """What an operator was given that gave an unknown value, but for constants and choices."""
    return [part if isinstance(part, Ref) else unknown_of(part) for part in operands(value.key) if _is_unknown(part)]


def _is_unknown(key: Hashable) -> bool:
    return isinstance(key, Ref) or is_origin(key)


def unknown_of(key: Hashable, deps: frozenset[int] = frozenset()) -> Unknown:
    """The unknown value that a key of one stands for."""
    assert is_origin(key)
    return Unknown(key, deps=deps)


def is_any(value: Value, what: What) -> bool:
    """Whether an unknown value is any "module" of a model, or any "name" of its modules or parameters."""
    key: Hashable = value.key if isinstance(value, Unknown) else None
    while isinstance(key, (ElementOf, CopyOf)):
        key = key.of
    return isinstance(key, New) and key.what == what


def is_data(value: Unknown) -> bool:
    """Whether an unknown value is (part of) what a data loader gives."""
    key: Hashable = value.key
    while isinstance(key, (ItemOf, AttributeOf, ElementOf, CopyOf)):
        key = key.owner if isinstance(key, (ItemOf, AttributeOf)) else key.of
    return isinstance(key, Batch)


def is_numpys(value: Value) -> bool:
    """Whether a value is what a function of numpy returned."""
    return isinstance(value, Unknown) and isinstance(value.key, Number) and value.key.made_by == NUMPYS


def is_number(value: Unknown) -> bool:
    """Whether an unknown value is a number, as far as is known: settings of a module that is built are."""
    return _is_number(value.key)


def is_constant_or_number(value: Value) -> bool:
    """Whether a value is a constant, or is unknown and a number."""
    return isinstance(value, Const) or (isinstance(value, Unknown) and is_number(value))


def _is_number(key: Hashable) -> bool:
    match key:
        case Const() | Number() | Text() | New("counter" | "key"):
            return True
        case Operation(_, left, right):
            return _is_number(left) and _is_number(right)
        case UnaryOperation(_, of) | CopyOf(_, of) | AttributeOf(of, _, 0):
            return _is_number(of)
        case Parameter(function):
            return getattr(function, "name", "") == "__init__"
    return _is_measure(key)


def _is_measure(key: Hashable) -> bool:
    """Whether a value is a number by itself, and not because of what it was computed from."""
    match key:
        case Figure() | Length() | Asked("size" | "dim" | "numel") | New("index" | "counted" | "counted on"):
            return True
    return False


def is_figure(value: Unknown) -> bool:
    """Whether an unknown value is sure to be a number: a length, a size, what ``item`` gives, what such make."""
    return _is_figure(value.key)


def _is_figure(key: Hashable) -> bool:
    match key:
        case Const() | AttributeOf(_, "shape" | "ndim", 0):
            return True
        case Operation(_, left, right):
            return _is_figure(left) and _is_figure(right)
        case UnaryOperation(_, of) | ItemOf(of):
            return _is_figure(of)
    return _is_measure(key)


def is_quotient(value: Value) -> bool:
    """Whether an unknown value was computed by dividing something."""
    key = value.key if isinstance(value, Unknown) else None
    return any(isinstance(part, Operation) and part.symbol in ("/", "//") for part in _parts(key))


def has_length(value: Value) -> bool:
    """Whether an unknown value was computed from how many there are of something."""
    return isinstance(value, Unknown) and any(isinstance(part, Length) for part in _parts(value.key))


def _parts(key: Hashable) -> Iterator[tuple[Hashable, ...]]:
    """What the key of a value is made of, itself included."""
    pending = [key]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            yield part
            pending += part


def figures_in(key: Hashable) -> Iterator[int]:
    """The numbers at which figures were computed, and tensors, that a condition is made of, by its key."""
    for part in _parts(key):
        match part:
            case Figure(number):
                yield number
            case Truth(Ref(number)):
                yield number


def figured_from(value: Value) -> frozenset[int]:
    """The parameter groups from whose gradients a number was computed."""
    return _figured_from(value.key) if isinstance(value, Unknown) else frozenset()


def _figured_from(key: Hashable) -> frozenset[int]:
    match key:
        case Figure(_, groups):
            return groups
        case Operation() | UnaryOperation():
            return frozenset[int]().union(*map(_figured_from, operands(key)))
        case ItemOf(owner):
            return _figured_from(owner)
    return frozenset()


_DEPTH = 8  #: how far to look into what operators computed


def is_made_of(part: Hashable, value: Hashable, depth: int = _DEPTH) -> bool:
    """Whether the key of an unknown value holds another."""
    key = value.key if isinstance(value, Unknown) else value
    if key == part:
        return True
    return depth > 0 and isinstance(key, tuple) and any(is_made_of(part, each, depth - 1) for each in key)


def ways_into(key: Hashable) -> tuple[Hashable, ...]:
    """The keys of what a value is one of, of which nothing else is known; none if it is no such value."""
    return key.ways if isinstance(key, OneOf) and not any(isinstance(way, Ref) for way in key.ways) else ()


def made_of_none(value: Unknown) -> bool:
    """Whether an unknown value is an item, attribute or result of None."""
    key: Hashable = value.key
    while isinstance(key, (ItemOf, AttributeOf)):
        key = key.owner
    return isinstance(key, New) and key.what == "nothing"


def may_be_input(value: Unknown) -> bool:
    """Whether an unknown value may be what a model is given: an argument, data, a result, or a part of one."""
    key: Hashable = value.key
    while isinstance(key, (ItemOf, CopyOf)):
        key = key.owner if isinstance(key, ItemOf) else key.of
    match key:
        case Parameter() | Batch() | ElementOf() | Result() | New("next" | "result" | "abstract"):
            return True
    return False


def carries_graph(value: Unknown) -> bool:
    """Whether an unknown value may carry a graph: it came from a call that could not be followed."""
    return _carries(value.key) or bool(value.deps)


def _carries(key: Hashable) -> bool:
    match key:
        case Result() | New("result" | "abstract"):
            return True
        case AttributeOf(of) | ItemOf(of) | UnaryOperation(_, of) | CopyOf(_, of):
            return _carries(of)
        case Operation(_, left, right):
            return _carries(right) or _carries(left)
    return False


def is_later(value: Value) -> bool:
    """Whether a value counts the iterations of a loop from zero, and is not the first."""
    return isinstance(value, Unknown) and isinstance(value.key, New) and value.key.what == "counted on"


def is_loaded(value: Value) -> bool:
    """Whether an unknown value is what a loop over unknown data gives, or a part of it."""
    if not isinstance(value, Unknown) or value.deps:
        return False
    key: Hashable = value.key
    while isinstance(key, (ItemOf, CopyOf)):
        key = key.owner if isinstance(key, ItemOf) else key.of
    return isinstance(key, (ElementOf, Batch))


def dict_of(value: Value, *names: str) -> Ref | None:
    """The object that a value is the ``__dict__`` of, or another attribute that is one (names)."""
    match value:
        case Unknown(AttributeOf(Ref() as owner, name)) if name in (names or ("__dict__",)):
            return owner
    return None


def owner_of(part: Value) -> Ref | None:
    """The object that an unknown value is read from, as attribute or item of a part of it, or stands for."""
    key: Hashable = part.key if isinstance(part, Unknown) else None
    while isinstance(key, (AttributeOf, ItemOf, StandsFor)):
        key = key.of if isinstance(key, StandsFor) else key.owner
    return key if isinstance(key, Ref) else None


def mode_of(*values: Value) -> str:
    """The hint of what is computed from values: whether one of them follows the mode."""
    return "mode" if any(isinstance(value, Unknown) and value.hint == "mode" for value in values) else ""


def built_from(obj: Instance) -> list[Value]:
    """What a distribution was built from."""
    return [value for key, value in obj.attrs.items() if key.startswith("<")]


def looks_like_optimizer(value: Value) -> bool:
    """Whether an unknown value has the name of an optimizer.  A name may create a subject; it proves nothing."""
    return isinstance(value, Unknown) and bool(value.hint) and OPTIMIZER_NAME.search(value.hint) is not None


def wraps_optimizer(key: Hashable) -> bool:
    """Whether a key is of what a call that could not be followed has made of an optimizer, or of a part of that."""
    while isinstance(key, (AttributeOf, ItemOf, ElementOf)):
        key = key.of if isinstance(key, ElementOf) else key.owner
    return isinstance(key, Result) and key.wraps


def each_optimizer(value: Value, w: World) -> Value | None:
    """What iterating over optimizers of which only the name is known gives: one stands for them all."""
    if not isinstance(value, Unknown) or OPTIMIZERS_NAME.search(value.hint) is None:
        return None
    key: Hashable = value.key
    paired = False
    match key:
        case ItemOf(owner, Yielded(method)):
            key, paired = owner, method == "items"
    each = w.resolve(Unknown(ItemOf(key, EACH), value.hint, value.deps))
    return w.new(Sequence([new_unknown("key"), each], [None, None], None, None, False)) if paired else each


def known_by(value: Value, name: str) -> Value:
    """A value that is bound to a name: if that is the name of an optimizer or a module, it is known by that.

    So it was by none before, or by that of the method that gave it: ``optimizer = factory.build(model)``.
    """
    if type(value) is not Unknown:
        return value
    given = isinstance(value.key, Result) and not value.key.of_module
    if OPTIMIZER_NAME.search(name) is not None:
        return replace(value, hint=name) if given or not value.hint else value
    return replace(value, hint=name) if given and MODULE_NAME.search(name) is not None else value


def made_by_library(name: str, w: World) -> Value | None:
    """What calling ``name`` (canonical) gives, if that is a figure, axes, an estimator, or a pair of such.

    Such an object is an unknown value whose key tells its class, so that its methods are known by name.  An array of
    axes stands for each of them.
    """
    if name in GIVES_SEVERAL:
        given: list[Value] = [_made(cls) for cls in GIVES_SEVERAL[name]]
        return w.new(Sequence(given, [None] * len(given), None, None, False))
    cls = name if is_estimator(name) else GIVES.get(name)
    return None if cls is None else _made(cls)


def _made(cls: str) -> Unknown:
    return Unknown(Made(cls, fresh()), cls.rpartition(".")[2].lower())


def library_class_of(value: Unknown) -> str | None:
    """The class of an object that a library made, or of a part of what it gave, by its canonical name."""
    return _library_class(value.key)


def _library_class(key: Hashable) -> str | None:
    match key:
        case Made(cls):
            return cls
        case ItemOf(of) | ElementOf(_, of):
            return _library_class(of)
        case AttributeOf(owner, name):
            return GIVES.get(f"{_library_class(owner)}.{name}")
    return None


def part_of_library_model(value: Unknown, w: World) -> tuple[Instance, str] | None:
    """The library's model that something unknown is a part of, and the attribute under which that has it."""
    key: Hashable = value.key
    while True:
        match key:
            case ItemOf(of) | ElementOf(_, of) | AttributeOf(of, "_modules"):
                key = of
            case Ref():
                owner = w.get(key, Instance)
                return (owner, "") if owner is not None and owner.opaque and heads(owner.name) else None
            case AttributeOf(Ref() as whole, str(name)):
                owner = w.get(whole, Instance)
                return (owner, name) if owner is not None and owner.opaque and is_part(owner.name, name) else None
            case _:
                return None
