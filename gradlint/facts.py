"""Three-valued facts: what a witness knows about a tensor, a module or an argument.

A fact is known to have a value, or it is unknown.  It deliberately has no truth value: ``if not fact``
would silently read *unknown* as *false*, and a linter that guesses is a linter nobody trusts.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar, cast

T = TypeVar("T")


class Fact(Generic[T]):
    """A value that is either known or not.

    Facts compare by what they know: two unknown facts are equal, and so are two facts that know equal values.
    """

    __slots__ = ("_known", "_value")

    def __init__(self, value: T | None = None, *, known: bool = True) -> None:
        self._known = known
        self._value = value

    @property
    def known(self) -> bool:
        """Whether a value is known."""
        return self._known

    @property
    def value(self) -> T:
        """The known value.

        Raises:
            LookupError: if the fact is unknown.
        """
        if not self._known:
            raise LookupError("this fact is unknown: ask .known, .is_true or .is_false first")
        return cast("T", self._value)

    @property
    def is_true(self) -> bool:
        """Known, and true."""
        return self._known and bool(self._value)

    @property
    def is_false(self) -> bool:
        """Known, and false."""
        return self._known and not self._value

    def equals(self, *values: T) -> bool:
        """Known, and equal to one of ``values``."""
        return self._known and self._value in values

    def differs(self, *values: T) -> bool:
        """Known, and equal to none of ``values``."""
        return self._known and self._value not in values

    def join(self, other: Fact[T]) -> Fact[T]:
        """What still holds when either of two facts may be the case."""
        return self if self == other else cast("Fact[T]", UNKNOWN)

    def __bool__(self) -> bool:
        raise TypeError("a fact has no truth value (it may be unknown): ask .is_true or .is_false")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fact):
            return NotImplemented
        return self._known == other._known and self._value == other._value

    def __hash__(self) -> int:
        return hash((self._known, self._value))

    def __repr__(self) -> str:
        return f"known({self._value!r})" if self._known else "UNKNOWN"


UNKNOWN: Final[Fact[object]] = Fact(known=False)
TRUE: Final[Fact[bool]] = Fact(True)
FALSE: Final[Fact[bool]] = Fact(False)


def known(value: T) -> Fact[T]:
    """A fact that is known to be ``value``."""
    return Fact(value)


def unknown() -> Fact[T]:
    """The fact about which nothing is known, typed for its place."""
    return cast("Fact[T]", UNKNOWN)
