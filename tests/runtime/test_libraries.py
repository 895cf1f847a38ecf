"""Findings in code of installed packages: told where the user's code calls it, and only where they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import gradlint
from gradlint.finding import Finding, Location
from gradlint.runtime import Guard

#: A package that never clears gradients, and gives probabilities to cross-entropy where its model does.
PACKAGE = """
import torch


def fit(model, steps=3, loss=lambda output: output.pow(2).mean()):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        output = model(torch.ones(4, 2))
        loss(output).backward()
        optimizer.step()


def again(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()


def both(model):
    fit(model)
    again(model)


def classify(model):
    target = torch.zeros(4, dtype=torch.long)
    torch.nn.functional.cross_entropy(model(torch.ones(4, 2)), target).backward()
"""

LEFT_OUT = "gradlint: 1 finding in installed packages left out (1 in shoddy): {option} tells them\n"


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, with one in it."""
    folder = tmp_path / "env" / "site-packages"
    package = folder / "shoddy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE, encoding="utf-8")
    (package / "__main__.py").write_text("import torch, shoddy\nshoddy.fit(torch.nn.Linear(2, 1))\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("shoddy", None)


def watched(folder: Path, source: str, **options: Any) -> Guard:
    """The guard of a program of the user's."""
    path = folder / "train.py"
    path.write_text(source, encoding="utf-8")
    torch.manual_seed(0)
    with gradlint.guard(**{"on_finding": "collect", **options}) as guard:
        exec(compile(source, str(path), "exec"), {"__name__": "train"})  # noqa: S102  our own
    return guard


FIT = "import torch, shoddy\nmodel = torch.nn.Linear(2, 1)\nshoddy.fit(model)\n"


def where(place: Location) -> tuple[str, int]:
    return Path(place.filename).name, place.row


def story(finding: Finding) -> list[tuple[str, tuple[str, int]]]:
    return [(other.message, where(other.location)) for other in finding.related]


def test_what_a_package_does_is_only_counted(tmp_path: Path) -> None:
    guard = watched(tmp_path, FIT)
    assert guard.findings == json.loads(guard.report("json")) == []
    (left_out,) = guard.library_findings
    assert (left_out.code, left_out.library, where(left_out.location)) == ("GL201", "shoddy", ("train.py", 3))
    left_out_line = LEFT_OUT.format(option="include_libraries=True")
    assert guard.report() == f"{left_out_line}gradlint: no findings while it ran\n"
    assert "1 more in code of installed packages" in guard.report("html")


def test_a_guard_that_warns_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    watched(tmp_path, FIT, on_finding="warn")
    assert capsys.readouterr().err == LEFT_OUT.format(option="include_libraries=True")
    assert not [warning for warning in recwarn if issubclass(warning.category, gradlint.runtime.FindingWarning)]


def test_it_ends_no_training(tmp_path: Path) -> None:
    assert len(watched(tmp_path, FIT, on_finding="raise").library_findings) == 1


def test_it_is_told_on_request_at_the_call_of_the_user(tmp_path: Path) -> None:
    guard = watched(tmp_path, FIT, include_libraries=True)
    assert guard.library_findings == []
    (finding,) = guard.findings
    assert (finding.code, finding.library, finding.count) == ("GL201", "shoddy", 2)
    assert finding.location == Location(str(tmp_path / "train.py"), 3, 1, 3, 18)
    assert story(finding) == [
        ("in shoddy, called from there", ("__init__.py", 9)),
        ("they were applied here", ("__init__.py", 10)),
    ]
    (told,) = json.loads(guard.report("json"))
    assert told["library"] == "shoddy"


def test_a_story_with_the_users_code_in_it_is_the_users(tmp_path: Path) -> None:
    source = """import torch, shoddy
class Net(torch.nn.Linear):
    def forward(self, x):
        return torch.softmax(super().forward(x), dim=1)
shoddy.classify(Net(2, 3))
"""
    guard = watched(tmp_path, source)
    (finding,) = guard.findings
    assert (finding.code, finding.library, where(finding.location)) == ("GL301", "", ("train.py", 5))
    assert [place for _, place in story(finding)] == [("__init__.py", 27), ("train.py", 4)]


def test_numbers_that_overflow_are_the_users_whoever_computes_them(tmp_path: Path) -> None:
    call = "shoddy.fit(model, steps=1, loss=lambda output: output.sum() * float('inf'))"
    guard = watched(tmp_path, FIT.replace("shoddy.fit(model)", call))
    (finding,) = guard.findings
    assert (finding.code, where(finding.location)) == ("GL701", ("train.py", 3))


def test_what_the_user_does_in_a_callback_is_the_users(tmp_path: Path) -> None:
    source = """import torch, shoddy
def loss(output):
    for _ in range(2):
        own(output.detach()).sum().backward()
        optimizer.step()
    return output.sum()
own = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
shoddy.fit(torch.nn.Linear(2, 1), steps=1, loss=loss)
"""
    guard = watched(tmp_path, source)
    (finding,) = guard.findings
    assert (finding.code, finding.inside, where(finding.location)) == ("GL201", None, ("train.py", 4))


def test_two_places_of_a_package_that_one_call_leads_to_are_two(tmp_path: Path) -> None:
    guard = watched(tmp_path, FIT.replace("fit", "both"), include_libraries=True)
    assert [where(finding.location) for finding in guard.findings] == [("train.py", 3)] * 2
    assert [story(finding)[0][1] for finding in guard.findings] == [("__init__.py", 9), ("__init__.py", 16)]
    assert len(watched(tmp_path, FIT.replace("fit", "both")).library_findings) == 2


def test_findings_in_packages_come_after_those_in_the_users_code(tmp_path: Path) -> None:
    own = (
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor _ in range(2):\n    model(torch.ones(1, 2)).sum()"
    )
    guard = watched(tmp_path, f"{FIT}{own}.backward()\n    optimizer.step()\n", include_libraries=True)
    lines = guard.report("concise").splitlines()
    assert [line.rpartition("train.py:")[2].partition(":")[0] for line in lines[:2]] == ["6", "3"]


def run(folder: Path, *arguments: str) -> str:
    """What ``gradlint run`` says of the program in ``folder``."""
    command = [sys.executable, "-m", "gradlint", "run", *arguments]
    environment = {"PYTHONPATH": str(folder / "env" / "site-packages"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stderr


def test_the_command_line_brings_them_and_comments_hold_where_they_are_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{FIT}shoddy.again(model)  # noqa: GL201\n", encoding="utf-8")
    left_out_line = LEFT_OUT.format(option="--include-libraries")
    assert run(tmp_path, "--html", "report.html", "train.py") == f"{left_out_line}gradlint: no findings while it ran\n"
    assert "1 more in code of installed packages" in (tmp_path / "report.html").read_text(encoding="utf-8")
    told = run(tmp_path, "--include-libraries", "--on-finding", "collect", "train.py")
    assert told.startswith("train.py:3:1: GL201 [missing-zero-grad]")


def test_a_package_that_is_the_program_is_the_users(tmp_path: Path) -> None:
    told = run(tmp_path, "--on-finding", "collect", "-m", "shoddy")
    assert "GL201 [missing-zero-grad]" in told
    assert "left out" not in told
