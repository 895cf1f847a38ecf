"""How well rules find what they look for: read from ``docs/measured.toml``, shown on the site."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from gradlint.manual import witnesses
from gradlint.rule import Rule

DATA = Path(__file__).parents[1] / "measured.toml"
FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
_WITNESSES = {"static": "the linter", "runtime": "the guard"}


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted of one rule in one measurement.

    Attributes:
        bugs: places that should be reported.
        found: those of them that were.
        clean: right places that look like the mistake; none where reports of right code were not counted.
        flagged: those of them that were reported.
        extra: reports that hit neither.
    """

    bugs: int
    found: int
    clean: int | None = None
    flagged: int = 0
    extra: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.found <= self.bugs and 0 <= self.flagged <= (self.clean or 0) and self.extra >= 0):
            raise ValueError(f"{self}: more was found than there is")

    @property
    def recall(self) -> tuple[int, int]:
        """Bugs found, of all bugs."""
        return self.found, self.bugs

    @property
    def precision(self) -> tuple[int, int]:
        """Right reports, of all reports; none of none where these were not counted."""
        return (0, 0) if self.clean is None else (self.found, self.found + self.flagged + self.extra)

    @property
    def left_alone(self) -> str:
        """How much of the right code was not reported, for people."""
        return "–" if self.clean is None else f"{self.clean - self.flagged} of {self.clean}"

    def __add__(self, other: Counts) -> Counts:
        clean = None if self.clean is None or other.clean is None else self.clean + other.clean
        flagged, extra = self.flagged + other.flagged, self.extra + other.extra
        return Counts(self.bugs + other.bugs, self.found + other.found, clean, flagged, extra)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement of several rules."""

    source: str  #: on what it was measured
    caution: str  #: what its figures do not tell
    witness: str  #: "static" or "runtime"
    version: str  #: of gradlint
    rules: dict[str, Counts]


def read(path: Path = DATA) -> list[Measurement]:
    """The measurements in the data file.

    Raises:
        TypeError: a field is missing, or is not known.
        ValueError: counts contradict each other.
    """
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["measurement"]
    return [
        Measurement(**{**each, "rules": {code: Counts(**counts) for code, counts in each["rules"].items()}})
        for each in tables
    ]


def lower_bound(part: int, whole: int) -> float:
    """The lower end of the 95 % confidence interval of a ratio (Wilson's score interval)."""
    z = 1.959964
    ratio = part / whole
    middle, width = ratio + z * z / (2 * whole), math.sqrt(ratio * (1 - ratio) / whole + (z / (2 * whole)) ** 2)
    return max(0.0, (middle - z * width) / (1 + z * z / whole))


def shown(ratio: tuple[int, int]) -> str:
    """A ratio with its counts, and what it is at least."""
    part, whole = ratio
    return f"{part / whole:.2f} ({part} of {whole}; at least {lower_bound(part, whole):.2f})" if whole else "–"


def pinned(rule: type[Rule]) -> tuple[int, int]:
    """How many places the fixtures of a rule report, and how many of their programs are to stay without a report."""
    own = FIXTURES / rule.name.replace("-", "_")
    texts = [path.read_text(encoding="utf-8") for path in (own.with_suffix(".py"), *own.glob("*.py")) if path.is_file()]
    cases = [case for text in texts for case in re.split(r"^# case: ", text, flags=re.MULTILINE)[1:]]
    marks = [len(re.findall(rf"#(?: GL\d{{3}})* {rule.code}(?: GL\d{{3}})*$", case, re.MULTILINE)) for case in cases]
    return sum(marks), marks.count(0)


def section(rule: type[Rule]) -> str:
    """What a rule's page says about how well it finds the pitfall."""
    lines = ["## How well it is found\n"]
    known = [(each, each.rules[rule.code]) for each in read() if rule.code in each.rules]
    for each, counts in known:
        rows = {
            "Recall: bugs that are reported": shown(counts.recall),
            "Precision: reports that are right": shown(counts.precision),
            "Right code that looks like it, left alone": counts.left_alone,
        }
        lines += [f"| {_WITNESSES[each.witness].capitalize()} on {each.source} | |", "|---|---|"]
        lines += [f"| {name} | {figure} |" for name, figure in rows.items() if figure != "–"]
        lines.append("")
    if known:
        lines.append("[What these figures tell, and what they do not](../measured.md).\n")
    unmeasured = [_WITNESSES[name] for name in witnesses(rule) if name not in {each.witness for each, _ in known}]
    if unmeasured:
        lines.append(f"Precision and recall of {' and '.join(unmeasured)} are not measured for this rule.\n")
    reported, silent = pinned(rule)
    if reported:
        lines.append(
            f"The tests hold it to {_count(reported, 'place')} that must be reported and "
            f"{_count(silent, 'program')} that must not.\n"
        )
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def tables(rules: Iterable[type[Rule]]) -> str:
    """Every measurement as a table, a row for each rule."""
    names = {rule.code: rule.name for rule in rules}
    parts = []
    for each in read():
        lines = [
            f"## {_WITNESSES[each.witness].capitalize()} on {each.source}\n",
            f"Version {each.version}. {each.caution}\n",
            "| rule | recall | precision | right code left alone |",
            "|---|---|---|---|",
        ]
        total = reduce(Counts.__add__, each.rules.values())
        rows = [(f"[{code}](rules/{names[code]}.md)", counts) for code, counts in sorted(each.rules.items())]
        for label, counts in [("**all**", total), *rows]:
            lines.append(f"| {label} | {shown(counts.recall)} | {shown(counts.precision)} | {counts.left_alone} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
