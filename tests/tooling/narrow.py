"""Tell what the fixtures lose where entry points are followed as after many steps: one world, two iterations of a loop.

    python tests/tooling/narrow.py [SLUG…] [--worlds 1] [--iterations 2]

Real programs are followed so for most of their length; fixtures are too short for it.  Each case is checked with the
worlds that are kept apart and the iterations that are executed cut to these numbers.  Prints what is reported where
nothing is marked, what is marked and not reported, and how many there are of each rule.  Much of what is lost is lost
by design, as it takes two worlds to tell it; a false report never is.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fixture_cases import Case, all_cases, linted_slugs

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.python import budget
from gradlint.static.text.project import Project

Place = tuple[str, int, str]
"""A file, a row and a code."""


def found(case: Case) -> Counter[Place]:
    """What is reported of a case."""
    rules = [rule for rule in all_rules() if rule.default() or rule.name.replace("-", "_") == case.slug]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        findings = analyze(Project([root]), case.write(root), rules).findings
        places = ((Path(each.location.filename).relative_to(root), each.location.row, each.code) for each in findings)
        return Counter((path.as_posix(), row, code) for path, row, code in places)


def differences(case: Case) -> Iterator[tuple[str, Place]]:
    """What is false, and what is lost."""
    reported, marked = found(case), Counter(case.marks)
    yield from (("false", place) for place in (reported - marked).elements())
    yield from (("lost", place) for place in (marked - reported).elements())


def main() -> None:
    """Check the cases, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slugs", nargs="*", help="the rules of the fixtures, as in missing_zero_grad; all if not given")
    parser.add_argument("--worlds", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=2)
    options = parser.parse_args()
    pace = options.worlds, options.iterations
    budget.ORDERLY = ((0, pace), (0, pace), (math.inf, pace))
    slugs = options.slugs or linted_slugs()
    count, marks = Counter[tuple[str, str]](), 0
    for case in all_cases():
        if case.slug in slugs:
            marks += len(case.marks)
            for how, (name, row, code) in differences(case):
                count[how, code] += 1
                print(f"{how}: {case.slug}, {case.name}: {name}:{row}: {code}", flush=True)
    print(f"{marks} marks", *(f"{how} {code}: {number}" for (how, code), number in sorted(count.items())), sep="\n")


if __name__ == "__main__":
    main()
