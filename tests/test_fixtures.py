"""Every rule on small programs: the findings are exactly the marks at the ends of the lines.

A file of ``fixtures/`` holds the cases of the rule it is named after. ``# case: NAME`` starts a case, a project of its
own; ``# file: PATH`` lines divide it into files (without one it is ``main.py``). A comment such as ``# GL301`` ends the
line of a finding's primary location. ``# not run: REASON`` under the head of a case keeps it from being executed; the
others run under torch, to prove that they are programs, and that those marked with a code that raises do raise.
"""

from __future__ import annotations

import re
import runpy
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gradlint.manual import witnesses
from gradlint.rule import all_rules

FIXTURES = Path(__file__).parent / "fixtures"
MARK = re.compile(r"#((?: GL\d{3})+)$")
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


@dataclass
class Case:
    """A project of a few files, with the codes expected at its lines."""

    slug: str
    name: str
    not_run: bool = False
    files: dict[str, str] = field(default_factory=dict)

    @property
    def marks(self) -> list[tuple[str, int, str]]:
        """(file, row, code) of each finding that is expected."""
        return sorted(
            (name, row, code)
            for name, text in self.files.items()
            for row, line in enumerate(text.splitlines(), 1)
            if (found := MARK.search(line))
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


def cases_of(path: Path) -> list[Case]:
    """The cases of a fixture file, in order."""
    _, *sections = re.split(r"^# case: ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    cases = []
    for section in sections:
        name, _, text = section.partition("\n")
        case = Case(path.stem, name.strip(), not_run=text.startswith("# not run: "))
        first, *files = re.split(r"^# file: (.+)\n", text, flags=re.MULTILINE)
        case.files = dict(zip(files[::2], files[1::2], strict=True)) if files else {"main.py": first}
        cases.append(case)
    return cases


CASES = [case for path in sorted(FIXTURES.glob("*.py")) for case in cases_of(path)]
#: a fixture of a rule that only the guard sees shows nothing to the linter
LINTED = [
    case
    for case in CASES
    if any(rule.name.replace("-", "_") == case.slug and "static" in witnesses(rule) for rule in all_rules())
]
NAMES = [f"{case.slug}-{case.name}" for case in CASES]


def test_cases_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_fixtures_belong_to_rules() -> None:
    assert {case.slug for case in CASES} <= {rule.name.replace("-", "_") for rule in all_rules()}


@pytest.mark.parametrize("case", LINTED, ids=[f"{case.slug}-{case.name}" for case in LINTED])
def test_findings_are_exactly_the_marks(case: Case, tmp_path: Path) -> None:
    from gradlint.static.drive.analysis import analyze
    from gradlint.static.text.project import Project

    rules = [rule for rule in all_rules() if rule.default() or rule.name.replace("-", "_") == case.slug]
    findings = analyze(Project([tmp_path]), case.write(tmp_path), rules).findings
    assert [
        (Path(finding.location.filename).relative_to(tmp_path).as_posix(), finding.location.row, finding.code)
        for finding in sorted(findings, key=lambda finding: finding.sort_key)
    ] == case.marks


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not case.not_run],
    ids=[name for name, case in zip(NAMES, CASES, strict=True) if not case.not_run],
)
def test_the_case_is_a_program(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="running the fixtures needs torch")
    torch.manual_seed(1)  # what a loss refuses depends on the numbers
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    raises = any(code in RAISING for _, _, code in case.marks)
    try:
        with pytest.raises((AttributeError, RuntimeError, TypeError)) if raises else nullcontext():
            runpy.run_path("main.py", run_name="__main__")
    finally:
        own = {path.split("/")[0].removesuffix(".py") for path in case.files}
        for name in set(sys.modules) - before:
            if name.split(".")[0] in own:
                del sys.modules[name]
