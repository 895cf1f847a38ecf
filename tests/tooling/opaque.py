"""Tell what the fixtures gain and lose where one of their functions is not followed by those that call it.

    python tests/tooling/opaque.py [SLUG…] [--classes] [--lost]

In large projects some functions are too costly to follow where something calls them: they are known by what their text
says, and by what it leads to.  Each case is checked once for each of its functions, or classes, as if that was so.
Prints what is reported where nothing is marked (and what is lost), and how much of each rule that is.
Much of what is lost is lost for good reason, as it takes the function to tell it; a false report never is.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

from fixture_cases import Case, all_cases, linted_slugs
from narrow import Place, found

from gradlint.static.python.budget import Budget
from gradlint.static.text.units import Unit

_follows = Budget.is_opaque


def differences(case: Case, definition: str) -> Iterator[tuple[str, str, Place]]:
    """What is false, and what is lost, where something is not followed."""
    marked = Counter(case.marks)
    for name in dict.fromkeys(re.findall(rf"^\s*{definition} (\w+)", case.text, re.MULTILINE)):

        def is_opaque(budget: Budget, unit: Unit, name: str = name) -> bool:
            return getattr(unit, "name", None) == name or _follows(budget, unit)

        with patch.object(Budget, "is_opaque", is_opaque):
            reported = found(case)
        yield from (("false", name, place) for place in (reported - marked).elements())
        yield from (("lost", name, place) for place in (marked - reported).elements())


def main() -> None:
    """Check the cases, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slugs", nargs="*", help="the rules of the fixtures, as in missing_zero_grad; all if not given")
    parser.add_argument("--classes", action="store_true", help="classes are not looked into, instead of functions")
    parser.add_argument("--lost", action="store_true", help="print what is marked and not reported, too")
    options = parser.parse_args()
    slugs = options.slugs or linted_slugs()
    count = Counter[tuple[str, str]]()
    for case in (case for case in all_cases() if case.slug in slugs):
        for how, definition, (name, row, code) in differences(case, "class" if options.classes else "def"):
            count[how, code] += 1
            if how == "false" or options.lost:
                print(f"{how}: {case.slug}, {case.name}, without {definition}: {name}:{row}: {code}", flush=True)
    print(*(f"{how} {code}: {number}" for (how, code), number in sorted(count.items())), sep="\n")


if __name__ == "__main__":
    main()
