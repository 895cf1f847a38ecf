"""Whether all worlds that will come to a place have come there: only then what was reported stands."""

from __future__ import annotations


class Wholeness:
    """Knows whether other worlds will come to what is being executed."""

    def __init__(self) -> None:
        self.holds = True  #: no others will

    def partly(self, whole: bool = False) -> _Partly:
        """What is executed meanwhile is executed for other worlds as well, unless these are the whole."""
        return _Partly(self, whole)


class _Partly:
    """A context manager; one by ``contextlib`` takes a fortieth of a check more."""

    __slots__ = ("_before", "_whole", "_wholeness")

    def __init__(self, wholeness: Wholeness, whole: bool) -> None:
        self._wholeness = wholeness
        self._whole = whole

    def __enter__(self) -> None:
        wholeness = self._wholeness
        self._before = wholeness.holds
        wholeness.holds = wholeness.holds and self._whole

    def __exit__(self, *_: object) -> None:
        self._wholeness.holds = self._before
