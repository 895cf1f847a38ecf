"""Rules that other packages bring, by the entry-point group ``gradlint.rules``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

GROUP = "gradlint.rules"


def load() -> None:
    """Import what the installed packages declare in the group; by being defined, rules register themselves.

    ``importlib.metadata`` takes as long to import as click; it is imported only where a package may declare something.
    """
    if not may_be_brought(sys.path):
        return
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        entry.load()


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
        with open(path, "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:
        return False
