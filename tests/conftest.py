"""What needs torch, what tests must not leave in the home folder, and stand-ins.

One stands in for the static tracer, so that the linter around it is tested by itself; another for an ordinary user,
because tests are run by root in many a container, who may read and write everything.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gradlint.engine import syntax_errors
from gradlint.finding import Finding
from gradlint.rule import Rule

if importlib.util.find_spec("torch") is None:  # the linter works without it, and so do the other tests
    collect_ignore_glob = ["runtime/*", "benchmarks/*", "test_torch_table*.py"]


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where programs keep what the user need not see: the key of the cache."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_arguments() -> Iterator[None]:
    """Programs that tests run are started without arguments, whatever the tests were started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", sys.argv[:1])
        yield


_CAPABILITIES = (0, 1, 2, 3)  #: to own, to write, to read and to change what belongs to others, of linux/capability.h
_DROP = 24  #: PR_CAPBSET_DROP


def _become_ordinary() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _CAPABILITIES:
        if libc.prctl(_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "capabilities of root cannot be dropped")


@pytest.fixture
def as_ordinary_user() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs gradlint in a process to which permissions apply; root keeps its name there, and nothing else."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root and not sys.platform.startswith("linux"):
        pytest.skip("only on Linux can root be told to heed permissions")

    def run(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gradlint", *arguments],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            preexec_fn=_become_ordinary if is_root else None,
            **options,
        )

    return run


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Puts a tracer in place that reports every ``GLnnn`` in a string and fails at ``crash``; returns its calls."""
    calls: list[dict[str, Any]] = []

    class Project:
        importers_left_out: frozenset[Path] = frozenset()

        def __init__(self, roots: Sequence[Path], read: Callable[[Path], Any], disk: Any) -> None:
            self.roots, self.read, self.disk = roots, read, disk

        def module(self, path: Path) -> types.SimpleNamespace:
            source = self.read(path)
            for error in () if source.is_notebook else syntax_errors(source):
                raise error
            return types.SimpleNamespace(source=source)

        def importers_of(self, paths: Sequence[Path]) -> list[Path]:
            return []

        def components(self, paths: Sequence[Path]) -> list[list[Path]]:
            return [list(paths)]

        def size(self, path: Path) -> int:
            return 1

        def apart(self) -> Project:
            return self

        def footprint(self) -> None:
            return None

    def analyze(
        project: Project,
        targets: Sequence[Path],
        rules: Sequence[type[Rule]],
        _callers: Sequence[Path],
        **_options: Any,
    ) -> types.SimpleNamespace:
        calls.append({"targets": list(targets), "rules": {rule.code for rule in rules}})
        by_code = {rule.code: rule for rule in rules}
        findings = []
        for target in targets:
            source = project.read(target)
            if "crash" in source.text:
                raise ZeroDivisionError("as asked")
            for row, line in enumerate(source.text.splitlines(), 1):
                for match in re.finditer(r'"(GL\d{3})"', line):
                    rule = by_code.get(match[1])
                    if rule:
                        where = source.location(row, match.start() + 1, row, match.end() + 1)
                        findings.append(
                            Finding(rule.code, rule.name, "as asked", rule.severity, where, effect=rule.effect)
                        )
        return types.SimpleNamespace(
            findings=findings, rejected=[], notes=["a note of the tracer"], crashes=[], ended_by=None
        )

    monkeypatch.setitem(sys.modules, "gradlint.static.drive.analysis", types.SimpleNamespace(analyze=analyze))
    monkeypatch.setitem(sys.modules, "gradlint.static.text.project", types.SimpleNamespace(Project=Project))
    return calls


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Counts the statements that the tracer executes while something is done."""
    from gradlint.static.python.budget import Budget

    def count(act: Callable[[], object]) -> int:
        taken = 0
        tick = Budget.tick

        def counting(budget: Budget) -> None:
            nonlocal taken
            taken += 1
            tick(budget)

        with monkeypatch.context() as patch:
            patch.setattr(Budget, "tick", counting)
            act()
        return taken

    return count
