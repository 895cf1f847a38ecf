"""What a whole check is likely to find, told before it has come to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from gradlint.finding import Finding, Location
from gradlint.server.moving import relocated


class LostError(Exception):
    """A place is in what was edited."""


class Edit:
    """What became of the rows of a text, of which some in a row were replaced.

    Args:
        before: the text as it was.
        after: the text as it is.
    """

    def __init__(self, before: str, after: str) -> None:
        old, new = before.splitlines(), after.splitlines()
        shorter = min(len(old), len(new))
        self._first = next((row for row in range(shorter) if old[row] != new[row]), shorter)
        room = shorter - self._first
        same = next((count for count in range(room) if old[-1 - count] != new[-1 - count]), room)
        self._behind = len(old) - same
        self._by = len(new) - len(old)

    def place(self, old: Location) -> Location:
        """Where a place is now.

        Raises:
            LostError: it is, at least in part, in what was replaced.
        """
        if old.cell is None and old.end_row <= self._first:
            return old
        if old.cell is None and old.row > self._behind:
            return replace(old, row=old.row + self._by, end_row=old.end_row + self._by)
        raise LostError


def foreseen(
    now: Iterable[Finding], then: Iterable[Finding], whole: Iterable[Finding], edits: Mapping[str, Edit]
) -> list[Finding]:
    """What a whole check is likely to find now.

    What other files proved, or disproved, is taken to hold where nothing was edited.

    Args:
        now: what a check of some files alone finds now.
        then: what it found before they were edited.
        whole: what a check found then that followed the files which import them, too.
        edits: what was done since, by the names of the files.
    """
    now, whole = list(now), list(whole)
    before, after = set(map(_key, then)), set(map(_key, whole))
    disproved = {(code, place) for code, old in before - after for place in _moved_place(old, edits)}
    kept = [finding for finding in now if _key(finding) not in disproved]
    found = set(map(_key, now))
    proven = _moved((finding for finding in whole if _key(finding) not in before), edits)
    return [*kept, *(finding for finding in proven if _key(finding) not in found)]


def _key(finding: Finding) -> tuple[str, Location]:
    return finding.code, finding.location


def _moved(findings: Iterable[Finding], edits: Mapping[str, Edit]) -> Iterator[Finding]:
    for finding in findings:
        with suppress(LostError):
            yield relocated(finding, lambda place: _place(place, edits))


def _moved_place(old: Location, edits: Mapping[str, Edit]) -> Iterator[Location]:
    with suppress(LostError):
        yield _place(old, edits)


def _place(old: Location, edits: Mapping[str, Edit]) -> Location:
    return edits[old.filename].place(old) if old.filename in edits else old
