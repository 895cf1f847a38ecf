"""What the lines around a place tell of it, read as text: both witnesses ask it of the same source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_BRANCH: Final = re.compile(r"(?:if|elif|else|match|case)\b(?!.*__name__)")
_DEFINITION: Final = re.compile(r"(?:async\s+)?def\b|class\b")
_SHARED: Final = re.compile(r"shar(?:e|ed|ing)|(?:^|[^a-z])(?:tied|ties|tie|tying)(?:[^a-z]|$)", re.IGNORECASE)


def is_chosen(lines: Sequence[str], row: int) -> bool:
    """Whether the statement that begins on a row (from 1) stands in a branch of its function or file."""
    depth = _indentation(lines[row - 1])
    for line in reversed(lines[: row - 1]):
        if not line.strip() or _indentation(line) >= depth:
            continue
        depth = _indentation(line)
        if _BRANCH.match(line.strip()):
            return True
        if _DEFINITION.match(line.strip()):
            return False
    return False


def says_shared(lines: Sequence[str], row: int, end_row: int) -> bool:
    """Whether the text of some rows (from 1, both included) says that something is shared."""
    return any(_SHARED.search(line) for line in lines[row - 1 : end_row])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
