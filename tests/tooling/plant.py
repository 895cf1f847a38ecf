"""Measure what gradlint finds of mistakes that are planted in correct training code.

    python tests/tooling/plant.py FOLDER... [--rule GL201] [--seed 0] [--limit 40] [--seconds 60] [--list-missed]

Each folder is a project.  Its files with a training loop in which gradlint finds no error of the core rules get one
mistake at a time, in memory (see `mutants.py` for what is planted, and where), and are analysed again.  For each rule
it prints how many mistakes were planted and how many of them were found at the expected lines.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the tests are no package
from mutants import MUTATIONS, Mutant
from shapes import Tree, apply

from gradlint.finding import Finding
from gradlint.rule import Rule, all_rules
from gradlint.source import Source, SourceError, read_source, source_from_text
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project

LOOP = re.compile(r"\.backward\(")


@dataclass
class Measured:
    """What became of the mutants of one rule."""

    planted: int = 0
    missed: list[Mutant] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)


Results = dict[str, Measured]


@dataclass
class Limits:
    """When to stop planting."""

    mistakes: int = 0  #: of a rule; 0 for no limit
    until: float = float("inf")  #: by the monotonic clock, in seconds

    def reached(self, result: Measured) -> bool:
        """Whether no more mistakes of a rule are to be planted."""
        return bool(self.mistakes and result.planted >= self.mistakes) or time.monotonic() > self.until


def rules() -> list[type[Rule]]:
    """The rules whose mistakes are planted."""
    return [rule for rule in all_rules() if rule.code in MUTATIONS]


def texts_of(folder: Path) -> dict[Path, str]:
    """The Python files of a folder that can be read and parsed."""
    found = {}
    for path in sorted(folder.resolve().rglob("*.py")):
        try:
            text = read_source(path).text if path.is_file() else ""
            ast.parse(text)
        except (OSError, SourceError, SyntaxError, ValueError, RecursionError):
            continue
        found[path] = text
    return found


def check(folder: Path, targets: Sequence[Path], override: dict[Path, str]) -> list[Finding]:
    """The findings in the targets, where some files have another text than on disk."""

    def read(path: Path) -> Source:
        text = override.get(Path(path).resolve())
        return read_source(path) if text is None else source_from_text(text, path)

    return analyze(Project([folder], read=read), targets, rules()).findings


def clean(folder: Path, path: Path) -> bool:
    """Whether gradlint finds none of the planted rules' errors in a file as it is."""
    return not [finding for finding in check(folder, [path], {}) if finding.code != "GL110"]


def mutants(texts: dict[Path, str], codes: Sequence[str], chance: random.Random, each: int) -> Iterator[Mutant]:
    """Mistakes to plant: of each rule at most `each` per file, drawn by chance."""
    tree = Tree(texts)
    for file in tree.files.values():
        if LOOP.search(file.text):
            for code in codes:
                found = list(MUTATIONS[code](file, tree))
                chance.shuffle(found)
                yield from found[:each]


def is_found(mutant: Mutant, folder: Path, texts: dict[Path, str]) -> bool | None:
    """Whether a planted mistake is found; None where the mutant is no program."""
    text = apply(texts[mutant.changed], mutant.edits)
    try:
        ast.parse(text)
    except SyntaxError:
        return None
    findings = check(folder, [mutant.path], {mutant.changed: text})
    return any(f.code == mutant.code and f.location.row in mutant.rows for f in findings)


def measure(folder: Path, planted: Iterable[Mutant], texts: dict[Path, str], limits: Limits, results: Results) -> int:
    """Plant mistakes in one project and count; the number of files they were planted in."""
    fine: dict[Path, bool] = {}
    for mutant in planted:
        result = results.setdefault(mutant.code, Measured())
        if limits.reached(result):
            continue
        if mutant.path not in fine:
            fine[mutant.path] = clean(folder, mutant.path)
        found = is_found(mutant, folder, texts) if fine[mutant.path] else None
        if found is None:
            continue
        result.planted += 1
        result.ways[f"{mutant.how} ({mutant.model or 'any'}): {'found' if found else 'missed'}"] += 1
        if not found:
            result.missed.append(mutant)
    return sum(fine.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurement and print it."""
    parser = argparse.ArgumentParser(description="Measure what gradlint finds of planted mistakes.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--rule", action="append", choices=sorted(MUTATIONS), help="plant only mistakes of this rule")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of sites")
    parser.add_argument("--limit", type=int, default=0, help="plant at most so many mistakes of a rule")
    parser.add_argument("--each", type=int, default=1, help="plant at most so many mistakes of a rule in a file")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop planting after so long")
    parser.add_argument("--list-missed", action="store_true", help="print where each missed mistake was planted")
    parser.add_argument("--ways", action="store_true", help="count by the way of planting, too")
    given = parser.parse_args(arguments)
    chance = random.Random(given.seed)  # noqa: S311 -- a choice of sites, not a secret
    limits = Limits(given.limit, time.monotonic() + given.seconds)
    results: Results = {}
    files = 0
    for folder in given.folders:
        texts = texts_of(folder)
        planted = mutants(texts, given.rule or sorted(MUTATIONS), chance, given.each)
        files += measure(folder, planted, texts, limits, results)
    print(f"{files} clean files with a training loop")
    for code, result in sorted(results.items()):
        found = result.planted - len(result.missed)
        share = f"{found / result.planted:.2f}" if result.planted else "-"
        print(f"{code}: planted {result.planted}, found {found}, recall {share}")
        if given.ways:
            for way, count in sorted(result.ways.items()):
                print(f"    {count:4} {way}")
        if given.list_missed:
            for mutant in result.missed:
                print(
                    f"    {mutant.path}:{mutant.row}: {mutant.how} in {mutant.changed.name} ({mutant.model or 'any'})"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
