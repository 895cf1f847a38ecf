"""Rules: one class for each pitfall, written over events.

A rule registers itself by being defined.  Its docstring is its manual page.  It reports through
:class:`Violation`, yielded by a method marked ``@on(EventType)`` or told by the ``violated`` method of a
:class:`~gradlint.protocol.Protocol`.  Rules know neither libcst nor torch.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from gradlint import plugins
from gradlint.finding import Effect, Finding, Related, Severity
from gradlint.protocol import Protocol

if TYPE_CHECKING:
    from gradlint.events import Event
    from gradlint.finding import Site
    from gradlint.intents import Mend

E = TypeVar("E", bound="Event")
Check = Callable[[Any, E], Iterator["Violation"]]


@dataclass(frozen=True, slots=True)
class Violation:
    """What a rule reports: why this is a mistake, and the places that explain it."""

    message: str
    at: Site
    related: tuple[tuple[str, Site], ...] = ()
    remedy: str = ""
    cause: Site | None = None  #: where rules that this one supersedes have nothing to add
    mend: Mend | None = None
    in_function: str = ""
    """What the others do for which the first in a function stands, if one is to be told: "also changed here"."""


def places(*steps: tuple[str, Site | None]) -> tuple[tuple[str, Site], ...]:
    """The steps of a story whose sites are known, for :attr:`Violation.related`."""
    return tuple((message, site) for message, site in steps if site is not None)


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are, for a message."""
    others = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + others


def on(*events: type[E], every_time: bool = False) -> Callable[[Check[E]], Check[E]]:
    """Mark a method of a rule as a check of events of these types.

    With ``every_time``, a place is reported only if what happens there is a mistake each time it happens.
    """

    def mark(check: Check[E]) -> Check[E]:
        check.__gradlint_events__ = events  # type: ignore[attr-defined]
        check.__gradlint_every_time__ = every_time  # type: ignore[attr-defined]
        return check

    return mark


class Rule:
    """A pitfall.

    Subclasses set ``code``, ``name``, ``severity``, ``effect`` and a docstring in the shape of the manual page.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    effect: ClassVar[Effect]  #: what the mistake does to whoever runs the program
    opt_in: ClassVar[bool] = False  #: not selected by default even though its severity would be
    fix: ClassVar[str | None] = None  #: "safe", "unsafe" or None
    remedy: ClassVar[str] = ""  #: what to do, in one line
    supersedes: ClassVar[tuple[str, ...]] = ()  #: codes that stay silent where this rule reports the same cause
    supersedes_within: ClassVar[bool] = True  #: also what they report anywhere within the place of its findings

    concerns_values: ClassVar[bool] = False  #: the numbers of a training are wrong, whoever's code computes them
    once_for_a_cause: ClassVar[bool] = False  #: where one cause shows at several places, the first of them is reported
    loops_apart: ClassVar[bool] = False  #: then the first in each of several loops, none of which holds the other

    checks: ClassVar[dict[type[Event], tuple[str, ...]]] = {}
    protocols: ClassVar[tuple[Protocol, ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        checks: dict[type[Event], tuple[str, ...]] = {}
        protocols = []
        members = {key: member for base in reversed(cls.__mro__) for key, member in vars(base).items()}
        for key, member in sorted(members.items(), key=lambda item: item[0]):
            if isinstance(member, Protocol):
                protocols.append(member)
            for event in getattr(member, "__gradlint_events__", ()):
                checks[event] = (*checks.get(event, ()), key)
        cls.checks, cls.protocols = checks, tuple(protocols)
        if "code" in cls.__dict__:
            _register(cls)

    @classmethod
    def default(cls) -> bool:
        """Whether the rule is selected when nothing is said."""
        return not cls.opt_in and cls.severity is not Severity.STYLE

    @classmethod
    def listens(cls) -> frozenset[type[Event]]:
        """The event types this rule is written over."""
        return frozenset(cls.checks).union(*(protocol.events for protocol in cls.protocols))

    @classmethod
    def page(cls) -> str:
        """The manual page."""
        from inspect import cleandoc

        return cleandoc(cls.__doc__ or "")

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the manual page."""
        return " ".join(cls.page().partition("\n\n")[0].split())

    @classmethod
    def why(cls) -> str:
        """What the manual page says under "Why is this bad", on one line; empty where it says nothing."""
        found = re.search(r"^## Why is this bad\n(.*?)(?=^## |\Z)", cls.page(), re.DOTALL | re.MULTILINE)
        return " ".join(found[1].split()) if found else ""

    def finding(self, violation: Violation) -> Finding:
        """The violation with its sites located."""
        return Finding(
            code=self.code,
            name=self.name,
            message=violation.message,
            severity=self.severity,
            effect=self.effect,
            location=violation.at.locate(),
            related=tuple(Related(message, site.locate()) for message, site in violation.related),
            remedy=violation.remedy or self.remedy,
            cause=violation.cause.locate() if violation.cause else None,
        )


_registry: dict[str, type[Rule]] = {}
_discovered = False


def _register(rule: type[Rule]) -> None:
    if not re.fullmatch(r"[A-Z]{2,8}[0-9]{3}", rule.code):
        raise ValueError(f"{rule.__qualname__}: {rule.code!r} is not a rule code such as 'GL201'")
    if not isinstance(getattr(rule, "effect", None), Effect):
        choices = ", ".join(f"Effect.{effect.name}" for effect in Effect)
        raise ValueError(f"rule {rule.code} ({rule.__qualname__}) does not say its effect: set it to one of {choices}")
    other = _registry.get(rule.code)
    if other is not None:
        raise ValueError(f"rule code {rule.code} is defined by both {other.__module__} and {rule.__module__}")
    for known in _registry.values():
        if known.name == rule.name:
            raise ValueError(f"rule name {rule.name!r} is used by both {known.code} and {rule.code}")
    _registry[rule.code] = rule


def all_rules() -> tuple[type[Rule], ...]:
    """Every rule, by code: those of ``gradlint.rules`` and those other packages bring by entry point."""
    global _discovered
    if not _discovered:
        package = importlib.import_module("gradlint.rules")
        for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            importlib.import_module(f"gradlint.rules.{module}")
        plugins.load()
        _discovered = True
    return tuple(_registry[code] for code in sorted(_registry))
