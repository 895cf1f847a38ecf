"""What needs torch, and a stand-in for the static tracer, so that the linter around it is tested by itself."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gradlint.engine import syntax_errors
from gradlint.finding import Finding
from gradlint.rule import Rule

if importlib.util.find_spec("torch") is None:  # the linter works without it, and so do the other tests
    collect_ignore_glob = ["runtime/*", "benchmarks/*", "test_torch_table*.py"]


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Puts a tracer in place that reports every ``GLnnn`` in a string and fails at ``crash``; returns its calls."""
    calls: list[dict[str, Any]] = []

    class Project:
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
        project: Project, targets: Sequence[Path], rules: Sequence[type[Rule]], _callers: Sequence[Path]
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
                        findings.append(Finding(rule.code, rule.name, "as asked", rule.severity, where))
        return types.SimpleNamespace(findings=findings, rejected=[], notes=["a note of the tracer"], crashes=[])

    monkeypatch.setitem(sys.modules, "gradlint.static.drive.analysis", types.SimpleNamespace(analyze=analyze))
    monkeypatch.setitem(sys.modules, "gradlint.static.text.project", types.SimpleNamespace(Project=Project))
    return calls
