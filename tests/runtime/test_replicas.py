"""Programs of two ranks whose parameters are to be the same on both, and others: what the guard of rank 0 tells."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fixture_cases import cases_of

from gradlint.rule import all_rules

HERE = Path(__file__).parent
PREAMBLE = (HERE.parent / "preamble.py").read_text(encoding="utf-8")
PAGE = next(rule for rule in all_rules() if rule.code == "GL706").page()
MARK = re.compile(r"# (GL\d{3})$")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "PYTHONSAFEPATH")}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")


def programs() -> dict[str, str]:
    """The cases of the rule that take two ranks, and the examples of its page."""
    cases = cases_of("ranks_diverge")
    found = {case.name: case.text for case in cases if case.text.startswith("# not run: it takes two ranks")}
    for heading in ("Example", "Use instead"):
        example = re.search(rf"^## {heading}\n```python\n(.*?)```$", PAGE, re.DOTALL | re.MULTILINE)
        assert example
        shard = (
            "torch.manual_seed(torch.distributed.get_rank())\nfor x, y in [(torch.randn(4, 8), y) for _, y in loader]"
        )
        text = example[1].replace("for x, y in loader", shard)
        if heading == "Example":
            text = text.replace("optimizer.step()", "optimizer.step()  # GL706")
        found[heading] = f"{PREAMBLE}\n\n{text}"
    return found


PROGRAMS = programs()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """By rank and program, what was told in it."""
    folder = tmp_path_factory.mktemp("programs")
    for number, text in enumerate(PROGRAMS.values()):
        (folder / f"{number:03}.py").write_text(text, encoding="utf-8")
    target = tmp_path_factory.mktemp("outcomes")
    command = [sys.executable, str(HERE / "programs_of_two_ranks.py"), str(target), str(folder)]
    ranks = [
        subprocess.Popen(command, env={**ENVIRONMENT, "RANK": rank}, stderr=subprocess.PIPE, text=True) for rank in "01"
    ]
    try:
        errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors)
    return [json.loads((target / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=list(PROGRAMS))
def test_rank_0_tells_where_ranks_come_apart(outcomes: Any, number: int) -> None:
    text = list(PROGRAMS.values())[number]
    marks = [[found[1], row] for row, line in enumerate(text.splitlines(), 1) if (found := MARK.search(line))]
    zero, one = (outcome[f"{number:03}"] for outcome in outcomes)
    assert [entry[:2] for entry in zero["found"]] == marks
    assert one["found"] == []
    assert not zero["failed"]
    assert not one["failed"]


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=list(PROGRAMS))
def test_nothing_is_left_in_the_store(outcomes: Any, number: int) -> None:
    zero, one = (outcome[f"{number:03}"] for outcome in outcomes)
    left = [key for key in one["put"] if key.startswith("replicas/")]
    assert set(left) <= set(zero["dropped"])
