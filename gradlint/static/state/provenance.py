"""Where unknown values come from, as their keys tell: data, parameters, results that may carry a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from gradlint.static.knowledge.guesses import MODULE_NAME, NO_MODULE_NAME, OPTIMIZER_NAME, OPTIMIZERS_NAME
from gradlint.static.knowledge.torch_table import names_parameter
from gradlint.static.state.values import Choice, Const, Instance, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.state.world import World, fresh

COUNTED = "counted"  #: the kind of a number that a loop counts from zero
FIGURE = "figure"  #: the kind of what a tensor or a conversion gives that is a number, or several
LATER = "counted on"  #: the kind of such a number after the first iteration: it is not zero
NUMPYS = "of numpy"  #: what the key of a result of a function of numpy ends with
COPY = "copy"  #: the kind of a deep copy, of what its key says last


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
    key = value.key
    if not isinstance(key, tuple) or len(key) != 3 or key[0] not in ("attribute", "item"):
        return False
    if key[0] == "item":
        return isinstance(key[1], tuple) and key[1][0] == "attribute" and key[1][-1] == "_parameters"
    return names_parameter(key[2] if isinstance(key[2], str) else f"{_beginning(key[2])}0")


def ways_of(value: Unknown) -> list[str]:
    """The names by which a part of what is given is read: that of the argument last; none if it is no such part."""
    key: Hashable = value.key
    found: list[str] = []
    while isinstance(key, tuple) and len(key) == 3 and key[0] in ("attribute", "item"):
        found += [key[2]] if isinstance(key[2], str) else []
        key = key[1]
    given = key[2] if isinstance(key, tuple) and key[0] == "param" else None
    return [*found, given] if isinstance(given, str) else []


def beginning(text: Value) -> str:
    """How a string begins of which the rest is not known; empty where nothing of it is."""
    return _beginning(text.key if isinstance(text, Unknown) else text)


def _beginning(key: Hashable) -> str:
    if isinstance(key, Const):
        return key.value if isinstance(key.value, str) else ""
    if not isinstance(key, tuple) or len(key) < 3:
        return ""
    if key[0] == "string":
        return str(key[2])
    if key[:2] == ("binary", "+"):
        return _beginning(key[2])
    return _beginning(key[2]).partition("%")[0] if key[:2] == ("binary", "%") else ""


def from_module(value: Unknown) -> bool:
    """Whether an unknown value came out of a call of something that has the name of a module."""
    key: Hashable = value.key
    while isinstance(key, tuple) and key[0] == "item" and len(key) == 3:
        key = key[1]
    return isinstance(key, tuple) and len(key) == 3 and key[0] == "call" and key[2] == "forward"


def is_computed(value: Unknown) -> bool:
    """Whether an unknown value is what an operator gave."""
    return isinstance(value.key, tuple) and value.key[0] in ("binary", "unary")


def operands_of(value: Unknown) -> list[Value]:
    """What an operator was given that gave an unknown value, but for constants and choices."""
    parts = value.key[2:] if isinstance(value.key, tuple) else ()
    return [Unknown(part) if isinstance(part, tuple) else part for part in parts if isinstance(part, (tuple, Ref))]


_CARRIERS = frozenset(["call", "result", "abstract"])
_GIVEN = frozenset(["param", "batch", "element", "next"])
_PARTS = frozenset(["attribute", "item", "binary", "element", "unary", COPY])


def is_any(value: Value, kind: str) -> bool:
    """Whether an unknown value is any "module" of a model, or any "name" of its modules or parameters."""
    key: Hashable = value.key if isinstance(value, Unknown) else None
    while isinstance(key, tuple) and key[0] in ("element", COPY) and len(key) == 3:
        key = key[2]
    return isinstance(key, tuple) and key[0] == kind


def is_data(value: Unknown) -> bool:
    """Whether an unknown value is (part of) what a data loader gives."""
    key: Hashable = value.key
    while isinstance(key, tuple) and len(key) > 1:
        if key[0] == "batch":
            return True
        if key[0] not in ("item", "attribute", "element", COPY):
            return False
        key = key[-1] if key[0] in ("element", COPY) else key[1]
    return False


def is_numpys(value: Value) -> bool:
    """Whether a value is what a function of numpy returned."""
    return isinstance(value, Unknown) and isinstance(value.key, tuple) and value.key[-1] == NUMPYS


def is_number(value: Unknown) -> bool:
    """Whether an unknown value is a number, as far as is known: settings of a module that is built are."""
    return _is_number(value.key)


def _is_number(key: Hashable) -> bool:
    if isinstance(key, Const):
        return True
    if not isinstance(key, tuple) or len(key) < 2:
        return False
    if key[0] == "binary" and len(key) == 4:
        return _is_number(key[2]) and _is_number(key[3])
    if key[0] in ("unary", COPY):
        return _is_number(key[2])
    if key[0] == "attribute" and len(key) == 3:
        return _is_number(key[1])
    if key[0] == "param":
        return getattr(key[1], "name", "") == "__init__"
    return key[0] in _NUMBERS


_FIGURES = frozenset([FIGURE, "len", "size", "dim", "numel", "index", COUNTED, LATER])
_NUMBERS = _FIGURES | {"number", "counter", "string", "key"}


def is_figure(value: Unknown) -> bool:
    """Whether an unknown value is sure to be a number: a length, a size, what ``item`` gives, what such make."""
    return _is_figure(value.key)


def _is_figure(key: Hashable) -> bool:
    if isinstance(key, Const):
        return True
    if not isinstance(key, tuple) or len(key) < 2:
        return False
    if key[0] == "binary" and len(key) == 4:
        return _is_figure(key[2]) and _is_figure(key[3])
    if key[0] == "unary":
        return _is_figure(key[2])
    if key[0] == "attribute":
        return key[-1] in ("shape", "ndim")
    if key[0] == "item":
        return _is_figure(key[1])
    return key[0] in _FIGURES


def is_quotient(value: Value) -> bool:
    """Whether an unknown value was computed by dividing something."""
    key = value.key if isinstance(value, Unknown) else None
    return any(part[0] == "binary" and part[1] in ("/", "//") for part in _parts(key) if len(part) == 4)


def has_length(value: Value) -> bool:
    """Whether an unknown value was computed from how many there are of something."""
    return isinstance(value, Unknown) and any(part[:1] == ("len",) for part in _parts(value.key))


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
    if isinstance(key, tuple):
        if len(key) > 1 and key[0] == FIGURE and isinstance(key[1], int):
            yield key[1]
        elif len(key) == 2 and key[0] == "truth" and isinstance(key[1], Ref):
            yield key[1].id
        else:
            for part in key:
                yield from figures_in(part)


def figured_from(value: Value) -> frozenset[int]:
    """The parameter groups from whose gradients a number was computed."""
    return _figured_from(value.key) if isinstance(value, Unknown) else frozenset()


def _figured_from(key: Hashable) -> frozenset[int]:
    if not isinstance(key, tuple) or len(key) < 3:
        return frozenset()
    if key[0] == FIGURE and isinstance(key[2], frozenset):
        return key[2]
    if key[0] in ("binary", "unary"):
        return frozenset[int]().union(*map(_figured_from, key[2:]))
    return _figured_from(key[1]) if key[0] == "item" else frozenset()


def attribute_of(owner: Unknown, name: str) -> Hashable:
    """The key of an attribute of something unknown."""
    return "attribute", owner.key, name


def item_with(attribute: Hashable, name: str) -> Unknown | None:
    """The item of a loop of which a key names an attribute, if that is called ``name``."""
    owner = attribute[1] if isinstance(attribute, tuple) and len(attribute) == 3 else None
    if not isinstance(attribute, tuple) or attribute[::2] != ("attribute", name):
        return None
    return Unknown(owner) if isinstance(owner, tuple) and owner[0] == "element" else None


_DEPTH = 8  #: how far to look into what operators computed


def is_made_of(part: Hashable, value: Hashable, depth: int = _DEPTH) -> bool:
    """Whether the key of an unknown value holds another."""
    key = value.key if isinstance(value, Unknown) else value
    if key == part:
        return True
    return depth > 0 and isinstance(key, tuple) and any(is_made_of(part, each, depth - 1) for each in key)


def ways_into(key: Hashable) -> tuple[Hashable, ...]:
    """The keys of what a value is one of, of which nothing else is known; none if it is no such value."""
    return key[2:] if isinstance(key, tuple) and key[:1] == ("join",) else ()


NOTHING = "nothing"
"""Marks what is made of None as if it were a tensor, which raises: no world gets that far."""


def made_of_none(value: Unknown) -> bool:
    """Whether an unknown value is an item, attribute or result of None."""
    key: Hashable = value.key
    while isinstance(key, tuple) and len(key) == 3 and key[0] in ("item", "attribute"):
        key = key[1]
    return isinstance(key, tuple) and key[0] == NOTHING


def may_be_input(value: Unknown) -> bool:
    """Whether an unknown value may be what a model is given: an argument, data, a result, or a part of one."""
    key: Hashable = value.key
    while isinstance(key, tuple) and len(key) > 1:
        if key[0] in _GIVEN or key[0] in _CARRIERS:
            return True
        if key[0] not in ("item", "slice", COPY):
            return False
        key = key[2] if key[0] == COPY else key[1]
    return False


def carries_graph(value: Unknown) -> bool:
    """Whether an unknown value may carry a graph: it came from a call that could not be followed."""
    return _carries(value.key) or bool(value.deps)


def _carries(key: Hashable) -> bool:
    while isinstance(key, tuple) and len(key) > 1:
        if key[0] in _CARRIERS:
            return True
        if key[0] not in _PARTS:
            break
        if key[0] == "binary" and _carries(key[3]):
            return True
        key = key[2] if key[0] in ("binary", "unary", COPY) else key[1]
    return False


def is_later(value: Value) -> bool:
    """Whether a value counts the iterations of a loop from zero, and is not the first."""
    return isinstance(value, Unknown) and isinstance(value.key, tuple) and value.key[0] == LATER


def is_loaded(value: Value) -> bool:
    """Whether an unknown value is what a loop over unknown data gives, or a part of it."""
    key: Hashable = value.key if isinstance(value, Unknown) else None
    while isinstance(key, tuple) and len(key) > 1:
        if key[0] in ("element", "batch"):
            return not (isinstance(value, Unknown) and value.deps)
        if key[0] not in ("item", COPY):
            return False
        key = key[2] if key[0] == COPY else key[1]
    return False


def dict_of(value: Value, *names: str) -> Ref | None:
    """The object that a value is the ``__dict__`` of, or another attribute that is one (names)."""
    key: Hashable = value.key if isinstance(value, Unknown) else None
    if not isinstance(key, tuple) or len(key) != 3 or key[0] != "attribute":
        return None
    return key[1] if isinstance(key[1], Ref) and key[2] in (names or ("__dict__",)) else None


def owner_of(part: Value) -> Ref | None:
    """The object that an unknown value is read from, as attribute or item of a part of it, or stands for."""
    key: Hashable = part.key if isinstance(part, Unknown) else None
    while isinstance(key, tuple) and len(key) > 1 and key[0] in ("attribute", "item", "instance"):
        key = key[1]
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


def each_optimizer(value: Value, w: World) -> Value | None:
    """What iterating over optimizers of which only the name is known gives: one stands for them all."""
    if not isinstance(value, Unknown) or OPTIMIZERS_NAME.search(value.hint) is None:
        return None
    key, paired = value.key, False
    if isinstance(key, tuple) and key[0] == "item" and isinstance(key[2], tuple) and key[2][0] in ("items", "values"):
        key, paired = key[1], key[2][0] == "items"
    each = w.resolve(Unknown(("item", key, ("each",)), value.hint, value.deps))
    return w.new(Sequence([Unknown(("key", fresh())), each], [None, None], None, None, False)) if paired else each


def known_by(value: Value, name: str) -> Value:
    """A value that is bound to a name: if that is the name of an optimizer or a module, it is known by that.

    So it was by none before, or by that of the method that gave it: ``optimizer = factory.build(model)``.
    """
    if type(value) is not Unknown:
        return value
    given = isinstance(value.key, tuple) and value.key[0] == "call" and len(value.key) == 2
    if OPTIMIZER_NAME.search(name) is not None:
        return replace(value, hint=name) if given or not value.hint else value
    return replace(value, hint=name) if given and MODULE_NAME.search(name) is not None else value
