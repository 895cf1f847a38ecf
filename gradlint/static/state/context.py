"""Where execution stands: how a piece of code may end, which models are at hand, what is noted until all of it ends."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from gradlint.static.knowledge import roles
from gradlint.static.state.origins import Among, Comparison, OptionAmong, fresh
from gradlint.static.state.values import Choice, Class, Const, Frame, Function, Instance, Ref, Value
from gradlint.static.state.world import World

if TYPE_CHECKING:
    import libcst as cst

    from gradlint.finding import Site
    from gradlint.static.text.files import Module
    from gradlint.static.text.units import Unit


class Context(NamedTuple):
    """The place in the program that is being executed.

    ``key`` is the call string with the number of each loop iteration on the way: what happens under the same
    key in several worlds are alternatives of the same moment.
    """

    module: Module
    unit: Unit
    frame: int
    key: int = 0
    depth: int = 0
    parent: Context | None = None
    function: Function | None = None
    owner: Class | None = None  #: the class whose method this is, for ``super()``
    receiver: Value | None = None
    in_forward: bool = False  #: within the forward of a module
    peeled: int = 0  #: the number at which an iteration began that stands for any number of them; 0 outside of such
    iteration: int = 0  #: the number at which the innermost iteration of a loop began; 0 outside of loops
    loop: Hashable = None  #: the innermost loop, as it was entered here
    around: tuple[int, ...] = ()  #: the numbers at which the iterations began that this one stands in, outermost first
    phase: tuple[Hashable, ...] = ()
    """The items, by number, of the loops over names or truth values that this stands in, outermost first."""
    yields: Ref | None = None  #: what collects the values that a generator yields
    on_yield: Callable[[World, Value], object] | None = None
    called_at: Site | None = None  #: where the function that is being executed was called

    def site(self, node: cst.CSTNode) -> Site:
        """The place of a node of the unit that is being executed."""
        return self.unit.site(node)

    def iterating(self, loop: Hashable) -> Context:
        """This context in another iteration of a loop that stands here."""
        around = (*self.around, self.iteration) if self.iteration else self.around
        return self._replace(iteration=fresh(), loop=loop, around=around)

    def in_phase(self, loop: Hashable, number: int) -> Context:
        """This context in the iteration of a loop over names or truth values, such as ``("train", "val")``."""
        return self._replace(phase=(*self.phase, (loop, number)))

    def way(self, site: Site) -> Iterator[tuple[tuple[Unit, int], Site]]:
        """The functions and statements on the call stack, innermost first, with the place in each that led to ``site``.

        Each is known by its depth as well, which tells it from others that call it or are called by it.
        """
        here: Context | None = self
        at: Site | None = site
        while here is not None and at is not None:
            yield (here.unit, here.depth), at
            at = here.called_at
            here = here.parent

    def frames(self) -> Iterator[int]:
        """The frames on the call stack, innermost first."""
        here: Context | None = self
        while here is not None:
            yield here.frame
            here = here.parent

    def units(self) -> Iterator[Unit]:
        """The functions and statements on the call stack, innermost first."""
        here: Context | None = self
        while here is not None:
            yield here.unit
            here = here.parent

    def at(self, *step: Hashable, peeled: bool = False) -> Context:
        """This context one step further: a call site, or the n-th iteration of a loop."""
        return self._replace(key=_intern(self.key, step), peeled=fresh() if peeled else self.peeled)

    def calls(self, function: object) -> int:
        """How often ``function`` is on the call stack."""
        count = 0
        here: Context | None = self
        while here is not None:
            count += here.function is not None and here.function.unit is function
            here = here.parent
        return count

    def since(self, function: Unit) -> Iterator[Unit]:
        """The functions on the call stack, back to the last call of ``function``, which is on it."""
        here: Context | None = self
        while here is not None:
            if here.function is not None:
                yield here.function.unit
                if here.function.unit is function:
                    return
            here = here.parent


_keys: dict[tuple[int, Hashable], int] = {}


def _intern(parent: int, step: Hashable) -> int:
    key = _keys.get((parent, step))
    if key is None:
        key = _keys[parent, step] = fresh()
    return key


def forget_keys() -> None:
    """Let go of all keys, and of the code they stand for; there will never be the same again."""
    _keys.clear()


@dataclass(slots=True)
class Arguments:
    """Evaluated arguments of a call."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    open: bool = False  #: there may be more, through an unknown ``*args`` or ``**kwargs``
    last: Value | None = None  #: the last positional one, where there may be more before it
    unpacked: list[Value] = field(default_factory=list)  #: positional ones of which the number is not known
    rest: Value | None = None  #: what these are unpacked from, if they come last

    def get(self, position: int, name: str = "") -> Value | None:
        """The argument at ``position`` or by ``name``, None when it is not given (or not known to be)."""
        if name and name in self.keywords:
            return self.keywords[name]
        return self.positional[position] if 0 <= position < len(self.positional) else None

    def behind(self, *first: Value) -> Arguments:
        """The same arguments behind others."""
        return replace(self, positional=[*first, *self.positional])

    def __iter__(self) -> Iterator[Value]:
        yield from self.positional
        yield from self.keywords.values()


MAX_EXITS = 4  #: worlds in which a loop or a function may be left

Results = list[tuple[World, Value]]


