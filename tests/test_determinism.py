"""The same findings under every hash seed, and in whatever order the files are given."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent / "example_project"


def findings(*paths: Path, seed: int = 0) -> list[object]:
    command = [
        sys.executable,
        "-m",
        "gradlint",
        "--isolated",
        "--select",
        "ALL",
        "--output-format",
        "json",
        *map(str, paths),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=PROJECT.parent)
    assert done.returncode == 1, done.stderr
    found: list[object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def expected() -> list[object]:
    return findings(PROJECT)


@pytest.mark.parametrize("seed", range(1, 11))
def test_hash_seeds_change_nothing(seed: int, expected: list[object]) -> None:
    assert findings(PROJECT, seed=seed) == expected


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_files_changes_nothing(seed: int, expected: list[object]) -> None:
    files = sorted(PROJECT.glob("*.py"))
    random.Random(seed).shuffle(files)  # noqa: S311 -- nothing secret about an order
    assert findings(*files) == expected
