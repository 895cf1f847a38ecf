"""Compare what each rule finds alone with what it finds beside all others, and each file alone with its folder.

    python tests/tooling/alone.py FOLDER… [--every] [--files]
    python tests/tooling/alone.py FOLDER… --copies

Each folder is a project.  A rule takes part together with those that supersede it, which tell the same mistake in its
place.  Rules that find nothing beside the others run together, or one by one with ``--every``; with ``--files``, each
file is checked alone, too.  With ``--copies``, each file is copied out of its folder and checked there instead: what is
reported of a copy alone, the folder has disproved, or hides.  Prints what differs, and exits with 1 if anything does.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from gradlint.configuration import Configuration
from gradlint.discovery import Discovery
from gradlint.engine import Engine
from gradlint.manual import witnesses
from gradlint.rule import Rule, all_rules
from gradlint.selection import Choice

RULES = [rule for rule in all_rules() if "static" in witnesses(rule)]

Findings = Counter[tuple[str, int, str]]
"""How many there are of each file, row and code."""
Find = Callable[[Sequence[type[Rule]]], Findings]


def with_superseding(rules: Sequence[type[Rule]]) -> list[type[Rule]]:
    """Some rules, and those that silence one where both have something to say of the same cause."""
    codes = {rule.code for rule in rules}
    return [rule for rule in RULES if rule in rules or not codes.isdisjoint(rule.supersedes)]


def of_rules(rules: Iterable[type[Rule]], found: Findings) -> Findings:
    """Those of the findings that are some rules'."""
    codes = {rule.code for rule in rules}
    return Counter({place: count for place, count in found.items() if place[2] in codes})


def differing(find: Find, together: Findings, groups: Iterable[Sequence[type[Rule]]]) -> Iterator[str]:
    """What rules find alone and not beside all others, and the other way round.

    Args:
        find: what some rules find.
        together: what all of them find.
        groups: the rules that run alone, one or several at a time.
    """
    for group in groups:
        alone, beside = of_rules(group, find(with_superseding(group))), of_rules(group, together)
        yield from (f"{_told(place)} only beside the other rules" for place in sorted((beside - alone).elements()))
        yield from (f"{_told(place)} only alone" for place in sorted((alone - beside).elements()))


def _told(place: tuple[str, int, str]) -> str:
    name, row, code = place
    return f"{name}:{row}: {code}"


def check(folder: Path, targets: Sequence[Path], rules: Sequence[type[Rule]]) -> Findings:
    """What rules find in some files of a project."""
    engine = Engine(Configuration(isolated=True), Choice(select=tuple(rule.code for rule in rules)), jobs=1)
    found = engine.check(targets, [folder]).findings
    return Counter((each.location.filename, each.location.row, each.code) for each in found)


def hidden(targets: Sequence[Path], together: Findings) -> Iterator[str]:
    """What is found in copies of single files, and not in the files where they stand."""
    for target in targets:
        with tempfile.TemporaryDirectory() as place:
            copy = shutil.copy(target, place)
            found = check(Path(place), [Path(copy)], RULES)
        alone = Counter({(str(target), row, code): count for (_, row, code), count in found.items()})
        yield from (f"{_told(place)} only in a copy" for place in sorted((alone - together).elements()))


def main() -> int:
    """Compare, print, and tell whether anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", action="store_true", help="run the rules that find nothing one by one")
    parser.add_argument("--files", action="store_true", help="check each file alone as well")
    parser.add_argument("--copies", action="store_true", help="check copies of single files, and nothing else")
    options = parser.parse_args()
    count = 0
    for folder in map(Path.absolute, options.folders):
        targets = Discovery(Configuration(isolated=True), print).files([folder])
        together = check(folder, targets, RULES)
        codes = {code for _, _, code in together} if not options.every else {rule.code for rule in RULES}
        groups = [[rule] for rule in RULES if rule.code in codes]
        groups += filter(None, [[rule for rule in RULES if rule.code not in codes]])
        find = partial(check, folder, targets)
        differences = list(hidden(targets, together) if options.copies else differing(find, together, groups))
        for target in targets if options.files and not options.copies else ():
            alone = check(folder, [target], RULES)
            beside = Counter({place: n for place, n in together.items() if place[0] == str(target)})
            differences += [f"{_told(place)} only with its folder" for place in sorted((beside - alone).elements())]
            differences += [f"{_told(place)} only by itself" for place in sorted((alone - beside).elements())]
        print(*differences, f"{folder}: {together.total()} findings, {len(differences)} differences", sep="\n")
        count += len(differences)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
