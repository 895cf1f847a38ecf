"""Trainings of two processes: right ones are not reported, and rank 0 tells what both found."""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gradlint.finding import Finding, Location, Related, Severity
from gradlint.runtime.distributed.ranks import Word, _read, _written, merged
from gradlint.runtime.reporting import World, in_words, told

HERE = Path(__file__).parent
LOOPS = runpy.run_path(str(HERE / "distributed_loops.py"))["LOOPS"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "PYTHONSAFEPATH")}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")


def free_ports(count: int) -> list[str]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [str(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def together(*command: str, **variables: str) -> None:
    """Run a program as two ranks."""
    environment = {**ENVIRONMENT, **variables}
    ranks = [
        subprocess.Popen(
            [sys.executable, *command], env={**environment, "RANK": rank}, stderr=subprocess.PIPE, text=True
        )
        for rank in "01"
    ]
    try:
        errors = [rank.communicate(timeout=300)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors)


# --- trainings -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    target = tmp_path_factory.mktemp("loops") / "outcomes.json"
    together(str(HERE / "distributed_loops.py"), str(target), MASTER_PORT=free_ports(1)[0])
    return json.loads(target.read_text(encoding="utf-8"))


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize("name", LOOPS)
def test_both_ranks_find_what_is_there(outcomes: Any, name: str, exact: bool) -> None:
    findings = outcomes[f"{name} {exact}"]
    assert [(code, ranks) for code, ranks, _ in findings] == [(code, [0, 1]) for code in LOOPS[name][1]], findings


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize("name", ["replicas", "shards", "each alone"])
def test_a_distributed_training_is_bitwise_the_same(outcomes: Any, name: str, exact: bool) -> None:
    assert outcomes[f"{name} the same {exact}"] is True


# --- reports -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """By rank and situation, what was told in it."""
    folder = tmp_path_factory.mktemp("reports")
    together(str(HERE / "distributed_reports.py"), str(folder), *free_ports(16))
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


def test_rank_0_tells_what_both_saw_and_each_keeps_its_own(reports: Any) -> None:
    zero, one = (report["the_group_is_alive"] for report in reports)
    assert (zero["told"], zero["ranks"]) == ([["GL201", [0, 1], 4]], [[0, 1]])
    assert zero["own"] == one["own"] == [["GL201", 2]]
    assert "(4 times, on ranks 0-1)" in zero["report"]
    assert zero["report"].endswith("gradlint: 1 error while it ran on 2 ranks\n")
    assert "seen 4 times on ranks 0-1" in zero["html"]
    assert "charts are those of rank 0" in zero["html"]
    assert zero["stderr"].count("FindingWarning") == zero["stderr"].count("while it ran on 2 ranks") == 1
    assert one["stderr"] == ""
    assert one["report"].endswith("gradlint: 1 error while it ran on rank 1 of 2\n")


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        ("one_rank_is_wrong", [["GL109", [1]]]),
        ("the_group_is_destroyed_inside", [["GL201", [0, 1]]]),
        ("the_group_begins_anew_inside", [["GL201", [0, 1]]]),
        ("the_group_meets_in_a_file", [["GL201", [0, 1]]]),
        ("a_function_that_is_watched", [["GL201", [0, 1]]]),
        ("a_rank_raises", [["GL201", [0, 1]]]),
    ],
)
def test_there_is_one_report(reports: Any, situation: str, told: list[Any]) -> None:
    zero, one = (report[situation] for report in reports)
    assert [finding[:2] for finding in zero["told"]] == told
    assert zero["stderr"].count("while it ran on 2 ranks") == 1
    assert "heard" not in zero["stderr"]
    assert one["stderr"] == ""


def test_nothing_runs_on_after_the_report(reports: Any) -> None:
    assert [report["the_group_is_destroyed_inside"]["threads"] for report in reports] == [[], []]


def test_a_rank_that_cannot_reach_rank_0_tells_by_itself(reports: Any) -> None:
    zero, one = (report["the_group_met_in_a_file_and_is_gone"]["stderr"] for report in reports)
    assert "gradlint: nothing was heard from rank 1\n" in zero
    assert one.endswith("gradlint: 1 error while it ran on rank 1 of 2\n")


