"""The cases of the fixtures: small programs, each with the codes that are expected at the ends of its lines.

What shows one rule is a file of ``tests/fixtures/`` that is named after it, or a folder of such files, one for each
kind of program. ``# case: NAME`` starts a case, a project of its own; ``# file: PATH`` lines divide it into files
(without one it is ``main.py``). A comment such as ``# GL301`` ends the line of a finding's primary location.
``# not run: REASON`` under the head of a case keeps it from being executed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gradlint.manual import witnesses
from gradlint.rule import all_rules

#: what a program raises that makes the mistake
RAISING = {
    "GL103",
    "GL104",
    "GL105",
    "GL107",
    "GL203",
    "GL207",
    "GL208",
    "GL213",
    "GL304",
    "GL402",
    "GL501",
    "GL502",
    "GL506",
    "GL603",
}

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
_MARK = re.compile(r"#((?: GL\d{3})+)$")


@dataclass
class Case:
    """A project of a few files, with the codes expected at its lines."""

    slug: str  #: the name of the rule, with underscores
    name: str
    text: str  #: all of it but its head
    files: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        first, *files = re.split(r"^# file: (.+)\n", self.text, flags=re.MULTILINE)
        self.files = dict(zip(files[::2], files[1::2], strict=True)) if files else {"main.py": first}

    @property
    def id(self) -> str:
        """What it is called among the cases of all rules."""
        return f"{self.slug}-{self.name}"

    @property
    def not_run(self) -> bool:
        """Whether it is not to be executed."""
        return self.text.startswith("# not run: ")

    @property
    def alone(self) -> bool:
        """Whether it is one file, ``main.py``."""
        return list(self.files) == ["main.py"]

    @property
    def marks(self) -> list[tuple[str, int, str]]:
        """(file, row, code) of each finding that is expected."""
        return sorted(
            (name, row, code)
            for name, text in self.files.items()
            for row, line in enumerate(text.splitlines(), 1)
            if (found := _MARK.search(line))
            for code in found[1].split()
        )

    def write(self, folder: Path) -> list[Path]:
        """The paths of the files of the case, written under ``folder``."""
        paths = []
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return paths


@cache
def sources() -> dict[str, list[Path]]:
    """The files that hold the cases of each rule."""
    found: dict[str, list[Path]] = {}
    for path in sorted(FIXTURES.rglob("*.py")):
        found.setdefault(path.relative_to(FIXTURES).parts[0].removesuffix(".py"), []).append(path)
    return found


@cache
def cases_of(slug: str) -> list[Case]:
    """The cases of a rule, in order."""
    found = []
    for path in sources()[slug]:
        _, *sections = re.split(r"^# case: ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for section in sections:
            name, _, text = section.partition("\n")
            found.append(Case(slug, name.strip(), text))
    return found


def linted_slugs() -> list[str]:
    """The rules whose cases show the linter something: all but those that only the guard sees."""
    linted = {rule.name.replace("-", "_") for rule in all_rules() if "static" in witnesses(rule)}
    return [slug for slug in sources() if slug in linted]


def all_cases() -> list[Case]:
    """The cases of all rules."""
    return [case for slug in sources() for case in cases_of(slug)]
