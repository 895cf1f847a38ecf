"""The tokens of a subject: which of them are told apart, where there are many."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gradlint.finding import Location
from gradlint.protocol import Token

if TYPE_CHECKING:
    from gradlint.finding import Site

MANY = 32  #: tokens of a subject, above which those that differ in nothing but their story are one
LINEAGES = 16  #: of these, above which their lineages are not told apart either

_Story = tuple[tuple[str, str, int, int, int], ...]


class _Several:
    """A lineage that may be any of many."""

    def locate(self) -> Location:
        """Nowhere: no story is told of it."""
        return Location("", 1, 1)


SEVERAL: Final = _Several()


def told_apart(tokens: frozenset[Token]) -> frozenset[Token]:
    """Tokens, of which not too many are to differ only in the way they came to where they stand.

    Loops in one another, over calls that each clear and walk, have more of these ways than can be followed; and
    functions that all call one another, each with steps of its own, have more steps that may have been the last.
    """
    if len(tokens) <= MANY:
        return tokens
    lineages = {token.lineage for token in tokens}
    alike: dict[tuple[str, Site | None], list[Token]] = {}
    for token in tokens:
        lineage = token.lineage if token.lineage is None or len(lineages) <= LINEAGES else SEVERAL
        alike.setdefault((token.state, lineage), []).append(token)
    if len(alike) == len(tokens):
        return tokens
    kept = ((lineage, min(group, key=_story)) for (_, lineage), group in alike.items())
    return frozenset(token if token.lineage is lineage else replace(token, lineage=lineage) for lineage, token in kept)


@lru_cache(4096)
def _story(token: Token) -> _Story:
    """What tells tokens apart that stand at one place, in an order that is the same in every run."""
    places = ((name, site.locate()) for name, site in (*token.entered, *token.last))
    return tuple((name, at.filename, at.cell or 0, at.row, at.column) for name, at in places)