def test_guards_of_one_program_are_told_apart(reports: Any) -> None:
    notes = reports[0]["guards_beside_each_other"]
    assert notes["told"] == [
        [["GL201", [0, 1], 2], ["GL109", [1], 1]],
        [["GL109", [1], 1]],
        [["GL201", [0, 1], 2], ["GL109", [1], 1]],
    ]
    assert [finding[:2] for finding in notes["outer"]] == [["GL109", [1]]]


def test_a_guard_of_one_rank_waits_for_the_others_once_and_not_long(reports: Any) -> None:
    first, *later = reports[0]["only_rank_0_has_a_guard"]["seconds"]
    assert first < 10
    assert max(later) < 1
    assert "gradlint: nothing was heard from rank 1\n" in reports[0]["only_rank_0_has_a_guard"]["stderr"]


def test_a_dead_rank_is_told_with_what_it_had_left(reports: Any) -> None:
    notes = reports[0]["a_rank_dies"]
    assert [finding[:2] for finding in notes["told"]] == [["GL201", [0, 1]], ["GL109", [1]]]
    assert 3 <= notes["seconds"] < 10
    assert "gradlint: no end was heard from rank 1 within 3 s: told is what came before\n" in notes["stderr"]
    assert notes["stderr"].endswith("gradlint: 1 error and 1 warning while it ran on 2 ranks\n")


PROGRAM = """
    import os, sys, torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        model(torch.randn(8, 2, requires_grad=rank == 1)).square().mean().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()
"""


def test_a_program_under_torchrun_has_one_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-port", free_ports(1)[0], "-m", "gradlint", "run"]
    options = ["--html", "report.html", "--output-file", "report.json", "--output-format", "json", "train.py"]
    done = subprocess.run(
        [*torchrun, *options], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert [line.split(": ")[2][:5] for line in done.stderr.splitlines() if line.startswith("gradlint: ")] == ["GL201"]
    findings = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [(finding["code"], finding["ranks"], finding["location"]["row"]) for finding in findings] == [
        ("GL201", [0, 1], 11),
        ("GL109", [1], 11),
    ]
    assert findings[0]["count"] == 10
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "while it ran on 2 ranks" in page
    assert "on rank 1</span>" in page


# --- words ---------------------------------------------------------------------------------------------------------


def finding(row: int, count: int = 1) -> Finding:
    place = Location("train.py", row, 5, row, 9)
    related = (Related("here", Location("other.py", 2)),)
    return Finding("GL201", "missing-zero-grad", "so", Severity.ERROR, place, related, "do", cause=place, count=count)


def test_what_a_rank_leaves_is_read_as_it_was() -> None:
    word = Word((finding(1, 3), finding(2)), ended=True)
    assert _read(_written(word)) == word
    assert repr(_read(_written(word))) == repr(word)


def test_where_a_package_is_called_is_read_as_it_was() -> None:
    inside = replace(finding(1), library="shoddy", inside=Location("shoddy.py", 7, 1, 7, 2))
    elsewhere = replace(inside, inside=Location("shoddy.py", 9, 1, 9, 2))
    (read, other) = _read(_written(Word((inside, elsewhere), ended=True))).findings
    assert (read.library, read.inside, other.inside) == ("shoddy", inside.inside, elsewhere.inside)
    assert [one.ranks for one in merged([read], {1: Word((read, other), True)})] == [(0, 1), (1,)]


def test_findings_of_several_ranks_are_told_once() -> None:
    all_of_them = merged([finding(3), finding(1, 2)], {2: Word((finding(1, 5), finding(2)), True), 1: Word((), True)})
    assert [(one.location.row, one.ranks, one.count) for one in all_of_them] == [
        (3, (0,), 1),
        (1, (0, 2), 7),
        (2, (2,), 1),
    ]


@pytest.mark.parametrize(
    ("ranks", "words"), [([3], "rank 3"), ([0, 1], "ranks 0-1"), ([0, 1, 2, 5, 7, 8], "ranks 0-2, 5, 7-8")]
)
def test_ranks_in_words(ranks: list[int], words: str) -> None:
    assert in_words(ranks) == words


def test_annotations_tell_of_missing_ranks() -> None:
    world = World(4, absent=(1, 2), unfinished=(3,), patience=2.5)
    assert told([], "github", Path(), world=world).splitlines() == [
        "::warning title=gradlint::nothing was heard from ranks 1-2",
        "::warning title=gradlint::no end was heard from rank 3 within 2.5 s: told is what came before",
    ]
