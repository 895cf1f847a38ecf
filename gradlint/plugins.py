"""Rules that other packages bring, by the entry-point group ``gradlint.rules``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from gradlint.reading import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "gradlint.rules"
_MOST = 2**20  #: bytes of what a package declares
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load() -> None:
    """Import what the installed packages declare in the group; by being defined, rules register themselves.

    ``importlib.metadata`` takes as long to import as click; it is imported only where a package may declare something.
    """
    folders = installed(sys.path)
    if may_be_brought(folders):
        for entry in sorted(_declared(folders), key=lambda entry: (entry.name, entry.value)):
            entry.load()


def installed(path: Iterable[str]) -> list[str]:
    """The folders of ``sys.path`` where packages are installed.

    Those that anybody has added for another purpose, such as the current one, may hold what is checked, and a package
    that seems to be installed there might be anybody's.
    """
    folders = dict.fromkeys(path)
    names = ("site-packages", "dist-packages")
    return [
        folder for folder in folders if folder == _OWN or (os.path.isabs(folder) and os.path.basename(folder) in names)
    ]


def _declared(folders: list[str]) -> Iterator[EntryPoint]:
    from importlib.metadata import distributions

    seen = set()
    for distribution in distributions(path=folders):
        name = distribution.metadata["Name"]
        if name not in seen:  # the first one is the one that is imported
            seen.add(name)
            yield from (entry for entry in distribution.entry_points if entry.group == GROUP)


def may_be_brought(folders: Iterable[str]) -> bool:
    """Whether a package on the path may declare something in the group: False only if none does."""
    from importlib.machinery import PathFinder

    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_distributions"))
    return any(finder is not PathFinder for finder in finders) or any(map(_declares, dict.fromkeys(folders)))


def _declares(folder: str) -> bool:
    """Whether what is installed in a folder may be in the group; an archive, which is no folder, may hold anything."""
    try:
        names = os.listdir(folder or os.curdir)
    except NotADirectoryError:
        return True
    except OSError:
        return False
    about = [name for name in names if name.lower().endswith((".dist-info", "egg-info"))]
    return any(_mentions(os.path.join(folder, name, "entry_points.txt")) for name in about)


def _mentions(path: str) -> bool:
    try:
        return GROUP.encode() in read_regular(path, _MOST)[0]
    except OSError:
        return False
