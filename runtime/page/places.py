"""Names of places that fit a chart: the shortest endings of paths that tell files apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from gradlint.finding import Site
from gradlint.output.style import shown_path


@dataclass(frozen=True, slots=True)
class Name:
    """A name of which ``tail`` is always shown, and as much of ``head`` as there is room for."""

    head: str
    tail: str
    full: str  #: shown on demand

    def __str__(self) -> str:
        return self.head + self.tail


class Places:
    """The places that a page names.

    Args:
        sites: all of them.
        cwd: the folder that whole paths are told relative to.
    """

    def __init__(self, sites: Iterable[Site], cwd: Path) -> None:
        self._cwd = cwd
        self._rows: dict[Site, tuple[str, int]] = {}
        for site in sites:
            where = site.locate()
            self._rows[site] = where.filename, where.row
        self._short = shortened({filename for filename, _ in self._rows.values()})

    def name(self, site: Site) -> Name:
        """The file and the row of a site."""
        filename, row = self._rows[site]
        return Name(self._short[filename], f":{row}", f"{shown_path(filename, self._cwd)}:{row}")


def shortened(filenames: Iterable[str]) -> dict[str, str]:
    """For each path the shortest ending, in whole parts, that no other has."""
    parts = {filename: PurePath(filename).parts for filename in set(filenames)}
    short: dict[str, str] = {}
    length = 1
    while len(short) < len(parts):
        endings = {filename: str(PurePath(*those[-length:])) for filename, those in parts.items()}
        counts = Counter(endings.values())
        for filename, ending in endings.items():
            if counts[ending] == 1 or length >= len(parts[filename]):
                short.setdefault(filename, ending)
        length += 1
    return short