@dataclass(slots=True)
class Outcome:
    """How a block may have ended."""

    normal: list[World] = field(default_factory=list)
    breaks: list[World] = field(default_factory=list)
    continues: list[World] = field(default_factory=list)
    returns: Results = field(default_factory=list)

    @property
    def exits(self) -> list[World]:
        """The worlds in which it was left, apart from its normal end."""
        return [*self.breaks, *self.continues, *(world for world, _ in self.returns)]

    def absorb(self, other: Outcome) -> None:
        """Take over the ways ``other`` was left, apart from its normal end."""
        self.breaks += other.breaks
        self.continues += other.continues
        self.returns += other.returns


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Ledger(dict[K, V]):
    """Notes by key; none is taken out but by :meth:`trim`."""

    def __init__(self) -> None:
        super().__init__()
        self._lasting: set[K] = set()
        self._before: dict[K, V] = {}  #: what lasting notes said before the entry point changed them
        self._trimmed = 0  #: how many notes were left when it was trimmed: the first ones, all of them lasting

    def __setitem__(self, key: K, value: V) -> None:
        if key in self._lasting:
            self._before.setdefault(key, self[key])
        super().__setitem__(key, value)

    def __ior__(self, notes: AbstractMapping[K, V]) -> Self:  # type: ignore[override,misc]
        for key in self._lasting & notes.keys():
            self._before.setdefault(key, self[key])
        super().update(notes)
        return self

    def size(self) -> tuple[int, int]:
        """How many notes there are, and how many lasting ones have been changed; to be given to :meth:`keep`."""
        return len(self), len(self._before)

    def keep(self, since: tuple[int, int]) -> None:
        """What was noted since it had this size is of a module, which outlives the entry point."""
        notes, changed = since
        self._lasting.update(self._behind(notes))
        for key in list(self._before)[changed:]:
            del self._before[key]

    def trim(self) -> None:
        """The entry point is done: drop all that nothing can ask for any more."""
        for key, value in self._before.items():
            super().__setitem__(key, value)
        self._before.clear()
        for key in [key for key in self._behind(self._trimmed) if key not in self._lasting]:
            del self[key]
        self._trimmed = len(self)

    def _behind(self, count: int) -> Iterator[K]:
        """The keys of all notes but the first ones, the last first: the first ones may be many."""
        return islice(reversed(self), len(self) - count)


class Ledgers:
    """All ledgers of an analysis."""

    def __init__(self) -> None:
        self._all: list[Ledger[Hashable, object]] = []

    def open(self) -> Ledger[K, V]:
        """A new one."""
        made: Ledger[K, V] = Ledger()
        self._all.append(made)  # type: ignore[arg-type]
        return made

    def sizes(self) -> list[tuple[int, int]]:
        """How much there is in each; to be given to :meth:`keep`."""
        return [each.size() for each in self._all]

    def keep(self, since: list[tuple[int, int]]) -> None:
        """See :meth:`Ledger.keep`."""
        for each, size in zip(self._all, since, strict=True):
            each.keep(size)

    def trim(self) -> None:
        """See :meth:`Ledger.trim`."""
        for each in self._all:
            each.trim()


def variant(w: World, ctx: Context) -> Hashable:
    """The models of the project's classes at hand, by the names they bear here.

    Where worlds were joined, models that go with different losses may have got mixed: those are left out.
    """
    return _at_hand({value for key, value in w.bound.items() if isinstance(key, int)}, w, ctx)


def chosen(w: World, ctx: Context) -> Hashable | None:
    """The same, with the models that are one of several of a table, as long as nothing else was assumed.

    What happens under a condition of which nothing is known may be meant for some of the models only.
    """
    return _at_hand((), w, ctx) or None if all(_settles(key, w) for key in w.assumed) else None


def _settles(condition: Hashable, w: World) -> bool:
    """Whether a condition that was assumed tells by which key something was looked up, or which keys there are."""
    match condition:
        case OptionAmong():
            return True
        case Comparison("==", subject) | Among(subject):
            return type(w.bound.get(subject)) is Const
    return False


def _at_hand(mixed: Container[Value], w: World, ctx: Context) -> frozenset[Hashable]:
    found: set[Hashable] = set()
    for key in dict.fromkeys((ctx.frame, w.modules.get(ctx.module, ctx.frame))):
        frame = w.get(Ref(key), Frame)
        for name, value in frame.vars.items() if frame is not None else ():
            value = w.resolve(value) if type(value) is Choice else value
            obj = w.get(value, Instance) if isinstance(value, Ref) else None
            if obj is not None and obj.cls is not None and obj.role is roles.PLAIN:
                held = [(f"{name}.{attribute}", each) for attribute, each in obj.attrs.items()]
            else:
                held = [(name, value)]
            found.update(_models(held, mixed, w))
    return frozenset(found)


def _models(named: list[tuple[str, Value]], mixed: Container[Value], w: World) -> Iterator[Hashable]:
    for name, value in named:
        value = w.resolve(value) if type(value) is Choice else value
        obj = w.get(value, Instance) if isinstance(value, Ref) and value not in mixed else None
        if obj is not None and obj.cls is not None and obj.role is roles.MODULE:
            yield name, obj.cls.unit


__all__ = [
    "MAX_EXITS",
    "Arguments",
    "Context",
    "Ledger",
    "Ledgers",
    "Outcome",
    "Results",
    "chosen",
    "forget_keys",
    "variant",
]
