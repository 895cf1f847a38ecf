"""Facts of heap objects: each field says how it joins, what of it counts for sameness, and what it points to.

Joins, signatures, copies and the walk over what an object holds are derived from these declarations, once for each
class: their text is put together and compiled, as the ones of data classes are.

Worlds are ordered by what they leave open: ``x`` is below ``z`` where ``join(x, z)`` is ``z``.  Every operator of a
join is commutative, associative and idempotent, so the join is the least upper bound of this order, and monotone.
Numbers of fresh unknown values do not matter in it, nor does the order of the keys of a dict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import MISSING, field, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar

from gradlint.static.state.tokens import told_apart

# --- how a field joins -----------------------------------------------------------------------------------------


class Join(NamedTuple):
    """How a field of two objects becomes one.

    Args:
        text: an expression of ``X`` and ``Y``, the fields, ``x`` and ``y``, the objects, and ``j``, which joins values.
        otherwise: what stands for ``OTHER`` in it: what is known where the two disagree.
    """

    text: str
    otherwise: object = None


def agreed(otherwise: object = None) -> Join:
    """What both say; else unknown, or what is given here."""
    return Join("X if X is Y or X == Y else OTHER", otherwise)


AGREED = agreed()
EITHER = Join("X or Y")  #: of flags: one of them is set
BOTH = Join("X and Y")  #: of flags: both are set
UNION = Join("X if X is Y else X | Y")
COMMON = Join("X if X is Y else X & Y")
ALL_OR_NONE = Join("X if X is Y else X | Y if X and Y else OTHER", frozenset())  #: the union, where both have some
LEAST = Join("X if X <= Y else Y")
GREATEST = Join("X if X >= Y else Y")
GREATER_ROLE = Join("X if X is Y or X.name >= Y.name else Y")
FIRST = Join("X if X is Y or Y is None else Y if X is None else first(X, Y)")  #: of sites
FIRST_OF_BOTH = Join(
    "X if X is Y else None if X is None or Y is None else first(X, Y)"
)  #: the same, where both have one
GATHERED = Join("X if X is Y or X == Y else gathered(X, Y)")  #: of tuples: what is in either
SHARED = Join("X if X is Y else shared(X, Y)")  #: of tuples: what is in both
TOKENS = Join("X.copy() if X is Y or not Y else tokens(X, Y)")  #: a side without any is at the start, and says nothing
FIRST_BY_NAME = Join("X.copy() if X is Y or not Y else first_by_name(X, Y)")  #: of dicts of sites
ONE_CLASS = Join("X if X is Y else one_class(X, Y)")  #: executing a class again makes other scopes
VALUE = Join("X if X is Y else j.optional(X, Y)")
VALUES = Join("X if X is Y or X == Y else j.row(X, Y)")  #: of tuples
VALUES_BY_NAME = Join("j.dicts(X, Y)")


def uncertain(certain: str) -> Join:
    """What is in the field, or in ``certain`` of one object only."""
    return Join(f"X | Y | x.{certain} ^ y.{certain}")


def beside(other: str, otherwise: object = None) -> Join:
    """What goes with another field, a site: of the object from which that was taken, or the greater of the two."""
    return Join(f"X if x.{other} == y.{other} and X == Y else along(x.{other}, y.{other}, X, Y, OTHER)", otherwise)


def where_same(other: str, otherwise: object, join: Join) -> Join:
    """The join of those that agree in another field."""
    return Join(f"({join.text}) if x.{other} == y.{other} else OTHER", otherwise)


OPTIONAL = Join("X | Y | (x.attrs.keys() ^ y.attrs.keys())")  #: names of attributes that one of them may lack


# --- what counts for sameness ----------------------------------------------------------------------------------


class Same(NamedTuple):
    """What of a field tells two objects apart: an expression of ``O``, the field, ``o``, the object, and ``s``."""

    text: str


AS_IT_IS = Same("O")
WHETHER = Same("O is None")  #: only whether there is one: each iteration of a loop may make its own
WHETHER_ANY = Same("not O")  #: only whether there are any, for the same reason
POINTED = Same("None if O is None else s.pointer(O)")
POINTED_SET = Same("s.pointers(O) if O else None")
GRAPH = Same("s.graph(O) if O else None")  #: of segments: what has happened to them, not which ones they are
MOMENT = Same("s.moment(O)")  #: of the numbers at which things happened: their order
STATES = Same("s.states(O) if O else None")
ONE_VALUE = Same("s.value(O)")
ROW = Same("tuple(map(s.value, O)) if O else None")
PAIRS = Same("tuple([(s.value(k), s.value(v)) for k, v in O.items()])")
BY_NAME = Same("tuple([(name, s.value(O[name])) for name in sorted(O)]) if O else None")
VARIABLES = Same("s.variables(O)")
LAST_VALUE = Same("None if O is None else (s.value(O[0]), s.value(O[1]))")
HOOKS = Same("tuple([s.value(each.function) for each in O]) if O else None")

# --- what a field points to ------------------------------------------------------------------------------------


class Points(NamedTuple):
    """What a field points to, made of ``O``, the field.

    Args:
        held: a statement that adds it to the lists ``ids`` and ``values``.
        copied: the field of a deep copy; ``value(...)`` and ``group(...)`` copy what it holds.
    """

    held: str = ""
    copied: str = ""


NOTHING = Points()
ID = Points("if O is not None: ids.append(O)")
IDS = Points("if O: ids.extend(O)")
OWN = Points(IDS.held, "frozenset(map(group, sorted(O)))")  #: the ids of parameters, of which a copy has its own
REACHED = Points(IDS.held, "o.groups or O")  #: those that a backward pass reaches: its own, of a leaf
GIVEN_VALUE = Points("if O is not None: values.append(O)")
OWN_VALUE = Points(GIVEN_VALUE.held, "None if O is None else value(O)")
OWN_VALUES = Points("if O: values.extend(O)", "[value(each) for each in O]")
OWN_ROW = Points(OWN_VALUES.held, "tuple([value(each) for each in O])")
OWN_BY_NAME = Points("if O: values.extend(O.values())", "{name: value(each) for name, each in O.items()}")
OWN_ITEMS = Points("values.extend(O); values.extend(O.values())", OWN_BY_NAME.copied)
OWN_PAIR = Points(OWN_VALUES.held, "None if O is None else (value(O[0]), value(O[1]))")
OWN_HOOKS = Points(
    "values.extend([each.function for each in O])",
    "tuple([each._replace(function=value(each.function)) for each in O])",
)

_T = TypeVar("_T")


def _once(derive: Callable[[type], _T]) -> Callable[[type], _T]:
    """What is derived from a class, derived once."""
    derived: Any = cache(derive)
    known: Callable[[type], _T] = derived
    return known


# --- declarations ----------------------------------------------------------------------------------------------


class Fact(NamedTuple):
    """What is declared of a field.

    Args:
        join: how it joins.
        same: what of it counts for sameness; nothing with ``why_not``.
        points: what it points to.
        reset: a deep copy starts with the default again.
        why_not: why it counts for nothing, though it is read.
    """

    join: Join
    same: Same | None
    points: Points
    reset: bool
    why_not: str


TOLD = "only told of"
SETTLED = "iterations of a loop that differ in this alone are followed once: telling them apart costs too much"


def fact(
    default: object = MISSING,
    *,
    join: Join = AGREED,
    same: Same | str = AS_IT_IS,
    points: Points = NOTHING,
    factory: Callable[[], object] | None = None,
    reset: bool = False,
) -> Any:
    """A field of a heap object that tells two of them apart, unless ``same`` is the reason why it does not."""
    counts, why_not = (None, same) if isinstance(same, str) else (same, "")
    return _field(default, factory, Fact(join, counts, points, reset, why_not))


def story(why: str, default: object = None, *, join: Join = FIRST, factory: Callable[[], object] | None = None) -> Any:
    """A field that is only told of, or follows from others, as ``why`` says: it tells no two objects apart."""
    return _field(default, factory, Fact(join, None, NOTHING, False, why))


def _field(default: object, factory: Callable[[], object] | None, declared: Fact) -> Any:
    if factory is not None:
        return field(default_factory=factory, metadata={"fact": declared})
    return field(default=default, metadata={"fact": declared})


@_once
def facts(kind: type) -> dict[str, Fact]:
    """The facts of a class by the names of its fields; TypeError for a field without a declaration."""
    found = {}
    for each in fields(kind):
        if each.name != "owner":  # which world may write to it: no fact about it
            if "fact" not in each.metadata:
                raise TypeError(f"{kind.__name__}.{each.name} is not declared: see gradlint.static.state.declaring")
            found[each.name] = each.metadata["fact"]
    return found


# --- what is derived from them ---------------------------------------------------------------------------------


@_once
def joining(kind: type) -> Callable[[Any, Any, Any], Any]:
    """``join(x, y, j)`` of two objects of a class; ``j`` joins the values in them."""
    names: dict[str, Any] = {**_JOINED, "kind": kind}
    parts = []
    for name, declared in facts(kind).items():
        names[f"other_{name}"] = declared.join.otherwise
        text = _put(declared.join.text, OTHER=f"other_{name}")
        parts.append(f"{name}={_put(text, X=f'x.{name}', Y=f'y.{name}')}")
    return _compiled("join(x, y, j)", f"return kind({', '.join(parts)})", names)


@_once
def signing(kind: type) -> Callable[[Any, Any], tuple[Hashable, ...]]:
    """``sign(o, s)``: what tells an object of a class apart from others; ``s`` numbers what it points to."""
    told = [_put(each.same.text, O=f"o.{name}") for name, each in facts(kind).items() if each.same is not None]
    return _compiled("sign(o, s)", f"return ({', '.join(told)},)", {})


@_once
def holding(kind: type) -> Callable[[Any, Any, Any], None]:
    """``hold(o, ids, values)``: adds to two lists the ids and values in an object of a class."""
    lines = [_put(each.points.held, O=f"o.{name}") for name, each in facts(kind).items() if each.points.held]
    return _compiled("hold(o, ids, values)", "\n    ".join(lines) or "pass", {})


@_once
def cloning(kind: type) -> Callable[[Any, Any, Any], None]:
    """``deepen(o, value, group)``: makes a copy of an object deep; ``value`` and ``group`` copy what it holds."""
    lines, names = [], dict[str, Any]()
    for each in fields(kind):
        declared, name = facts(kind).get(each.name), each.name
        if declared is not None and declared.reset:
            names[f"new_{name}"] = (
                (lambda e=each: e.default) if each.default_factory is MISSING else each.default_factory
            )
            lines.append(f"o.{name} = new_{name}()")
        elif declared is not None and declared.points.copied:
            lines.append(f"o.{name} = {_put(declared.points.copied, O=f'o.{name}')}")
    return _compiled("deepen(o, value, group)", "\n    ".join(lines) or "pass", names)


@_once
def copying(kind: type) -> Callable[[Any], Any]:
    """``copy(o)``: a copy of an object of a class that shares no list or dict with it."""
    lines = ["n = new(kind)", "n.owner = o.owner"]
    for each in fields(kind):
        if each.name != "owner":
            mutable = str(each.type).startswith(("dict[", "list["))
            lines.append(f"n.{each.name} = o.{each.name}{'.copy()' if mutable else ''}")
    return _compiled("copy(o)", "\n    ".join([*lines, "return n"]), {"new": object.__new__, "kind": kind})


def _put(text: str, **parts: str) -> str:
    """A template with what stands for its words, which are in capitals."""
    for name, part in parts.items():
        text = re.sub(rf"\b{name}\b", part, text)
    return text


def _compiled(head: str, body: str, names: dict[str, Any]) -> Callable[..., Any]:
    exec(f"def {head}:\n    {body}", names)  # noqa: S102  the text is made of the declarations above alone
    made: Callable[..., Any] = names[head.partition("(")[0]]
    return made


# --- what the text of joins calls ------------------------------------------------------------------------------


def first(x: Any, y: Any) -> Any:
    """The one of two sites, or of two things that have one, that stands first in the code."""
    return x if x == y or _place(x) <= _place(y) else y


def _place(site: Any) -> tuple[object, ...]:
    where = getattr(site, "at", site).locate()
    return where.filename, where.cell or 0, where.row, where.column, where.end_row, where.end_column, _rank(site)


def _along(x_site: Any, y_site: Any, x: Any, y: Any, otherwise: object) -> Any:
    if x_site is None or y_site is None:
        return otherwise
    if x_site == y_site:
        return max(x, y)
    return x if first(x_site, y_site) is x_site else y


def _rank(each: object) -> tuple[int, str]:
    return (each, "") if isinstance(each, int) else (0, str(getattr(each, "hint", getattr(each, "rank", ""))))


def _gathered(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(dict.fromkeys((*x, *y)), key=_rank))


def _shared(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([each for each in x if each in y])


def join_tokens(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """Each protocol's tokens of either side; a side without any is still at the start, and says nothing.

    Where there are very many, they are fewer than those of both.
    """
    out = x.copy()
    for key, tokens in y.items():
        known = out.get(key)
        if known is not tokens:  # most often they are one object
            out[key] = tokens if known is None else told_apart(known | tokens)
    return out


def _one_class(x: Any, y: Any) -> Any:
    """The older one of two that one class statement made."""
    if x is None or y is None or x.unit is not y.unit:
        return None
    return min(x, y, key=lambda each: (each.scope, each.frame))


def _first_by_name(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    out = x.copy()
    for name, theirs in y.items():
        known = out.get(name)
        if known is not theirs:
            out[name] = theirs if known is None else first(known, theirs)
    return out


_JOINED = {
    "along": _along,
    "first": first,
    "first_by_name": _first_by_name,
    "gathered": _gathered,
    "one_class": _one_class,
    "shared": _shared,
    "tokens": join_tokens,
}
