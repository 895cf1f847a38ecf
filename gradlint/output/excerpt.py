"""Excerpts: one line of source, as a terminal shows it, with a marker under the part that is meant."""

from __future__ import annotations

import unicodedata

TAB = 4
WIDEST = 160  #: terminal columns of an excerpt


def excerpt(line: str, column: int, end_column: int | None) -> tuple[str, int, int]:
    """A line ready to be shown, with the terminal column (from 0) and the width of the part that is meant.

    Args:
        line: the line, with or without its line ending.
        column: where the part begins, in characters from 1.
        end_column: the character after its end, or ``None`` for the end of the line.

    Tabs become spaces, wide characters count two columns, combining ones none, and control characters (which
    could move the cursor) are replaced.
    """
    text = line.rstrip()
    first = min(column - 1, len(text))
    last = len(text) if end_column is None else min(max(end_column - 1, first), len(text))
    cells = [_shown(character) for character in text]
    before = sum(width for _, width in cells[:first])
    marked = sum(width for _, width in cells[first:last]) or 1
    left = 0
    while before - sum(width for _, width in cells[:left]) + min(marked, WIDEST // 2) > WIDEST - 2:
        left += 20
    shown = cells[left:]
    offset = before - sum(width for _, width in cells[:left])
    head = "…" if left else ""
    rendered, width = head, len(head)
    for character, its_width in shown:
        if width + its_width > WIDEST:
            rendered += "…"
            break
        rendered, width = rendered + character, width + its_width
    offset += len(head)
    return rendered, offset, max(1, min(marked, WIDEST - offset))


def _shown(character: str) -> tuple[str, int]:
    if character == "\t":
        return " " * TAB, TAB
    category = unicodedata.category(character)
    if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return "\N{REPLACEMENT CHARACTER}", 1
    if category in ("Mn", "Me"):
        return character, 0
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1
