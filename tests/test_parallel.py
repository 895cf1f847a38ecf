"""Several processes find what one does, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from fixture_cases import cases_of

from gradlint import parallel
from gradlint.cache import Cache
from gradlint.cli import main
from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.static.drive import analysis

EXAMPLE = Path(__file__).parent / "example_project"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Programs that have nothing to do with each other, in folders of their own, and a package."""
    number = 0
    for slug in ("missing_zero_grad", "softmax_before_cross_entropy", "numpy_on_grad", "unregistered_modules"):
        for case in cases_of(slug)[::3]:
            if case.alone:
                number += 1
                folder = tmp_path / "tree" / f"program_{number}"
                folder.mkdir(parents=True)
                (folder / f"program_{number}.py").write_text(case.text, encoding="utf-8")
    shutil.copytree(EXAMPLE, tmp_path / "tree" / "package")
    assert number > parallel.MANY
    return tmp_path / "tree"


def run(tree: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main(["--isolated", "--no-cache", "--select", "ALL", *options, str(tree)])
    return (code, *capsys.readouterr())


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_the_number_of_processes_does_not_show(
    tree: Path, capsys: pytest.CaptureFixture[str], output_format: str
) -> None:
    alone = run(tree, capsys, "--output-format", output_format, "--jobs", "1")
    assert alone[0] == 1
    assert len(alone[1]) > 1000
    for jobs in ("2", "4"):
        assert run(tree, capsys, "--output-format", output_format, "--jobs", jobs) == alone


def test_the_work_is_shared(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parents = []

    def analyze(project: object, targets: list[Path], *_rest: object) -> object:
        parents.append((os.getpid(), list(targets)))
        return genuine(project, targets, *_rest)  # type: ignore[arg-type]

    genuine = analysis.analyze
    monkeypatch.setattr(analysis, "analyze", analyze)
    targets = sorted(tree.rglob("*.py"))
    report = Engine(Configuration(isolated=True), jobs=3).check(targets, [tree])
    assert report.findings
    assert {process for process, _ in parents} == {os.getpid()}
    mine = [path for _, part in parents for path in part]  # the other calls happened elsewhere
    assert 0 < len(mine) < len(targets) / 2


def test_connected_files_stay_together(tree: Path) -> None:
    engine = Engine(Configuration(isolated=True))
    targets = sorted(tree.rglob("*.py"))
    project = engine._project([tree], lambda path: pytest.fail(f"{path} is read"))
    groups = project.components(targets)
    assert sorted(path for group in groups for path in group) == targets
    package = {path for path in targets if "package" in path.parts and path.name in ("train.py", "model.py")}
    assert [group for group in groups if package & set(group)] == [group for group in groups if package <= set(group)]


def test_a_process_that_dies_costs_no_finding(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = run(tree, capsys, "--jobs", "1")
    monkeypatch.setattr(parallel, "_work", lambda *_arguments: os._exit(9))
    assert run(tree, capsys, "--jobs", "3") == alone


def test_what_other_processes_read_counts_for_the_cache(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tree.parent / "results"
    command = ["--isolated", "--cache-dir", str(folder), "--output-format", "json", "--jobs", "3", str(tree)]
    main(command)
    before = json.loads(capsys.readouterr().out)
    victim = Path(before[-1]["filename"])
    victim.write_text("import torch\n")
    main(command)
    after = json.loads(capsys.readouterr().out)
    assert {entry["filename"] for entry in before} - {entry["filename"] for entry in after} == {str(victim)}
    assert Cache(str(folder)).clean()


def test_few_files_need_one_process() -> None:
    assert parallel.jobs_for(parallel.MANY - 1) == 1
    assert parallel.jobs_for(parallel.MANY) >= 1
